//! `rtwire doctor`: can this host keep a deadline?

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rtwire_host::HostError;
use rtwire_host::apply;
use rtwire_host::change::{self, Leftover, Progress};
use rtwire_host::doctor::{self, Examination, Facts};
use rtwire_host::netlink::Netlink;
use rtwire_sys::signal;

use crate::arguments::parse_duration;
use crate::doctor_measure::{self, LoadArgument, MeasureOptions};
use crate::{doctor_table, input, output};

/// A fact can break a deadline.
const ENDANGERED: u8 = 1;
/// Wrong usage: there is no such interface.
const FAULTY: u8 = 2;
/// The host lacks something.
const LACKING: u8 = 3;

/// Arguments of `rtwire doctor`.
#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// The interface for real-time traffic; without it only the machine is examined
    interface: Option<String>,
    /// Follow each stream that this host sends through the queues of INTERFACE: its class, its gates, what is on its way
    #[arg(long, value_name = "FILE", requires_all = ["interface", "host"])]
    plan: Option<PathBuf>,
    /// The host of the plan that this machine is
    #[arg(long, value_name = "NAME", requires = "plan")]
    host: Option<String>,
    /// Print JSON (its schema: `rtwire schema doctor`)
    #[arg(long)]
    json: bool,
    /// Also show the facts that are as they should be
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Make the safe changes, keep a record of them, and examine again; `rtwire revert` puts them back
    #[arg(long)]
    fix: bool,
    /// Measure the delays of wake-ups, sent frames and received frames, on a cable of the machine's own and on INTERFACE;
    /// INTERFACE sends 1000 small frames a second to itself
    #[arg(long)]
    measure: bool,
    /// The duration of each part of the measurement
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, requires = "measure")]
    duration: Duration,
    /// The load in further parts of the measurement, beside the idle ones
    #[arg(long, value_enum, default_value = "all", requires = "measure")]
    load: LoadArgument,
}

/// Examines, makes changes if asked, and prints.
pub(crate) fn run(arguments: &DoctorArguments) -> ExitCode {
    let mut facts = match Facts::gather(arguments.interface.as_deref()) {
        Ok(facts) => facts,
        Err(error) => return failed(&error),
    };
    let mut examination = doctor::examine(&facts);
    let mut fixed = Ok(());
    if arguments.fix {
        fixed = fix(&examination, !arguments.json);
        match Facts::gather(arguments.interface.as_deref()) {
            Ok(again) => facts = again,
            Err(error) => return failed(&error),
        }
        examination = doctor::examine(&facts);
    }
    if let Err((message, code)) = follow(arguments, &mut examination) {
        eprintln!("rtwire doctor: {message}");
        return ExitCode::from(code);
    }
    let mut broken_off = None;
    if arguments.measure {
        let stop = match signal::install_stop_flag() {
            Ok(stop) => stop,
            Err(error) => {
                eprintln!("rtwire doctor: {error}");
                return ExitCode::from(LACKING);
            }
        };
        let options = MeasureOptions {
            duration: arguments.duration,
            load: arguments.load,
            progress: std::io::stderr().is_terminal(),
        };
        let measured = doctor_measure::measure(&options, &facts, stop);
        examination.measured(measured.measurements, measured.verified);
        broken_off = measured.fault;
    }
    if arguments.json {
        match serde_json::to_string_pretty(&examination) {
            Ok(text) => output::print(&(text + "\n")),
            Err(error) => eprintln!("rtwire doctor: {error}"),
        }
    } else {
        output::print(&doctor_table::table(&examination, arguments.all));
    }
    for left in Leftover::list(&change::default_directory()) {
        eprintln!("rtwire doctor: {left}");
    }
    match fixed.and(broken_off.map_or(Ok(()), Err)) {
        Err(message) => {
            eprintln!("rtwire doctor: {message}");
            ExitCode::from(LACKING)
        }
        Ok(()) if examination.ready => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(ENDANGERED),
    }
}

/// Adds what becomes of the plan's streams in the queues of the interface.
fn follow(arguments: &DoctorArguments, examination: &mut Examination) -> Result<(), (String, u8)> {
    let (Some(file), Some(host), Some(interface)) =
        (&arguments.plan, &arguments.host, &arguments.interface)
    else {
        return Ok(());
    };
    let plan = input::plan_without_redundancy(file, &[], false)
        .map_err(|(code, message)| (message, code))?;
    let share = apply::share(&plan.network, &plan, host)
        .map_err(|error| (format!("{}: {error}", file.display()), FAULTY))?;
    let lacking = |error: HostError| (error.to_string(), LACKING);
    let mut netlink = Netlink::new();
    let Some(link) = netlink.link(interface).map_err(lacking)? else {
        return Ok(());
    };
    let tree = netlink.tree(link.index).map_err(lacking)?;
    let vlans = doctor::vlan_links(&mut netlink, link.index).map_err(lacking)?;
    let findings = doctor::follow(&share, interface, link.mtu, &tree, &vlans);
    examination.followed(findings);
    Ok(())
}

fn failed(error: &HostError) -> ExitCode {
    eprintln!("rtwire doctor: {error}");
    ExitCode::from(match error {
        HostError::NoInterface { .. } | HostError::InterfaceName(_) => FAULTY,
        _ => LACKING,
    })
}

/// Makes the safe changes and prints each.
fn fix(examination: &Examination, tell: bool) -> Result<(), String> {
    let made = examination
        .fix(&change::default_directory(), &mut |made, progress| {
            if tell && progress == Progress::Made {
                output::print(&format!("changed  {}\n", made.show()));
            }
        })
        .map_err(|error| error.to_string())?;
    if tell && made > 0 {
        let scope = examination.interface.as_deref().unwrap_or("host");
        output::print(&format!(
            "{made} change(s) made and read back; `rtwire revert {scope}` puts them back\n\n"
        ));
    }
    Ok(())
}
