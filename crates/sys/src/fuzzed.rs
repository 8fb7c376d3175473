//! The parsers of what the kernel answers, for any bytes: for the fuzz targets and this crate's tests only.

use crate::messages::Batch;
use crate::netlink::{attributes, messages};
use crate::{launch, netdev, qdisc, stamps};

/// Parses any bytes as netlink messages and attributes, and as the answers about queues and drivers.
///
/// # Panics
/// A parser is wrong: it shows bytes outside of its input, or the same bytes twice.
pub fn netlink(bytes: &[u8]) {
    let mut shown = 0;
    for (_, body) in messages(bytes) {
        shown += 16 + body.len();
        assert_within(body, bytes);
        let mut inside = 0;
        for (_, value) in attributes(body) {
            inside += 4 + value.len();
            assert_within(value, body);
            let _ = attributes(value).count();
        }
        assert!(inside <= body.len());
    }
    assert!(shown <= bytes.len());
    let _ = qdisc::decode(bytes, 1);
    let _ = netdev::decode(bytes, 1, 6);
}

/// Parses any bytes as the control messages of a received message.
///
/// # Panics
/// A parser is wrong: it shows bytes outside of its input.
pub fn control(bytes: &[u8]) {
    let batch = Batch::with_control(bytes);
    let mut shown = 0;
    batch.each_control(0, |level, kind, payload| {
        shown += payload.len();
        let _ = stamps::extended_error(payload);
        let _ = launch::report(payload);
        assert!(payload.len() <= bytes.len(), "{level} {kind}");
    });
    assert!(shown <= bytes.len());
    assert!(batch.get(0).is_some());
}

fn assert_within(part: &[u8], whole: &[u8]) {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    assert!(part.start >= whole.start && part.end <= whole.end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::tests::some_octets;

    #[test]
    fn any_octets_end_the_parsers() {
        for seed in 0..2_000 {
            let octets = some_octets(seed as usize % 200, seed);
            netlink(&octets);
            control(&octets);
        }
    }

    /// The kernel writes no such lengths. They would show foreign memory as a message.
    #[test]
    fn a_control_message_ends_with_its_memory() {
        let header = |length: usize| {
            let mut octets = length.to_ne_bytes().to_vec();
            octets.extend_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
            octets.extend_from_slice(&libc::SCM_TIMESTAMPING.to_ne_bytes());
            octets.extend_from_slice(&[7; 8]);
            octets
        };
        for (length, expected) in [
            (24, &[8][..]),
            (20, &[4]),
            (16, &[0]),
            (15, &[]),
            (25, &[]),
            (1 << 40, &[]),
            (usize::MAX, &[]),
        ] {
            let mut shown = Vec::new();
            let batch = Batch::with_control(&header(length));
            batch.each_control(0, |_, _, payload| shown.push(payload.len()));
            assert_eq!(shown, expected, "{length}");
        }
    }
}
