//! `rtwire agent`: the trusted part of a host.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use rtwire_agent::{ClientError, DEFAULT_SOCKET};
use rtwire_agentd::{Agent, AgentError, AgentSettings, Told, group_number, remove};
use rtwire_plan::{plan_file, verify};
use rtwire_sys::signal;

use crate::manager_command::code_of;
use crate::{input, output};

/// The plan's promises do not hold.
const REFUSED: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The host lacks something.
const LACKING: u8 = 3;

/// Arguments of `rtwire agent`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AgentArguments {
    #[command(subcommand)]
    command: Option<AgentAction>,
    #[command(flatten)]
    run: Option<RunArguments>,
}

#[derive(Subcommand)]
enum AgentAction {
    /// Take the limits of an ended agent away: the interface sends as it likes
    Remove {
        /// The interface
        interface: String,
    },
}

#[derive(Args)]
struct RunArguments {
    /// The plan (JSON, from `rtwire plan --output`)
    plan: PathBuf,
    /// This host, as the plan names it
    #[arg(long, value_name = "NAME")]
    host: String,
    /// Its interface to the network
    #[arg(long, value_name = "INTERFACE")]
    interface: String,
    /// The manager's address and UDP port; with managers that stand by, all of them with commas in between
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        value_delimiter = ',',
        required = true
    )]
    manager: Vec<SocketAddr>,
    /// The key file of this host (mode 0600)
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The IPv4 address of another host; may be repeated
    #[arg(long = "peer", value_name = "NAME=ADDRESS", value_parser = peer)]
    peers: Vec<(String, Ipv4Addr)>,
    /// The socket at which programs ask for channels
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// The group whose members may use the socket, by name or number; otherwise only root
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Write what was done so far to this file (JSON) once a second, for programs that watch
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Ask for one-shot reservations behind the best effort that waits, to see what the way of their own is worth
    #[arg(long, hide = true)]
    questions_in_band: bool,
}

fn peer(text: &str) -> Result<(String, Ipv4Addr), String> {
    let form = || "expected NAME=ADDRESS, for instance office=10.0.0.5".to_owned();
    let (name, address) = text.split_once('=').ok_or_else(form)?;
    let address = address.parse().map_err(|_| form())?;
    Ok((name.to_owned(), address))
}

/// Runs the agent, or takes its limits away.
pub(crate) fn run(arguments: &AgentArguments) -> ExitCode {
    let done = match (&arguments.command, &arguments.run) {
        (Some(AgentAction::Remove { interface }), _) => removed(interface),
        (None, Some(run)) => served(run),
        (None, None) => return ExitCode::from(FAULTY),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("rtwire agent: {message}");
            ExitCode::from(code)
        }
    }
}

/// Returns the exit code of an error.
fn code(error: &AgentError) -> u8 {
    match error {
        AgentError::NoHost { .. }
        | AgentError::NoBestEffort { .. }
        | AgentError::Scheduled { .. }
        | AgentError::SmallBurst { .. }
        | AgentError::NoGroup { .. } => FAULTY,
        AgentError::Manager(error) => code_of(error),
        _ => LACKING,
    }
}

/// Returns the exit code of an error of a program's connection to the agent.
pub(crate) fn client_code(error: &ClientError) -> u8 {
    match error {
        ClientError::Refused { .. } => REFUSED,
        _ => LACKING,
    }
}

fn failed(error: &AgentError) -> (u8, String) {
    (code(error), error.to_string())
}

fn removed(interface: &str) -> Result<(), (u8, String)> {
    let text = match remove(interface).map_err(|error| failed(&error))? {
        true => "no longer limited by an agent",
        false => "not limited by an agent: nothing is changed",
    };
    output::line(&format!("{interface}: {text}"));
    Ok(())
}

fn served(arguments: &RunArguments) -> Result<(), (u8, String)> {
    let file = arguments.plan.display().to_string();
    let bytes = input::bytes_of(&arguments.plan).map_err(|message| (FAULTY, message))?;
    let plan = plan_file::read(&bytes, &file).map_err(|fault| (FAULTY, fault.to_string()))?;
    if let Some(finding) = verify(&plan).first() {
        let message = format!("{file}: {finding}; `rtwire verify` lists all of it");
        return Err((REFUSED, message));
    }
    let group = arguments.group.as_deref().map(group_number).transpose();
    let settings = AgentSettings {
        host: arguments.host.clone(),
        interface: arguments.interface.clone(),
        managers: arguments.manager.clone(),
        key: arguments.key.clone(),
        peers: arguments.peers.clone(),
        socket: arguments.socket.clone(),
        group: group.map_err(|error| failed(&error))?,
        status: arguments.status.clone(),
        questions_in_band: arguments.questions_in_band,
    };
    let stop = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
    let socket = arguments.socket.display().to_string();
    let name = arguments.interface.clone();
    let tell = move |told: Told| match told {
        Told::Ready { peers, streams } => eprintln!(
            "rtwire agent: ready at {socket}: {name} is limited to its share of the plan ({streams} streams, best effort to {peers} peers)"
        ),
        Told::Granted {
            connection,
            uid,
            pid,
        } => eprintln!("rtwire agent: connection {connection} for process {pid} of user {uid}"),
        Told::Refused { uid, pid, why } => {
            eprintln!("rtwire agent: refused to process {pid} of user {uid}: {why}");
        }
        Told::Released { connection } => {
            eprintln!("rtwire agent: connection {connection} is released");
        }
        Told::Lost { connection } => eprintln!(
            "rtwire agent: the manager no longer has connection {connection}: its channel is closed"
        ),
        Told::Opened {
            end,
            stream,
            uid,
            pid,
        } => {
            eprintln!("rtwire agent: {end} of stream \"{stream}\" for process {pid} of user {uid}")
        }
        Told::Closed { end, stream } => {
            eprintln!("rtwire agent: {end} of stream \"{stream}\" is given back");
        }
        Told::Trouble(message) => eprintln!("rtwire agent: {message}"),
        _ => {}
    };
    let agent = Agent::open(&plan, &settings, Box::new(tell)).map_err(|error| failed(&error))?;
    let totals = agent.run(stop).map_err(|error| failed(&error))?;
    output::line(&format!(
        "agent ended: {} one-shot reservations, {} refused, {} without answer; {} frames dropped as unsegmented. {} stays limited: `rtwire agent remove {}` ends that",
        totals.shares_granted,
        totals.shares_refused,
        totals.shares_unanswered,
        totals.unsegmented,
        arguments.interface,
        arguments.interface,
    ));
    Ok(())
}

/// Returns true if the reason is that the manager did not answer.
pub(crate) fn is_silence(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { reason, .. } if reason == "silent")
}
