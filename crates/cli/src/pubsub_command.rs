//! `rtwire pubsub export|import`: a PubSub project as the standard's configuration file, and back. `rtwire pubsub discover`: a project of what a
//! publisher tells about itself. `rtwire pubsub keys`: a key file that follows a security key service.

use std::io::Write as _;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rtwire_pubsub_station::exchange::{self, Body, Choice, Imported, Side};
use rtwire_pubsub_station::key_service::{KeyEvent, KeyService};
use rtwire_pubsub_station::pubsub::Publisher;
use rtwire_pubsub_station::pubsub::discovery::Learned;
use rtwire_pubsub_station::{PlanPlace, Project, StationError, Transport, discover};
use rtwire_sys::signal;
use rtwire_wire::{MacAddress, Pcp, VlanTag};

use crate::arguments::parse_duration;
use crate::output;

/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The host lacks something.
const LACKING: u8 = 3;
/// Nobody has answered.
const SILENT: u8 = 4;
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
    /// Ask a publisher on the network for its metadata and configuration, and print them as a project
    Discover(DiscoverArguments),
    /// Keep a key file current from a security key service, until Ctrl-C
    Keys(KeysArguments),
}

/// Arguments of `rtwire pubsub keys`.
#[derive(Args)]
struct KeysArguments {
    /// The description of the key service, TOML
    file: PathBuf,
    /// Ask once, write the key file, and end
    #[arg(long)]
    once: bool,
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

/// The type of a PublisherId.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    #[value(name = "Byte")]
    Byte,
    #[value(name = "UInt16")]
    UInt16,
    #[value(name = "UInt32")]
    UInt32,
    #[value(name = "UInt64")]
    UInt64,
    #[value(name = "String")]
    String,
}

/// Arguments of `rtwire pubsub discover`.
#[derive(Args)]
struct DiscoverArguments {
    /// The publisher's discovery address: a MAC address, or IPv4 address and port (often 224.0.2.14:4840)
    address: String,
    /// The interface
    #[arg(long, value_name = "IF")]
    interface: String,
    /// The publisher
    #[arg(long, value_name = "ID")]
    publisher_id: String,
    /// The type of the PublisherId
    #[arg(long, value_enum, default_value = "UInt16", value_name = "TYPE")]
    publisher_id_type: Kind,
    /// The VLAN of frames
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..4095), value_name = "VID")]
    vlan: Option<u16>,
    /// The longest time to ask
    #[arg(long, value_parser = parse_duration, default_value = "3s")]
    duration: Duration,
    /// The project to write, TOML; without it, standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `rtwire pubsub`.
pub(crate) fn run(arguments: &PubsubArguments) -> ExitCode {
    let faulty = |message| (FAULTY, message);
    let done = match &arguments.command {
        Command::Export(export) => write_configuration(export).map_err(faulty),
        Command::Import(import) => write_project(import).map_err(faulty),
        Command::Discover(question) => ask(question),
        Command::Keys(arguments) => keep_keys(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("rtwire pubsub: {message}");
            ExitCode::from(code)
        }
    }
}

fn keep_keys(arguments: &KeysArguments) -> Result<(), (u8, String)> {
    let failed = |error: StationError| match error {
        // It was said why.
        StationError::Ended => (SILENT, "the key service has not answered".to_owned()),
        StationError::KeyProgram { .. } => (LACKING, error.to_string()),
        _ if error.is_usage() => (FAULTY, error.to_string()),
        _ => (LACKING, error.to_string()),
    };
    let service = KeyService::read(&arguments.file).map_err(failed)?;
    let stop = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
    let shown = service.key_file.display().to_string();
    let say = |event: KeyEvent| eprintln!("rtwire pubsub: {shown}: {event}");
    service.keep(stop, arguments.once, say).map_err(failed)
}

fn publisher(arguments: &DiscoverArguments) -> Option<Publisher> {
    let id = &arguments.publisher_id;
    Some(match arguments.publisher_id_type {
        Kind::Byte => Publisher::Byte(id.parse().ok()?),
        Kind::UInt16 => Publisher::UInt16(id.parse().ok()?),
        Kind::UInt32 => Publisher::UInt32(id.parse().ok()?),
        Kind::UInt64 => Publisher::UInt64(id.parse().ok()?),
        Kind::String => Publisher::String(id.clone()),
    })
}

fn ask(arguments: &DiscoverArguments) -> Result<(), (u8, String)> {
    let (shown, id) = (&arguments.address, &arguments.publisher_id);
    let publisher = publisher(arguments).ok_or_else(|| {
        let kind = arguments.publisher_id_type;
        (
            FAULTY,
            format!("`{id}` is no {kind:?}; name its type with --publisher-id-type"),
        )
    })?;
    let vlan = arguments
        .vlan
        .and_then(|vid| VlanTag::new(Pcp::default(), vid));
    let address = match (shown.parse::<SocketAddrV4>(), shown.parse::<MacAddress>()) {
        (Ok(address), _) => Transport::Udp { address },
        (_, Ok(address)) => Transport::Ethernet { address, vlan },
        _ => {
            let message = format!(
                "`{shown}` is no address; write for instance 01-00-5E-7F-00-01 or 224.0.2.14:4840"
            );
            return Err((FAULTY, message));
        }
    };
    let failed = |error: StationError| match error.is_usage() {
        true => (FAULTY, error.to_string()),
        false => (LACKING, error.to_string()),
    };
    let learned = discover(
        &arguments.interface,
        address,
        &publisher,
        arguments.duration,
    )
    .map_err(failed)?;
    if !learned
        .iter()
        .any(|one| matches!(one, Learned::Group { .. }))
    {
        let message = format!(
            "publisher {id} has not answered at {shown}; look at its PublisherId and type, and whether it has discovery (key `discovery` of rtwire's projects)"
        );
        return Err((SILENT, message));
    }
    let path = arguments.output.as_deref().unwrap_or(Path::new(UNNAMED));
    let mut imported =
        exchange::discovered(&learned, &publisher, &address, path).map_err(failed)?;
    // A subscriber asks there again when the metadata change.
    imported.project.connection.discovery = Some(address);
    eprintln!("rtwire pubsub: `address` is that of discovery; change it if messages go elsewhere");
    print_project(&imported, arguments.output.as_deref()).map_err(|message| (FAULTY, message))
}

fn print_project(imported: &Imported, output: Option<&Path>) -> Result<(), String> {
    for note in &imported.notes {
        eprintln!("rtwire pubsub: {note}");
    }
    let text = exchange::text(&imported.project);
    match output {
        Some(path) => write(path, text.as_bytes()),
        None => {
            output::print(&text);
            Ok(())
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
    print_project(&imported, arguments.output.as_deref())
}
