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

/// Addresses and routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// The addresses, in the kernel's order.
    pub addresses: Vec<Item>,
    /// The routes on the interface that do not come with an address.
    pub routes: Vec<Item>,
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
            routes: Vec::new(),
        }
    }

    /// Returns them in words: `10.0.0.1/24, 10.0.0.2/24`.
    #[must_use]
    pub fn shown(&self) -> Vec<&str> {
        let items = self.addresses.iter().chain(&self.routes);
        items.map(|item| item.shown.as_str()).collect()
    }
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

/// Reads the present addresses and routes.
pub(super) fn keep(netlink: &mut Netlink, index: u32) -> Result<Kept, HostError> {
    const BY_KERNEL: u8 = 2;
    const LOCAL_TABLE: u32 = 255;
    let addresses = netlink.addresses(index)?;
    let routes = netlink.routes(index)?;
    Ok(Kept {
        // The kernel's own addresses come and go with IPv6 itself.
        addresses: Kept::of(addresses.iter().filter(|address| !address.automatic)).addresses,
        routes: routes
            .iter()
            .filter(|route| route.protocol != BY_KERNEL && route.table != LOCAL_TABLE)
            .map(|route| Item {
                shown: route.shown(),
                raw: to_hex(&route.raw),
            })
            .collect(),
    })
}

/// Restores addresses and routes: removes those not wanted, adds those missing.
pub(super) fn restore(
    netlink: &mut Netlink,
    interface: &str,
    wanted: &Kept,
) -> Result<(), HostError> {
    let broken = || HostError::Value {
        what: format!("the addresses of interface `{interface}`"),
        value: "a record that cannot be read".to_owned(),
    };
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
    for item in &present.addresses {
        let stays = if six(item) { keep_six } else { keep_four };
        if !stays {
            let raw = from_hex(&item.raw).ok_or_else(broken)?;
            netlink.remove_address(&raw, &item.shown)?;
        }
    }
    let present = keep(netlink, link.index)?;
    for item in &wanted.addresses {
        if !present.addresses.iter().any(|one| one.shown == item.shown) {
            let raw = from_hex(&item.raw).ok_or_else(broken)?;
            netlink.put_address(&raw, link.index, &item.shown)?;
        }
    }
    for item in &wanted.routes {
        if !present.routes.iter().any(|one| one.shown == item.shown) {
            let raw = from_hex(&item.raw).ok_or_else(broken)?;
            netlink.put_route(&raw, &item.shown)?;
        }
    }
    Ok(())
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
