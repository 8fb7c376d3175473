//! Runs the streams of one host: a thread for each talker and listener, all of them at real-time priority.

mod listen;
mod tail;
mod talk;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rtwire_measure::noise::{Stall, StallSource};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::{memory, sched};

use crate::error::SessionError;
use crate::outcome::HostResult;
use crate::session::Session;
use crate::streams::REALTIME;
use crate::task::{Assignment, Order};
use crate::values::{Sink, Source, ValueEnd};

/// SCHED_FIFO priority of the threads that collect transmit timestamps: they may wait.
const STAMP_PRIORITY: u8 = 40;

/// A late wake-up of a thread, as the loop notes it. A [`Stall`] has a name, and a name allocates.
#[derive(Clone, Copy, Debug)]
struct Late {
    /// The moment at which the thread last ran before.
    alive_ns: u64,
    due_ns: u64,
    woke_ns: u64,
}

impl Late {
    fn stall(self, source: StallSource) -> Stall {
        Stall {
            source,
            alive_ns: self.alive_ns,
            due_ns: self.due_ns,
            woke_ns: self.woke_ns,
        }
    }
}

/// The beginning, the end and the early end of a run, shared by its threads.
#[derive(Debug, Default)]
pub struct Schedule {
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    stop: AtomicBool,
}

impl Schedule {
    /// Waits until beginning and end are known, and returns them. `None` if the run was cancelled before.
    fn wait(&self) -> Option<(u64, u64)> {
        while !self.is_stopped() {
            let start = self.start_ns.load(Ordering::Acquire);
            if start != 0 {
                return Some((start, self.end_ns.load(Ordering::Acquire)));
            }
            thread::sleep(std::time::Duration::from_millis(1));
        }
        None
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Takes an order.
    pub fn set(&self, order: Order) {
        match order {
            Order::Run { start_ns, end_ns } => {
                self.end_ns.store(end_ns, Ordering::Release);
                self.start_ns.store(start_ns, Ordering::Release);
            }
            Order::Stop => self.stop.store(true, Ordering::Relaxed),
        }
    }
}

/// Everything that one host does, open and waiting for the run.
#[derive(Debug)]
pub struct Work {
    session: Session,
    listeners: Vec<listen::Listener>,
    talkers: Vec<talk::Talking>,
}

impl Work {
    /// Opens all streams of an assignment in the calling thread's namespace, and locks the memory of this process.
    ///
    /// # Errors
    /// A channel cannot be opened; CAP_IPC_LOCK is missing.
    pub fn open(assignment: Assignment) -> Result<Self, SessionError> {
        Self::of(Session::of(assignment)?, &[])
    }

    /// Opens all streams of a session; `ends` are the other ends of their values, by stream.
    pub(crate) fn of(session: Session, ends: &[(String, ValueEnd)]) -> Result<Self, SessionError> {
        let end_of = |name: &str| ends.iter().find(|(stream, _)| stream == name);
        let mut listeners = Vec::new();
        for (index, task) in session.assignment.listeners.iter().enumerate() {
            let sink = match end_of(&task.name) {
                Some((_, end)) => Sink::open(task, end)?,
                None => Sink::Nowhere,
            };
            listeners.push(listen::Listener::new(session.listener_at(index)?, sink));
        }
        let mut talkers = Vec::new();
        for (index, task) in session.assignment.talkers.iter().enumerate() {
            let source = match end_of(&task.name) {
                Some((_, end)) => Source::open(task, end)?,
                None => Source::Filler,
            };
            talkers.push(talk::Talking::new(session.talker_at(index)?, source)?);
        }
        memory::lock_all()?;
        Ok(Self {
            session,
            listeners,
            talkers,
        })
    }

    /// Runs a thread for each talker and listener until the schedule ends. Calls `ready` when all of them wait.
    ///
    /// # Errors
    /// In words for the user: a thread did not receive its priority, or a file of samples could not be written.
    pub fn run(
        self,
        schedule: &Schedule,
        ready: impl FnOnce() -> Result<(), String>,
    ) -> Result<HostResult, String> {
        let assignment = &self.session.assignment;
        let directory = assignment.directory.as_ref().map(PathBuf::from);
        let directory = directory.as_deref();
        thread::scope(|scope| {
            let listening: Vec<_> = self
                .listeners
                .into_iter()
                .map(|listener| {
                    let (host, drain_ns) = (&assignment.host, assignment.drain_ns);
                    scope.spawn(move || listener.run(schedule, drain_ns, directory, host))
                })
                .collect();
            let talking: Vec<_> = self
                .talkers
                .into_iter()
                .map(|talking| scope.spawn(move || talking.run(schedule, directory)))
                .collect();
            if let Err(error) = ready() {
                schedule.set(Order::Stop);
                return Err(error);
            }
            let mut result = HostResult::default();
            for handle in talking {
                result.talkers.push(joined(handle.join())?);
            }
            for handle in listening {
                result.listeners.push(joined(handle.join())?);
            }
            result.strays = strays(&self.session);
            result.scheduling = format!("SCHED_FIFO {REALTIME}");
            Ok(result)
        })
    }
}

fn joined<T>(result: thread::Result<Result<T, String>>) -> Result<T, String> {
    result.unwrap_or_else(|_| Err("a thread panicked".to_owned()))
}

fn strays(session: &Session) -> Vec<(String, u64)> {
    let Ok(statistics) = session.statistics() else {
        return Vec::new();
    };
    let refused = statistics.refused;
    [
        ("truncated", refused.truncated),
        ("wrong version", refused.wrong_version),
        ("wrong length", refused.wrong_length),
        ("malformed", refused.malformed),
        ("unknown port", refused.unknown_port),
        ("foreign plan (another key)", refused.wrong_key),
        ("wrong semantics", refused.wrong_semantics),
        ("not examined", statistics.not_examined),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(reason, count)| (reason.to_owned(), count))
    .collect()
}

/// Puts the calling thread under SCHED_FIFO at `priority`, and checks that it has it.
fn become_real_time(priority: u8) -> Result<(), String> {
    let got = sched::set_fifo(priority).map_err(|e| e.to_string())?;
    if got.policy == sched::Policy::Fifo && got.priority == priority {
        Ok(())
    } else {
        Err(format!("asked for SCHED_FIFO {priority}, got {got:?}"))
    }
}

fn now_ns() -> u64 {
    clock::now_ns(Clock::Tai)
}
