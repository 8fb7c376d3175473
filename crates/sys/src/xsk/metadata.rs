//! Transmit metadata: what lies in the shared memory in front of a frame, and asks the driver for more than to send it.
//!
//! The layout is the kernel's `struct xsk_tx_metadata` (`include/uapi/linux/if_xdp.h`), on machines of 64 bits.

use std::mem::offset_of;

/// As far as a launch time needs it; the fields between are those of a checksum, which nobody here asks for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Metadata {
    /// What is asked for: [`LAUNCH_TIME`].
    flags: u64,
    checksum: [u16; 2],
    unused: u32,
    /// ns of the card's own clock.
    launch_ns: u64,
}

// What the kernel reads at these places; the registration takes a length that eight divides.
const _: () = assert!(
    size_of::<Metadata>() == 24
        && offset_of!(Metadata, flags) == 0
        && offset_of!(Metadata, checksum) == 8
        && offset_of!(Metadata, launch_ns) == 16
);

/// `XDP_TXMD_FLAGS_LAUNCH_TIME`, which `libc` does not have. Since Linux 6.15; earlier kernels refuse the frame (`EINVAL`).
const LAUNCH_TIME: u64 = 1 << 2;

impl Metadata {
    /// Octets in front of each frame.
    pub(super) const OCTETS: usize = size_of::<Self>();

    /// Asks that the frame leaves at this time.
    pub(super) const fn launch_at(launch_ns: u64) -> Self {
        Self {
            flags: LAUNCH_TIME,
            checksum: [0; 2],
            unused: 0,
            launch_ns,
        }
    }

    /// Asks for what no kernel knows.
    #[cfg(test)]
    pub(super) const fn unknown_request() -> Self {
        Self {
            flags: 1 << 40,
            ..Self::launch_at(0)
        }
    }
}
