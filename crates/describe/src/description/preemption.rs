//! Frame preemption of switches, hosts and ports.

use super::fault::Findings;
use super::walk::{Record, Records};
use crate::network::{Network, Preemption};

/// Reads the preemption of a switch or host.
pub(super) fn of_node(record: &Record, findings: &mut Findings<'_>) -> Option<Preemption> {
    if !record.has("preemptable") && record.has("additional-fragment-size") {
        let message =
            "`additional-fragment-size` is of frame preemption, and `preemptable` is missing";
        let help = "preemptable = []: interrupts nothing, but takes fragments";
        findings.at(
            &record.place("additional-fragment-size"),
            message,
            Some(help.to_owned()),
        );
    }
    let size = record.integer("additional-fragment-size");
    Some(Preemption {
        preemptable: record.priorities("preemptable")?.to_vec(),
        additional_fragment_size: size.and_then(|size| u8::try_from(size).ok()).unwrap_or(0),
    })
}

/// Checks that the network permits the preemption that its nodes and ports state.
pub(super) fn check(network: &Network, records: &Records, findings: &mut Findings<'_>) {
    if !findings.is_clean() {
        // A missing link or node would be told again.
        return;
    }
    for fault in network.preemption_faults() {
        let named = |table: &str, key: &str, name: &str| {
            let records = records.get(table).into_iter().flatten();
            let mut found = records.filter(|record| record.text(key) == Some(name));
            found.find(|record| {
                fault.to.is_none() || table != "port" || record.text("to") == fault.to.as_deref()
            })
        };
        let port = fault
            .to
            .as_ref()
            .and_then(|_| named("port", "switch", &fault.node));
        let record = port
            .or_else(|| named("switch", "name", &fault.node))
            .or_else(|| named("router", "name", &fault.node))
            .or_else(|| named("host", "name", &fault.node));
        let place = record.map_or(0..0, |record| record.place("preemptable"));
        findings.at(&place, fault.message, fault.help);
    }
}
