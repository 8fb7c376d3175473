//! `rtwire apply`: brings this host's interface to its share of a plan.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rtwire_host::apply::{
    self, Choices, Configuration, Isolation, Lack, Mechanism, Present, Report, Share,
};
use rtwire_host::change::{self, Change, Header, Progress, Record, Subject, Value};
use rtwire_host::doctor::Facts;
use rtwire_host::netlink::Netlink;
use rtwire_host::{HostError, Namespace};

use crate::arguments::{NETWORK_HELP, key_and_value, nanoseconds, parse_duration};
use crate::common_time::TimeArguments;
use crate::input;

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
    /// Its addresses, IPv6 and ARP are taken off; IPv4 and ARP stay where streams go in UDP
    Addresses,
    /// It is moved into a network namespace of its own, rtw-INTERFACE, where nothing else runs
    Namespace,
    /// Nothing is done
    None,
}

/// Arguments of `rtwire apply`.
#[derive(Args)]
pub(crate) struct ApplyArguments {
    #[arg(value_name = "FILE", help = NETWORK_HELP)]
    plan: PathBuf,
    /// Which host of the plan this machine is
    #[arg(long)]
    host: String,
    /// The interface that the host's link is plugged into
    #[arg(long)]
    interface: String,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Show the `ip`, `tc`, `ethtool` lines that do the same, and change nothing
    #[arg(long)]
    explain: bool,
    /// Print JSON (its schema: `rtwire schema apply`)
    #[arg(long)]
    json: bool,
    /// What keeps the classes apart
    #[arg(long, value_enum, default_value = "auto")]
    queues: MechanismArgument,
    /// How other traffic is kept off the interface
    #[arg(long, value_enum, default_value = "addresses")]
    isolation: IsolationArgument,
    /// How long before its launch time ETF hands a frame to the driver, in ns
    #[arg(long, value_name = "NS", default_value_t = 200_000)]
    etf_delta: u32,
    /// Launch times are kept by the interface
    #[arg(long)]
    etf_offload: bool,
    /// The processor that serves the interface's interrupts, and the threads that do its receive work
    #[arg(long, value_name = "N")]
    irq_cpu: Option<u32>,
    /// Threads of this priority under SCHED_FIFO do the interface's receive work (NAPI); on PREEMPT_RT its interrupts' threads get
    /// that priority too
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

/// Apply and print.
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

/// What differs from the present state.
fn changes(netlink: &mut Netlink, configuration: &Configuration) -> Result<Vec<Change>, Failure> {
    let mut present = Vec::new();
    for one in &configuration.wanted {
        let value =
            change::foreseen(netlink, &one.subject).map_err(|error| host_failure(&error))?;
        if let (Subject::Queues { interface }, Value::Queues(tree)) = (&one.subject, &value) {
            if let Some(strange) = &tree.strange {
                return Err((
                    format!(
                        "`{interface}` has {strange}, set up by somebody else, which could not be put back; take it off \
                         first: tc qdisc del dev {interface} root; or leave the queues alone: --queues none"
                    ),
                    LACKING,
                ));
            }
        }
        present.push((one.subject.clone(), value));
    }
    Ok(change::difference(&configuration.wanted, &|subject| {
        let found = present.iter().find(|(one, _)| one == subject);
        found.map_or(Value::Absent, |(_, value)| value.clone())
    }))
}

fn apply_plan(arguments: &ApplyArguments) -> Result<(), Failure> {
    let confirm_ns = arguments.confirm_within.map(nanoseconds);
    let share = share_of(arguments)?;
    let (facts, moved) = gather(arguments)?;
    let present = Present::from_facts(&facts).map_err(|error| host_failure(&error))?;
    let present = Present { moved, ..present };
    let configuration = apply::configure(&share, &present, &choices(arguments));
    let (time_lack, time_note) = common_time(arguments, &share);
    let mut netlink = Netlink::new();
    let changes = changes(&mut netlink, &configuration)?;
    let mut report = Report {
        version: 1,
        host: share.host.clone(),
        interface: arguments.interface.clone(),
        input_hash: share.input_hash.clone(),
        mechanism: configuration.mechanism,
        lacks: configuration
            .lacks
            .iter()
            .cloned()
            .chain(time_lack)
            .collect(),
        notes: configuration
            .notes
            .iter()
            .cloned()
            .chain(time_note)
            .collect(),
        commands: changes.iter().map(Change::command).collect(),
        changes,
        applied: false,
    };
    if !arguments.json {
        introduce(arguments, &report);
    }
    let refused = lacking(arguments, &report);
    if arguments.dry_run || arguments.explain || refused.is_some() {
        show(arguments, &report);
        return refused.map_or(Ok(()), Err);
    }
    let cut_off = facts
        .interface
        .as_ref()
        .is_some_and(|it| it.routes.iter().any(|route| route.default));
    let isolates = report.changes.iter().any(|change| {
        matches!(
            change.subject,
            Subject::Addresses { .. } | Subject::Place { .. }
        )
    });
    if cut_off && isolates && confirm_ns.is_none() {
        return Err((
            format!(
                "`{}` is this machine's way to everywhere, and would lose its addresses: use another interface, or add \
                 --confirm-within 30s, so that it comes back by itself",
                arguments.interface
            ),
            REFUSED,
        ));
    }
    if report.changes.is_empty() {
        if arguments.json {
            report.applied = true;
            print_json(&report);
        } else {
            println("all is as planned already; nothing was changed");
        }
        return Ok(());
    }
    make(arguments, &mut netlink, &mut report, confirm_ns)
}

/// What there is to know of the interface; whether it is in its own namespace already.
fn gather(arguments: &ApplyArguments) -> Result<(Facts, bool), Failure> {
    let interface = &arguments.interface;
    let place = Subject::Place {
        interface: interface.clone(),
        namespace: apply::namespace_name(interface),
    };
    // A name that cannot be one is refused below, in better words.
    let place = change::read(&mut Netlink::new(), &place);
    let facts = match place {
        Ok(Value::There(namespace))
            if matches!(arguments.isolation, IsolationArgument::Namespace) =>
        {
            let gather = || Facts::gather(Some(interface));
            match Namespace::lasting(&namespace) {
                Some(inside) => inside.run(gather).and_then(|facts| facts),
                None => gather(),
            }
            .map(|facts| (facts, true))
        }
        Ok(Value::There(namespace)) => {
            return Err((
                format!(
                    "`{interface}` is in network namespace {namespace}, where an earlier rtwire apply put it; put it back first: \
                     rtwire revert {interface}; or keep it there: --isolation namespace"
                ),
                REFUSED,
            ));
        }
        Ok(Value::Here(_)) if matches!(arguments.isolation, IsolationArgument::Namespace) => {
            let namespace = apply::namespace_name(interface);
            if Namespace::lasting(&namespace).is_some() {
                return Err((
                    format!(
                        "there is a network namespace {namespace} already, without `{interface}` in it; if nobody needs it: ip netns del \
                         {namespace}"
                    ),
                    REFUSED,
                ));
            }
            Facts::gather(Some(interface)).map(|facts| (facts, false))
        }
        _ => Facts::gather(Some(interface)).map(|facts| (facts, false)),
    };
    facts.map_err(|error| host_failure(&error))
}

/// What is missing of the network's time, or, with `--no-sync`, what has to be said about every result.
fn common_time(arguments: &ApplyArguments, share: &Share) -> (Option<Lack>, Option<String>) {
    let Some(time) = arguments.time.for_share(share, &arguments.interface) else {
        return (None, None);
    };
    let Some(reasons) = time.missing() else {
        return (None, None);
    };
    if time.waived {
        return (
            None,
            Some(format!(
                "NOT SYNCHRONISED ({reasons}): gates and launch times are those of this host's own clock"
            )),
        );
    }
    let lack = Lack {
        what: format!("the network's time ({reasons})"),
        lost: "every window, and every delay and jitter that hangs on one".to_owned(),
        remedy: "ptp4l and phc2sys, see `rtwire clock`; or go on without a common time: --no-sync"
            .to_owned(),
        instead: "gates and launch times of this host's own clock".to_owned(),
    };
    (Some(lack), None)
}

fn introduce(arguments: &ApplyArguments, report: &Report) {
    for lack in &report.lacks {
        eprintln!(
            "rtwire apply: this host has not: {}\n  cannot be promised any more: {}\n  to get it: {}\n  instead: {}",
            lack.what, lack.lost, lack.remedy, lack.instead
        );
    }
    if !arguments.explain {
        for note in &report.notes {
            println(&format!("note: {note}"));
        }
    }
}

fn lacking(arguments: &ApplyArguments, report: &Report) -> Option<Failure> {
    (!report.lacks.is_empty() && !arguments.fallback).then(|| {
        (
            "nothing was changed; --fallback goes on without what is missing".to_owned(),
            LACKING,
        )
    })
}

fn show(arguments: &ApplyArguments, report: &Report) {
    if arguments.json {
        print_json(report);
    } else if arguments.explain {
        for command in &report.commands {
            println(command);
        }
    } else if arguments.dry_run {
        for change in &report.changes {
            println(&format!("would change  {}", change.show()));
        }
        println(&format!("{} change(s), none made", report.changes.len()));
    }
}

fn make(
    arguments: &ApplyArguments,
    netlink: &mut Netlink,
    report: &mut Report,
    confirm_ns: Option<u64>,
) -> Result<(), Failure> {
    let interface = &arguments.interface;
    let title = format!(
        "rtwire apply {} --host {} --interface {interface}",
        arguments.plan.display(),
        arguments.host
    );
    let now = rtwire_sys::clock::now_ns(rtwire_sys::clock::Clock::Boottime);
    let until = confirm_ns.map(|within| now.saturating_add(within));
    let directory = change::default_directory();
    let record = Record::begin(&directory, Header::new(title, interface, until))
        .map_err(|error| (error.to_string(), REFUSED))?;
    if confirm_ns.is_some() {
        if let Err(error) = guard(interface) {
            let _ = record.remove();
            return Err((
                format!("cannot start the guardian that would put things back: {error}"),
                LACKING,
            ));
        }
    }
    let tell = !arguments.json;
    let done = change::apply(netlink, record, &report.changes, &mut |change, progress| {
        if tell {
            let word = match progress {
                Progress::Made => "changed ",
                Progress::Undone => "put back",
            };
            println(&format!("{word}  {}", change.show()));
        }
    });
    let mut record = done.map_err(|error| {
        let code = if matches!(error, change::ApplyError::Refused { .. }) {
            LACKING
        } else {
            REFUSED
        };
        (error.to_string(), code)
    })?;
    report.applied = true;
    if confirm_ns.is_none() {
        record
            .confirm()
            .map_err(|error| (error.to_string(), REFUSED))?;
    }
    let number = record.changes.len();
    // The lock goes before anything is said: who reads it may act at once.
    drop(record);
    if arguments.json {
        print_json(report);
        return Ok(());
    }
    match &arguments.confirm_within {
        Some(within) => println(&format!(
            "{number} change(s) made and read back; they are put back in {} unless you say: rtwire confirm {interface}",
            rtwire_measure::units::short_duration(nanoseconds(*within))
        )),
        None => println(&format!(
            "{number} change(s) made and read back; `rtwire revert {interface}` puts them back"
        )),
    }
    Ok(())
}

/// Starts the process that puts everything back when the time is over, and waits until it is ready.
fn guard(interface: &str) -> std::io::Result<()> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program)
        .args(["host-guardian", interface])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if line.trim() == "ready" {
        return Ok(());
    }
    Err(std::io::Error::other("it ended before it was ready"))
}

fn print_json(report: &Report) {
    match serde_json::to_string_pretty(report) {
        Ok(text) => println(&text),
        Err(error) => eprintln!("rtwire apply: {error}"),
    }
}

fn println(text: &str) {
    // A reader that went away (`| head`) is no fault of ours.
    let _ = writeln!(std::io::stdout(), "{text}");
}
