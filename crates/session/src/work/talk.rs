//! A talker: sends one stream by its pattern, under its contract, and collects its timestamps.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rtwire_channel::{Shaper, Talker, TxStamps};
use rtwire_measure::evidence::SentRecord;
use rtwire_sys::clock;
use rtwire_sys::sched;

use super::log::Log;
use super::stamps::{Collector, Instants, SentStamps};
use super::{STAMP_PRIORITY, Schedule, unwritten};
use crate::channels;
use crate::cyclic;
use crate::error::SessionError;
use crate::evidence::taps::TalkerTap;
use crate::filler;
use crate::hold::Hold;
use crate::late_cycles::limit_ns;
use crate::margin::SpinMargin;
use crate::outcome::TalkerResult;
use crate::pace::Turn;
use crate::real_time::{Waited, become_real_time, now_ns, sleep_until};
use crate::samples;
use crate::talker::{self, Sent, StreamTalker};
use crate::task::{Pattern, TalkerTask};
use crate::values::{Each, Found, Newest, Source};
use crate::waiting::{Slept, Waiting};

/// The time between two checks of a talker that waits for a value for the end of the run.
const LOOK: Duration = Duration::from_millis(20);

/// The longest wait of a talker without a grid for room in its socket's send buffer. It sends as fast as its host lets it, and a
/// gate that never opens must not hold the end of the run.
const ROOM_WAIT: Duration = Duration::from_millis(100);

/// A talker that is open and waits for the run.
#[derive(Debug)]
pub(super) struct Talking {
    task: TalkerTask,
    talker: Talker,
    hold: Hold,
    source: Source,
    stamps: Option<TxStamps>,
    payload: Vec<u8>,
    /// True if the payload is filler, which carries a checksum.
    filler: bool,
    sent: SentStamps,
    /// The instants of its frames, where the kernel's timestamps are compared with them.
    instants: Option<Instants>,
    /// The times of the send calls by the talker's own clock, for transmit paths on which the kernel stamps nothing.
    called: Option<SentStamps>,
    returned_ns: Vec<u64>,
    /// True if the card stamps its frames.
    by_card: bool,
    log: Log,
    tap: TalkerTap,
}

impl Talking {
    pub(super) fn new(
        stream: StreamTalker,
        source: Source,
        tap: TalkerTap,
    ) -> Result<Self, SessionError> {
        let StreamTalker {
            task,
            mut talker,
            hold,
            ..
        } = stream;
        let past_the_queue = task.path.goes_past_the_queue();
        let by_kernel = channels::stamped_by_kernel(&task);
        let by_card = talker.is_stamped_by_card();
        let failed = |source| SessionError::Channel {
            stream: task.name.clone(),
            source,
        };
        let has_grid = matches!(
            (&source, task.pattern),
            (Source::Newest(_), Pattern::Cyclic { .. })
        );
        if !has_grid {
            talker.set_room_wait(ROOM_WAIT).map_err(failed)?;
        }
        let stamps = talker.take_stamps().map_err(failed)?;
        if by_kernel && stamps.is_none() {
            return Err(SessionError::Values {
                stream: task.name,
                what: "the kernel gives no transmit stamps".to_owned(),
            });
        }
        let mut payload = vec![0; task.payload_bytes.min(talker.maximum_data())];
        let filler = matches!(source, Source::Newest(Newest::Filler));
        if filler {
            filler::fill(&mut payload);
        }
        let tick_error_ns = match task.pattern {
            Pattern::Cyclic { interval_ns } => limit_ns(interval_ns, task.tick_error_ns),
            _ => task.tick_error_ns,
        };
        Ok(Self {
            payload,
            filler,
            sent: SentStamps::new(if by_kernel { task.frames_most } else { 0 }),
            instants: ((by_kernel || by_card) && cyclic::on_the_grid(&task)).then(Instants::new),
            by_card,
            called: (task.stamps && past_the_queue).then(|| SentStamps::new(task.frames_most)),
            returned_ns: Vec::with_capacity(task.frames_most),
            log: Log::new(task.stream, task.frames_most, tick_error_ns),
            tap,
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
    ) -> Result<TalkerResult, SessionError> {
        let Self {
            task,
            talker,
            hold: _hold,
            mut source,
            stamps,
            payload,
            filler,
            sent,
            instants,
            called,
            returned_ns,
            by_card,
            log,
            tap,
        } = self;
        let (over, stamped) = (AtomicBool::new(false), tap.clone());
        let (result, sent, returned_ns) = thread::scope(|scope| {
            let (over, instants) = (&over, instants.as_ref());
            let collector = scope.spawn(move || {
                let mut collector = Collector::new(sent, instants, stamped);
                if let Some(mut stamps) = stamps {
                    become_real_time(STAMP_PRIORITY)?;
                    collector.collect(&mut stamps, over)?;
                }
                Ok(collector.into_results())
            });
            let mut sending = Sending {
                task: &task,
                talker,
                over: false,
                payload,
                filler,
                instants,
                number: 0,
                called,
                returned_ns,
                log,
                tap,
            };
            let outcome = become_real_time(task.realtime).and_then(|()| {
                schedule
                    .wait()
                    .map_or(Ok(()), |times| sending.go(&source, schedule, times))
            });
            over.store(true, Ordering::Release);
            let (sent, stamped) = collector.join().unwrap_or_else(|_| {
                Err(SessionError::Work("the stamp collector panicked".into()))
            })?;
            let mut result = sending.log.result(&task.name);
            result.off_grid = stamped.off_grid;
            result.on_wire = stamped.on_wire;
            result.card_stamps = by_card.then_some(stamped.by_card);
            result.frames_sent = sending.talker.statistics().sent;
            result.sends_refused = sending.talker.statistics().queue_full;
            let over = sending.over;
            result.fault = outcome
                .err()
                .map(|error| error.to_string())
                .or_else(|| source.fault(over));
            Ok::<_, SessionError>((result, sending.called.unwrap_or(sent), sending.returned_ns))
        })?;
        if let Some(directory) = directory {
            let stamps = sent.records(&returned_ns);
            samples::write_sent(&samples::sent_path(directory, task.stream), &stamps)
                .map_err(|e| unwritten(&e))?;
        }
        Ok(result)
    }
}

/// The sending thread at work.
struct Sending<'a> {
    task: &'a TalkerTask,
    talker: Talker,
    /// True if the program of the source has ended.
    over: bool,
    payload: Vec<u8>,
    /// True if the payload is filler, which carries a checksum.
    filler: bool,
    instants: Option<&'a Instants>,
    /// The number of the next frame.
    number: u64,
    /// The beginning of each frame's send call, where the kernel stamps none.
    called: Option<SentStamps>,
    /// The end of each frame's send call.
    returned_ns: Vec<u64>,
    log: Log,
    tap: TalkerTap,
}

impl Sending<'_> {
    fn go(
        &mut self,
        source: &Source,
        schedule: &Schedule,
        times: (u64, u64),
    ) -> Result<(), SessionError> {
        let done = match (source, self.task.pattern) {
            (Source::Each(each), _) => self.each(each, schedule, times),
            (Source::Newest(newest), Pattern::Cyclic { .. }) => {
                self.cyclic(newest, schedule, times)
            }
            (_, Pattern::Saturating) => self.saturating(schedule, times),
            (_, Pattern::Greedy) => self.greedy(schedule, times),
            (
                _,
                Pattern::Bursts {
                    frames,
                    interval_ns,
                    offset_ns,
                },
            ) => self.bursts(
                schedule,
                (times.0 + offset_ns, times.1),
                frames,
                interval_ns,
            ),
        };
        self.log.result.cpu_ns = clock::thread_cpu_ns();
        done
    }

    /// Returns the error of a burst that does not hold one frame, which no plan lets pass.
    fn never(&self) -> SessionError {
        SessionError::Never(self.task.name.clone())
    }

    /// Sends the first `length` bytes of the payload, now or at a launch time.
    fn send(&mut self, length: usize, launch_ns: Option<u64>) -> Result<(), SessionError> {
        if self.filler {
            // The low 32 bits of the count are the number of the next frame.
            let sequence = self.talker.statistics().sent as u32;
            filler::seal(&mut self.payload[..length], sequence, self.task.key);
        }
        let noted = self.called.is_some() || self.tap.is_on();
        let called_ns = if noted { now_ns() } else { 0 };
        let value = &self.payload[..length];
        let result = match launch_ns {
            None => self.talker.send(value),
            Some(launch_ns) => self.talker.send_at(value, launch_ns),
        };
        if let (Sent::Sequence(frame), true) = (talker::sent(self.task, result)?, noted) {
            if let Some(called) = &mut self.called {
                called.note(frame.into(), called_ns);
            }
            self.tap.sent(SentRecord {
                sequence: frame,
                late_ns: u32::try_from(self.log.late_ns).unwrap_or(u32::MAX),
                called_ns,
                returned_ns: now_ns(),
                launch_ns: launch_ns.unwrap_or(0),
            });
        }
        // A frame that a full queue dropped is lost, and its number will be missing. One that was not taken has none.
        let number = self.talker.statistics().sent;
        if number > self.number && self.returned_ns.len() < self.returned_ns.capacity() {
            self.returned_ns.push(now_ns());
        }
        self.number = number;
        Ok(())
    }

    /// Sends one frame at each instant of the grid. An instant that has passed is skipped and counted. Where a queue keeps
    /// launch times, frames are handed over one lead before them.
    fn cyclic(
        &mut self,
        source: &Newest,
        schedule: &Schedule,
        times: (u64, u64),
    ) -> Result<(), SessionError> {
        let delta_ns = self.talker.launch_queue().map(|queue| queue.delta_ns);
        // With a lead the first instants pass while it gets ready.
        let (mut pace, lead_ns) = cyclic::pace(self.task, delta_ns, times.0);
        let end_ns = times.1.saturating_sub(lead_ns);
        let mut waiting = Waiting::new(match lead_ns {
            0 => self.task.spin_margin,
            // The queue is exact, so this thread need not be.
            _ => SpinMargin::Fixed { ns: 0 },
        });
        waiting.measure(pace.interval_ns(), times.0)?;
        let mut core = sched::CoreHold::new();
        // The number of the newest frame, and the end of its send call, ns.
        let mut newest = None;
        while pace.due_ns() < end_ns && !schedule.is_stopped() {
            let due_ns = pace.due_ns();
            match waiting.sleep(due_ns)? {
                Slept::Awake => {}
                Slept::Woken(late_ns) => self.log.wake_late.record(late_ns),
                Slept::SetBack => {
                    pace.clock_was_set_back(now_ns());
                    newest = None;
                    continue;
                }
            }
            // Before the spin, so that only the send call is left at the instant: a value is as old as the margin.
            let found = source.take(&mut self.payload);
            // The record of stalls interrupts this thread for a moment. It must not move to another core for that.
            core.here();
            if let Some((number, returned_ns)) = newest.take() {
                // The call may have taken long behind the timestamp: where a switch is emulated, it does the switch's work.
                let stamped = self.instants.and_then(|all| all.left_ns(number));
                pace.sent(stamped.unwrap_or(returned_ns));
            }
            let Some(now) = waiting.spin(due_ns) else {
                core.release();
                pace.clock_was_set_back(now_ns());
                continue;
            };
            if let Turn::Send { due_ns, .. } = pace.turn(now) {
                match found {
                    Found::Length(length) => {
                        let number = self.number;
                        if let Some(instants) = self.instants {
                            instants.note(number, due_ns);
                        }
                        self.send(length, (lead_ns > 0).then_some(due_ns + lead_ns))?;
                        newest = Some((number, now_ns()));
                    }
                    Found::Nothing => {}
                    Found::Over => {
                        self.over = true;
                        break;
                    }
                }
            }
            core.release();
            self.log.tick(due_ns, now);
            self.log.result.ticks_skipped = pace.skipped();
        }
        self.log.result.margin_ns = waiting.margin_ns();
        self.log.result.spun_ns = waiting.spun_ns();
        Ok(())
    }

    /// Sends every value of a program, in order, as soon as the contract allows.
    fn each(
        &mut self,
        source: &Each,
        schedule: &Schedule,
        (start_ns, end_ns): (u64, u64),
    ) -> Result<(), SessionError> {
        let mut shaper = channels::shaper(self.task, start_ns, self.task.shaping_interval_ns);
        slept(start_ns, &mut shaper)?;
        while now_ns() < end_ns && !schedule.is_stopped() {
            match source.take(&mut self.payload, LOOK) {
                Found::Length(length) => {
                    let mut now = now_ns();
                    let due = shaper
                        .earliest(now, self.task.wire_bits)
                        .ok_or_else(|| self.never())?;
                    if due > now {
                        now = slept(due, &mut shaper)?;
                        self.log.tick(due, now);
                    }
                    while let Err(not_yet) = shaper.take(now, self.task.wire_bits) {
                        let earliest_ns = not_yet.earliest_ns.ok_or_else(|| self.never())?;
                        now = slept(earliest_ns, &mut shaper)?;
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
        (start_ns, end_ns): (u64, u64),
    ) -> Result<(), SessionError> {
        let mut shaper = channels::shaper(self.task, start_ns, self.task.shaping_interval_ns);
        let mut now = slept(start_ns, &mut shaper)?;
        while now < end_ns && !schedule.is_stopped() {
            let due = shaper
                .earliest(now, self.task.wire_bits)
                .ok_or_else(|| self.never())?;
            if due > now {
                now = slept(due, &mut shaper)?;
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
    fn greedy(
        &mut self,
        schedule: &Schedule,
        (start_ns, end_ns): (u64, u64),
    ) -> Result<(), SessionError> {
        slept(start_ns, &mut Shaper::unshaped())?;
        while now_ns() < end_ns && !schedule.is_stopped() {
            self.send(self.payload.len(), None)?;
        }
        Ok(())
    }

    fn bursts(
        &mut self,
        schedule: &Schedule,
        (start_ns, end_ns): (u64, u64),
        frames: u32,
        interval_ns: u64,
    ) -> Result<(), SessionError> {
        let mut due = start_ns;
        while due < end_ns && !schedule.is_stopped() {
            if sleep_until(due)? == Waited::SetBack {
                due = now_ns() + interval_ns;
                continue;
            }
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

/// Sleeps until an instant, and returns the time then. If the clock is set back meanwhile, the shaper is told, and the time is
/// before the instant.
fn slept(until_ns: u64, shaper: &mut Shaper) -> Result<u64, SessionError> {
    let waited = sleep_until(until_ns)?;
    let now = now_ns();
    if waited == Waited::SetBack {
        shaper.clock_was_set_back(now);
    }
    Ok(now)
}
