//! One host's part of a plan, run on an interface of this machine: `rtwire run`.
//!
//! ```text
//!  Plan, host ─► Session: its talkers and listeners ─► a thread each, SCHED_FIFO by the stream's priority
//!                                                   └► receive work: a NAPI thread as urgent as its most urgent reader
//! ```
//!
//! The same work as one host of a lab, without the lab: nothing is brought up, emulated or calibrated. One host sees its own
//! end only, so nothing is judged but what that end can know: numbers that did not come, frames without room, frames of
//! another plan or beyond the contract.

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

/// From opening to the first frame: time stamping in the kernel begins some time after it is asked for.
const SETTLE_NS: u64 = 500_000_000;
/// Talkers begin at a whole multiple of this, so that hosts whose clocks agree have one grid.
const GRID_NS: u64 = 100_000_000;
/// Deferred interrupts come back after so many empty polls, and the kernel polls by itself after so long without one.
const EMPTY_POLLS: u32 = 1_000;
const FLUSH_NS: u32 = 5_000_000;

/// Who does the receive work of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWork {
    /// A thread where the driver has receive contexts, else the soft interrupt.
    Automatic,
    /// The soft interrupt, above every task.
    SoftInterrupt,
    /// A thread of the kernel, as urgent as the most urgent listener here.
    Thread,
    /// The listeners' own calls. UDP streams only.
    Poll,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The plan.
    pub plan: Plan,
    /// The host of the plan that this machine is.
    pub host: String,
    /// The interface that is this host's link.
    pub interface: String,
    /// How its streams are opened.
    pub session: SessionOptions,
    /// The time to send; `None`: until it is stopped.
    pub duration: Option<Duration>,
    /// Who does the receive work.
    pub receive: ReceiveWork,
    /// Sends and receives best effort as well.
    pub best_effort: bool,
    /// The other ends of streams' values, by stream; all others carry zeros.
    pub values: Vec<(String, ValueEnd)>,
}

/// Runs one host's streams until the time is up or `stop` is set; then reports what it sent and saw.
///
/// Needs CAP_NET_RAW, CAP_SYS_NICE and CAP_IPC_LOCK; CAP_NET_ADMIN for threads and polling, and for priorities above 6.
/// `started` is called when everything is open, with the way in which receive work is done.
///
/// # Errors
/// See [`SessionError`]; nothing was sent then, and everything set is undone.
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
    // Its error is the right one where there is no such interface.
    interface::by_name(&options.interface)?;
    // Before the session attaches a receive program: that would change what the driver can do meanwhile.
    let (receive, _guards) = receive_work(options, &assignment)?;
    let session = Session::planned(plan, assignment.clone(), &options.session)?;
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
        receive,
        (start_ns, duration_ns),
    ))
}

/// Refuses values for a stream that this host does not have.
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

/// What undoes the settings of receive work.
type Guards = (Option<NapiThreads>, Option<NapiDeferral>);

/// Sets who does the receive work; returns it in words.
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
