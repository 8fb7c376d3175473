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
//! - frames of another plan, or beyond the contract.

mod report;
mod time;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rtwire_host::napi::{NapiDeferral, NapiPriority, NapiThreads};
use rtwire_plan::Plan;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::interface;
use rtwire_sys::sched::thread::Want;

use crate::error::SessionError;
use crate::options::SessionOptions;
use crate::session::{self, Session};
use crate::streams;
use crate::task::{Assignment, Order};
use crate::values::ValueEnd;
use crate::work::{Schedule, Work};

pub use report::{ListenerRow, RunReport, TalkerRow, Verdict, json_schema};
pub use time::NetworkTime;

/// The time in ns from opening to the first frame: kernel timestamping starts some time after it is requested.
const SETTLE_NS: u64 = 500_000_000;
/// Talkers begin at a whole multiple of this, in ns: hosts whose clocks agree then have one grid.
const GRID_NS: u64 = 100_000_000;
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
}

/// Runs one host's streams until the duration is over or `stop` is set. Returns what it sent and received.
///
/// Needs CAP_NET_RAW, CAP_SYS_NICE and CAP_IPC_LOCK; CAP_NET_ADMIN for NAPI threads and polling, and for priorities above 6.
/// Calls `started` when everything is open, with a description of who does the receive work.
///
/// # Errors
/// See [`SessionError`]. Nothing was sent then, and all settings are undone.
pub fn run_host(
    options: &RunOptions,
    stop: &AtomicBool,
    started: impl FnOnce(&str),
) -> Result<RunReport, SessionError> {
    let (plan, host) = (&options.plan, &options.host);
    let mut assignment = session::assign(plan, host, &options.interface, &options.session)?;
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
    if assignment.talkers.is_empty() && assignment.listeners.is_empty() {
        return Err(SessionError::Idle(host.clone()));
    }
    check_values(options, &assignment)?;
    // Returns the right error if there is no such interface.
    interface::by_name(&options.interface)?;
    // Before the session attaches a receive program, which changes what the driver can do.
    let (receive, _guards) = receive_work(options, &assignment)?;
    let session = Session::planned(plan, assignment.clone(), &options.session)?;
    let missing = session.missing().iter().map(ToString::to_string).collect();
    let work = Work::of(session, &options.values)?;
    let schedule = Schedule::default();
    let start_ns = (clock::now_ns(Clock::Tai) + SETTLE_NS).next_multiple_of(GRID_NS);
    let planned_ns = options.duration.map(streams::ns);
    let end_ns = planned_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration));
    started(&receive);
    let over = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        let (schedule, over) = (&schedule, &over);
        let watch = scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    schedule.set(Order::Stop);
                    return Some(clock::now_ns(Clock::Tai));
                }
                thread::sleep(Duration::from_millis(10));
            }
            None
        });
        let result = work.run(schedule, || {
            schedule.set(Order::Run { start_ns, end_ns });
            Ok(())
        });
        over.store(true, Ordering::Relaxed);
        let stopped_ns = watch.join().ok().flatten();
        result.map(|result| (result, stopped_ns))
    });
    let (result, stopped_ns) = result.map_err(SessionError::Work)?;
    let now_ns = clock::now_ns(Clock::Tai);
    let until_ns = stopped_ns.unwrap_or(now_ns).min(end_ns);
    let duration_ns = until_ns.saturating_sub(start_ns);
    Ok(report::assemble(
        options,
        &assignment,
        result,
        (receive, missing),
        (start_ns, duration_ns),
    ))
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
        ReceiveWork::Poll => {
            let deferral = NapiDeferral::hold(&options.interface, EMPTY_POLLS, FLUSH_NS)?;
            Ok(("polled by its readers".to_owned(), (None, Some(deferral))))
        }
    }
}
