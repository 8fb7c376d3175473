//! Checks that the parts of a plan match, so that its users can rely on names and places.

use std::collections::HashSet;

use crate::identity::{Identity, LARGEST_NUMBER};
use crate::network::{Network, Transport};
use crate::plan::{PLAN_VERSION, Plan};
use crate::recovery::{MOST_APART, Recovery};

/// Checks that every stream, allowance and port of the network has its place in the plan, and that identities are
/// distinct. The error is the first violation, in words.
pub(crate) fn check(plan: &Plan) -> Result<(), String> {
    if plan.version != PLAN_VERSION {
        return Err(format!("its version is {}", plan.version));
    }
    let network = &plan.network;
    network.check()?;
    if plan.streams.len() != network.streams.len() {
        return Err("its streams are not those of its network".to_owned());
    }
    for (described, planned) in network.streams.iter().zip(&plan.streams) {
        let name = &described.name;
        if planned.name != *name {
            return Err(format!(
                "\"{}\" stands where stream \"{name}\" should",
                planned.name
            ));
        }
        let listeners = planned.promises.iter().map(|promise| &promise.listener);
        if !listeners.eq(&described.listeners) {
            return Err(format!(
                "stream \"{name}\": its promises are not for its listeners"
            ));
        }
        if planned.identity.port != described.port {
            return Err(format!(
                "stream \"{name}\": port {} in its identity, but {} in the network",
                planned.identity.port, described.port
            ));
        }
        if let Some(recovery) = &planned.recovery {
            recovered(network, name, recovery)?;
        }
    }
    let ways = network.best_effort.iter().flat_map(|allowance| {
        let to = allowance.to.iter();
        to.map(move |to| (&allowance.name, to))
    });
    if !ways.eq(plan.best_effort.iter().map(|flow| (&flow.name, &flow.to))) {
        return Err("its best-effort flows are not those of its network".to_owned());
    }
    let ends = network.links.iter().flat_map(|link| {
        let [a, b] = &link.ends;
        [(a, b), (b, a)]
    });
    if !ends.eq(plan.ports.iter().map(|port| (&port.node, &port.port))) {
        return Err("its ports are not those of its network".to_owned());
    }
    identities(plan)
}

/// Checks that a recovery is that of a redundant stream, and that its history is one of sequence numbers.
fn recovered(network: &Network, name: &str, recovery: &Recovery) -> Result<(), String> {
    let mut streams = network.streams.iter();
    let copy = streams.find(|stream| stream.copy_of.as_deref() == Some(name));
    let names = recovery.ways.iter().map(|way| way.stream.as_str());
    if !names.eq([Some(name), copy.map(|copy| copy.name.as_str())]
        .into_iter()
        .flatten())
    {
        return Err(format!(
            "stream \"{name}\": its recovery is not that of its two copies"
        ));
    }
    let history = u64::from(recovery.history_length);
    if !(2..=MOST_APART + 1).contains(&history) {
        return Err(format!(
            "stream \"{name}\": a history of {history} sequence numbers; 2 to {} are possible",
            MOST_APART + 1
        ));
    }
    Ok(())
}

fn identities(plan: &Plan) -> Result<(), String> {
    let mut numbers: HashSet<u32> = HashSet::new();
    let mut keys: HashSet<u32> = HashSet::new();
    let mut told = |name: &str, identity: &Identity| {
        let number = identity.number;
        if number == 0 || number > LARGEST_NUMBER || !numbers.insert(number) {
            return Err(format!(
                "\"{name}\": number {number} is out of range or taken"
            ));
        }
        if identity.key == 0 || !keys.insert(identity.key) {
            return Err(format!("\"{name}\": key {} is 0 or taken", identity.key));
        }
        if identity.port == 0 {
            return Err(format!("\"{name}\" has no port"));
        }
        Ok(())
    };
    let mut heard: HashSet<(bool, &str, u16)> = HashSet::new();
    for (described, planned) in plan.network.streams.iter().zip(&plan.streams) {
        told(&planned.name, &planned.identity)?;
        if described.copy_of.is_some() {
            continue;
        }
        let udp = described.transport == Transport::Udp;
        for listener in &described.listeners {
            if !heard.insert((udp, listener, planned.identity.port)) {
                return Err(format!(
                    "port {} of stream \"{}\" is taken at listener \"{listener}\"",
                    planned.identity.port, planned.name
                ));
            }
        }
    }
    for flow in &plan.best_effort {
        told(&flow.name, &flow.identity)?;
        if !heard.insert((false, &flow.to, flow.identity.port)) {
            return Err(format!(
                "port {} of best-effort allowance \"{}\" is taken at \"{}\"",
                flow.identity.port, flow.name, flow.to
            ));
        }
    }
    Ok(())
}
