//! The plan file of an epoch: the description's streams and the connections in force, planned as one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rtwire_plan::schedule::Scheduling;
use rtwire_plan::{
    Destination, Identity, Options, Plan, Promise, Refusal, Semantics, Shaper, Stream, StreamPlan,
    plan_with,
};

use crate::connection::{Carrier, Granted, Stored};
use crate::ledger::{contract, transport};
use crate::manager::Change;
use crate::ways::Ways;

/// The connections of one epoch, ready to be planned. Another thread may have it, and follow the manager's changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    base: Arc<Plan>,
    epoch: u64,
    connections: BTreeMap<u64, Arc<Stored>>,
}

impl Snapshot {
    pub(crate) fn new(
        base: Arc<Plan>,
        epoch: u64,
        connections: BTreeMap<u64, Arc<Stored>>,
    ) -> Snapshot {
        Snapshot {
            base,
            epoch,
            connections,
        }
    }

    /// Returns the epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Takes a change of the manager. All changes since the snapshot, in their order, give the snapshot of the manager now.
    pub fn follow(&mut self, change: Change) {
        match change {
            Change::Admitted(stored) => {
                self.epoch = stored.granted.epoch;
                self.connections.insert(stored.granted.connection, stored);
            }
            Change::Released { connection, epoch } => {
                self.epoch = epoch;
                self.connections.remove(&connection);
            }
        }
    }

    /// Plans the epoch anew. Each connection's deadline is its promise, so that the plan holds only if all promises do.
    ///
    /// # Errors
    /// [`Refusal`]; on a loop of ports that does not settle for the planner, although the budgets hold.
    pub fn plan(&self) -> Result<Plan, Refusal> {
        if self.epoch == self.base.epoch {
            return Ok(Plan::clone(&self.base));
        }
        let mut network = self.base.network.clone();
        let mut kept = Plan::clone(&self.base);
        let mut ways = Ways::new(&self.base.network);
        let hosts = self.base.network.hosts.iter();
        let numbers: HashMap<&str, usize> = hosts.map(|one| one.name.as_str()).zip(0..).collect();
        for connection in self.connections.values() {
            let granted = &connection.granted;
            let Some(stream) = self.stream(granted, &mut ways, &numbers) else {
                continue;
            };
            kept.numbers_used = kept.numbers_used.max(granted.number);
            kept.streams.push(identified(&stream, granted));
            kept.network.streams.push(stream.clone());
            network.streams.push(stream);
        }
        let options = Options {
            ignore_limits: false,
            analysis: self.base.options.analysis,
        };
        let mut go_on = || true;
        let mut scheduling = Scheduling::new(&mut go_on).keeping_at(&kept, self.epoch);
        scheduling.seed = self.base.options.search_seed;
        scheduling.work = self.base.options.search_work;
        plan_with(&network, &options, &mut scheduling)
    }

    /// Returns a connection as a stream. `numbers` are those of the hosts.
    fn stream(
        &self,
        granted: &Granted,
        ways: &mut Ways,
        numbers: &HashMap<&str, usize>,
    ) -> Option<Stream> {
        let ask = &granted.ask;
        let way = ways.between(&granted.talker, &ask.listener).ok()?;
        let overhead = self.base.network.defaults.frame_overhead_bytes;
        let frame_bytes = u64::from(ask.padded_bytes());
        let wire_bytes = frame_bytes + overhead;
        let transport = transport(ask.carrier);
        Some(Stream {
            name: granted.name(),
            talker: granted.talker.clone(),
            talker_index: *numbers.get(granted.talker.as_str())?,
            listeners: vec![ask.listener.clone()],
            listener_indices: vec![*numbers.get(ask.listener.as_str())?],
            frame_bytes,
            payload_bytes: frame_bytes.saturating_sub(transport.header_bytes(ask.vlan.is_some())),
            wire_bytes,
            contract: contract(&self.base, ask, wire_bytes)?,
            shaped: true,
            pcp: ask.pcp,
            dscp: None,
            deadline_ns: Some(granted.promise_ns),
            published_delay_ns: None,
            semantics: Semantics::Queue,
            transport,
            port: ask.port,
            vlan: ask.vlan,
            routes: vec![way],
            // What a program sends may be smaller than its largest frame.
            smallest_frame_bytes: Some(60),
            time_triggered: false,
            cyclic: false,
            jitter_ns: None,
            copy_of: None,
        })
    }
}

/// Returns the entry by which the planner keeps the identity that was granted.
fn identified(stream: &Stream, granted: &Granted) -> StreamPlan {
    let destination = match (granted.ask.carrier, granted.group()) {
        (Carrier::Rtdip, Some(mac)) => Destination::Group { mac },
        _ => Destination::Peer {
            host: granted.ask.listener.clone(),
        },
    };
    StreamPlan {
        name: stream.name.clone(),
        identity: Identity {
            number: granted.number,
            destination,
            port: granted.ask.port,
            key: granted.key,
            vlan: granted.ask.vlan,
            pcp: granted.ask.pcp,
            dscp: None,
            queue: 0,
        },
        shaper: Shaper {
            rate_bps: stream.contract.rate,
            burst_bits: stream.contract.burst_bits,
            interval_ns: stream.contract.shaping_interval_ns,
            tick_error_ns: stream.contract.tick_error_ns,
        },
        promises: Vec::<Promise>::new(),
        launch: None,
        recovery: None,
    }
}
