//! The queues of a host: a class of HTB for each part of its allowance, each stream and each channel. Pure.
//!
//! Every class has its own rate and borrows nothing. HTB serves the most urgent of those that may send, so the order is
//! that of strict priority. It lets a class send while its credit is not negative: one frame more than the class's
//! burst. So a class here has the burst that it may have, less a frame.

use rtwire_host::netlink::{Discipline, Queue, Tree, htb_whole};

use crate::allowance::{Allowance, Bucket, CONTROL, LEAST_URGENT, MAJOR, OTHERS};

const ROOT: u32 = u32::MAX;
/// The frames that wait in a class, at most: some 8 ms of its rate, but at least [`FEWEST_FRAMES`].
const WAIT_MS: u64 = 8;
pub(crate) const FEWEST_FRAMES: u32 = 8;
/// The frames that wait in a class without a one-shot reservation.
const PERMANENT_FRAMES: u32 = 64;
/// The first handle of the queues within classes.
const FIRST_LEAF: u32 = 0xa6e1;

/// Returns the frames that may wait in a class of this rate.
pub(crate) fn frames_of(limit: Bucket) -> u32 {
    let bytes = u64::from(limit.rate_bytes) * WAIT_MS / 1_000;
    let frames = bytes / u64::from(limit.frame_bytes.max(1));
    u32::try_from(frames)
        .unwrap_or(u32::MAX)
        .clamp(FEWEST_FRAMES, 1_000)
}

/// Returns the class of a limit.
pub(crate) fn class(handle: u32, priority: u32, limit: Bucket, overhead_bytes: u8) -> Queue {
    let burst = htb_whole(
        limit.burst_bytes.saturating_sub(limit.frame_bytes),
        limit.rate_bytes,
    );
    Queue {
        handle,
        parent: MAJOR,
        class: true,
        discipline: Discipline::HtbClass {
            rate_bytes: limit.rate_bytes.max(1),
            ceil_bytes: limit.rate_bytes.max(1),
            priority,
            burst_bytes: burst,
            ceil_burst_bytes: burst,
            overhead_bytes,
        },
        overhead_bytes: 0,
        raw: None,
    }
}

/// Returns the queue within a class.
pub(crate) fn leaf(class: u32, frames: u32) -> Queue {
    let major = FIRST_LEAF + (class & 0xffff);
    Queue {
        handle: major << 16,
        parent: class,
        class: false,
        discipline: Discipline::Pfifo { frames },
        overhead_bytes: 0,
        raw: None,
    }
}

/// Returns all queues of a host without channels.
pub(crate) fn tree(allowance: &Allowance) -> Tree {
    let overhead = allowance.overhead_bytes;
    let mut queues = vec![Queue {
        handle: MAJOR,
        parent: ROOT,
        class: false,
        discipline: Discipline::Htb {
            default_class: OTHERS & 0xffff,
        },
        overhead_bytes: 0,
        raw: None,
    }];
    // What asks for reservations is ahead of what needs them.
    let parts = [
        (CONTROL, LEAST_URGENT - 1, allowance.control),
        (OTHERS, LEAST_URGENT, allowance.others),
    ];
    let peers = allowance
        .peers
        .iter()
        .map(|peer| (peer.class, LEAST_URGENT, peer.permanent));
    let best_effort = parts.into_iter().chain(peers);
    let mut leaves = Vec::new();
    for (handle, priority, limit) in best_effort {
        queues.push(class(handle, priority, limit, overhead));
        leaves.push(leaf(handle, PERMANENT_FRAMES));
    }
    for stream in &allowance.streams {
        let priority = allowance.priorities[usize::from(stream.pcp.min(7))];
        queues.push(class(stream.class, priority, stream.limit, overhead));
        leaves.push(leaf(stream.class, frames_of(stream.limit)));
    }
    queues.extend(leaves);
    Tree {
        queues,
        ..Tree::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_keeps_its_burst_with_the_frame_that_htb_sends_beyond() {
        let limit = Bucket {
            rate_bytes: 125_000,
            burst_bytes: 4_626,
            frame_bytes: 1_542,
        };
        let Discipline::HtbClass {
            burst_bytes,
            ceil_burst_bytes,
            ..
        } = class(MAJOR | 9, 0, limit, 24).discipline
        else {
            panic!("a class of HTB");
        };
        assert_eq!(burst_bytes, ceil_burst_bytes);
        assert!(burst_bytes + limit.frame_bytes <= limit.burst_bytes);
    }
}
