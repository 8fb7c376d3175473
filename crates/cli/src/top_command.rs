//! `rtwire top`: links, reservations and answers, live in a terminal.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rtwire_agentd::AgentStatus;
use rtwire_managerd::Times;
use rtwire_measure::units::{duration, rate};
use rtwire_sys::signal;

use crate::arguments::parse_duration;
use crate::columns::table;
use crate::output::{is_lost, print};
use crate::watched::{self, Watched};

/// A status that is older than this is that of a program that has ended, or stands still.
const OLD: Duration = Duration::from_secs(5);

/// Arguments of `rtwire top`.
#[derive(Args)]
pub(crate) struct TopArguments {
    /// The status files of managers and agents (`--status` of `rtwire manager` and `rtwire agent`)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The time between two views
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    every: Duration,
    /// Show one view and end; so it does where its output is no terminal
    #[arg(long)]
    once: bool,
}

/// Shows the view until it is stopped.
pub(crate) fn run(arguments: &TopArguments) -> ExitCode {
    let stop = match signal::install_stop_flag() {
        Ok(stop) => stop,
        Err(error) => {
            eprintln!("rtwire top: {error}");
            return ExitCode::from(3);
        }
    };
    let once = arguments.once || !io::stdout().is_terminal();
    loop {
        let (text, readable) = view(&arguments.files);
        if once {
            print(&text);
            // Nothing at all could be shown.
            return ExitCode::from(if readable { 0 } else { 3 });
        }
        // To the first place, and nothing behind it.
        print(&format!("\x1b[H\x1b[J{text}"));
        let next = Instant::now() + arguments.every;
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) || is_lost() {
                return ExitCode::SUCCESS;
            }
            thread::sleep(Duration::from_millis(20).min(arguments.every));
        }
    }
}

/// Returns the view, and true if any file could be read.
fn view(files: &[PathBuf]) -> (String, bool) {
    let (mut managers, mut agents, mut troubles) = (Vec::new(), Vec::new(), Vec::new());
    for path in files {
        match watched::read(path) {
            Ok((watched, age)) => {
                if age > OLD {
                    let age = age.as_secs();
                    let shown = path.display();
                    troubles.push(format!(
                        "`{shown}` is {age} s old: its program has ended, or stands still"
                    ));
                }
                match watched {
                    Watched::Manager(status) => managers.push(status),
                    Watched::Agent(status) => agents.push(status),
                }
            }
            Err(message) => troubles.push(message),
        }
    }
    let mut text = String::new();
    for status in &managers {
        text += &format!(
            "manager  epoch {}  connections {}  reservations {}  refused {}  not believed {}  answers {}\n\n",
            status.epoch,
            status.connections,
            status.shares_granted,
            status.refused.values().sum::<u64>(),
            status.distrusted.values().sum::<u64>(),
            times(status.answer_times)
        );
        let head = ["link", "rate", "promised", "", "reserved", "", "free"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for link in &status.links {
            let free = link
                .rate_bps
                .saturating_sub(link.promised_bps + link.shared_bps);
            rows.push(vec![
                format!("{}>{}", link.from, link.to),
                rate(link.rate_bps),
                rate(link.promised_bps),
                percent(link.promised_bps, link.rate_bps),
                rate(link.shared_bps),
                percent(link.shared_bps, link.rate_bps),
                percent(free, link.rate_bps),
            ]);
        }
        table(&mut text, 1, &rows);
        text.push('\n');
    }
    if !agents.is_empty() {
        let head = [
            "agent",
            "channels",
            "reservations",
            "refused",
            "no answer",
            "until usable",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for status in &agents {
            rows.push(vec![
                status.host.clone(),
                status.channels.to_string(),
                status.shares_granted.to_string(),
                status.shares_refused.to_string(),
                status.shares_unanswered.to_string(),
                times(status.share_times),
            ]);
        }
        table(&mut text, 1, &rows);
        text += &ends(&agents);
    }
    for trouble in &troubles {
        text += &format!("note: {trouble}\n");
    }
    (text, !managers.is_empty() || !agents.is_empty())
}

/// Returns the table of the ends that programs have; nothing if there is none.
fn ends(agents: &[AgentStatus]) -> String {
    let head = [
        "stream", "host", "end", "process", "frames", "foreign", "too much",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (agent, end) in agents
        .iter()
        .flat_map(|agent| agent.ends.iter().map(move |end| (agent, end)))
    {
        rows.push(vec![
            end.stream.clone(),
            agent.host.clone(),
            end.end.clone(),
            end.pid.to_string(),
            end.frames.to_string(),
            end.foreign.to_string(),
            end.too_much.to_string(),
        ]);
    }
    let mut text = String::new();
    if rows.len() > 1 {
        text.push('\n');
        // Names to the left, as far as the process.
        table(&mut text, 3, &rows);
    }
    text
}

fn times(times: Option<Times>) -> String {
    match times {
        Some(times) => format!(
            "p50 {} p99 {}",
            duration(times.p50_ns),
            duration(times.p99_ns)
        ),
        None => "-".to_owned(),
    }
}

fn percent(part: u64, whole: u64) -> String {
    let permille = u128::from(part) * 1_000 / u128::from(whole.max(1));
    format!("{}.{} %", permille / 10, permille % 10)
}
