//! Certificates that the planner writes are accepted, for every kind of network and every method; for mechanisms
//! without a rule the verdict says so.

use crate::common;

use common::network;
use common::networks::{random_description, random_line, random_ring, random_shapers};
use rtwire_plan::network::FlowMeters;
use rtwire_plan::{
    Analysis, Contract, ContractKind, CutThrough, GateProfile, LatencyLimits, Network, Options,
    Ratio, SwitchPort, certify, plan, plan_file,
};
use rtwire_proof::{Refused, Verdict, check};
use rtwire_sim::random::Random;

fn checked(network: &Network, analysis: Analysis) -> Result<Verdict, Refused> {
    let options = Options { ignore_limits: true, analysis };
    let plan = certify(&plan(network, &options).unwrap()).unwrap();
    check(plan_file::text(&plan).as_bytes())
}

fn all(networks: u64, describe: impl Fn(&mut Random) -> String) -> (usize, usize) {
    let (mut proved, mut promises) = (0, 0);
    let mut failures = Vec::new();
    for seed in 1..=networks {
        let text = describe(&mut Random::new(seed, 0));
        let network = network(&text);
        for analysis in Analysis::ALL {
            match checked(&network, analysis) {
                Ok(verdict) => {
                    proved += verdict.proved();
                    promises += verdict.promises.len();
                }
                Err(refused) => failures.push(format!("seed {seed} {analysis:?}: {refused}")),
            }
        }
    }
    println!("{proved} of {promises} proved, {} refused", failures.len());
    assert!(
        failures.is_empty(),
        "{} of {} refused:\n{}",
        failures.len(),
        networks * 6,
        failures[..failures.len().min(12)].join("\n")
    );
    (proved, promises)
}

#[test]
fn trees_and_lines_are_proved() {
    let (proved, promises) = all(60, random_description);
    assert!(promises > 300 && proved == promises, "{proved} of {promises}");
}

/// With a random map of priorities at each node all is proved; the plan of another map is refused.
#[test]
fn maps_of_priorities_are_proved() {
    let (mut proved, mut promises, mut others) = (0, 0, 0);
    for seed in 1..=60 {
        let mut random = Random::new(seed, 0);
        let mut network = network(&random_description(&mut random));
        let mut map = |queues: u8| {
            let mut draw = || u8::try_from(random.below(u64::from(queues))).unwrap();
            Some(std::array::from_fn(|_| draw()))
        };
        network.hosts.iter_mut().for_each(|one| one.priority_map = map(one.queues));
        network.switches.iter_mut().for_each(|one| one.priority_map = map(one.queues));
        let verdict = checked(&network, Analysis::default()).unwrap();
        proved += verdict.proved();
        promises += verdict.promises.len();
        let options = Options { ignore_limits: true, ..Options::default() };
        let mut plan = certify(&plan(&network, &options).unwrap()).unwrap();
        plan.network.switches.iter_mut().for_each(|one| one.priority_map = None);
        let one = &plan_file::text(&plan_file::sealed(plan));
        others += usize::from(check(one.as_bytes()).is_err());
    }
    assert!(promises > 300 && proved == promises, "{proved} of {promises}");
    assert!(others > 20, "{others} plans of another map are refused");
}

#[test]
fn rings_are_proved() {
    let (proved, promises) = all(30, random_ring);
    assert!(promises > 100 && proved == promises, "{proved} of {promises}");
}

#[test]
fn rows_of_ports_are_proved() {
    let (proved, promises) = all(40, random_line);
    assert!(promises > 100 && proved == promises, "{proved} of {promises}");
}

#[test]
fn shapers_are_named_as_not_covered() {
    let (proved, promises) = all(30, random_shapers);
    assert!(proved < promises, "{proved} of {promises}");
}

/// A talker whose shaper is off keeps no contract: what shares a port with it is not proved.
#[test]
fn nothing_is_proved_beside_a_talker_whose_shaper_is_off() {
    let text = include_str!("../../../examples/five-nodes-unshaped.toml");
    let verdict = checked(&network(text), Analysis::ALL[0]).unwrap();
    let named = verdict.promises.iter().filter_map(|one| one.not_covered.as_deref());
    let named: Vec<&str> = named.collect();
    assert!(named.iter().any(|why| why.contains("whose shaper is off")), "{named:?}");
    assert!(verdict.proved() < verdict.promises.len());
}

/// For what a switch states of single ports, for cut-through, for flow meters, for cyclic streams, and for several frames in an interval there is no rule: no
/// promise is called proved.
#[test]
fn what_has_no_rule_is_told() {
    let changes: [fn(&mut Network); 5] = [
        |network| {
            network.schedule.cycle_ns = Some(20_000_000);
            for switch in &mut network.switches {
                (switch.queues, switch.priority_map) = (8, None);
                switch.gates = Some(GateProfile::unlimited());
            }
            for stream in &mut network.streams {
                (stream.cyclic, stream.pcp) = (true, 6);
            }
        },
        |network| {
            let meters = Some(FlowMeters { overhead_bytes: 0 });
            network.switches.iter_mut().for_each(|one| one.flow_meters = meters);
        },
        |network| {
            let cut = CutThrough::Possible;
            network.switches.iter_mut().for_each(|one| one.cut_through = cut);
        },
        |network| {
            let latency = Some(LatencyLimits { min_ns: 0, max_ns: 5_000 });
            let near = network.clone();
            for switch in &mut network.switches {
                let to = near.neighbours(&switch.name).next().map(str::to_owned);
                switch.ports.push(SwitchPort { to, latency, ..SwitchPort::default() });
            }
        },
        |network| {
            for stream in &mut network.streams {
                let bits = stream.wire_bits().times(Ratio::whole(2)).unwrap();
                let kind = ContractKind::Interval { interval_ns: 50_000_000, frames: 2 };
                let rate = bits.over(Ratio::from_ns(50_000_000)).unwrap();
                let (wire, zero) = (stream.wire_bytes, Ratio::ZERO);
                stream.contract = Contract::new(rate, wire, 0, 0, kind, zero).unwrap();
            }
        },
    ];
    for change in changes {
        let mut promises = 0;
        for seed in 1..=6 {
            let mut network = network(&random_description(&mut Random::new(seed, 0)));
            change(&mut network);
            assert_eq!(network.check(), Ok(()));
            let verdict = checked(&network, Analysis::default()).unwrap();
            assert_eq!(verdict.proved(), 0);
            promises += verdict.promises.len();
        }
        assert!(promises > 10);
    }
}
