//! The edit that brings a switch to planned data.

use crate::compare::{counterpart, is_owned, is_without_meaning};
use crate::data::keys;
use crate::element::{Element, Operation};

const TABLE: &str = "gate-parameter-table";

/// Adapts planned data to a switch: its own limits of gates stay where they suffice, and its own address where none was stated.
pub(crate) fn adapt(planned: &mut [Element], found: &[Element], address_stated: bool) {
    for one in planned {
        let other = counterpart(one, found);
        let theirs = other.map_or(&[][..], Element::children);
        let is_table = one.name == TABLE;
        let keeps_address = one.name == "bridge"
            && !address_stated
            && theirs.iter().any(|leaf| leaf.name == "address");
        let Some(children) = one.children_mut() else {
            continue;
        };
        if is_table {
            limits(children, theirs);
            continue;
        }
        if keeps_address {
            children.retain(|leaf| leaf.name != "address");
        }
        adapt(children, theirs, address_stated);
    }
}

/// Takes a switch's own limits where they are no smaller than the planned ones.
fn limits(planned: &mut [Element], table: &[Element]) {
    for one in planned {
        let Some(other) = table.iter().find(|other| other.name == one.name) else {
            continue;
        };
        let enough = match one.name.as_str() {
            "supported-list-max" | "supported-interval-max" => match (number(one), number(other)) {
                (Some(planned), Some(theirs)) => theirs >= planned,
                _ => false,
            },
            "supported-cycle-max" => match (ratio(one), ratio(other)) {
                (Some((a, b)), Some((c, d))) => {
                    u128::from(c) * u128::from(b) >= u128::from(a) * u128::from(d)
                }
                _ => false,
            },
            _ => false,
        };
        if enough {
            *one = other.clone();
        }
    }
}

fn number(leaf: &Element) -> Option<u64> {
    leaf.value().parse().ok()
}

fn ratio(element: &Element) -> Option<(u64, u64)> {
    let part = |name| element.child(name).and_then(number);
    Some((
        part("numerator")?,
        part("denominator").filter(|one| *one > 0)?,
    ))
}

/// Returns the edit: planned data are merged, what a plan owns is replaced, and what it owns and does not have is deleted.
pub(crate) fn edit(planned: &[Element], found: &[Element]) -> Vec<Element> {
    let mut edit: Vec<Element> = planned
        .iter()
        .map(|one| {
            let mut sent = one.clone();
            if is_owned(one) {
                sent.operation = Some(Operation::Replace);
            } else if let (Some(children), Some(other)) =
                (sent.children_mut(), counterpart(one, found))
            {
                *children = self::edit(one.children(), other.children());
            } else if let Some(children) = sent.children_mut() {
                *children = self::edit(one.children(), &[]);
            }
            sent
        })
        .collect();
    for one in found {
        let is_whole = is_owned(one)
            && !matches!(
                one.name.as_str(),
                "filtering-entry" | "vlan-registration-entry"
            );
        if is_whole && counterpart(one, planned).is_none() && !is_without_meaning(one) {
            let keys = keys(one).iter().filter_map(|key| one.child(key).cloned());
            let mut gone = Element::nodes(&one.namespace, &one.name, keys.collect());
            gone.operation = Some(Operation::Delete);
            edit.push(gone);
        }
    }
    edit
}
