//! One question to the service, by a program of its own: JSON in, JSON out.

use super::KeyService;
use crate::StationError;
use crate::keys::hex;
use rtwire_pubsub::security::KeyAnswer;
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The longest answer, bytes.
const LONGEST: u64 = 256 * 1024;
/// The longest time without a look at the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// The question: one line of JSON on the standard input of the program.
#[derive(Clone, Serialize)]
pub struct Question {
    /// The service's address, `opc.tcp://…`.
    pub endpoint: String,
    /// SecurityGroupId.
    pub security_group: String,
    /// `sign-and-encrypt`, or `none`.
    pub channel: String,
    /// The channel's security policy, such as `Basic256Sha256`.
    pub policy: String,
    /// The URI of this application, as in its certificate.
    pub application_uri: String,
    /// The file of the service's certificate (DER or PEM): no other is trusted.
    pub server_certificate: Option<PathBuf>,
    /// The file of the own certificate.
    pub certificate: Option<PathBuf>,
    /// The file of the own private key (PEM).
    pub private_key: Option<PathBuf>,
    /// The user's name; without it the session is anonymous.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// StartingTokenId; 0 asks for the current key.
    pub starting_token: u32,
    /// RequestedKeyCount.
    pub key_count: u32,
}

/// The password is not shown.
impl core::fmt::Debug for Question {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Question({}, {})", self.endpoint, self.security_group)
    }
}

/// The answer: one line of JSON on the standard output of the program.
#[derive(Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
enum Line {
    Keys {
        policy: String,
        first_token: u32,
        keys: Vec<String>,
        time_to_next_key_ms: f64,
        key_lifetime_ms: f64,
    },
    Fault {
        /// True where another try with the same settings would fail, too.
        settings: bool,
        message: String,
    },
}

/// The outcome of a question.
#[derive(Debug)]
pub enum Asked {
    /// The service's answer, not checked.
    Answer(KeyAnswer),
    /// The service refuses what the settings say.
    Refused(String),
    /// No answer this time.
    Silent(String),
    /// The stop flag was set.
    Stopped,
}

/// The program; it ends with this value.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended, or nobody waits for its answer any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl KeyService {
    /// Asks the service once. Waits for the answer at most the service's timeout.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn ask(&self, stop: &AtomicBool) -> Result<Asked, StationError> {
        let failed = |source| StationError::KeyProgram {
            path: self.program.clone(),
            source,
        };
        let mut command = Command::new(&self.program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Program(command.stderr(Stdio::null()).spawn().map_err(failed)?);
        let text = serde_json::to_string(&self.question).unwrap_or_default();
        if let Some(mut input) = program.0.stdin.take() {
            // A program that does not read has ended: its output tells.
            let _ = writeln!(input, "{text}");
        }
        let Some(output) = program.0.stdout.take() else {
            return Ok(Asked::Silent("its output is closed".to_owned()));
        };
        let (sender, receiver) = channel();
        let reader = move || {
            let mut text = String::new();
            let read = output.take(LONGEST).read_to_string(&mut text);
            let _ = sender.send(read.map(|_| text));
        };
        let thread = thread::Builder::new().name("rtwire-answer".to_owned());
        thread
            .spawn(reader)
            .map_err(|source| StationError::Thread { source })?;
        let begun = Instant::now();
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(Ok(text)) => return Ok(understood(&text)),
                Err(RecvTimeoutError::Timeout) => {}
                _ => return Ok(Asked::Silent("its answer cannot be read".to_owned())),
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Asked::Stopped);
            }
            if begun.elapsed() > self.timeout {
                let seconds = self.timeout.as_secs_f64();
                return Ok(Asked::Silent(format!("no answer within {seconds} s")));
            }
        }
    }
}

/// Reads what the program wrote. Its text is not shown: it may hold keys.
fn understood(text: &str) -> Asked {
    let line = serde_json::from_str(text.trim());
    match line {
        Ok(Line::Keys {
            policy,
            first_token,
            keys,
            time_to_next_key_ms,
            key_lifetime_ms,
        }) => match keys.iter().map(|key| hex(key)).collect() {
            Some(keys) => Asked::Answer(KeyAnswer {
                policy,
                first_token,
                keys,
                time_to_next_key_ms,
                key_lifetime_ms,
            }),
            None => Asked::Silent("a key is no row of pairs of hexadecimal digits".to_owned()),
        },
        Ok(Line::Fault {
            settings: true,
            message,
        }) => Asked::Refused(message),
        Ok(Line::Fault { message, .. }) => Asked::Silent(message),
        Err(_) if text.is_empty() => Asked::Silent("the program that asks wrote nothing".into()),
        Err(_) => Asked::Silent("the program that asks wrote no answer".to_owned()),
    }
}
