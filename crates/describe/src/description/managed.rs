//! The manager of connections, and the transfers that share what is free.

use super::context::{Context, find_host};
use super::fault::Findings;
use super::walk::Record;
use crate::network::{BestEffort, Transfer};

/// Returns the manager's host and the transfers.
pub(super) fn managed(
    manager: Option<&Record>,
    transfers: &[Record],
    (context, best_effort): (&Context<'_>, &[BestEffort]),
    findings: &mut Findings<'_>,
) -> (Option<String>, Vec<Transfer>) {
    let host = manager.and_then(|record| {
        let name = record.text("host")?;
        find_host(context, "manager", name, &record.place("host"), findings)?;
        Some(name.to_owned())
    });
    let mut list = Vec::new();
    for record in transfers {
        let (Some(from), Some(to)) = (record.text("from"), record.text("to")) else {
            continue;
        };
        let mut found = |key: &str, name: &str| {
            find_host(context, key, name, &record.place(key), findings).is_some()
        };
        // Both, so that both faults are told.
        let both = [found("from", from), found("to", to)];
        if both.contains(&false) {
            continue;
        }
        if manager.is_none() {
            findings.at(
                &record.place("from"),
                "a transfer needs a manager, which divides what is free",
                Some("add `[manager]` with its `host`".to_owned()),
            );
            continue;
        }
        if from == to {
            findings.at(
                &record.place("to"),
                format!("the transfer from \"{from}\" ends where it begins"),
                None,
            );
            continue;
        }
        // Its acknowledgements go the other way.
        for (key, sends, receives) in [("from", from, to), ("to", to, from)] {
            let mut allowances = best_effort.iter();
            let reaches =
                |one: &BestEffort| one.host == sends && one.to.iter().any(|name| name == receives);
            if !allowances.any(reaches) {
                findings.at(
                    &record.place(key),
                    format!("no best effort of \"{sends}\" reaches \"{receives}\""),
                    Some(format!(
                        "a transfer needs one each way: add `[[best-effort]]` with `host = \"{sends}\"` and `to = [\"{receives}\"]`"
                    )),
                );
            }
        }
        list.push(Transfer {
            from: from.to_owned(),
            to: to.to_owned(),
        });
    }
    (host, list)
}
