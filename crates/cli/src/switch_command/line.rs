//! The session's bytes: a child process, whose standard input and output lead to the switch.

use std::io::{Read as _, Write as _};
use std::process::{self, Child, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_netconf::{Action, Client, Report};

/// The time for the child to end by itself, once its input has ended.
const END_WITHIN: Duration = Duration::from_secs(2);
/// The pause before the first request. netconfd 2.13 leaves a request alone that comes together with the hello.
const BEHIND_HELLO: Duration = Duration::from_millis(50);
/// The bytes that are read at once.
const PART: usize = 64 * 1024;

/// The command that leads to the switch.
pub(super) enum Command<'a> {
    /// `ssh`'s subsystem at this host (RFC 6242, section 3).
    Ssh(&'a str),
    /// A line for the shell.
    Shell(&'a str),
}

impl Command<'_> {
    fn words(&self) -> Vec<&str> {
        match self {
            Command::Ssh(host) => vec!["ssh", "-s", "--", host, "netconf"],
            Command::Shell(line) => vec!["sh", "-c", line],
        }
    }

    fn shown(&self) -> String {
        match self {
            Command::Ssh(host) => format!("ssh -s {host} netconf"),
            Command::Shell(line) => (*line).to_owned(),
        }
    }
}

/// The child and the threads that move its bytes.
struct Line {
    child: Child,
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
}

impl Line {
    fn open(command: &Command<'_>) -> Result<Self, String> {
        let words = command.words();
        let mut child = process::Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start `{}`: {error}", command.shown()))?;
        let (to, waiting) = mpsc::channel::<Vec<u8>>();
        let (sender, from) = mpsc::channel();
        if let Some(mut input) = child.stdin.take() {
            // A switch that does not read must not stop the wait for its reply.
            thread::spawn(move || {
                for bytes in waiting {
                    if input
                        .write_all(&bytes)
                        .and_then(|()| input.flush())
                        .is_err()
                    {
                        break;
                    }
                }
            });
        }
        if let Some(mut output) = child.stdout.take() {
            thread::spawn(move || {
                let mut part = vec![0; PART];
                while let Ok(count @ 1..) = output.read(&mut part) {
                    if sender.send(part[..count].to_vec()).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Self { child, to, from })
    }

    /// Ends the child: its input ends first.
    fn close(self) -> Option<ExitStatus> {
        let Self { mut child, to, .. } = self;
        drop(to);
        let until = Instant::now() + END_WITHIN;
        while Instant::now() < until {
            match child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
        let _ = child.kill();
        child.wait().ok()
    }
}

/// The place that a session has come to.
pub(super) enum Turn {
    /// The switch has the settings, and waits for the confirmation.
    Decide,
    /// The session is over.
    Done(Box<Report>),
}

/// A session with a switch. If it is dropped before its end, its input ends, and the switch undoes what was not confirmed.
pub(super) struct Session {
    client: Client,
    /// `None` behind the end.
    line: Option<Line>,
    /// The command, for messages.
    shown: String,
    /// The longest time for a reply.
    within: Duration,
    /// The messages that were sent.
    sent: u32,
}

impl Session {
    /// Starts the command.
    ///
    /// # Errors
    /// It cannot be started: the message for the user.
    pub(super) fn open(
        client: Client,
        command: &Command<'_>,
        within: Duration,
    ) -> Result<Self, String> {
        Ok(Self {
            client,
            line: Some(Line::open(command)?),
            shown: command.shown(),
            within,
            sent: 0,
        })
    }

    /// Begins, and goes as far as it can.
    ///
    /// # Errors
    /// The message for the user, with the settings that the switch is left with. The session is over.
    pub(super) fn begin(&mut self) -> Result<Turn, String> {
        let action = self.client.start();
        self.go_on(action)
    }

    /// Confirms. Errors are those of [`Session::begin`].
    pub(super) fn confirm(&mut self) -> Result<Turn, String> {
        let action = self.client.confirm();
        self.go_on(action)
    }

    /// Has the switch show its settings once more. Errors are those of [`Session::begin`].
    pub(super) fn look_again(&mut self) -> Result<Turn, String> {
        let action = self.client.look_again();
        self.go_on(action)
    }

    /// Has the switch put its settings back. Errors are those of [`Session::begin`].
    pub(super) fn cancel(&mut self) -> Result<Turn, String> {
        let action = self.client.cancel();
        self.go_on(action)
    }

    fn go_on(&mut self, action: Action) -> Result<Turn, String> {
        let held = self.hold(action);
        if matches!(held, Ok(Turn::Decide)) {
            return held;
        }
        let status = self.line.take().and_then(Line::close);
        held.map_err(|error| {
            let ended = match status.filter(|status| !status.success()) {
                Some(status) => format!(" (`{}` ended with {status})", self.shown),
                None => String::new(),
            };
            let rest = self.client.rest();
            let rest = match rest.is_empty() {
                true => String::new(),
                false => format!(", which began with `{rest}`"),
            };
            format!("{error}{rest}{ended}; {}", self.client.left())
        })
    }

    fn hold(&mut self, mut action: Action) -> Result<Turn, String> {
        let Some(line) = &self.line else {
            return Err("the session is over".to_owned());
        };
        loop {
            action = match action {
                Action::Send(bytes) => {
                    self.sent += 1;
                    if self.sent == 2 {
                        thread::sleep(BEHIND_HELLO);
                    }
                    let _ = line.to.send(bytes);
                    let more = self.client.received(&[]);
                    more.map_err(|error| error.to_string())?
                }
                Action::Wait => wait(&mut self.client, line, self.within)?,
                Action::Decide => return Ok(Turn::Decide),
                Action::Done(report) => return Ok(Turn::Done(report)),
            };
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.line.take().and_then(Line::close);
    }
}

/// Waits for a whole reply.
fn wait(client: &mut Client, line: &Line, within: Duration) -> Result<Action, String> {
    let until = Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match line.from.recv_timeout(left) {
            Ok(bytes) => match client.received(&bytes) {
                Ok(Action::Wait) => {}
                Ok(action) => return Ok(action),
                Err(error) => return Err(error.to_string()),
            },
            Err(RecvTimeoutError::Disconnected) => {
                return client.ended().map_err(|error| error.to_string());
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!(
                    "it was asked {}, and {} s brought no whole reply",
                    client.waits_for(),
                    within.as_secs_f64()
                ));
            }
        }
    }
}
