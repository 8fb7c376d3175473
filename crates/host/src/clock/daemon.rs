//! Asks `ptp4l` over its management socket.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rtwire_wire::ptp::{self, Data, Message, id};

use super::state::{ClockQuestion, Daemon, DaemonPort};

/// The reason why the daemon could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The socket is missing, or permission is.
    #[error(
        "cannot ask ptp4l at {}: {source}{}", .socket.display(), advice(source)
    )]
    Socket {
        /// The daemon's socket.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The daemon did not answer.
    #[error(
        "ptp4l at {} does not answer a question for {what} in domain {domain}; check the domain (--domain)",
        .socket.display()
    )]
    Silent {
        /// The daemon's socket.
        socket: PathBuf,
        /// The data asked for.
        what: &'static str,
        /// The domain.
        domain: u8,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "; ptp4l is not running, or has another `uds_address` (--socket)"
        }
        io::ErrorKind::PermissionDenied => "; run as root",
        _ => "",
    }
}

/// A socket of our own. Its name is removed on drop.
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

    /// Asks, and passes each answer to `take` until that has enough or the patience is over. Returns whether any answer
    /// came.
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
            // Ignores late answers to earlier questions.
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

/// Asks `ptp4l` for its own state.
///
/// # Errors
/// [`ClockError`]: the socket is missing, or the daemon does not answer.
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
    // Profiles after 802.1AS mark their messages, and answer only marked ones.
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
