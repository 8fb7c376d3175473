//! The other end of the cable, and hardware addresses that exist twice.

use super::{Area, Facts, Finding, Level};
use crate::netlink::hardware_address;

const AREA: Area = Area::Interface;

pub(super) fn partner_mtu(facts: &Facts) -> Vec<Finding> {
    let Some((own, partner)) = facts
        .interface
        .as_ref()
        .and_then(|it| Some((&it.link, it.partner.as_ref()?)))
    else {
        return Vec::new();
    };
    if own.mtu == partner.mtu {
        return Vec::new();
    }
    let (found, command) = if partner.mtu < own.mtu {
        (
            format!(
                "the other end, `{}`, has MTU {}, this one {}: it drops longer frames",
                partner.name, partner.mtu, own.mtu
            ),
            format!(
                "at the other end: ip link set {} mtu {}",
                partner.name, own.mtu
            ),
        )
    } else {
        (
            format!(
                "the other end, `{}`, has MTU {}, this one {}: longer frames of it are dropped here",
                partner.name, partner.mtu, own.mtu
            ),
            format!("ip link set {} mtu {}", own.name, partner.mtu),
        )
    };
    vec![
        Finding::good(
            AREA,
            "interface.partner_mtu",
            found,
            "a frame that is too long for one end is lost, and its sender is not told",
        )
        .at(Level::Fault)
        .by_hand(command),
    ]
}

pub(super) fn duplicate_address(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let own = &interface.link.address;
    let mut with = Vec::new();
    if let Some(partner) = interface.partner.as_ref().filter(|one| one.address == *own) {
        with.push(format!("the other end, `{}`", partner.name));
    }
    // A device of the module `uman` has the address of the interface below it.
    let of_one_card = |index: u32| {
        facts.umans.iter().any(|uman| {
            (uman.index, uman.lower) == (index, interface.link.index)
                || (uman.lower, uman.index) == (index, interface.link.index)
        })
    };
    let others = interface
        .namesakes
        .iter()
        .filter(|(index, _)| !of_one_card(*index))
        .filter(|(_, name)| {
            interface
                .partner
                .as_ref()
                .is_none_or(|one| one.name != *name)
        });
    with.extend(others.map(|(_, name)| format!("interface `{name}`")));
    let same = interface
        .neighbours
        .iter()
        .filter(|(_, address)| address == own && !own.is_empty());
    with.extend(same.map(|(shown, _)| shown.clone()));
    if with.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::good(
            AREA,
            "interface.duplicate_address",
            format!("hardware address {} also belongs to: {}", hardware_address(own), with.join("; ")),
            "switches send frames for it now to one, now to the other; a host drops frames that seem to be its own",
        )
        .at(Level::Fault)
        .by_hand(format!(
            "give one of them another: ip link set {} address 02:…; correct a wrong entry: ip neigh replace …",
            interface.link.name
        )),
    ]
}
