//! The errors of a session.

use std::path::PathBuf;

use rtwire_agent::ClientError;
use rtwire_channel::ChannelError;
use rtwire_host::HostError;
use rtwire_plan::Plan;
use rtwire_sys::ErrorKind;

/// An error in opening or running a host's streams.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The plan has no such host.
    #[error("the plan has no host `{host}`; its hosts are {}", others.join(", "))]
    NoSuchHost {
        /// The name that was asked for.
        host: String,
        /// The names in the plan.
        others: Vec<String>,
    },
    /// The network has a router.
    #[error("{0}")]
    Routers(String),
    /// The host has several links.
    #[error("{0}")]
    SeveralLinks(String),
    /// The plan has no such stream.
    #[error("the plan has no stream `{stream}`; its streams are {}", others.join(", "))]
    NoSuchStream {
        /// The name that was asked for.
        stream: String,
        /// The names in the plan.
        others: Vec<String>,
    },
    /// The stream has several frames in each interval.
    #[error(
        "stream `{stream}` has `frames-per-interval`: a talker sends one frame in each interval; plan it with `rate` and `burst`"
    )]
    SeveralFrames {
        /// The stream.
        stream: String,
    },
    /// The card cannot stamp as asked.
    #[error("{0}")]
    Stamps(String),
    /// The host is not the stream's talker.
    #[error(
        "`{host}` is not the talker of stream `{stream}`: that is `{talker}`; `{host}` talks on: {}",
        listed(own)
    )]
    NotTalker {
        /// The stream.
        stream: String,
        /// This host.
        host: String,
        /// The stream's talker.
        talker: String,
        /// The streams that this host sends.
        own: Vec<String>,
    },
    /// The host is none of the stream's listeners.
    #[error(
        "`{host}` is no listener of stream `{stream}`: those are {}; `{host}` listens to: {}",
        listeners.join(", "),
        listed(own)
    )]
    NotListener {
        /// The stream.
        stream: String,
        /// This host.
        host: String,
        /// The stream's listeners.
        listeners: Vec<String>,
        /// The streams that this host receives.
        own: Vec<String>,
    },
    /// The same end of a stream was opened before and is still open.
    #[error(
        "the {end} of stream `{stream}` is open already in this session: use that one, or drop it first"
    )]
    OpenAlready {
        /// Talker or listener.
        end: &'static str,
        /// The stream.
        stream: String,
    },
    /// The interface is no Ethernet interface.
    #[error(
        "interface `{interface}` has no Ethernet address: name the interface that the link of host `{host}` is plugged into"
    )]
    NotEthernet {
        /// The interface.
        interface: String,
        /// The host.
        host: String,
    },
    /// The interface is down.
    #[error("interface `{0}` is down: ip link set dev {0} up")]
    Down(String),
    /// The interface takes no frames of the stream's length.
    #[error(
        "stream `{stream}` has frames of {needs} bytes behind the Ethernet header, and interface `{interface}` takes {mtu}: \
         ip link set dev {interface} mtu {needs}"
    )]
    FrameTooLong {
        /// The stream.
        stream: String,
        /// The interface.
        interface: String,
        /// The MTU that the stream needs, bytes.
        needs: u64,
        /// The interface's MTU, bytes.
        mtu: u32,
    },
    /// A stream without an interval cannot be sent in cycles.
    #[error(
        "stream `{0}` has a rate and no interval: send its values with `try_send` or `send`, as they arise"
    )]
    NotCyclic(String),
    /// A value is longer than the contract's.
    #[error(
        "a value of {bytes} bytes is more than the {fit} bytes that the plan gives to a frame of stream `{stream}`"
    )]
    ValueTooLong {
        /// The stream.
        stream: String,
        /// The length of the value, bytes.
        bytes: usize,
        /// The longest value that fits, bytes.
        fit: usize,
    },
    /// The contract's burst does not hold one frame.
    #[error(
        "a frame of stream `{0}` is larger than its contract's burst: plan it with a larger `burst`"
    )]
    Never(String),
    /// The host neither talks nor listens.
    #[error("host `{0}` has nothing to do: it is neither talker nor listener of any stream")]
    Idle(String),
    /// The address of a UDP stream's only listener is missing.
    #[error(
        "stream `{stream}` goes over UDP to `{listener}`: say where that is with --peer {listener}=ADDRESS"
    )]
    NoAddress {
        /// The stream.
        stream: String,
        /// Its listener.
        listener: String,
    },
    /// An address for a host that the plan does not have.
    #[error("--peer {0}: the plan has no such host")]
    NoSuchPeer(String),
    /// Listeners of RTDiP streams cannot poll the driver.
    #[error(
        "stream `{0}` is no UDP stream: packet sockets cannot poll the driver; choose another way to receive"
    )]
    CannotPoll(String),
    /// A transmit path on which the plan's promises would not hold.
    #[error(
        "--path {path}: frames would go past {why} at interface `{interface}`, which the plan's promises count on; send by \
         `qdisc` (--no-admission runs it all the same)"
    )]
    PastTheQueue {
        /// The transmit path.
        path: &'static str,
        /// The interface.
        interface: String,
        /// The part of the plan's assumptions that the path bypasses.
        why: String,
    },
    /// Two streams of this host need the same transmit queue.
    #[error(
        "--path {path}: streams `{}` and `{}` both have transmit queue {queue} of interface `{interface}`, which takes one sender; \
         send by `{instead}`",
        streams[0], streams[1]
    )]
    OneSender {
        /// The transmit path.
        path: &'static str,
        /// The path to take in its place.
        instead: &'static str,
        /// The streams.
        streams: [String; 2],
        /// The queue.
        queue: u32,
        /// The interface.
        interface: String,
    },
    /// Values for or from a stream could not be exchanged.
    #[error("stream `{stream}`: {what}")]
    Values {
        /// The stream.
        stream: String,
        /// The fault, and the way to correct it.
        what: String,
    },
    /// A stream's channel could not be opened or used.
    #[error("stream `{stream}`: {source}")]
    Channel {
        /// The stream.
        stream: String,
        /// The channel's error.
        source: ChannelError,
    },
    /// The interface's endpoint could not be opened or queried.
    #[error(transparent)]
    Endpoint(#[from] ChannelError),
    /// The host's own settings were refused.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The system refused a request.
    #[error(transparent)]
    System(#[from] rtwire_sys::Error),
    /// The file of evidence could not be created.
    #[error("--evidence: cannot write `{}`: {source}", file.display())]
    Evidence {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The host's agent cannot be asked, or refuses.
    #[error("the agent at `{}`: {source}", path.display())]
    Agent {
        /// The path of its socket.
        path: PathBuf,
        /// The reason.
        source: ClientError,
    },
    /// The host's agent has ended. The streams that it had opened for this program have ended with it.
    #[error(
        "the agent at `{}` has ended, and this program's streams with it: open the session again",
        path.display()
    )]
    AgentGone {
        /// The path of its socket.
        path: PathBuf,
    },
    /// The agent serves another host or interface.
    #[error(
        "the agent at `{}` serves {serves}, not {wanted}: name the socket of that one",
        path.display()
    )]
    OtherAgent {
        /// The path of its socket.
        path: PathBuf,
        /// Its host and its interface, in words.
        serves: String,
        /// This session's host and interface, in words.
        wanted: String,
    },
    /// The options ask for something that the agent does not have.
    #[error(
        "the agent at `{}` does not have {what}: leave that option out, or open with privileges, without the agent",
        path.display()
    )]
    NotByAgent {
        /// The path of its socket.
        path: PathBuf,
        /// The thing that was asked for.
        what: String,
    },
    /// Neither the agent nor the program's own privileges open the streams.
    #[error("{why}. And directly: {source}")]
    NeitherWay {
        /// The reason why the agent did not.
        why: String,
        /// The reason why the program could not.
        source: Box<SessionError>,
    },
    /// A thread could not do its work, in words for the user.
    #[error("{0}")]
    Work(String),
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

impl SessionError {
    pub(crate) fn no_such_stream(plan: &Plan, stream: &str) -> Self {
        Self::NoSuchStream {
            stream: stream.to_owned(),
            others: plan.streams.iter().map(|one| one.name.clone()).collect(),
        }
    }

    /// Returns true if the reason is a privilege that this program does not have.
    pub(crate) fn is_privilege(&self) -> bool {
        match self {
            Self::Channel { source, .. } | Self::Endpoint(source) => source.capability().is_some(),
            Self::System(error) => error.capability().is_some(),
            _ => false,
        }
    }

    /// Returns true if something is missing on the host (exit code 3), false if the input is wrong (2).
    #[must_use]
    pub fn is_host_lacking(&self) -> bool {
        match self {
            Self::Host(_) | Self::Channel { .. } | Self::Endpoint(_) | Self::Work(_) => true,
            Self::Stamps(_) => true,
            Self::Down(_) | Self::FrameTooLong { .. } => true,
            Self::Agent { .. } | Self::AgentGone { .. } | Self::OtherAgent { .. } => true,
            Self::NeitherWay { .. } => true,
            Self::System(error) => error.kind() != ErrorKind::InterfaceMissing,
            _ => false,
        }
    }
}
