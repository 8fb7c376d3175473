//! `rtwire pubsub export|import`: a PubSub project as the standard's configuration file, and back.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use rtwire_pubsub_station::exchange::{self, Body, Choice, Side};
use rtwire_pubsub_station::{PlanPlace, Project, StationError};

use crate::output;

/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The project of text on standard output: files are looked for beside it.
const UNNAMED: &str = "project.toml";

/// Arguments of `rtwire pubsub`.
#[derive(Args)]
pub(crate) struct PubsubArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a project as the standard's binary configuration file (UABinaryFile)
    Export(ExportArguments),
    /// Read the standard's binary configuration file and print it as a project
    Import(ImportArguments),
}

/// The structure in the file.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Version {
    /// PubSubConfiguration2DataType
    #[value(name = "1.05")]
    Second,
    /// PubSubConfigurationDataType, for stacks that know no other, such as open62541
    #[value(name = "1.04")]
    First,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum From {
    /// The data sets that the connection publishes
    Writers,
    /// The data sets that the connection subscribes to
    Readers,
}

/// Arguments of `rtwire pubsub export`.
#[derive(Args)]
struct ExportArguments {
    /// The PubSub project, TOML
    file: PathBuf,
    /// The configuration file to write (.uabinary)
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// The plan of groups with `stream`, in place of the project's
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// The version of the standard whose structure is written
    #[arg(long, value_enum, default_value = "1.05", value_name = "VERSION")]
    standard: Version,
}

/// Arguments of `rtwire pubsub import`.
#[derive(Args)]
struct ImportArguments {
    /// The configuration file (.uabinary)
    file: PathBuf,
    /// The project to write, TOML; without it, standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The name of the connection, where the file has several
    #[arg(long, value_name = "NAME")]
    connection: Option<String>,
    /// The side to take; without it the writers, if there are any
    #[arg(long, value_enum)]
    from: Option<From>,
}

/// Runs `rtwire pubsub`.
pub(crate) fn run(arguments: &PubsubArguments) -> ExitCode {
    let done = match &arguments.command {
        Command::Export(export) => write_configuration(export),
        Command::Import(import) => write_project(import),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rtwire pubsub: {message}");
            ExitCode::from(FAULTY)
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    output::replace_with(path, |file| file.write_all(bytes))
}

fn write_configuration(arguments: &ExportArguments) -> Result<(), String> {
    let told = |error: StationError| error.to_string();
    let place = PlanPlace {
        plan: arguments.plan.clone(),
        ..PlanPlace::default()
    };
    let project = Project::read_at(&arguments.file, &place).map_err(told)?;
    for entry in &project.groups {
        if let Some(stream) = &entry.stream {
            let name = &entry.group.name;
            eprintln!(
                "rtwire pubsub: group `{name}` is written with address, interval and offset of stream `{stream}`, without its name"
            );
        }
    }
    let body = match arguments.standard {
        Version::Second => Body::Second,
        Version::First => Body::First,
    };
    let bytes = exchange::export(&project, body).map_err(told)?;
    write(&arguments.output, &bytes)
}

fn write_project(arguments: &ImportArguments) -> Result<(), String> {
    let shown = arguments.file.display();
    let bytes =
        std::fs::read(&arguments.file).map_err(|fault| format!("cannot read {shown}: {fault}"))?;
    let choice = Choice {
        connection: arguments.connection.clone(),
        side: arguments.from.map(|from| match from {
            From::Writers => Side::Writers,
            From::Readers => Side::Readers,
        }),
    };
    let path = arguments.output.as_deref().unwrap_or(Path::new(UNNAMED));
    let imported =
        exchange::import(&bytes, path, &choice).map_err(|error| format!("{shown}: {error}"))?;
    for note in &imported.notes {
        eprintln!("rtwire pubsub: {note}");
    }
    let text = exchange::text(&imported.project);
    match &arguments.output {
        Some(path) => write(path, text.as_bytes()),
        None => {
            output::print(&text);
            Ok(())
        }
    }
}
