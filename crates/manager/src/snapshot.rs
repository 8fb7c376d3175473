//! The plan file of an epoch: the description's streams and the connections in force, planned as one.

use std::sync::Arc;

use rtwire_plan::schedule::Scheduling;
use rtwire_plan::{
    Destination, Identity, Options, Plan, Promise, Refusal, Semantics, Shaper, Stream, StreamPlan,
    plan_with,
};

use crate::connection::{Carrier, Granted};
use crate::ledger::{contract, transport};

/// The first part of the name that a connection has in a plan file; its id follows.
pub(crate) const PREFIX: &str = "connection-";

/// The connections of one epoch, ready to be planned. Another thread may do it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    base: Arc<Plan>,
    epoch: u64,
    connections: Vec<(Granted, Vec<String>)>,
}

impl Snapshot {
    pub(crate) fn new(
        base: Arc<Plan>,
        epoch: u64,
        connections: Vec<(Granted, Vec<String>)>,
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
        for (granted, way) in &self.connections {
            let Some(stream) = self.stream(granted, way) else {
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

    fn stream(&self, granted: &Granted, way: &[String]) -> Option<Stream> {
        let ask = &granted.ask;
        let hosts = &self.base.network.hosts;
        let number = |name: &str| hosts.iter().position(|host| host.name == name);
        let overhead = self.base.network.defaults.frame_overhead_bytes;
        let frame_bytes = u64::from(ask.padded_bytes());
        let wire_bytes = frame_bytes + overhead;
        let transport = transport(ask.carrier);
        Some(Stream {
            name: format!("{PREFIX}{}", granted.connection),
            talker: granted.talker.clone(),
            talker_index: number(&granted.talker)?,
            listeners: vec![ask.listener.clone()],
            listener_indices: vec![number(&ask.listener)?],
            frame_bytes,
            payload_bytes: frame_bytes.saturating_sub(transport.header_bytes(ask.vlan.is_some())),
            wire_bytes,
            contract: contract(&self.base, ask, wire_bytes)?,
            shaped: true,
            pcp: ask.pcp,
            deadline_ns: Some(granted.promise_ns),
            published_delay_ns: None,
            semantics: Semantics::Queue,
            transport,
            port: ask.port,
            vlan: ask.vlan,
            routes: vec![way.to_vec()],
            // What a program sends may be smaller than its largest frame.
            smallest_frame_bytes: Some(60),
            time_triggered: false,
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
    }
}
