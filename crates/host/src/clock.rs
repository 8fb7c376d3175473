//! Does this host share the network's time? Asked of `ptp4l` over its management socket, and of the clocks themselves.
//!
//! ```text
//!   ptp4l ──(UNIX socket, rtwire_wire::ptp)──► Daemon: offset, ports, grandmaster, UTC offset
//!   kernel ─────────────────────────────────► SystemClock: TAI offset, distance to the interface's clock
//!                                                   │
//!                                           ClockState: synchronised, or why not
//! ```

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rtwire_sys::clock::{self, Clock};
use rtwire_wire::ptp::{self, Data, Message, id};
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

/// Why the daemon could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The socket is not there or not for us.
    #[error(
        "cannot ask ptp4l at {}: {source}{}", .socket.display(), advice(source)
    )]
    Socket {
        /// The daemon's socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nobody answered.
    #[error(
        "ptp4l at {} does not answer a question for {what} in domain {domain}; is the domain right (--domain)?",
        .socket.display()
    )]
    Silent {
        /// The daemon's socket.
        socket: PathBuf,
        /// What was asked for.
        what: &'static str,
        /// The domain.
        domain: u8,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "; it is not running, or its `uds_address` is another one (--socket)"
        }
        io::ErrorKind::PermissionDenied => "; run as root",
        _ => "",
    }
}

/// A socket of our own, whose name is removed with it.
struct Asker {
    socket: UnixDatagram,
    own: PathBuf,
    server: PathBuf,
    domain: u8,
    transport_specific: u8,
    sequence: u16,
    patience: Duration,
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.own);
    }
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Asker {
    fn new(question: &ClockQuestion) -> io::Result<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // The daemon answers to a name in the file system.
        let own = std::env::temp_dir().join(format!("rtw-clock-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&own);
        let socket = UnixDatagram::bind(&own)?;
        let asker = Self {
            socket,
            own,
            server: question.socket.clone(),
            domain: question.domain,
            transport_specific: 0,
            sequence: 0,
            patience: question.patience,
        };
        asker.socket.connect(&asker.server)?;
        Ok(asker)
    }

    /// Asks; gives each answer to `take` until that says it has enough, or the patience is over. Whether any came.
    fn ask(&mut self, what: u16, take: &mut dyn FnMut(&Data<'_>) -> bool) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let asker = u16::try_from(std::process::id() & 0xffff).unwrap_or(1);
        let mut bytes = [0; ptp::QUESTION_OCTETS];
        let length = ptp::question(
            what,
            self.domain,
            self.transport_specific,
            self.sequence,
            asker,
            &mut bytes,
        )
        .map_err(io::Error::other)?;
        self.socket.send(&bytes[..length])?;
        let until = Instant::now() + self.patience;
        let mut any = false;
        let mut room = [0; 1500];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(any);
            }
            self.socket.set_read_timeout(Some(left))?;
            let length = match self.socket.recv(&mut room) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(any),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // What is no answer to this question (a late one to an earlier) is left alone.
            if let Ok(message) = Message::parse(&room[..length]) {
                if message.sequence == self.sequence && message.action == ptp::Action::Response {
                    any = true;
                    if take(&message.data) {
                        return Ok(true);
                    }
                }
            }
        }
    }
}

/// What `ptp4l` says of itself.
///
/// # Errors
/// [`ClockError`]: it is not there, or does not answer.
pub fn daemon(question: &ClockQuestion) -> Result<Daemon, ClockError> {
    let broken = |source| ClockError::Socket {
        socket: question.socket.clone(),
        source,
    };
    let silent = |what| ClockError::Silent {
        socket: question.socket.clone(),
        what,
        domain: question.domain,
    };
    let mut asker = Asker::new(question).map_err(broken)?;
    let mut daemon = Daemon::default();
    let mut ports = 0;
    // Profiles after 802.1AS mark their messages, and answer only to such.
    let mut answered = false;
    for specific in [0, 1] {
        asker.transport_specific = specific;
        let take = &mut |data: &Data<'_>| {
            if let Data::Default {
                ports: number,
                identity,
                ..
            } = data
            {
                daemon.identity = identity.to_string();
                ports = usize::from(*number);
                return true;
            }
            false
        };
        if asker.ask(id::DEFAULT_DATA_SET, take).map_err(broken)? {
            answered = true;
            break;
        }
    }
    if !answered {
        return Err(silent("DEFAULT_DATA_SET"));
    }
    let take = &mut |data: &Data<'_>| {
        if let Data::TimeStatus {
            offset_ns,
            grandmaster_present,
            grandmaster,
            ..
        } = data
        {
            daemon.grandmaster = grandmaster.to_string();
            daemon.offset_ns = grandmaster_present.then_some(*offset_ns);
            return true;
        }
        false
    };
    if !asker.ask(id::TIME_STATUS_NP, take).map_err(broken)? {
        return Err(silent("TIME_STATUS_NP"));
    }
    daemon.own_grandmaster = daemon.grandmaster == daemon.identity || daemon.offset_ns.is_none();
    let take = &mut |data: &Data<'_>| {
        if let Data::Current {
            steps_removed,
            delay_scaled_ns,
            ..
        } = data
        {
            daemon.steps_removed = Some(*steps_removed);
            daemon.delay_ns = Some(delay_scaled_ns >> 16);
            return true;
        }
        false
    };
    asker.ask(id::CURRENT_DATA_SET, take).map_err(broken)?;
    let take = &mut |data: &Data<'_>| {
        if let Data::TimeProperties {
            utc_offset_s,
            utc_offset_valid,
            ptp_timescale,
            ..
        } = data
        {
            daemon.utc_offset_s = Some(*utc_offset_s);
            daemon.utc_offset_valid = *utc_offset_valid;
            daemon.ptp_timescale = *ptp_timescale;
            return true;
        }
        false
    };
    asker
        .ask(id::TIME_PROPERTIES_DATA_SET, take)
        .map_err(broken)?;
    let take = &mut |data: &Data<'_>| {
        if let Data::Port { number, state, .. } = data {
            daemon.ports.push(DaemonPort {
                number: *number,
                state: state.word().to_owned(),
            });
        }
        daemon.ports.len() >= ports
    };
    asker.ask(id::PORT_DATA_SET, take).map_err(broken)?;
    daemon.ports.sort_by_key(|port| port.number);
    Ok(daemon)
}

/// The machine's own clocks; what cannot be read is left out.
#[must_use]
pub fn system(phc: Option<u32>) -> SystemClock {
    let read = phc.and_then(|index| clock::phc_minus_tai_ns(index).ok());
    SystemClock {
        tai_offset_s: clock::tai_offset_ns().unwrap_or(0) / 1_000_000_000,
        phc_minus_tai_ns: read.map(|(offset, _)| offset),
        phc_uncertainty_ns: read.map(|(_, uncertainty)| uncertainty),
    }
}

/// Asks, and judges.
#[must_use]
pub fn state(question: &ClockQuestion) -> ClockState {
    let answer = daemon(question);
    let system = system(question.phc);
    let reasons = match &answer {
        Ok(daemon) => judge(question, daemon, &system),
        Err(error) => vec![error.to_string()],
    };
    ClockState {
        version: 1,
        time_ns: clock::now_ns(Clock::Realtime),
        synchronised: reasons.is_empty(),
        reasons,
        limit_ns: question.limit_ns,
        daemon: answer.ok(),
        system,
    }
}

/// Why a host does not have the network's time; empty if it has. Pure.
#[must_use]
pub fn judge(question: &ClockQuestion, daemon: &Daemon, system: &SystemClock) -> Vec<String> {
    let mut reasons = Vec::new();
    let states = |wanted: &str| daemon.ports.iter().any(|port| port.state == wanted);
    let shown: Vec<String> = daemon
        .ports
        .iter()
        .map(|port| format!("port {} {}", port.number, port.state))
        .collect();
    if question.gives_time {
        if !daemon.own_grandmaster {
            reasons.push(format!(
                "this host is to give the time, but follows {}",
                daemon.grandmaster
            ));
        } else if !states("MASTER") {
            reasons.push(format!("no port gives the time ({})", shown.join(", ")));
        }
    } else if daemon.own_grandmaster {
        reasons.push(format!(
            "this clock follows nobody: it is its own grandmaster ({}); if it is to give the time, say --gives-time",
            shown.join(", ")
        ));
    } else if !states("SLAVE") {
        reasons.push(format!("no port takes the time yet ({})", shown.join(", ")));
    }
    let limit = question.limit_ns;
    if let Some(offset) = daemon.offset_ns.filter(|_| !question.gives_time) {
        if offset.unsigned_abs() > limit {
            reasons.push(format!(
                "{offset} ns from its master, {limit} ns are allowed"
            ));
        }
    }
    if let (Some(utc), true, true) = (
        daemon.utc_offset_s,
        daemon.utc_offset_valid,
        daemon.ptp_timescale,
    ) {
        if i64::from(utc) != system.tai_offset_s {
            reasons.push(format!(
                "the grandmaster's TAI is {utc} s ahead of UTC, this kernel's {} s: CLOCK_TAI is wrong by the difference \
                 (phc2sys and ptp4l set it; or: adjtimex)",
                system.tai_offset_s
            ));
        }
    }
    if let (Some(offset), Some(uncertainty)) = (system.phc_minus_tai_ns, system.phc_uncertainty_ns)
    {
        if offset.unsigned_abs() > limit.saturating_add(uncertainty) {
            reasons.push(format!(
                "the interface's clock is {offset} ns from CLOCK_TAI (read to ±{uncertainty} ns): phc2sys -a -r"
            ));
        }
    }
    reasons
}

/// The JSON Schema of a [`ClockState`].
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(ClockState).to_value()
}

/// Appends a state to a record of JSON lines. One that grew beyond 4 MiB becomes `….1`, and what was that is gone.
///
/// # Errors
/// The file cannot be written.
pub fn keep(record: &Path, state: &ClockState) -> io::Result<()> {
    use std::io::Write as _;
    const LARGEST: u64 = 4 << 20;
    if std::fs::metadata(record).is_ok_and(|found| found.len() > LARGEST) {
        let mut older = record.as_os_str().to_owned();
        older.push(".1");
        std::fs::rename(record, older)?;
    }
    if let Some(folder) = record
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)?;
    }
    let mut line = serde_json::to_string(state).map_err(io::Error::other)?;
    line.push('\n');
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(record)?;
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn following() -> Daemon {
        Daemon {
            identity: "a".to_owned(),
            grandmaster: "b".to_owned(),
            offset_ns: Some(-900),
            ports: vec![DaemonPort {
                number: 1,
                state: "SLAVE".to_owned(),
            }],
            utc_offset_s: Some(37),
            utc_offset_valid: true,
            ptp_timescale: true,
            ..Daemon::default()
        }
    }

    #[test]
    fn each_fault_is_named_and_a_sound_clock_has_none() {
        let question = ClockQuestion::default();
        let system = SystemClock {
            tai_offset_s: 37,
            ..SystemClock::default()
        };
        assert_eq!(
            judge(&question, &following(), &system),
            Vec::<String>::new()
        );
        type Plant<'a> = &'a dyn Fn(&mut Daemon, &mut SystemClock);
        let faults: [(&str, Plant<'_>); 5] = [
            ("ns from its master", &|daemon, _| {
                daemon.offset_ns = Some(1_001)
            }),
            ("takes the time yet", &|daemon, _| {
                daemon.ports[0].state = "UNCALIBRATED".to_owned()
            }),
            ("follows nobody", &|daemon, _| daemon.own_grandmaster = true),
            ("ahead of UTC", &|_, system| system.tai_offset_s = 0),
            ("from CLOCK_TAI", &|_, system| {
                system.phc_minus_tai_ns = Some(-2_000);
                system.phc_uncertainty_ns = Some(100);
            }),
        ];
        for (part, plant) in faults {
            let (mut daemon, mut system) = (following(), system.clone());
            plant(&mut daemon, &mut system);
            let reasons = judge(&question, &daemon, &system);
            assert!(
                reasons.len() == 1 && reasons[0].contains(part),
                "{part}: {reasons:?}"
            );
        }
        let gives = ClockQuestion {
            gives_time: true,
            ..question
        };
        assert!(judge(&gives, &following(), &system)[0].contains("follows b"));
    }

    #[test]
    fn a_record_grows_and_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("inner").join("clock.jsonl");
        let state = state(&ClockQuestion {
            socket: folder.path().join("none"),
            ..ClockQuestion::default()
        });
        assert!(
            !state.synchronised && state.reasons[0].contains("not running"),
            "{state:?}"
        );
        keep(&record, &state).unwrap();
        keep(&record, &state).unwrap();
        let text = std::fs::read_to_string(&record).unwrap();
        assert_eq!(text.lines().count(), 2);
        std::fs::write(&record, vec![b'x'; (4 << 20) + 1]).unwrap();
        keep(&record, &state).unwrap();
        assert_eq!(std::fs::read_to_string(&record).unwrap().lines().count(), 1);
    }
}
