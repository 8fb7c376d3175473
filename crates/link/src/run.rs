//! The one loop that drives a node on a real interface.
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
//! Times are ns of CLOCK_MONOTONIC. In the loop nothing is allocated, locked or printed; a frame costs at most one system
//! call, and so does a wait.
//!
//! Where the port has something that keeps frames until their instant ([`Launches`]), they are handed over ahead of it, and
//! the loop sleeps until then; what is behind them leaves from that instant on. What was not taken is sent at its instant.
//!
//! An interface that goes down stops nothing: the node's moments go on, so that it notices by its own rules; what it sends
//! meanwhile is counted as unsent. An interface that is removed ends the loop with an error.

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

/// How long the loop sleeps at most before it looks at the stop flag again.
const LOOK: Duration = Duration::from_millis(100);

/// How the loop is to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunConfig {
    /// How long before a moment or a launch instant to wake and spin, ns. 0: sleep all the way, and be as late as the
    /// wake-up is.
    pub spin_ns: u64,
    /// How long after a frame or a moment to look for the next frame before sleeping, ns: a frame that comes meanwhile
    /// costs no wake-up. `u64::MAX`: never sleep.
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

/// What the calling thread is to be while it runs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RealTime {
    /// SCHED_FIFO of this priority, 1 to 99, with all memory locked that has been touched.
    pub fifo_priority: Option<u8>,
    /// On this core only.
    pub cpu: Option<usize>,
}

impl RealTime {
    /// Makes the calling thread so, and tells what is in force.
    ///
    /// # Errors
    /// CAP_SYS_NICE or CAP_IPC_LOCK is missing; no such core.
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

/// What the loop has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RunStatistics {
    /// Frames that the node was shown.
    pub received: u64,
    /// Frames that the loop has sent.
    pub sent: u64,
    /// Frames that were due and had left already: the port has sent them by itself.
    pub offloaded: u64,
    /// Frames that were not sent: the interface was down, or its queue full.
    pub unsent: u64,
    /// Frames among those sent that were handed over ahead of their launch instant.
    pub launched: u64,
    /// Frames that were to be handed over so, and were not: the loop was awake too late, or they were refused. They were sent
    /// at their instant, or as soon after it as the loop was awake.
    pub unlaunched: u64,
    /// Frames of the node that there was no room for in the queue.
    pub overflowed: u64,
    /// Moments that the node was told of.
    pub moments: u64,
    /// How often the loop slept.
    pub waits: u64,
    /// How often the interface was found down.
    pub downs: u64,
    /// The latest that a moment was told, ns.
    pub worst_moment_ns: u64,
    /// The latest that a frame was handed to the kernel, ns after its launch instant.
    pub worst_launch_ns: u64,
}

/// Drives nodes through one port.
#[derive(Debug)]
pub struct Runner<P> {
    port: P,
    config: RunConfig,
    queue: Queue,
    statistics: RunStatistics,
    /// No time that the node was told is before this.
    now_ns: u64,
    /// The time of the node's last call, as long as nothing of it has been sent.
    told_ns: Option<u64>,
    /// When what was last sent had been sent: frames that came meanwhile wait for that, and it is told once.
    sent_ns: u64,
}

fn now_ns() -> u64 {
    clock::now_ns(Clock::Monotonic)
}

impl<P: Port> Runner<P> {
    /// A loop that has not begun.
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

    /// What was done so far.
    #[must_use]
    pub fn statistics(&self) -> RunStatistics {
        RunStatistics {
            overflowed: self.queue.overflowed(),
            ..self.statistics
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> &P {
        &self.port
    }

    /// The port, to be changed.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    /// Runs the node until `stop` is set. `after` is called after each call of the node, with the same time, before what
    /// the node sends is sent, and ten times a second where nothing happens: there the application takes what the node has to tell, and gives it new values. It is part
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

    /// The same; `after` sees what the loop has done, too.
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
        self.application(node, &mut after, begun);
        let mut busy_until = begun.saturating_add(self.config.linger_ns);
        let mut next_look = begun;
        while !stop.load(Ordering::Relaxed) {
            let took_ns = self.flush()?;
            if took_ns > 0 {
                node.sending_took(took_ns);
            }
            if self.take_frames(node, &mut after)? {
                busy_until = self.now_ns.saturating_add(self.config.linger_ns);
                continue;
            }
            let now = self.time();
            if let Some(due) = node.wake_at_ns().filter(|due| *due <= now) {
                let late = now - due;
                self.statistics.worst_moment_ns = self.statistics.worst_moment_ns.max(late);
                self.statistics.moments += 1;
                self.told_ns = Some(now);
                node.moment(now, &mut self.actions());
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
        // What was due is not kept back; what was meant for later is not sent early.
        self.flush().map(|_| ())
    }

    /// What the node is given, unless it is being shown a frame.
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
                self.application(node, after, self.now_ns);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => self.bear(error).map(|()| false),
        }
    }

    /// Sends what is due; says how long that took, ns, from the time on that the node was told when it gave the frames, or from
    /// when what was sent before had been sent.
    fn flush(&mut self) -> Result<u64, LinkError> {
        let told_ns = self.told_ns.take();
        if self.queue.head().is_none() {
            return Ok(0);
        }
        // What was kept for its instant was not held up meanwhile.
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
                    // Awake too late even to try.
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

    /// Hands the first frame over ahead of its instant, where that is possible and it is time; says whether it is gone.
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

    /// Waits for a frame or until shortly before `due`, and then looks again and again until either.
    fn wait(&mut self, now: u64, due: Option<u64>, busy_until: u64) -> Result<(), LinkError> {
        // What keeps a frame may need this very processor to send it: until then the loop stays asleep.
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
            // Looks often at frames, and at the clock now and then; the caller looks at the stop flag.
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

    /// An interface that is down may come up again; anything else ends the loop.
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
