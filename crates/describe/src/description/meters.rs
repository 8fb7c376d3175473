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

/// Checks that the rest of the network permits the meters. `overrides` are defaults of the command line.
pub(super) fn check(
    network: &Network,
    records: &Records,
    overrides: &[(String, String)],
    findings: &mut Findings<'_>,
) {
    let faults = network.meter_faults();
    if faults.is_empty() && overrides.iter().all(|(key, _)| key != "clock-drift") {
        drift(records, findings);
    }
    for fault in faults {
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

/// Checks that the drift of clocks is stated where there are meters. A meter has exactly its talker's rate. If its clock is slower by
/// the least, its bucket runs dry, and then it discards frames of a talker that keeps its contract, for ever.
fn drift(records: &Records, findings: &mut Findings<'_>) {
    let mut defaults = records.get("defaults").into_iter().flatten();
    if defaults.any(|it| it.has("clock-drift")) {
        return;
    }
    let mut switches = records.get("switch").into_iter().flatten();
    if let Some(metered) = switches.find(|it| it.text("flow-meters") == Some("on")) {
        findings.at(
            &metered.place("flow-meters"),
            "flow meters need `clock-drift`: a meter whose clock is slower than its talker's discards frames that keep the contract",
            Some(
                "[defaults] clock-drift = \"200 ppm\" covers two free clocks of 100 ppm each, \"0 ppm\" clocks that are synchronised"
                    .to_owned(),
            ),
        );
    }
}
