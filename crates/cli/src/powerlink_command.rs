//! `rtwire powerlink …`: managing and controlled nodes, and requests to a network.

mod alone;
mod ask;
mod by_udp;
mod control;
mod listen;
mod live;
mod monitor;
mod scan;
mod value;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use rtwire_powerlink_station::driver::StationPath;
use rtwire_powerlink_station::{Handle, Project, Station, StationError};
use rtwire_sys::{memory, signal};

use crate::powerlink_check;

/// A limit or promise was not kept, or the network refused.
const REFUSED: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The host lacks something.
const LACKING: u8 = 3;

/// The time between checks whether a running station is to end.
const LOOK: Duration = Duration::from_millis(100);

/// An exit code and a message.
type Failure = (u8, String);

/// Arguments of `rtwire powerlink`.
#[derive(Args)]
pub(crate) struct PowerlinkArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explain a configuration (CDC) or a device description (XDD, XDC) in words, and name its faults
    Check(powerlink_check::CheckArguments),
    /// Run the managing node that a project file describes
    Mn(RunArguments),
    /// Run a controlled node that a project file describes
    Cn(RunArguments),
    /// Ask every node number for its identity (without a managing node on the network; otherwise through the one that
    /// runs here)
    Scan(scan::ScanArguments),
    /// Watch a network: nodes, states, cycle, answers
    Monitor(monitor::MonitorArguments),
    /// Read or write objects of a node, through the station that runs on this interface, or by UDP
    Sdo(ask::SdoArguments),
    /// Send an NMT command to a node, through the station that runs on this interface; alone if there is no managing
    /// node
    Nmt(ask::NmtArguments),
}

/// Arguments of `mn` and `cn`.
#[derive(Args)]
struct RunArguments {
    /// The project file, TOML
    file: PathBuf,
    /// Stop after this time; without it, at Ctrl-C
    #[arg(long, value_parser = crate::arguments::parse_duration)]
    duration: Option<Duration>,
    /// The path of the isochronous phase, in place of the project file's: the driver or user space (auto), user space (user),
    /// the driver (driver), the driver in native mode (native), or the kernel module `uman`
    #[arg(long, value_name = "PATH", value_parser = station_path())]
    path: Option<StationPath>,
    /// Print the state as JSON, one object in a line (its schema: `rtwire schema powerlink`)
    #[arg(long)]
    json: bool,
    /// The time between displays of the state
    #[arg(long, default_value = "1s", value_parser = crate::arguments::parse_duration)]
    every: Duration,
}

/// Runs `rtwire powerlink`.
pub(crate) fn run(arguments: &PowerlinkArguments) -> ExitCode {
    let done = match &arguments.command {
        Command::Check(check) => return powerlink_check::run(check),
        Command::Mn(run) => station(run, true),
        Command::Cn(run) => station(run, false),
        Command::Scan(scan) => scan::run(scan),
        Command::Monitor(monitor) => monitor::run(monitor),
        Command::Sdo(sdo) => ask::sdo(sdo),
        Command::Nmt(nmt) => ask::nmt(nmt),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("rtwire powerlink: {message}");
            ExitCode::from(code)
        }
    }
}

fn failure(error: &StationError) -> Failure {
    let code = if error.is_usage() { FAULTY } else { LACKING };
    (code, error.to_string())
}

/// Returns the parser of a path's name.
fn station_path() -> impl TypedValueParser<Value = StationPath> {
    let names = StationPath::ALL.map(StationPath::name);
    PossibleValuesParser::new(names).map(|name| {
        let named = StationPath::ALL
            .into_iter()
            .find(|path| path.name() == name);
        named.unwrap_or_default()
    })
}

fn station(arguments: &RunArguments, managing: bool) -> Result<(), Failure> {
    // A station runs for months: what only its start needs does not stay in memory.
    memory::unmap_used_code();
    let mut project = Project::read(&arguments.file).map_err(|error| failure(&error))?;
    if let Some(path) = arguments.path {
        project.station_path = path;
    }
    let stop = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
    let opened = if managing {
        Station::managing(&project)
    } else {
        Station::controlled(&project)
    };
    let mut station = opened.map_err(|error| failure(&error))?;
    memory::unmap_used_code();
    eprintln!(
        "node {} on {}: isochronous phase {}",
        project.node,
        project.interface,
        station.path()
    );
    let handle = station.handle();
    let control = control::Server::start(&project.interface, handle.clone())?;
    let ended = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        let loops = scope.spawn(|| {
            let result = station.run(stop, |_| {});
            ended.store(true, Ordering::Relaxed);
            result
        });
        let took = show(arguments, &handle, stop, &ended);
        (loops.join(), took)
    });
    drop(control);
    match result {
        (Ok(Ok(())), Some(took)) => interrupted(took, arguments.duration),
        (Ok(result), _) => result.map_err(|error| failure(&error)),
        // A panic of the loop has reported itself already.
        (Err(_), _) => Err((
            LACKING,
            "the real-time loop has ended by a fault of its own".to_owned(),
        )),
    }
}

/// Says that a run was interrupted. One that was to last longer is an error.
fn interrupted(took: Duration, planned: Option<Duration>) -> Result<(), Failure> {
    let done = crate::interrupted::time(took, planned);
    if planned.is_some() {
        let code = crate::interrupted::code(0, true);
        return Err((code, crate::interrupted::sentence(&done)));
    }
    crate::interrupted::say(&done);
    Ok(())
}

/// Shows the state until the end. Returns the time until it was interrupted, if it was. A station goes on where its
/// state cannot be written: what it controls must not stop for that.
fn show(
    arguments: &RunArguments,
    handle: &Handle,
    stop: &AtomicBool,
    ended: &AtomicBool,
) -> Option<Duration> {
    let begun = std::time::Instant::now();
    let mut screen = live::Screen::new(arguments.json);
    let mut next = Duration::ZERO;
    let over = || stop.load(Ordering::Relaxed) || ended.load(Ordering::Relaxed);
    let mut complete = false;
    while !over() {
        complete = arguments
            .duration
            .is_some_and(|duration| begun.elapsed() >= duration);
        if complete {
            stop.store(true, Ordering::Relaxed);
            break;
        }
        if begun.elapsed() >= next {
            next = begun.elapsed() + arguments.every;
            if let Some(status) = handle.status(Duration::from_millis(300)) {
                screen.show(&status);
            }
        }
        // Each look wakes a processor that a real-time loop may sleep on.
        let wait = next.saturating_sub(begun.elapsed());
        thread::sleep(wait.clamp(Duration::from_millis(5), LOOK));
    }
    let cut = !complete && stop.load(Ordering::Relaxed);
    let took = cut.then(|| begun.elapsed());
    if let Some(status) = handle.last_status() {
        screen.last(&status);
    }
    took
}
