//! Frames that wait for their launch instant: memory prepared once.

use rtwire_wire::{MAXIMUM_FRAME_OCTETS, MINIMUM_FRAME_OCTETS, Outbox};

const ROOM: usize = MAXIMUM_FRAME_OCTETS;

#[derive(Debug)]
struct Slot {
    octets: [u8; ROOM],
    length: usize,
    launch_ns: Option<u64>,
}

/// First in, first out: a frame that is to leave later holds back those behind it.
#[derive(Debug)]
pub(super) struct Queue {
    slots: Box<[Slot]>,
    first: usize,
    count: usize,
    overflowed: u64,
}

impl Queue {
    pub(super) fn new(frames: usize) -> Self {
        let slots = (0..frames.max(1)).map(|_| Slot {
            octets: [0; ROOM],
            length: 0,
            launch_ns: None,
        });
        Self {
            slots: slots.collect(),
            first: 0,
            count: 0,
            overflowed: 0,
        }
    }

    /// The frame that leaves next.
    pub(super) fn head(&self) -> Option<(Option<u64>, &[u8])> {
        let slot = (self.count > 0).then(|| &self.slots[self.first])?;
        Some((slot.launch_ns, &slot.octets[..slot.length]))
    }

    /// When the frame that leaves next may do so; `None` where there is none.
    pub(super) fn next_launch_ns(&self) -> Option<u64> {
        self.head().map(|(launch_ns, _)| launch_ns.unwrap_or(0))
    }

    pub(super) fn pop(&mut self) {
        if self.count > 0 {
            self.first = (self.first + 1) % self.slots.len();
            self.count -= 1;
        }
    }

    /// Frames that there was no room for, or that were too long.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed
    }
}

impl Outbox for Queue {
    fn send(&mut self, frame: &[u8], launch_ns: Option<u64>) {
        if self.count == self.slots.len() || frame.len() > ROOM {
            self.overflowed += 1;
            return;
        }
        let at = (self.first + self.count) % self.slots.len();
        let slot = &mut self.slots[at];
        slot.octets[..frame.len()].copy_from_slice(frame);
        slot.length = frame.len();
        if frame.len() < MINIMUM_FRAME_OCTETS {
            slot.octets[frame.len()..MINIMUM_FRAME_OCTETS].fill(0);
            slot.length = MINIMUM_FRAME_OCTETS;
        }
        slot.launch_ns = launch_ns;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_their_order_padded() {
        let mut queue = Queue::new(2);
        for round in 0..5_u8 {
            assert!(queue.head().is_none());
            queue.send(&[round; 14], Some(7));
            queue.send(&[round; 100], None);
            queue.send(&[9; 60], None);
            assert_eq!(queue.overflowed(), u64::from(round) + 1);
            let (launch_ns, frame) = queue.head().unwrap();
            assert_eq!((launch_ns, frame.len()), (Some(7), 60));
            assert!(frame[..14].iter().all(|o| *o == round) && frame[14..].iter().all(|o| *o == 0));
            queue.pop();
            assert_eq!(queue.head(), Some((None, &[round; 100][..])));
            assert_eq!(queue.next_launch_ns(), Some(0));
            queue.pop();
            queue.pop();
        }
        queue.send(&[0; ROOM + 1], None);
        assert!(queue.head().is_none());
    }
}
