//! The switch's one component (a C-VLAN component): VLANs, static forwarding, stream filters; and the identification of
//! the streams (IEEE Std 802.1CB).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::share::{Passing, Share};
use super::text;

const WORDS: [&str; 8] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven",
];
/// The stream gate that leaves frames their priority. Those behind it say the priorities from zero on. All are always open.
const OPEN_GATE: u32 = 1;

/// Returns the component.
pub(super) fn component(share: &Share<'_>) -> Value {
    let mut component = json!({
        "name": share.name,
        "type": "ieee802-dot1q-bridge:c-vlan-component",
        "filtering-database": {
            "filtering-entry": forwarding(share),
            "vlan-registration-entry": members(share),
        },
        "bridge-vlan": vlans(share),
    });
    let filters: Vec<Value> = identified(share)
        .zip(1_u32..)
        .map(|(one, place)| filter(share, one, place))
        .collect();
    if !filters.is_empty() {
        component["ieee802-dot1q-stream-filters-gates-bridge:stream-filters"] =
            json!({ "stream-filter-instance-table": filters });
        let gates: BTreeMap<u32, &str> =
            identified(share).map(|(one, _)| gate(share, one)).collect();
        let gates: Vec<Value> = gates
            .into_iter()
            .map(|(number, priority)| {
                json!({
                    "stream-gate-instance-id": number,
                    "gate-enable": false,
                    "admin-gate-states": "open",
                    "admin-ipv": priority,
                })
            })
            .collect();
        component["ieee802-dot1q-stream-filters-gates-bridge:stream-gates"] =
            json!({ "stream-gate-instance-table": gates });
    }
    component
}

/// Returns the streams whose frames can be told from all others.
fn identified<'a>(share: &'a Share<'a>) -> impl Iterator<Item = (&'a Passing<'a>, [u8; 6])> {
    let streams = share.passing.iter().filter(|one| one.stream);
    streams.filter_map(|one| Some((one, one.address?)))
}

/// Returns number and internal priority (IPV) of the open gate that a stream's frames pass. Those without a VLAN of their own have
/// no tag that every switch reads: the gate says their priority, whatever they say themselves.
fn gate(share: &Share<'_>, one: &Passing<'_>) -> (u32, &'static str) {
    if share.queues == 1 || one.has_tag() {
        return (OPEN_GATE, "null");
    }
    let pcp = one.pcp & 7;
    (OPEN_GATE + 1 + u32::from(pcp), WORDS[usize::from(pcp)])
}

/// Returns the filter of a stream: its frames may not be longer than the plan counted with.
fn filter(share: &Share<'_>, (one, _): (&Passing<'_>, [u8; 6]), place: u32) -> Value {
    const HEADER: u64 = 14;
    const TAG: u64 = 4;
    let tag = if one.vlan.is_some() { TAG } else { 0 };
    // A frame without a VLAN may have any priority here: that of its port, or of a tag that says no more. The gate says the plan's.
    let priority = if one.has_tag() {
        WORDS[usize::from(one.pcp & 7)]
    } else {
        "wildcard"
    };
    json!({
        "stream-filter-instance-id": place,
        "stream-handle": one.number,
        "priority-spec": priority,
        "max-sdu-size": one.frame_bytes.saturating_sub(HEADER + tag),
        "stream-gate-ref": gate(share, one).0,
    })
}

/// Returns the identification of each stream that has a filter, where its frames come in. Null stream identification:
/// the plan's addresses are unique in their VLAN.
pub(super) fn identities(share: &Share<'_>) -> Vec<Value> {
    let streams = identified(share).zip(1_u32..);
    streams
        .map(|((one, address), index)| {
            let (tagged, vlan) = match one.vlan {
                Some(vlan) if vlan > 0 => ("tagged", vlan),
                _ => ("priority", 0),
            };
            let ports: Vec<&str> = names(share, &one.from).collect();
            json!({
                "index": index,
                "handle": one.number,
                "out-facing": { "input-port": ports },
                "null-stream-identification": {
                    "destination-mac": text(address),
                    "tagged": tagged,
                    "vlan": vlan,
                },
            })
        })
        .collect()
}

/// Returns the names of the ports to these neighbours.
fn names<'a>(
    share: &'a Share<'_>,
    neighbours: &'a BTreeSet<&str>,
) -> impl Iterator<Item = &'a str> {
    let ports = share.ports.iter();
    let ports = ports.filter(|port| neighbours.contains(port.plan.port.as_str()));
    ports.map(|port| port.name.as_str())
}

/// Returns the static entries: each address goes to the ports of its route and to no other.
fn forwarding(share: &Share<'_>) -> Vec<Value> {
    let mut entries: BTreeMap<(u16, [u8; 6]), BTreeSet<&str>> = BTreeMap::new();
    for one in &share.passing {
        if let Some(address) = one.address {
            let ports = entries.entry((share.vlan_of(one), address)).or_default();
            ports.extend(&one.to);
        }
    }
    entries
        .into_iter()
        .map(|((vlan, address), to)| {
            let map = port_map(share, |neighbour| {
                let control = if to.contains(neighbour) {
                    "forward"
                } else {
                    "filter"
                };
                json!({ "static-filtering-entries": { "control-element": control } })
            });
            json!({
                "database-id": vlan,
                "vids": vlan.to_string(),
                "address": text(address),
                "entry-type": "static",
                "port-map": map,
            })
        })
        .collect()
}

/// Returns a port map: for each port by its number, what `of` says for its neighbour.
fn port_map(share: &Share<'_>, of: impl Fn(&str) -> Value) -> Vec<Value> {
    let ports = share.ports.iter();
    ports
        .map(|port| {
            let mut entry = of(&port.plan.port);
            entry["port-ref"] = port.number.into();
            entry
        })
        .collect()
}

/// Returns the neighbours of each VLAN's ports. `None` stands for all: frames without a tag may come and go anywhere.
fn neighbours<'a>(share: &Share<'a>) -> BTreeMap<u16, Option<BTreeSet<&'a str>>> {
    let mut found: BTreeMap<u16, Option<BTreeSet<&str>>> = BTreeMap::new();
    found.insert(share.untagged_vlan, None);
    for one in &share.passing {
        let vlan = found
            .entry(share.vlan_of(one))
            .or_insert(Some(BTreeSet::new()));
        if let Some(ports) = vlan {
            ports.extend(one.from.iter().chain(&one.to));
        }
    }
    found
}

/// Returns the ports of each VLAN.
fn members(share: &Share<'_>) -> Vec<Value> {
    let vlans = neighbours(share).into_iter();
    vlans
        .map(|(vlan, ports)| {
            let sent = if ports.is_none() {
                "untagged"
            } else {
                "tagged"
            };
            let map = port_map(share, |neighbour| {
                let member = ports.as_ref().is_none_or(|ports| ports.contains(neighbour));
                let control = if member {
                    "fixed-new-ignored"
                } else {
                    "forbidden"
                };
                json!({ "static-vlan-registration-entries": {
                    "registrar-admin-control": control,
                    "vlan-transmitted": sent,
                } })
            });
            json!({
                "database-id": vlan,
                "vids": vlan.to_string(),
                "entry-type": "static",
                "port-map": map,
            })
        })
        .collect()
}

/// Returns the VLANs. Each has a filtering database of its own, of the same number.
fn vlans(share: &Share<'_>) -> Value {
    let all: Vec<u16> = neighbours(share).into_keys().collect();
    let list: Vec<Value> = all.iter().map(|vlan| json!({ "vid": vlan })).collect();
    let databases: Vec<Value> = all
        .iter()
        .map(|vlan| json!({ "vid": vlan, "fid": vlan }))
        .collect();
    json!({ "vlan": list, "vid-to-fid": databases })
}
