//! The errors of the lab.

use std::io;
use std::path::PathBuf;

/// Why a lab could not be brought up, run or taken down.
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
    /// The system refused something that has no better name.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file or directory could not be used.
    #[error("`{}`: {source}{}", path.display(), if source.kind() == io::ErrorKind::PermissionDenied { " (a lab needs root)" } else { "" })]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program that the user named cannot be started.
    #[error("cannot start `{program}`: {source}; name a program that this host has, or install it")]
    Program {
        /// Which.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// A lab needs privileges that this process lacks.
    #[error(
        "a lab makes network namespaces, loads BPF programs and runs real-time threads: it needs root (missing: {missing})"
    )]
    Privilege {
        /// The capabilities that are missing, by name.
        missing: String,
    },
    /// The network does not fit one machine.
    #[error("the network has {nodes} nodes; a lab on one machine takes {most} at most")]
    TooLarge {
        /// How many it has.
        nodes: usize,
        /// How many are possible.
        most: usize,
    },
    /// A link is faster than the lab can emulate.
    #[error("link {link}: a lab emulates links of up to {} Gbit/s", most_bps / 1_000_000_000)]
    TooFast {
        /// The link's ends.
        link: String,
        /// The fastest that is possible, bit/s.
        most_bps: u64,
    },
    /// A frame overhead is larger than the lab can emulate.
    #[error("frame-overhead of {bytes} B: a lab emulates {most} B at most")]
    TooMuchOverhead {
        /// What the description has.
        bytes: u64,
        /// What is possible.
        most: u64,
    },
    /// The machine was never quiet during the calibration.
    #[error(
        "the unloaded network could not be calibrated, because the machine stalled all the time: nothing can be measured on it now; try again, or calibrate longer (--calibration)"
    )]
    NeverQuiet,
    /// The run is longer than memory for its samples.
    #[error(
        "a run of {seconds} s would take {samples} samples; this lab keeps {most} at most: shorten --duration"
    )]
    TooLong {
        /// The duration.
        seconds: u64,
        /// Samples it would take.
        samples: u64,
        /// Samples there is room for.
        most: u64,
    },
    /// The plan overflowed after the lab's own latencies were added.
    #[error("the plan with the lab's own latencies: {0}")]
    Plan(String),
    /// A node's process failed.
    #[error("host `{host}`: {message}")]
    Worker {
        /// The host whose process it is.
        host: String,
        /// What it said.
        message: String,
    },
    /// There is no such lab.
    #[error("there is no lab `{id}`{}", if others.is_empty() { "; none is up".to_owned() } else { format!("; there is: {}", others.join(", ")) })]
    NoSuchLab {
        /// What was asked for.
        id: String,
        /// Those there are.
        others: Vec<String>,
    },
    /// There is no such node in the lab.
    #[error("lab `{id}` has no node `{node}`; it has: {}", others.join(", "))]
    NoSuchNode {
        /// The lab.
        id: String,
        /// What was asked for.
        node: String,
        /// Those there are.
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
    /// Two streams of a host by AF_XDP.
    #[error(
        "--transmit-path xdp: streams `{}` and `{}` both leave host `{host}`, whose interface has one transmit queue, and that \
         takes one sender; send by `direct` or `qdisc`",
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
    /// Whether the host lacks something (exit code 3) rather than the input being wrong.
    #[must_use]
    pub fn is_host_lacking(&self) -> bool {
        match self {
            Self::Host(_) | Self::Bpf(_) | Self::Noise(_) | Self::Privilege { .. } => true,
            Self::Io(e) | Self::File { source: e, .. } => {
                e.kind() == io::ErrorKind::PermissionDenied
            }
            Self::Worker { .. } | Self::Program { .. } => true,
            _ => false,
        }
    }
}
