//! The concise device configuration (DS 301, 6.7.2.2): the values of objects, one after the other. Configurators
//! write it for managing nodes, and object 1F22h holds it for each controlled node.
//!
//! ```text
//!  entries (4) | index (2) sub-index (1) octets (4) data … | index …        all little-endian
//! ```

use crate::{Error, ObjectDictionary};

/// A concise device configuration: the objects to write and their values, in order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Cdc {
    /// The values.
    pub entries: Vec<CdcEntry>,
}

/// The value of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CdcEntry {
    /// Index.
    pub index: u16,
    /// Sub-index.
    pub subindex: u8,
    /// The value to write, little-endian.
    pub data: Vec<u8>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, octets: usize, what: &'static str) -> Result<&'a [u8], Error> {
        let end = self.at.saturating_add(octets);
        let Some(taken) = self.bytes.get(self.at..end) else {
            return Err(Error::CdcTruncated {
                at: self.bytes.len(),
                what,
                needed: end - self.bytes.len(),
            });
        };
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }
}

impl Cdc {
    /// Parses a configuration. No bytes at all denote an empty one.
    ///
    /// # Errors
    /// It ends too early, or has bytes behind its last entry.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader { bytes, at: 0 };
        let count = u32::from_le_bytes(reader.array("the number of entries")?);
        let mut entries = Vec::new();
        for _ in 0..count {
            let index = u16::from_le_bytes(reader.array("an entry's index")?);
            let [subindex] = reader.array("an entry's sub-index")?;
            let octets = u32::from_le_bytes(reader.array("an entry's size")?);
            let data = reader.take(octets as usize, "an entry's data")?.to_vec();
            entries.push(CdcEntry {
                index,
                subindex,
                data,
            });
        }
        let octets = bytes.len() - reader.at;
        if octets > 0 {
            return Err(Error::CdcTrailing {
                octets,
                entries: count,
            });
        }
        Ok(Self { entries })
    }

    /// Returns the configuration as bytes. It omits entries beyond 2³² − 1, and bytes of an entry beyond that length.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let mut out = count.to_le_bytes().to_vec();
        for entry in self.entries.iter().take(count as usize) {
            let octets = u32::try_from(entry.data.len()).unwrap_or(u32::MAX);
            out.extend(entry.index.to_le_bytes());
            out.push(entry.subindex);
            out.extend(octets.to_le_bytes());
            out.extend(entry.data.iter().take(octets as usize));
        }
        out
    }

    /// Appends a number of `octets` bytes.
    pub fn push(&mut self, index: u16, subindex: u8, number: u64, octets: usize) {
        let data = number
            .to_le_bytes()
            .get(..octets.min(8))
            .map(<[u8]>::to_vec);
        self.push_data(index, subindex, data.unwrap_or_default());
    }

    /// Appends a value.
    pub fn push_data(&mut self, index: u16, subindex: u8, data: Vec<u8>) {
        self.entries.push(CdcEntry {
            index,
            subindex,
            data,
        });
    }

    /// Writes all values to a dictionary, in order. It checks only sizes and ranges, not access rights. Numbers may
    /// be shorter than their object, since configurators write them so.
    ///
    /// # Errors
    /// The first value that its object refuses. The values before it have been written, so apply it to a copy.
    pub fn apply(&self, dictionary: &mut ObjectDictionary) -> Result<(), Error> {
        for CdcEntry {
            index,
            subindex,
            data,
        } in &self.entries
        {
            let refused = |code| Error::Object {
                index: *index,
                subindex: *subindex,
                code,
            };
            let entry = dictionary.entry_mut(*index, *subindex).map_err(refused)?;
            let mut value = data.clone();
            if entry.number().is_some() && value.len() < entry.value.len() {
                value.resize(entry.value.len(), 0);
            }
            entry.set(&value).map_err(refused)?;
        }
        Ok(())
    }
}
