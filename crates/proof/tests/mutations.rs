//! Certificates that were changed: lowered claims are refused, and what is accepted all the same still holds.
//!
//! The referee of the second kind is the planner, which plans the changed network anew. On networks without loops its
//! values are the least that follow, so no accepted claim may be below them.

use crate::common;

use common::networks::{random_description, random_line, random_ring};
use common::{network, promises};
use rtwire_plan::{Plan, certify, plan_file};
use rtwire_proof::{Refused, Verdict, check};
use rtwire_sim::random::Random;
use serde_json::Value;

/// Rounding, picoseconds: the planner halves until 50 ps are left, at each of a few ports.
const NEAR_PS: u64 = 1_000;

fn certified(seed: u64) -> Plan {
    let mut random = Random::new(seed, 0);
    let text = match seed % 3 {
        0 => random_description(&mut random),
        1 => random_line(&mut random),
        _ => random_ring(&mut random),
    };
    certify(&promises(&network(&text))).unwrap()
}

fn json(plan: &Plan) -> Value {
    serde_json::from_str(&plan_file::text(plan)).unwrap()
}

fn judge(value: &Value) -> Result<Verdict, Refused> {
    check(value.to_string().as_bytes())
}

/// Returns the paths of all values that are no lists and no objects.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| leaves(value, &format!("{at}/{key}"), found))
        }
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(number, value)| leaves(value, &format!("{at}/{number}"), found)),
        _ => found.push(at.to_owned()),
    }
}

/// Each claim alone is lowered by 2 ns, or to the next unit.
#[test]
fn every_lowered_claim_is_refused() {
    let mut tried = 0;
    for seed in 1..=9 {
        let whole = json(&certified(seed));
        assert!(judge(&whole).is_ok());
        let mut paths = Vec::new();
        leaves(&whole["certificate"], "/certificate", &mut paths);
        for path in paths {
            let Some(claim) = whole.pointer(&path).and_then(Value::as_u64) else {
                continue;
            };
            let step = if path.ends_with("_ps") { 2 * NEAR_PS } else { 1 };
            // A claim of zero cannot be lowered, and a class's number is a name.
            if claim == 0 || path.ends_with("/class") {
                continue;
            }
            let mut changed = whole.clone();
            *changed.pointer_mut(&path).unwrap() = claim.saturating_sub(step).into();
            let verdict = judge(&changed);
            assert!(verdict.is_err(), "seed {seed}: {path} lowered from {claim}");
            tried += 1;
        }
    }
    println!("{tried} claims lowered");
    assert!(tried > 500, "{tried}");
}

/// A promise, a port's delay and a port's memory are lowered; a promise together with its terms.
#[test]
fn every_lowered_promise_is_refused() {
    let mut tried = 0;
    for seed in 1..=12 {
        let plan = certified(seed);
        for (stream, one) in plan.streams.iter().enumerate() {
            for promise in 0..one.promises.len() {
                let mut changed = plan.clone();
                let promise = &mut changed.streams[stream].promises[promise];
                let Some(delay) = &mut promise.delay_ns else {
                    continue;
                };
                *delay -= 1;
                promise.terms[0].ns -= 1;
                let verdict = judge(&json(&changed));
                let refused =
                    matches!(&verdict, Err(Refused::Fact(fact)) if fact.rule == "promise");
                assert!(refused, "seed {seed}: {} {verdict:?}", one.name);
                tried += 1;
            }
        }
        for port in 0..plan.ports.len() {
            let mut changed = plan.clone();
            if let Some(bytes) = changed.ports[port].backlog_bytes.filter(|bytes| *bytes > 1) {
                changed.ports[port].backlog_bytes = Some(bytes - 2);
                assert!(judge(&json(&changed)).is_err(), "seed {seed}: memory {port}");
                tried += 1;
            }
            for class in 0..plan.ports[port].classes.len() {
                let mut changed = plan.clone();
                if let Some(delay) = &mut changed.ports[port].classes[class].delay_ns {
                    *delay -= 1;
                    assert!(judge(&json(&changed)).is_err(), "seed {seed}: port {port}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 300, "{tried}");
}

/// A stream's lateness or a class's delay is raised, but not what depends on it.
#[test]
fn every_claim_raised_alone_before_another_port_is_refused() {
    let mut tried = 0;
    for seed in 1..=9 {
        let plan = certified(seed);
        let ports = &plan.certificate.as_ref().unwrap().ports;
        for (number, port) in ports.iter().enumerate() {
            let node = port.port.split_once('>').unwrap().1;
            for (at, fact) in port.arrivals.iter().enumerate() {
                let goes_on = ports.iter().any(|next| {
                    next.port.starts_with(&format!("{node}>"))
                        && next.arrivals.iter().any(|next| next.flow == fact.flow)
                });
                if !goes_on || fact.late_ps.is_none() {
                    continue;
                }
                let mut changed = plan.clone();
                let facts = &mut changed.certificate.as_mut().unwrap().ports[number];
                facts.arrivals[at].late_ps = fact.late_ps.map(|late| late + 1);
                assert!(judge(&json(&changed)).is_err(), "{} {}", port.port, fact.flow);
                tried += 1;
            }
        }
    }
    assert!(tried > 120, "{tried}");
}

/// True if a claim is below what follows. No claim, and nothing that follows, are without end.
fn below(claimed: Option<u64>, follows: Option<u64>) -> bool {
    claimed.is_some_and(|claimed| follows.is_none_or(|least| claimed + NEAR_PS < least))
}

/// Compares the facts of a changed plan with those that follow from its network. Returns the first that is too small.
///
/// Without a rule for all of the network, only the promises that the checker calls proved are compared.
fn too_small(claimed: &Plan, verdict: &Verdict) -> Option<String> {
    let follows = certify(&promises(&claimed.network)).unwrap();
    let (a, b) = (claimed.certificate.as_ref()?, follows.certificate.as_ref()?);
    let all = verdict.proved() == verdict.promises.len();
    for follows in b.ports.iter().filter(|_| all) {
        let claimed = a.ports.iter().find(|port| port.port == follows.port);
        let Some(claimed) = claimed else {
            return Some(format!("{} is missing", follows.port));
        };
        for fact in &follows.arrivals {
            let known = claimed.arrivals.iter().find(|one| one.flow == fact.flow);
            let known = known.and_then(|one| one.late_ps);
            if below(known, fact.late_ps) {
                return Some(format!("{} of {}: {known:?}, {fact:?}", follows.port, fact.flow));
            }
        }
        for fact in &follows.classes {
            let known = claimed.classes.iter().find(|one| one.class == fact.class);
            let known = known.and_then(|one| one.delay_ps);
            if below(known, fact.delay_ps) {
                return Some(format!("{}: {known:?}, {fact:?}", follows.port));
            }
        }
    }
    for (claimed, follows) in claimed.streams.iter().zip(&follows.streams) {
        let name = &claimed.name;
        for (claimed, follows) in claimed.promises.iter().zip(&follows.promises) {
            let proved = verdict.promises.iter().any(|one| {
                one.not_covered.is_none() && one.stream == *name && one.listener == claimed.listener
            });
            let (Some(claimed), true) = (claimed.delay_ns, proved) else { continue };
            // Each piece is rounded up to nanoseconds. Where the planner finds no bound, nothing can have been proved.
            let near = claimed + follows.route.len() as u64;
            if follows.delay_ns.is_none_or(|least| near < least) {
                let to = &follows.listener;
                return Some(format!("promise to {to}: {claimed}, {:?}", follows.delay_ns));
            }
        }
    }
    None
}

/// Any value anywhere in the file is changed. Where the checker accepts, the planner finds nothing larger.
#[test]
fn what_is_accepted_after_a_change_still_holds() {
    let (mut refused, mut accepted, mut unread) = (0, 0, 0);
    for seed in 1..=8 {
        let whole = json(&certified(seed));
        let mut paths = Vec::new();
        leaves(&whole, "", &mut paths);
        let mut random = Random::new(seed, 7);
        for _ in 0..120 {
            // One change, or two at once.
            let mut changed = whole.clone();
            let mut told = Vec::new();
            for _ in 0..1 + random.below(2) {
                let path = &paths[random.below(paths.len() as u64) as usize];
                let place = changed.pointer_mut(path).unwrap();
                let before = place.clone();
                match place {
                    Value::Number(number) => {
                        let number = number.as_u64().unwrap();
                        *place = match random.below(6) {
                            0 => number + 1,
                            1 => number.saturating_sub(1),
                            2 => number * 2,
                            3 => number / 2,
                            4 => number + random.below(1_000_000),
                            _ => random.below(1 + number),
                        }
                        .into();
                    }
                    Value::Bool(on) => *place = (!*on).into(),
                    Value::String(text) => {
                        let mut bytes = text.clone().into_bytes();
                        if let Some(last) = bytes.last_mut() {
                            *last = if *last == b'1' { b'2' } else { b'1' };
                        }
                        *place = String::from_utf8(bytes).unwrap().into();
                    }
                    _ => {}
                }
                told.push(format!("{path} {before} -> {}", changed.pointer(path).unwrap()));
            }
            let Ok(verdict) = judge(&changed) else {
                refused += 1;
                continue;
            };
            // Identities, keys and the like may be wrong now; the checker does not look at them.
            let text = changed.to_string();
            let Ok(claimed) = plan_file::read_changed(text.as_bytes(), "changed") else {
                unread += 1;
                continue;
            };
            accepted += 1;
            let found = too_small(&claimed, &verdict);
            assert!(found.is_none(), "seed {seed}: {told:?}: {}", found.unwrap());
        }
    }
    println!("{refused} refused, {accepted} accepted and held, {unread} no plans");
    assert!(refused > 300 && accepted > 60, "{refused} {accepted}");
}
