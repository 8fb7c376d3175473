//! Parameters that a controlled node stores and restores on command (objects 1010h and 1011h; DS 301, 7.2.1.1).
//!
//! The node has no file. It makes the bytes to store, and takes them back at its next start. They belong to one node, one
//! device and one configuration of it:
//!
//! ```text
//!  "rtwire parameters\n" | version (2) node (1) 0 | type vendor product revision serial (4 each)
//!  | check of the configuration (4) | length (4) | values, as a concise device configuration | CRC-32 (4)   little-endian
//! ```
//!
//! Only values that differ from the configuration's own are in it.

use super::ControlledNode;
use crate::od::{Access, Entry};
use crate::{AbortCode, Cdc, Error, ObjectDictionary, ProcessImage};

/// Store parameters.
pub(super) const STORE: u16 = 0x1010;
/// Restore default parameters.
pub(super) const RESTORE: u16 = 0x1011;
const MAGIC: &[u8; 18] = b"rtwire parameters\n";
const VERSION: u16 = 1;
/// The length of all fields before the values.
const HEAD_OCTETS: usize = MAGIC.len() + 2 + 2 + 5 * 4 + 4 + 4;

/// The parameters of a node that can store them.
#[derive(Clone, Debug)]
pub(crate) struct Keeping {
    /// The values of the configuration, without any stored one.
    defaults: ObjectDictionary,
    number: u8,
    /// The values that are stored.
    stored: Cdc,
    /// The values that are to be stored. Until the application reports the outcome, nothing else is.
    wanted: Option<Cdc>,
    /// True where the application has taken them.
    taken: bool,
}

/// Returns true for the objects that a sub-index of 1010h and 1011h concerns.
const fn is_in(group: u8, index: u16) -> bool {
    match group {
        1 => true,
        2 => matches!(index, 0x1000..=0x1fff),
        3 => matches!(index, 0x6000..=0x9fff),
        _ => matches!(index, 0x2000..=0x5fff),
    }
}

/// Returns true for a value that is a setting: not process data, no counter, no command.
fn is_parameter(index: u16, subindex: u8, entry: &Entry, image: &ProcessImage) -> bool {
    let counts = matches!((index, subindex), (0x1c0a..=0x1c0f, 1 | 2) | (0x1c10, _));
    let acts = matches!(index, 0x1003 | STORE | RESTORE | 0x1f9e | 0x1f9f);
    entry.access == Access::ReadWrite && !counts && !acts && image.place(index, subindex).is_none()
}

impl Keeping {
    /// Takes a write to object 1010h or 1011h.
    pub(super) fn write(
        &mut self,
        index: u16,
        group: u8,
        data: &[u8],
        dictionary: &ObjectDictionary,
        image: &ProcessImage,
    ) -> Result<(), AbortCode> {
        let signature = if index == STORE { b"save" } else { b"load" };
        if group == 0 {
            return Err(AbortCode::READ_ONLY);
        }
        if data != signature {
            return Err(AbortCode::NOT_STORED);
        }
        if self.wanted.is_some() {
            return Err(AbortCode::DEVICE_STATE);
        }
        let others = self.stored.entries.iter();
        let mut entries: Vec<_> = others
            .filter(|entry| !is_in(group, entry.index))
            .cloned()
            .collect();
        if index == STORE {
            let mut cdc = Cdc::default();
            for (index, object) in dictionary.objects().filter(|(at, _)| is_in(group, *at)) {
                for (&subindex, entry) in &object.entries {
                    let default = self.defaults.entry(index, subindex);
                    let differs = default.is_ok_and(|default| default.value != entry.value);
                    if differs && is_parameter(index, subindex, entry, image) {
                        cdc.push_data(index, subindex, entry.value.clone());
                    }
                }
            }
            entries.extend(cdc.entries);
        }
        self.wanted = Some(Cdc { entries });
        self.taken = false;
        Ok(())
    }

    /// Returns true where the outcome of a write is not known yet.
    pub(super) const fn is_pending(&self) -> bool {
        self.wanted.is_some()
    }

    /// Returns the fields in front of the values.
    fn head(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend([self.number, 0]);
        for number in identity(&self.defaults) {
            out.extend(number.to_le_bytes());
        }
        out.extend(check_of(&self.defaults).to_le_bytes());
        out
    }

    fn emit(&self, cdc: &Cdc) -> Vec<u8> {
        let values = cdc.emit();
        let mut out = self.head();
        out.extend((values.len() as u32).to_le_bytes());
        out.extend(values);
        out.extend(crc(&out).to_le_bytes());
        out
    }

    fn parse(&self, bytes: &[u8]) -> Result<Cdc, Error> {
        let wrong = |what: String| Error::Parameters { what };
        if !bytes.starts_with(MAGIC) {
            return Err(wrong("this is no file of stored parameters".into()));
        }
        let number = |at: usize| {
            let octets = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
            octets.map(u32::from_le_bytes)
        };
        let version = number(MAGIC.len()).map_or(0, |word| word as u16);
        if version != VERSION {
            return Err(wrong(format!(
                "stored parameters of format {version}; this program reads format {VERSION}"
            )));
        }
        let end = bytes.len().saturating_sub(4);
        let length = number(HEAD_OCTETS - 4).map(|length| length as usize);
        let body = bytes.get(HEAD_OCTETS..end).unwrap_or_default();
        let whole = length == Some(body.len()) && number(end) == bytes.get(..end).map(crc);
        let damaged = || wrong("stored parameters are damaged: their check sum is wrong".into());
        if !whole {
            return Err(damaged());
        }
        let of_node = bytes.get(MAGIC.len() + 2).copied().unwrap_or_default();
        if of_node != self.number {
            return Err(wrong(format!(
                "stored parameters of node {of_node}, not of node {}",
                self.number
            )));
        }
        let own = self.head();
        let (device, check) = (MAGIC.len() + 4, HEAD_OCTETS - 8);
        if bytes.get(device..check) != own.get(device..check) {
            return Err(wrong("stored parameters of another device".into()));
        }
        if bytes.get(check..HEAD_OCTETS - 4) != own.get(check..) {
            return Err(wrong(
                "stored parameters of an older configuration: objects or mapping have changed since"
                    .into(),
            ));
        }
        Cdc::parse(body).map_err(|_| damaged())
    }

    /// Returns the configuration's values with the stored ones over them.
    fn merged(&self, stored: &Cdc) -> Result<ObjectDictionary, Error> {
        let mut all = self.defaults.clone();
        stored.apply(&mut all)?;
        Ok(all)
    }
}

/// Returns type, vendor, product, revision and serial number.
fn identity(dictionary: &ObjectDictionary) -> [u32; 5] {
    let number = |index, subindex| dictionary.number(index, subindex) as u32;
    [
        number(0x1000, 0),
        number(0x1018, 1),
        number(0x1018, 2),
        number(0x1018, 3),
        number(0x1018, 4),
    ]
}

/// Returns a check of what the configuration defines: the mapping, and all objects beyond DS 301's with their values.
fn check_of(dictionary: &ObjectDictionary) -> u32 {
    let mut all = Vec::new();
    let defined = dictionary.objects();
    for (index, object) in defined.filter(|(at, _)| matches!(at, 0x1400..=0x1aff | 0x2000..)) {
        for (subindex, entry) in &object.entries {
            all.extend(index.to_le_bytes());
            all.push(*subindex);
            all.extend((entry.value.len() as u32).to_le_bytes());
            all.extend(&entry.value);
        }
    }
    crc(&all)
}

/// Returns the CRC-32 of IEEE 802.3.
fn crc(octets: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    let mut crc = u32::MAX;
    for octet in octets {
        crc = (0..8).fold(crc ^ u32::from(*octet), |crc, _| step(crc));
    }
    !crc
}

impl ControlledNode {
    /// Lets the node store its parameters (objects 1010h and 1011h), and takes over those that were `stored` before. Returns
    /// their number. Call it before [`Node::start`](rtwire_wire::Node::start).
    ///
    /// From then on look with [`parameters_to_store`](Self::parameters_to_store) after each call of the node. Object 1010h has
    /// four groups: all, communication (1000h to 1FFFh), application (6000h to 9FFFh) and manufacturer (2000h to 5FFFh). Values
    /// that can be read and written are parameters, except process data, counters and commands. "load" (1011h) takes effect with
    /// the next reset of the node.
    ///
    /// # Errors
    /// `stored` is damaged, of another version, or of another node, device or configuration. The node then has its defaults,
    /// and stores as well.
    pub fn keep_parameters(&mut self, stored: Option<&[u8]>) -> Result<usize, Error> {
        self.initial.insert_parameter_objects();
        self.dictionary = self.initial.clone();
        let mut keeping = Keeping {
            defaults: self.initial.clone(),
            number: self.node,
            stored: Cdc::default(),
            wanted: None,
            taken: false,
        };
        let taken = stored.map_or(Ok(Cdc::default()), |bytes| keeping.parse(bytes));
        let taken = taken.and_then(|cdc| Ok((keeping.merged(&cdc)?, cdc)));
        let defaults = self.dictionary.clone();
        let result = taken.and_then(|(merged, cdc)| {
            self.dictionary = merged;
            let laid_out = self.lay_out();
            laid_out.map(|()| keeping.stored = cdc)
        });
        match result {
            Ok(()) => self.initial = self.dictionary.clone(),
            Err(_) => {
                self.dictionary = defaults;
                // The configuration's own mapping was laid out before.
                let _ = self.lay_out();
            }
        }
        let count = keeping.stored.entries.len();
        self.keeping = Some(Box::new(keeping));
        result.map(|()| count)
    }

    /// Takes the bytes that the application is to store now, in place of those before. Report the outcome with
    /// [`parameters_stored`](Self::parameters_stored): until then the command is not answered. Allocates only where there are
    /// some.
    pub fn parameters_to_store(&mut self) -> Option<Vec<u8>> {
        let keeping = self.keeping.as_mut()?;
        let wanted = keeping.wanted.as_ref().filter(|_| !keeping.taken)?;
        let bytes = keeping.emit(wanted);
        keeping.taken = true;
        Some(bytes)
    }

    /// Reports whether the bytes were stored, and answers the command. Returns the number of values that are stored now.
    pub fn parameters_stored(&mut self, done: bool) -> usize {
        let Some(keeping) = &mut self.keeping else {
            return 0;
        };
        if let Some(wanted) = keeping.wanted.take() {
            let merged = keeping.merged(&wanted);
            let stored = merged.ok().filter(|_| done);
            let result = match stored {
                Some(merged) => {
                    keeping.stored = wanted;
                    // In force from the next reset on.
                    self.initial = merged;
                    Ok(())
                }
                None => Err(AbortCode::HARDWARE),
            };
            self.server.finish(result);
        }
        let count = keeping.stored.entries.len();
        self.prepare_pres();
        count
    }
}
