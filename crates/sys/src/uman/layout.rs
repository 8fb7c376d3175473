//! The module's interface in numbers: `kernel/uman/include/uman_abi.h`.

use super::UmanFilter;

/// The version of the interface that this library knows.
pub const ABI_VERSION: u32 = 1;
/// The bytes of the longest frame.
pub const FRAME_OCTETS: usize = 1518;
/// The most replies of an attachment.
pub const REPLIES_MOST: u32 = 64;
/// The most entries of the ring.
pub const RING_MOST: u32 = 4096;
/// The most cyclic frames of an attachment.
pub const CYCLIC_MOST: u32 = 16;
/// The greatest lease.
pub const LEASE_MOST: u32 = 1_000_000;

/// `enum uman_state`.
pub(super) const ON: u32 = 1;
pub(super) const LEASE_ENDED: u32 = 2;
pub(super) const DEVICE_GONE: u32 = 3;

const KIND_RING: u32 = 3;
const FILTER_DESTINATION: u16 = 0x1;

pub(super) const RECEIVED_TAGGED: u16 = 0x1;
pub(super) const RECEIVED_ANSWERED: u16 = 0x2;

const BUFFERS: u32 = 4;

// Words of `struct uman_shared`: (version, state), (ring_head, confirm_head), ring_lost, …, (ring_tail, confirm_tail).
pub(super) const SHARED_STATE: usize = 0;
pub(super) const RING_HEAD: usize = 1;
pub(super) const RING_LOST: usize = 2;
pub(super) const RING_TAIL: usize = 8;

// Words of `struct uman_outgoing`: (generation, renewed), (state, lease_left), sent, failed, …; then the buffers.
pub(super) const OUTGOING_STATE: usize = 1;
pub(super) const OUTGOING_SENT: usize = 2;
pub(super) const OUTGOING_FAILED: usize = 3;
const OUTGOING_HEAD: usize = 8;
const BUFFER_WORDS: usize = 191;
const OUTGOING_WORDS: usize = OUTGOING_HEAD + BUFFERS as usize * BUFFER_WORDS;

// Words of `struct uman_received`: stamp, (length, tci and flags), data.
pub(super) const RECEIVED_WORDS: usize = 192;
pub(super) const RECEIVED_LENGTH: usize = 1;
pub(super) const RECEIVED_DATA: usize = 2;

/// The place of a 32-bit number in a word, as memory has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    First,
    Second,
}

pub(super) const fn half(word: u64, which: Half) -> u32 {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    match which {
        Half::First => u32::from_ne_bytes([a, b, c, d]),
        Half::Second => u32::from_ne_bytes([e, f, g, h]),
    }
}

pub(super) const fn halves(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// Returns the first word of a content's buffer within `struct uman_outgoing`.
pub(super) const fn buffer_word(generation: u32) -> usize {
    OUTGOING_HEAD + (generation % BUFFERS) as usize * BUFFER_WORDS
}

/// The arguments of requests.
pub(super) trait Request {}

/// `struct uman_attach`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attach {
    pub(super) version: u32,
    pub(super) ifindex: u32,
    pub(super) cyclic: u32,
    pub(super) reply: u32,
    pub(super) newest: u32,
    pub(super) ring: u32,
    pub(super) flags: u32,
    pub(super) reserved: u32,
    pub(super) size: u64,
    pub(super) cyclic_at: u64,
    pub(super) reply_at: u64,
    pub(super) newest_at: u64,
    pub(super) ring_at: u64,
    pub(super) confirm_at: u64,
}

impl Attach {
    /// Returns true if the parts that are used lie in whole words within the memory.
    pub(super) fn fits(&self) -> bool {
        let word = size_of::<u64>() as u64;
        let end = |at: u64, count: u32, words: usize| {
            at.saturating_add(u64::from(count) * words as u64 * word)
        };
        self.size >= 4096
            && self.size < 1 << 30
            && [self.size, self.cyclic_at, self.reply_at, self.ring_at]
                .iter()
                .all(|at| at % word == 0)
            && end(self.cyclic_at, self.cyclic, OUTGOING_WORDS) <= self.size
            && end(self.reply_at, self.reply, OUTGOING_WORDS) <= self.size
            && end(self.ring_at, self.ring, RECEIVED_WORDS) <= self.size
    }

    pub(super) fn cyclic_word(&self, slot: u32) -> Option<usize> {
        let first = self.cyclic_at as usize / size_of::<u64>();
        (slot < self.cyclic).then(|| first + slot as usize * OUTGOING_WORDS)
    }

    pub(super) fn reply_word(&self, slot: u32) -> Option<usize> {
        let first = self.reply_at as usize / size_of::<u64>();
        (slot < self.reply).then(|| first + slot as usize * OUTGOING_WORDS)
    }

    /// Returns the first word of a ring's entry; `number` counts on and wraps. The ring is not empty.
    pub(super) fn ring_word(&self, number: u32) -> usize {
        let first = self.ring_at as usize / size_of::<u64>();
        first + (number & self.ring.wrapping_sub(1)) as usize * RECEIVED_WORDS
    }
}

/// `struct uman_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filter {
    ether_type: [u8; 2],
    flags: u16,
    destination: [u8; 6],
    offset: u16,
    value: [u8; 8],
    mask: [u8; 8],
}

/// `struct uman_reply`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    slot: u32,
    lease: u32,
    flags: u32,
    reserved: u32,
    filter: Filter,
    reserved2: [u8; 4],
}

impl Reply {
    pub(super) fn new(slot: u32, filter: &UmanFilter, lease: u32) -> Self {
        Self {
            slot,
            lease,
            flags: 0,
            reserved: 0,
            filter: Filter {
                ether_type: filter.ether_type.to_be_bytes(),
                flags: match filter.destination {
                    Some(_) => FILTER_DESTINATION,
                    None => 0,
                },
                destination: filter.destination.unwrap_or_default(),
                offset: filter.offset,
                value: filter.value,
                mask: filter.mask,
            },
            reserved2: [0; 4],
        }
    }
}

/// `struct uman_cyclic`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Cyclic {
    pub(super) slot: u32,
    pub(super) clock: i32,
    pub(super) start_ns: u64,
    pub(super) period_ns: u64,
    pub(super) lease: u32,
    pub(super) flags: u32,
    pub(super) lead_ns: u32,
    pub(super) reserved: u32,
}

/// `struct uman_receive`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    kind: u32,
    slot: u32,
    flags: u32,
    filter: Filter,
}

impl Receive {
    /// Every frame of the device's EtherTypes, into the ring.
    pub(super) fn whole_ring() -> Self {
        Self {
            kind: KIND_RING,
            slot: 0,
            flags: 0,
            filter: Filter::default(),
        }
    }
}

/// `struct uman_stop`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    kind: u32,
    slot: u32,
}

impl Stop {
    pub(super) const fn ring() -> Self {
        Self {
            kind: KIND_RING,
            slot: 0,
        }
    }
}

impl Request for Attach {}
impl Request for Cyclic {}
impl Request for Reply {}
impl Request for Receive {}
impl Request for Stop {}

/// `_IOC` of the architectures whose requests have 14 bits of size: all that this library runs on.
const fn ioc(direction: libc::c_ulong, number: libc::c_ulong, octets: usize) -> libc::c_ulong {
    direction << 30 | (octets as libc::c_ulong) << 16 | (b'u' as libc::c_ulong) << 8 | number
}

const WRITE: libc::c_ulong = 1;
const READ: libc::c_ulong = 2;

pub(super) const ATTACH: libc::c_ulong = ioc(READ | WRITE, 0x90, size_of::<Attach>());
pub(super) const CYCLIC: libc::c_ulong = ioc(WRITE, 0x91, size_of::<Cyclic>());
pub(super) const REPLY: libc::c_ulong = ioc(WRITE, 0x92, size_of::<Reply>());
pub(super) const RECEIVE: libc::c_ulong = ioc(WRITE, 0x93, size_of::<Receive>());
pub(super) const STOP: libc::c_ulong = ioc(WRITE, 0x94, size_of::<Stop>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_word_are_where_memory_has_them() {
        let word = halves(0x0102_0304, 0x0506_0708);
        assert_eq!(half(word, Half::First), 0x0102_0304);
        assert_eq!(half(word, Half::Second), 0x0506_0708);
        let octets = word.to_ne_bytes();
        assert_eq!(octets[..4], 0x0102_0304_u32.to_ne_bytes());
    }

    #[test]
    fn a_layout_beyond_the_memory_is_refused() {
        let good = Attach {
            reply: 2,
            ring: 4,
            size: 32_768,
            reply_at: 4096,
            ring_at: 16_512,
            ..Attach::default()
        };
        assert!(good.fits());
        assert_eq!(good.reply_word(1), Some(512 + 772));
        assert_eq!(good.reply_word(2), None);
        assert_eq!(good.ring_word(5), good.ring_word(1));
        for bad in [
            Attach { size: 0, ..good },
            Attach {
                reply_at: 4100,
                ..good
            },
            Attach {
                reply_at: 30_000,
                ..good
            },
            Attach {
                ring_at: u64::MAX - 7,
                ..good
            },
            Attach {
                cyclic: 9,
                cyclic_at: 4096,
                ..good
            },
        ] {
            assert!(!bad.fits(), "{bad:?}");
        }
    }
}
