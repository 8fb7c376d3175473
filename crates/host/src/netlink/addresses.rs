//! Addresses and routes of an interface: read, removed, restored.

use std::net::IpAddr;

use super::Netlink;
use super::attributes::{Writer, each, find, number, text, u16_at, u32_at};
use super::raw::RawRequest;
use crate::HostError;

const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;
const NLM_F_EXCL_CREATE: u16 = 0x600;
const NLM_F_REPLACE_CREATE: u16 = 0x500;
/// Attributes of a route.
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRIC: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
/// States that the kernel reports and does not take: a next hop is dead, its link is down.
const RTNH_F_DEAD: u8 = 0x01;
const RTNH_F_LINKDOWN: u8 = 0x10;

/// An address of an interface, with the kernel's bytes to make it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// The length of its network part, bits.
    pub prefix: u8,
    /// True if the kernel made it by itself (IPv6 link-local, or by a router's word).
    pub automatic: bool,
    /// True if it stays until somebody removes it.
    pub permanent: bool,
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
        let mut by = by.map_or_else(String::new, |by| format!(" via {by}"));
        for (_, index, hop) in hops(attributes) {
            let via = find(hop, 5).and_then(address);
            let via = via.map_or_else(String::new, |via| format!(" via {via}"));
            by += &format!(" nexthop{via} dev {index}");
        }
        let metric = find(attributes, RTA_METRIC).and_then(number);
        let metric = metric.map_or_else(String::new, |metric| format!(" metric {metric}"));
        const KINDS: [&str; 6] = ["", "", "local ", "broadcast ", "anycast ", "multicast "];
        let kind = self.raw.get(7).map_or(0, |kind| usize::from(*kind));
        let kind = KINDS.get(kind).copied().unwrap_or("");
        format!("route {kind}{to}{by}{metric} table {}{family}", self.table)
    }
}

/// Iterates over the next hops of a multipath route: place within the attributes' value, interface, attributes.
fn hops(attributes: &[u8]) -> impl Iterator<Item = (usize, u32, &[u8])> {
    const HEADER: usize = 8;
    let all = find(attributes, RTA_MULTIPATH).unwrap_or_default();
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = all.get(at..)?;
        let length = usize::from(u16_at(bytes, 0)?);
        let hop = bytes.get(HEADER..length)?;
        let found = (at, u32_at(bytes, 4)?, hop);
        at += length.next_multiple_of(4);
        Some(found)
    })
}

/// Returns an address whose label begins with the interface's present name.
fn labelled(raw: &[u8], name: &str) -> Vec<u8> {
    const LABEL: u16 = 3;
    let (Some(header), Some(attributes)) = (raw.get(..ADDRESS_HEADER), raw.get(ADDRESS_HEADER..))
    else {
        return raw.to_vec();
    };
    let all = each(attributes).fold(Writer::behind(header), |all, (kind, value)| {
        if kind != LABEL {
            return all.bytes(kind, value);
        }
        let label = text(value);
        let rest = label.split_once(':').map(|(_, rest)| format!(":{rest}"));
        all.text(kind, &(name.to_owned() + &rest.unwrap_or_default()))
    });
    all.finish()
}

/// Returns a route as the kernel takes it: without the states of its next hops.
fn without_states(raw: &[u8]) -> Vec<u8> {
    let mut told = raw.to_vec();
    let clear = |flags: Option<&mut u8>| {
        if let Some(flags) = flags {
            *flags &= !(RTNH_F_DEAD | RTNH_F_LINKDOWN);
        }
    };
    // `rtm_flags`, a number of 32 bits.
    clear(told.get_mut(if cfg!(target_endian = "little") {
        8
    } else {
        11
    }));
    let attributes = raw.get(ROUTE_HEADER..).unwrap_or_default();
    let Some(list) = find(attributes, RTA_MULTIPATH) else {
        return told;
    };
    // `find` returns a part of `raw`.
    let start = list.as_ptr() as usize - raw.as_ptr() as usize;
    for (at, ..) in hops(attributes) {
        clear(told.get_mut(start + at + 2));
    }
    told
}

pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
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
                    permanent: own.is_ipv4() || flags & PERMANENT != 0,
                    raw: reply,
                })
            })
            .collect())
    }

    /// Returns the routes on an interface, from all tables: those that leave by it, by it among others, or from one of
    /// its addresses `own`.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn routes(&mut self, index: u32, own: &[Address]) -> Result<Vec<Route>, HostError> {
        let request = RawRequest::route(RTM_GETROUTE, 0, vec![0; ROUTE_HEADER]).dump();
        let replies = self.ask(&request, || format!("read the routes on interface {index}"))?;
        Ok(replies
            .into_iter()
            .filter_map(|reply| {
                let attributes = reply.get(ROUTE_HEADER..)?;
                let by = find(attributes, RTA_OIF).and_then(number);
                let among = hops(attributes).any(|(_, hop, _)| hop == index);
                let from = find(attributes, RTA_PREFSRC).and_then(address);
                let from = from.is_some_and(|from| own.iter().any(|one| one.address == from));
                (by == Some(u64::from(index)) || among || from).then_some(())?;
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

    /// Restores an address of the interface `name`.
    pub(crate) fn put_address(
        &mut self,
        raw: &[u8],
        index: u32,
        name: &str,
        shown: &str,
    ) -> Result<(), HostError> {
        const EEXIST: i32 = 17;
        let mut raw = labelled(raw, name);
        if let Some(place) = raw.get_mut(4..8) {
            place.copy_from_slice(&index.to_ne_bytes());
        }
        let request = RawRequest::route(RTM_NEWADDR, NLM_F_EXCL_CREATE, raw);
        match self.acknowledge(&request, || format!("restore address {shown}")) {
            Err(HostError::Netlink { errno: EEXIST, .. }) => Ok(()),
            other => other,
        }
    }

    /// Removes a route; one that is gone is no error.
    pub(crate) fn remove_route(&mut self, raw: &[u8], shown: &str) -> Result<(), HostError> {
        const ESRCH: i32 = 3;
        let request = RawRequest::route(RTM_DELROUTE, 0, without_states(raw));
        match self.acknowledge(&request, || format!("remove {shown}")) {
            Err(HostError::Netlink { errno: ESRCH, .. }) => Ok(()),
            other => other,
        }
    }

    /// Restores a route. One of several next hops may be there without the others: it is replaced.
    pub(crate) fn put_route(&mut self, raw: &[u8], shown: &str) -> Result<(), HostError> {
        const EEXIST: i32 = 17;
        let told = without_states(raw);
        let attributes = raw.get(ROUTE_HEADER..).unwrap_or_default();
        let flags = match find(attributes, RTA_MULTIPATH) {
            Some(_) => NLM_F_REPLACE_CREATE,
            None => NLM_F_EXCL_CREATE,
        };
        let request = RawRequest::route(RTM_NEWROUTE, flags, told);
        match self.acknowledge(&request, || format!("restore {shown}")) {
            Err(HostError::Netlink { errno: EEXIST, .. }) => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attributes::Writer;
    use super::*;
    use proptest::prelude::*;

    fn multipath(flags: u8) -> Vec<u8> {
        let hop = |index: u32, last: u8| {
            let via = Writer::default().bytes(5, &[10, 0, 0, last]).finish();
            let length = u16::try_from(8 + via.len()).unwrap();
            [
                &length.to_ne_bytes()[..],
                &[flags, 0],
                &index.to_ne_bytes(),
                &via,
            ]
            .concat()
        };
        let list = [hop(3, 1), hop(4, 2)].concat();
        let mut header = [2, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        header[8..12].copy_from_slice(&u32::from(flags).to_ne_bytes());
        Writer::behind(&header)
            .bytes(1, &[10, 9, 0, 0])
            .bytes(RTA_MULTIPATH, &list)
            .finish()
    }

    #[test]
    fn a_label_follows_the_name() {
        let address = |label: &str| {
            let header = [2, 24, 0x80, 0, 7, 0, 0, 0];
            let all = Writer::behind(&header).bytes(2, &[10, 0, 0, 1]);
            all.text(3, label).u32(8, 0x80).finish()
        };
        assert_eq!(labelled(&address("eth0"), "lan0"), address("lan0"));
        assert_eq!(labelled(&address("eth0:2"), "lan0"), address("lan0:2"));
        assert_eq!(labelled(&address("eth0"), "eth0"), address("eth0"));
    }

    #[test]
    fn a_route_of_several_hops_is_told_without_their_states() {
        let dead = multipath(RTNH_F_DEAD | RTNH_F_LINKDOWN | 4);
        assert_eq!(without_states(&dead), multipath(4));
        let route = Route {
            default: false,
            protocol: 3,
            table: 254,
            raw: dead,
        };
        assert_eq!(
            route.shown(),
            "route 10.9.0.0/24 nexthop via 10.0.0.1 dev 3 nexthop via 10.0.0.2 dev 4 table 254"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            prop_assert_eq!(without_states(&bytes).len(), bytes.len());
            prop_assert!(hops(&bytes).count() <= bytes.len());
            let _ = labelled(&bytes, "eth0");
            let _ = Route { default: false, protocol: 0, table: 0, raw: bytes }.shown();
        }
    }
}
