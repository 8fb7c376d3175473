//! Cyclic streams.

use super::fault::Findings;
use super::walk::Records;
use crate::network::{CyclicSubject, Network};

/// Checks that the rest of the network permits the cyclic streams.
pub(super) fn check(network: &Network, records: &Records, findings: &mut Findings<'_>) {
    for fault in network.cyclic_faults() {
        let record = match &fault.subject {
            CyclicSubject::Stream(name) => {
                let mut streams = records.get("stream").into_iter().flatten();
                streams.find(|it| it.text("name") == Some(name.as_str()))
            }
            // Where one is faulty the others cannot be told apart, and the file is refused all the same.
            CyclicSubject::BestEffort(index) => records
                .get("best-effort")
                .filter(|list| list.len() == network.best_effort.len())
                .and_then(|list| list.get(*index)),
        };
        let place = record.map_or(0..0, |record| {
            if record.has(fault.key) {
                record.place(fault.key)
            } else {
                record.span.clone()
            }
        });
        findings.at(&place, fault.message, Some(fault.help));
    }
}
