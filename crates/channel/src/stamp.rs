//! The place where the arrival of a value was stamped.

/// The place that stamped the arrival of a value. Every stamp is in ns of CLOCK_TAI. The earlier the place, the less of what
/// delays a reader is in the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StampPlace {
    /// The card, on the wire, by its own clock; converted to CLOCK_TAI ([`rtwire_link::card_time`]).
    Card,
    /// The receive program, in the interface's driver (mode native) or right behind it (mode generic).
    Program,
    /// The kernel, when it took the frame over from the driver; or the kernel module `uman`.
    Kernel,
    /// The reader, when it fetched the value: no other stamp was there. It is later than the arrival, by an unknown time.
    Reader,
}

impl StampPlace {
    /// Returns `true` if the stamp was taken on the frame's way, whenever the reader came.
    #[must_use]
    pub const fn is_on_the_way(self) -> bool {
        !matches!(self, Self::Reader)
    }
}
