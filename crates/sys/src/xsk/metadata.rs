//! Transmit metadata: a request to the driver, in the shared memory in front of a frame.
//!
//! The layout is the kernel's `struct xsk_tx_metadata` (`include/uapi/linux/if_xdp.h`), on 64-bit processors.

use std::mem::offset_of;

/// The part that a launch time needs. The fields between are those of a checksum, which is not used here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Metadata {
    /// The requests: [`LAUNCH_TIME`].
    flags: u64,
    checksum: [u16; 2],
    unused: u32,
    /// The launch time, ns of the card's own clock.
    launch_ns: u64,
}

// The places that the kernel reads; the registration takes a length that is a multiple of eight.
const _: () = assert!(
    size_of::<Metadata>() == 24
        && offset_of!(Metadata, flags) == 0
        && offset_of!(Metadata, checksum) == 8
        && offset_of!(Metadata, launch_ns) == 16
);

/// `XDP_TXMD_FLAGS_LAUNCH_TIME`, missing in `libc`. Since Linux 6.15; earlier kernels refuse the frame (`EINVAL`).
const LAUNCH_TIME: u64 = 1 << 2;

impl Metadata {
    /// Bytes in front of each frame.
    pub(super) const OCTETS: usize = size_of::<Self>();

    /// Requests that the frame leaves at this time.
    pub(super) const fn launch_at(launch_ns: u64) -> Self {
        Self {
            flags: LAUNCH_TIME,
            checksum: [0; 2],
            unused: 0,
            launch_ns,
        }
    }

    /// Makes a request that no kernel knows.
    #[cfg(test)]
    pub(super) const fn unknown_request() -> Self {
        Self {
            flags: 1 << 40,
            ..Self::launch_at(0)
        }
    }
}
