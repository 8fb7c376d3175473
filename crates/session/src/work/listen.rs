//! A listener: takes every frame of one stream and notes its times, of a newest-value stream those of overtaken frames,
//! too.

use std::path::Path;
use std::time::{Duration, Instant};

use rtwire_measure::noise::StallSource;

use super::tail::Tail;
use super::{Late, Schedule, unwritten};
use crate::error::SessionError;
use crate::evidence::taps::ListenerTap;
use crate::filler::Checker;
use crate::listener::{StreamListener, StreamStatistics};
use crate::outcome::ListenerResult;
use crate::real_time::{become_real_time, now_ns};
use crate::samples::{self, Arrival};
use crate::values::Sink;

/// The least time in ns from the kernel's timestamp to the reading that counts as a stall of the listener.
const LATE_READ_NS: u64 = 1_000_000;
const STALLS_MOST: usize = 4_096;
/// The largest number of arrivals behind a value that was just read, among which it is searched.
const FOLLOWERS_MOST: usize = 4_096;
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
    /// The instant at which the last read returned, with a frame or without one.
    heard_to_ns: Option<u64>,
    delays: Tail,
    before_sent: u64,
    checker: Checker,
    tap: ListenerTap,
}

/// A value that was read, without its data.
#[derive(Clone, Copy)]
struct Read {
    sequence: u32,
    stamp_ns: Option<u64>,
    sender_time_ns: Option<u64>,
    read_ns: u64,
}

impl Listener {
    pub(super) fn new(listener: StreamListener, sink: Sink, tap: ListenerTap) -> Self {
        Self {
            arrivals: Vec::with_capacity(listener.task.frames_most),
            checker: Checker::new(listener.task.key, listener.task.filler),
            listener,
            sink,
            late: Vec::with_capacity(STALLS_MOST),
            read: 0,
            heard_to_ns: None,
            delays: Tail::new(),
            before_sent: 0,
            tap,
        }
    }

    /// Returns the receive path of its frames.
    pub(super) fn path(&self) -> String {
        self.listener.path_in_use().to_string()
    }

    pub(super) fn run(
        mut self,
        schedule: &Schedule,
        drain_ns: u64,
        directory: Option<&Path>,
        host: &str,
    ) -> Result<ListenerResult, SessionError> {
        become_real_time(self.listener.task.realtime)?;
        let fault = match schedule.wait() {
            Some((_, end_ns)) => {
                let until_ns = end_ns.saturating_add(drain_ns);
                let read = self.read(schedule, until_ns, drain_ns);
                read.err().map(|error| error.to_string())
            }
            None => None,
        };
        // Those that came since the last value was read.
        self.collect(None);
        if let Some(directory) = directory {
            let path = samples::arrivals_path(directory, self.listener.task.stream, host);
            samples::write_arrivals(&path, &self.arrivals).map_err(|e| unwritten(&e))?;
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
            path: self.listener.path_in_use().to_string(),
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
            arrivals_missed: self.listener.arrivals_missed(),
            frames_corrupted: self.checker.corrupted(),
            frames_unchecked: self.checker.unchecked(),
            frames_duplicated: statistics.duplicated,
            frames_reordered: statistics.reordered,
            frames_lost: statistics.lost,
            restarts: statistics.restarted,
            delay: self.delays.summary(),
            before_sent: self.before_sent,
            socket_drops: statistics.dropped,
            frames_policed: statistics.refused.policed,
            stalls: self.late.iter().map(|late| late.stall(source())).collect(),
            heard_to_ns: self.heard_to_ns,
            fault,
        })
    }

    fn read(
        &mut self,
        schedule: &Schedule,
        until_ns: u64,
        drain_ns: u64,
    ) -> Result<(), SessionError> {
        let drain = Duration::from_nanos(drain_ns);
        let (begun, planned) = (Instant::now(), until_ns.saturating_sub(now_ns()));
        let mut end = None;
        loop {
            let is_over = now_ns() >= until_ns;
            if end.is_none() && (is_over || schedule.is_stopped()) {
                // Where the clock was set forward, more time is left than its readings show: frames are still on their way.
                let left = Duration::from_nanos(planned).saturating_sub(begun.elapsed());
                end = Some(Instant::now() + drain.min(left));
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(());
            }
            if self
                .listener
                .task
                .reads_most
                .is_some_and(|most| self.read >= most as u64)
            {
                std::thread::sleep(LOOK);
                continue;
            }
            self.take()?;
        }
    }

    /// Takes one frame, or returns after a moment without one.
    fn take(&mut self) -> Result<(), SessionError> {
        let value = self.listener.recv(Some(LOOK))?;
        let Some(value) = value else {
            self.heard_to_ns = Some(now_ns());
            return Ok(());
        };
        self.sink.put(&value);
        self.checker.check(value.data, value.sequence);
        let (sequence, stamp_ns, sender_time_ns) =
            (value.sequence, value.stamp_ns(), value.sender_time_ns);
        let read_ns = now_ns();
        self.heard_to_ns = Some(read_ns);
        self.read += 1;
        let read = Read {
            sequence,
            stamp_ns,
            sender_time_ns,
            read_ns,
        };
        if self.listener.task.newest {
            self.collect(Some(read));
        } else {
            self.note(read);
        }
        if let Some(stamp) = stamp_ns.filter(|stamp| read_ns.saturating_sub(*stamp) > LATE_READ_NS)
        {
            if self.late.len() < self.late.capacity() {
                self.late.push(Late {
                    alive_ns: stamp,
                    due_ns: stamp,
                    woke_ns: read_ns,
                });
            }
        }
        Ok(())
    }

    /// Notes the times of a frame of a queue, which is read as it is taken.
    fn note(&mut self, read: Read) {
        let came_ns = read.stamp_ns.unwrap_or(read.read_ns);
        self.tap.arrival(
            read.sequence,
            read.stamp_ns,
            read.sender_time_ns,
            read.read_ns,
        );
        delay(
            &mut self.delays,
            &mut self.before_sent,
            (read.sender_time_ns, came_ns),
        );
        push(
            &mut self.arrivals,
            Arrival {
                sequence: read.sequence,
                stamp_ns: read.stamp_ns,
                app_sent_ns: read.sender_time_ns.unwrap_or(0),
                app_received_ns: Some(read.read_ns),
            },
        );
    }

    /// Notes the times of every newest value since the last call, read or not; `read` is the one that was just read.
    fn collect(&mut self, read: Option<Read>) {
        let Self {
            listener,
            arrivals,
            delays,
            before_sent,
            tap,
            ..
        } = self;
        listener.arrivals(|note| {
            delay(delays, before_sent, (note.sender_time_ns, note.arrival_ns));
            let stamp_ns = Some(note.arrival_ns).filter(|_| note.stamp.is_on_the_way());
            // 0: overtaken before the program had it.
            let read_ns = match read {
                Some(read) if read.sequence == note.sequence => read.read_ns,
                _ if note.stamp.is_on_the_way() => 0,
                _ => note.arrival_ns,
            };
            tap.arrival(note.sequence, stamp_ns, note.sender_time_ns, read_ns);
            push(
                arrivals,
                Arrival {
                    sequence: note.sequence,
                    stamp_ns,
                    app_sent_ns: note.sender_time_ns.unwrap_or(0),
                    app_received_ns: None,
                },
            );
        });
        // It is among the last ones: behind it are only those that came since it was read.
        if let Some(read) = read {
            let mut last = arrivals.iter_mut().rev().take(FOLLOWERS_MOST);
            if let Some(own) = last.find(|arrival| arrival.sequence == read.sequence) {
                own.app_received_ns = Some(read.read_ns);
            }
        }
    }
}

/// Records the time from sending to arrival, where the frame carries the former.
fn delay(delays: &mut Tail, before_sent: &mut u64, (sent_ns, came_ns): (Option<u64>, u64)) {
    if let Some(sent_ns) = sent_ns {
        *before_sent += u64::from(came_ns < sent_ns);
        delays.record(came_ns.saturating_sub(sent_ns));
    }
}

/// Adds an arrival where there is room. Does not allocate.
fn push(arrivals: &mut Vec<Arrival>, arrival: Arrival) {
    if arrivals.len() < arrivals.capacity() {
        arrivals.push(arrival);
    }
}
