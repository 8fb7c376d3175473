//! A switch's share as IEEE 802.1Q YANG data in JSON (RFC 7951).
//!
//! Names and structure follow the modules of IEEE Std 802.1Q as amended by 802.1Qcw-2023 and 802.1Qcr-2020:
//! `ieee802-dot1q-bridge` (traffic classes), `ieee802-dot1q-sched` and `-sched-bridge` (gates),
//! `ieee802-dot1q-stream-filters-gates` (stream filters and gates).

use serde_json::{Value, json};

use super::Share;
use rtwire_plan::PortPlan;

const NANOSECONDS: u64 = 1_000_000_000;
/// An interval has 32 bits.
const LONGEST_INTERVAL_NS: u64 = 4_000_000_000;
const WORDS: [&str; 8] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven",
];

/// All of a switch.
pub(super) fn data(share: &Share<'_>) -> Value {
    let interfaces: Vec<Value> = share
        .ports
        .iter()
        .map(|(name, port)| interface(share, name, port))
        .collect();
    json!({
        "ietf-interfaces:interfaces": { "interface": interfaces },
        "ieee802-dot1q-bridge:bridges": { "bridge": [ {
            "name": share.name,
            "component": [ {
                "name": share.name,
                "ieee802-dot1q-stream-filters-gates:stream-filters": {
                    "stream-filter-instance-table": filters(share),
                },
                "ieee802-dot1q-stream-filters-gates:stream-gates": {
                    "stream-gate-instance-table": [ {
                        "stream-gate-instance-id": 1,
                        "gate-enable": false,
                        "admin-gate-states": "open",
                        "admin-ipv": "null",
                    } ],
                },
            } ],
        } ] },
    })
}

fn interface(share: &Share<'_>, name: &str, port: &PortPlan) -> Value {
    let mut classes = serde_json::Map::new();
    classes.insert("number-of-traffic-classes".to_owned(), share.queues.into());
    for (pcp, class) in share.classes().iter().enumerate() {
        classes.insert(format!("priority{pcp}"), (*class).into());
    }
    let mut bridge_port = json!({ "traffic-class": { "traffic-class-table": classes } });
    if let Some(table) = gates(share, port) {
        bridge_port["ieee802-dot1q-sched-bridge:gate-parameter-table"] = table;
    }
    json!({
        "name": name,
        "type": "iana-if-type:ethernetCsmacd",
        "description": format!("{} to {}", port.node, port.port),
        "ieee802-dot1q-bridge:bridge-port": bridge_port,
    })
}

fn seconds(duration_ns: u64) -> Value {
    // Reduced where it must be for 32 bits; a cycle is far below four seconds otherwise.
    let (mut above, mut below) = (duration_ns, NANOSECONDS);
    while above > u64::from(u32::MAX) && above % 2 == 0 && below % 2 == 0 {
        above /= 2;
        below /= 2;
    }
    json!({ "numerator": above, "denominator": below })
}

/// Returns the gates of a port.
///
/// If the switch has gates, a port without a list has a table too, switched off. The standard's constraints compare values
/// that must be there.
fn gates(share: &Share<'_>, port: &PortPlan) -> Option<Value> {
    let Some(list) = &port.gates else {
        let gated = share.network.gates(share.name).is_some()
            || share.ports.iter().any(|(_, other)| other.gates.is_some());
        return gated.then(|| {
            json!({
                "gate-enabled": false,
                "admin-gate-states": 255,
                "supported-list-max": 0,
                "supported-cycle-max": { "numerator": 1, "denominator": 1 },
                "supported-interval-max": LONGEST_INTERVAL_NS,
                "admin-cycle-time": { "numerator": 0, "denominator": 1 },
            })
        });
    };
    let mut entries = Vec::new();
    for entry in &list.entries {
        let mut left = entry.duration_ns;
        while left > 0 {
            let part = left.min(LONGEST_INTERVAL_NS);
            entries.push(json!({
                "index": entries.len(),
                "operation-name": "ieee802-dot1q-sched:set-gate-states",
                "gate-states-value": entry.gates,
                "time-interval-value": part,
            }));
            left -= part;
        }
    }
    // What the planner counted with, else what this list needs: the standard's constraints compare with them.
    let profile = share.network.gates(share.name);
    let most = profile
        .and_then(|one| one.entries)
        .map_or(entries.len() as u64, u64::from);
    let cycle = profile.map_or(list.cycle_ns, |one| one.longest_cycle_ns.max(list.cycle_ns));
    Some(json!({
        "gate-enabled": true,
        "admin-gate-states": 255,
        "supported-list-max": most.max(entries.len() as u64),
        "supported-cycle-max": seconds(cycle),
        "supported-interval-max": LONGEST_INTERVAL_NS,
        "admin-control-list": { "gate-control-entry": entries },
        "admin-cycle-time": seconds(list.cycle_ns),
        "admin-cycle-time-extension": 0,
        "admin-base-time": {
            "seconds": (list.base_offset_ns / NANOSECONDS).to_string(),
            "nanoseconds": list.base_offset_ns % NANOSECONDS,
        },
        "config-change": true,
    }))
}

/// A filter for each stream: no frame of its priority may be longer than the plan counted with.
fn filters(share: &Share<'_>) -> Vec<Value> {
    const HEADER: u64 = 14;
    const TAG: u64 = 4;
    share
        .streams()
        .enumerate()
        .map(|(number, stream)| {
            let tag = if stream.vlan.is_some() { TAG } else { 0 };
            json!({
                "stream-filter-instance-id": number + 1,
                "stream-handle": number + 1,
                "priority-spec": WORDS[usize::from(stream.pcp & 7)],
                "max-sdu-size": stream.frame_bytes.saturating_sub(HEADER + tag),
                "stream-gate-ref": 1,
            })
        })
        .collect()
}
