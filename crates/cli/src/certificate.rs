//! `rtwire plan --certificate`: the facts on which promises rest, and schedules that attain them.

use std::collections::{BTreeMap, BTreeSet};

use rtwire_plan::certificate::{Attained, PromiseFacts, Schedule};
use rtwire_plan::{Plan, certify, plan_file};
use rtwire_proof::{Refused, Stage, Verdict, check};
use rtwire_sim::{
    Lateness, Model, PatternChoice, Report, Scenario, SearchOptions, Simulator, Witness, search,
};

/// The longest simulation of a search, ps.
const LONGEST_PS: u64 = 1_000_000_000_000;

/// Adds the certificate to a plan, with schedules from a search of this many simulations, and has it checked.
pub(crate) fn certified(plan: &Plan, simulations: Option<u64>) -> Result<(Plan, Verdict), String> {
    let mut plan = certify(plan).map_err(|overflow| overflow.to_string())?;
    if let Some(simulations) = simulations {
        let witnesses = attain(&mut plan, simulations);
        witnesses.map_err(|fault| format!("--search: {fault}"))?;
        plan = plan_file::sealed(plan);
    }
    match check(plan_file::text(&plan).as_bytes()) {
        Ok(verdict) => Ok((plan, verdict)),
        Err(refused) => Err(format!(
            "the checker refuses what the planner wrote, so nothing was written: {refused}"
        )),
    }
}

/// Searches for schedules, and enters them as the checker plays them.
fn attain(plan: &mut Plan, simulations: u64) -> Result<(), String> {
    let stage = Stage::of(plan_file::text(plan).as_bytes());
    let stage = stage.map_err(|refused: Refused| refused.to_string())?;
    let model = Model::with_plan(&plan.network, plan).map_err(|fault| fault.to_string())?;
    let mut simulator = Simulator::new(&model);
    let first = Scenario::new(&model, PatternChoice::Greedy, 1, LONGEST_PS / 100, 0);
    simulator.run(&first);
    let mut report = Report::new(&model, &simulator, &first, "greedy", plan);
    let options = SearchOptions {
        simulations,
        seed: 1,
        longest_ps: LONGEST_PS,
    };
    search(&model, &mut simulator, plan, &options, &mut report, |_| {
        true
    });
    let network = &plan.network;
    let streams = network.streams.iter().map(|stream| stream.name.clone());
    let others = network.best_effort.iter();
    let others = others.map(|allowance| format!("best-effort {}", allowance.name));
    let flows: Vec<String> = streams.chain(others).collect();
    let copies = network.streams.iter().filter_map(|stream| {
        let first = stream.copy_of.clone()?;
        Some((stream.name.clone(), first))
    });
    let copies: BTreeMap<String, String> = copies.collect();
    let ports = plan.ports.iter();
    let ports: Vec<String> = ports
        .map(|port| format!("{}>{}", port.node, port.port))
        .collect();
    let facts = plan.certificate.iter_mut().flat_map(|it| &mut it.promises);
    for facts in facts {
        let found = report
            .witnesses
            .iter()
            .find(|one| one.stream == facts.stream && one.listener == facts.listener);
        if let Some(witness) = found {
            let sent = simulator.releases(&witness.scenario);
            let frames = sent.into_iter().filter_map(|(flow, at_ps)| {
                let name = flows.get(flow)?;
                Some((name.clone(), at_ps))
            });
            let (frames, meets) = (frames.collect(), meets(witness, &ports));
            facts.attained = played(&stage, facts, &copies, frames, meets);
        }
    }
    Ok(())
}

/// Returns the ports where the frames of a scenario meet.
fn meets(witness: &Witness, ports: &[String]) -> Vec<(String, u64)> {
    let ports = witness.scenario.lateness.iter().zip(ports);
    let meets = ports.filter_map(|(lateness, port)| match lateness {
        Lateness::Gather { at_ps } => Some((port.clone(), *at_ps)),
        Lateness::Prompt => Some((port.clone(), 0)),
        _ => None,
    });
    meets.collect()
}

/// Plays a schedule as the checker does, and removes the frames and meetings that it does not need.
///
/// Both copies of a frame are removed together, because a talker sends none without the other. `copies` has the first
/// stream of each second copy.
fn played(
    stage: &Stage,
    facts: &PromiseFacts,
    copies: &BTreeMap<String, String>,
    mut frames: Vec<(String, u64)>,
    mut meets: Vec<(String, u64)>,
) -> Option<Attained> {
    let play = |frames: &[(String, u64)], meets: &[(String, u64)]| {
        stage.attained(&facts.stream, &facts.listener, frames, meets)
    };
    frames.sort_by_key(|frame| frame.1);
    let delay_ps = play(&frames, &meets)?;
    let enough = |frames: &[(String, u64)], meets: &[(String, u64)]| {
        play(frames, meets).is_some_and(|seen| seen >= delay_ps)
    };
    let sent = |(name, at_ps): &(String, u64)| (copies.get(name).unwrap_or(name).clone(), *at_ps);
    let mut known = BTreeSet::new();
    let releases = frames.iter().map(sent);
    let mut releases: Vec<_> = releases.filter(|one| known.insert(one.clone())).collect();
    let mut share = releases.len().div_ceil(2);
    while share > 0 {
        let mut at = 0;
        while at < releases.len() {
            let end = (at + share).min(releases.len());
            let less: BTreeSet<_> = releases[at..end].iter().collect();
            let fewer = frames.iter().filter(|frame| !less.contains(&sent(frame)));
            let fewer: Vec<_> = fewer.cloned().collect();
            if enough(&fewer, &meets) {
                frames = fewer;
                releases.drain(at..end);
            } else {
                at += share;
            }
        }
        share /= 2;
    }
    let mut at = 0;
    while at < meets.len() {
        let mut fewer = meets.clone();
        fewer.remove(at);
        if enough(&frames, &fewer) {
            meets = fewer;
        } else {
            at += 1;
        }
    }
    Some(Attained {
        delay_ps,
        schedule: Schedule { frames, meets },
    })
}
