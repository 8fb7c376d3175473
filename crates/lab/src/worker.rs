//! One host of a lab: a process inside the host's namespace that runs its talkers and listeners.
//!
//! A process of its own for each host, as on a real network: what stops one (a debugger, SIGSTOP, a crash)
//! stops that host only. It dies with the lab that started it. It talks JSON lines on standard input and
//! output, in the order: assignment → `ready` → `run` → `done`.

mod listen;
mod tail;
mod talk;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rtwire_channel::{Endpoint, EndpointConfig, ReceivePath};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::{memory, netns, sched};

use rtwire_measure::noise::{Stall, StallSource};

use crate::assignment::{Answer, Assignment, HostResult, ListenerTask, Order};
use crate::duties::{self, REALTIME};

/// Priority of the threads that collect transmit stamps: they may wait.
const STAMP_PRIORITY: u8 = 40;

/// That a thread woke late, as it is written down in the loop: a [`Stall`] has a name, and a name allocates.
#[derive(Clone, Copy, Debug)]
struct Late {
    /// When the thread last ran before.
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

/// What the threads of a worker share: when to begin and end, and whether to end early.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    stop: AtomicBool,
}

impl Schedule {
    /// Waits until the moment to begin is known; `None` if the run is called off before.
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

    pub(crate) fn set(&self, order: Order) {
        match order {
            Order::Run { start_ns, end_ns } => {
                self.end_ns.store(end_ns, Ordering::Release);
                self.start_ns.store(start_ns, Ordering::Release);
            }
            Order::Stop => self.stop.store(true, Ordering::Relaxed),
        }
    }
}

/// The main function of a host's process.
#[must_use]
pub fn worker_main() -> ExitCode {
    let outcome = work();
    let failed = outcome.is_err();
    let answer = match outcome {
        Ok(result) => Answer::Done(result),
        Err(message) => Answer::Failed { message },
    };
    if say(&answer).is_err() || failed {
        return ExitCode::from(3);
    }
    ExitCode::SUCCESS
}

fn say(answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_string(answer).map_err(io::Error::other)?;
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

fn work() -> Result<HostResult, String> {
    sched::die_with_parent().map_err(|e| e.to_string())?;
    // Ctrl-C reaches the whole process group: the lab takes it, and tells us what to do.
    rtwire_sys::signal::install_stop_flag().map_err(|e| e.to_string())?;
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .map_err(|e| format!("cannot read the assignment: {e}"))?;
    let assignment: Assignment = serde_json::from_str(&line).map_err(|e| {
        format!("no assignment on standard input ({e}); this command is for `rtwire lab` only")
    })?;
    netns::enter(&assignment.namespace).map_err(|e| e.to_string())?;
    let schedule = Arc::new(Schedule::default());
    let work = Work::open(&assignment)?;
    work.run(&assignment, &schedule, || {
        say(&Answer::Ready).map_err(|e| e.to_string())?;
        // Not scoped: it sits in a read that only the lab's end or the process's end ends.
        let orders = schedule.clone();
        thread::spawn(move || follow_orders(&orders));
        Ok(())
    })
}

/// Everything that one host does, open and waiting for the run.
pub(crate) struct Work {
    endpoint: Endpoint,
    listeners: Vec<listen::Listener>,
    talkers: Vec<talk::Talking>,
}

impl Work {
    /// Opens everything, in the calling thread's namespace, and locks the memory of this process.
    pub(crate) fn open(assignment: &Assignment) -> Result<Self, String> {
        let wanted = assignment.receive_path;
        let in_program = |task: &ListenerTask| duties::in_program(wanted, task);
        let endpoint = Endpoint::with(&EndpointConfig {
            // A program that nobody would use is not attached.
            path: match assignment.listeners.iter().any(in_program) {
                true => wanted,
                false => ReceivePath::Packet,
            },
            ..EndpointConfig::new(assignment.interface.as_str())
        });
        let endpoint = endpoint.map_err(|e| e.to_string())?;
        let mut listeners = Vec::new();
        for task in &assignment.listeners {
            listeners.push(
                listen::Listener::open(&endpoint, wanted, task)
                    .map_err(|e| format!("stream `{}`: {e}", task.name))?,
            );
        }
        let mut talkers = Vec::new();
        for task in &assignment.talkers {
            talkers.push(
                talk::Talking::open(&assignment.interface, task)
                    .map_err(|e| format!("stream `{}`: {e}", task.name))?,
            );
        }
        memory::lock_all().map_err(|e| e.to_string())?;
        Ok(Self {
            endpoint,
            listeners,
            talkers,
        })
    }

    /// A thread for each talker and listener; `ready` is called when all of them wait. Ends with the schedule.
    pub(crate) fn run(
        self,
        assignment: &Assignment,
        schedule: &Schedule,
        ready: impl FnOnce() -> Result<(), String>,
    ) -> Result<HostResult, String> {
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
            result.strays = strays(&self.endpoint);
            result.scheduling = format!("SCHED_FIFO {REALTIME}");
            Ok(result)
        })
    }
}

fn joined<T>(result: thread::Result<Result<T, String>>) -> Result<T, String> {
    result.unwrap_or_else(|_| Err("a thread panicked".to_owned()))
}

/// Reads orders until the lab closes the pipe, which is an order to stop too.
fn follow_orders(schedule: &Schedule) {
    for line in io::stdin().lock().lines() {
        match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
            Some(order) => schedule.set(order),
            None => break,
        }
    }
    schedule.set(Order::Stop);
}

fn strays(endpoint: &Endpoint) -> Vec<(String, u64)> {
    let Ok(statistics) = endpoint.statistics() else {
        return Vec::new();
    };
    let refused = statistics.refused;
    [
        ("truncated", refused.truncated),
        ("wrong version", refused.wrong_version),
        ("wrong length", refused.wrong_length),
        ("malformed", refused.malformed),
        ("unknown port", refused.unknown_port),
        ("wrong key", refused.wrong_key),
        ("wrong semantics", refused.wrong_semantics),
        ("not examined", statistics.not_examined),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(reason, count)| (reason.to_owned(), count))
    .collect()
}

/// Gives the calling thread its real-time priority, and checks that it has it.
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
