//! `rtwire manager`: the manager of a running network, and the key files of its hosts.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand};
use rtwire_agent::{AgentClient, ClientError};
use rtwire_manager::{Quotas, ShareRules};
use rtwire_managerd::{
    EtcdAddress, ManagerdError, Service, ServiceSettings, Told, make_key, plan_path,
};
use rtwire_plan::{Finding, Plan, plan_file, verify};
use rtwire_sys::signal;

use crate::agent_command::client_code;
use crate::arguments::{nanoseconds, parse_duration};
use crate::{input, output};

/// The plan's streams do not fit the budgets.
const REFUSED: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The host lacks something.
const LACKING: u8 = 3;
/// The real-time priority of the thread that answers: that of the agents' questions, below every stream's.
const PRIORITY: u8 = 10;

/// Arguments of `rtwire manager`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ManagerArguments {
    #[command(subcommand)]
    command: Option<KeyCommand>,
    #[command(flatten)]
    run: Option<RunArguments>,
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Make a key file for each of these hosts; none may be there already
    Keygen(KeyArguments),
    /// Replace the key files of these hosts; a running manager reads them within a second
    Rekey(KeyArguments),
}

#[derive(Args)]
struct KeyArguments {
    /// The folder of the key files
    folder: PathBuf,
    /// The hosts, as the plan names them
    #[arg(required = true)]
    hosts: Vec<String>,
}

#[derive(Args)]
struct RunArguments {
    /// The plan (JSON, from `rtwire plan --output`)
    plan: PathBuf,
    /// The folder of `plan.json`, the plan of the newest epoch; and of the store, unless `--store` names another
    #[arg(long, value_name = "FOLDER")]
    state: PathBuf,
    /// Keep the store in this etcd. One manager of it leads; the others stand by and take over when it ends. PREFIX is
    /// `rtwire` by default; networks that share an etcd have different ones
    #[arg(long, value_name = "etcd://HOST:PORT,HOST:PORT/PREFIX")]
    store: Option<EtcdAddress>,
    /// The time for which a leader that died keeps the others waiting, 2s to 60s
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = lease, requires = "store")]
    lease: u32,
    /// The folder of the hosts' key files (`HOST.key`, mode 0600)
    #[arg(long, value_name = "FOLDER")]
    keys: PathBuf,
    /// The address and UDP port to answer at
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The socket of this host's agent: the manager's answers leave in its control class
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// The longest time that a priority may take at a switch's port, for example `5=2ms`; may be repeated. A host's port has a
    /// quarter. By default 16 ms for priorities 0 and 1, 8 ms for 2 to 5, 4 ms for 6 and 7
    #[arg(long, value_name = "PRIORITY=DURATION", value_parser = budget)]
    budget: Vec<(u8, u64)>,
    /// The lifetime of a one-shot reservation, 10 ms to 10 s
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = lifetime)]
    lifetime: Duration,
    /// The largest number of connections that each host sends
    #[arg(long, value_name = "COUNT", default_value_t = Quotas::default().connections)]
    connections_per_host: u32,
    /// The largest sum of the rates of each host's connections, on the wire; without it only the links limit it
    #[arg(long, value_name = "RATE", value_parser = crate::arguments::parse_rate)]
    rate_per_host: Option<u64>,
    /// The requests that each host may make in a second, over time
    #[arg(long, value_name = "COUNT", default_value_t = Quotas::default().requests_per_second,
        value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_second: u32,
    /// Write what was done so far to this file (JSON) once a second, for programs that watch
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
}

fn budget(text: &str) -> Result<(u8, u64), String> {
    let (priority, time) = crate::arguments::key_and_value(text)
        .map_err(|_| "expected PRIORITY=DURATION, for instance 5=2ms".to_owned())?;
    let priority = priority.parse::<u8>().ok().filter(|pcp| *pcp <= 7);
    let priority = priority.ok_or_else(|| "a priority is 0 to 7".to_owned())?;
    Ok((priority, nanoseconds(parse_duration(&time)?)))
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let within = Duration::from_millis(10)..=Duration::from_secs(10);
    match parse_duration(text)? {
        time if within.contains(&time) => Ok(time),
        _ => Err("a one-shot reservation lives for 10ms to 10s".to_owned()),
    }
}

fn lease(text: &str) -> Result<u32, String> {
    let time = parse_duration(text)?;
    let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    match seconds {
        2..=60 if time.subsec_nanos() == 0 => Ok(seconds),
        _ => Err("a lease is 2s to 60s, in whole seconds".to_owned()),
    }
}

/// Runs the manager, or writes key files.
pub(crate) fn run(arguments: &ManagerArguments) -> ExitCode {
    match (&arguments.command, &arguments.run) {
        (Some(KeyCommand::Keygen(keys)), _) => write_keys(keys, false),
        (Some(KeyCommand::Rekey(keys)), _) => write_keys(keys, true),
        (None, Some(run)) => serve(run),
        (None, None) => ExitCode::from(FAULTY),
    }
}

fn write_keys(arguments: &KeyArguments, replace: bool) -> ExitCode {
    for host in &arguments.hosts {
        match make_key(&arguments.folder, host, replace) {
            Ok(path) => output::line(&path.display().to_string()),
            Err(error) => {
                let hint = match &error {
                    ManagerdError::File { error, .. }
                        if error.kind() == std::io::ErrorKind::AlreadyExists =>
                    {
                        "; `rtwire manager rekey` replaces a key"
                    }
                    _ => "",
                };
                eprintln!("rtwire manager: {error}{hint}");
                return ExitCode::from(FAULTY);
            }
        }
    }
    ExitCode::SUCCESS
}

fn serve(arguments: &RunArguments) -> ExitCode {
    match served(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("rtwire manager: {message}");
            ExitCode::from(code)
        }
    }
}

/// Returns the exit code of an error.
pub(crate) fn code_of(error: &ManagerdError) -> u8 {
    match error {
        ManagerdError::Manager(_) => REFUSED,
        ManagerdError::Socket { .. }
        | ManagerdError::Store { .. }
        | ManagerdError::Etcd { .. }
        | ManagerdError::NoLongerLeads { .. } => LACKING,
        _ => FAULTY,
    }
}

fn served(arguments: &RunArguments) -> Result<(), (u8, String)> {
    let file = arguments.plan.display().to_string();
    let bytes = input::bytes_of(&arguments.plan).map_err(|message| (FAULTY, message))?;
    let plan = plan_file::read(&bytes, &file).map_err(|fault| (FAULTY, fault.to_string()))?;
    // What the manager promises rests on what the plan promises.
    if let Some(finding) = verify(&plan).first() {
        let finding: &Finding = finding;
        let message = format!("{file}: {finding}; `rtwire verify` lists all of it");
        return Err((REFUSED, message));
    }
    let why = "the manager finds one way from a host";
    plan.network
        .without_routers("the manager admits connections over switches only")
        .and_then(|()| plan.network.without_several_links(None, why))
        .map_err(|message| (FAULTY, format!("{file}: {message}")))?;
    let mut widest_ns = [16, 16, 8, 8, 8, 8, 4, 4].map(|ms| ms * 1_000_000_u64);
    for (priority, ns) in &arguments.budget {
        if let Some(widest) = widest_ns.get_mut(usize::from(*priority)) {
            *widest = *ns;
        }
    }
    let lifetime_us = u32::try_from(arguments.lifetime.as_micros()).unwrap_or(u32::MAX);
    let settings = ServiceSettings {
        state: arguments.state.clone(),
        etcd: arguments.store.clone(),
        lease_s: arguments.lease,
        keys: arguments.keys.clone(),
        listen: arguments.listen,
        widest_ns,
        budgets_stated: !arguments.budget.is_empty(),
        quotas: Quotas {
            connections: arguments.connections_per_host,
            rate_bytes_per_ms: arguments
                .rate_per_host
                .map_or(u64::MAX, |rate| rate / 8_000),
            requests_per_second: arguments.requests_per_second,
            requests_at_once: (arguments.requests_per_second / 2).max(1),
        },
        shares: ShareRules {
            lifetime_us,
            ..ShareRules::default()
        },
        status: arguments.status.clone(),
    };
    let stop = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
    let mut keep_going = || !stop.load(Ordering::Relaxed);
    let plan = Arc::new(plan);
    loop {
        match managed(&plan, &settings, arguments, &mut keep_going) {
            // It may lead again later; until then it stands by.
            Err(Ended::Manager(error @ ManagerdError::NoLongerLeads { .. })) if keep_going() => {
                eprintln!("rtwire manager: {error}; it stands by");
            }
            Err(Ended::Manager(error)) => return Err((code_of(&error), error.to_string())),
            Err(Ended::Agent(error)) => return Err((client_code(&error), error.to_string())),
            Ok(()) => return Ok(()),
        }
    }
}

/// The reason why a manager ended.
enum Ended {
    Manager(ManagerdError),
    Agent(ClientError),
}

impl From<ManagerdError> for Ended {
    fn from(error: ManagerdError) -> Ended {
        Ended::Manager(error)
    }
}

/// Runs a manager from its start, or from the moment at which it leads, to its end.
fn managed(
    plan: &Arc<Plan>,
    settings: &ServiceSettings,
    arguments: &RunArguments,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<(), Ended> {
    let newest = plan_path(&arguments.state);
    let mut tell = |told: Told| match told {
        Told::Ready {
            address,
            connections,
            epoch,
        } => eprintln!(
            "rtwire manager: ready at {address}: epoch {epoch}, {connections} connections; the newest plan: {}",
            newest.display()
        ),
        Told::StandsBy { leader } => {
            eprintln!("rtwire manager: stands by: the manager at {leader} leads");
        }
        Told::Distrusted { source, why, count } => eprintln!(
            "rtwire manager: {} message from {source}: not believed, {count} so far",
            why.word()
        ),
        Told::Rekeyed => eprintln!("rtwire manager: the key files were read again"),
        Told::Trouble(message) => eprintln!("rtwire manager: {message}"),
        _ => {}
    };
    let opened = Service::open(Arc::clone(plan), settings, keep_going, &mut tell)?;
    let Some(mut service) = opened else {
        output::line("manager ended: it stood by");
        return Ok(());
    };
    if let Some(path) = &arguments.agent {
        // The agent forgets it when it ends; so the manager is told of it anew by whoever starts both.
        let asked = AgentClient::connect(path).and_then(|mut agent| agent.control(service.as_fd()));
        asked.map_err(Ended::Agent)?;
    }
    // This thread answers, all others exist by now. Beside busy programs of its host it would answer too late: one-shot
    // reservations end before the next one is there. Where the kernel refuses the priority, it is only less punctual.
    let _ = rtwire_sys::sched::set_fifo(PRIORITY);
    let ended = service.run(keep_going, &mut tell);
    let counts = service.counts();
    let refused: u64 = counts.refused.values().sum();
    let distrusted: u64 = counts.distrusted.values().sum();
    output::line(&format!(
        "manager ended: {} granted, {} released, {} one-shot reservations, {refused} refused, {distrusted} messages not believed",
        counts.granted, counts.released, counts.shared
    ));
    Ok(ended?)
}
