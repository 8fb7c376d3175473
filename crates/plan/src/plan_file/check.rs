//! Checks that the parts of a plan match, so that its users can rely on names and places.

use std::collections::HashSet;

use crate::identity::{Identity, LARGEST_NUMBER};
use crate::network::Transport;
use crate::plan::{PLAN_VERSION, Plan};

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
