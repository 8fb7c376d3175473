//! Requests to a station in another process: one line of JSON there, one back, over a socket that only its user may
//! open.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtwire_powerlink_station::control::Question;
use rtwire_powerlink_station::powerlink::sdo::{SdoJob, SdoOutcome};
use rtwire_powerlink_station::{Handle, SdoReply};
use rtwire_sys::interface;
use serde_json::{Value, json};

use super::value::hex;
use super::{Failure, LACKING, REFUSED};

const FOLDER: &str = "/run/rtwire";
const LOOK: Duration = Duration::from_millis(50);

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

/// Asks the station that runs on an interface; `None` if there is none.
pub(super) fn ask(of: &str, question: &Value) -> Result<Option<Value>, Failure> {
    let Ok(mut stream) = UnixStream::connect(path(of)?) else {
        return Ok(None);
    };
    let lost = |error: std::io::Error| (LACKING, format!("the station has gone away: {error}"));
    stream
        .write_all(format!("{question}\n").as_bytes())
        .map_err(lost)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(lost)?;
    let answer: Value = serde_json::from_str(&line)
        .map_err(|_| (LACKING, "the station has ended meanwhile".to_owned()))?;
    match answer["error"].as_str() {
        Some(message) => Err((REFUSED, message.to_owned())),
        None => Ok(Some(answer)),
    }
}

/// The other end, in the process of the station.
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
            // Only one station can have the interface; a killed one left this socket.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
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
        // It waits for the next question.
        let _ = UnixStream::connect(&self.path);
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
        // One asks at a time, and a silent one must not keep others waiting.
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
    let question = match Question::parse(line) {
        Ok(question) => question,
        Err(message) => return json!({ "error": message }),
    };
    match question {
        Question::Status => match handle.status(Duration::from_secs(1)) {
            Some(status) => serde_json::to_value(status).unwrap_or(Value::Null),
            None => json!({ "error": "the station does not report its state" }),
        },
        Question::Nmt { node, command } => {
            if handle.nmt(command, node) {
                json!({})
            } else {
                json!({ "error": "the station is busy; try again" })
            }
        }
        Question::Sdo {
            node,
            index,
            subindex,
            data,
            timeout,
        } => sdo(handle, node, (index, subindex), data, timeout),
    }
}

fn sdo(
    handle: &Handle,
    node: u8,
    (index, subindex): (u16, u8),
    data: Option<Vec<u8>>,
    timeout: Duration,
) -> Value {
    let job = match data {
        Some(data) => SdoJob::Write(index, subindex, data),
        None => SdoJob::Read(index, subindex),
    };
    match handle.sdo(node, job, timeout) {
        SdoReply::Outcome(SdoOutcome::Done(data)) => json!({ "data": hex(&data) }),
        SdoReply::Outcome(SdoOutcome::Failed(failure)) => json!({
            "error": format!("node {node} refuses {index:04X}h/{subindex}: {failure}")
        }),
        SdoReply::NoSuchNode => json!({
            "error": format!(
                "the station that runs here cannot ask node {node}: it is the station itself, or its project has no such node"
            )
        }),
        SdoReply::TimedOut => {
            json!({ "error": format!("node {node} does not answer in time") })
        }
        _ => json!({ "error": "the station is not running" }),
    }
}
