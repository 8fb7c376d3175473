//! Walks through a certificate: every fact is asked of its rule.

use std::collections::HashMap;

use crate::closed::Closed;
use crate::file::{File, PortFacts, PortPlan, Promise, PromiseFacts, Stream, StreamPlan};
use crate::model::{Model, form, port_name};
use crate::number::{BIT, BPS, NS, Num, bytes};
use crate::{Fact, Judged, Refused, Verdict};

type Checked = Result<(), Refused>;

/// Checks all facts of a file.
pub(crate) fn check(file: &File) -> Result<Verdict, Refused> {
    let Some(certificate) = &file.certificate else {
        return Err(Refused::NoCertificate);
    };
    for (found, known) in [(file.version, 3), (certificate.version, 1)] {
        if found.0 != known {
            return Err(Refused::Version { found: found.0 });
        }
    }
    let mut model = Model::of(file)?;
    model.claim(certificate)?;
    for facts in &certificate.ports {
        service(&model, facts)?;
    }
    for port in 0..model.ports.len() {
        delays(&model, port)?;
    }
    for flow in &model.flows {
        for hop in &flow.hops {
            let port = &model.ports[hop.port];
            if let (Some(late), None) = (hop.late, &port.not_covered) {
                let before = hop.before.map(|before| &flow.hops[before]);
                let needed = before.map_or(Num::ZERO, |one| model.lateness_behind(flow, one));
                let at = format!("\"{}\" at {}", flow.name, port.name);
                ask("lateness", &at, late, "ps", |late| needed <= late)?;
            }
        }
    }
    for (number, plan) in file.ports.iter().enumerate() {
        memory(&model, number, plan)?;
    }
    limits(file)?;
    promises(&model, file, &certificate.promises)
}

fn fact(rule: &'static str, at: &str, claimed: Num, needed: Num, unit: &str) -> Refused {
    let shown = |value: Num| value.0.map(|value| format!("{value} {unit}"));
    Refused::Fact(Fact {
        rule,
        at: at.to_owned(),
        claimed: shown(claimed).unwrap_or_else(|| "no bound".to_owned()),
        needed: shown(needed).unwrap_or_else(|| "no bound".to_owned()),
    })
}

/// Asks once if a claim holds. If not, finds the least that would, for the message.
fn ask(
    rule: &'static str,
    at: &str,
    claim: Num,
    unit: &str,
    holds: impl Fn(Num) -> bool,
) -> Checked {
    if holds(claim) {
        return Ok(());
    }
    let (mut low, mut step) = (claim, 1);
    while !holds(low + step.into()) && step < 1 << 60 {
        (low, step) = (low + step.into(), step * 2);
    }
    while step > 1 {
        step /= 2;
        if !holds(low + step.into()) {
            low = low + step.into();
        }
    }
    let least = Some(low + 1.into()).filter(|least| holds(*least));
    Err(fact(rule, at, claim, least.unwrap_or(Num(None)), unit))
}

/// The stated service of a port is that of the network: rate, latency, and the largest lower frame of each class.
fn service(model: &Model, facts: &PortFacts) -> Checked {
    let number = model.numbers[&facts.port];
    let port = &model.ports[number];
    let units = |value: u64, unit: i128| Num::from(i128::from(value)) * unit.into();
    let same = |rule, stated: Num, needed: Num| {
        let fault = || fact(rule, &facts.port, stated, needed, "(ps, 10^-6 bit/s, 10^-18 bit)");
        if stated == needed { Ok(()) } else { Err(fault()) }
    };
    same("rate", units(facts.rate_bps.0, BPS), port.rate)?;
    if port.one_latency {
        same("latency", units(facts.latency_ns.0, NS), port.latency)?;
        same("least latency", units(facts.latency_min_ns.0, NS), port.latency_min)?;
    }
    same("catching up", units(facts.catches_up.into(), 1), units(port.catches_up.into(), 1))?;
    for class in facts.classes.iter().filter(|_| port.not_covered.is_none()) {
        let needed = model.blocking(number, class.class);
        same("blocking", units(class.blocking_bits.0, BIT), needed)?;
    }
    Ok(())
}

fn delays(model: &Model, number: usize) -> Checked {
    let port = &model.ports[number];
    for (class, claim) in (0_u8..).zip(port.delays) {
        if let (Some(claim), None) = (claim, &port.not_covered) {
            let at = format!("class {class} at {}", port.name);
            ask("delay", &at, claim, "ps", |d| model.delay_holds(number, class, d, None))?;
        }
    }
    Ok(())
}

/// The memory and the delays that the plan states for a port.
///
/// **Theorem (frames).** Of data that wait, all frames but the one being sent are whole. So at most `B / M_min`,
/// rounded up, frames wait. If memory is freed with a frame's last bit, one largest frame comes on top of `B`.
fn memory(model: &Model, number: usize, plan: &PortPlan) -> Checked {
    let port = &model.ports[number];
    let name = &port.name;
    if port.not_covered.is_some() || port.passing.is_empty() {
        return Ok(());
    }
    let closed = model.closed(number);
    for class in &plan.classes {
        if let Some(stated) = class.delay_ns {
            let at = format!("class {} at {name}", class.class);
            let claimed = port.delays.get(usize::from(class.class)).copied().flatten();
            ask("port table", &at, stated.num(), "ns", |stated| {
                let ps = stated * NS.into();
                claimed.is_some_and(|claimed| claimed <= ps)
                    || closed.as_ref().is_some_and(|closed| closed.within(ps))
            })?;
        }
    }
    let sizes = || port.passing.iter().map(|(flow, _)| &model.flows[*flow]);
    let whole = sizes().filter(|_| port.frees_whole).map(|flow| flow.largest);
    let whole = whole.fold(Num::ZERO, Num::max);
    let smallest = sizes().map(|flow| flow.smallest).reduce(Num::min);
    let smallest = smallest.unwrap_or(Num(None));
    let enough = |bits: Num| {
        let exact = |closed: &Closed| closed.holds(bits);
        closed.as_ref().is_some_and(exact) || model.memory_holds(number, bits)
    };
    if let Some(stated) = plan.backlog_bytes {
        let holds = |stated: Num| enough(stated * bytes(1) - whole);
        ask("memory", name, stated.num(), "bytes", holds)?;
    }
    if let Some(stated) = plan.backlog_frames {
        let holds = |stated: Num| enough(stated * smallest);
        ask("frames", name, stated.num(), "frames", holds)?;
    }
    Ok(())
}

/// No port, and no pool of ports, needs more memory than its switch has.
fn limits(file: &File) -> Checked {
    let switches = file.network.switches.iter();
    let by_name: HashMap<_, _> = switches.map(|one| (&one.name, &one.buffer)).collect();
    let mut needs: HashMap<(&String, Option<&String>), (Num, Num)> = HashMap::new();
    for plan in file.ports.iter().filter(|_| !file.options.ignore_limits) {
        if let Some(buffer) = by_name.get(&plan.node) {
            let port = (!buffer.shared).then_some(&plan.port);
            let sum = needs.entry((&plan.node, port)).or_insert((Num::ZERO, Num::ZERO));
            let (data, frames) = (plan.backlog_bytes, plan.backlog_frames);
            sum.0 = sum.0 + data.map_or(Num(None), |data| data.num());
            sum.1 = sum.1 + frames.map_or(Num(None), |frames| frames.num());
        }
    }
    for ((node, _), (data, frames)) in needs {
        let buffer = by_name[node];
        let room = buffer.bytes.num();
        let fits = buffer.frames.is_none_or(|room| frames <= room.num());
        if !(data <= room && fits) {
            let most = buffer.frames.map_or(Num(None), |room| room.num());
            return Err(match data <= room {
                true => fact("buffer", node, most, frames, "frames"),
                false => fact("buffer", node, room, data, "bytes"),
            });
        }
    }
    Ok(())
}

fn promises(model: &Model, file: &File, facts: &[PromiseFacts]) -> Result<Verdict, Refused> {
    let ignored = file.options.ignore_limits;
    let mut verdict = Verdict { limits_ignored: ignored, ..Verdict::default() };
    let mut found = HashMap::new();
    for one in facts {
        if found.insert((&one.stream, &one.listener), one).is_some() {
            return Err(form(format!("\"{}\" to {} is there twice", one.stream, one.listener)));
        }
    }
    if file.network.streams.len() != file.streams.len() {
        return Err(form("its streams are not those of its network".to_owned()));
    }
    for (number, (stream, plan)) in file.network.streams.iter().zip(&file.streams).enumerate() {
        let listeners = plan.promises.iter().map(|one| (&one.listener, &one.route));
        if plan.name != stream.name || !listeners.eq(stream.listeners.iter().zip(&stream.routes)) {
            let what = format!("the promises of \"{}\" are not those of its stream", stream.name);
            return Err(form(what));
        }
        enforced(model, (number, stream), plan)?;
        for promise in &plan.promises {
            let at = format!("\"{}\" to {}", stream.name, promise.listener);
            let limited = stream.deadline_ns.is_some() || stream.jitter_ns.is_some();
            let Some(stated) = promise.delay_ns else {
                if limited && !ignored {
                    return Err(form(format!("{at} has a limit, but no promise")));
                }
                continue;
            };
            if let Some(deadline) = stream.deadline_ns.filter(|_| !ignored) {
                ask("deadline", &at, deadline.num(), "ns", |limit| stated.num() <= limit)?;
            }
            let facts = found.get(&(&stream.name, &promise.listener)).copied();
            verdict.promises.push(judge(model, (number, stream), promise, facts)?);
        }
    }
    Ok(verdict)
}

/// The shaper of a talker lets through no more than its contract, and nothing holds its frames back.
fn enforced(model: &Model, (number, stream): (usize, &Stream), plan: &StreamPlan) -> Checked {
    let (rate, burst) = model.flows[number].keeps;
    let shaper = &plan.shaper;
    let holds = shaper.rate_bps.0.at_most(rate) == Some(true)
        && shaper.burst_bits.num() <= burst.units_up(1, 1, 1)
        && shaper.tick_error_ns.num() <= stream.contract.tick_error_ns.num()
        && (plan.launch.is_none() || stream.time_triggered);
    let fault = || format!("shaper or launch of \"{}\" are not those of its contract", plan.name);
    if holds { Ok(()) } else { Err(form(fault())) }
}

/// **Theorem (sum).** A frame's delay is at most the sum over the pieces of its route, and the cables.
fn judge(
    model: &Model,
    (number, stream): (usize, &Stream),
    promise: &Promise,
    facts: Option<&PromiseFacts>,
) -> Result<Judged, Refused> {
    let at = format!("\"{}\" to {}", stream.name, promise.listener);
    let flow = &model.flows[number];
    let stated = promise.delay_ns.unwrap_or_default();
    let terms = promise.terms.iter().fold(Num::ZERO, |sum, term| sum + term.ns.num());
    if terms != stated.num() {
        return Err(fact("terms", &at, stated.num(), terms, "ns"));
    }
    let mut hops = Vec::new();
    for pair in promise.route.windows(2) {
        let port = model.numbers.get(&port_name(&pair[0], &pair[1]));
        hops.extend(flow.hops.iter().position(|hop| Some(&hop.port) == port));
    }
    let port = |hop: &usize| &model.ports[flow.hops[*hop].port];
    let has_jitter = stream.jitter_ns.is_some() || promise.jitter_ns.is_some();
    let reasons = [
        stream.time_triggered.then(|| "its launches and windows".to_owned()),
        hops.iter().find_map(|hop| port(hop).not_covered.clone()),
        hops.iter().find_map(|hop| port(hop).crowded.clone()),
        has_jitter.then(|| "its jitter".to_owned()),
    ];
    let mut judged = Judged {
        stream: stream.name.clone(),
        listener: promise.listener.clone(),
        delay_ns: stated.0,
        attained_ps: None,
        exact: false,
        not_covered: reasons.into_iter().flatten().next(),
    };
    if judged.not_covered.is_some() {
        return Ok(judged);
    }
    let facts = facts.ok_or_else(|| form(format!("the certificate has no pieces for {at}")))?;
    let mut total = Num::ZERO;
    let mut rest = &hops[..];
    for piece in &facts.pieces {
        let (row, behind) = rest.split_at_checked(piece.ports.len()).unwrap_or((&[], rest));
        if row.is_empty() || !row.iter().map(|hop| &port(hop).name).eq(&piece.ports) {
            return Err(form(format!("the pieces of {at} are not its route")));
        }
        let at = format!("{at}, {}", piece.ports.join(" "));
        let holds = |d: Num| model.piece_holds(number, row, d);
        ask("piece", &at, piece.delay_ps.num(), "ps", holds)?;
        let cables = row.iter().map(|hop| i128::from(port(hop).cable_ns).into());
        total = cables.fold(total + piece.delay_ps.num().over_up(NS.into()), |a, b| a + b);
        rest = behind;
    }
    let holds = total <= stated.num() && rest.is_empty();
    if !holds {
        return Err(fact("promise", &at, stated.num(), total, "ns"));
    }
    if let (Some(attained), Some(last)) = (&facts.attained, hops.last()) {
        let seen = Num(model.attained(&attained.schedule, number, *last));
        let (claimed, promised) = (attained.delay_ps.num(), stated.num() * NS.into());
        // What a schedule reaches cannot be promised less: then a rule would be wrong.
        let holds = claimed <= seen && claimed <= promised;
        if !holds {
            return Err(fact("schedule", &at, claimed, seen.min(promised), "ps"));
        }
        judged.attained_ps = Some(attained.delay_ps.0);
        // Nothing but the rounding of each piece to nanoseconds is between.
        let rounding = NS * facts.pieces.len() as i128;
        judged.exact = promised - claimed < rounding.into();
    }
    Ok(judged)
}
