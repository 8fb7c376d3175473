//! One host's part of a plan, run on an interface of this machine: `rtwire run`.
//!
//! ```text
//!  Plan, host ─► Session: its talkers and listeners ─► a thread each, SCHED_FIFO by the stream's priority
//!                                                   └► receive work: a NAPI thread as urgent as its most urgent reader
//! ```
//!
//! The same work as one host of a lab, without the lab: nothing is brought up, emulated or calibrated. One host sees its own
//! end only, so only what that end can know is judged:
//!
//! - sequence numbers that did not arrive;
//! - frames for which a queue had no room;
//! - frames of another plan, or beyond the contract;
//! - cycles that were late or skipped, beside the machine's stalls ([`rtwire_measure::noise`]);
//! - delays, as far as the clocks are known.
//!
//! A run can write its evidence to a file ([`crate::evidence`]); `rtwire judge` joins the files of all hosts.

mod card;
mod clock;
mod judge;
mod link;
mod recording;
mod report;
mod time;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_host::napi::{NapiDeferral, NapiPriority, NapiThreads};
use rtwire_measure::evidence::End;
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_plan::Plan;

use rtwire_sys::interface;
use rtwire_sys::sched::thread::Want;
use rtwire_sys::stamps::StampSource;

use crate::cyclic;
use crate::error::SessionError;
use crate::evidence::{EvidenceOptions, Recorder};
use crate::options::SessionOptions;
use crate::outcome::HostResult;
use crate::real_time::now_ns;
use crate::session::{self, Session};
use crate::streams;
use crate::task::{Assignment, Order};
use crate::values::ValueEnd;
use crate::work::{Schedule, Work};
use card::CardWatch;
use clock::ClockWatch;
use link::LinkWatch;
use recording::Taps;

pub use clock::ClockSource;
pub use recording::EvidenceRow;
pub use report::{ListenerRow, RunReport, StallCount, TalkerRow, Verdict, json_schema};
pub use time::NetworkTime;

/// The time in ns from opening to the first frame: kernel timestamping starts some time after it is requested.
const SETTLE_NS: u64 = 500_000_000;
/// Talkers begin at a whole multiple of this, in ns: hosts whose clocks agree then have one grid.
const GRID_NS: u64 = 100_000_000;
/// The time between two rounds of the writer of evidence.
const WRITE_EVERY: Duration = Duration::from_millis(50);
/// Empty polls after which deferred interrupts come back.
const EMPTY_POLLS: u32 = 1_000;
/// The time in ns without a poll after which the kernel polls by itself.
const FLUSH_NS: u32 = 5_000_000;

/// The thread or interrupt that does the interface's receive work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWork {
    /// A thread where the driver has receive contexts, else the soft interrupt.
    Automatic,
    /// The soft interrupt, above every task.
    SoftInterrupt,
    /// A kernel thread, as urgent as the most urgent listener here.
    Thread,
    /// The listeners' own calls. UDP streams only.
    Poll,
    /// A kernel thread that polls the driver all the time, under time sharing (Linux 6.19).
    PollThread,
}

/// A phase of a run that a program beside it may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPhase<'a> {
    /// All talkers and listeners are open: no frame that comes from now on is missed.
    Open {
        /// The thread or interrupt that does the receive work, in words.
        receive_work: &'a str,
    },
    /// The talkers send.
    Running,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The plan.
    pub plan: Plan,
    /// The host of the plan that this machine is.
    pub host: String,
    /// The interface that this host's link is plugged into.
    pub interface: String,
    /// The options for opening its streams.
    pub session: SessionOptions,
    /// The duration of sending; `None`: until `stop` is set.
    pub duration: Option<Duration>,
    /// The thread or interrupt that does the receive work.
    pub receive: ReceiveWork,
    /// True if best effort is sent and received as well.
    pub best_effort: bool,
    /// The other ends of values, by stream; all other streams carry zeros.
    pub values: Vec<(String, ValueEnd)>,
    /// The file of evidence, if one is written.
    pub evidence: Option<EvidenceOptions>,
    /// The reason to believe that this host's clock is the network's.
    pub clock: ClockSource,
    /// The place that stamps frames.
    pub stamps: StampSource,
    /// True if the machine's stalls are recorded: a thread of SCHED_FIFO 90 on each core, awake every 250 µs.
    pub noise: bool,
    /// The version of rtwire, for the evidence.
    pub rtwire_version: String,
}

/// Runs one host's streams until the duration is over or `stop` is set. Returns what it sent and received.
///
/// Needs CAP_NET_RAW, CAP_SYS_NICE and CAP_IPC_LOCK; CAP_NET_ADMIN for NAPI threads and polling, and for priorities above 6.
/// Calls `tell` at the beginning of each phase.
///
/// # Errors
/// See [`SessionError`]. Nothing was sent then, and all settings are undone.
pub fn run_host(
    options: &RunOptions,
    stop: &AtomicBool,
    tell: &(dyn Fn(RunPhase<'_>) + Sync),
) -> Result<RunReport, SessionError> {
    let (plan, host) = (&options.plan, &options.host);
    let mut assignment = session::assign(plan, host, &options.interface, &options.session)?;
    for task in &mut assignment.talkers {
        // Where its frames leave is known from the kernel's timestamps: on the grid or not.
        task.stamps = cyclic::on_the_grid(task);
    }
    if options.best_effort {
        for flow in streams::best_effort(plan, &options.session) {
            if flow.host == *host {
                assignment.talkers.push(flow.talker);
            }
            if flow.to == *host {
                assignment.listeners.push(flow.listener);
            }
        }
    }
    for talker in &mut assignment.talkers {
        talker.stamps |= options.evidence.is_some();
    }
    if assignment.talkers.is_empty() && assignment.listeners.is_empty() {
        return Err(SessionError::Idle(host.clone()));
    }
    check_values(options, &assignment)?;
    // Returns the right error if there is no such interface.
    let interface = interface::by_name(&options.interface)?;
    // Before the session attaches a receive program, which changes what the driver can do.
    let (receive, _guards) = receive_work(options, &assignment)?;
    let mut card = CardWatch::open(options, &assignment)?;
    let opening = SessionOptions {
        card: card.as_ref().map(CardWatch::time),
        ..options.session.clone()
    };
    let session = Session::planned(plan, assignment.clone(), &opening)?;
    let missing = session.missing().iter().map(ToString::to_string).collect();
    let card_ns = card.as_ref().map_or(0, CardWatch::room_ns);
    let taps = Taps::new(options, &assignment, card_ns);
    let work = Work::of(session, &options.values, (&taps.talkers, &taps.listeners))?;
    let recorder = options.evidence.as_ref().map(open_evidence).transpose()?;
    // After its channels have attached what they need.
    let link = LinkWatch::start(interface);
    let noise = options
        .noise
        .then(|| NoiseRecorder::start(NoiseOptions::beside_a_run()));
    let noise = noise.transpose().map_err(no_noise)?;
    let open_ns = now_ns();
    let start_ns = (open_ns + SETTLE_NS).next_multiple_of(GRID_NS);
    let planned_ns = options.duration.map(streams::ns);
    let end_ns = planned_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration));
    let recorder = recorder.map(|mut recorder| {
        let paths = work.receive_paths();
        let mut header = recording::header(options, &assignment, paths, (open_ns, start_ns));
        header.stamps = card.as_ref().map(|card| card.end().origin);
        recorder.stamped_by(card.as_ref().map(CardWatch::time));
        recorder.begin(&header, taps.talkers.clone(), taps.listeners.clone());
        recorder
    });
    let clocks = ClockWatch::new(&options.clock);
    let watched = Watched {
        stop,
        tell,
        receive_work: &receive,
        clocks: &clocks,
    };
    let begun = Instant::now();
    let live = live(
        work,
        recorder,
        (&watched, card.as_mut()),
        (start_ns, end_ns),
    )?;
    let card = card.map(|card| card.end());
    let ran_ns = streams::ns(begun.elapsed());
    let noise = noise
        .map(NoiseRecorder::stop)
        .transpose()
        .map_err(no_noise)?;
    let now = now_ns();
    // Much lies behind the last reads: threads that end, files that are written, a look at the clock. Frames that came then were not
    // taken, and are not lost.
    let heard_to_ns = live.result.heard_to_ns(open_ns, now);
    // By a clock that was set, its time now says nothing of how long the run lasted.
    let until_ns = match clocks.steps().is_empty() {
        true => live.stopped_ns.unwrap_or(now).min(end_ns),
        false => open_ns.saturating_add(ran_ns).max(start_ns).min(end_ns),
    };
    let end = End {
        sent_to_ns: until_ns,
        heard_to_ns,
        interrupted: planned_ns.is_some() && until_ns < end_ns && live.stopped_ns.is_some(),
        ..End::default()
    };
    let evidence = live.recorder.map(|recorder| {
        let of_run = (recorder, &live.result, &clocks);
        recording::finish(options, &assignment, of_run, noise.as_ref(), end)
    });
    let ran = report::Ran {
        receive_work: receive,
        missing,
        started_tai_ns: start_ns,
        duration_ns: until_ns.saturating_sub(start_ns),
        interrupted: end.interrupted,
        noise: noise.as_ref(),
        delays: &taps.delays,
        clocks_ns: recording::both_clocks_ns(clocks.uncertainty_ns())
            .map(|ns| ns.saturating_add(card_ns)),
        clock_steps: clocks.steps(),
        evidence,
    };
    let report = report::assemble(options, &assignment, live.result, ran);
    Ok(report.with_link(link.changes()).with_card(card))
}

/// Creates the file of evidence.
fn open_evidence(options: &EvidenceOptions) -> Result<Recorder, SessionError> {
    Recorder::create(options).map_err(|source| SessionError::Evidence {
        file: options.path.clone(),
        source,
    })
}

/// Returns the error of a noise record that could not be made.
#[allow(clippy::needless_pass_by_value, reason = "the shape of `map_err`")]
fn no_noise(error: rtwire_measure::noise::NoiseError) -> SessionError {
    SessionError::Work(format!("{error}; run without it: --no-noise"))
}

/// The instruments of a run that are not its streams: who stops it, who is told its phases, and its clock.
struct Watched<'a> {
    stop: &'a AtomicBool,
    tell: &'a (dyn Fn(RunPhase<'_>) + Sync),
    receive_work: &'a str,
    clocks: &'a ClockWatch<'a>,
}

/// The outcome of the threads.
struct Live {
    result: HostResult,
    recorder: Option<Recorder>,
    /// The instant at which `stop` was seen, ns.
    stopped_ns: Option<u64>,
}

/// Runs all threads between two instants, and those that write evidence and look at the clock beside them.
fn live(
    work: Work,
    recorder: Option<Recorder>,
    (watched, card): (&Watched<'_>, Option<&mut CardWatch>),
    (start_ns, end_ns): (u64, u64),
) -> Result<Live, SessionError> {
    let Watched {
        stop,
        tell,
        receive_work,
        clocks,
    } = *watched;
    let schedule = Schedule::default();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (schedule, over) = (&schedule, &over);
        let watch = scope.spawn(move || {
            let mut is_told = false;
            // By a clock that nobody can set.
            let (begun, now) = (Instant::now(), now_ns());
            let until_start = Duration::from_nanos(start_ns.saturating_sub(now));
            let until_end = Duration::from_nanos(end_ns.saturating_sub(now));
            while !over.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    schedule.set(Order::Stop);
                    return Some(now_ns());
                }
                if !is_told && begun.elapsed() >= until_start {
                    is_told = true;
                    tell(RunPhase::Running);
                }
                // By a clock that was set back, the threads take the end for an hour away.
                if begun.elapsed() >= until_end && !clocks.steps().is_empty() {
                    schedule.set(Order::Stop);
                    return None;
                }
                thread::sleep(Duration::from_millis(10));
            }
            None
        });
        scope.spawn(move || clocks.follow(over));
        if let Some(card) = card {
            scope.spawn(move || card.follow(over));
        }
        let writer = scope.spawn(move || {
            recorder.map(|mut recorder| {
                while !over.load(Ordering::Relaxed) {
                    recorder.round(|| clocks.take());
                    thread::sleep(WRITE_EVERY);
                }
                recorder
            })
        });
        let result = work.run(schedule, || {
            schedule.set(Order::Run { start_ns, end_ns });
            tell(RunPhase::Open { receive_work });
            Ok(())
        });
        over.store(true, Ordering::Relaxed);
        let stopped_ns = watch.join().ok().flatten();
        let recorder = writer.join();
        Ok(Live {
            result: result?,
            recorder: recorder.map_err(|_| {
                SessionError::Work("the writer of the evidence panicked".to_owned())
            })?,
            stopped_ns,
        })
    })
}

/// Refuses values for a stream that this host does not have, and two ends for one stream.
fn check_values(options: &RunOptions, assignment: &Assignment) -> Result<(), SessionError> {
    let talkers = assignment.talkers.iter().map(|task| &task.name);
    let listeners = assignment.listeners.iter().map(|task| &task.name);
    let own: Vec<&String> = talkers.chain(listeners).collect();
    for (at, (stream, _)) in options.values.iter().enumerate() {
        let wrong = |what: String| SessionError::Values {
            stream: stream.clone(),
            what,
        };
        if !own.contains(&stream) {
            let own: Vec<&str> = own.iter().map(|name| name.as_str()).collect();
            return Err(wrong(format!(
                "host `{}` neither sends nor receives it; its streams are {}",
                options.host,
                own.join(", ")
            )));
        }
        if options.values[..at]
            .iter()
            .any(|(other, _)| other == stream)
        {
            return Err(wrong(
                "it has two --exec or --image; give it one".to_owned(),
            ));
        }
    }
    Ok(())
}

/// The guards that undo the settings of receive work when dropped.
type Guards = (Option<NapiThreads>, Option<NapiDeferral>);

/// Sets who does the receive work, and returns it in words.
fn receive_work(
    options: &RunOptions,
    assignment: &Assignment,
) -> Result<(String, Guards), SessionError> {
    let most_urgent = assignment.listeners.iter().map(|task| task.realtime).max();
    let soft = |why: &str| (format!("soft interrupt{why}"), (None, None));
    let Some(priority) = most_urgent else {
        return Ok(soft(": nothing is listened to"));
    };
    match options.receive {
        ReceiveWork::SoftInterrupt => Ok(soft("")),
        ReceiveWork::Automatic | ReceiveWork::Thread => {
            let wanted = NapiPriority {
                want: Want::Fifo(priority),
                cpus: Vec::new(),
            };
            match NapiThreads::start(&options.interface, &wanted) {
                Ok(threads) => {
                    let count = threads.threads().len();
                    let words = format!(
                        "{count} NAPI thread{} of SCHED_FIFO {priority}",
                        if count == 1 { "" } else { "s" }
                    );
                    Ok((words, (Some(threads), None)))
                }
                Err(error) if options.receive == ReceiveWork::Automatic => {
                    Ok(soft(&format!(" ({error})")))
                }
                Err(error) => Err(error.into()),
            }
        }
        ReceiveWork::PollThread => {
            let wanted = NapiPriority {
                want: Want::Other(0),
                cpus: Vec::new(),
            };
            let threads = NapiThreads::poll(&options.interface, &wanted)?;
            let count = threads.threads().len();
            let words = format!(
                "{count} NAPI thread{} that poll{} the driver all the time",
                if count == 1 { "" } else { "s" },
                if count == 1 { "s" } else { "" },
            );
            Ok((words, (Some(threads), None)))
        }
        ReceiveWork::Poll => {
            let deferral = NapiDeferral::hold(&options.interface, EMPTY_POLLS, FLUSH_NS)?;
            Ok(("polled by its readers".to_owned(), (None, Some(deferral))))
        }
    }
}
