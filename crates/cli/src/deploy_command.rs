//! `rtwire door`, `deploy`, `check` and `prove`: one plan on all hosts of a network, and on the switches that are named.

mod prove;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rtwire_deploy::{
    Asked, DeployError, Door, DoorSettings, Host, Order, Outcome, Remote, Reply, Told, ask_all,
    deploy,
};
use rtwire_managerd::{key_path, read_key};
use rtwire_plan::{Plan, plan_file, verify};
use rtwire_sys::signal;

use crate::arguments::{nanoseconds, parse_duration};
use crate::switch_command::{AtSwitch, NamedSwitches};
use crate::{input, output};

pub(crate) use prove::prove;

/// A host refused, or differs.
const REFUSED: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// A host cannot be reached, or lacks something.
const LACKING: u8 = 3;
/// The time for an order besides what it is to last.
const REPLY_WITHIN: Duration = Duration::from_secs(60);

/// A message and the exit code that goes with it.
type Failure = (u8, String);

/// Arguments of `rtwire door`.
#[derive(Args)]
pub(crate) struct DoorArguments {
    /// This host, as the plan names it
    #[arg(long, value_name = "NAME")]
    host: String,
    /// Its interface to the network
    #[arg(long, value_name = "INTERFACE")]
    interface: String,
    /// The key file of this host (mode 0600): whoever holds it may deploy here
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The address and TCP port to listen at
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The folder of the plans that are tried and deployed here
    #[arg(long, value_name = "FOLDER")]
    state: PathBuf,
    /// Further arguments of `rtwire apply` on this host, for example `--isolation none`
    #[arg(
        long,
        value_name = "ARGUMENTS",
        default_value = "",
        allow_hyphen_values = true
    )]
    apply_with: String,
    /// Further arguments of `rtwire run` on this host, for example `--no-sync`
    #[arg(
        long,
        value_name = "ARGUMENTS",
        default_value = "",
        allow_hyphen_values = true
    )]
    run_with: String,
}

/// The hosts of a network.
#[derive(Args)]
struct HostArguments {
    /// The plan (JSON, from `rtwire plan --output`)
    plan: PathBuf,
    /// The door of a host; one for each host of the plan
    #[arg(long = "door", value_name = "NAME=ADDRESS:PORT", value_parser = door)]
    doors: Vec<(String, SocketAddr)>,
    /// The folder of the hosts' key files (`HOST.key`, mode 0600)
    #[arg(long, value_name = "FOLDER")]
    keys: PathBuf,
}

/// Arguments of `rtwire deploy`.
#[derive(Args)]
pub(crate) struct DeployArguments {
    #[command(flatten)]
    hosts: HostArguments,
    #[command(flatten)]
    switches: NamedSwitches,
    /// The time after which each puts its settings back, unless all have applied the plan by then
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    confirm_within: Duration,
    /// Show what would change on each of them, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `rtwire check`.
#[derive(Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    hosts: HostArguments,
    #[command(flatten)]
    switches: NamedSwitches,
}

/// Arguments of `rtwire prove`.
#[derive(Args)]
pub(crate) struct ProveArguments {
    #[command(flatten)]
    hosts: HostArguments,
    #[command(flatten)]
    switches: NamedSwitches,
    /// The duration of the run
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    duration: Duration,
    /// Keep each host's evidence in this folder, and what each switch counted
    #[arg(long, value_name = "FOLDER")]
    evidence: PathBuf,
    /// Write the report to this file (HTML), and its data beside it (.json)
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

fn door(text: &str) -> Result<(String, SocketAddr), String> {
    let form = || "expected NAME=ADDRESS:PORT, for instance press=10.0.0.1:4434".to_owned();
    let (name, address) = text.split_once('=').ok_or_else(form)?;
    Ok((name.to_owned(), address.parse().map_err(|_| form())?))
}

fn ended(verb: &str, done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("rtwire {verb}: {message}");
            ExitCode::from(code)
        }
    }
}

fn failed(error: &DeployError) -> Failure {
    let code = match error {
        DeployError::Key(_) => FAULTY,
        _ => LACKING,
    };
    (code, error.to_string())
}

/// Opens this host's door.
pub(crate) fn open_door(arguments: &DoorArguments) -> ExitCode {
    ended("door", opened(arguments))
}

fn opened(arguments: &DoorArguments) -> Result<(), Failure> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let stop = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
    let settings = DoorSettings {
        host: arguments.host.clone(),
        interface: arguments.interface.clone(),
        key: arguments.key.clone(),
        listen: arguments.listen,
        state: arguments.state.clone(),
        apply_with: words(&arguments.apply_with),
        run_with: words(&arguments.run_with),
        program: std::env::current_exe().map_err(|error| (LACKING, error.to_string()))?,
    };
    let tell = |told: Told| match told {
        Told::Ready(address) => eprintln!("rtwire door: open at {address}"),
        Told::Stranger(from) => eprintln!("rtwire door: {from} does not have the key of this host"),
        Told::Done(order, code) => eprintln!("rtwire door: {order}: {code}"),
        _ => {}
    };
    let door = Door::open(settings).map_err(|error| failed(&error))?;
    door.run(stop, &tell).map_err(|error| failed(&error))
}

/// A host at the other end of a line.
struct AtDoor {
    remote: Remote,
    attached: Vec<u8>,
}

impl Host for AtDoor {
    fn ask(&mut self, order: &Order) -> Result<Reply, String> {
        let lasts = match order {
            Order::Run { duration_ms, .. } => Duration::from_millis(*duration_ms),
            _ => Duration::ZERO,
        };
        let asked = self.remote.ask(order, lasts + REPLY_WITHIN);
        let (reply, attached) = asked.map_err(|error| error.to_string())?;
        self.attached = attached;
        Ok(reply)
    }
}

/// A host or a switch of a deployment.
enum Party {
    Host(AtDoor),
    Switch(AtSwitch),
}

impl Host for Party {
    fn ask(&mut self, order: &Order) -> Result<Reply, String> {
        match self {
            Party::Host(host) => host.ask(order),
            Party::Switch(switch) => switch.ask(order),
        }
    }
}

/// All that one plan goes to: hosts first.
type Parties = Vec<(String, Party)>;

/// Reads the plan, connects to all its hosts, and adds the switches that are named.
fn gathered(
    arguments: &HostArguments,
    switches: &NamedSwitches,
) -> Result<(String, Parties), Failure> {
    let (text, plan) = read(&arguments.plan)?;
    let alone = switches.left_alone(&plan);
    if !alone.is_empty() {
        eprintln!("left alone, without --switch: {}", alone.join(", "));
    }
    let switches = switches.of(&plan).map_err(|message| (FAULTY, message))?;
    let hosts = connected(arguments, &plan)?;
    let hosts = hosts
        .into_iter()
        .map(|(name, host)| (name, Party::Host(host)));
    let switches = switches
        .into_iter()
        .map(|(name, switch)| (name, Party::Switch(switch)));
    Ok((text, hosts.chain(switches).collect()))
}

/// Reads a plan, and returns its text, too.
fn read(path: &Path) -> Result<(String, Plan), Failure> {
    let file = path.display().to_string();
    let bytes = input::bytes_of(path).map_err(|message| (FAULTY, message))?;
    let plan = plan_file::read(&bytes, &file).map_err(|fault| (FAULTY, fault.to_string()))?;
    if let Some(finding) = verify(&plan).first() {
        let message = format!("{file}: {finding}; `rtwire verify` lists all of it");
        return Err((REFUSED, message));
    }
    let text = String::from_utf8(bytes).map_err(|error| (FAULTY, format!("{file}: {error}")))?;
    Ok((text, plan))
}

/// Connects to all hosts of the plan.
fn connected(arguments: &HostArguments, plan: &Plan) -> Result<Vec<(String, AtDoor)>, Failure> {
    each_once(plan, &arguments.doors).map_err(|message| (FAULTY, message))?;
    let mut hosts = Vec::new();
    for (name, address) in &arguments.doors {
        let key = read_key(&key_path(&arguments.keys, name));
        let key = key.map_err(|error| (FAULTY, error.to_string()))?;
        let remote = Remote::connect(name, *address, key).map_err(|error| failed(&error))?;
        let attached = Vec::new();
        hosts.push((name.clone(), AtDoor { remote, attached }));
    }
    Ok(hosts)
}

/// Refuses doors that are not one for each host of the plan.
fn each_once(plan: &Plan, doors: &[(String, SocketAddr)]) -> Result<(), String> {
    let hosts = &plan.network.hosts;
    for (at, (name, _)) in doors.iter().enumerate() {
        if !hosts.iter().any(|host| host.name == *name) {
            let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            return Err(format!(
                "--door {name}: the plan has no such host; it has {}",
                names.join(", ")
            ));
        }
        if doors[..at].iter().any(|(other, _)| other == name) {
            return Err(format!("--door {name}: the host has another door already"));
        }
    }
    let missing = hosts
        .iter()
        .find(|host| !doors.iter().any(|(name, _)| *name == host.name));
    missing.map_or(Ok(()), |host| {
        let name = &host.name;
        Err(format!(
            "host \"{name}\" has no door: add `--door {name}=ADDRESS:PORT`"
        ))
    })
}

/// Returns what all hosts said, host by host.
fn said(asked: &Asked) -> String {
    let mut text = String::new();
    for (host, reply) in asked {
        let words = match reply {
            Ok(reply) => reply.text.clone(),
            Err(reason) => format!("no reply: {reason}"),
        };
        for line in words.lines() {
            let _ = writeln!(text, "{host}: {line}");
        }
    }
    text
}

/// Names the hosts whose reply is not 0.
fn not_done(asked: &Asked) -> String {
    let not = asked
        .iter()
        .filter(|(_, reply)| !reply.as_ref().is_ok_and(|reply| reply.code == 0));
    let names: Vec<&str> = not.map(|(name, _)| name.as_str()).collect();
    names.join(", ")
}

/// Brings a plan to all hosts.
pub(crate) fn deploy_plan(arguments: &DeployArguments) -> ExitCode {
    ended("deploy", deployed(arguments))
}

fn deployed(arguments: &DeployArguments) -> Result<(), Failure> {
    let (plan, mut hosts) = gathered(&arguments.hosts, &arguments.switches)?;
    if arguments.dry_run {
        let shown = ask_all(&mut hosts, &Order::Show { plan });
        output::print(&said(&shown));
        let not = not_done(&shown);
        return match not.is_empty() {
            true => Ok(()),
            false => Err((REFUSED, format!("{not} cannot have this plan"))),
        };
    }
    let seconds = nanoseconds(arguments.confirm_within)
        .div_ceil(1_000_000_000)
        .max(1);
    let within_s = u32::try_from(seconds).unwrap_or(u32::MAX);
    let mut at_fault = (String::new(), String::new());
    let outcome = deploy(&mut hosts, &plan, within_s, &mut |step, asked| {
        output::line(&format!("{step}:"));
        output::print(&said(asked));
        let not = not_done(asked);
        if !not.is_empty() {
            at_fault = (step.to_owned(), not);
        }
    });
    let (step, names) = at_fault;
    let has_switches = hosts
        .iter()
        .any(|(_, party)| matches!(party, Party::Switch(_)));
    let (nobody, each) = match has_switches {
        true => ("nobody", "each of them"),
        false => ("no host", "each host"),
    };
    match outcome {
        Outcome::Deployed => {
            output::line(&format!("deployed on {}", counted(&hosts)));
            Ok(())
        }
        Outcome::Refused => Err((
            REFUSED,
            format!("{names} cannot have this plan; {nobody} has changed anything"),
        )),
        Outcome::PutBack => Err((
            REFUSED,
            format!("{names} did not {step}; {each} puts its settings back within {within_s} s"),
        )),
        Outcome::Partly => Err((
            REFUSED,
            format!(
                "{names} may have put the settings back, the others keep them: `rtwire check` names the difference, and the same \
                 deployment once more ends it"
            ),
        )),
    }
}

/// Counts hosts and switches.
fn counted(parties: &Parties) -> String {
    let hosts = parties
        .iter()
        .filter(|(_, party)| matches!(party, Party::Host(_)))
        .count();
    match parties.len() - hosts {
        0 => format!("{hosts} hosts"),
        1 => format!("{hosts} hosts and 1 switch"),
        switches => format!("{hosts} hosts and {switches} switches"),
    }
}

/// Names each host and switch that differs from the plan.
pub(crate) fn check(arguments: &CheckArguments) -> ExitCode {
    ended("check", checked(arguments))
}

fn checked(arguments: &CheckArguments) -> Result<(), Failure> {
    let (plan, mut hosts) = gathered(&arguments.hosts, &arguments.switches)?;
    let asked = ask_all(&mut hosts, &Order::Check { plan });
    output::print(&said(&asked));
    let not = not_done(&asked);
    match not.is_empty() {
        true => Ok(()),
        false => Err((REFUSED, format!("not as planned: {not}"))),
    }
}
