//! The loop that drives a node on a real interface.
//!
//! ```text
//!            ┌───────────── Node (no I/O) ─────────────┐
//!  frame ────┤ frame · moment · settle           send  ├──► queue ── launch instant ──► Port::send
//!            │                                    act  ├──► Port::offload: prepares, arms, disarms; is due: left? else queue
//!            └── wake_at_ns ───────────────────────────┘
//!  Port::wait until a frame, the node's moment or the head of the queue; shortly before the latter two: spin
//! ```
//!
//! ```no_run
//! use rtwire_link::run::{PacketPort, PortConfig, RunConfig, Runner};
//! use rtwire_wire::{Node, Outbox};
//! # struct Beacon;
//! # impl Node for Beacon {
//! #     fn start(&mut self, _: u64, _: &mut dyn Outbox) {}
//! #     fn frame(&mut self, _: u64, _: &[u8], _: &mut dyn Outbox) {}
//! #     fn moment(&mut self, _: u64, _: &mut dyn Outbox) {}
//! #     fn wake_at_ns(&self) -> Option<u64> { None }
//! # }
//!
//! # fn main() -> Result<(), rtwire_link::LinkError> {
//! let port = PacketPort::open(&PortConfig::new("eth0", 0x88ab))?;
//! let mut runner = Runner::new(port, &RunConfig { spin_ns: 100_000, ..RunConfig::default() });
//! let stop = rtwire_sys::signal::install_stop_flag()?;
//! runner.run(&mut Beacon, stop, |_node, _port, _now_ns| {})?;
//! println!("{:?}", runner.statistics());
//! # Ok(()) }
//! ```
//!
//! Times are ns of CLOCK_MONOTONIC. The loop does not allocate, lock or print. A frame costs at most one system call,
//! and so does a wait.
//!
//! A port may have a queue that holds frames until their launch instant ([`Launches`]). The loop then hands frames
//! over ahead of it and sleeps until that instant; frames behind them leave from that instant on. A frame that the
//! queue refused is sent at its instant.
//!
//! An interface that goes down does not stop the loop. The node's moments go on, so that the node notices by its own
//! rules; frames that it sends meanwhile count as unsent. An interface that is removed ends the loop with an error.

mod launches;
mod offload;
#[cfg(test)]
mod offload_tests;
mod port;
mod queue;
#[cfg(test)]
mod tests;

use crate::error::LinkError;
use offload::Actions;
use queue::Queue;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::sched::{self, Scheduling};
use rtwire_wire::Node;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use launches::Launches;
pub use offload::Offload;
pub use port::{Arrived, LaunchWindow, PacketPort, Port, PortConfig};

/// Longest sleep of the loop before it checks the stop flag again.
const LOOK: Duration = Duration::from_millis(100);

/// Configuration of the loop's waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunConfig {
    /// Time before a moment or a launch instant at which to wake and spin, in ns. With 0 the loop sleeps up to it and
    /// is as late as the wake-up.
    pub spin_ns: u64,
    /// Time after a frame or a moment for which the loop polls for the next frame before it sleeps, in ns. A frame
    /// that comes meanwhile costs no wake-up. `u64::MAX` never sleeps.
    pub linger_ns: u64,
    /// Frames that may wait for their launch instant.
    pub queue_frames: usize,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            spin_ns: 0,
            linger_ns: 0,
            queue_frames: 64,
        }
    }
}

/// Scheduling of the calling thread while it runs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RealTime {
    /// SCHED_FIFO priority, 1 to 99; it also locks all memory used so far. `None` changes neither.
    pub fifo_priority: Option<u8>,
    /// The core to run on; `None` for any.
    pub cpu: Option<usize>,
}

impl RealTime {
    /// Applies the settings to the calling thread; returns the scheduling in force.
    ///
    /// # Errors
    /// CAP_SYS_NICE or CAP_IPC_LOCK is missing, or the core does not exist.
    pub fn apply(&self) -> Result<Scheduling, LinkError> {
        if let Some(cpu) = self.cpu {
            sched::set_cpu(cpu)?;
        }
        if let Some(priority) = self.fifo_priority {
            rtwire_sys::memory::lock_used()?;
            sched::set_fifo(priority)?;
            rtwire_sys::memory::touch_stack();
        }
        Ok(sched::current()?)
    }
}

/// Counters of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RunStatistics {
    /// Frames that were shown to the node.
    pub received: u64,
    /// Frames that the loop has sent.
    pub sent: u64,
    /// Frames that were due and had left already: the port has sent them by itself.
    pub offloaded: u64,
    /// Frames that were not sent: the interface was down, or its queue full.
    pub unsent: u64,
    /// Frames of those sent that were handed over ahead of their launch instant.
    pub launched: u64,
    /// Frames that should have been handed over ahead but were not: the loop woke too late, or they were refused.
    /// They were sent at their instant, or as soon after it as the loop was awake.
    pub unlaunched: u64,
    /// Frames of the node that the queue had no room for.
    pub overflowed: u64,
    /// Moments that the node was called for.
    pub moments: u64,
    /// Number of times the loop slept.
    pub waits: u64,
    /// Number of times the interface was found down.
    pub downs: u64,
    /// Largest delay of a moment, in ns.
    pub worst_moment_ns: u64,
    /// Largest delay from a frame's launch instant until it was handed to the kernel, in ns.
    pub worst_launch_ns: u64,
}

/// Drives nodes through one port.
#[derive(Debug)]
pub struct Runner<P> {
    port: P,
    config: RunConfig,
    queue: Queue,
    statistics: RunStatistics,
    /// The latest time passed to the node; no later call has an earlier time.
    now_ns: u64,
    /// The time passed in the node's last call, while none of its frames has been sent.
    told_ns: Option<u64>,
    /// Time at which the last sending ended. Frames that arrived meanwhile waited for it; its duration is reported to
    /// the node only once.
    sent_ns: u64,
}

fn now_ns() -> u64 {
    clock::now_ns(Clock::Monotonic)
}

impl<P: Port> Runner<P> {
    /// Creates a loop that has not begun.
    pub fn new(port: P, config: &RunConfig) -> Self {
        Self {
            port,
            config: *config,
            queue: Queue::new(config.queue_frames),
            statistics: RunStatistics::default(),
            now_ns: 0,
            told_ns: None,
            sent_ns: 0,
        }
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn statistics(&self) -> RunStatistics {
        RunStatistics {
            overflowed: self.queue.overflowed(),
            ..self.statistics
        }
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> &P {
        &self.port
    }

    /// Returns the port for changes.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    /// Runs the node until `stop` is set. After each call of the node the loop first sends the frames that are due. Then it
    /// calls `after`, with the same time: a slow application makes no frame late that was due before its turn. Without events
    /// `after` is called ten times a second. There the application reads the node's reports and sets new values. `after` is part
    /// of the real-time loop.
    ///
    /// # Errors
    /// The interface is gone, or the kernel refuses to wait.
    pub fn run<N: Node>(
        &mut self,
        node: &mut N,
        stop: &AtomicBool,
        mut after: impl FnMut(&mut N, &mut P, u64),
    ) -> Result<(), LinkError> {
        self.run_with(node, stop, |node, port, _, now_ns| {
            after(node, port, now_ns);
        })
    }

    /// Runs the node as [`run`](Self::run); `after` receives the loop's counters, too.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with<N: Node>(
        &mut self,
        node: &mut N,
        stop: &AtomicBool,
        after: impl FnMut(&mut N, &mut P, &RunStatistics, u64),
    ) -> Result<(), LinkError> {
        let ended = self.drive(node, stop, after);
        // The node is not driven any more: nothing may leave in its name.
        if let Some(offload) = self.port.offload() {
            offload.stop();
        }
        ended
    }

    fn drive<N: Node>(
        &mut self,
        node: &mut N,
        stop: &AtomicBool,
        mut after: impl FnMut(&mut N, &mut P, &RunStatistics, u64),
    ) -> Result<(), LinkError> {
        let begun = self.time();
        node.start(begun, &mut self.actions());
        self.send_due(node)?;
        self.application(node, &mut after, begun);
        let mut busy_until = begun.saturating_add(self.config.linger_ns);
        let mut next_look = begun;
        while !stop.load(Ordering::Relaxed) {
            self.send_due(node)?;
            if self.take_frames(node, &mut after)? {
                busy_until = self.now_ns.saturating_add(self.config.linger_ns);
                continue;
            }
            // The clock first, then the ring: frames keep their times of arrival, and none is taken for later than it
            // came. A stop right here would else make all frames that came meanwhile look new.
            let now = now_ns().max(self.now_ns);
            if self.port.is_ready() {
                continue;
            }
            self.now_ns = now;
            if let Some(due) = node.wake_at_ns().filter(|due| *due <= now) {
                let late = now - due;
                self.statistics.worst_moment_ns = self.statistics.worst_moment_ns.max(late);
                self.statistics.moments += 1;
                self.told_ns = Some(now);
                node.moment(now, &mut self.actions());
                self.send_due(node)?;
                self.application(node, &mut after, now);
                busy_until = now.saturating_add(self.config.linger_ns);
                continue;
            }
            let next = self.queue.next_ns(self.port.launch_window());
            let due = [node.wake_at_ns(), next].into_iter().flatten().min();
            self.wait(now, due, busy_until)?;
            if now >= next_look {
                next_look = now + LOOK.as_nanos() as u64;
                self.application(node, &mut after, now);
            }
        }
        // Frames that are due are still sent; frames for a later instant are not sent early.
        self.flush().map(|_| ())
    }

    /// Returns the outbox for the node, unless the node is being shown a frame.
    fn actions(&mut self) -> Actions<'_, '_> {
        Actions {
            queue: &mut self.queue,
            offload: self.port.offload(),
            offloaded: &mut self.statistics.offloaded,
        }
    }

    /// The application's turn, and what follows from it.
    fn application<N: Node>(
        &mut self,
        node: &mut N,
        after: &mut impl FnMut(&mut N, &mut P, &RunStatistics, u64),
        now: u64,
    ) {
        after(node, &mut self.port, &self.statistics, now);
        node.settle(&mut self.actions());
    }

    /// Shows the node one frame, if one has come.
    fn take_frames<N: Node>(
        &mut self,
        node: &mut N,
        after: &mut impl FnMut(&mut N, &mut P, &RunStatistics, u64),
    ) -> Result<bool, LinkError> {
        let (queue, last_ns) = (&mut self.queue, &mut self.now_ns);
        let offloaded = &mut self.statistics.offloaded;
        let came = self.port.receive(&mut |arrived| {
            let now = arrived.at_ns.unwrap_or_else(now_ns).max(*last_ns);
            *last_ns = now;
            let mut actions = Actions {
                queue,
                offload: arrived.offload,
                offloaded,
            };
            node.frame(now, arrived.frame, &mut actions);
        });
        match came {
            Ok(true) => {
                self.statistics.received += 1;
                self.told_ns = Some(self.now_ns);
                self.send_due(node)?;
                self.application(node, after, self.now_ns);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => self.bear(error).map(|()| false),
        }
    }

    /// Sends the frames that are due, and reports to the node how long that took.
    fn send_due<N: Node>(&mut self, node: &mut N) -> Result<(), LinkError> {
        let took_ns = self.flush()?;
        if took_ns > 0 {
            node.sending_took(took_ns);
        }
        Ok(())
    }

    /// Sends the frames that are due; returns the time in ns that this took. The time counts from the timestamp of
    /// the node's call that produced the frames. If the previous sending ended later, it counts from that end.
    fn flush(&mut self) -> Result<u64, LinkError> {
        let told_ns = self.told_ns.take();
        if self.queue.head().is_none() {
            return Ok(0);
        }
        // The time in which frames waited for their instant does not count.
        let begun = told_ns.unwrap_or_else(now_ns).max(self.sent_ns);
        while let Some(head) = self.queue.head() {
            if head.leaves_ns > 0 {
                let now = now_ns();
                if now < head.leaves_ns {
                    if self.hand_over(now)? {
                        continue;
                    }
                    break;
                }
                if let Some(launch_ns) = head.launch_ns {
                    let late = now.saturating_sub(launch_ns);
                    self.statistics.worst_launch_ns = self.statistics.worst_launch_ns.max(late);
                    // The loop woke too late even to try.
                    let ahead = head.ahead && self.port.launch_window().is_some();
                    self.statistics.unlaunched += u64::from(ahead);
                }
            }
            if let (Some(slot), Some(offload)) = (head.prepared, self.port.offload()) {
                offload.leaves(slot);
            }
            let sent = self.port.send(head.frame);
            self.queue.pop();
            self.count(sent)?;
        }
        self.sent_ns = now_ns();
        Ok(self.sent_ns.saturating_sub(begun))
    }

    fn count(&mut self, sent: Result<(), LinkError>) -> Result<(), LinkError> {
        match sent {
            Ok(()) => self.statistics.sent += 1,
            Err(LinkError::QueueFull) => self.statistics.unsent += 1,
            Err(error) => {
                self.statistics.unsent += 1;
                self.bear(error)?;
            }
        }
        Ok(())
    }

    /// Hands the first frame over ahead of its instant if that is possible and due; returns `true` if the frame has
    /// left the queue.
    fn hand_over(&mut self, now: u64) -> Result<bool, LinkError> {
        let (Some(head), Some(window)) = (self.queue.head(), self.port.launch_window()) else {
            return Ok(false);
        };
        let left_ns = head.leaves_ns.saturating_sub(now);
        if !head.ahead || left_ns > window.earliest_ns {
            return Ok(false);
        }
        if left_ns > window.latest_ns {
            match self.port.send_at(head.frame, head.leaves_ns) {
                Err(LinkError::LaunchRefused { .. }) => {}
                sent => {
                    if sent.is_ok() {
                        if let (Some(slot), Some(offload)) = (head.prepared, self.port.offload()) {
                            offload.leaves(slot);
                        }
                        self.statistics.launched += 1;
                        self.queue.pop_kept();
                    } else {
                        self.queue.pop();
                    }
                    return self.count(sent).map(|()| true);
                }
            }
        }
        self.queue.hold_back();
        self.statistics.unlaunched += 1;
        Ok(false)
    }

    /// Waits for a frame or until shortly before `due`, then polls until either.
    fn wait(&mut self, now: u64, due: Option<u64>, busy_until: u64) -> Result<(), LinkError> {
        // The queue that holds a frame may need this very processor to send it: until then the loop stays asleep.
        let kept_ns = self.queue.kept_until_ns();
        let awake_at = |due: u64| {
            due.saturating_sub(self.config.spin_ns)
                .max(kept_ns.min(due))
        };
        let wake = due.map(awake_at);
        let may_spin = now >= kept_ns;
        if may_spin && (now < busy_until || wake.is_some_and(|wake| wake <= now)) {
            let until = due.unwrap_or(u64::MAX).min(match wake {
                Some(wake) if wake <= now => u64::MAX,
                _ => busy_until,
            });
            // Polls for frames often and reads the clock now and then; the caller checks the stop flag.
            let most = now.saturating_add(1_000_000).min(until);
            loop {
                for _ in 0..8 {
                    if self.port.is_ready() {
                        return Ok(());
                    }
                    std::hint::spin_loop();
                }
                if now_ns() >= most {
                    return Ok(());
                }
            }
        }
        let sleep = wake.map_or(LOOK, |wake| {
            Duration::from_nanos(wake.saturating_sub(now)).min(LOOK)
        });
        self.statistics.waits += 1;
        match self.port.wait(sleep) {
            Ok(()) => Ok(()),
            Err(error) => self.bear(error),
        }
    }

    /// Accepts an interface that is down, since it may come up again; any other error ends the loop.
    #[cold]
    fn bear(&mut self, error: LinkError) -> Result<(), LinkError> {
        match error {
            LinkError::InterfaceDown { .. } => {
                self.statistics.downs += 1;
                Ok(())
            }
            error => Err(error),
        }
    }

    fn time(&mut self) -> u64 {
        self.now_ns = now_ns().max(self.now_ns);
        self.now_ns
    }
}
