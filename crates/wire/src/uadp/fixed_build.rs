//! Makes the tables of a fixed layout: emits the message once and notes where everything is.

use super::bytes::Writer;
use super::fixed::{
    DataSetPlace, FIXED_DATA_SETS, FIXED_FIELDS, FIXED_OCTETS, FieldPlace, FixedDataSet,
    FixedLayout, WINDOW, WINDOWS, Window,
};
use super::header::{EXTENDED, Header, PublisherId};
use super::{BuiltIn, Content, DataSetMessage, FieldEncoding, UadpError};

const MANY: UadpError = UadpError::Inconsistent {
    what: "a fixed layout has at most 32 DataSetMessages and 256 fields",
};

/// The octets that every message of the layout has in common, by a mask.
struct Fixed {
    mask: [u8; WINDOWS * WINDOW],
}

impl Fixed {
    /// Excepts `octets` octets at `at`.
    fn except(&mut self, at: Option<u16>, octets: usize) {
        let Some(at) = at.map(usize::from) else {
            return;
        };
        if let Some(part) = self.mask.get_mut(at..at + octets) {
            part.fill(0);
        }
    }

    fn include(&mut self, from: usize, to: usize) {
        if let Some(part) = self.mask.get_mut(from..to) {
            part.fill(0xff);
        }
    }
}

impl FixedLayout {
    /// Makes the layout of messages with these parts.
    ///
    /// Sequence numbers, times, status, token and nonce can change from message to message; all else of the headers
    /// cannot. With a payload header, there is one writer for each data set.
    ///
    /// # Errors
    /// The message is longer than [`FIXED_OCTETS`], has too many parts, promoted fields, or fields of types whose
    /// length is not fixed.
    pub fn new(header: &Header<'_>, data_sets: &[FixedDataSet<'_>]) -> Result<Self, UadpError> {
        if header.promoted.is_some() || header.chunk || data_sets.is_empty() {
            return Err(UadpError::Inconsistent {
                what: "a fixed layout has data sets, no promoted fields, and is no chunk",
            });
        }
        if header
            .writers
            .is_some_and(|writers| writers.len() != data_sets.len())
        {
            return Err(UadpError::Inconsistent {
                what: "the payload header needs one writer for each DataSetMessage",
            });
        }
        let mut layout = Self::empty();
        let mut fixed = Fixed {
            mask: [0; WINDOWS * WINDOW],
        };
        let mut template = [0; FIXED_OCTETS];
        let payload_at = header.emit(&mut template)?;
        fixed.include(0, payload_at);
        layout.note_header(header, &template, payload_at, &mut fixed);
        let mut writer = Writer::new(&mut template);
        writer.skip(payload_at)?;
        let sized = header.writers.is_some() && data_sets.len() > 1;
        if sized {
            writer.zeros(data_sets.len() * 2)?;
            fixed.include(payload_at, writer.octets());
        }
        for (index, data_set) in data_sets.iter().enumerate() {
            let start = writer.octets();
            layout.note_data_set(data_set, &mut writer, &mut fixed)?;
            if sized {
                // At most FIXED_OCTETS.
                let size = (writer.octets() - start) as u16;
                writer.patch_u16(payload_at + index * 2, size);
            }
        }
        layout.octets = writer.octets();
        layout.template = template;
        layout.make_windows(&fixed);
        Ok(layout)
    }

    /// Notes the header's fields that can change.
    fn note_header(
        &mut self,
        header: &Header<'_>,
        template: &[u8],
        payload_at: usize,
        fixed: &mut Fixed,
    ) {
        self.payload_at = payload_at;
        let extended = |at: usize| template.get(at).is_some_and(|flags| flags & EXTENDED != 0);
        let mut at = match (extended(0), extended(1)) {
            (false, _) => 1,
            (true, false) => 2,
            (true, true) => 3,
        };
        at += match header.publisher_id {
            None => 0,
            Some(PublisherId::Byte(_)) => 1,
            Some(PublisherId::UInt16(_)) => 2,
            Some(PublisherId::UInt32(_)) => 4,
            Some(PublisherId::UInt64(_)) => 8,
            Some(PublisherId::String(text)) => 4 + text.len(),
        };
        at += header.data_set_class_id.map_or(0, |_| 16);
        // All offsets are below FIXED_OCTETS.
        let here = |at: usize| Some(at as u16);
        if let Some(group) = header.group {
            at += 1;
            at += group.writer_group_id.map_or(0, |_| 2);
            at += group.group_version.map_or(0, |_| 4);
            at += group.message_number.map_or(0, |_| 2);
            if group.sequence.is_some() {
                self.sequence = here(at);
                at += 2;
            }
        }
        at += header.writers.map_or(0, |writers| 1 + writers.len() * 2);
        if header.timestamp.is_some() {
            self.timestamp = here(at);
            at += 8;
        }
        if header.picoseconds.is_some() {
            self.picoseconds = here(at);
            at += 2;
        }
        if let Some(security) = header.security {
            self.token = here(at + 1);
            let octets = security.nonce.len();
            self.nonce = Some(((at + 6) as u16, octets as u16));
            fixed.except(here(at + 6), octets);
        }
        fixed.except(self.sequence, 2);
        fixed.except(self.timestamp, 8);
        fixed.except(self.picoseconds, 2);
        fixed.except(self.token, 4);
    }

    fn note_data_set(
        &mut self,
        data_set: &FixedDataSet<'_>,
        writer: &mut Writer<'_>,
        fixed: &mut Fixed,
    ) -> Result<(), UadpError> {
        let start = writer.octets();
        let header = DataSetMessage {
            content: Content::Heartbeat(data_set.encoding),
            ..data_set.header
        };
        header.write(writer)?;
        fixed.include(start, writer.octets());
        let two = header.timestamp.is_some() || header.picoseconds.is_some() || header.spare_flags;
        let mut at = start + 1 + usize::from(two);
        let mut note = |sent: bool, octets: usize| {
            let place = sent.then_some(at as u16);
            at += if sent { octets } else { 0 };
            fixed.except(place, octets);
            place
        };
        let mut place = DataSetPlace {
            sequence: note(header.sequence.is_some(), 2),
            timestamp: note(header.timestamp.is_some(), 8),
            picoseconds: note(header.picoseconds.is_some(), 2),
            status: note(header.status.is_some(), 2),
            data_at: writer.octets() as u16,
            end: 0,
            first_field: self.field_count as u16,
            fields: data_set.fields.len() as u16,
        };
        if data_set.fields.is_empty() {
            return Err(UadpError::Inconsistent {
                what: "a data set of a fixed layout has at least one field",
            });
        }
        if data_set.encoding == FieldEncoding::Variant {
            let count = u16::try_from(data_set.fields.len()).map_err(|_| MANY)?;
            fixed.include(writer.octets(), writer.octets() + 2);
            writer.u16(count)?;
        }
        for field in data_set.fields {
            let octets = match data_set.encoding {
                FieldEncoding::RawData => field.octets(),
                FieldEncoding::Variant if field.dimensions.is_empty() => field.kind.octets(),
                _ => None,
            };
            let octets = octets.ok_or(UadpError::Inconsistent {
                what: "a field of a fixed layout is RawData, or a single Variant, of fixed length",
            })?;
            if data_set.encoding == FieldEncoding::Variant {
                fixed.include(writer.octets(), writer.octets() + 1);
                writer.u8(field.kind.id())?;
            }
            let at = writer.octets();
            writer.zeros(octets)?;
            *self.fields.get_mut(self.field_count).ok_or(MANY)? = FieldPlace {
                kind: field.kind,
                at: at as u16,
                octets: octets as u16,
                scalar: field.dimensions.is_empty() && field.kind.octets().is_some(),
            };
            self.field_count += 1;
        }
        place.end = writer.octets() as u16;
        let configured = start + usize::from(data_set.configured_octets);
        if configured > writer.octets() {
            fixed.include(writer.octets(), configured);
            writer.zeros(configured - writer.octets())?;
        }
        *self.data_sets.get_mut(self.data_set_count).ok_or(MANY)? = place;
        self.data_set_count += 1;
        Ok(())
    }

    /// Makes the windows that cover all fixed octets.
    fn make_windows(&mut self, fixed: &Fixed) {
        let masks = fixed.mask.chunks_exact(WINDOW);
        for (index, mask) in masks.enumerate() {
            let mut number = [0; WINDOW];
            number.copy_from_slice(mask);
            let mask = u64::from_le_bytes(number);
            if mask == 0 {
                continue;
            }
            let at = index * WINDOW;
            let value = Window::load(&self.template[..self.octets], at) & mask;
            if let Some(window) = self.windows.get_mut(self.window_count) {
                *window = Window {
                    at: at as u16,
                    mask,
                    value,
                };
                self.window_count += 1;
            }
        }
    }

    const fn empty() -> Self {
        let place = DataSetPlace {
            data_at: 0,
            end: 0,
            first_field: 0,
            fields: 0,
            sequence: None,
            timestamp: None,
            picoseconds: None,
            status: None,
        };
        let field = FieldPlace {
            kind: BuiltIn::Byte,
            at: 0,
            octets: 0,
            scalar: false,
        };
        let window = Window {
            at: 0,
            mask: 0,
            value: 0,
        };
        Self {
            template: [0; FIXED_OCTETS],
            octets: 0,
            payload_at: 0,
            windows: [window; WINDOWS],
            window_count: 0,
            data_sets: [place; FIXED_DATA_SETS],
            data_set_count: 0,
            fields: [field; FIXED_FIELDS],
            field_count: 0,
            sequence: None,
            timestamp: None,
            picoseconds: None,
            token: None,
            nonce: None,
        }
    }
}
