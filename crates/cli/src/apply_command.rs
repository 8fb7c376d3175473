//! `rtwire apply`: brings this host's interface to its share of a plan.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rtwire_host::HostError;
use rtwire_host::apply::{
    self, Applied, ApplyRefusal, Choices, Isolation, Keep, Mechanism, Prepared, Report, Share,
};
use rtwire_host::change::{self, Progress};

use crate::arguments::{NETWORK_HELP, key_and_value, nanoseconds, parse_duration};
use crate::common_time::TimeArguments;
use crate::{input, output};

/// The plan was refused, or the settings are not in force.
const REFUSED: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The host lacks something that the plan asks for.
const LACKING: u8 = 3;

#[derive(Clone, Copy, ValueEnum)]
enum MechanismArgument {
    Auto,
    TaprioHardware,
    TaprioAssist,
    Taprio,
    Etf,
    Mqprio,
    Htb,
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum IsolationArgument {
    /// Remove addresses, IPv6 and ARP; IPv4 and ARP stay where streams use UDP
    Addresses,
    /// Move the interface into a network namespace of its own, rtw-INTERFACE, where nothing else runs
    Namespace,
    /// Leave the interface open to other traffic
    None,
}

/// Arguments of `rtwire apply`.
#[derive(Args)]
pub(crate) struct ApplyArguments {
    #[arg(value_name = "FILE", help = NETWORK_HELP)]
    plan: PathBuf,
    /// The host of the plan that this machine is
    #[arg(long)]
    host: String,
    /// The interface that the host's link is plugged into
    #[arg(long)]
    interface: String,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Compare this host with its share, name each difference, and change nothing; exit code 1 if there is one
    #[arg(long, conflicts_with_all = ["dry_run", "explain", "confirm_within"])]
    check: bool,
    /// Show the `ip`, `tc`, `ethtool` lines that do the same, and change nothing
    #[arg(long)]
    explain: bool,
    /// Print JSON (its schema: `rtwire schema apply`)
    #[arg(long)]
    json: bool,
    /// The queueing discipline that keeps the classes apart
    #[arg(long, value_enum, default_value = "auto")]
    queues: MechanismArgument,
    /// The isolation of the interface from other traffic
    #[arg(long, value_enum, default_value = "addresses")]
    isolation: IsolationArgument,
    /// The time from ETF's release of a frame to its launch, in ns
    #[arg(long, value_name = "NS", default_value_t = 200_000)]
    etf_delta: u32,
    /// Let the interface keep the launch times
    #[arg(long)]
    etf_offload: bool,
    /// The processor for the interface's interrupts and the threads that do its receive work
    #[arg(long, value_name = "N")]
    irq_cpu: Option<u32>,
    /// The SCHED_FIFO priority of the threads that do the interface's receive work (NAPI); on PREEMPT_RT its
    /// interrupts' threads get it too
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=98))]
    receive_priority: Option<u8>,
    /// Go on with less where the host lacks something that the plan asks for
    #[arg(long)]
    fallback: bool,
    /// Put everything back unless `rtwire confirm` comes in time, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    confirm_within: Option<Duration>,
    #[command(flatten)]
    time: TimeArguments,
    /// Override a value of the table `defaults`, as in `rtwire plan`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
}

/// A message and the exit code that goes with it.
type Failure = (String, u8);

/// Applies and prints.
pub(crate) fn run(arguments: &ApplyArguments) -> ExitCode {
    match apply_plan(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, code)) => {
            eprintln!("rtwire apply: {message}");
            ExitCode::from(code)
        }
    }
}

fn host_failure(error: &HostError) -> Failure {
    let code = match error {
        HostError::NoInterface { .. } | HostError::InterfaceName(_) => FAULTY,
        _ => LACKING,
    };
    (error.to_string(), code)
}

fn share_of(arguments: &ApplyArguments) -> Result<Share, Failure> {
    let file = arguments.plan.display().to_string();
    let plan = input::plan_without_redundancy(&arguments.plan, &arguments.set, false)
        .map_err(|(code, message)| (message, code))?;
    apply::share(&plan.network, &plan, &arguments.host)
        .map_err(|error| (format!("{file}: {error}"), FAULTY))
}

fn choices(arguments: &ApplyArguments) -> Choices {
    Choices {
        mechanism: match arguments.queues {
            MechanismArgument::Auto => Mechanism::Auto,
            MechanismArgument::TaprioHardware => Mechanism::TaprioHardware,
            MechanismArgument::TaprioAssist => Mechanism::TaprioAssist,
            MechanismArgument::Taprio => Mechanism::Taprio,
            MechanismArgument::Etf => Mechanism::Etf,
            MechanismArgument::Mqprio => Mechanism::Mqprio,
            MechanismArgument::Htb => Mechanism::Htb,
            MechanismArgument::None => Mechanism::None,
        },
        isolation: match arguments.isolation {
            IsolationArgument::Addresses => Isolation::Addresses,
            IsolationArgument::Namespace => Isolation::Namespace,
            IsolationArgument::None => Isolation::None,
        },
        etf_offload: arguments.etf_offload,
        etf_delta_ns: arguments.etf_delta,
        fall_back: arguments.fallback,
        irq_cpu: arguments.irq_cpu,
        receive_priority: arguments.receive_priority,
    }
}

fn apply_plan(arguments: &ApplyArguments) -> Result<(), Failure> {
    let confirm_ns = arguments.confirm_within.map(nanoseconds);
    let share = share_of(arguments)?;
    let time = arguments.time.for_share(&share, &arguments.interface);
    let prepared = apply::prepare(
        &share,
        &arguments.interface,
        &choices(arguments),
        time.as_ref(),
    )
    .map_err(|refusal| refused(&refusal))?;
    if !arguments.json {
        introduce(arguments, prepared.report());
    }
    let lacking = prepared.complete();
    if arguments.check {
        let differs = check(arguments, prepared.report());
        lacking.map_err(|refusal| refused(&refusal))?;
        if differs.is_ok() && !arguments.json {
            output::line("all is as planned");
        }
        return differs;
    }
    if arguments.dry_run || arguments.explain || lacking.is_err() {
        show(arguments, prepared.report());
        return lacking.map_err(|refusal| refused(&refusal));
    }
    make(arguments, prepared, confirm_ns)
}

/// Returns the message and the exit code of a refusal.
fn refused(refusal: &ApplyRefusal) -> Failure {
    match refusal {
        ApplyRefusal::Host(error) => host_failure(error),
        other if other.is_host_lacking() => (other.to_string(), LACKING),
        other => (other.to_string(), REFUSED),
    }
}

fn introduce(arguments: &ApplyArguments, report: &Report) {
    for lack in &report.lacks {
        eprintln!(
            "rtwire apply: missing on this host: {}\n  cannot be promised any more: {}\n  to get it: {}\n  instead: {}",
            lack.what, lack.lost, lack.remedy, lack.instead
        );
    }
    if !arguments.explain {
        for note in &report.notes {
            output::line(&format!("note: {note}"));
        }
    }
}

fn show(arguments: &ApplyArguments, report: &Report) {
    if arguments.json {
        print_json(report);
    } else if arguments.explain {
        for command in &report.commands {
            output::line(command);
        }
    } else if arguments.dry_run {
        for change in &report.changes {
            output::line(&format!("would change  {}", change.show()));
        }
        output::line(&format!("{} change(s), none made", report.changes.len()));
    }
}

/// Names each difference between the host and its share.
fn check(arguments: &ApplyArguments, report: &Report) -> Result<(), Failure> {
    if arguments.json {
        print_json(report);
    } else {
        for change in &report.changes {
            output::line(&format!("differs  {}", change.show()));
        }
    }
    match report.changes.len() {
        0 => Ok(()),
        number => Err((
            format!(
                "{number} setting(s) of `{}` differ from the plan",
                report.interface
            ),
            REFUSED,
        )),
    }
}

fn make(
    arguments: &ApplyArguments,
    prepared: Prepared,
    confirm_ns: Option<u64>,
) -> Result<(), Failure> {
    let interface = &arguments.interface;
    let title = format!(
        "rtwire apply {} --host {} --interface {interface}",
        arguments.plan.display(),
        arguments.host
    );
    let keep = match confirm_ns {
        None => Keep::Always,
        Some(within_ns) => Keep::IfConfirmed {
            within_ns,
            guardian: Box::new(guardian(interface)?),
        },
    };
    let directory = change::default_directory();
    let tell = !arguments.json;
    let applied = prepared.carry_out(&directory, &title, keep, &mut |change, progress| {
        if tell {
            let word = match progress {
                Progress::Made => "changed ",
                Progress::Undone => "put back",
            };
            output::line(&format!("{word}  {}", change.show()));
        }
    });
    let Applied { report, made } = applied.map_err(|refusal| refused(&refusal))?;
    if arguments.json {
        print_json(&report);
        return Ok(());
    }
    if report.changes.is_empty() {
        output::line("all is as planned already; nothing was changed");
        return Ok(());
    }
    match &arguments.confirm_within {
        Some(within) => output::line(&format!(
            "{made} change(s) made and read back; they are put back in {} unless you say: rtwire confirm {interface}",
            rtwire_measure::units::short_duration(nanoseconds(*within))
        )),
        None => output::line(&format!(
            "{made} change(s) made and read back; `rtwire revert {interface}` puts them back"
        )),
    }
    Ok(())
}

/// Returns the guardian's process: this program as `rtwire host-guardian`.
fn guardian(interface: &str) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        (
            format!("cannot find this program's own file, which the guardian runs: {error}"),
            LACKING,
        )
    })?;
    let mut command = Command::new(program);
    command.args(["host-guardian", interface]);
    Ok(command)
}

fn print_json(report: &Report) {
    match serde_json::to_string_pretty(report) {
        Ok(text) => output::line(&text),
        Err(error) => eprintln!("rtwire apply: {error}"),
    }
}
