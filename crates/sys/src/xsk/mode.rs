//! The choice between a copy of each frame by the kernel, and none.

/// Places that a driver without copies receives into: as many as the receive ring of a usual card has, and more. It uses
/// each of them again when it has passed the frame on.
pub(super) const RECEIVE_PLACES: u32 = 2048;

/// A request for sending without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ZeroCopy {
    /// The kernel copies each frame. The card's receive queue stays as it is.
    #[default]
    Never,
    /// No copy where the driver can do it, else a copy. The card may take its link down for a moment.
    IfPossible,
    /// No copy, or an error.
    Only,
}

impl ZeroCopy {
    /// Returns the flags of the socket's address.
    pub(super) const fn flags(self) -> u16 {
        match self {
            Self::Never => libc::XDP_COPY,
            // The kernel then tries without a copy first.
            Self::IfPossible => 0,
            Self::Only => libc::XDP_ZEROCOPY,
        }
    }
}
