//! `rtwire lab`: a network brought up on this machine, measured, and managed.

use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use rtwire_lab::{LabError, Options, TxPath, registry};
use rtwire_session::ReceivePath;

use crate::arguments::{
    NETWORK_HELP, key_and_value, parse_duration, parse_spin, receive_paths, transmit_paths,
};
use crate::input;
use crate::output::{self, print};

/// The receive paths of a lab: its hosts have no devices of the kernel module `uman`.
const IN_A_LAB: [ReceivePath; 4] = [
    ReceivePath::Auto,
    ReceivePath::Native,
    ReceivePath::Generic,
    ReceivePath::Packet,
];

/// The arguments of `rtwire lab`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    action: Option<LabAction>,
    #[command(flatten)]
    run: Option<RunArguments>,
}

#[derive(Args)]
struct RunArguments {
    #[arg(help = NETWORK_HELP)]
    file: PathBuf,
    /// The duration of the measurement, for example `20s`, `500ms`
    #[arg(long, default_value = "20s", value_parser = parse_duration)]
    duration: Duration,
    /// Extend the measurement up to this duration, until each stream has the frames that its verdict needs, the machine was
    /// quiet for most of it, and 99 % of the load was offered
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    at_most: Option<Duration>,
    /// The duration of the measurement of the unloaded network before it
    #[arg(long, default_value = "3s", value_parser = parse_duration)]
    calibration: Duration,
    /// Write the report to this file (HTML), and its data beside it (.json)
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print the report's data as JSON instead of tables
    #[arg(long)]
    json: bool,
    /// The receive path of RTDiP frames: receive program in the driver (native) or behind it (generic), packet sockets, or
    /// the cheapest for each listener (auto)
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = receive_paths(IN_A_LAB))]
    receive_path: ReceivePath,
    /// Drop and count frames beyond their stream's contract at its listeners; the tolerance is the promised delay plus this
    /// time for late hosts, for example `10ms`
    #[arg(long, value_name = "LATENESS", value_parser = parse_duration)]
    police: Option<Duration>,
    /// The time that listeners, which are real-time threads, spin before they sleep, for example `50us`; at most `1ms`
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_spin)]
    spin: Duration,
    /// The transmit path of RTDiP frames: through the queueing discipline of the host's interface (qdisc), past it (direct),
    /// or past it by memory shared with the kernel, one stream for each host (xdp)
    #[arg(long, value_name = "PATH", default_value = "qdisc",
          value_parser = transmit_paths([TxPath::Qdisc, TxPath::Direct, TxPath::Xdp]))]
    transmit_path: TxPath,
    /// Set a default of the description, for example `shaping-interval=100us`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Run even if the network is refused, to see the effect
    #[arg(long)]
    no_admission: bool,
    /// Leave the network up afterwards
    #[arg(long)]
    keep: bool,
}

#[derive(Subcommand)]
enum LabAction {
    /// Run a command (default: a shell) on a node of a lab
    Enter {
        /// The lab's id, see `rtwire lab list`
        id: String,
        /// The node's name in the description
        node: String,
        /// The command to run
        #[arg(trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// List the labs of this machine
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a kept lab down, or with `--all` every lab that does not run
    Down {
        /// The lab's id
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// Every kept or crashed lab
        #[arg(long)]
        all: bool,
    },
}

/// Runs `rtwire lab`.
pub(crate) fn run(arguments: LabArguments) -> ExitCode {
    let done = match (arguments.action, arguments.run) {
        (Some(LabAction::Enter { id, node, command }), _) => enter(&id, &node, &command),
        (Some(LabAction::List { json }), _) => list(json),
        (Some(LabAction::Down { id, all }), _) => down(id.as_deref(), all),
        (None, Some(run)) => return measure(&run),
        // clap requires the file where there is no action.
        (None, None) => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &LabError) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(match error {
        LabError::NeverQuiet => 4,
        error if error.is_host_lacking() => 3,
        _ => 2,
    })
}

fn measure(arguments: &RunArguments) -> ExitCode {
    let (file, set) = (&arguments.file, &arguments.set);
    let plan = match input::plan_for_lab(file, set, arguments.no_admission) {
        Ok(plan) => plan,
        Err((code, message)) => {
            eprintln!("error: {message}{}", input::hint(code));
            return ExitCode::from(code);
        }
    };
    let outputs = arguments.report.as_deref();
    let outputs = match outputs
        .map(|html| Outputs::at(html, &arguments.file))
        .transpose()
    {
        Ok(outputs) => outputs,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    let options = Options {
        plan,
        file: arguments.file.display().to_string(),
        duration: arguments.duration,
        at_most: arguments.at_most.unwrap_or(arguments.duration),
        calibration: arguments.calibration,
        receive_path: arguments.receive_path,
        transmit_path: arguments.transmit_path,
        spin: arguments.spin,
        police: arguments.police,
        keep: arguments.keep,
        command: std::env::args().collect::<Vec<_>>().join(" "),
        rtwire_version: env!("CARGO_PKG_VERSION").to_owned(),
        show_progress: std::io::stderr().is_terminal(),
    };
    let outcome = match rtwire_lab::run(options) {
        Ok(outcome) => outcome,
        Err(error) => return failed(&error),
    };
    let report = &outcome.report;
    let json = match report.to_json() {
        Ok(json) => json,
        Err(error) => {
            eprintln!("error: the report has no JSON form: {error}");
            return ExitCode::from(2);
        }
    };
    // The tables first: a report file that cannot be written must not cost the measurement.
    if arguments.json {
        print(&format!("{json}\n"));
    } else {
        print(&report.print_text());
    }
    let mut code = report.verdict.exit_code();
    if let Some(outputs) = &outputs {
        match outputs.write(&report.to_html(), &json) {
            Err(message) => {
                eprintln!("error: {message}");
                code = output::unwritten(code);
            }
            Ok(()) if arguments.json => {}
            Ok(()) => {
                let (html, json) = (outputs.html.display(), outputs.json.display());
                print(&format!("report: {html}  data: {json}\n"));
            }
        }
    }
    if let Some(record) = &outcome.kept {
        eprintln!("lab {} is still up; its nodes:", record.id);
        for node in &record.nodes {
            eprintln!("  rtwire lab enter {} {}", record.id, node.name);
        }
        eprintln!("take it down with: rtwire lab down {}", record.id);
    }
    ExitCode::from(code)
}

/// The files of the report, which are checked before the run for write access.
struct Outputs {
    html: PathBuf,
    json: PathBuf,
}

impl Outputs {
    fn at(html: &Path, input: &Path) -> Result<Self, String> {
        let directory = match html.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !directory.is_dir() {
            return Err(format!(
                "--report: there is no directory `{}`",
                directory.display()
            ));
        }
        if html.is_dir() || html.file_name().is_none() {
            return Err(format!(
                "--report: `{}` is a directory; give a file name",
                html.display()
            ));
        }
        if html
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            return Err(
                "--report: give the name of the HTML file; its data goes beside it as .json"
                    .to_owned(),
            );
        }
        let outputs = Self {
            html: html.to_owned(),
            json: html.with_extension("json"),
        };
        for path in [&outputs.html, &outputs.json] {
            let same = |a: &Path| a.canonicalize().ok();
            if same(path).is_some() && same(path) == same(input) {
                return Err(format!(
                    "--report: `{}` is the description itself; choose another name",
                    path.display()
                ));
            }
            // Opened for writing and left as it is: a failed run must not destroy the report of the last one.
            let existed = path.exists();
            std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .map_err(|error| format!("--report: cannot write `{}`: {error}", path.display()))?;
            if !existed {
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(outputs)
    }

    fn write(&self, html: &str, json: &str) -> Result<(), String> {
        for (path, text) in [(&self.html, html), (&self.json, json)] {
            output::replace(path, text)?;
        }
        Ok(())
    }
}

fn enter(id: &str, node: &str, command: &[String]) -> Result<(), LabError> {
    let (record, state) = registry::find(id)?;
    if state == registry::State::Running {
        eprintln!(
            "note: lab {id} still runs: until it is done, answers that a host's driver sends (XDP in native mode) do not leave that \
             host; in generic mode they do"
        );
    }
    let namespace = record
        .nodes
        .iter()
        .find(|candidate| candidate.name == node)
        .ok_or_else(|| LabError::NoSuchNode {
            id: id.to_owned(),
            node: node.to_owned(),
            others: record.nodes.iter().map(|n| n.name.clone()).collect(),
        })?;
    rtwire_sys::netns::enter_with_sysfs(&namespace.namespace)?;
    let shell = [std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())];
    let command = if command.is_empty() { &shell } else { command };
    // Returns only if the program could not be started.
    let error = std::process::Command::new(&command[0])
        .args(&command[1..])
        .exec();
    Err(LabError::Program {
        program: command[0].clone(),
        source: error,
    })
}

fn list(json: bool) -> Result<(), LabError> {
    let labs = registry::list()?;
    if json {
        let rows: Vec<_> = labs
            .iter()
            .map(|(record, state)| {
                serde_json::json!({
                    "id": record.id, "state": state, "network": record.network,
                    "file": record.file, "pid": record.pid, "nodes": record.nodes,
                    "phase": record.phase, "phase_since_tai_ns": record.phase_since_tai_ns,
                })
            })
            .collect();
        print(&format!("{:#}\n", serde_json::Value::from(rows)));
        return Ok(());
    }
    if labs.is_empty() {
        print("no lab is up\n");
        return Ok(());
    }
    print(&format!(
        "{:<6}{:<13}{:<24}NODES\n",
        "ID", "STATE", "NETWORK"
    ));
    for (record, state) in labs {
        let nodes: Vec<&str> = record.nodes.iter().map(|node| node.name.as_str()).collect();
        let state = match state {
            registry::State::Running => record.phase.name(),
            registry::State::Kept => "kept",
            registry::State::Crashed => "crashed",
        };
        print(&format!(
            "{:<6}{:<13}{:<24}{}\n",
            record.id,
            state,
            record.network,
            nodes.join(" ")
        ));
    }
    Ok(())
}

fn down(id: Option<&str>, all: bool) -> Result<(), LabError> {
    if let Some(id) = id {
        registry::take_down(id)?;
        print(&format!("lab {id} is down\n"));
        return Ok(());
    }
    for (record, state) in registry::list()? {
        if all && state != registry::State::Running {
            registry::take_down(&record.id)?;
            print(&format!("lab {} is down\n", record.id));
        }
    }
    Ok(())
}
