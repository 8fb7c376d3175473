//! Certificates of networks with routers: the checker walks the tables by itself.

use crate::common;
use crate::routed_networks::{routed, switched, without_tables};

use common::network;
use common::networks::{random_description, random_line};
use rtwire_plan::{Network, Options, Plan, Transport, certify, plan, plan_file};
use rtwire_proof::{Verdict, check};
use rtwire_sim::random::Random;

fn certified(network: &Network) -> Plan {
    let options = Options { ignore_limits: true, ..Options::default() };
    certify(&plan(network, &options).unwrap()).unwrap()
}

fn random_network(seed: u64) -> Network {
    let mut random = Random::new(seed, 41);
    let text = match seed % 2 {
        0 => random_description(&mut random),
        _ => random_line(&mut random),
    };
    routed(&network(&text), &mut |limit| random.below(limit))
}

/// All is proved. The certificate of a network is refused for another one with other tables.
#[test]
fn promises_behind_routers_are_proved_from_their_tables() {
    let (mut proved, mut promises, mut others) = (0, 0, 0);
    for seed in 0..80 {
        let mut plan = certified(&random_network(seed));
        let verdict = check(plan_file::text(&plan).as_bytes());
        let verdict = verdict.unwrap_or_else(|refused| panic!("seed {seed}: {refused}"));
        // The same is proved of switches at which the queue of each stream is stated.
        if let Some(switches) = switched(&plan.network) {
            let other = check(plan_file::text(&certified(&switches)).as_bytes()).unwrap();
            let delays = |verdict: &Verdict| -> Vec<u64> {
                verdict.promises.iter().map(|one| one.delay_ns).collect()
            };
            assert_eq!(delays(&other), delays(&verdict), "seed {seed}");
        }
        proved += verdict.proved();
        promises += verdict.promises.len();
        without_tables(&mut plan.network);
        let other = plan_file::text(&plan_file::sealed(plan));
        others += u64::from(check(other.as_bytes()).is_err());
    }
    println!("{proved} of {promises} proved; {others} plans of other tables are refused");
    assert!(promises > 200 && proved == promises, "{proved} of {promises}");
    assert!(others > 15, "{others}");
}

/// A stream that no router forwards has no promise there.
#[test]
fn a_layer_2_stream_over_a_router_is_refused() {
    let mut seen = 0;
    for seed in 0..20 {
        let mut plan = certified(&random_network(seed));
        let routers = plan.network.switches.iter().filter(|it| it.routing.is_some());
        let routers: Vec<String> = routers.map(|it| it.name.clone()).collect();
        let mut streams = plan.network.streams.iter_mut();
        let passes = |route: &Vec<String>| route.iter().any(|node| routers.contains(node));
        let Some(stream) = streams.find(|it| it.routes.iter().any(passes)) else {
            continue;
        };
        stream.transport = Transport::Rtdip;
        let text = plan_file::text(&plan_file::sealed(plan));
        let refused = check(text.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("is no UDP: \""), "{refused}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}
