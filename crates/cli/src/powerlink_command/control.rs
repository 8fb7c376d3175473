//! Reaching a managing node that runs in another process: one line of JSON there, one back, over a socket that only its
//! user may open.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rtwire_station::powerlink::sdo::{SdoJob, SdoOutcome};
use rtwire_station::{Handle, SdoReply};
use rtwire_sys::interface;
use rtwire_wire::powerlink::NmtCommandId;
use serde_json::{Value, json};

use super::live::print;
use super::{FAULTY, Failure, LACKING, REFUSED};

const FOLDER: &str = "/run/rtwire";
const LOOK: Duration = Duration::from_millis(50);

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
    },
    /// Write an object
    Write {
        #[command(flatten)]
        place: Place,
        /// The value: a number for numeric types, a text, or octets in hexadecimal
        value: String,
    },
}

#[derive(Args)]
struct Place {
    /// The interface that the managing node runs on
    interface: String,
    /// The node, 1 to 239
    node: u8,
    /// The object: index and sub-index, as in 6000h/1 or 0x6000/1
    object: String,
    /// What the value is
    #[arg(long = "type", value_enum, default_value_t = Kind::Hex)]
    kind: Kind,
    /// How long it may take
    #[arg(long, default_value = "10s", value_parser = crate::jitter_command::parse_time)]
    timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Octets, as they are
    Hex,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    /// A text
    Text,
}

impl Kind {
    fn octets(self) -> Option<(usize, bool)> {
        match self {
            Self::U8 => Some((1, false)),
            Self::U16 => Some((2, false)),
            Self::U32 => Some((4, false)),
            Self::U64 => Some((8, false)),
            Self::I8 => Some((1, true)),
            Self::I16 => Some((2, true)),
            Self::I32 => Some((4, true)),
            Self::I64 => Some((8, true)),
            Self::Hex | Self::Text => None,
        }
    }

    fn encode(self, text: &str) -> Result<Vec<u8>, String> {
        match (self, self.octets()) {
            (_, Some((octets, signed))) => {
                let digits = text.strip_prefix("0x");
                let number = match digits {
                    Some(digits) => i128::from_str_radix(digits, 16),
                    None => text.parse(),
                }
                .map_err(|_| format!("`{text}` is no number"))?;
                let bits = 8 * octets as u32;
                let (low, high) = if signed {
                    (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
                } else {
                    (0, (1_i128 << bits) - 1)
                };
                if !(low..=high).contains(&number) {
                    return Err(format!("{number} is beyond {low} to {high}"));
                }
                Ok(number.to_le_bytes()[..octets].to_vec())
            }
            (Self::Text, None) => Ok(text.as_bytes().to_vec()),
            (_, None) => unhex(text).ok_or_else(|| {
                format!("`{text}` is not octets in hexadecimal, as in 0a0b; `--type u8` (and the like) takes a number")
            }),
        }
    }

    fn show(self, octets: &[u8]) -> String {
        match self.octets() {
            Some((length, signed)) if length == octets.len() => {
                let negative = signed && octets.last().is_some_and(|last| last & 0x80 != 0);
                let mut wide = [if negative { 0xff } else { 0 }; 16];
                wide[..length].copy_from_slice(octets);
                i128::from_le_bytes(wide).to_string()
            }
            _ if self == Self::Text => String::from_utf8_lossy(octets)
                .trim_end_matches('\0')
                .to_owned(),
            _ => hex(octets),
        }
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    if text.len() % 2 != 0 || !text.is_ascii() {
        return None;
    }
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok())
        .collect()
}

fn object(text: &str) -> Result<(u16, u8), Failure> {
    rtwire_station::place(text).ok_or_else(|| {
        (
            FAULTY,
            format!("`{text}` is no object: index and sub-index, as in 6000h/1 or 0x6000/1"),
        )
    })
}

pub(super) fn sdo(arguments: &SdoArguments) -> Result<(), Failure> {
    let (place, data) = match &arguments.command {
        SdoCommand::Read { place } => (place, None),
        SdoCommand::Write { place, value } => {
            let octets = place
                .kind
                .encode(value)
                .map_err(|message| (FAULTY, message))?;
            (place, Some(hex(&octets)))
        }
    };
    let (index, subindex) = object(&place.object)?;
    let question = json!({
        "ask": "sdo", "node": place.node, "index": index, "subindex": subindex, "data": data,
        "timeout_ms": u64::try_from(place.timeout.as_millis()).unwrap_or(u64::MAX),
    });
    let answer = must_ask(&place.interface, &question)?;
    let octets = unhex(answer["data"].as_str().unwrap_or_default()).unwrap_or_default();
    if data.is_none() {
        print(&(place.kind.show(&octets) + "\n"));
    }
    Ok(())
}

/// Arguments of `rtwire powerlink nmt`.
#[derive(Args)]
pub(super) struct NmtArguments {
    /// The interface that the managing node runs on
    interface: String,
    /// The command
    #[arg(value_enum)]
    command: NmtName,
    /// The node, 1 to 239; 255: all
    node: u8,
}

#[derive(Clone, Copy, ValueEnum)]
enum NmtName {
    /// ReadyToOperate to Operational
    StartNode,
    /// To Stopped
    StopNode,
    /// Back to PreOperational2
    EnterPreOperational2,
    /// PreOperational2 to ReadyToOperate
    EnableReadyToOperate,
    /// Begin anew, as after power-up
    ResetNode,
    /// Begin communication anew
    ResetCommunication,
    /// Take the configuration anew
    ResetConfiguration,
    /// Initialise anew
    SwReset,
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
        }
    }
}

pub(super) fn nmt(arguments: &NmtArguments) -> Result<(), Failure> {
    if !matches!(arguments.node, 1..=239 | 255) {
        return Err((
            FAULTY,
            format!("{} is no node: 1 to 239, or 255 for all", arguments.node),
        ));
    }
    let question =
        json!({ "ask": "nmt", "command": arguments.command.id().0, "node": arguments.node });
    must_ask(&arguments.interface, &question).map(drop)
}

fn path(of: &str) -> Result<PathBuf, Failure> {
    let lacking = |error: &dyn std::fmt::Display| (LACKING, error.to_string());
    let found = interface::by_name(of).map_err(|error| lacking(&error))?;
    let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(|error| lacking(&error))?;
    Ok(PathBuf::from(format!(
        "{FOLDER}/powerlink-{}-{}.sock",
        namespace.ino(),
        found.index
    )))
}

/// Asks the managing node that runs on an interface; `None` if there is none.
pub(super) fn ask(of: &str, question: &Value) -> Result<Option<Value>, Failure> {
    let Ok(mut stream) = UnixStream::connect(path(of)?) else {
        return Ok(None);
    };
    let lost =
        |error: std::io::Error| (LACKING, format!("the managing node has gone away: {error}"));
    stream
        .write_all(format!("{question}\n").as_bytes())
        .map_err(lost)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(lost)?;
    let answer: Value = serde_json::from_str(&line)
        .map_err(|_| (LACKING, "the managing node has ended meanwhile".to_owned()))?;
    match answer["error"].as_str() {
        Some(message) => Err((REFUSED, message.to_owned())),
        None => Ok(Some(answer)),
    }
}

fn must_ask(of: &str, question: &Value) -> Result<Value, Failure> {
    ask(of, question)?.ok_or_else(|| {
        (
            LACKING,
            format!(
                "no managing node runs on `{of}` here; start it with `rtwire powerlink mn FILE`"
            ),
        )
    })
}

/// The other end, in the process of the managing node.
pub(super) struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(of: &str, handle: Handle) -> Result<Self, Failure> {
        let path = path(of)?;
        let open = || -> std::io::Result<UnixListener> {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(FOLDER)?;
            // Only one managing node can have the interface; what is here was left by one that was killed.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = open().map_err(|error| {
            (
                LACKING,
                format!("cannot open `{}`: {error}", path.display()),
            )
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = Arc::clone(&stop);
            thread::spawn(move || serve(&listener, &handle, &stop))
        };
        Ok(Self {
            path,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn serve(listener: &UnixListener, handle: &Handle, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(LOOK);
            continue;
        };
        // One asks at a time, and nobody keeps others waiting by saying nothing.
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let mut line = String::new();
        if BufReader::new(std::io::Read::take(&stream, 4 << 20))
            .read_line(&mut line)
            .is_err()
        {
            continue;
        }
        let answer = answer(&line, handle);
        let _ = (&stream).write_all(format!("{answer}\n").as_bytes());
    }
}

fn answer(line: &str, handle: &Handle) -> Value {
    let Ok(question) = serde_json::from_str::<Value>(line) else {
        return json!({ "error": "not understood" });
    };
    let number = |key: &str| question[key].as_u64().unwrap_or(0);
    let node = number("node") as u8;
    match question["ask"].as_str() {
        Some("status") => match handle.status(Duration::from_secs(1)) {
            Some(status) => serde_json::to_value(status).unwrap_or(Value::Null),
            None => json!({ "error": "the managing node does not tell its state" }),
        },
        Some("nmt") => {
            if handle.nmt(NmtCommandId(number("command") as u8), node) {
                json!({})
            } else {
                json!({ "error": "the managing node has too much to do; try again" })
            }
        }
        Some("sdo") => {
            let (index, subindex) = (number("index") as u16, number("subindex") as u8);
            let job = match question["data"].as_str().and_then(unhex) {
                Some(data) => SdoJob::Write(index, subindex, data),
                None => SdoJob::Read(index, subindex),
            };
            let timeout = Duration::from_millis(number("timeout_ms").max(1));
            match handle.sdo(node, job, timeout) {
                SdoReply::Outcome(SdoOutcome::Done(data)) => json!({ "data": hex(&data) }),
                SdoReply::Outcome(SdoOutcome::Failed(failure)) => json!({
                    "error": format!("node {node} refuses {index:04X}h/{subindex}: {failure}")
                }),
                SdoReply::NoSuchNode => json!({
                    "error": format!("the managing node's project has no node {node}")
                }),
                SdoReply::TimedOut => {
                    json!({ "error": format!("node {node} does not answer in time") })
                }
                _ => json!({ "error": "the managing node is not running" }),
            }
        }
        _ => json!({ "error": "not understood" }),
    }
}
