//! A switch's share as IEEE 802.1Q and 802.1CB YANG data in JSON (RFC 7951).
//!
//! Names and structure follow the modules as published, of 2023 and later:
//!
//! | module | content |
//! |---|---|
//! | `ieee802-dot1q-bridge` | the bridge, its VLANs, static forwarding, ports, traffic classes |
//! | `ieee802-dot1q-sched`, `-sched-bridge` | gates of the ports |
//! | `ieee802-dot1q-cbsa-bridge` | credits (802.1Qav) |
//! | `ieee802-dot1q-preemption-bridge` | frame preemption (802.1Qbu) |
//! | `ieee802-dot1q-stream-filters-gates-bridge` | stream filters and gates |
//! | `ieee802-dot1cb-stream-identification` | the frames that a filter is for |

mod component;

use serde_json::{Value, json};

use super::share::{Share, SharePort};
use rtwire_plan::PortPlan;

const NANOSECONDS: u64 = 1_000_000_000;
/// An interval has 32 bits.
const LONGEST_INTERVAL_NS: u64 = 4_000_000_000;
/// The longest name of a bridge (`name-type`).
const NAME_CHARACTERS: usize = 32;

/// Returns all data of a switch.
pub(super) fn data(share: &Share<'_>) -> Value {
    let interfaces: Vec<Value> = share
        .ports
        .iter()
        .map(|port| interface(share, port))
        .collect();
    let mut all = json!({
        "ietf-interfaces:interfaces": { "interface": interfaces },
        "ieee802-dot1q-bridge:bridges": { "bridge": [ {
            "name": bridge_name(share),
            "address": text(share.address),
            "bridge-type": "ieee802-dot1q-bridge:customer-vlan-bridge",
            "component": [component::component(share)],
        } ] },
    });
    let identities = component::identities(share);
    if !identities.is_empty() {
        all["ieee802-dot1cb-stream-identification:stream-identity"] = identities.into();
    }
    all
}

/// Returns the bridge's name. The component has the whole one.
fn bridge_name(share: &Share<'_>) -> String {
    share.name.chars().take(NAME_CHARACTERS).collect()
}

/// Returns an address as IEEE Std 802 writes it.
pub(super) fn text(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02X}")).join("-")
}

fn interface(share: &Share<'_>, port: &SharePort<'_>) -> Value {
    let mut classes = serde_json::Map::new();
    classes.insert("number-of-traffic-classes".to_owned(), share.queues.into());
    for (pcp, class) in share.classes().iter().enumerate() {
        classes.insert(format!("priority{pcp}"), (*class).into());
    }
    let mut bridge_port = json!({
        "bridge-name": bridge_name(share),
        "component-name": share.name,
        "port-type": "ieee802-dot1q-bridge:c-vlan-bridge-port",
        "pvid": share.untagged_vlan,
        "traffic-class": { "traffic-class-table": classes },
    });
    if let Some(table) = gates(share, port.plan) {
        bridge_port["ieee802-dot1q-sched-bridge:gate-parameter-table"] = table;
    }
    let credits = share.credits(port.plan);
    if !credits.is_empty() {
        let algorithms: Vec<Value> = credits
            .iter()
            .map(|(class, _)| {
                json!({
                    "traffic-class": class,
                    "transmission-selection-algorithm": "ieee802-dot1q-types:credit-based-shaper",
                })
            })
            .collect();
        let slopes: Vec<Value> = credits
            .iter()
            .map(|(class, slope_bps)| {
                json!({ "traffic-class": class, "admin-idle-slope": slope_bps.to_string() })
            })
            .collect();
        bridge_port["transmission-selection-algorithm-table"] =
            json!({ "transmission-selection-algorithm-map": algorithms });
        bridge_port["ieee802-dot1q-cbsa-bridge:cbsa"] = json!({ "cbsa-parameter-table": slopes });
    }
    if let Some(preemptable) = share.preemptable(port.plan) {
        let mut table = serde_json::Map::new();
        for (pcp, preemptable) in preemptable.into_iter().enumerate() {
            let status = if preemptable {
                "preemptable"
            } else {
                "express"
            };
            table.insert(format!("priority{pcp}"), status.into());
        }
        bridge_port["ieee802-dot1q-preemption-bridge:frame-preemption-parameters"] =
            json!({ "frame-preemption-status-table": table });
    }
    json!({
        "name": port.name,
        "type": "iana-if-type:ethernetCsmacd",
        "description": format!("port {}: {} to {}", port.number, port.plan.node, port.plan.port),
        "ieee802-dot1q-bridge:bridge-port": bridge_port,
    })
}

/// Returns a duration as a ratio of two 32-bit numbers, in seconds.
///
/// One beyond 4.29 s is reduced to its lowest terms. Then it fits, unless it is a whole number of ns and of nothing longer; a
/// switch refuses that.
fn seconds(duration_ns: u64) -> Value {
    let common = match u32::try_from(duration_ns) {
        Ok(_) => 1,
        Err(_) => greatest_common_divisor(duration_ns, NANOSECONDS),
    };
    json!({ "numerator": duration_ns / common, "denominator": NANOSECONDS / common })
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// Returns the gates of a port.
///
/// If the switch has gates, a port without a list has a table too, switched off. The standard's constraints compare values
/// that must be there.
fn gates(share: &Share<'_>, port: &PortPlan) -> Option<Value> {
    let Some(list) = &port.gates else {
        let gated = share.network.gates(share.name).is_some()
            || share.ports.iter().any(|other| other.plan.gates.is_some());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_fits_two_numbers_of_32_bits() {
        let ratio = |ns| {
            let value = seconds(ns);
            let part = |name: &str| value[name].as_u64();
            (part("numerator"), part("denominator"))
        };
        assert_eq!(ratio(500_000), (Some(500_000), Some(1_000_000_000)));
        assert_eq!(ratio(5_000_000_000), (Some(5), Some(1)));
        assert_eq!(ratio(4_300_000_000), (Some(43), Some(10)));
        assert_eq!(ratio(12_500_000_125), (Some(100_000_001), Some(8_000_000)));
        assert_eq!(ratio(0), (Some(0), Some(1_000_000_000)));
    }
}
