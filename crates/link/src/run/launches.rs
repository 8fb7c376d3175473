//! Frames that leave at their launch instant by themselves: they are handed over early to a queue that holds them
//! (ETF).

use super::LaunchWindow;
use crate::error::LinkError;
use crate::{LaunchMode, LaunchQueue, Sender, SenderConfig, TxPath, TxStamps};
use rtwire_sys::clock;

/// A second transmit path for frames with a launch instant; all others take the port's path.
#[derive(Debug)]
pub struct Launches {
    sender: Sender,
    queue: LaunchQueue,
    window: LaunchWindow,
}

impl Launches {
    /// Opens this path for frames of `priority`. A frame is handed over `margin_ns` before the queue wakes for it.
    /// The queue wakes its `delta` before the frame's instant. So the loop may wake up to `margin_ns` late.
    ///
    /// # Errors
    /// [`LinkError::NoLaunch`]: no queue there observes launch times. CAP_NET_RAW or CAP_NET_ADMIN is missing; the
    /// interface does not exist.
    pub fn open(interface: &str, priority: u32, margin_ns: u64) -> Result<Self, LinkError> {
        let sender = Sender::frames(&SenderConfig {
            path: TxPath::Launch(LaunchMode::Strict),
            priority,
            ..SenderConfig::new(interface)
        })?;
        let Some(queue) = sender.launch_queue() else {
            return Err(LinkError::Unsupported {
                what: "launch instants need a sender of the path `launch`",
            });
        };
        let window = LaunchWindow {
            earliest_ns: queue.delta_ns.saturating_add(margin_ns),
            latest_ns: queue.delta_ns,
        };
        Ok(Self {
            sender,
            queue,
            window,
        })
    }

    /// Returns the times between which a frame is handed over.
    #[must_use]
    pub const fn window(&self) -> LaunchWindow {
        self.window
    }

    /// Returns the queue that holds the frames.
    #[must_use]
    pub const fn queue(&self) -> LaunchQueue {
        self.queue
    }

    /// Splits off the collector of the queue's reports, for another thread. Returns `None` if it was already taken.
    ///
    /// # Errors
    /// The offset of CLOCK_TAI cannot be read.
    pub fn take_reports(&mut self) -> Result<Option<TxStamps>, LinkError> {
        self.sender.take_stamps()
    }

    /// Hands over a frame that is to leave at `launch_ns` of CLOCK_MONOTONIC. One system call.
    ///
    /// # Errors
    /// As of [`Sender::send_at`].
    pub fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        // The offset is read anew for each frame: the time may have been set since the last one.
        let tai_ns = launch_ns.saturating_add_signed(clock::tai_minus_monotonic_ns().0);
        self.sender.send_at(frame, tai_ns).map(drop)
    }
}
