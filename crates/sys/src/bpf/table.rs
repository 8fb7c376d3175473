//! Tables that user space and a program share entry by entry: hash tables and arrays.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use super::{BpfError, BpfObject};

/// A table of a BPF object whose values consist of 64-bit words. For set-up: each call is a system call.
#[derive(Debug)]
pub struct Table {
    name: String,
    handle: MapHandle,
    words: usize,
}

impl BpfObject {
    /// Returns a table whose keys have `key_bytes` bytes and whose values have `words` words.
    ///
    /// # Errors
    /// The table is missing or has another shape.
    pub fn table(&self, map: &str, key_bytes: usize, words: usize) -> Result<Table, BpfError> {
        let found = self.map(map)?;
        let error = |source: std::io::Error| BpfError::Map {
            map: map.to_owned(),
            source,
        };
        let (key, value) = (found.key_size() as usize, found.value_size() as usize);
        if key != key_bytes || value != words * size_of::<u64>() {
            let what = format!("its keys have {key} bytes and its values {value}");
            return Err(error(std::io::Error::other(what)));
        }
        let handle = MapHandle::try_from(&found);
        Ok(Table {
            name: map.to_owned(),
            handle: handle.map_err(|source| error(std::io::Error::other(source)))?,
            words,
        })
    }
}

impl Table {
    fn failed(&self, source: libbpf_rs::Error) -> BpfError {
        BpfError::Map {
            map: self.name.clone(),
            source: std::io::Error::other(source),
        }
    }

    /// Sets an entry. A program sees the old value or the new one, and never a part of one.
    ///
    /// # Errors
    /// The table is full.
    pub fn set(&self, key: &[u8], value: &[u64]) -> Result<(), BpfError> {
        let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let done = self.handle.update(key, &bytes, MapFlags::ANY);
        done.map_err(|source| self.failed(source))
    }

    /// Returns an entry.
    ///
    /// # Errors
    /// The kernel refuses the look-up.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u64>>, BpfError> {
        let found = self.handle.lookup(key, MapFlags::ANY);
        let found = found.map_err(|source| self.failed(source))?;
        Ok(found.map(|bytes| {
            let words = bytes.chunks_exact(size_of::<u64>()).take(self.words);
            let word = |chunk: &[u8]| chunk.try_into().map_or(0, u64::from_ne_bytes);
            words.map(word).collect()
        }))
    }

    /// Removes an entry, which need not be there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&self, key: &[u8]) -> Result<(), BpfError> {
        match self.handle.delete(key) {
            Err(source) if source.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|source| self.failed(source)),
        }
    }
}
