//! A listener: takes every frame of one stream and writes down when.

use std::path::Path;
use std::time::Duration;

use rtwire_channel::{
    Endpoint, ListenerPath, ListenerStatistics, NewestListener, PathInUse, QueueListener,
    ReceivePath,
};
use rtwire_measure::noise::StallSource;

use super::tail::Tail;
use super::{Late, Schedule, become_real_time, now_ns};
use crate::assignment::{ListenerResult, ListenerTask};
use crate::duties;
use crate::samples::{self, Arrival};

/// From this gap between the kernel's stamp and the reading on, a listener was held up.
const LATE_READ_NS: u64 = 1_000_000;
const STALLS_MOST: usize = 4_096;
/// How often a listener looks whether the run is over.
const LOOK: Duration = Duration::from_millis(20);

/// How long a listener that polls does so before it sleeps.
const POLL: Duration = Duration::from_micros(100);

enum Inbox {
    Queue(QueueListener),
    Newest(NewestListener),
}

/// A listener that is open and waits for the run.
pub(super) struct Listener {
    task: ListenerTask,
    path: String,
    inbox: Inbox,
    arrivals: Vec<Arrival>,
    late: Vec<Late>,
    /// Frames read.
    read: u64,
    delays: Tail,
    before_sent: u64,
}

impl Listener {
    pub(super) fn open(
        endpoint: &Endpoint,
        wanted: ReceivePath,
        task: &ListenerTask,
    ) -> Result<Self, String> {
        let config = duties::listener_config(task);
        let mut inbox = if task.newest {
            Inbox::Newest(
                endpoint
                    .newest_listener(&config)
                    .map_err(|e| e.to_string())?,
            )
        } else {
            Inbox::Queue(
                endpoint
                    .queue_listener(&config)
                    .map_err(|e| e.to_string())?,
            )
        };
        if task.polls {
            match &mut inbox {
                Inbox::Queue(listener) => listener.busy_poll(POLL),
                Inbox::Newest(listener) => listener.busy_poll(POLL),
            }
            .map_err(|e| e.to_string())?;
        }
        let path = match &inbox {
            Inbox::Queue(listener) => listener.path(),
            Inbox::Newest(listener) => listener.path(),
        };
        // Where nobody on this host wants the program, none is attached, and only this one knows why.
        let chosen = wanted == ReceivePath::Auto && path.path == PathInUse::Packet;
        let path = match &path.why {
            None if chosen => ListenerPath::packet_by_choice().to_string(),
            _ => path.to_string(),
        };
        Ok(Self {
            task: task.clone(),
            path,
            inbox,
            arrivals: Vec::with_capacity(task.frames_most),
            late: Vec::with_capacity(STALLS_MOST),
            read: 0,
            delays: Tail::new(),
            before_sent: 0,
        })
    }

    pub(super) fn run(
        mut self,
        schedule: &Schedule,
        drain_ns: u64,
        directory: Option<&Path>,
        host: &str,
    ) -> Result<ListenerResult, String> {
        become_real_time(self.task.realtime)?;
        let fault = match schedule.wait() {
            Some((_, end_ns)) => {
                let until_ns = end_ns.saturating_add(drain_ns);
                self.read(schedule, until_ns, drain_ns).err()
            }
            None => None,
        };
        if let Some(directory) = directory {
            let path = samples::arrivals_path(directory, self.task.stream, host);
            samples::write_arrivals(&path, &self.arrivals)
                .map_err(|e| format!("cannot write the samples: {e}"))?;
        }
        let statistics = self.statistics();
        let source = || StallSource::Listener(self.task.name.clone());
        Ok(ListenerResult {
            stream: self.task.stream,
            path: self.path,
            frames_received: statistics.received.saturating_sub(statistics.duplicated),
            // Accepted by the channel and never read; a number that never came is not among them.
            frames_overtaken: if self.task.newest {
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
        let arrival = match &mut self.inbox {
            Inbox::Queue(listener) => listener
                .recv(Some(LOOK))
                .map_err(|e| e.to_string())?
                .map(|frame| (frame.sequence, frame.rx_stamp_ns, frame.sender_time_ns)),
            Inbox::Newest(listener) => {
                listener.wait(Some(LOOK)).map_err(|e| e.to_string())?;
                let newest = listener.read().map_err(|e| e.to_string())?;
                newest.filter(|value| value.fresh).map(|value| {
                    let stamp_ns = Some(value.arrival_ns).filter(|_| value.stamped);
                    (value.sequence, stamp_ns, value.sender_time_ns)
                })
            }
        };
        let Some((sequence, stamp_ns, sender_time_ns)) = arrival else {
            return Ok(());
        };
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

    fn statistics(&mut self) -> ListenerStatistics {
        let statistics = match &mut self.inbox {
            Inbox::Queue(listener) => listener.statistics(),
            Inbox::Newest(listener) => listener.statistics(),
        };
        statistics.unwrap_or_default()
    }
}
