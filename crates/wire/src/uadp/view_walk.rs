//! The walk of a view over a message.

use super::bytes::Reader;
use super::header as net;
use super::security as sec;
use super::view::{Place, Seen, ViewField, ViewValue};
use super::{BuiltIn, DataSetKind, FieldEncoding, MessageKind, UadpError, Value, data_set as dsm};

/// The end of a walk: a fault was reported, behind which nothing has a known place.
struct Stop;

pub(super) struct Walk<'a, 'v> {
    reader: Reader<'a>,
    message: &'a [u8],
    signature_octets: usize,
    place: Place,
    visit: &'v mut dyn FnMut(Seen<'a>),
}

type Step<T = ()> = Result<T, Stop>;

impl<'a, 'v> Walk<'a, 'v> {
    pub(super) fn new(
        message: &'a [u8],
        signature_octets: usize,
        visit: &'v mut dyn FnMut(Seen<'a>),
    ) -> Self {
        Self {
            reader: Reader::new(message, 0),
            message,
            signature_octets,
            place: Place::default(),
            visit,
        }
    }

    pub(super) fn message(mut self) {
        // A stop has told its reason.
        let _ = self.network();
    }

    fn fault(&mut self, fault: UadpError) {
        (self.visit)(Seen::Fault(fault));
    }

    fn report(&mut self, name: &'static str, at: usize, value: ViewValue<'a>) {
        let octets = self.reader.offset() - at;
        (self.visit)(Seen::Field(ViewField {
            name,
            place: self.place,
            at,
            octets,
            value,
        }));
    }

    fn check<T>(&mut self, result: Result<T, UadpError>) -> Step<T> {
        result.map_err(|fault| {
            self.fault(fault);
            Stop
        })
    }

    /// Reads and reports a number of 1, 2, 4 or 8 octets.
    fn number(&mut self, name: &'static str, octets: usize) -> Step<u64> {
        let at = self.reader.offset();
        let taken = self.reader.take(name, octets);
        let taken = self.check(taken)?;
        let mut number = [0; 8];
        for (to, from) in number.iter_mut().zip(taken) {
            *to = *from;
        }
        let number = u64::from_le_bytes(number);
        self.report(name, at, ViewValue::Number(number));
        Ok(number)
    }

    fn octet(&mut self, name: &'static str) -> Step<u8> {
        Ok(self.number(name, 1)? as u8)
    }

    fn octets(&mut self, name: &'static str, octets: usize) -> Step<&'a [u8]> {
        let at = self.reader.offset();
        let taken = self.reader.take(name, octets);
        let taken = self.check(taken)?;
        if !taken.is_empty() {
            self.report(name, at, ViewValue::Octets(taken));
        }
        Ok(taken)
    }

    fn rest(&mut self, name: &'static str) -> Step {
        self.octets(name, self.reader.left()).map(|_| ())
    }

    fn reserved(&mut self, what: &'static str, at: usize, found: u8) {
        self.fault(UadpError::Reserved {
            what,
            at,
            found: u64::from(found),
        });
    }

    fn network(&mut self) -> Step {
        let flags = self.octet("UADPFlags")?;
        if flags & 0x0f != net::VERSION {
            let found = flags & 0x0f;
            self.fault(UadpError::Version { found });
        }
        let (mut first, mut second) = (0, 0);
        if flags & net::EXTENDED != 0 {
            first = self.octet("ExtendedFlags1")?;
        }
        if first & net::EXTENDED != 0 {
            let at = self.reader.offset();
            second = self.octet("ExtendedFlags2")?;
            if second & net::RESERVED2 != 0 {
                self.reserved("ExtendedFlags2", at, second);
            }
        }
        if flags & net::PUBLISHER_ID != 0 {
            self.publisher_id(first & net::ID_TYPE)?;
        }
        if first & net::CLASS_ID != 0 {
            self.octets("DataSetClassId", 16)?;
        }
        if flags & net::GROUP != 0 {
            self.group()?;
        }
        let chunk = second & net::CHUNK != 0;
        let writers = if flags & net::PAYLOAD != 0 {
            Some(self.payload_header(chunk)?)
        } else {
            None
        };
        if first & net::TIMESTAMP != 0 {
            self.number("Timestamp", 8)?;
        }
        if first & net::PICOSECONDS != 0 {
            self.number("PicoSeconds", 2)?;
        }
        if second & net::PROMOTED != 0 {
            self.promoted()?;
        }
        let kind = MessageKind::from_bits(second >> 2 & 7);
        let security = if first & net::SECURITY != 0 {
            self.security()?
        } else {
            (0, 0)
        };
        self.protected(security, kind, chunk, writers)
    }

    fn publisher_id(&mut self, bits: u8) -> Step {
        match bits {
            0 => self.number("PublisherId", 1)?,
            1 => self.number("PublisherId", 2)?,
            2 => self.number("PublisherId", 4)?,
            3 => self.number("PublisherId", 8)?,
            4 => {
                let octets = self.number("PublisherId.length", 4)?;
                let at = self.reader.offset();
                let most = self.reader.left() as u64;
                if octets > most {
                    self.fault(UadpError::Length {
                        what: "the length of the PublisherId",
                        at: at - 4,
                        told: octets,
                        most,
                    });
                    return Err(Stop);
                }
                let taken = self.reader.take("PublisherId", octets as usize);
                let taken = self.check(taken)?;
                match core::str::from_utf8(taken) {
                    Ok(text) => self.report("PublisherId", at, ViewValue::Text(text)),
                    Err(_) => {
                        self.report("PublisherId", at, ViewValue::Octets(taken));
                        self.fault(UadpError::Text { at });
                    }
                }
                return Ok(());
            }
            _ => {
                self.reserved("the type of the PublisherId, in ExtendedFlags1", 1, bits);
                return Err(Stop);
            }
        };
        Ok(())
    }

    fn group(&mut self) -> Step {
        let at = self.reader.offset();
        let flags = self.octet("GroupFlags")?;
        if flags & 0xf0 != 0 {
            self.reserved("GroupFlags", at, flags);
        }
        for (bit, name, octets) in [
            (net::WRITER_GROUP_ID, "WriterGroupId", 2),
            (net::GROUP_VERSION, "GroupVersion", 4),
            (net::MESSAGE_NUMBER, "NetworkMessageNumber", 2),
            (net::SEQUENCE, "SequenceNumber", 2),
        ] {
            if flags & bit != 0 {
                self.number(name, octets)?;
            }
        }
        Ok(())
    }

    fn payload_header(&mut self, chunk: bool) -> Step<usize> {
        let count = if chunk {
            1
        } else {
            usize::from(self.octet("Count")?)
        };
        for index in 0..count {
            self.place.index = Some(index);
            self.number("DataSetWriterId", 2)?;
        }
        self.place.index = None;
        Ok(count)
    }

    fn promoted(&mut self) -> Step {
        let size = self.number("PromotedFields.size", 2)? as usize;
        let end = self.reader.octets() + size;
        let mut index = 0;
        while self.reader.octets() < end {
            self.place.index = Some(index);
            self.variant("PromotedField")?;
            index += 1;
        }
        self.place.index = None;
        Ok(())
    }

    /// Returns the flags and the footer's octets.
    fn security(&mut self) -> Step<(u8, usize)> {
        let at = self.reader.offset();
        let flags = self.octet("SecurityFlags")?;
        if flags & 0xf0 != 0 {
            self.reserved("SecurityFlags", at, flags);
        }
        self.number("SecurityTokenId", 4)?;
        let octets = self.octet("NonceLength")?;
        self.octets("MessageNonce", usize::from(octets))?;
        let footer = if flags & sec::FOOTER != 0 {
            self.number("SecurityFooterSize", 2)? as usize
        } else {
            0
        };
        Ok((flags, footer))
    }

    /// Splits what is behind the header into payload, footer and signature.
    fn protected(
        &mut self,
        (flags, footer): (u8, usize),
        kind: Option<MessageKind>,
        chunk: bool,
        writers: Option<usize>,
    ) -> Step {
        let signature = if flags & sec::SIGNED != 0 {
            self.signature_octets
        } else {
            0
        };
        let start = self.reader.offset();
        let left = self.reader.left();
        let Some(payload) = left.checked_sub(footer.saturating_add(signature)) else {
            self.fault(UadpError::Truncated {
                what: "security footer and signature",
                at: start,
                needed: footer.saturating_add(signature),
                found: left,
            });
            return self.rest("Payload");
        };
        let end = start + payload;
        self.reader = self.within(start, end);
        // A fault in the payload does not hide the signature.
        let _ = if flags & sec::ENCRYPTED != 0 {
            self.rest("EncryptedPayload")
        } else {
            self.payload(kind, chunk, writers)
        };
        self.reader = self.within(end, self.message.len());
        self.place = Place::default();
        self.octets("SecurityFooter", footer)?;
        self.octets("Signature", signature)?;
        Ok(())
    }

    fn within(&self, start: usize, end: usize) -> Reader<'a> {
        Reader::new(self.message.get(start..end).unwrap_or_default(), start)
    }

    fn payload(&mut self, kind: Option<MessageKind>, chunk: bool, writers: Option<usize>) -> Step {
        if chunk {
            self.number("MessageSequenceNumber", 2)?;
            self.number("ChunkOffset", 4)?;
            self.number("TotalSize", 4)?;
            let octets = self.number("ChunkData.length", 4)? as usize;
            let octets = octets.min(self.reader.left());
            self.octets("ChunkData", octets)?;
            return self.rest("Padding");
        }
        match kind {
            Some(MessageKind::Data) => self.data_sets(writers),
            Some(MessageKind::Probe) => {
                self.octet("ProbeType")?;
                self.rest("Probe")
            }
            Some(MessageKind::Announcement) => {
                self.octet("AnnouncementType")?;
                self.number("SequenceNumber", 2)?;
                self.rest("Announcement")
            }
            None => self.rest("Payload"),
        }
    }

    fn data_sets(&mut self, writers: Option<usize>) -> Step {
        let count = writers.unwrap_or(1);
        if count < 2 {
            let mut data_set = 0;
            loop {
                self.place.data_set = Some(data_set);
                self.data_set()?;
                self.place.data_set = None;
                data_set += 1;
                // Without a payload header other messages can follow, up to the padding.
                let next = self.reader.rest().first();
                if writers.is_some() || next.is_none_or(|flags| flags & dsm::VALID == 0) {
                    return self.rest("Padding");
                }
            }
        }
        let sizes = self.reader;
        for index in 0..count {
            self.place.index = Some(index);
            self.number("Size", 2)?;
        }
        self.place.index = None;
        let mut sizes = sizes;
        let mut start = self.reader.offset();
        for data_set in 0..count {
            let at = sizes.offset();
            let size = usize::from(sizes.u16("Size").unwrap_or(0));
            let most = self.message.len() - start;
            let most = most.min(self.reader.left());
            if size > most {
                self.fault(UadpError::Length {
                    what: "the size of a DataSetMessage",
                    at,
                    told: size as u64,
                    most: most as u64,
                });
                return Err(Stop);
            }
            let rest = self.within(start + size, self.reader.offset() + self.reader.left());
            self.reader = self.within(start, start + size);
            self.place.data_set = Some(data_set);
            // Each message has its own place, whatever is wrong with the one before.
            if self.data_set().is_ok() {
                let _ = self.rest("Padding");
            }
            self.place = Place::default();
            self.reader = rest;
            start += size;
        }
        self.rest("Padding")
    }

    fn data_set(&mut self) -> Step {
        let at = self.reader.offset();
        let first = self.octet("DataSetFlags1")?;
        let second = if first & dsm::FLAGS2 != 0 {
            let at = self.reader.offset();
            let second = self.octet("DataSetFlags2")?;
            if second & dsm::RESERVED2 != 0 {
                self.reserved("DataSetFlags2", at, second);
            }
            second
        } else {
            0
        };
        for (sent, name, octets) in [
            (first & dsm::SEQUENCE != 0, "SequenceNumber", 2),
            (second & dsm::TIMESTAMP != 0, "Timestamp", 8),
            (second & dsm::PICOSECONDS != 0, "PicoSeconds", 2),
            (first & dsm::STATUS != 0, "Status", 2),
            (first & dsm::MAJOR != 0, "MajorVersion", 4),
            (first & dsm::MINOR != 0, "MinorVersion", 4),
        ] {
            if sent {
                self.number(name, octets)?;
            }
        }
        let encoding = FieldEncoding::from_bits(first >> 1 & 3);
        match (DataSetKind::from_bits(second & 0x0f), encoding) {
            (Some(DataSetKind::KeepAlive), _) => Ok(()),
            (Some(DataSetKind::KeyFrame), Some(_)) if self.reader.left() == 0 => Ok(()),
            (Some(DataSetKind::KeyFrame), Some(FieldEncoding::RawData)) => self.rest("RawData"),
            (Some(kind), Some(encoding)) if encoding != FieldEncoding::RawData => {
                self.fields(kind == DataSetKind::DeltaFrame, encoding)
            }
            _ => {
                self.reserved("the kind or encoding of a DataSetMessage", at, first);
                self.rest("Data")
            }
        }
    }

    fn fields(&mut self, delta: bool, encoding: FieldEncoding) -> Step {
        let count = self.number("FieldCount", 2)? as usize;
        for index in 0..count {
            self.place.index = Some(index);
            if delta {
                self.number("index", 2)?;
            }
            if encoding == FieldEncoding::DataValue {
                self.data_value()?;
            } else {
                self.variant("VariantMask")?;
            }
        }
        self.place.index = None;
        Ok(())
    }

    fn data_value(&mut self) -> Step {
        let at = self.reader.offset();
        let mask = self.octet("DataValueMask")?;
        if mask & 0xc0 != 0 {
            self.reserved("the mask of a DataValue", at, mask);
        }
        if mask & 0x01 != 0 {
            self.variant("VariantMask")?;
        }
        for (bit, name, octets) in [
            (0x02, "StatusCode", 4),
            (0x04, "SourceTimestamp", 8),
            (0x10, "SourcePicoSeconds", 2),
            (0x08, "ServerTimestamp", 8),
            (0x20, "ServerPicoSeconds", 2),
        ] {
            if mask & bit != 0 {
                self.number(name, octets)?;
            }
        }
        Ok(())
    }

    fn variant(&mut self, name: &'static str) -> Step {
        let at = self.reader.offset();
        let mask = self.octet(name)?;
        if mask == 0 {
            return Ok(());
        }
        let Some(kind) = BuiltIn::from_id(mask & 0x3f) else {
            self.reserved("the type of a Variant", at, mask);
            return Err(Stop);
        };
        if mask & 0x80 == 0 {
            return self.value(kind);
        }
        let count = self.number("ArrayLength", 4)? as u32 as i32;
        for _ in 0..count.max(0) {
            self.value(kind)?;
        }
        if mask & 0x40 != 0 {
            let count = self.number("DimensionCount", 4)? as u32 as i32;
            for _ in 0..count.max(0) {
                self.number("Dimension", 4)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, kind: BuiltIn) -> Step {
        let at = self.reader.offset();
        let value = Value::read(&mut self.reader, kind, 0);
        let value = self.check(value)?;
        self.report(kind.name(), at, ViewValue::Value(value));
        Ok(())
    }
}
