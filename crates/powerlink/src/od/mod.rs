//! The object dictionary: a node's properties and settings by index and sub-index (DS 301, 6.2).

mod standard;
mod types;

pub use types::{Access, DataType, Mappable};

use crate::AbortCode;
use std::collections::BTreeMap;

/// One value, or the common properties of all values of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the entry, as in DS 301 or a device description.
    pub name: String,
    /// Data type.
    pub data_type: DataType,
    /// Access rights over the network.
    pub access: Access,
    /// Permitted directions of mapping.
    pub mappable: Mappable,
    /// Smallest valid value; `None` without a limit.
    pub low: Option<i128>,
    /// Largest valid value; `None` without a limit.
    pub high: Option<i128>,
    /// The value, little-endian.
    pub value: Vec<u8>,
}

impl Entry {
    /// Creates an entry of this type with read and write access. All bytes are zero; strings and domains are empty.
    #[must_use]
    pub fn new(name: &str, data_type: DataType) -> Self {
        Self {
            name: name.into(),
            data_type,
            access: Access::ReadWrite,
            mappable: Mappable::No,
            low: None,
            high: None,
            value: vec![0; data_type.octets().unwrap_or_default()],
        }
    }

    /// Returns the value as a number, or `None` for other types. BOOLEAN is 0 or 1, an IP address its 32 bits.
    #[must_use]
    pub fn number(&self) -> Option<i128> {
        let mut wide = [0; 8];
        let octets = self.value.len();
        wide.get_mut(..octets)?.copy_from_slice(&self.value);
        let unsigned = u64::from_le_bytes(wide);
        match self.data_type {
            DataType::Integer(_) if octets > 0 => {
                let shift = 64 - 8 * octets as u32;
                Some(i128::from((unsigned << shift) as i64 >> shift))
            }
            DataType::Boolean | DataType::Unsigned(_) | DataType::IpAddress => {
                Some(i128::from(unsigned))
            }
            _ => None,
        }
    }

    /// Checks length and range of a new value, then stores it.
    ///
    /// # Errors
    /// The abort code for the network: too long, too short, or out of range.
    pub fn set(&mut self, value: &[u8]) -> Result<(), AbortCode> {
        if let Some(octets) = self.data_type.octets() {
            if value.len() > octets {
                return Err(AbortCode::LENGTH_HIGH);
            }
            if value.len() < octets {
                return Err(AbortCode::LENGTH_LOW);
            }
        }
        let before = core::mem::replace(&mut self.value, value.to_vec());
        let refused = match self.number() {
            Some(number) if self.high.is_some_and(|high| number > high) => AbortCode::RANGE_HIGH,
            Some(number) if self.low.is_some_and(|low| number < low) => AbortCode::RANGE_LOW,
            _ => return Ok(()),
        };
        self.value = before;
        Err(refused)
    }
}

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A single value.
    Variable,
    /// Values of one type; sub-index 0 counts them.
    Array,
    /// Values of several types; sub-index 0 counts them.
    Record,
}

/// All values of one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Name of the object.
    pub name: String,
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Values by sub-index.
    pub entries: BTreeMap<u8, Entry>,
    /// The last valid sub-index, and the initial entry of each sub-index that is not in `entries`. Such a value takes
    /// no memory until it is written.
    pub others: Option<(u8, Entry)>,
}

impl Object {
    /// Returns the entry of `subindex`, including one that was not written yet.
    #[must_use]
    pub fn entry(&self, subindex: u8) -> Option<&Entry> {
        self.entries.get(&subindex).or_else(|| {
            let (last, entry) = self.others.as_ref()?;
            (subindex != 0 && subindex <= *last).then_some(entry)
        })
    }

    fn entry_mut(&mut self, subindex: u8) -> Option<&mut Entry> {
        if !self.entries.contains_key(&subindex) {
            let entry = self.entry(subindex)?.clone();
            self.entries.insert(subindex, entry);
        }
        self.entries.get_mut(&subindex)
    }
}

/// An object dictionary. The network reads and writes with [`read`](Self::read) and [`write`](Self::write), which
/// check the access rights. The node itself may read and change everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ObjectDictionary {
    objects: BTreeMap<u16, Object>,
}

impl ObjectDictionary {
    /// Returns all objects by index.
    pub fn objects(&self) -> impl Iterator<Item = (u16, &Object)> {
        self.objects.iter().map(|(&index, object)| (index, object))
    }

    /// Returns the object of `index`.
    #[must_use]
    pub fn object(&self, index: u16) -> Option<&Object> {
        self.objects.get(&index)
    }

    /// Inserts an object; replaces one that was there.
    pub fn insert(&mut self, index: u16, object: Object) {
        self.objects.insert(index, object);
    }

    /// Inserts a variable that can be mapped, which an application adds for its process data.
    pub fn insert_variable(&mut self, index: u16, name: &str, data_type: DataType) {
        let mut entry = Entry::new(name, data_type);
        entry.mappable = Mappable::Both;
        let object = Object {
            name: name.into(),
            kind: ObjectKind::Variable,
            entries: BTreeMap::from([(0, entry)]),
            others: None,
        };
        self.insert(index, object);
    }

    /// Returns the entry of an index and sub-index.
    ///
    /// # Errors
    /// The object or the sub-index does not exist.
    pub fn entry(&self, index: u16, subindex: u8) -> Result<&Entry, AbortCode> {
        let object = self.objects.get(&index).ok_or(AbortCode::NO_OBJECT)?;
        object.entry(subindex).ok_or(AbortCode::NO_SUBINDEX)
    }

    /// Returns the entry of an index and sub-index for changes.
    ///
    /// # Errors
    /// The object or the sub-index does not exist.
    pub fn entry_mut(&mut self, index: u16, subindex: u8) -> Result<&mut Entry, AbortCode> {
        let object = self.objects.get_mut(&index).ok_or(AbortCode::NO_OBJECT)?;
        object.entry_mut(subindex).ok_or(AbortCode::NO_SUBINDEX)
    }

    /// Reads a value with the access rights of the network.
    ///
    /// # Errors
    /// The value does not exist, or it is write-only.
    pub fn read(&self, index: u16, subindex: u8) -> Result<&[u8], AbortCode> {
        let entry = self.entry(index, subindex)?;
        if !entry.access.readable() {
            return Err(AbortCode::WRITE_ONLY);
        }
        Ok(&entry.value)
    }

    /// Writes a value with the access rights of the network.
    ///
    /// # Errors
    /// The value does not exist, it is read-only, or the new value has a wrong length or is out of range.
    pub fn write(&mut self, index: u16, subindex: u8, value: &[u8]) -> Result<(), AbortCode> {
        if !self.entry(index, subindex)?.access.writable() {
            return Err(AbortCode::READ_ONLY);
        }
        self.entry_mut(index, subindex)?.set(value)
    }

    /// Returns the number at an index and sub-index; 0 if there is none.
    #[must_use]
    pub fn number(&self, index: u16, subindex: u8) -> u64 {
        let number = self.entry(index, subindex).ok().and_then(Entry::number);
        number.map_or(0, |number| number as u64)
    }

    /// Sets a number, whatever its access rights. Does nothing if the object does not exist or the number does not
    /// fit.
    pub fn set_number(&mut self, index: u16, subindex: u8, number: u64) {
        if let Ok(entry) = self.entry_mut(index, subindex) {
            let bytes = number.to_le_bytes();
            if let Some(value) = bytes.get(..entry.value.len()) {
                entry.value.copy_from_slice(value);
            }
        }
    }

    /// Sets a value, whatever its access rights, without any check. Does nothing if the object does not exist.
    pub fn set_value(&mut self, index: u16, subindex: u8, value: &[u8]) {
        if let Ok(entry) = self.entry_mut(index, subindex) {
            value.clone_into(&mut entry.value);
        }
    }
}
