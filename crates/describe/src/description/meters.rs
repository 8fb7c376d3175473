//! Flow meters of switches.

use super::context::bytes;
use super::fault::Findings;
use super::walk::{Record, Records};
use crate::network::{FlowMeters, Network};

/// The overhead that meters of 802.1Q count: the FCS, bytes.
const FCS_BYTES: u64 = 4;

/// Reads the flow meters of a switch.
pub(super) fn of_switch(record: &Record, findings: &mut Findings<'_>) -> Option<FlowMeters> {
    let is_on = record.text("flow-meters") == Some("on");
    let stated = record.quantity("meter-overhead");
    let place = record.place("meter-overhead");
    if stated.is_some() && !is_on {
        let message = "`meter-overhead` is of flow meters, and this switch has none";
        let help = "flow-meters = \"on\", or leave `meter-overhead` away";
        findings.at(&place, message, Some(help.to_owned()));
    }
    let overhead = match stated.map(bytes) {
        Some(None) => {
            findings.at(&place, "`meter-overhead` is no whole number of bytes", None);
            None
        }
        Some(stated) => stated,
        None => Some(FCS_BYTES),
    };
    is_on.then(|| FlowMeters {
        overhead_bytes: overhead.unwrap_or(FCS_BYTES),
    })
}

/// Checks that the rest of the network permits the meters.
pub(super) fn check(network: &Network, records: &Records, findings: &mut Findings<'_>) {
    for fault in network.meter_faults() {
        let mut switches = records.get("switch").into_iter().flatten();
        let record = switches.find(|it| it.text("name") == Some(fault.switch.as_str()));
        // The overhead may be the usual one, of a smaller `frame-overhead`.
        let place = record.map_or(0..0, |record| {
            let key = if record.has(fault.key) {
                fault.key
            } else {
                "flow-meters"
            };
            record.place(key)
        });
        findings.at(&place, fault.message, Some(fault.help));
    }
}
