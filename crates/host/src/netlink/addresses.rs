//! Addresses and routes of an interface: read, removed, restored.

use std::net::IpAddr;

use super::Netlink;
use super::attributes::{find, number, u32_at};
use super::raw::RawRequest;
use crate::HostError;

const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;
const NLM_F_EXCL_CREATE: u16 = 0x600;

/// An address of an interface, with the kernel's bytes to make it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// The length of its network part, bits.
    pub prefix: u8,
    /// True if the kernel made it by itself (IPv6 link-local).
    pub automatic: bool,
    /// The kernel's own description.
    pub raw: Vec<u8>,
}

/// A route on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// True if it is a default route.
    pub default: bool,
    /// Its origin: 2 for the kernel, along with an address.
    pub protocol: u8,
    /// The routing table.
    pub table: u32,
    /// The kernel's own description.
    pub raw: Vec<u8>,
}

impl Route {
    /// Returns the route in words: `default via 10.0.0.1 table 254`.
    #[must_use]
    pub fn shown(&self) -> String {
        let attributes = self.raw.get(ROUTE_HEADER..).unwrap_or_default();
        let to = find(attributes, 1).and_then(address);
        let by = find(attributes, 5).and_then(address);
        let prefix = self.raw.get(1).copied().unwrap_or(0);
        let to = to.map_or_else(|| "default".to_owned(), |to| format!("{to}/{prefix}"));
        let family = if self.raw.first() == Some(&10) {
            " (IPv6)"
        } else {
            ""
        };
        let by = by.map_or_else(String::new, |by| format!(" via {by}"));
        format!("route {to}{by} table {}{family}", self.table)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

impl Netlink {
    /// Returns the addresses of an interface, IPv4 and IPv6, in the kernel's order.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<Address>, HostError> {
        let request = RawRequest::route(RTM_GETADDR, 0, vec![0; ADDRESS_HEADER]).dump();
        let replies = self.ask(&request, || {
            format!("read the addresses of interface {index}")
        })?;
        Ok(replies
            .into_iter()
            .filter(|reply| u32_at(reply, 4) == Some(index))
            .filter_map(|reply| {
                const PERMANENT: u64 = 0x80;
                const SCOPE_LINK: u8 = 253;
                const KERNEL_LINK_LOCAL: u64 = 3;
                let attributes = reply.get(ADDRESS_HEADER..)?;
                // For point-to-point links both are reported; the local one is the interface's.
                let own = find(attributes, 2).or_else(|| find(attributes, 1))?;
                let own = address(own)?;
                let flags = find(attributes, 8).and_then(number).unwrap_or(0);
                let made_by = find(attributes, 11).and_then(number).unwrap_or(0);
                let link_local = own.is_ipv6() && reply.get(3) == Some(&SCOPE_LINK);
                Some(Address {
                    address: own,
                    prefix: *reply.get(1)?,
                    automatic: made_by == KERNEL_LINK_LOCAL
                        || (made_by == 0 && link_local)
                        || (own.is_ipv6() && flags & PERMANENT == 0),
                    raw: reply,
                })
            })
            .collect())
    }

    /// Returns the routes on an interface, from all tables.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn routes(&mut self, index: u32) -> Result<Vec<Route>, HostError> {
        let request = RawRequest::route(RTM_GETROUTE, 0, vec![0; ROUTE_HEADER]).dump();
        let replies = self.ask(&request, || format!("read the routes on interface {index}"))?;
        Ok(replies
            .into_iter()
            .filter_map(|reply| {
                const UNICAST: u8 = 1;
                let attributes = reply.get(ROUTE_HEADER..)?;
                let by = find(attributes, 4).and_then(number)?;
                let unicast = reply.get(7) == Some(&UNICAST);
                (by == u64::from(index) && unicast).then_some(())?;
                let table = find(attributes, 15).and_then(|value| u32_at(value, 0));
                Some(Route {
                    default: reply.get(1) == Some(&0),
                    protocol: *reply.get(5)?,
                    table: table.unwrap_or(u32::from(*reply.get(4)?)),
                    raw: reply,
                })
            })
            .collect())
    }

    /// Removes an address; `raw` as in [`Address::raw`].
    pub(crate) fn remove_address(&mut self, raw: &[u8], shown: &str) -> Result<(), HostError> {
        const EADDRNOTAVAIL: i32 = 99;
        let request = RawRequest::route(RTM_DELADDR, 0, raw.to_vec());
        match self.acknowledge(&request, || format!("remove address {shown}")) {
            // Secondary addresses are removed with their primary one.
            Err(HostError::Netlink {
                errno: EADDRNOTAVAIL,
                ..
            }) => Ok(()),
            other => other,
        }
    }

    /// Restores an address.
    pub(crate) fn put_address(
        &mut self,
        raw: &[u8],
        index: u32,
        shown: &str,
    ) -> Result<(), HostError> {
        const EEXIST: i32 = 17;
        let mut raw = raw.to_vec();
        if let Some(place) = raw.get_mut(4..8) {
            place.copy_from_slice(&index.to_ne_bytes());
        }
        let request = RawRequest::route(RTM_NEWADDR, NLM_F_EXCL_CREATE, raw);
        match self.acknowledge(&request, || format!("restore address {shown}")) {
            Err(HostError::Netlink { errno: EEXIST, .. }) => Ok(()),
            other => other,
        }
    }

    /// Restores a route.
    pub(crate) fn put_route(&mut self, raw: &[u8], shown: &str) -> Result<(), HostError> {
        const EEXIST: i32 = 17;
        let request = RawRequest::route(RTM_NEWROUTE, NLM_F_EXCL_CREATE, raw.to_vec());
        match self.acknowledge(&request, || format!("give {shown} back")) {
            Err(HostError::Netlink { errno: EEXIST, .. }) => Ok(()),
            other => other,
        }
    }
}
