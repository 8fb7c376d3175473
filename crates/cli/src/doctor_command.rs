//! `rtwire doctor`: can this host keep a deadline?

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rtwire_host::HostError;
use rtwire_host::change::{self, Header, Progress, Record, Wanted};
use rtwire_host::doctor::{self, Examination, Facts};
use rtwire_host::netlink::Netlink;
use rtwire_sys::signal;

use crate::arguments::parse_duration;
use crate::doctor_measure::{self, LoadArgument, MeasureOptions};
use crate::doctor_table;

/// A fact can break a deadline.
const ENDANGERED: u8 = 1;
/// Wrong usage: there is no such interface.
const FAULTY: u8 = 2;
/// The host lacks something.
const LACKING: u8 = 3;

/// Arguments of `rtwire doctor`.
#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// The interface that real-time traffic uses; without it only the machine is looked at
    interface: Option<String>,
    /// Print JSON (its schema: `rtwire schema doctor`)
    #[arg(long)]
    json: bool,
    /// Also show what is as it should be
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Change what is safe to change, keep a record of it, and look again; `rtwire revert` puts it back
    #[arg(long)]
    fix: bool,
    /// Measure how late threads wake, frames leave and frames are received: on a cable of the machine's own, and on INTERFACE,
    /// where it sends 1000 small frames a second that are addressed to the interface itself
    #[arg(long)]
    measure: bool,
    /// How long each part of the measurement takes
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, requires = "measure")]
    duration: Duration,
    /// What is done meanwhile, in parts of their own beside the idle ones
    #[arg(long, value_enum, default_value = "all", requires = "measure")]
    load: LoadArgument,
}

/// Examine, change if asked, print.
pub(crate) fn run(arguments: &DoctorArguments) -> ExitCode {
    let mut facts = match Facts::gather(arguments.interface.as_deref()) {
        Ok(facts) => facts,
        Err(error) => return failed(&error),
    };
    let mut examination = doctor::examine(&facts);
    let scope = arguments.interface.as_deref().unwrap_or("host");
    let mut fixed = Ok(0);
    if arguments.fix {
        fixed = fix(&examination, scope, !arguments.json);
        match Facts::gather(arguments.interface.as_deref()) {
            Ok(again) => facts = again,
            Err(error) => return failed(&error),
        }
        examination = doctor::examine(&facts);
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
            Ok(text) => print(&(text + "\n")),
            Err(error) => eprintln!("rtwire doctor: {error}"),
        }
    } else {
        print(&doctor_table::table(&examination, arguments.all));
    }
    for (header, state, changes) in Record::list(&change::default_directory()) {
        if let Some(left) = crate::revert_command::leftover(&header, state, changes) {
            eprintln!("rtwire doctor: {left}");
        }
    }
    match fixed.and(broken_off.map_or(Ok(0), Err)) {
        Err(message) => {
            eprintln!("rtwire doctor: {message}");
            ExitCode::from(LACKING)
        }
        Ok(_) if examination.ready => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(ENDANGERED),
    }
}

fn failed(error: &HostError) -> ExitCode {
    eprintln!("rtwire doctor: {error}");
    ExitCode::from(match error {
        HostError::NoInterface { .. } | HostError::InterfaceName(_) => FAULTY,
        _ => LACKING,
    })
}

fn print(text: &str) {
    // A reader that went away (`| head`) is no fault of ours.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Makes the safe changes of all findings that endanger a deadline. How many were made.
fn fix(examination: &Examination, scope: &str, tell: bool) -> Result<usize, String> {
    let wanted: Vec<Wanted> = examination
        .findings
        .iter()
        .filter(|finding| finding.endangers())
        .filter_map(|finding| finding.remedy.as_ref())
        .flat_map(|remedy| remedy.wanted.clone())
        .collect();
    let mut netlink = Netlink::new();
    let mut present = Vec::new();
    for one in &wanted {
        let value = change::read(&mut netlink, &one.subject).map_err(|error| error.to_string())?;
        present.push((one.subject.clone(), value));
    }
    let changes = change::difference(&wanted, &|subject| {
        let found = present.iter().find(|(one, _)| one == subject);
        found.map_or(change::Value::Absent, |(_, value)| value.clone())
    });
    if changes.is_empty() {
        return Ok(0);
    }
    let header = Header::new("rtwire doctor --fix", scope, None);
    let record =
        Record::begin(&change::default_directory(), header).map_err(|error| error.to_string())?;
    let mut record = change::apply(&mut netlink, record, &changes, &mut |made, progress| {
        if tell && progress == Progress::Made {
            print(&format!("changed  {}\n", made.show()));
        }
    })
    .map_err(|error| error.to_string())?;
    record.confirm().map_err(|error| error.to_string())?;
    if tell {
        print(&format!(
            "{} change(s) made and read back; `rtwire revert {scope}` takes them back\n\n",
            changes.len()
        ));
    }
    Ok(changes.len())
}
