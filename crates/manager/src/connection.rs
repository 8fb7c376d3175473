//! A connection as its parts: what a host asks for, and what the manager grants.

use crate::codec::{CodecError, Reader, Writer};

/// The first part of the name that a connection has in a plan file; its id follows.
pub(crate) const PREFIX: &str = "connection-";

/// The least bytes of a frame without FCS and without a tag.
pub(crate) const SMALLEST_FRAME_BYTES: u16 = 60;
/// The bytes of a VLAN tag.
const TAG_BYTES: u16 = 4;

/// The protocol that carries a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// RTDiP directly on Ethernet.
    Rtdip,
    /// UDP and IPv4.
    Udp,
}

impl Carrier {
    /// Returns the carrier in a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Carrier::Rtdip => "rtdip",
            Carrier::Udp => "udp",
        }
    }
}

/// The needs of a connection. Its talker is the host that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The host that receives.
    pub listener: String,
    /// The protocol that carries it.
    pub carrier: Carrier,
    /// Priority code point, 0 to 7, 7 most urgent.
    pub pcp: u8,
    /// VLAN id, if its frames carry a tag.
    pub vlan: Option<u16>,
    /// Largest frame: header and payload without FCS, bytes.
    pub frame_bytes: u16,
    /// Rate of whole frames on the wire, bytes per millisecond.
    pub rate_bytes_per_ms: u32,
    /// Burst of whole frames on the wire, bytes.
    pub burst_bytes: u32,
    /// Latest useful delay, nanoseconds.
    pub deadline_ns: Option<u64>,
    /// Time between two frames of a cyclic connection, nanoseconds, which has a launch offset. The manager raises rate and
    /// burst to what one frame in each interval needs.
    pub interval_ns: Option<u64>,
    /// Source port; 0 for any that is free at the talker.
    pub source_port: u16,
    /// Destination port; 0 for any that is free at the listener.
    pub port: u16,
}

impl Ask {
    /// Returns the bytes of its largest frame without FCS, as it leaves: at least 60, and 64 with a VLAN tag.
    #[must_use]
    pub fn padded_bytes(&self) -> u16 {
        let tag = if self.vlan.is_some() { TAG_BYTES } else { 0 };
        self.frame_bytes.max(SMALLEST_FRAME_BYTES + tag)
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.text(&self.listener);
        to.u8(match self.carrier {
            Carrier::Rtdip => 0,
            Carrier::Udp => 1,
        });
        to.u8(self.pcp);
        // 0 is no id of a VLAN, no deadline, and no interval.
        to.u16(self.vlan.unwrap_or(0));
        to.u16(self.frame_bytes);
        to.u32(self.rate_bytes_per_ms);
        to.u32(self.burst_bytes);
        to.u64(self.deadline_ns.unwrap_or(0));
        to.u64(self.interval_ns.unwrap_or(0));
        to.u16(self.source_port);
        to.u16(self.port);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Ask, CodecError> {
        Ask::read_form(from, Form::Now)
    }

    fn read_form(from: &mut Reader<'_>, form: Form) -> Result<Ask, CodecError> {
        let listener = from.name("listener")?.to_owned();
        let carrier = match from.u8("carrier")? {
            0 => Carrier::Rtdip,
            1 => Carrier::Udp,
            _ => return Err(CodecError::Value("carrier")),
        };
        let pcp = from.u8("pcp")?;
        let vlan = from.u16("vlan")?;
        if pcp > 7 {
            return Err(CodecError::Value("pcp"));
        }
        if vlan > 4094 {
            return Err(CodecError::Value("vlan"));
        }
        Ok(Ask {
            listener,
            carrier,
            pcp,
            vlan: (vlan != 0).then_some(vlan),
            frame_bytes: from.u16("frame_bytes")?,
            rate_bytes_per_ms: from.u32("rate_bytes_per_ms")?,
            burst_bytes: from.u32("burst_bytes")?,
            deadline_ns: Some(from.u64("deadline_ns")?).filter(|ns| *ns != 0),
            interval_ns: match form {
                Form::WithoutCycles => None,
                Form::Now => Some(from.u64("interval_ns")?).filter(|ns| *ns != 0),
            },
            source_port: from.u16("source_port")?,
            port: from.u16("port")?,
        })
    }
}

/// The form of a stored record's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// That of records of version 1, before there were cyclic connections.
    WithoutCycles,
    /// That of messages and of new records.
    Now,
}

/// An admitted connection: the talker's limits, the promise, and what distinguishes its frames.
///
/// `rate_bytes_per_ms` and `burst_bytes` of `ask` are the parameters of the talker's shaper. The ports are those in
/// force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The connection's id, never used again; 0 in the answer to a question that reserves nothing.
    pub connection: u64,
    /// The epoch of the plan from which the connection is in force.
    pub epoch: u64,
    /// The host that sends.
    pub talker: String,
    /// The needs, with ports.
    pub ask: Ask,
    /// The promise: the longest delay of a frame, nanoseconds.
    pub promise_ns: u64,
    /// The launch offset of a cyclic connection, nanoseconds; below its interval. Its frames are sent this long behind the multiples
    /// of the interval in TAI, and meet no frame of another cyclic connection of the talker on its link.
    pub launch_offset_ns: Option<u64>,
    /// The number from which addresses and keys are made.
    pub number: u32,
    /// The key that its RTDiP frames carry.
    pub key: u32,
}

impl Granted {
    /// Returns the name that the connection has in the plan files of the manager's epochs.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.connection)
    }

    /// Returns the group address of RTDiP frames. `None` for UDP, which goes to the listener's own address.
    #[must_use]
    pub fn group(&self) -> Option<[u8; 6]> {
        (self.ask.carrier == Carrier::Rtdip)
            .then(|| rtwire_plan::identity::group_address(self.number))
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.u64(self.connection);
        to.u64(self.epoch);
        to.text(&self.talker);
        self.ask.write(to);
        to.u64(self.promise_ns);
        // Without an interval there is no offset, and 0 is written.
        to.u64(self.launch_offset_ns.unwrap_or(0));
        to.u32(self.number);
        to.u32(self.key);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Granted, CodecError> {
        Granted::read_form(from, Form::Now)
    }

    fn read_form(from: &mut Reader<'_>, form: Form) -> Result<Granted, CodecError> {
        let (connection, epoch) = (from.u64("connection")?, from.u64("plan_epoch")?);
        let talker = from.name("talker")?.to_owned();
        let ask = Ask::read_form(from, form)?;
        let promise_ns = from.u64("promise_ns")?;
        let offset_ns = match form {
            Form::WithoutCycles => 0,
            Form::Now => from.u64("launch_offset_ns")?,
        };
        if offset_ns > 0
            && ask
                .interval_ns
                .is_none_or(|interval_ns| offset_ns >= interval_ns)
        {
            return Err(CodecError::Value("launch_offset_ns"));
        }
        Ok(Granted {
            connection,
            epoch,
            talker,
            launch_offset_ns: ask.interval_ns.map(|_| offset_ns),
            ask,
            promise_ns,
            number: from.u32("number")?,
            key: from.u32("key")?,
        })
    }
}

/// An admitted connection as it is stored: the grant and the request that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The id of the request, chosen by its sender.
    pub request: u128,
    /// The grant, as it was answered.
    pub granted: Granted,
}

impl Stored {
    /// Returns the record's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::new();
        to.u8(2);
        to.u128(self.request);
        self.granted.write(&mut to);
        to.done()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`CodecError`] if the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Stored, CodecError> {
        let mut from = Reader::new(bytes);
        let form = match from.u8("version")? {
            1 => Form::WithoutCycles,
            2 => Form::Now,
            other => return Err(CodecError::Version(other)),
        };
        let stored = Stored {
            request: from.u128("request")?,
            granted: Granted::read_form(&mut from, form)?,
        };
        from.end()?;
        Ok(stored)
    }
}
