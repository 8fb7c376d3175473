//! The simulator's search as referee: no schedule that it finds exceeds an accepted promise or an accepted delay of a
//! port.

use crate::common;
use crate::searched;

use common::networks::{random_description, random_line, random_ring};
use common::{network, promises};
use rtwire_plan::{certify, plan_file};
use rtwire_sim::random::Random;

#[test]
fn no_found_schedule_exceeds_an_accepted_fact() {
    let (mut compared, mut near) = (0, 0);
    for seed in 1..=30 {
        let mut random = Random::new(seed, 3);
        let text = match seed % 3 {
            0 => random_description(&mut random),
            1 => random_line(&mut random),
            _ => random_ring(&mut random),
        };
        let network = network(&text);
        let plan = certify(&promises(&network)).unwrap();
        let verdict = rtwire_proof::check(plan_file::text(&plan).as_bytes()).unwrap();
        let report = searched::searched(&network, &plan, 60, 50_000_000_000);
        for judged in verdict.promises.iter().filter(|one| one.not_covered.is_none()) {
            let seen = report
                .streams
                .iter()
                .find(|stream| stream.name == judged.stream && stream.listener == judged.listener);
            let Some(worst) = seen.and_then(|stream| stream.worst_delay_ps) else {
                continue;
            };
            let promised = judged.delay_ns * 1_000;
            assert!(worst <= promised, "seed {seed}: {judged:?} {worst} ps seen");
            compared += 1;
            near += u64::from(worst * 10 >= promised * 9);
        }
        let facts = &plan.certificate.as_ref().unwrap().ports;
        for port in &report.ports {
            let name = format!("{}>{}", port.node, port.port);
            let Some(facts) = facts.iter().find(|facts| facts.port == name) else {
                continue;
            };
            for class in &port.classes {
                let claimed = facts.classes.iter().find(|one| one.class == class.class);
                if let Some(claimed) = claimed.and_then(|one| one.delay_ps) {
                    assert!(class.worst_delay_ps <= claimed, "seed {seed}: {name} {class:?}");
                    compared += 1;
                }
            }
        }
    }
    println!("{compared} facts compared, {near} promises used to 90 %");
    assert!(compared > 300 && near > 20, "{compared} {near}");
}
