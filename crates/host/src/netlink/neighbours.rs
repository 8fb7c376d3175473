//! Static neighbours and proxies of an interface: read, removed, restored.

use super::Netlink;
use super::attributes::{find, u16_at, u32_at};
use super::raw::RawRequest;
use crate::HostError;

const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_GETNEIGH: u16 = 30;
const NLM_F_REPLACE_CREATE: u16 = 0x500;
/// `struct ndmsg`: family, padding, interface, state, flags, type.
const HEADER: usize = 12;
const NUD_PERMANENT: u16 = 0x80;
const NTF_PROXY: u8 = 0x08;

/// A neighbour that somebody set, with the kernel's bytes to make it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticNeighbour {
    /// The entry in words: `neighbour 10.0.0.2 lladdr 02:00:00:00:00:02`.
    pub shown: String,
    /// The kernel's own description.
    pub raw: Vec<u8>,
}

/// Returns a hardware address in words: `02:00:00:00:00:02`.
pub(crate) fn hardware_address(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn shown(raw: &[u8]) -> Option<String> {
    let attributes = raw.get(HEADER..)?;
    let address = super::addresses::address(find(attributes, 1)?)?;
    let proxy = raw.get(10)? & NTF_PROXY != 0;
    let link = find(attributes, 2).unwrap_or_default();
    Some(match (proxy, link.is_empty()) {
        (true, _) => format!("proxy for neighbour {address}"),
        (false, true) => format!("neighbour {address}"),
        (false, false) => format!("neighbour {address} lladdr {}", hardware_address(link)),
    })
}

impl Netlink {
    /// Returns the permanent neighbours of an interface and those that it answers for, IPv4 and IPv6.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn static_neighbours(&mut self, index: u32) -> Result<Vec<StaticNeighbour>, HostError> {
        let mut found = Vec::new();
        for flags in [0, NTF_PROXY] {
            let mut header = [0; HEADER];
            header[10] = flags;
            let request = RawRequest::route(RTM_GETNEIGH, 0, header.to_vec()).dump();
            let replies = self.ask(&request, || {
                format!("read the neighbours of interface {index}")
            })?;
            let own = replies.into_iter().filter(|reply| {
                let permanent = u16_at(reply, 8).is_some_and(|state| state & NUD_PERMANENT != 0);
                let proxy = reply.get(10).is_some_and(|flags| flags & NTF_PROXY != 0);
                u32_at(reply, 4) == Some(index) && (proxy || permanent && flags == 0)
            });
            found.extend(own.filter_map(|raw| {
                let shown = shown(&raw)?;
                Some(StaticNeighbour { shown, raw })
            }));
        }
        Ok(found)
    }

    /// Returns the neighbours of an interface that are known by a hardware address, each in words with that address.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn neighbours(&mut self, index: u32) -> Result<Vec<(String, Vec<u8>)>, HostError> {
        /// Reachable, stale, delayed, probed, permanent: the address was learned or set.
        const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | NUD_PERMANENT;
        let request = RawRequest::route(RTM_GETNEIGH, 0, vec![0; HEADER]).dump();
        let replies = self.ask(&request, || {
            format!("read the neighbours of interface {index}")
        })?;
        let own = replies.into_iter().filter(|reply| {
            u32_at(reply, 4) == Some(index)
                && u16_at(reply, 8).is_some_and(|state| state & KNOWN != 0)
        });
        let known = own.filter_map(|raw| {
            let link = find(raw.get(HEADER..)?, 2)?.to_vec();
            Some((shown(&raw)?, link))
        });
        Ok(known.collect())
    }

    /// Removes a neighbour; one that is gone is no error.
    pub(crate) fn remove_neighbour(&mut self, raw: &[u8], shown: &str) -> Result<(), HostError> {
        const ENOENT: i32 = 2;
        let request = RawRequest::route(RTM_DELNEIGH, 0, raw.to_vec());
        match self.acknowledge(&request, || format!("remove {shown}")) {
            Err(HostError::Netlink { errno: ENOENT, .. }) => Ok(()),
            other => other,
        }
    }

    /// Restores a neighbour.
    pub(crate) fn put_neighbour(
        &mut self,
        raw: &[u8],
        index: u32,
        shown: &str,
    ) -> Result<(), HostError> {
        let mut raw = raw.to_vec();
        if let Some(place) = raw.get_mut(4..8) {
            place.copy_from_slice(&index.to_ne_bytes());
        }
        let request = RawRequest::route(RTM_NEWNEIGH, NLM_F_REPLACE_CREATE, raw);
        self.acknowledge(&request, || format!("restore {shown}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = shown(&bytes);
        }
    }
}
