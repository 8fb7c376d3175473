//! The question for a host's clocks, and the answer: data, with a JSON Schema.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where `ptp4l` listens unless it is told otherwise.
pub const DEFAULT_SOCKET: &str = "/var/run/ptp4l";

/// What is asked, and what is to be held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockQuestion {
    /// The daemon's socket.
    pub socket: PathBuf,
    /// The PTP domain.
    pub domain: u8,
    /// How far the clock may be from its master, ns.
    pub limit_ns: u64,
    /// This host gives the time to the others.
    pub gives_time: bool,
    /// The interface's clock, `/dev/ptpN`, if it has one.
    pub phc: Option<u32>,
    /// How long an answer may take.
    pub patience: Duration,
}

impl Default for ClockQuestion {
    fn default() -> Self {
        Self {
            socket: PathBuf::from(DEFAULT_SOCKET),
            domain: 0,
            limit_ns: 1_000,
            gives_time: false,
            phc: None,
            patience: Duration::from_millis(500),
        }
    }
}

/// The state of this host's clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "rtwire clock")]
pub struct ClockState {
    /// 1.
    pub version: u32,
    /// When, ns since 1970 (UTC).
    pub time_ns: u64,
    /// Whether the host has the network's time within the limit.
    pub synchronised: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// How far the clock may be from its master, ns.
    pub limit_ns: u64,
    /// What `ptp4l` says; null if it does not answer.
    pub daemon: Option<Daemon>,
    /// The machine's own clocks.
    pub system: SystemClock,
}

/// What `ptp4l` says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Daemon {
    /// The clock's name.
    pub identity: String,
    /// The clock that all follow.
    pub grandmaster: String,
    /// Whether this clock follows itself.
    pub own_grandmaster: bool,
    /// From the master, ns; null where there is none.
    pub offset_ns: Option<i64>,
    /// To the master, ns.
    pub delay_ns: Option<i64>,
    /// Clocks between the grandmaster and this one.
    pub steps_removed: Option<u16>,
    /// Its ports.
    pub ports: Vec<DaemonPort>,
    /// How far TAI is ahead of UTC, s, as the grandmaster says.
    pub utc_offset_s: Option<i16>,
    /// Whether the grandmaster vouches for it.
    pub utc_offset_valid: bool,
    /// Whether the time is TAI.
    pub ptp_timescale: bool,
}

/// A port of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonPort {
    /// From 1.
    pub number: u16,
    /// `MASTER`, `SLAVE` …
    pub state: String,
}

/// The machine's own clocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemClock {
    /// How far CLOCK_TAI is ahead of CLOCK_REALTIME, s; 0 where nobody told the kernel.
    pub tai_offset_s: i64,
    /// How far the interface's clock is ahead of CLOCK_TAI, ns; null where it has none.
    pub phc_minus_tai_ns: Option<i64>,
    /// How well that could be read, ns.
    pub phc_uncertainty_ns: Option<u64>,
}

/// The JSON Schema of a [`ClockState`].
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(ClockState).to_value()
}
