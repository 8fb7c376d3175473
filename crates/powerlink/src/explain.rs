//! Explains a configuration or a device description in words, and lists its faults.

use crate::pdo::{self, Channel, Check};
use crate::xdd::Description;
use crate::{Cdc, ObjectDictionary};
use rtwire_wire::powerlink::node as number;

/// Explanation of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Kind of the file.
    pub kind: &'static str,
    /// Statements on the file as a whole.
    pub summary: Vec<String>,
    /// Length of the cycle in µs; `None` if the file does not name it.
    pub cycle_us: Option<u64>,
    /// Number of objects or entries.
    pub objects: usize,
    /// Controlled nodes of the network.
    pub nodes: Vec<ExplainedNode>,
    /// Process data.
    pub pdos: Vec<ExplainedPdo>,
    /// Faults: a node would not run with the file, or not as the file suggests.
    pub faults: Vec<String>,
    /// Remarks: settings that may be intended but should be checked.
    pub remarks: Vec<String>,
}

/// A controlled node of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedNode {
    /// Node number.
    pub node: u8,
    /// Roles in the network, in words.
    pub role: Vec<&'static str>,
    /// Timeout of its response, in µs.
    pub response_timeout_us: u64,
    /// Number of objects that the managing node writes to it.
    pub configuration_entries: usize,
    /// Payload in bytes that is sent to it, and that it sends.
    pub payload_octets: [usize; 2],
}

/// A PDO of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedPdo {
    /// `true` if it is transmitted, `false` if it is received.
    pub transmit: bool,
    /// The node to or from which it is sent; 0 for the managing node or the node itself.
    pub node: u8,
    /// Length of the payload, in bytes.
    pub octets: usize,
    /// Its objects: index, sub-index, offset in bytes, length in bytes.
    pub mapped: Vec<(u16, u8, usize, usize)>,
}

/// Explains a concise device configuration.
#[must_use]
pub fn explain_cdc(cdc: &Cdc) -> Explanation {
    let network = cdc.entries.iter().any(|entry| entry.index == 0x1f81);
    let mut explanation = Explanation {
        kind: if network {
            "configuration of a network, for its managing node"
        } else {
            "configuration of a controlled node"
        },
        objects: cdc.entries.len(),
        ..Explanation::default()
    };
    let mut dictionary = if network {
        ObjectDictionary::managing_node()
    } else {
        ObjectDictionary::controlled_node()
    };
    for entry in &cdc.entries {
        let mut one = Cdc::default();
        one.entries.push(entry.clone());
        match one.apply(&mut dictionary) {
            Ok(()) => {}
            Err(crate::Error::Object { code, .. })
                if code == crate::AbortCode::NO_OBJECT || code == crate::AbortCode::NO_SUBINDEX =>
            {
                explanation.remarks.push(format!(
                    "object {:04X}h/{} is not among the objects of DS 301 that this program knows: its device must have it",
                    entry.index, entry.subindex
                ));
            }
            Err(error) => explanation.faults.push(error.to_string()),
        }
    }
    explain_dictionary(&dictionary, network, Check::Places, &mut explanation);
    explanation
}

/// Explains a device description.
#[must_use]
pub fn explain_description(description: &Description) -> Explanation {
    let role = if description.managing {
        "managing node"
    } else {
        "controlled node"
    };
    let name = |text: &str| {
        if text.is_empty() {
            "unnamed".to_owned()
        } else {
            text.to_owned()
        }
    };
    let mut explanation = Explanation {
        kind: "device description",
        objects: description.objects.objects().count(),
        summary: vec![format!(
            "{} of {}: a {role}",
            name(&description.product),
            name(&description.vendor)
        )],
        ..Explanation::default()
    };
    if let Some(least) = description.least_cycle_us {
        explanation
            .summary
            .push(format!("its shortest cycle is {least} µs"));
    }
    for (line, what) in &description.ignored {
        explanation
            .faults
            .push(format!("line {line}: {what}: the value is ignored"));
    }
    for (index, name) in [
        (0x1000, "NMT_DeviceType_U32"),
        (0x1006, "NMT_CycleLen_U32"),
        (0x1018, "NMT_IdentityObject_REC"),
        (0x1f82, "NMT_FeatureFlags_U32"),
        (0x1f93, "NMT_EPLNodeID_REC"),
        (0x1f98, "NMT_CycleTiming_REC"),
    ] {
        if description.objects.object(index).is_none() {
            let fault = format!(
                "object {index:04X}h ({name}) is missing: DS 301 requires it of every node"
            );
            explanation.faults.push(fault);
        }
    }
    let dictionary = description.dictionary();
    explain_dictionary(
        &dictionary,
        description.managing,
        Check::Objects,
        &mut explanation,
    );
    explanation
}

fn explain_dictionary(
    d: &ObjectDictionary,
    managing: bool,
    how: Check,
    explanation: &mut Explanation,
) {
    let cycle_us = d.number(0x1006, 0);
    if cycle_us > 0 {
        explanation.cycle_us = Some(cycle_us);
        explanation
            .summary
            .push(format!("the cycle is {cycle_us} µs"));
    } else if managing && how == Check::Places {
        explanation
            .faults
            .push("object 1006h is 0: there is no cycle time".into());
    }
    let channels = |first: u16, limit: &dyn Fn(u8) -> usize, faults: &mut Vec<String>| {
        pdo::channels(d, first, limit, how).unwrap_or_else(|error| {
            faults.push(error.to_string());
            Vec::new()
        })
    };
    let limit = |index: u16, subindex: u8| d.number(index, subindex) as usize;
    let own = limit(0x1f98, 5);
    let received = |node: u8| match (managing, node) {
        (true, node) => limit(0x1f8d, node),
        (false, 0) => limit(0x1f98, 4),
        (false, _) => 1490,
    };
    let sent = |node: u8| {
        if managing && node > 0 {
            limit(0x1f8b, node)
        } else {
            own
        }
    };
    let receive = channels(pdo::RECEIVE, &received, &mut explanation.faults);
    let transmit = channels(pdo::TRANSMIT, &sent, &mut explanation.faults);
    if managing {
        nodes(d, cycle_us, &receive, &transmit, how, explanation);
    }
    for (transmit, channels) in [(false, &receive), (true, &transmit)] {
        for channel in channels {
            overlap(transmit, channel, &mut explanation.faults);
            explanation.pdos.push(ExplainedPdo {
                transmit,
                node: channel.node,
                octets: channel.octets,
                mapped: channel
                    .mapped
                    .iter()
                    .map(|m| (m.index, m.subindex, m.offset_octets, m.octets))
                    .collect(),
            });
        }
    }
}

fn overlap(transmit: bool, channel: &Channel, faults: &mut Vec<String>) {
    let mut mapped = channel.mapped.clone();
    mapped.sort_by_key(|m| m.offset_octets);
    for pair in mapped.windows(2) {
        if let [a, b] = pair {
            if a.offset_octets + a.octets > b.offset_octets {
                let what = if transmit { "sent to" } else { "received from" };
                faults.push(format!(
                    "process data {what} node {}: {:04X}h/{} and {:04X}h/{} overlap",
                    channel.node, a.index, a.subindex, b.index, b.subindex
                ));
            }
        }
    }
}

fn nodes(
    d: &ObjectDictionary,
    cycle_us: u64,
    receive: &[Channel],
    transmit: &[Channel],
    how: Check,
    explanation: &mut Explanation,
) {
    let mut slowest_ns = 0;
    for node in 1..=number::LAST_CN {
        let assignment = d.number(0x1f81, node);
        if assignment & 3 != 3 {
            if assignment != 0 {
                explanation.faults.push(format!(
                    "node {node}: its assignment {assignment:08X}h lacks bit 0 or 1: it is no controlled node of the network"
                ));
            }
            continue;
        }
        let has = |bit: u64| assignment & bit != 0;
        let mut role = vec![if has(8) { "mandatory" } else { "optional" }];
        role.extend(has(0x100).then_some("asynchronous only"));
        role.extend(has(0x200).then_some("multiplexed"));
        role.extend(has(0x4000).then_some("PollResponse chaining"));
        role.extend((!has(4)).then_some("started by the application"));
        let octets = |channels: &[Channel]| {
            let found = channels.iter().find(|channel| channel.node == node);
            found.map_or(0, |channel| channel.octets)
        };
        let stored = d.read(0x1f22, node).unwrap_or_default();
        let configuration_entries = match Cdc::parse(stored) {
            Ok(cdc) => cdc.entries.len(),
            Err(error) => {
                explanation
                    .faults
                    .push(format!("node {node}: in its own configuration: {error}"));
                0
            }
        };
        let timeout_ns = d.number(0x1f92, node);
        if !has(0x100) && !has(0x200) {
            slowest_ns += timeout_ns;
        }
        if timeout_ns < 100_000 && !has(0x100) {
            explanation.remarks.push(format!(
                "node {node}: its response may take {} µs (object 1F92h): a node on an ordinary computer sometimes takes longer",
                timeout_ns / 1000
            ));
        }
        explanation.nodes.push(ExplainedNode {
            node,
            role,
            response_timeout_us: timeout_ns / 1000,
            configuration_entries,
            payload_octets: [octets(transmit), octets(receive)],
        });
    }
    if explanation.nodes.is_empty() {
        let what = "object 1F81h names no controlled node";
        // A description is of a kind of device: the nodes come with the configuration of a network.
        if how == Check::Objects {
            explanation
                .summary
                .push(format!("{what}: the configuration of a network will do so"));
        } else {
            explanation.faults.push(what.into());
        }
    }
    if cycle_us > 0 && slowest_ns > cycle_us * 1000 {
        explanation.remarks.push(format!(
            "if every response takes its whole timeout, the isochronous phase takes {} µs, but the cycle has only {cycle_us} µs",
            slowest_ns / 1000
        ));
    }
}
