//! The object dictionary: what a node is and is told, by index and sub-index (DS 301, 6.2).

mod standard;
mod types;

pub use types::{Access, DataType, Mappable};

use crate::AbortCode;
use std::collections::BTreeMap;

/// One value, or all values of one kind in an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, as in DS 301 or a device description.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// Who may do what over the network.
    pub access: Access,
    /// Whether it may be mapped.
    pub mappable: Mappable,
    /// The least value, where there is one.
    pub low: Option<i128>,
    /// The greatest value, where there is one.
    pub high: Option<i128>,
    /// The value, little-endian.
    pub value: Vec<u8>,
}

impl Entry {
    /// An entry that can be read and written, of this type, all zeros; strings and domains are empty.
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

    /// Its value as a number, if it has one; BOOLEAN is 0 or 1, an IP address its 32 bits.
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

    /// Checks length and range of a new value, then takes it.
    ///
    /// # Errors
    /// What the network is told: too long, too short, out of range.
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

/// What an index stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// One value.
    Variable,
    /// Values of one kind; sub-index 0 counts them.
    Array,
    /// Values of several kinds; sub-index 0 counts them.
    Record,
}

/// All values of one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// What it stands for.
    pub kind: ObjectKind,
    /// Values by sub-index.
    pub entries: BTreeMap<u8, Entry>,
    /// What a sub-index that is not in `entries` begins as, up to the last that there may be; such a value takes no memory
    /// before it is written.
    pub others: Option<(u8, Entry)>,
}

impl Object {
    /// The entry of `subindex`, if there is or may be one.
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

/// An object dictionary. Reading and writing over the network goes by [`read`](Self::read) and [`write`](Self::write); the
/// node itself may read and change everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ObjectDictionary {
    objects: BTreeMap<u16, Object>,
}

impl ObjectDictionary {
    /// All objects by index.
    pub fn objects(&self) -> impl Iterator<Item = (u16, &Object)> {
        self.objects.iter().map(|(&index, object)| (index, object))
    }

    /// The object of `index`.
    #[must_use]
    pub fn object(&self, index: u16) -> Option<&Object> {
        self.objects.get(&index)
    }

    /// Puts an object in, in the place of one that was there.
    pub fn insert(&mut self, index: u16, object: Object) {
        self.objects.insert(index, object);
    }

    /// Puts in a variable that can be mapped: what an application adds for its process data.
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

    /// The entry of an index and sub-index.
    ///
    /// # Errors
    /// There is no such object, or no such sub-index.
    pub fn entry(&self, index: u16, subindex: u8) -> Result<&Entry, AbortCode> {
        let object = self.objects.get(&index).ok_or(AbortCode::NO_OBJECT)?;
        object.entry(subindex).ok_or(AbortCode::NO_SUBINDEX)
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// There is no such object, or no such sub-index.
    pub fn entry_mut(&mut self, index: u16, subindex: u8) -> Result<&mut Entry, AbortCode> {
        let object = self.objects.get_mut(&index).ok_or(AbortCode::NO_OBJECT)?;
        object.entry_mut(subindex).ok_or(AbortCode::NO_SUBINDEX)
    }

    /// Reads a value as the network may.
    ///
    /// # Errors
    /// There is no such value, or it can only be written.
    pub fn read(&self, index: u16, subindex: u8) -> Result<&[u8], AbortCode> {
        let entry = self.entry(index, subindex)?;
        if !entry.access.readable() {
            return Err(AbortCode::WRITE_ONLY);
        }
        Ok(&entry.value)
    }

    /// Writes a value as the network may.
    ///
    /// # Errors
    /// There is no such value, it can only be read, or the new one is of a wrong length or out of range.
    pub fn write(&mut self, index: u16, subindex: u8, value: &[u8]) -> Result<(), AbortCode> {
        if !self.entry(index, subindex)?.access.writable() {
            return Err(AbortCode::READ_ONLY);
        }
        self.entry_mut(index, subindex)?.set(value)
    }

    /// The number at an index and sub-index; 0 where there is none.
    #[must_use]
    pub fn number(&self, index: u16, subindex: u8) -> u64 {
        let number = self.entry(index, subindex).ok().and_then(Entry::number);
        number.map_or(0, |number| number as u64)
    }

    /// Sets a number, whoever may write it; does nothing where there is no such object or the number does not fit.
    pub fn set_number(&mut self, index: u16, subindex: u8, number: u64) {
        if let Ok(entry) = self.entry_mut(index, subindex) {
            let bytes = number.to_le_bytes();
            if let Some(value) = bytes.get(..entry.value.len()) {
                entry.value.copy_from_slice(value);
            }
        }
    }

    /// Sets a value, whoever may write it, without judging it; does nothing where there is no such object.
    pub fn set_value(&mut self, index: u16, subindex: u8, value: &[u8]) {
        if let Ok(entry) = self.entry_mut(index, subindex) {
            value.clone_into(&mut entry.value);
        }
    }
}
