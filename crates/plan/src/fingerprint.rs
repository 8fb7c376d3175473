//! Computes a plan's fingerprint, its keys and its checksum.
//!
//! The fingerprint (`plan_id`) covers all that every end must agree on: the network, the epoch, identities, shapers,
//! launches, gates. Its order does not depend on any file. Keys are made from it. The checksum covers the whole plan.

use rtwire_describe::hash::Fingerprint;
use serde::Serialize;

use crate::identity::{Identity, LARGEST_NUMBER};
use crate::network::{BestEffort, Network, Stream};
use crate::plan::{Plan, StreamPlan};

/// Several JSON texts, one after the other, in one fingerprint.
struct Canonical {
    print: Fingerprint,
    buffer: Vec<u8>,
}

impl Canonical {
    fn new() -> Canonical {
        Canonical {
            print: Fingerprint::new(),
            buffer: Vec::new(),
        }
    }

    fn add<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.buffer.clear();
        // Writing to a vector cannot fail, and nothing in a plan is without a JSON form.
        let _ = serde_json::to_writer(&mut self.buffer, value);
        self.print = std::mem::take(&mut self.print).with_bytes(&self.buffer);
    }

    /// Adds a list in the order of a key.
    fn sorted<T, K: Ord>(
        &mut self,
        list: &[T],
        key: impl Fn(&T) -> K,
        mut add: impl FnMut(&mut Canonical, &T),
    ) {
        let mut order: Vec<&T> = list.iter().collect();
        order.sort_by_cached_key(|item| key(item));
        self.add(&order.len());
        for item in order {
            add(self, item);
        }
    }
}

/// Returns the fingerprint of all that every end must agree on.
pub(crate) fn plan_id(plan: &Plan) -> String {
    let mut canonical = Canonical::new();
    canonical.add(&plan.epoch);
    network(&mut canonical, &plan.network);
    canonical.sorted(
        &plan.streams,
        |stream| stream.name.clone(),
        |canonical, stream| {
            let StreamPlan {
                name,
                identity,
                shaper,
                promises: _,
                launch,
                recovery: _,
            } = stream;
            canonical.add(&(name, without_key(identity), shaper, launch));
        },
    );
    canonical.sorted(
        &plan.best_effort,
        |flow| (flow.name.clone(), flow.to.clone()),
        |canonical, flow| canonical.add(&(&flow.name, &flow.to, without_key(&flow.identity))),
    );
    canonical.sorted(
        &plan.ports,
        |port| (port.node.clone(), port.port.clone()),
        |canonical, port| canonical.add(&(&port.node, &port.port, &port.gates)),
    );
    canonical.print.text()
}

fn without_key(identity: &Identity) -> Identity {
    Identity {
        key: 0,
        ..identity.clone()
    }
}

/// Adds the network without the differences between files: order, places in lists, words for people.
fn network(canonical: &mut Canonical, network: &Network) {
    let Network {
        name,
        description: _,
        input_hash: _,
        hosts,
        switches,
        links,
        streams,
        best_effort,
        defaults,
        port_latencies,
        shapers,
        schedule,
        // They have no part in what the plan says.
        manager_host: _,
        transfers: _,
    } = network;
    canonical.add(&(name, defaults, schedule));
    canonical.sorted(hosts, |host| host.name.clone(), Canonical::add);
    canonical.sorted(switches, |switch| switch.name.clone(), Canonical::add);
    let ends = |link: &crate::network::Link| {
        let mut ends = link.ends.clone();
        ends.sort_unstable();
        ends
    };
    canonical.sorted(links, ends, |canonical, link| {
        canonical.add(&(ends(link), link.rate_bps, link.cable_delay_ns));
    });
    canonical.sorted(
        streams,
        |stream| stream.name.clone(),
        |canonical, stream| {
            let (listeners, routes) = sorted_ways(&stream.listeners, &stream.routes);
            canonical.add(&Stream {
                talker_index: 0,
                listeners,
                listener_indices: Vec::new(),
                routes,
                // The identity has it.
                port: 0,
                published_delay_ns: None,
                ..stream.clone()
            });
        },
    );
    canonical.sorted(
        best_effort,
        |allowance| allowance.name.clone(),
        |canonical, allowance| {
            let (to, routes) = sorted_ways(&allowance.to, &allowance.routes);
            canonical.add(&BestEffort {
                to,
                routes,
                ..allowance.clone()
            });
        },
    );
    canonical.sorted(
        port_latencies,
        |port| (port.from.clone(), port.to.clone()),
        Canonical::add,
    );
    canonical.sorted(
        shapers,
        |shaper| (shaper.node.clone(), shaper.to.clone(), shaper.pcp),
        Canonical::add,
    );
}

fn sorted_ways(ends: &[String], routes: &[Vec<String>]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut ways: Vec<(&String, &Vec<String>)> = ends.iter().zip(routes).collect();
    ways.sort_unstable();
    let cloned = ways.into_iter();
    cloned
        .map(|(end, route)| (end.clone(), route.clone()))
        .unzip()
}

/// Returns the number from which all keys of a plan are counted. It is above 0, and low enough that no key leaves 32
/// bits.
pub(crate) fn key_base(plan_id: &str) -> u32 {
    let value = Fingerprint::new().with(plan_id).value();
    let mixed = value ^ (value >> 64);
    let room = u128::from(u32::MAX - LARGEST_NUMBER);
    // Less than 2^32 by the remainder.
    u32::try_from(mixed % room).unwrap_or(0) + 1
}

/// A writer that adds its bytes to a fingerprint, without keeping them.
struct Taking(Fingerprint);

impl std::io::Write for Taking {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.take(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the checksum of a plan, whatever checksum it states.
pub(crate) fn checksum(plan: &mut Plan) -> String {
    let before = std::mem::take(&mut plan.checksum);
    let mut taking = Taking(Fingerprint::new());
    // Taking in cannot fail, and nothing in a plan is without a JSON form.
    let _ = serde_json::to_writer(&mut taking, plan);
    plan.checksum = before;
    taking.0.text()
}

impl Plan {
    /// Computes the fingerprint, the keys and the checksum again from everything else.
    pub(crate) fn seal(&mut self) {
        self.plan_id = plan_id(self);
        let base = key_base(&self.plan_id);
        let streams = self.streams.iter_mut().map(|stream| &mut stream.identity);
        let others = self.best_effort.iter_mut().map(|flow| &mut flow.identity);
        for identity in streams.chain(others) {
            identity.key = base.wrapping_add(identity.number);
        }
        self.checksum = checksum(self);
    }
}
