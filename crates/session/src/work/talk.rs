//! A talker: sends one stream by its pattern, under its contract, and collects its timestamps.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rtwire_channel::{ChannelError, LinkError, Talker, TxStamps};
use rtwire_measure::noise::StallSource;
use rtwire_sys::clock::{self, Clock};

use super::tail::Tail;
use super::{Late, STAMP_PRIORITY, Schedule, become_real_time, now_ns};
use crate::channels;
use crate::cyclic;
use crate::error::SessionError;
use crate::hold::Hold;
use crate::outcome::TalkerResult;
use crate::pace::Turn;
use crate::samples::{self, SentStamp};
use crate::talker::StreamTalker;
use crate::task::{Pattern, TalkerTask};
use crate::values::{Found, Source};

/// The largest number of late ticks kept with their times; further ones are in the percentiles only.
const STALLS_MOST: usize = 4_096;
/// The largest number of ticks whose lateness is kept.
const OVERSHOOTS_MOST: usize = 4_000_000;
/// The fault of a burst that does not hold one frame, which no plan lets pass.
const NEVER: &str = "a frame of this stream is larger than its contract's burst";
/// The time to wait for missing timestamps after the last frame.
const STAMPS_WAIT: Duration = Duration::from_millis(300);

/// The time between two checks of a talker that waits for a value for the end of the run.
const LOOK: Duration = Duration::from_millis(20);

/// A talker that is open and waits for the run.
#[derive(Debug)]
pub(super) struct Talking {
    task: TalkerTask,
    talker: Talker,
    hold: Hold,
    source: Source,
    stamps: Option<TxStamps>,
    payload: Vec<u8>,
    sent: SentStamps,
    /// The times of the send calls by the talker's own clock, for transmit paths on which the kernel stamps nothing.
    called: Option<SentStamps>,
    returned_ns: Vec<u64>,
    log: Log,
}

/// The first timestamp of each frame, by its number; 0 for none.
///
/// A frame is stamped wherever it enters a queue: first at its host, then again in each switch of the lab. The kernel
/// carries the request along with the frame. The host's own timestamp is taken while the send call runs, which tells it
/// from later ones.
#[derive(Debug)]
struct SentStamps(Vec<u64>);

impl SentStamps {
    fn note(&mut self, frame: u64, stamp_ns: u64) {
        let place = usize::try_from(frame)
            .ok()
            .and_then(|frame| self.0.get_mut(frame));
        if let Some(first) = place {
            if *first == 0 || stamp_ns < *first {
                *first = stamp_ns;
            }
        }
    }

    /// Returns the timestamps that are not later than `returned_ns`, the end of their frame's send call.
    fn records(&self, returned_ns: &[u64]) -> Vec<SentStamp> {
        (0_u32..)
            .zip(self.0.iter().zip(returned_ns))
            .filter(|(_, (stamp_ns, returned_ns))| **stamp_ns != 0 && stamp_ns <= returned_ns)
            .map(|(sequence, (&stamp_ns, _))| SentStamp { sequence, stamp_ns })
            .collect()
    }
}

/// The notes of the sending thread. All memory is allocated before the run.
#[derive(Debug)]
struct Log {
    result: TalkerResult,
    late: Vec<Late>,
    tick_error_ns: u64,
    last_awake_ns: u64,
    lateness: Tail,
}

impl Log {
    /// Notes that the tick due at `due_ns` was taken at `woke_ns`. Does not allocate.
    fn tick(&mut self, due_ns: u64, woke_ns: u64) {
        let late_ns = woke_ns.saturating_sub(due_ns);
        self.lateness.record(late_ns);
        let overshoots = &mut self.result.overshoots_ns;
        if overshoots.len() < overshoots.capacity() {
            overshoots.push(u32::try_from(late_ns).unwrap_or(u32::MAX));
        }
        if late_ns > self.tick_error_ns && self.late.len() < self.late.capacity() {
            self.late.push(Late {
                alive_ns: self.last_awake_ns.min(due_ns),
                due_ns,
                woke_ns,
            });
        }
        self.last_awake_ns = woke_ns;
    }

    /// Returns the result of the talker of stream `name`, after the run.
    fn result(self, name: &str) -> TalkerResult {
        let stalls = self.late.iter();
        let stalls = stalls.map(|late| late.stall(StallSource::Talker(name.to_owned())));
        TalkerResult {
            stalls: stalls.collect(),
            ..self.result
        }
    }
}

impl Talking {
    pub(super) fn new(stream: StreamTalker, source: Source) -> Result<Self, SessionError> {
        let StreamTalker {
            task,
            mut talker,
            hold,
            ..
        } = stream;
        let past_the_queue = task.path.goes_past_the_queue();
        let by_kernel = channels::stamped_by_kernel(&task);
        let failed = |source| SessionError::Channel {
            stream: task.name.clone(),
            source,
        };
        let stamps = talker.take_stamps().map_err(failed)?;
        if by_kernel && stamps.is_none() {
            return Err(SessionError::Values {
                stream: task.name,
                what: "the kernel gives no transmit stamps".to_owned(),
            });
        }
        Ok(Self {
            payload: vec![0; task.payload_bytes.min(talker.maximum_data())],
            sent: SentStamps(vec![0; if by_kernel { task.frames_most } else { 0 }]),
            called: (task.stamps && past_the_queue).then(|| SentStamps(vec![0; task.frames_most])),
            returned_ns: Vec::with_capacity(task.frames_most),
            log: Log {
                result: TalkerResult {
                    stream: task.stream,
                    overshoots_ns: Vec::with_capacity(task.frames_most.min(OVERSHOOTS_MOST)),
                    ..TalkerResult::default()
                },
                late: Vec::with_capacity(STALLS_MOST),
                tick_error_ns: task.tick_error_ns,
                last_awake_ns: 0,
                lateness: Tail::new(),
            },
            task,
            talker,
            hold,
            source,
            stamps,
        })
    }

    pub(super) fn run(
        self,
        schedule: &Schedule,
        directory: Option<&Path>,
    ) -> Result<TalkerResult, String> {
        let Self {
            task,
            talker,
            hold: _hold,
            source,
            stamps,
            payload,
            mut sent,
            called,
            returned_ns,
            log,
        } = self;
        let over = AtomicBool::new(false);
        let (result, sent, returned_ns) = thread::scope(|scope| {
            let over = &over;
            let collector = scope.spawn(move || {
                let Some(mut stamps) = stamps else {
                    return Ok(sent);
                };
                become_real_time(STAMP_PRIORITY)?;
                collect(&mut stamps, &mut sent, over).map(|()| sent)
            });
            let mut sending = Sending {
                task: &task,
                talker,
                source,
                over: false,
                payload,
                called,
                returned_ns,
                log,
            };
            let outcome = become_real_time(task.realtime).and_then(|()| {
                schedule
                    .wait()
                    .map_or(Ok(()), |times| sending.go(schedule, times))
            });
            over.store(true, Ordering::Release);
            let sent = collector
                .join()
                .unwrap_or_else(|_| Err("the stamp collector panicked".to_owned()))?;
            let lateness = sending.log.lateness.summary();
            let mut result = sending.log.result(&task.name);
            result.lateness = lateness;
            result.frames_sent = sending.talker.statistics().sent;
            result.sends_refused = sending.talker.statistics().queue_full;
            let over = sending.over;
            result.fault = outcome.err().or_else(|| sending.source.fault(over));
            Ok::<_, String>((result, sending.called.unwrap_or(sent), sending.returned_ns))
        })?;
        if let Some(directory) = directory {
            let stamps = sent.records(&returned_ns);
            samples::write_sent(&samples::sent_path(directory, task.stream), &stamps)
                .map_err(|e| format!("cannot write the samples: {e}"))?;
        }
        Ok(result)
    }
}

fn collect(stamps: &mut TxStamps, sent: &mut SentStamps, over: &AtomicBool) -> Result<(), String> {
    let mut last_news = std::time::Instant::now();
    loop {
        let was_over = over.load(Ordering::Acquire);
        let count = stamps
            .collect(Duration::from_millis(20), |stamp| {
                sent.note(stamp.frame, stamp.tai_ns)
            })
            .map_err(|e| e.to_string())?;
        if count > 0 {
            last_news = std::time::Instant::now();
        } else if was_over && last_news.elapsed() > STAMPS_WAIT {
            return Ok(());
        }
    }
}

/// The sending thread at work.
struct Sending<'a> {
    task: &'a TalkerTask,
    talker: Talker,
    source: Source,
    /// True if the program of the source has ended.
    over: bool,
    payload: Vec<u8>,
    /// The beginning of each frame's send call, where the kernel stamps none.
    called: Option<SentStamps>,
    /// The end of each frame's send call.
    returned_ns: Vec<u64>,
    log: Log,
}

impl Sending<'_> {
    fn go(&mut self, schedule: &Schedule, (start_ns, end_ns): (u64, u64)) -> Result<(), String> {
        let done = match self.task.pattern {
            Pattern::Cyclic { .. } => self.cyclic(schedule, (start_ns, end_ns)),
            Pattern::Saturating if self.source.takes_each() => {
                self.each(schedule, start_ns, end_ns)
            }
            Pattern::Saturating => self.saturating(schedule, start_ns, end_ns),
            Pattern::Greedy => self.greedy(schedule, start_ns, end_ns),
            Pattern::Bursts {
                frames,
                interval_ns,
                offset_ns,
            } => self.bursts(schedule, start_ns + offset_ns, end_ns, frames, interval_ns),
        };
        self.log.result.cpu_ns = clock::thread_cpu_ns();
        done
    }

    /// Sends the first `length` bytes of the payload, now or at a launch time.
    fn send(&mut self, length: usize, launch_ns: Option<u64>) -> Result<(), String> {
        let called_ns = self.called.as_ref().map(|_| now_ns());
        let value = &self.payload[..length];
        let result = match launch_ns {
            None => self.talker.send(value),
            Some(launch_ns) => self.talker.send_at(value, launch_ns),
        };
        match result {
            Ok(frame) => {
                if let (Some(called), Some(called_ns)) = (&mut self.called, called_ns) {
                    called.note(frame.into(), called_ns);
                }
            }
            // The talker counts a full queue, and one that refuses a launch time. The frame is lost; its number will be
            // missing.
            Err(ChannelError::Link(LinkError::QueueFull | LinkError::LaunchRefused { .. })) => {}
            Err(error) => return Err(error.to_string()),
        }
        if self.returned_ns.len() < self.returned_ns.capacity() {
            self.returned_ns.push(now_ns());
        }
        Ok(())
    }

    /// Sends one frame at each instant of the grid. An instant that has passed is skipped and counted. Where a queue keeps
    /// launch times, frames are handed over one lead before them.
    fn cyclic(&mut self, schedule: &Schedule, times: (u64, u64)) -> Result<(), String> {
        let delta_ns = self.talker.launch_queue().map(|queue| queue.delta_ns);
        // With a lead the first instants pass while it gets ready.
        let (mut pace, lead_ns) = cyclic::pace(self.task, delta_ns, times.0);
        let end_ns = times.1.saturating_sub(lead_ns);
        while pace.due_ns() < end_ns && !schedule.is_stopped() {
            let due_ns = pace.due_ns();
            sleep_until(due_ns)?;
            let now = now_ns();
            self.log.tick(due_ns, now);
            if let Turn::Send { due_ns, .. } = pace.turn(now) {
                match self.source.newest(&mut self.payload) {
                    Found::Length(length) => {
                        self.send(length, (lead_ns > 0).then_some(due_ns + lead_ns))?;
                    }
                    Found::Nothing => {}
                    Found::Over => {
                        self.over = true;
                        break;
                    }
                }
            }
            self.log.result.ticks_skipped = pace.skipped();
        }
        Ok(())
    }

    /// Sends every value of a program, in order, as soon as the contract allows.
    fn each(&mut self, schedule: &Schedule, start_ns: u64, end_ns: u64) -> Result<(), String> {
        let mut shaper = channels::shaper(self.task, start_ns, self.task.shaping_interval_ns);
        sleep_until(start_ns)?;
        while now_ns() < end_ns && !schedule.is_stopped() {
            match self.source.next(&mut self.payload, LOOK) {
                Found::Length(length) => {
                    let mut now = now_ns();
                    let due = shaper.earliest(now, self.task.wire_bits).ok_or(NEVER)?;
                    if due > now {
                        sleep_until(due)?;
                        now = now_ns();
                        self.log.tick(due, now);
                    }
                    while let Err(not_yet) = shaper.take(now, self.task.wire_bits) {
                        sleep_until(not_yet.earliest_ns.ok_or(NEVER)?)?;
                        now = now_ns();
                    }
                    self.send(length, None)?;
                }
                Found::Nothing => {}
                Found::Over => {
                    self.over = true;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends as many frames as the shaper allows.
    fn saturating(
        &mut self,
        schedule: &Schedule,
        start_ns: u64,
        end_ns: u64,
    ) -> Result<(), String> {
        let mut shaper = channels::shaper(self.task, start_ns, self.task.shaping_interval_ns);
        sleep_until(start_ns)?;
        let mut now = now_ns();
        while now < end_ns && !schedule.is_stopped() {
            let due = shaper.earliest(now, self.task.wire_bits).ok_or(NEVER)?;
            if due > now {
                sleep_until(due)?;
                now = now_ns();
                self.log.tick(due, now);
            }
            while shaper.take(now, self.task.wire_bits).is_ok() {
                self.send(self.payload.len(), None)?;
            }
            now = now_ns();
        }
        Ok(())
    }

    /// Sends as many frames as the link takes, without a shaper.
    fn greedy(&mut self, schedule: &Schedule, start_ns: u64, end_ns: u64) -> Result<(), String> {
        sleep_until(start_ns)?;
        while now_ns() < end_ns && !schedule.is_stopped() {
            self.send(self.payload.len(), None)?;
        }
        Ok(())
    }

    fn bursts(
        &mut self,
        schedule: &Schedule,
        start_ns: u64,
        end_ns: u64,
        frames: u32,
        interval_ns: u64,
    ) -> Result<(), String> {
        let mut due = start_ns;
        while due < end_ns && !schedule.is_stopped() {
            sleep_until(due)?;
            let now = now_ns();
            self.log.tick(due, now);
            for _ in 0..frames {
                self.send(self.payload.len(), None)?;
            }
            due += interval_ns * (now.saturating_sub(due) / interval_ns + 1);
        }
        Ok(())
    }
}

fn sleep_until(instant_ns: u64) -> Result<(), String> {
    while now_ns() < instant_ns {
        clock::sleep_until(Clock::Tai, instant_ns).map_err(|errno| errno.text())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtwire_measure::noise::Stall;

    #[global_allocator]
    static ALLOCATOR: rtwire_testkit::CountingAllocator = rtwire_testkit::CountingAllocator;

    #[test]
    fn noting_ticks_allocates_nothing_and_forgets_none_that_is_late() {
        let mut log = Log {
            result: TalkerResult {
                overshoots_ns: Vec::with_capacity(100),
                ..TalkerResult::default()
            },
            late: Vec::with_capacity(100),
            tick_error_ns: 1_000,
            last_awake_ns: 0,
            lateness: Tail::new(),
        };
        let before = rtwire_testkit::allocations();
        for tick in 1..=50 {
            let due_ns = tick * 10_000;
            // Every other one is late.
            log.tick(due_ns, due_ns + 900 + tick % 2 * 200);
        }
        assert_eq!(rtwire_testkit::allocations(), before);
        let result = log.result("C-to-B");
        assert_eq!((result.overshoots_ns.len(), result.stalls.len()), (50, 25));
        let expected = Stall {
            source: StallSource::Talker("C-to-B".to_owned()),
            alive_ns: 20_900,
            due_ns: 30_000,
            woke_ns: 31_100,
        };
        assert_eq!(result.stalls[1], expected);
    }
}
