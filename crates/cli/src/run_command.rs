//! `rtwire run`: one host's streams of a network, on a real interface.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rtwire_plan::{Plan, plan_file};
use rtwire_session::evidence::EvidenceOptions;
use rtwire_session::run::{ClockSource, ReceiveWork, RunOptions, RunPhase, Verdict, run_host};
use rtwire_session::{
    AgentUse, PeerAddress, ReceivePath, SessionOptions, TxPath, ValueEnd, ValueFormat,
};
use rtwire_sys::signal;
use rtwire_wire::MacAddress;

use crate::arguments::{
    NETWORK_HELP, Stamps, key_and_value, nanoseconds, parse_duration, parse_duration_or_none,
    parse_size, parse_spin, receive_paths, transmit_paths,
};
use crate::common_time::TimeArguments;
use crate::input::{self, Input};
use crate::output;
use crate::run_text;

/// The arguments of `rtwire run`.
#[derive(Args)]
pub(crate) struct RunArguments {
    #[arg(help = NETWORK_HELP, required_unless_present = "plan")]
    file: Option<PathBuf>,
    /// The host of the description that this machine is
    #[arg(long, value_name = "NAME")]
    host: String,
    /// The interface that this host's link is plugged into
    #[arg(long, value_name = "IF")]
    interface: String,
    /// The plan, in place of the description; beside a description, it must be the plan of that one
    #[arg(long, value_name = "PLAN.json")]
    plan: Option<PathBuf>,
    /// The duration, for example `20s`; without it, until stopped
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// A host's address: MAC for RTDiP streams, IPv4 for UDP streams; without it, RTDiP streams use their own group
    /// address
    #[arg(long = "peer", value_name = "NAME=ADDRESS", value_parser = parse_peer)]
    peers: Vec<(String, PeerAddress)>,
    /// The transmit path of RTDiP frames: qdisc, direct, xdp, launch, xdp-launch, uman; UDP has `qdisc` and `launch`
    #[arg(
        long,
        visible_alias = "transmit-path",
        value_name = "PATH",
        default_value = "qdisc",
        value_parser = transmit_paths(TxPath::ALL)
    )]
    path: TxPath,
    /// The receive path of RTDiP frames: receive program in the driver (native) or behind it (generic), packet sockets, the
    /// kernel module `uman`, or the cheapest for each listener (auto)
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = receive_paths(ReceivePath::ALL))]
    receive_path: ReceivePath,
    /// Drop and count frames beyond their stream's contract at its listeners; the tolerance is the promised delay plus this
    /// time for late hosts, for example `10ms`
    #[arg(long, value_name = "LATENESS", value_parser = parse_duration)]
    police: Option<Duration>,
    /// The place that stamps frames
    #[arg(long, value_enum, default_value = "software")]
    stamps: Stamps,
    /// The time that listeners, which are real-time threads, spin before they sleep, for example `50us`; at most `1ms`
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_spin)]
    spin: Duration,
    /// The time before each instant at which a cyclic talker wakes, to spin until then, for example `60us`; at most `1ms`;
    /// `0s`: it does not spin. Without it each talker measures how late it is woken
    #[arg(long, value_name = "TIME", value_parser = parse_spin)]
    spin_margin: Option<Duration>,
    /// The thread or interrupt that does the receive work
    #[arg(long, value_enum, default_value = "auto")]
    receive: Receive,
    /// SCHED_FIFO priority for streams of priority 7; each lower priority has 1 less
    #[arg(long, value_name = "PRIORITY", default_value_t = 80, value_parser = clap::value_parser!(u8).range(8..=98))]
    realtime: u8,
    /// Take a stream's values from a shell command's standard output (talker), or write them to its standard input
    /// (listener); all other streams carry zeros
    #[arg(long, value_name = "STREAM=COMMAND", value_parser = parse_end)]
    exec: Vec<(String, String)>,
    /// The form of values on a pipe
    #[arg(long, value_enum, default_value = "lines")]
    values: Form,
    /// Share a stream's newest value with another program through this file, which both programs map (docs/session.md)
    #[arg(long, value_name = "STREAM=FILE", value_parser = parse_end)]
    image: Vec<(String, String)>,
    /// Also send and receive this host's best-effort allowances, up to their limit
    #[arg(long)]
    best_effort: bool,
    /// Set a default of the description, for example `shaping-interval=100us`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Write what this host sees to this file while it runs: every frame with its stamps, for `rtwire judge`. Until the end
    /// its name is FILE.part
    #[arg(long, value_name = "FILE")]
    evidence: Option<PathBuf>,
    /// The largest size of that file; later frames are only counted, and the verdict is inconclusive
    #[arg(long, value_name = "SIZE", default_value = "1000MB", value_parser = parse_size, requires = "evidence")]
    evidence_limit: u64,
    /// This host's clock is at most this far from the network's time, and so are those of the other hosts, for example
    /// `1us`; without it, ptp4l is asked
    #[arg(long, value_name = "TIME", value_parser = parse_duration_or_none)]
    clock_uncertainty: Option<Duration>,
    /// Record no stalls of this machine, which takes a real-time thread on each core; a late cycle is then never excused
    #[arg(long)]
    no_noise: bool,
    #[command(flatten)]
    time: TimeArguments,
    /// Run even if the network is refused, or its promises do not hold on the transmit path
    #[arg(long)]
    no_admission: bool,
    /// Print the report as JSON (its schema: `rtwire schema run`)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Receive {
    /// A kernel thread where the driver has receive contexts (NAPI), else the soft interrupt
    Auto,
    /// The soft interrupt, above every task
    Softirq,
    /// A kernel thread, as urgent as the most urgent listener here
    Thread,
    /// The listeners' own calls, interrupts deferred (UDP streams only)
    Poll,
    /// A kernel thread that polls the driver all the time and takes what a core has left (Linux 6.19)
    PollThread,
}

/// The form of values on a pipe.
#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// Each line is a value
    Lines,
    /// Each value has exactly the length of the stream's payload
    Frames,
}

impl From<Form> for ValueFormat {
    fn from(form: Form) -> Self {
        match form {
            Form::Lines => Self::Lines,
            Form::Frames => Self::Frames,
        }
    }
}

fn parse_end(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((stream, end)) if !stream.is_empty() && !end.is_empty() => {
            Ok((stream.to_owned(), end.to_owned()))
        }
        _ => Err("expected STREAM=…, for instance A-to-B=./controller".to_owned()),
    }
}

/// Returns the other ends of streams' values, as the arguments name them.
fn ends(arguments: &RunArguments) -> Vec<(String, ValueEnd)> {
    let form = ValueFormat::from(arguments.values);
    let exec = arguments.exec.iter();
    let exec =
        exec.map(|(stream, command)| (stream.clone(), ValueEnd::Exec(command.clone(), form)));
    let images = arguments.image.iter();
    let images = images.map(|(stream, file)| (stream.clone(), ValueEnd::Image(file.into())));
    exec.chain(images).collect()
}

fn parse_peer(text: &str) -> Result<(String, PeerAddress), String> {
    let (name, address) = text
        .split_once('=')
        .ok_or("expected NAME=ADDRESS, for instance B=02:00:00:00:00:0b or B=10.0.0.2")?;
    let address = match (address.parse::<MacAddress>(), address.parse::<Ipv4Addr>()) {
        (Ok(mac), _) => PeerAddress::Mac(mac.0),
        (_, Ok(ip)) => PeerAddress::Ip(ip),
        _ => {
            return Err(format!(
                "`{address}` is neither a MAC address (02:00:00:00:00:0b) nor an IPv4 address (10.0.0.2)"
            ));
        }
    };
    Ok((name.to_owned(), address))
}

/// Runs `rtwire run`. Exit code 1: broken; 4: inconclusive.
pub(crate) fn run(arguments: &RunArguments) -> ExitCode {
    match run_here(arguments) {
        Ok(Verdict::Complete) => ExitCode::SUCCESS,
        Ok(Verdict::Broken) => ExitCode::from(1),
        Ok(Verdict::Inconclusive) => ExitCode::from(4),
        Err((code, message)) => {
            eprintln!("{message}");
            ExitCode::from(code)
        }
    }
}

fn run_here(arguments: &RunArguments) -> Result<Verdict, (u8, String)> {
    let plan = plan(arguments)
        .map_err(|(code, message)| (code, format!("error: {message}{}", input::hint(code))))?;
    // An unknown host is refused below, with the list of hosts.
    let share = rtwire_host::apply::share(&plan.network, &plan, &arguments.host).ok();
    let time = share
        .as_ref()
        .and_then(|share| arguments.time.for_share(share, &arguments.interface));
    let clock = match (arguments.clock_uncertainty, &share) {
        (Some(stated), _) => ClockSource::Stated {
            uncertainty_ns: nanoseconds(stated),
        },
        (None, Some(share)) => arguments.time.source(share, &arguments.interface),
        (None, None) => ClockSource::Unknown,
    };
    if let Some(time) = time.as_ref().filter(|time| !time.waived) {
        if let Some(reasons) = time.missing() {
            let message = format!(
                "error: streams of `{}` need the network's time, which is missing on this host: {reasons}; see `rtwire clock`, \
                 or run without it, every result being labelled: --no-sync",
                arguments.host
            );
            return Err((3, message));
        }
    }
    let stop = signal::install_stop_flag().map_err(|error| (3, format!("error: {error}")))?;
    let options = RunOptions {
        plan,
        host: arguments.host.clone(),
        interface: arguments.interface.clone(),
        session: SessionOptions {
            peers: arguments.peers.clone(),
            path: arguments.path,
            receive_path: arguments.receive_path,
            spin: arguments.spin,
            police: arguments.police,
            arrivals: 0,
            polls: matches!(arguments.receive, Receive::Poll),
            realtime: Some(arguments.realtime),
            spin_margin: arguments.spin_margin,
            one_machine: false,
            card: None,
            no_admission: arguments.no_admission,
            agent: AgentUse::Never,
        },
        stamps: arguments.stamps.into(),
        duration: arguments.duration,
        receive: match arguments.receive {
            Receive::Auto => ReceiveWork::Automatic,
            Receive::Softirq => ReceiveWork::SoftInterrupt,
            Receive::Thread => ReceiveWork::Thread,
            Receive::Poll => ReceiveWork::Poll,
            Receive::PollThread => ReceiveWork::PollThread,
        },
        best_effort: arguments.best_effort,
        values: ends(arguments),
        evidence: arguments.evidence.clone().map(|path| EvidenceOptions {
            path,
            limit_bytes: arguments.evidence_limit,
        }),
        clock,
        noise: !arguments.no_noise,
        rtwire_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let run = || run_host(&options, stop, &|phase| tell(&options, phase));
    let result = match &time {
        None => run(),
        Some(time) => {
            let (result, time) = crate::common_time::watched(time, run);
            result.map(|report| report.with_time(time))
        }
    };
    let report = result.map_err(|error| {
        let code = if error.is_host_lacking() { 3 } else { 2 };
        (code, format!("error: {error}"))
    })?;
    let text = if arguments.json {
        let json = serde_json::to_string_pretty(&report);
        json.map_err(|error| (3, format!("error: {error}")))? + "\n"
    } else {
        run_text::shown(&report)
    };
    output::print(&text);
    match report.evidence.as_ref().map(|row| (&row.file, &row.fault)) {
        Some((file, Some(fault))) => Err((
            if report.verdict == Verdict::Broken {
                1
            } else {
                3
            },
            format!(
                "error: cannot write the evidence `{file}`: {fault}; what it has is a beginning, which `rtwire judge` calls \
                 truncated"
            ),
        )),
        _ => Ok(report.verdict),
    }
}

/// Writes a phase to standard error. Scripts wait for these lines, so they are written without a terminal, too.
fn tell(options: &RunOptions, phase: RunPhase<'_>) {
    let (host, interface) = (&options.host, &options.interface);
    let line = match phase {
        RunPhase::Open { receive_work } => {
            format!(
                "host {host} on {interface}: open; receive work: {receive_work}; Ctrl-C ends it\n"
            )
        }
        RunPhase::Running => format!("host {host} on {interface}: running\n"),
    };
    // Nobody may be reading: that is no fault of the run.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Checks that there is no router, that the host has one interface, and that it sends each frame whole: nothing here sets it up
/// for more.
fn of_a_plain_host(plan: &Plan, host: &str) -> Result<(), String> {
    plan.network
        .without_routers("a run knows one layer-2 network")?;
    let why = "a run knows one interface of its host";
    plan.network.without_several_links(Some(host), why)?;
    let why = "rtwire sets up no interface for it, and cannot tell whether another did";
    plan.network.without_preemption(Some(host), why)
}

/// Returns the plan to run.
fn plan(arguments: &RunArguments) -> Result<Plan, (u8, String)> {
    let (set, no_admission) = (&arguments.set, arguments.no_admission);
    let (path, description) = match (&arguments.plan, &arguments.file) {
        (Some(path), description) => (path, description.as_ref()),
        (None, Some(path)) => {
            let plan = input::plan_without_redundancy(path, set, no_admission)?;
            let sound = plan.network.without_groups();
            let sound = sound.and_then(|()| of_a_plain_host(&plan, &arguments.host));
            return sound.map(|()| plan).map_err(|message| (2, message));
        }
        // clap requires one of them.
        (None, None) => return Err((2, "no network is given".to_owned())),
    };
    let plan = input::bytes_of(path).and_then(|bytes| {
        let file = path.display().to_string();
        plan_file::read(&bytes, &file).map_err(|fault| fault.to_string())
    });
    let plan = plan.map_err(|message| (2, format!("--plan: {message}")))?;
    plan.network
        .without_redundancy()
        .and_then(|()| plan.network.without_groups())
        .and_then(|()| of_a_plain_host(&plan, &arguments.host))
        .map_err(|message| (2, message))?;
    let described = match description.map(|description| input::read(description, set)) {
        None => return Ok(plan),
        Some(Err(fault)) => return Err((2, fault.to_string())),
        Some(Ok(Input::Description(network))) => network.input_hash,
        Some(Ok(Input::Plan(other))) => other.input_hash,
    };
    if described == plan.input_hash {
        return Ok(plan);
    }
    let file = path.display();
    Err((
        2,
        format!(
            "{file}: this plan was made from another description (or with other --set); plan again with `rtwire plan --output`"
        ),
    ))
}
