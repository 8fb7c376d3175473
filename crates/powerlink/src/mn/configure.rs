//! Writing a controlled node's configuration (DS 301, 6.7 and 7.4.2.2.1.3).

use super::ManagingNode;
use super::node::{Boot, Cn};
use crate::sdo::{SdoFailure, SdoJob, SdoOutcome};
use crate::{AbortCode, Cdc, Event, LostReason, NodeEvent, ObjectDictionary};
use rtwire_wire::powerlink::NmtCommandId;

/// The bit of object 1F82h for service data over ASnd.
const SDO_BY_ASND: u32 = 0x4;
const CYCLE_LENGTH: u16 = 0x1006;

/// Returns the objects to write to a node: index, sub-index, data, and true where a refusal is tolerated.
fn jobs(d: &ObjectDictionary, cn: &Cn) -> Vec<(u16, u8, Vec<u8>, bool)> {
    let cycle = || {
        let cycle = (d.number(CYCLE_LENGTH, 0) as u32).to_le_bytes();
        (CYCLE_LENGTH, 0, cycle.to_vec(), true)
    };
    let stored = d.read(0x1f22, cn.number).unwrap_or_default();
    let Ok(cdc) = Cdc::parse(stored) else {
        return vec![cycle()];
    };
    let expected = [0x1f26, 0x1f27].map(|index| d.number(index, cn.number));
    let found = cn.ident.map_or([0; 2], |ident| {
        [ident.configuration_date, ident.configuration_time].map(u64::from)
    });
    // Date and time of the configuration are the expected ones: the node has it already.
    if cdc.entries.is_empty() || expected != [0; 2] && expected == found {
        return vec![cycle()];
    }
    // A node need not be able to store parameters, or to restore them.
    let tolerated = |index| matches!(index, 0x1010 | 0x1011);
    let each = |entry: crate::CdcEntry| {
        let tolerated = tolerated(entry.index);
        (entry.index, entry.subindex, entry.data, tolerated)
    };
    let mut all: Vec<_> = cdc.entries.into_iter().map(each).collect();
    if !all.iter().any(|job| job.0 == CYCLE_LENGTH) {
        all.push(cycle());
    }
    all
}

impl ManagingNode {
    /// Begins to configure the node at `at`, or goes on where there is nothing to write.
    pub(super) fn configure(&mut self, now_ns: u64, at: usize) {
        let Some(cn) = self.nodes.get_mut(at) else {
            return;
        };
        let able = cn
            .ident
            .is_some_and(|ident| ident.feature_flags & SDO_BY_ASND != 0);
        if cn.configured || !able {
            cn.boot = Boot::Identified;
            cn.deadline_ns = Some(now_ns + self.dictionary.number(0x1f89, 4).max(1000) * 1000);
            return;
        }
        cn.boot = Boot::Configure;
        cn.deadline_ns = None;
        let jobs = jobs(&self.dictionary, cn);
        self.events.push(Event::Node {
            node: cn.number,
            what: NodeEvent::Configuring {
                objects: jobs.len(),
            },
        });
        for (index, subindex, data, tolerated) in jobs {
            let id = cn
                .client
                .submit(now_ns, SdoJob::Write(index, subindex, data));
            cn.configuring.push((id, index, subindex, tolerated));
        }
    }

    /// Takes the outcomes of service data.
    pub(super) fn outcomes(&mut self, now_ns: u64, at: usize) {
        while let Some(cn) = self.nodes.get_mut(at) {
            let Some((id, outcome)) = cn.client.outcome() else {
                return;
            };
            let node = cn.number;
            let Some(job) = cn.configuring.iter().position(|job| job.0 == id) else {
                self.events.push(Event::Sdo { node, id, outcome });
                continue;
            };
            let (_, index, subindex, tolerated) = cn.configuring.remove(job);
            let refused = matches!(outcome, SdoOutcome::Failed(SdoFailure::Abort(code))
                if code != AbortCode::TIMEOUT);
            let failed = matches!(outcome, SdoOutcome::Failed(_)) && !(tolerated && refused);
            if failed {
                cn.configuring.clear();
                cn.client.reset();
                while cn.client.outcome().is_some() {}
                self.events.push(Event::Node {
                    node,
                    what: NodeEvent::ConfigurationFailed {
                        index,
                        subindex,
                        outcome,
                    },
                });
                self.lose(now_ns, node, LostReason::Configuration);
            } else if cn.configuring.is_empty() && cn.boot == Boot::Configure {
                cn.configured = true;
                self.events.push(Event::Node {
                    node,
                    what: NodeEvent::Configured,
                });
                // The node takes its configuration over, and is identified anew.
                self.search_behind_reset(now_ns, node);
                self.queue_command(NmtCommandId::RESET_CONFIGURATION, node, &[]);
            }
        }
    }
}
