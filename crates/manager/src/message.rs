//! The messages between hosts and manager, and their bytes (docs/manager.md has the table).
//!
//! ```text
//! "RTWM" version kind | epoch session sequence host | body | MAC (32 bytes)
//! ```

use crate::codec::{CodecError, Reader, Writer};
use crate::connection::{Ask, Granted};

/// The first bytes of every message.
const MAGIC: [u8; 4] = *b"RTWM";
/// The version of the protocol. Since 2 a connection may be cyclic.
const VERSION: u8 = 2;
/// The largest message with its MAC, bytes: it fits a frame of 1500 bytes in UDP and IPv4.
pub const LARGEST_MESSAGE: usize = 1400;
/// The bytes of a MAC.
pub(crate) const MAC_BYTES: usize = 32;

/// The part that every message has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The host that sends a question, or that an answer is for.
    pub host: String,
    /// The manager's epoch: a random number of its start. 0 in [`Question::Hello`].
    pub epoch: u64,
    /// The session, assigned by the manager. 0 in [`Question::Hello`].
    pub session: u64,
    /// The number of the question; each transmission has another one. An answer repeats it.
    pub sequence: u64,
}

/// A message from a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Opens a session.
    Hello {
        /// Random bytes, which the answer repeats: it is no older than this question.
        nonce: u128,
    },
    /// Asks for a connection.
    Reserve {
        /// The request's id; a repetition has the same.
        request: u128,
        /// True to ask only: nothing is reserved.
        only_ask: bool,
        /// The needs.
        ask: Ask,
    },
    /// Returns a connection. The host has stopped sending before it says so.
    Release {
        /// The request's id.
        request: u128,
        /// The connection.
        connection: u64,
    },
    /// Asks for the connections that the host sends or hears, in the order of their ids.
    List {
        /// The request's id.
        request: u128,
        /// Only ids above this one.
        after: u64,
    },
    /// Asks for the terms of a connection's promise.
    Explain {
        /// The request's id.
        request: u128,
        /// The connection.
        connection: u64,
    },
    /// Asks for a one-shot reservation of best-effort traffic, or returns it with a rate of 0.
    ///
    /// Its lifetime counts from the first transmission of the request. So a host does not ask again with the same request
    /// after [`crate::Step::TooLate`].
    Share {
        /// The request's id.
        request: u128,
        /// The host that receives.
        listener: String,
        /// The rate that the sender could use, bytes on the wire per millisecond.
        wanted_bytes_per_ms: u32,
    },
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A bound, a buffer or a rate would be exceeded.
    Capacity,
    /// The deadline is below what the route can promise.
    Deadline,
    /// The request itself is wrong: a size, a rate, a listener.
    Faulty,
    /// The port is in use.
    PortTaken,
    /// The host has as many connections as it may have.
    Quota,
    /// The host asks too often. Nothing is decided: the same request may be repeated after the stated time.
    TooOften,
    /// One-shot reservations are in the way, or the manager has just started: ask again after the stated time,
    /// by another request.
    Busy,
    /// The connection belongs to another host.
    Foreign,
    /// There is no such connection.
    Unknown,
    /// No launch offset is free at the talker's link.
    LaunchOffset,
}

impl Reason {
    /// All reasons, by their code on the wire.
    pub const ALL: [Reason; 10] = [
        Reason::Capacity,
        Reason::Deadline,
        Reason::Faulty,
        Reason::PortTaken,
        Reason::Quota,
        Reason::TooOften,
        Reason::Busy,
        Reason::Foreign,
        Reason::Unknown,
        Reason::LaunchOffset,
    ];

    /// Returns the reason in a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Reason::Capacity => "capacity",
            Reason::Deadline => "deadline",
            Reason::Faulty => "faulty",
            Reason::PortTaken => "port_taken",
            Reason::Quota => "quota",
            Reason::TooOften => "too_often",
            Reason::Busy => "busy",
            Reason::Foreign => "foreign",
            Reason::Unknown => "unknown",
            Reason::LaunchOffset => "launch_offset",
        }
    }
}

/// The reason and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The kind.
    pub reason: Reason,
    /// For [`Reason::Busy`] and [`Reason::TooOften`]: the time after which to ask again, microseconds.
    pub retry_after_us: u32,
    /// The values, in words.
    pub text: String,
}

/// One port of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node that sends.
    pub node: String,
    /// The neighbour.
    pub to: String,
    /// The class at this port.
    pub class: u8,
    /// The time that the class never exceeds at this port, nanoseconds.
    pub budget_ns: u64,
    /// The propagation delay of the cable behind it, nanoseconds.
    pub cable_ns: u64,
}

/// A one-shot reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The rate on the wire, bytes per millisecond.
    pub rate_bytes_per_ms: u32,
    /// The burst on the wire, bytes.
    pub burst_bytes: u32,
    /// Its end, microseconds after the moment at which the question was sent.
    pub lifetime_us: u32,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The session that the header names is open.
    Welcome {
        /// The nonce of the question.
        nonce: u128,
    },
    /// The manager does not know the session: it has started anew. Say hello.
    NoSession,
    /// The connection is reserved.
    Granted(Granted),
    /// The request is refused.
    Refused(Refused),
    /// The connection is released.
    Released {
        /// The connection.
        connection: u64,
        /// The epoch of the plan without it.
        epoch: u64,
    },
    /// Connections, and true if there are more.
    Listing {
        /// The connections.
        connections: Vec<Granted>,
        /// True if a question for those after the last one has an answer.
        more: bool,
    },
    /// The terms of a promise. They add up to it.
    Explained {
        /// The connection.
        granted: Granted,
        /// The ports of its route.
        hops: Vec<Hop>,
    },
    /// The one-shot reservation; its rate is 0 if it was returned.
    Shared(Share),
}

impl Question {
    /// Returns the request's id; that of [`Question::Hello`] is its nonce.
    #[must_use]
    pub const fn request(&self) -> u128 {
        match self {
            Question::Hello { nonce: request }
            | Question::Reserve { request, .. }
            | Question::Release { request, .. }
            | Question::List { request, .. }
            | Question::Explain { request, .. }
            | Question::Share { request, .. } => *request,
        }
    }

    const fn kind(&self) -> u8 {
        match self {
            Question::Hello { .. } => 1,
            Question::Reserve { .. } => 2,
            Question::Release { .. } => 3,
            Question::List { .. } => 4,
            Question::Explain { .. } => 5,
            Question::Share { .. } => 6,
        }
    }

    /// Returns the message without its MAC.
    #[must_use]
    pub fn to_bytes(&self, header: &Header) -> Vec<u8> {
        let mut to = begin(self.kind(), header);
        to.u128(self.request());
        match self {
            Question::Hello { .. } => {}
            Question::Reserve { only_ask, ask, .. } => {
                to.u8(u8::from(*only_ask));
                ask.write(&mut to);
            }
            Question::Release { connection, .. } | Question::Explain { connection, .. } => {
                to.u64(*connection);
            }
            Question::List { after, .. } => to.u64(*after),
            Question::Share {
                listener,
                wanted_bytes_per_ms,
                ..
            } => {
                to.text(listener);
                to.u32(*wanted_bytes_per_ms);
            }
        }
        to.done()
    }

    /// Reads a message without its MAC.
    ///
    /// # Errors
    /// [`CodecError`] for all that is not exactly one question of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Header, Question), CodecError> {
        let (kind, header, mut from) = open(bytes)?;
        let request = from.u128("request")?;
        let question = match kind {
            1 => Question::Hello { nonce: request },
            2 => Question::Reserve {
                request,
                only_ask: from.flag("only_ask")?,
                ask: Ask::read(&mut from)?,
            },
            3 => Question::Release {
                request,
                connection: from.u64("connection")?,
            },
            4 => Question::List {
                request,
                after: from.u64("after")?,
            },
            5 => Question::Explain {
                request,
                connection: from.u64("connection")?,
            },
            6 => Question::Share {
                request,
                listener: from.name("listener")?.to_owned(),
                wanted_bytes_per_ms: from.u32("wanted_bytes_per_ms")?,
            },
            _ => return Err(CodecError::Value("kind")),
        };
        from.end()?;
        Ok((header, question))
    }
}

/// Returns the host that a message names, before anything is known to be true.
///
/// # Errors
/// [`CodecError`] if the message has no such part.
pub fn host_of(bytes: &[u8]) -> Result<&str, CodecError> {
    let mut from = Reader::new(bytes);
    start(&mut from)?;
    from.take(24, "header")?;
    from.name("host")
}

fn begin(kind: u8, header: &Header) -> Writer {
    let mut to = Writer::new();
    to.raw(&MAGIC);
    to.u8(VERSION);
    to.u8(kind);
    to.u64(header.epoch);
    to.u64(header.session);
    to.u64(header.sequence);
    to.text(&header.host);
    to
}

fn start(from: &mut Reader<'_>) -> Result<u8, CodecError> {
    if from.array::<4>("magic").map_err(|_| CodecError::Foreign)? != MAGIC {
        return Err(CodecError::Foreign);
    }
    match from.u8("version")? {
        VERSION => from.u8("kind"),
        other => Err(CodecError::Version(other)),
    }
}

fn open(bytes: &[u8]) -> Result<(u8, Header, Reader<'_>), CodecError> {
    let mut from = Reader::new(bytes);
    let kind = start(&mut from)?;
    let header = Header {
        epoch: from.u64("epoch")?,
        session: from.u64("session")?,
        sequence: from.u64("sequence")?,
        host: from.name("host")?.to_owned(),
    };
    Ok((kind, header, from))
}

/// The kind of [`Answer::Granted`].
const GRANTED: u8 = 131;

/// Returns the bytes of [`Answer::Granted`] without a copy of the connection.
pub(crate) fn granted_to_bytes(granted: &Granted, header: &Header, request: u128) -> Vec<u8> {
    let mut to = begin(GRANTED, header);
    to.u128(request);
    granted.write(&mut to);
    to.done()
}

impl Answer {
    const fn kind(&self) -> u8 {
        match self {
            Answer::Welcome { .. } => 129,
            Answer::NoSession => 130,
            Answer::Granted(_) => GRANTED,
            Answer::Refused(_) => 132,
            Answer::Released { .. } => 133,
            Answer::Listing { .. } => 134,
            Answer::Explained { .. } => 135,
            Answer::Shared(_) => 136,
        }
    }

    /// Returns the message to `header.host` about this request, without its MAC.
    ///
    /// A listing is cut to what fits a message; then `more` is true.
    #[must_use]
    pub fn to_bytes(&self, header: &Header, request: u128) -> Vec<u8> {
        let mut to = begin(self.kind(), header);
        to.u128(request);
        match self {
            Answer::Welcome { nonce } => to.u128(*nonce),
            Answer::NoSession => {}
            Answer::Granted(granted) => granted.write(&mut to),
            Answer::Refused(refused) => {
                // Fewer than 256.
                let code = Reason::ALL.iter().position(|one| *one == refused.reason);
                to.u8(code.unwrap_or(0) as u8);
                to.u32(refused.retry_after_us);
                to.text(&refused.text);
            }
            Answer::Released { connection, epoch } => {
                to.u64(*connection);
                to.u64(*epoch);
            }
            Answer::Listing { connections, more } => listing(&mut to, connections, *more),
            Answer::Explained { granted, hops } => {
                granted.write(&mut to);
                // Each hop takes at most 147 bytes; what does not fit is cut, as the count says.
                let mut body = Writer::new();
                let mut count = 0_u8;
                for hop in hops {
                    let mut one = Writer::new();
                    one.text(&hop.node);
                    one.text(&hop.to);
                    one.u8(hop.class);
                    one.u64(hop.budget_ns);
                    one.u64(hop.cable_ns);
                    if count == u8::MAX || to.len() + body.len() + one.len() + 1 > ROOM {
                        break;
                    }
                    body.raw(&one.done());
                    count += 1;
                }
                to.u8(count);
                to.raw(&body.done());
            }
            Answer::Shared(share) => {
                to.u32(share.rate_bytes_per_ms);
                to.u32(share.burst_bytes);
                to.u32(share.lifetime_us);
            }
        }
        to.done()
    }

    /// Reads a message without its MAC: header, request, answer.
    ///
    /// # Errors
    /// [`CodecError`] for all that is not exactly one answer of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Header, u128, Answer), CodecError> {
        let (kind, header, mut from) = open(bytes)?;
        let request = from.u128("request")?;
        let answer = match kind {
            129 => Answer::Welcome {
                nonce: from.u128("nonce")?,
            },
            130 => Answer::NoSession,
            131 => Answer::Granted(Granted::read(&mut from)?),
            132 => {
                let code = usize::from(from.u8("reason")?);
                Answer::Refused(Refused {
                    reason: *Reason::ALL.get(code).ok_or(CodecError::Value("reason"))?,
                    retry_after_us: from.u32("retry_after_us")?,
                    text: from.text("text")?.to_owned(),
                })
            }
            133 => Answer::Released {
                connection: from.u64("connection")?,
                epoch: from.u64("plan_epoch")?,
            },
            134 => {
                let count = from.u8("count")?;
                let more = from.flag("more")?;
                let mut connections = Vec::new();
                for _ in 0..count {
                    connections.push(Granted::read(&mut from)?);
                }
                Answer::Listing { connections, more }
            }
            135 => {
                let granted = Granted::read(&mut from)?;
                let count = from.u8("count")?;
                let mut hops = Vec::new();
                for _ in 0..count {
                    hops.push(Hop {
                        node: from.name("node")?.to_owned(),
                        to: from.name("to")?.to_owned(),
                        class: from.u8("class")?,
                        budget_ns: from.u64("budget_ns")?,
                        cable_ns: from.u64("cable_ns")?,
                    });
                }
                Answer::Explained { granted, hops }
            }
            136 => Answer::Shared(Share {
                rate_bytes_per_ms: from.u32("rate_bytes_per_ms")?,
                burst_bytes: from.u32("burst_bytes")?,
                lifetime_us: from.u32("lifetime_us")?,
            }),
            _ => return Err(CodecError::Value("kind")),
        };
        from.end()?;
        Ok((header, request, answer))
    }
}

/// The room for a message without its MAC, bytes.
const ROOM: usize = LARGEST_MESSAGE - MAC_BYTES;

fn listing(to: &mut Writer, connections: &[Granted], more: bool) {
    let mut body = Writer::new();
    let mut count = 0_u8;
    for one in connections {
        let mut record = Writer::new();
        one.write(&mut record);
        if count == u8::MAX || to.len() + body.len() + record.len() + 2 > ROOM {
            break;
        }
        body.raw(&record.done());
        count += 1;
    }
    to.u8(count);
    to.u8(u8::from(more || usize::from(count) < connections.len()));
    to.raw(&body.done());
}
