//! One host of a lab: a process inside the host's namespace that runs its talkers and listeners.
//!
//! A process of its own for each host, as on a real network: what stops one (a debugger, SIGSTOP, a crash)
//! stops that host only. It dies with the lab that started it. It talks JSON lines on standard input and
//! output, in the order: assignment → `ready` → `run` → `done`.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use rtwire_session::outcome::HostResult;
use rtwire_session::task::{Assignment, Order};
use rtwire_session::{Schedule, SessionError, Work};
use rtwire_sys::{netns, sched};
use serde::{Deserialize, Serialize};

/// An answer of a host's process: one line of its standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// All channels are open, and their threads wait.
    Ready,
    /// The run has ended.
    Done(HostResult),
    /// The process failed, in words for the user.
    Failed { message: String },
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
    // Ctrl-C reaches the whole process group: the lab takes it, and sends an order.
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
    let work = Work::open(assignment).map_err(|e| e.to_string())?;
    let result = work.run(&schedule, || {
        say(&Answer::Ready).map_err(|e| SessionError::Work(e.to_string()))?;
        // Not scoped: it blocks in a read until the lab or the process ends.
        let orders = schedule.clone();
        thread::spawn(move || follow_orders(&orders));
        Ok(())
    });
    result.map_err(|e| e.to_string())
}

/// Reads orders until the lab closes the pipe, which is also an order to stop.
fn follow_orders(schedule: &Schedule) {
    for line in io::stdin().lock().lines() {
        match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
            Some(order) => schedule.set(order),
            None => break,
        }
    }
    schedule.set(Order::Stop);
}
