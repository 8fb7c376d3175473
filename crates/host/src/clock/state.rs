//! The question for a host's clocks, and the answer: data, with a JSON Schema.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The default path of `ptp4l`'s management socket.
pub const DEFAULT_SOCKET: &str = "/var/run/ptp4l";

/// The daemon to ask, and the limit to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockQuestion {
    /// The daemon's socket.
    pub socket: PathBuf,
    /// The PTP domain.
    pub domain: u8,
    /// The largest allowed offset of the clock from its master, ns.
    pub limit_ns: u64,
    /// True if this host is the grandmaster.
    pub gives_time: bool,
    /// The interface's clock, `/dev/ptpN`, if it has one.
    pub phc: Option<u32>,
    /// The longest wait for an answer.
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
    /// The time of this state, ns since 1970 (UTC).
    pub time_ns: u64,
    /// True if the host has the network's time within the limit.
    pub synchronised: bool,
    /// The reasons why it does not.
    pub reasons: Vec<String>,
    /// The largest allowed offset of the clock from its master, ns.
    pub limit_ns: u64,
    /// The state of `ptp4l`; null if it does not answer.
    pub daemon: Option<Daemon>,
    /// The machine's own clocks.
    pub system: SystemClock,
}

/// The state of `ptp4l`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Daemon {
    /// The clock's name.
    pub identity: String,
    /// The clock that all follow.
    pub grandmaster: String,
    /// True if this clock is its own grandmaster.
    pub own_grandmaster: bool,
    /// The offset from the master, ns; null without a master.
    pub offset_ns: Option<i64>,
    /// The path delay to the master, ns; null without a master.
    pub delay_ns: Option<i64>,
    /// The number of clocks between the grandmaster and this one.
    pub steps_removed: Option<u16>,
    /// Its ports.
    pub ports: Vec<DaemonPort>,
    /// The offset of TAI from UTC, s, as the grandmaster says.
    pub utc_offset_s: Option<i16>,
    /// True if the grandmaster vouches for that offset.
    pub utc_offset_valid: bool,
    /// True if the timescale is TAI.
    pub ptp_timescale: bool,
}

/// A port of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonPort {
    /// The port number, from 1.
    pub number: u16,
    /// The port's state: `MASTER`, `SLAVE` …
    pub state: String,
}

/// The machine's own clocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemClock {
    /// The offset of CLOCK_TAI from CLOCK_REALTIME, s; 0 where nobody told the kernel.
    pub tai_offset_s: i64,
    /// The offset of the interface's clock from CLOCK_TAI, ns; null where it has none.
    pub phc_minus_tai_ns: Option<i64>,
    /// The uncertainty of that reading, ns.
    pub phc_uncertainty_ns: Option<u64>,
}

/// Returns the JSON Schema of a [`ClockState`].
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(ClockState).to_value()
}
