//! The addresses and routes of an interface, kept so that they can be put back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::HostError;
use crate::netlink::{Address, Netlink};

/// An address or route, in words and in the kernel's own bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// The text for a reader.
    pub shown: String,
    /// The kernel's description, hexadecimal.
    pub raw: String,
}

impl Item {
    /// Returns whether the kernel's description is of IPv6.
    fn is_six(&self) -> bool {
        const AF_INET6: &str = "0a";
        self.raw.starts_with(AF_INET6)
    }
}

/// Addresses, routes and static neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// The addresses, in the kernel's order.
    pub addresses: Vec<Item>,
    /// The routes that depend on the interface and do not come with an address.
    pub routes: Vec<Item>,
    /// The static neighbours, and those that the interface answers for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Item>,
}

impl Kept {
    /// Returns these addresses, without routes.
    pub(crate) fn of<'a>(addresses: impl Iterator<Item = &'a Address>) -> Self {
        let item = |address: &Address| Item {
            shown: format!("{}/{}", address.address, address.prefix),
            raw: to_hex(&address.raw),
        };
        Self {
            addresses: addresses.map(item).collect(),
            ..Self::default()
        }
    }

    /// Returns the part of IPv6, or else that of IPv4.
    pub(crate) fn family(&self, six: bool) -> Self {
        let of = |items: &[Item]| {
            let own = items.iter().filter(|item| item.is_six() == six);
            own.cloned().collect()
        };
        Self {
            addresses: of(&self.addresses),
            routes: of(&self.routes),
            neighbours: of(&self.neighbours),
        }
    }

    /// Returns what is here and not in `other`.
    pub(super) fn without(&self, other: &Self) -> Self {
        let only = |here: &[Item], there: &[Item]| {
            let own = here.iter().filter(|item| !among(there, item));
            own.cloned().collect()
        };
        Self {
            addresses: only(&self.addresses, &other.addresses),
            routes: only(&self.routes, &other.routes),
            neighbours: only(&self.neighbours, &other.neighbours),
        }
    }

    /// Adds `more` behind what is here.
    pub(super) fn extend(&mut self, more: &Self) {
        self.addresses.extend_from_slice(&more.addresses);
        self.routes.extend_from_slice(&more.routes);
        self.neighbours.extend_from_slice(&more.neighbours);
    }

    /// Returns whether all of `other` is here, its IPv4 addresses in the same order. What came in addition does not
    /// count.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let mut here = self.addresses.iter();
        let addresses = other
            .addresses
            .iter()
            .all(|one| here.any(|item| item.shown == one.shown));
        addresses
            && other.routes.iter().all(|one| among(&self.routes, one))
            && other
                .neighbours
                .iter()
                .all(|one| among(&self.neighbours, one))
    }

    /// Returns them in words: `10.0.0.1/24, 10.0.0.2/24`.
    #[must_use]
    pub fn shown(&self) -> Vec<&str> {
        let items = self.addresses.iter().chain(&self.routes);
        let items = items.chain(&self.neighbours);
        items.map(|item| item.shown.as_str()).collect()
    }
}

/// Returns whether one of `items` is shown as `wanted` is.
fn among(items: &[Item], wanted: &Item) -> bool {
    items.iter().any(|item| item.shown == wanted.shown)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

/// Reads the present addresses, routes and static neighbours.
pub(super) fn keep(netlink: &mut Netlink, index: u32) -> Result<Kept, HostError> {
    const BY_KERNEL: u8 = 2;
    let addresses = netlink.addresses(index)?;
    let routes = netlink.routes(index, &addresses)?;
    let item = |shown, raw: &[u8]| Item {
        shown,
        raw: to_hex(raw),
    };
    Ok(Kept {
        // Those that a router announced come again with its next word.
        addresses: Kept::of(addresses.iter().filter(|address| address.permanent)).addresses,
        routes: routes
            .iter()
            .filter(|route| route.protocol != BY_KERNEL)
            .map(|route| item(route.shown(), &route.raw))
            .collect(),
        neighbours: netlink
            .static_neighbours(index)?
            .into_iter()
            .map(|one| item(one.shown, &one.raw))
            .collect(),
    })
}

/// Restores addresses, routes and neighbours: removes those not wanted, adds those missing.
pub(super) fn restore(
    netlink: &mut Netlink,
    interface: &str,
    wanted: &Kept,
) -> Result<(), HostError> {
    let Some(link) = netlink.link(interface)? else {
        return Ok(());
    };
    let present = keep(netlink, link.index)?;
    // The order counts: the first address of a network is its primary one, from which programs send. If the present
    // list is not the beginning of the wanted one, all of it is removed and added again.
    let same = |family: &dyn Fn(&Item) -> bool| {
        let here: Vec<&Item> = present.addresses.iter().filter(|one| family(one)).collect();
        let there: Vec<&Item> = wanted.addresses.iter().filter(|one| family(one)).collect();
        here.len() <= there.len() && here.iter().zip(&there).all(|(a, b)| a.shown == b.shown)
    };
    let six = |item: &Item| item.shown.contains(':');
    let (keep_six, keep_four) = (same(&six), same(&|item| !six(item)));
    for item in &present.neighbours {
        if !among(&wanted.neighbours, item) {
            netlink.remove_neighbour(&bytes(item)?, &item.shown)?;
        }
    }
    for item in &present.routes {
        if !among(&wanted.routes, item) {
            netlink.remove_route(&bytes(item)?, &item.shown)?;
        }
    }
    for item in &present.addresses {
        let stays = if six(item) { keep_six } else { keep_four };
        if !stays {
            netlink.remove_address(&bytes(item)?, &item.shown)?;
        }
    }
    add(netlink, interface, wanted)
}

/// Adds what is missing, and removes nothing.
pub(super) fn add(netlink: &mut Netlink, interface: &str, wanted: &Kept) -> Result<(), HostError> {
    let Some(link) = netlink.link(interface)? else {
        return Ok(());
    };
    let present = keep(netlink, link.index)?;
    for item in &wanted.addresses {
        if !among(&present.addresses, item) {
            netlink.put_address(&bytes(item)?, link.index, interface, &item.shown)?;
        }
    }
    // A route may lead over another one that follows it in the list.
    let mut left: Vec<&Item> = wanted.routes.iter().collect();
    left.retain(|item| !among(&present.routes, item));
    while !left.is_empty() {
        let mut refused = Vec::new();
        let mut first = None;
        for item in &left {
            if let Err(error) = netlink.put_route(&bytes(item)?, &item.shown) {
                refused.push(*item);
                first = first.or(Some(error));
            }
        }
        if refused.len() == left.len() {
            if let Some(error) = first {
                return Err(error);
            }
        }
        left = refused;
    }
    for item in &wanted.neighbours {
        if !among(&present.neighbours, item) {
            netlink.put_neighbour(&bytes(item)?, link.index, &item.shown)?;
        }
    }
    Ok(())
}

/// Returns the kernel's bytes of an item.
fn bytes(item: &Item) -> Result<Vec<u8>, HostError> {
    from_hex(&item.raw).ok_or_else(|| HostError::Value {
        what: item.shown.clone(),
        value: "a record that cannot be read".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_as_text() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        assert_eq!(from_hex("0"), None);
        assert_eq!(from_hex("zz"), None);
        assert_eq!(from_hex("é0"), None);
    }
}
