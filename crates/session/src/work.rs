//! Runs the streams of one host: a thread for each talker and listener, all of them at real-time priority.

mod listen;
mod log;
mod stamps;
mod tail;
mod talk;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rtwire_measure::noise::{Stall, StallSource};
use rtwire_sys::memory;

use crate::error::SessionError;
use crate::evidence::taps::{ListenerTap, TalkerTap};
use crate::outcome::HostResult;
use crate::session::Session;
use crate::streams::REALTIME;
use crate::task::{Assignment, ListenerTask, Order};
use crate::values::{Newest, Sink, Source, ValueEnd};

/// SCHED_FIFO priority of the threads that collect transmit timestamps: they may wait.
const STAMP_PRIORITY: u8 = 40;

/// The arrivals that are noted of a newest-value stream where nobody says how many frames will come: 2 MB.
const ARRIVALS_USUAL: usize = 1 << 16;
/// The least number of arrivals that are noted.
const ARRIVALS_LEAST: usize = 1 << 10;

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
        Self::of(Session::of(assignment)?, &[], (&[], &[]))
    }

    /// Opens all streams of a session; `ends` are the other ends of their values, by stream. The taps are those of its
    /// talkers and listeners, in order; a missing one notes nothing.
    pub(crate) fn of(
        mut session: Session,
        ends: &[(String, ValueEnd)],
        taps: (&[TalkerTap], &[ListenerTap]),
    ) -> Result<Self, SessionError> {
        for task in &mut session.assignment.listeners {
            note_arrivals(task);
        }
        let end_of = |name: &str| ends.iter().find(|(stream, _)| stream == name);
        let mut listeners = Vec::new();
        for (index, task) in session.assignment.listeners.iter().enumerate() {
            let sink = match end_of(&task.name) {
                Some((_, end)) => Sink::open(task, end)?,
                None => Sink::Nowhere,
            };
            let tap = taps.1.get(index).cloned().unwrap_or_default();
            let listener = session.listener_at(index)?;
            listeners.push(listen::Listener::new(listener, sink, tap));
        }
        let mut talkers = Vec::new();
        for (index, task) in session.assignment.talkers.iter().enumerate() {
            let source = match end_of(&task.name) {
                Some((_, end)) => Source::open(task, end)?,
                None => Source::Newest(Newest::Filler),
            };
            let tap = taps.0.get(index).cloned().unwrap_or_default();
            talkers.push(talk::Talking::new(session.talker_at(index)?, source, tap)?);
        }
        memory::lock_all()?;
        Ok(Self {
            session,
            listeners,
            talkers,
        })
    }

    /// Returns the receive paths of its listeners, in the order of the assignment.
    pub(crate) fn receive_paths(&self) -> Vec<String> {
        self.listeners.iter().map(listen::Listener::path).collect()
    }

    /// Runs a thread for each talker and listener until the schedule ends. Calls `ready` when all of them wait.
    ///
    /// # Errors
    /// A thread did not receive its priority; a file of samples could not be written; `ready` failed.
    pub fn run(
        self,
        schedule: &Schedule,
        ready: impl FnOnce() -> Result<(), SessionError>,
    ) -> Result<HostResult, SessionError> {
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

/// Asks for the arrival of every frame of a newest-value stream: each is part of the evidence, read or not.
fn note_arrivals(task: &mut ListenerTask) {
    task.arrivals = match (task.newest, task.frames_most) {
        (false, _) => 0,
        (true, 0) => ARRIVALS_USUAL,
        (true, most) => most.max(ARRIVALS_LEAST),
    };
}

fn joined<T>(result: thread::Result<Result<T, SessionError>>) -> Result<T, SessionError> {
    result.unwrap_or_else(|_| Err(SessionError::Work("a thread panicked".to_owned())))
}

/// Returns the error of a file of samples that could not be written.
fn unwritten(error: &std::io::Error) -> SessionError {
    SessionError::Work(format!("cannot write the samples: {error}"))
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
