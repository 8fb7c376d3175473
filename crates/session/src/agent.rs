//! The host's agent, where one runs: a program without privilege has its sockets from there.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rtwire_agent::{AgentClient, ClientError, DEFAULT_SOCKET, End, StreamCounts, StreamWish};
use rtwire_channel::{ReceivePath, TxPath};
use rtwire_sys::interface::Interface;

use crate::error::SessionError;
use crate::options::{AgentUse, PeerAddress, SessionOptions};

/// The longest wait for the agent's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The stack of the thread that waits for the agent's end: it does nothing else.
const STACK_BYTES: usize = 64 << 10;

/// The one who opened the sockets of a session's streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedBy {
    /// The program itself, with its own privileges.
    Program {
        /// The reason why an agent that may be there was not asked.
        why: Option<String>,
    },
    /// The host's agent.
    Agent {
        /// The path of the agent's socket.
        socket: PathBuf,
    },
}

/// A connection to the agent, for all streams of a session.
#[derive(Debug)]
pub(crate) struct Agent {
    client: Mutex<AgentClient>,
    gone: Arc<AtomicBool>,
    path: PathBuf,
}

/// The outcome of the search for an agent.
pub(crate) enum Found {
    Agent(Arc<Agent>),
    /// There is none for this session, and perhaps a reason.
    None(Option<String>),
}

/// Returns what the options ask for and the agent does not have.
fn not_offered(options: &SessionOptions) -> Option<&'static str> {
    let mac = |(_, address): &(String, PeerAddress)| matches!(address, PeerAddress::Mac(_));
    [
        (
            options.path != TxPath::Qdisc,
            "a transmit path past the queue or with launch times",
        ),
        (
            options.receive_path != ReceivePath::Auto,
            "a certain receive path",
        ),
        (options.polls, "polling of the driver"),
        (options.card.is_some(), "the card's stamps"),
        (
            options.police.is_some(),
            "a police of the program's own (the agent polices by itself)",
        ),
        (
            options.peers.iter().any(mac),
            "frames to a peer's own address (the agent sends to the stream's group)",
        ),
    ]
    .into_iter()
    .find_map(|(asked, what)| asked.then_some(what))
}

/// Looks for the agent of an interface.
pub(crate) fn find(
    options: &SessionOptions,
    host: &str,
    interface: &Interface,
) -> Result<Found, SessionError> {
    let lacks = not_offered(options);
    match (&options.agent, lacks) {
        (AgentUse::Never, _) => Ok(Found::None(None)),
        (AgentUse::At(path), Some(what)) => Err(SessionError::NotByAgent {
            path: path.clone(),
            what: what.to_owned(),
        }),
        (AgentUse::IfThere, Some(what)) => Ok(Found::None(Some(format!("no agent has {what}")))),
        (AgentUse::At(path), None) => {
            let agent = Agent::connect(path).map_err(|source| SessionError::Agent {
                path: path.clone(),
                source,
            })?;
            agent.check(host, interface)?;
            Ok(Found::Agent(Arc::new(agent)))
        }
        (AgentUse::IfThere, None) => {
            let mut why = None;
            let places = [
                rtwire_agent::socket_of(&interface.name),
                DEFAULT_SOCKET.into(),
            ];
            for path in places {
                match Agent::connect(&path) {
                    Ok(agent) => match agent.check(host, interface) {
                        Ok(()) => return Ok(Found::Agent(Arc::new(agent))),
                        Err(error) => why = Some(error.to_string()),
                    },
                    Err(ClientError::Unreachable { error, .. }) if is_absent(&error) => {}
                    Err(error) => why = Some(error.to_string()),
                }
            }
            Ok(Found::None(why))
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    kinds.contains(&error.kind())
}

impl Agent {
    fn connect(path: &Path) -> Result<Agent, ClientError> {
        let mut client = AgentClient::connect(path)?;
        client.set_patience(PATIENCE)?;
        let gone = Arc::new(AtomicBool::new(false));
        let (watch, flag) = (client.watch()?, Arc::clone(&gone));
        // The hot path reads a flag: no system call tells it that the agent is there.
        let thread = std::thread::Builder::new().name("rtwire-agent".to_owned());
        thread
            .stack_size(STACK_BYTES)
            .spawn(move || {
                watch.wait();
                flag.store(true, Ordering::Relaxed);
            })
            .map_err(|error| ClientError::Gone { error })?;
        Ok(Agent {
            client: Mutex::new(client),
            gone,
            path: path.to_owned(),
        })
    }

    fn asked<T>(
        &self,
        ask: impl FnOnce(&mut AgentClient) -> Result<T, ClientError>,
    ) -> Result<T, SessionError> {
        self.there()?;
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&mut client).map_err(|source| match source {
            // An answer that came too late would be taken for that of the next question.
            ClientError::Gone { .. } => {
                client.end();
                self.gone.store(true, Ordering::Relaxed);
                self.ended()
            }
            source => SessionError::Agent {
                path: self.path.clone(),
                source,
            },
        })
    }

    /// Refuses an agent of another host or interface.
    fn check(&self, host: &str, interface: &Interface) -> Result<(), SessionError> {
        let facts = self.asked(AgentClient::host)?;
        let same =
            facts.host == host && facts.index == interface.index && facts.address == interface.mac;
        if same {
            return Ok(());
        }
        let words = |host: &str, interface: &str| format!("host `{host}` on `{interface}`");
        Err(SessionError::OtherAgent {
            path: self.path.clone(),
            serves: words(&facts.host, &facts.interface),
            wanted: words(host, &interface.name),
        })
    }

    #[cold]
    fn ended(&self) -> SessionError {
        SessionError::AgentGone {
            path: self.path.clone(),
        }
    }

    fn there(&self) -> Result<(), SessionError> {
        match self.gone.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(self.ended()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens one end of a stream.
    pub(crate) fn open(
        self: &Arc<Self>,
        end: End,
        stream: &str,
        (port, key): (u16, u32),
    ) -> Result<(Lease, OwnedFd), SessionError> {
        let stream = stream.to_owned();
        let wish = StreamWish {
            end,
            stream: stream.clone(),
            port,
            key,
        };
        let (_, socket) = self.asked(|client| client.open(wish))?;
        let lease = Lease {
            agent: Arc::clone(self),
            end,
            stream,
        };
        Ok((lease, socket))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.end();
    }
}

/// One end of a stream that the agent has opened. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    agent: Arc<Agent>,
    end: End,
    stream: String,
}

impl Lease {
    /// Refuses once the agent has ended: the next one does not know this program's sockets. Fit for a real-time loop.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), SessionError> {
        self.agent.there()
    }

    pub(crate) fn counts(&self) -> Result<StreamCounts, SessionError> {
        let of = |client: &mut AgentClient| client.stream_counts(self.end, &self.stream);
        self.agent.asked(of)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // What cannot be given back now is with the connection.
        let _ = self
            .agent
            .asked(|client| client.close(self.end, &self.stream));
    }
}
