//! The interface of every protocol: a node takes frames and times, and returns frames to send and its next wake-up
//! time.
//!
//! A node has no socket, no clock and no thread. So the same node runs on a real interface, in virtual time, and
//! under a fuzzer. Frames that a driver may send for a node are described in [`action`](crate::action).
//!
//! ```
//! use rtwire_wire::{Node, Outbox};
//!
//! /// Sends a frame each millisecond, and counts what comes.
//! struct Beacon {
//!     next_ns: u64,
//!     heard: u32,
//! }
//!
//! impl Node for Beacon {
//!     fn start(&mut self, now_ns: u64, _outbox: &mut dyn Outbox) {
//!         self.next_ns = now_ns;
//!     }
//!
//!     fn frame(&mut self, _now_ns: u64, _frame: &[u8], _outbox: &mut dyn Outbox) {
//!         self.heard += 1;
//!     }
//!
//!     fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
//!         outbox.send(&[0; 60], Some(self.next_ns));
//!         while self.next_ns <= now_ns {
//!             self.next_ns += 1_000_000;
//!         }
//!     }
//!
//!     fn wake_at_ns(&self) -> Option<u64> {
//!         Some(self.next_ns)
//!     }
//! }
//!
//! struct Sent(Vec<Vec<u8>>);
//!
//! impl Outbox for Sent {
//!     fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
//!         self.0.push(frame.to_vec());
//!     }
//! }
//!
//! let (mut beacon, mut sent) = (Beacon { next_ns: 0, heard: 0 }, Sent(Vec::new()));
//! beacon.start(5_000, &mut sent);
//! beacon.moment(5_000, &mut sent);
//! assert_eq!((sent.0.len(), beacon.wake_at_ns()), (1, Some(1_005_000)));
//! ```

use crate::action::{Action, Slot};

/// A protocol's state machine. All times are in ns of one clock, which the driver has chosen; they never go back.
///
/// Each node has its own way to report events to its application, such as a new value or a lost peer. The driver
/// collects these events after each call. No call may block, and none may panic, whatever the frame holds.
pub trait Node {
    /// Starts the node at `now_ns`. Called once, before anything else.
    fn start(&mut self, now_ns: u64, outbox: &mut dyn Outbox);

    /// Processes `frame`, which arrived at `now_ns`: Ethernet header and payload, without FCS, possibly padded.
    fn frame(&mut self, now_ns: u64, frame: &[u8], outbox: &mut dyn Outbox);

    /// Processes the time that [`Node::wake_at_ns`] asked for. `now_ns` is that time or later.
    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox);

    /// The time at which [`Node::moment`] is to be called, read after each call. `None`: not before the next frame.
    fn wake_at_ns(&self) -> Option<u64>;

    /// The time in ns from the previous call's timestamp until its frames were handed over: the call itself, the application,
    /// and the sending. Called before the next call, once for each such time. A node needs it to tell a machine that was
    /// stalled from a network that is slow.
    fn sending_took(&mut self, took_ns: u64) {
        let _ = took_ns;
    }

    /// Called after the application had its turn, before frames are sent. The node emits the [`Action`]s that follow
    /// from the application's changes.
    fn settle(&mut self, outbox: &mut dyn Outbox) {
        let _ = outbox;
    }
}

/// The receiver of the frames that a node sends, and of its [`Action`]s on prepared frames.
pub trait Outbox {
    /// Sends `frame`: Ethernet header and payload, without FCS. The layer below adds padding where the medium needs
    /// it.
    ///
    /// The frame leaves not before `launch_ns`, or at once if that is `None`. Frames leave in the order of the calls.
    fn send(&mut self, frame: &[u8], launch_ns: Option<u64>);

    /// Carries out an action on prepared frames. By default for a port that sends nothing by itself: a frame that is due is
    /// sent, and nothing else is to do.
    fn act(&mut self, action: Action<'_>) {
        if let Action::Due {
            frame, launch_ns, ..
        } = action
        {
            self.send(frame, launch_ns);
        }
    }

    /// Returns true where the port itself has sent the frame of this slot: of a chain, since it was prepared; a reply, on the frame
    /// that the node is being shown.
    fn has_left(&self, slot: Slot) -> bool {
        let _ = slot;
        false
    }
}
