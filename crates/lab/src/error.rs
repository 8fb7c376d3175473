//! The errors of the lab.

use std::io;
use std::path::PathBuf;

/// An error while a lab is started, run or removed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The host refused a setting.
    #[error(transparent)]
    Host(#[from] rtwire_host::HostError),
    /// A kernel program was refused.
    #[error(transparent)]
    Bpf(#[from] rtwire_sys::bpf::BpfError),
    /// A host's streams cannot be laid out.
    #[error(transparent)]
    Session(#[from] rtwire_session::SessionError),
    /// The host's noise could not be recorded.
    #[error("cannot record the host's noise: {0}")]
    Noise(#[from] rtwire_measure::noise::NoiseError),
    /// The system refused an operation that has no variant of its own.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file or directory could not be used.
    #[error("`{}`: {source}{}", path.display(), if source.kind() == io::ErrorKind::PermissionDenied { " (a lab needs root)" } else { "" })]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program named by the user cannot be started.
    #[error("cannot start `{program}`: {source}; name a program that this host has, or install it")]
    Program {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// A lab needs privileges that this process lacks.
    #[error(
        "a lab makes network namespaces, loads BPF programs and runs real-time threads: it needs root (missing: {missing})"
    )]
    Privilege {
        /// The names of the missing capabilities.
        missing: String,
    },
    /// The clock was set while the unloaded network was measured, or before a frame was sent.
    #[error(
        "{0} before the run began, so its times mean nothing: run it again, and keep daemons that set the clock from it meanwhile"
    )]
    ClockSet(rtwire_measure::clock_steps::ClockStep),
    /// The network does not fit one machine.
    #[error("the network has {nodes} nodes; a lab on one machine supports at most {most}")]
    TooLarge {
        /// Its number of nodes.
        nodes: usize,
        /// The largest possible number.
        most: usize,
    },
    /// A link is faster than the lab can emulate.
    #[error("link {link}: a lab emulates links of up to {} Gbit/s", most_bps / 1_000_000_000)]
    TooFast {
        /// The link's ends.
        link: String,
        /// The highest possible rate, bit/s.
        most_bps: u64,
    },
    /// A frame overhead is larger than the lab can emulate.
    #[error("frame-overhead of {bytes} B: a lab emulates at most {most} B")]
    TooMuchOverhead {
        /// The overhead in the description.
        bytes: u64,
        /// The largest possible overhead.
        most: u64,
    },
    /// A port was later than any calibrated latency may be, and no recorded stall of the machine explains it.
    #[error(
        "the unloaded network could not be calibrated, because the machine stalled all the time: nothing can be measured on it now; try again, or calibrate longer (--calibration)"
    )]
    NeverQuiet,
    /// The samples of the run do not fit into memory.
    #[error(
        "a run of {seconds} s would take {samples} samples; this lab has room for {most}: shorten --duration"
    )]
    TooLong {
        /// The run's duration.
        seconds: u64,
        /// The number of samples that it needs.
        samples: u64,
        /// The number of samples that fit.
        most: u64,
    },
    /// A talker or listener of the calibration ended early.
    #[error("the calibration: {0}")]
    Calibration(String),
    /// The simulator refuses the recorded frames.
    #[error(
        "the recorded frames cannot be replayed through the described network: {0}; please report this"
    )]
    Replay(#[from] rtwire_sim::SimulationError),
    /// A node's process failed.
    #[error("host `{host}`: {message}")]
    Worker {
        /// The host whose process it is.
        host: String,
        /// The process's message.
        message: String,
    },
    /// The manager or an agent failed.
    #[error("{what}: {said}")]
    Managed {
        /// The program.
        what: String,
        /// Its last message.
        said: String,
    },
    /// Frames that pass an agent's queue are not limited.
    #[error(
        "--transmit-path {path}: the description has a manager, and the agents limit what passes the queue; send by `qdisc`"
    )]
    PastTheAgent {
        /// The path.
        path: &'static str,
    },
    /// There is no such lab.
    #[error("there is no lab `{id}`{}", if others.is_empty() { "; no lab is up".to_owned() } else { format!("; existing labs: {}", others.join(", ")) })]
    NoSuchLab {
        /// The requested id.
        id: String,
        /// The existing labs.
        others: Vec<String>,
    },
    /// There is no such node in the lab.
    #[error("lab `{id}` has no node `{node}`; it has: {}", others.join(", "))]
    NoSuchNode {
        /// The lab.
        id: String,
        /// The requested node.
        node: String,
        /// The existing nodes.
        others: Vec<String>,
    },
    /// The lab still runs.
    #[error("lab `{id}` still runs (process {pid}): end that process first")]
    StillRunning {
        /// The lab.
        id: String,
        /// Its process.
        pid: u32,
    },
    /// Two streams of a host use AF_XDP.
    #[error(
        "--transmit-path xdp: streams `{}` and `{}` both leave host `{host}`, whose interface has one transmit queue for \
         one sender; send by `direct` or `qdisc`",
        streams[0], streams[1]
    )]
    OneSender {
        /// The host.
        host: String,
        /// The streams.
        streams: [String; 2],
    },
    /// The user stopped the run before anything was measured.
    #[error("stopped before the run began")]
    Stopped,
}

impl LabError {
    /// Returns true if the host lacks something (exit code 3), false if the input is wrong.
    #[must_use]
    pub fn is_host_lacking(&self) -> bool {
        match self {
            Self::Host(_) | Self::Bpf(_) | Self::Noise(_) | Self::Privilege { .. } => true,
            Self::Io(e) | Self::File { source: e, .. } => {
                e.kind() == io::ErrorKind::PermissionDenied
            }
            Self::Worker { .. } | Self::Program { .. } | Self::Managed { .. } => true,
            _ => false,
        }
    }
}
