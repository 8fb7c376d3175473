//! `rtwire clock`: does this host share the network's time?

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rtwire_host::change::default_directory;
use rtwire_host::clock::{self, ClockQuestion, ClockState};
use rtwire_host::netlink::Netlink;

use crate::output;

/// Not synchronised.
const APART: u8 = 1;
/// Wrong usage.
const FAULTY: u8 = 2;
/// There is no ptp4l to ask.
const LACKING: u8 = 3;

/// Arguments of `rtwire clock`.
#[derive(Args)]
pub(crate) struct ClockArguments {
    /// The interface whose clock is compared with the system's
    interface: Option<String>,
    /// The management socket of ptp4l (`uds_address`)
    #[arg(long, value_name = "PATH", default_value = clock::DEFAULT_SOCKET)]
    socket: PathBuf,
    /// The PTP domain
    #[arg(long, default_value_t = 0)]
    domain: u8,
    /// The largest allowed offset of the clock from its master, in ns
    #[arg(long, value_name = "NS", default_value_t = 1_000)]
    limit: u64,
    /// This host is the grandmaster
    #[arg(long)]
    gives_time: bool,
    /// Look once a second for this number of seconds
    #[arg(long, value_name = "SECONDS")]
    watch: Option<u64>,
    /// The file that keeps the record (JSON lines); by default clock.jsonl in /var/lib/rtwire
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print JSON, one object for each look (its schema: `rtwire schema clock`)
    #[arg(long)]
    json: bool,
}

/// Looks, prints and keeps the record.
pub(crate) fn run(arguments: &ClockArguments) -> ExitCode {
    let phc = match &arguments.interface {
        None => None,
        Some(name) => match Netlink::new().link(name) {
            Ok(Some(_)) => clock::hardware_clock(name),
            Ok(None) => {
                eprintln!(
                    "rtwire clock: there is no interface `{name}`; look at `ip link` for those there are"
                );
                return ExitCode::from(FAULTY);
            }
            Err(error) => {
                eprintln!("rtwire clock: {error}");
                return ExitCode::from(FAULTY);
            }
        },
    };
    let question = ClockQuestion {
        socket: arguments.socket.clone(),
        domain: arguments.domain,
        limit_ns: arguments.limit,
        gives_time: arguments.gives_time,
        phc,
        ..ClockQuestion::default()
    };
    let record = arguments
        .record
        .clone()
        .unwrap_or_else(|| default_directory().join("clock.jsonl"));
    let start = Instant::now();
    let watch = Duration::from_secs(arguments.watch.unwrap_or(0));
    let mut code = 0;
    loop {
        let state = clock::state(&question);
        show(arguments, &state);
        if let Err(error) = clock::keep(&record, &state) {
            eprintln!(
                "rtwire clock: cannot keep the record {}: {error}",
                record.display()
            );
            code = output::unwritten(code);
        }
        let this = match (&state.daemon, state.synchronised) {
            (_, true) => 0,
            (Some(_), false) => APART,
            (None, false) => LACKING,
        };
        // The worst look decides the exit code.
        code = code.max(this);
        // A reader that went away has seen enough.
        if start.elapsed() + Duration::from_secs(1) > watch || output::is_lost() {
            return ExitCode::from(code);
        }
        thread::sleep(Duration::from_secs(1));
    }
}

fn show(arguments: &ClockArguments, state: &ClockState) {
    if arguments.json {
        let text = if arguments.watch.is_some() {
            serde_json::to_string(state)
        } else {
            serde_json::to_string_pretty(state)
        };
        match text {
            Ok(text) => output::line(&text),
            Err(error) => eprintln!("rtwire clock: {error}"),
        }
        return;
    }
    output::print(&text(arguments, state));
}

/// Returns a look's line with `--watch`, otherwise its table.
fn text(arguments: &ClockArguments, state: &ClockState) -> String {
    let mut out = String::new();
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    if arguments.watch.is_some() {
        let offset = state.daemon.as_ref().and_then(|daemon| daemon.offset_ns);
        let _ = writeln!(
            out,
            "{}  offset {}  {}",
            if state.synchronised {
                "synchronised"
            } else {
                "APART       "
            },
            known(offset.map(|ns| format!("{ns} ns"))),
            state.reasons.join("; ")
        );
        return out;
    }
    if let Some(daemon) = &state.daemon {
        let ports: Vec<String> = daemon
            .ports
            .iter()
            .map(|port| format!("{} {}", port.number, port.state))
            .collect();
        let grandmaster = if daemon.own_grandmaster {
            format!("{} (this clock itself)", daemon.identity)
        } else {
            daemon.grandmaster.clone()
        };
        let _ = writeln!(out, "clock          {}", daemon.identity);
        let _ = writeln!(out, "ports          {}", ports.join(", "));
        let _ = writeln!(out, "grandmaster    {grandmaster}");
        let _ = writeln!(
            out,
            "offset         {} (limit {} ns)",
            known(daemon.offset_ns.map(|ns| format!("{ns} ns"))),
            state.limit_ns
        );
        let _ = writeln!(
            out,
            "path delay     {}",
            known(daemon.delay_ns.map(|ns| format!("{ns} ns")))
        );
        let _ = writeln!(
            out,
            "TAI - UTC      {} by the grandmaster{}, {} s by this kernel",
            known(daemon.utc_offset_s.map(|s| format!("{s} s"))),
            if daemon.utc_offset_valid {
                ""
            } else {
                " (which does not vouch for it)"
            },
            state.system.tai_offset_s
        );
    }
    if let (Some(offset), Some(uncertainty)) = (
        state.system.phc_minus_tai_ns,
        state.system.phc_uncertainty_ns,
    ) {
        let _ = writeln!(
            out,
            "hardware clock {offset} ns from CLOCK_TAI (±{uncertainty} ns)"
        );
    }
    if state.synchronised {
        let _ = writeln!(out, "synchronised");
    } else {
        let _ = writeln!(out, "NOT synchronised: {}", state.reasons.join("; "));
    }
    out
}
