//! PTP management messages: the questions to a PTP daemon, and its answers (IEEE 1588, clause 15).
//!
//! ```text
//!  0            34                       48      50       52   54
//!  PTP header   target port, hops, action  type    length   id   data
//! ```
//! All fields are in network byte order. This module only asks what `ptp4l` answers; it changes no setting.
//!
//! ```
//! use rtwire_wire::ptp::{self, Data, Message};
//!
//! let mut question = [0; 64];
//! let length = ptp::question(ptp::id::TIME_STATUS_NP, 0, 0, 7, 1, &mut question).unwrap();
//! let message = Message::parse(&question[..length]).unwrap();
//! assert_eq!((message.sequence, message.action), (7, ptp::Action::Get));
//! assert!(matches!(message.data, Data::Empty { id: ptp::id::TIME_STATUS_NP }));
//! ```

/// Identifiers of the data sets that can be asked for.
pub mod id {
    /// The clock's own properties.
    pub const DEFAULT_DATA_SET: u16 = 0x2000;
    /// The clock's offset from its master.
    pub const CURRENT_DATA_SET: u16 = 0x2001;
    /// The clock's master and grandmaster.
    pub const PARENT_DATA_SET: u16 = 0x2002;
    /// The UTC offset and its traceability.
    pub const TIME_PROPERTIES_DATA_SET: u16 = 0x2003;
    /// The state of one port.
    pub const PORT_DATA_SET: u16 = 0x2004;
    /// `ptp4l`'s own data set: the offset in whole nanoseconds, and the presence of a grandmaster.
    pub const TIME_STATUS_NP: u16 = 0xc000;
}

/// Octets of a message without its TLV.
const BODY_OCTETS: usize = 48;
/// Octets of a TLV's type, length and identifier.
const TLV_OCTETS: usize = 6;
/// Octets of a question.
pub const QUESTION_OCTETS: usize = BODY_OCTETS + TLV_OCTETS;
const MANAGEMENT: u8 = 0xd;
const VERSION: u8 = 2;
const TLV_MANAGEMENT: u16 = 1;
const TLV_ERROR: u16 = 2;

/// The reason why bytes are no management message that this module understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtpError {
    /// The message is too short.
    Truncated {
        /// Octets needed.
        needed: usize,
        /// Octets found.
        found: usize,
    },
    /// The message is of another PTP type.
    NoManagement {
        /// The type found.
        found: u8,
    },
    /// The message has another PTP version.
    Version {
        /// The version found.
        found: u8,
    },
    /// The message has a TLV of another type.
    Tlv {
        /// The type found.
        found: u16,
    },
}

impl core::fmt::Display for PtpError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated { needed, found } => {
                write!(
                    f,
                    "a PTP management message of {needed} octets is cut off after {found}"
                )
            }
            Self::NoManagement { found } => {
                write!(
                    f,
                    "a PTP message of type {found:#x}, not a management message (0xd)"
                )
            }
            Self::Version { found } => write!(f, "PTP version {found}, not 2"),
            Self::Tlv { found } => write!(f, "a TLV of type {found:#x}, not a management TLV"),
        }
    }
}

impl core::error::Error for PtpError {}

/// The action of a management message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// GET: asks for data.
    Get,
    /// SET: changes data.
    Set,
    /// RESPONSE: the answer to GET or SET.
    Response,
    /// COMMAND: an order.
    Command,
    /// ACKNOWLEDGE: the answer to COMMAND.
    Acknowledge,
    /// Any other number.
    Unknown(u8),
}

/// The identity of a clock, usually made from a MAC address; printed as `ptp4l` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ClockIdentity(pub [u8; 8]);

impl core::fmt::Display for ClockIdentity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (at, octet) in self.0.iter().enumerate() {
            if at == 3 || at == 5 {
                f.write_str(".")?;
            }
            write!(f, "{octet:02x}")?;
        }
        Ok(())
    }
}

/// The state of a PTP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// The port is starting.
    Initializing,
    /// The port is broken; it tries again later.
    Faulty,
    /// The port is switched off.
    Disabled,
    /// The port waits for other clocks' messages.
    Listening,
    /// The port is about to become master.
    PreMaster,
    /// The port sends the time to others.
    Master,
    /// The port neither sends the time nor takes it.
    Passive,
    /// The port has found a master, but is not yet synchronized to it.
    Uncalibrated,
    /// The port takes its time from a master.
    Slave,
    /// Any other number.
    Unknown(u8),
}

impl PortState {
    const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Initializing,
            2 => Self::Faulty,
            3 => Self::Disabled,
            4 => Self::Listening,
            5 => Self::PreMaster,
            6 => Self::Master,
            7 => Self::Passive,
            8 => Self::Uncalibrated,
            9 => Self::Slave,
            other => Self::Unknown(other),
        }
    }

    /// Returns the standard's word for the state.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Initializing => "INITIALIZING",
            Self::Faulty => "FAULTY",
            Self::Disabled => "DISABLED",
            Self::Listening => "LISTENING",
            Self::PreMaster => "PRE_MASTER",
            Self::Master => "MASTER",
            Self::Passive => "PASSIVE",
            Self::Uncalibrated => "UNCALIBRATED",
            Self::Slave => "SLAVE",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// The data of a management message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Only an identifier: a question.
    Empty {
        /// The identifier of the data set that is asked for.
        id: u16,
    },
    /// The clock's own properties.
    Default {
        /// The number of ports.
        ports: u16,
        /// The clock class: 248 by default, 6 for a clock that knows the true time.
        class: u8,
        /// The clock's identity.
        identity: ClockIdentity,
        /// The PTP domain.
        domain: u8,
    },
    /// The clock's offset.
    Current {
        /// The number of clocks from the grandmaster to this one.
        steps_removed: u16,
        /// The offset from the master, in ns times 65 536.
        offset_scaled_ns: i64,
        /// The mean delay to the master, in ns times 65 536.
        delay_scaled_ns: i64,
    },
    /// The clock's master and grandmaster.
    Parent {
        /// The master's port identity, without the port.
        parent: ClockIdentity,
        /// The identity of the grandmaster: the clock that all follow.
        grandmaster: ClockIdentity,
        /// The grandmaster's clock class.
        class: u8,
    },
    /// The time scale.
    TimeProperties {
        /// TAI minus UTC, s.
        utc_offset_s: i16,
        /// True if `utc_offset_s` is known to be right.
        utc_offset_valid: bool,
        /// True if the time is TAI; false for an arbitrary time scale.
        ptp_timescale: bool,
        /// True if the time can be traced to a primary standard.
        traceable: bool,
    },
    /// The state of one port.
    Port {
        /// The port's number, from 1.
        number: u16,
        /// The port's state.
        state: PortState,
        /// The mean delay to the peer, in ns times 65 536.
        peer_delay_scaled_ns: i64,
    },
    /// `ptp4l`'s own data set.
    TimeStatus {
        /// The offset from the master, ns.
        offset_ns: i64,
        /// The arrival time of the master's last message, ns of the port's clock.
        ingress_ns: i64,
        /// True if there is a grandmaster other than this clock.
        grandmaster_present: bool,
        /// The identity of the grandmaster: the clock that all follow.
        grandmaster: ClockIdentity,
    },
    /// A refusal (management error status).
    Error {
        /// The number of the reason (managementErrorId).
        reason: u16,
        /// The identifier of the data set that was asked for.
        id: u16,
    },
    /// Data of any other identifier, or data that are too short.
    Other {
        /// The identifier.
        id: u16,
        /// The data's octets.
        octets: &'a [u8],
    },
}

/// A management message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The PTP domain.
    pub domain: u8,
    /// The upper half of the first octet (transportSpecific): 0, or 1 for 802.1AS.
    pub transport_specific: u8,
    /// The sequence number, the same in a question and its answer.
    pub sequence: u16,
    /// The sender's clock identity.
    pub source: ClockIdentity,
    /// The action.
    pub action: Action,
    /// The data.
    pub data: Data<'a>,
}

/// Writes a question to all ports of a daemon and returns its length in octets.
///
/// `asker` distinguishes several programs that ask on the same machine.
///
/// # Errors
/// `room` is shorter than [`QUESTION_OCTETS`].
pub fn question(
    id: u16,
    domain: u8,
    transport_specific: u8,
    sequence: u16,
    asker: u16,
    room: &mut [u8],
) -> Result<usize, PtpError> {
    const CONTROL_MANAGEMENT: u8 = 4;
    const NO_INTERVAL: u8 = 0x7f;
    let found = room.len();
    let Some(room) = room.get_mut(..QUESTION_OCTETS) else {
        return Err(PtpError::Truncated {
            needed: QUESTION_OCTETS,
            found,
        });
    };
    room.fill(0);
    room[0] = transport_specific << 4 | MANAGEMENT;
    room[1] = VERSION;
    room[2..4].copy_from_slice(&(QUESTION_OCTETS as u16).to_be_bytes());
    room[4] = domain;
    room[28..30].copy_from_slice(&asker.to_be_bytes());
    room[30..32].copy_from_slice(&sequence.to_be_bytes());
    room[32] = CONTROL_MANAGEMENT;
    room[33] = NO_INTERVAL;
    // Every clock, every port.
    room[34..44].fill(0xff);
    room[48..50].copy_from_slice(&TLV_MANAGEMENT.to_be_bytes());
    room[50..52].copy_from_slice(&2_u16.to_be_bytes());
    room[52..54].copy_from_slice(&id.to_be_bytes());
    Ok(QUESTION_OCTETS)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    array(bytes, at).map(i64::from_be_bytes)
}

fn identity(bytes: &[u8], at: usize) -> Option<ClockIdentity> {
    array(bytes, at).map(ClockIdentity)
}

impl<'a> Message<'a> {
    /// Reads a message. Data that are too short for their identifier become [`Data::Other`].
    ///
    /// # Errors
    /// [`PtpError`], with the first thing that is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PtpError> {
        let truncated = |needed| PtpError::Truncated {
            needed,
            found: bytes.len(),
        };
        let (Some(first), Some(version)) = (bytes.first(), bytes.get(1)) else {
            return Err(truncated(QUESTION_OCTETS));
        };
        if first & 0xf != MANAGEMENT {
            return Err(PtpError::NoManagement { found: first & 0xf });
        }
        if version & 0xf != VERSION {
            return Err(PtpError::Version {
                found: version & 0xf,
            });
        }
        let header = || -> Option<(u8, u16, ClockIdentity, u8, u16, usize)> {
            Some((
                *bytes.get(4)?,
                u16_at(bytes, 30)?,
                identity(bytes, 20)?,
                *bytes.get(46)?,
                u16_at(bytes, 48)?,
                usize::from(u16_at(bytes, 50)?),
            ))
        };
        let Some((domain, sequence, source, action, kind, length)) = header() else {
            return Err(truncated(QUESTION_OCTETS));
        };
        let needed = BODY_OCTETS + 4 + length;
        let Some(value) = bytes.get(BODY_OCTETS + 4..needed) else {
            return Err(truncated(needed));
        };
        let first_word = u16_at(value, 0).ok_or_else(|| truncated(QUESTION_OCTETS))?;
        let data = match kind {
            TLV_MANAGEMENT => data(first_word, value.get(2..).unwrap_or_default()),
            TLV_ERROR => Data::Error {
                reason: first_word,
                id: u16_at(value, 2).ok_or_else(|| truncated(QUESTION_OCTETS + 2))?,
            },
            found => return Err(PtpError::Tlv { found }),
        };
        Ok(Self {
            domain,
            transport_specific: first >> 4,
            sequence,
            source,
            action: match action & 0xf {
                0 => Action::Get,
                1 => Action::Set,
                2 => Action::Response,
                3 => Action::Command,
                4 => Action::Acknowledge,
                other => Action::Unknown(other),
            },
            data,
        })
    }
}

fn data(id: u16, octets: &[u8]) -> Data<'_> {
    if octets.is_empty() {
        return Data::Empty { id };
    }
    let known = match id {
        id::DEFAULT_DATA_SET => default(octets),
        id::CURRENT_DATA_SET => current(octets),
        id::PARENT_DATA_SET => parent(octets),
        id::TIME_PROPERTIES_DATA_SET => time_properties(octets),
        id::PORT_DATA_SET => port(octets),
        id::TIME_STATUS_NP => time_status(octets),
        _ => None,
    };
    known.unwrap_or(Data::Other { id, octets })
}

fn default(octets: &[u8]) -> Option<Data<'_>> {
    Some(Data::Default {
        ports: u16_at(octets, 2)?,
        class: *octets.get(5)?,
        identity: identity(octets, 10)?,
        domain: *octets.get(18)?,
    })
}

fn current(octets: &[u8]) -> Option<Data<'_>> {
    Some(Data::Current {
        steps_removed: u16_at(octets, 0)?,
        offset_scaled_ns: i64_at(octets, 2)?,
        delay_scaled_ns: i64_at(octets, 10)?,
    })
}

fn parent(octets: &[u8]) -> Option<Data<'_>> {
    Some(Data::Parent {
        parent: identity(octets, 0)?,
        class: *octets.get(19)?,
        grandmaster: identity(octets, 24)?,
    })
}

fn time_properties(octets: &[u8]) -> Option<Data<'_>> {
    let flags = *octets.get(2)?;
    Some(Data::TimeProperties {
        utc_offset_s: array(octets, 0).map(i16::from_be_bytes)?,
        utc_offset_valid: flags & 0x04 != 0,
        ptp_timescale: flags & 0x08 != 0,
        traceable: flags & 0x10 != 0,
    })
}

fn port(octets: &[u8]) -> Option<Data<'_>> {
    Some(Data::Port {
        number: u16_at(octets, 8)?,
        state: PortState::from_number(*octets.get(10)?),
        peer_delay_scaled_ns: i64_at(octets, 12)?,
    })
}

fn time_status(octets: &[u8]) -> Option<Data<'_>> {
    let present: [u8; 4] = array(octets, 38)?;
    Some(Data::TimeStatus {
        offset_ns: i64_at(octets, 0)?,
        ingress_ns: i64_at(octets, 8)?,
        grandmaster_present: present != [0; 4],
        grandmaster: identity(octets, 42)?,
    })
}
