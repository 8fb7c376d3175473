//! `rtwire powerlink sdo` and `nmt`: through the station that runs on the interface, or alone without one.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rtwire_powerlink_station::powerlink::sdo::{SdoJob, SdoOutcome};
use rtwire_powerlink_station::powerlink::{Description, ObjectDictionary};
use rtwire_wire::powerlink::NmtCommandId;
use serde_json::json;

use super::value::{Kind, hex};
use super::{FAULTY, Failure, REFUSED, alone, by_udp, control};
use crate::output::{self, print};
use rtwire_powerlink_station::control::unhex;

/// The size limit of files that are written into an object, bytes.
const LARGEST_FILE_BYTES: u64 = 2 << 20;

/// Arguments of `rtwire powerlink sdo`.
#[derive(Args)]
pub(super) struct SdoArguments {
    #[command(subcommand)]
    command: SdoCommand,
}

#[derive(Subcommand)]
enum SdoCommand {
    /// Read an object
    Read {
        #[command(flatten)]
        place: Place,
        /// Write its bytes to this file instead of showing them
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Write an object
    Write {
        #[command(flatten)]
        place: Place,
        /// The value: a number for numeric types, a text, or bytes in hexadecimal
        #[arg(required_unless_present = "file", conflicts_with = "file")]
        value: Option<String>,
        /// Write the bytes of this file
        #[arg(long)]
        file: Option<PathBuf>,
    },
}

#[derive(Args)]
struct Place {
    /// The interface that a station runs on, or that leads to a network without managing node; or the node's IPv4 address,
    /// to ask it by UDP
    interface: String,
    /// The node, 1 to 239; where a controlled node runs, 240 is the managing one
    node: u8,
    /// The object: index and sub-index, as in 6000h/1 or 0x6000/1, or its name, as in NMT_IdentityObject_REC/VendorId_U32
    object: String,
    /// The type of the value; without it, that of a named object, otherwise bytes in hexadecimal
    #[arg(long = "type", value_enum)]
    kind: Option<Kind>,
    /// The device description (XDD, XDC) that has the names; without it, those of DS 301
    #[arg(long)]
    description: Option<PathBuf>,
    /// The time limit
    #[arg(long, default_value = "10s", value_parser = crate::arguments::parse_duration)]
    timeout: Duration,
}

/// An object, and the way to show its value.
struct Object {
    index: u16,
    subindex: u8,
    kind: Kind,
}

fn named(dictionary: &ObjectDictionary, text: &str) -> Option<Object> {
    let (name, sub) = match text.split_once('/') {
        Some((name, sub)) => (name, Some(sub)),
        None => (text, None),
    };
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let (index, object) = dictionary
        .objects()
        .find(|(_, object)| same(&object.name, name))?;
    let subindex = match sub {
        None => 0,
        Some(sub) => match sub.parse() {
            Ok(number) => number,
            Err(_) => *object.entries.iter().find(|(_, e)| same(&e.name, sub))?.0,
        },
    };
    let entry = object.entry(subindex)?;
    Some(Object {
        index,
        subindex,
        kind: Kind::of(entry.data_type),
    })
}

fn object(place: &Place) -> Result<Object, Failure> {
    let text = place.object.as_str();
    let found = match rtwire_powerlink_station::place(text) {
        Some((index, subindex)) => Some(Object {
            index,
            subindex,
            kind: Kind::Hex,
        }),
        None => named(&dictionary(place)?, text),
    };
    let mut found = found.ok_or_else(|| {
        let names = match &place.description {
            Some(file) => format!("no name in `{}`", file.display()),
            None => "not a name of DS 301 (`--description` takes a device's own)".to_owned(),
        };
        (
            FAULTY,
            format!(
                "`{text}` is {names}, and not an index and sub-index, as in 6000h/1 or 0x6000/1"
            ),
        )
    })?;
    if let Some(kind) = place.kind {
        found.kind = kind;
    }
    Ok(found)
}

fn dictionary(place: &Place) -> Result<ObjectDictionary, Failure> {
    let Some(file) = &place.description else {
        return Ok(ObjectDictionary::controlled_node());
    };
    let faulty = |error: &dyn std::fmt::Display| (FAULTY, format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| faulty(&error))?;
    let description = Description::parse(&text).map_err(|error| faulty(&error))?;
    Ok(description.objects)
}

fn octets_of(file: &PathBuf) -> Result<Vec<u8>, Failure> {
    let faulty = |why: String| (FAULTY, format!("{}: {why}", file.display()));
    let length = std::fs::metadata(file)
        .map_err(|error| faulty(error.to_string()))?
        .len();
    if length > LARGEST_FILE_BYTES {
        return Err(faulty(format!(
            "{length} bytes are too many: at most {LARGEST_FILE_BYTES} are written"
        )));
    }
    std::fs::read(file).map_err(|error| faulty(error.to_string()))
}

pub(super) fn sdo(arguments: &SdoArguments) -> Result<(), Failure> {
    let (place, object, data) = match &arguments.command {
        SdoCommand::Read { place, .. } => (place, object(place)?, None),
        SdoCommand::Write { place, value, file } => {
            let object = object(place)?;
            let octets = match file {
                Some(file) => octets_of(file)?,
                None => object
                    .kind
                    .encode(value.as_deref().unwrap_or_default())
                    .map_err(|message| (FAULTY, message))?,
            };
            (place, object, Some(octets))
        }
    };
    let writes = data.is_some();
    let octets = exchange(place, &object, data)?;
    match &arguments.command {
        SdoCommand::Read {
            output: Some(file), ..
        } => output::replace_with(file, |to| to.write_all(&octets))
            .map_err(|message| (output::UNWRITTEN, message))?,
        _ if writes => {}
        _ => print(&(object.kind.show(&octets) + "\n")),
    }
    Ok(())
}

/// Reads, or writes `data`. Returns the value read.
fn exchange(place: &Place, object: &Object, data: Option<Vec<u8>>) -> Result<Vec<u8>, Failure> {
    let (index, subindex) = (object.index, object.subindex);
    let node = place.node;
    let job = |data: Option<Vec<u8>>| match data {
        Some(data) => SdoJob::Write(index, subindex, data),
        None => SdoJob::Read(index, subindex),
    };
    let outcome = if let Ok(address) = place.interface.parse() {
        by_udp::sdo(address, node, job(data), place.timeout)?
    } else {
        let question = json!({
            "ask": "sdo", "node": node, "index": index, "subindex": subindex,
            "data": data.as_deref().map(hex),
            "timeout_ms": u64::try_from(place.timeout.as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(answer) = control::ask(&place.interface, &question)? {
            return Ok(unhex(answer["data"].as_str().unwrap_or_default()).unwrap_or_default());
        }
        alone::sdo(&place.interface, node, job(data), place.timeout)?
    };
    match outcome {
        SdoOutcome::Done(octets) => Ok(octets),
        SdoOutcome::Failed(failure) => Err((
            REFUSED,
            format!("node {node} refuses {index:04X}h/{subindex}: {failure}"),
        )),
        SdoOutcome::Multiple(_) => Err((REFUSED, "an answer to another question".to_owned())),
    }
}

/// Arguments of `rtwire powerlink nmt`.
#[derive(Args)]
pub(super) struct NmtArguments {
    /// The interface that a station runs on, or that leads to a network without managing node
    interface: String,
    /// The command
    #[arg(value_enum)]
    command: NmtName,
    /// The node, 1 to 239; 255: all
    node: u8,
}

#[derive(Clone, Copy, ValueEnum)]
enum NmtName {
    /// Move from ReadyToOperate to Operational
    StartNode,
    /// Move to Stopped
    StopNode,
    /// Move back to PreOperational2
    EnterPreOperational2,
    /// Move from PreOperational2 to ReadyToOperate
    EnableReadyToOperate,
    /// Restart the node, as after power-up
    ResetNode,
    /// Restart its communication
    ResetCommunication,
    /// Load its configuration again
    ResetConfiguration,
    /// Initialise its software again
    SwReset,
    /// Have the managing node tell all (255) which nodes are configured
    PublishConfigured,
    /// The same for active nodes
    PublishActive,
    /// The same for nodes in PreOperational1
    PublishPreOperational1,
    /// The same for nodes in PreOperational2
    PublishPreOperational2,
    /// The same for nodes in ReadyToOperate
    PublishReadyToOperate,
    /// The same for nodes in Operational
    PublishOperational,
    /// The same for nodes in Stopped
    PublishStopped,
}

impl NmtName {
    fn id(self) -> NmtCommandId {
        match self {
            Self::StartNode => NmtCommandId::START_NODE,
            Self::StopNode => NmtCommandId::STOP_NODE,
            Self::EnterPreOperational2 => NmtCommandId::ENTER_PRE_OPERATIONAL_2,
            Self::EnableReadyToOperate => NmtCommandId::ENABLE_READY_TO_OPERATE,
            Self::ResetNode => NmtCommandId::RESET_NODE,
            Self::ResetCommunication => NmtCommandId::RESET_COMMUNICATION,
            Self::ResetConfiguration => NmtCommandId::RESET_CONFIGURATION,
            Self::SwReset => NmtCommandId::SW_RESET,
            Self::PublishConfigured => NmtCommandId::PUBLISH_CONFIGURED_NODES,
            Self::PublishActive => NmtCommandId::PUBLISH_ACTIVE_NODES,
            Self::PublishPreOperational1 => NmtCommandId::PUBLISH_PRE_OPERATIONAL_1,
            Self::PublishPreOperational2 => NmtCommandId::PUBLISH_PRE_OPERATIONAL_2,
            Self::PublishReadyToOperate => NmtCommandId::PUBLISH_READY_TO_OPERATE,
            Self::PublishOperational => NmtCommandId::PUBLISH_OPERATIONAL,
            Self::PublishStopped => NmtCommandId::PUBLISH_STOPPED,
        }
    }
}

pub(super) fn nmt(arguments: &NmtArguments) -> Result<(), Failure> {
    if !matches!(arguments.node, 1..=239 | 255) {
        return Err((
            FAULTY,
            format!(
                "{} is not a node number: use 1 to 239, or 255 for all",
                arguments.node
            ),
        ));
    }
    let command = arguments.command.id();
    if command.publishes_nodes() && arguments.node != 255 {
        return Err((FAULTY, format!("{command} goes to all nodes: use node 255")));
    }
    let question = json!({ "ask": "nmt", "command": command.0, "node": arguments.node });
    match control::ask(&arguments.interface, &question)? {
        Some(_) => Ok(()),
        None if command.publishes_nodes() => Err((
            REFUSED,
            format!(
                "no station runs on `{}`, and only a managing node knows the states of the nodes; start one: rtwire \
                 powerlink mn FILE",
                arguments.interface
            ),
        )),
        None => alone::nmt(&arguments.interface, command, arguments.node),
    }
}
