//! Frames that wait for their launch instant, in memory allocated once.

use super::LaunchWindow;
use rtwire_wire::{MAXIMUM_FRAME_OCTETS, MINIMUM_FRAME_OCTETS, Slot};

const ROOM: usize = MAXIMUM_FRAME_OCTETS;

#[derive(Debug)]
struct Waiting {
    octets: [u8; ROOM],
    length: usize,
    launch_ns: Option<u64>,
    prepared: Option<Slot>,
}

/// The frame that leaves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) frame: &'a [u8],
    /// Launch instant that the node set, in ns.
    pub(super) launch_ns: Option<u64>,
    /// The prepared frame that was due, and is the loop's to send.
    pub(super) prepared: Option<Slot>,
    /// Earliest time at which it may leave, in ns: its instant, and not before a frame handed over earlier. 0 means
    /// at once.
    pub(super) leaves_ns: u64,
    /// `true` if it may be handed over ahead of that time.
    pub(super) ahead: bool,
}

/// First in, first out. A frame with a later instant holds back those behind it, whether it is still here or already
/// handed over.
#[derive(Debug)]
pub(super) struct Queue {
    slots: Box<[Waiting]>,
    first: usize,
    count: usize,
    overflowed: u64,
    /// Time at which the last frame handed over leaves, in ns.
    kept_until_ns: u64,
    /// `true` if the first frame was to be handed over and was refused or late.
    held_back: bool,
}

impl Queue {
    pub(super) fn new(frames: usize) -> Self {
        let slots = (0..frames.max(1)).map(|_| Waiting {
            octets: [0; ROOM],
            length: 0,
            launch_ns: None,
            prepared: None,
        });
        Self {
            slots: slots.collect(),
            first: 0,
            count: 0,
            overflowed: 0,
            kept_until_ns: 0,
            held_back: false,
        }
    }

    /// Returns the frame that leaves next.
    pub(super) fn head(&self) -> Option<Head<'_>> {
        let slot = (self.count > 0).then(|| &self.slots[self.first])?;
        Some(Head {
            frame: &slot.octets[..slot.length],
            launch_ns: slot.launch_ns,
            prepared: slot.prepared,
            leaves_ns: slot.launch_ns.unwrap_or(0).max(self.kept_until_ns),
            ahead: slot.launch_ns.is_some() && !self.held_back,
        })
    }

    /// Returns the time at which the next frame needs an action: handing it over if there is a window for that, else
    /// sending it. Returns `None` without a frame.
    pub(super) fn next_ns(&self, window: Option<LaunchWindow>) -> Option<u64> {
        self.head().map(|head| match window {
            Some(window) if head.ahead => head.leaves_ns.saturating_sub(window.earliest_ns),
            _ => head.leaves_ns,
        })
    }

    /// Returns the time at which the last frame handed over leaves, or has left, in ns.
    pub(super) fn kept_until_ns(&self) -> u64 {
        self.kept_until_ns
    }

    /// Removes the first frame, which was sent or given up.
    pub(super) fn pop(&mut self) {
        if self.count > 0 {
            self.first = (self.first + 1) % self.slots.len();
            self.count -= 1;
        }
        self.held_back = false;
    }

    /// Removes the first frame, which was handed over and leaves by itself.
    pub(super) fn pop_kept(&mut self) {
        if let Some(head) = self.head() {
            self.kept_until_ns = head.leaves_ns;
        }
        self.pop();
    }

    /// Marks the first frame as not handed over: it is sent at its instant.
    pub(super) fn hold_back(&mut self) {
        self.held_back = true;
    }

    /// Returns the frames that were too long or found no room.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Appends a frame; `prepared` is its slot where it is one that was due.
    pub(super) fn send(&mut self, frame: &[u8], launch_ns: Option<u64>, prepared: Option<Slot>) {
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
        slot.prepared = prepared;
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
            queue.send(&[round; 14], Some(7), None);
            queue.send(&[round; 100], None, None);
            queue.send(&[9; 60], None, None);
            assert_eq!(queue.overflowed(), u64::from(round) + 1);
            let head = queue.head().unwrap();
            let frame = head.frame;
            assert_eq!((head.leaves_ns, head.ahead, frame.len()), (7, true, 60));
            assert!(frame[..14].iter().all(|o| *o == round) && frame[14..].iter().all(|o| *o == 0));
            queue.pop();
            let head = queue.head().unwrap();
            assert_eq!((head.launch_ns, head.frame), (None, &[round; 100][..]));
            assert_eq!(queue.next_ns(None), Some(0));
            queue.pop();
            queue.pop();
        }
        queue.send(&[0; ROOM + 1], None, None);
        assert!(queue.head().is_none());
    }

    #[test]
    fn what_was_handed_over_holds_back_what_is_behind_it() {
        let window = Some(LaunchWindow {
            earliest_ns: 300,
            latest_ns: 200,
        });
        let mut queue = Queue::new(8);
        for launch_ns in [Some(1_000), None, Some(900), Some(2_000)] {
            queue.send(&[0; 60], launch_ns, None);
        }
        let state = |queue: &Queue| {
            let head = queue.head().unwrap();
            (head.leaves_ns, head.ahead, queue.next_ns(window).unwrap())
        };
        assert_eq!(state(&queue), (1_000, true, 700));
        queue.pop_kept();
        assert_eq!(queue.kept_until_ns(), 1_000);
        // One frame without an instant of its own, one with an earlier instant.
        assert_eq!(state(&queue), (1_000, false, 1_000));
        queue.pop();
        assert_eq!(state(&queue), (1_000, true, 700));
        // The refused frame is sent at that instant, and only this one.
        queue.hold_back();
        assert_eq!(state(&queue), (1_000, false, 1_000));
        queue.pop();
        assert_eq!(state(&queue), (2_000, true, 1_700));
        assert_eq!(queue.next_ns(None), Some(2_000));
    }
}
