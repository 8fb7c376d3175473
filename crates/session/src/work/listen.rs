//! A listener: takes every frame of one stream and notes its times.

use std::path::Path;
use std::time::Duration;

use rtwire_measure::noise::StallSource;

use super::tail::Tail;
use super::{Late, Schedule, become_real_time, now_ns};
use crate::listener::{StreamListener, StreamStatistics};
use crate::outcome::ListenerResult;
use crate::samples::{self, Arrival};
use crate::values::Sink;

/// The least time in ns from the kernel's timestamp to the reading that counts as a stall of the listener.
const LATE_READ_NS: u64 = 1_000_000;
const STALLS_MOST: usize = 4_096;
/// The time between two checks of a listener for the end of the run.
const LOOK: Duration = Duration::from_millis(20);

/// A listener that is open and waits for the run.
#[derive(Debug)]
pub(super) struct Listener {
    listener: StreamListener,
    sink: Sink,
    arrivals: Vec<Arrival>,
    late: Vec<Late>,
    /// The number of frames read.
    read: u64,
    delays: Tail,
    before_sent: u64,
}

impl Listener {
    pub(super) fn new(listener: StreamListener, sink: Sink) -> Self {
        Self {
            arrivals: Vec::with_capacity(listener.task.frames_most),
            listener,
            sink,
            late: Vec::with_capacity(STALLS_MOST),
            read: 0,
            delays: Tail::new(),
            before_sent: 0,
        }
    }

    pub(super) fn run(
        mut self,
        schedule: &Schedule,
        drain_ns: u64,
        directory: Option<&Path>,
        host: &str,
    ) -> Result<ListenerResult, String> {
        become_real_time(self.listener.task.realtime)?;
        let fault = match schedule.wait() {
            Some((_, end_ns)) => {
                let until_ns = end_ns.saturating_add(drain_ns);
                self.read(schedule, until_ns, drain_ns).err()
            }
            None => None,
        };
        if let Some(directory) = directory {
            let path = samples::arrivals_path(directory, self.listener.task.stream, host);
            samples::write_arrivals(&path, &self.arrivals)
                .map_err(|e| format!("cannot write the samples: {e}"))?;
        }
        let StreamStatistics {
            channel: statistics,
            foreign,
            too_long,
            too_frequent,
        } = self.listener.statistics().unwrap_or_default();
        let task = &self.listener.task;
        let source = || StallSource::Listener(task.name.clone());
        let fault = fault.or(self.sink.finish());
        Ok(ListenerResult {
            stream: task.stream,
            path: self.listener.path().to_string(),
            frames_foreign: foreign,
            frames_too_long: too_long,
            frames_too_frequent: too_frequent,
            frames_received: statistics.received.saturating_sub(statistics.duplicated),
            // Accepted by the channel and never read; a number that never arrived is not among them.
            frames_overtaken: if task.newest {
                statistics
                    .received
                    .saturating_sub(statistics.duplicated + self.read)
            } else {
                0
            },
            frames_duplicated: statistics.duplicated,
            frames_reordered: statistics.reordered,
            frames_lost: statistics.lost,
            restarts: statistics.restarted,
            delay: self.delays.summary(),
            before_sent: self.before_sent,
            socket_drops: statistics.dropped,
            frames_policed: statistics.refused.policed,
            stalls: self.late.iter().map(|late| late.stall(source())).collect(),
            fault,
        })
    }

    fn read(&mut self, schedule: &Schedule, until_ns: u64, drain_ns: u64) -> Result<(), String> {
        let mut until_ns = until_ns;
        let mut stopping = false;
        loop {
            let now = now_ns();
            if schedule.is_stopped() && !stopping {
                stopping = true;
                until_ns = until_ns.min(now + drain_ns);
            }
            if now >= until_ns {
                return Ok(());
            }
            if self
                .listener
                .task
                .reads_most
                .is_some_and(|most| self.arrivals.len() >= most)
            {
                std::thread::sleep(LOOK);
                continue;
            }
            self.take()?;
        }
    }

    /// Takes one frame, or returns after a moment without one.
    fn take(&mut self) -> Result<(), String> {
        let value = self.listener.recv(Some(LOOK)).map_err(|e| e.to_string())?;
        let Some(value) = value else {
            return Ok(());
        };
        self.sink.put(&value);
        let (sequence, stamp_ns, sender_time_ns) =
            (value.sequence, value.arrival_ns, value.sender_time_ns);
        let now = now_ns();
        self.read += 1;
        if let Some(sent) = sender_time_ns {
            let came = stamp_ns.unwrap_or(now);
            self.before_sent += u64::from(came < sent);
            self.delays.record(came.saturating_sub(sent));
        }
        if self.arrivals.len() < self.arrivals.capacity() {
            self.arrivals.push(Arrival {
                sequence,
                stamp_ns,
                app_sent_ns: sender_time_ns.unwrap_or(0),
                app_received_ns: now,
            });
        }
        if let Some(stamp) = stamp_ns.filter(|stamp| now.saturating_sub(*stamp) > LATE_READ_NS) {
            if self.late.len() < self.late.capacity() {
                self.late.push(Late {
                    alive_ns: stamp,
                    due_ns: stamp,
                    woke_ns: now,
                });
            }
        }
        Ok(())
    }
}
