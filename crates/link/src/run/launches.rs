//! Frames that leave at their launch instant by themselves: handed over ahead of it, to a queue that keeps them (ETF).

use super::LaunchWindow;
use crate::error::LinkError;
use crate::{LaunchMode, LaunchQueue, Sender, SenderConfig, TxPath, TxStamps};
use rtwire_sys::clock;

/// A second way out of an interface, for frames with a launch instant; all others go as the port's path says.
#[derive(Debug)]
pub struct Launches {
    sender: Sender,
    queue: LaunchQueue,
    window: LaunchWindow,
}

impl Launches {
    /// Opens this way for frames of `priority`. They are handed over `margin_ns` before the queue wakes for them, which is its
    /// `delta` before their instant: so late may the loop be awake.
    ///
    /// # Errors
    /// [`LinkError::NoLaunch`]: nothing there keeps launch times. CAP_NET_RAW or CAP_NET_ADMIN is missing; no such interface.
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

    /// When a frame is handed over.
    #[must_use]
    pub const fn window(&self) -> LaunchWindow {
        self.window
    }

    /// The queue that keeps the frames.
    #[must_use]
    pub const fn queue(&self) -> LaunchQueue {
        self.queue
    }

    /// Splits off the collector of the queue's reports, for another thread; `None` where it is gone already.
    ///
    /// # Errors
    /// The offset of CLOCK_TAI cannot be read.
    pub fn take_reports(&mut self) -> Result<Option<TxStamps>, LinkError> {
        self.sender.take_stamps()
    }

    /// Hands a frame over that is to leave at `launch_ns` of CLOCK_MONOTONIC. One system call.
    pub(super) fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        // Read anew for each frame: the time may have been set since the last one.
        let tai_ns = launch_ns.saturating_add_signed(clock::tai_minus_monotonic_ns());
        self.sender.send_at(frame, tai_ns).map(drop)
    }
}
