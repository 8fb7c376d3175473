//! Arrays of maps: their entries can be changed while the program runs.

use crate::error::Errno;
use libbpf_rs::libbpf_sys;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// An array whose entries are maps.
#[derive(Debug)]
pub struct MapOfMaps {
    fd: OwnedFd,
}

impl MapOfMaps {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Puts a map in place of the previous entry. Waits until no program uses that any more: up to some tens of
    /// milliseconds.
    ///
    /// # Errors
    /// The map is of another kind than the array's, or there is no such entry.
    pub fn put(&self, index: u32, map: BorrowedFd<'_>) -> Result<(), Errno> {
        let map = map.as_raw_fd();
        // SAFETY: key and value are four bytes each, as this kind of map has them, and valid for the whole call.
        done(unsafe {
            libbpf_sys::bpf_map_update_elem(
                self.fd.as_raw_fd(),
                (&raw const index).cast(),
                (&raw const map).cast(),
                0,
            )
        })
    }

    /// Removes a map. Waits as [`put`](Self::put) does.
    ///
    /// # Errors
    /// The entry is empty.
    pub fn remove(&self, index: u32) -> Result<(), Errno> {
        // SAFETY: the key is four bytes, as this kind of map has it, and valid for the whole call.
        done(unsafe {
            libbpf_sys::bpf_map_delete_elem(self.fd.as_raw_fd(), (&raw const index).cast())
        })
    }
}

fn done(result: i32) -> Result<(), Errno> {
    if result == 0 {
        Ok(())
    } else {
        Err(Errno(-result))
    }
}
