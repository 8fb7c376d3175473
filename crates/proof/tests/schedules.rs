//! Schedules in certificates: the checker plays them as the simulator does, refuses what a network may not show, and
//! refuses a delay that the schedule does not reach.

use crate::common;

use common::networks::{random_description, random_ring};
use common::{network, promises};
use rtwire_plan::certificate::{Attained, Schedule};
use rtwire_plan::{Network, Plan, certify, plan_file};
use rtwire_proof::{Fact, Refused, Stage, check};
use rtwire_sim::random::Random;
use rtwire_sim::{Model, PatternChoice, Report, Scenario, Simulator};

/// Returns a random network without latencies, in which frames take whole picoseconds.
fn plain(seed: u64) -> Network {
    let mut random = Random::new(seed, 5);
    let text =
        if seed % 2 == 0 { random_description(&mut random) } else { random_ring(&mut random) };
    let lines = text.lines().filter(|line| !line.starts_with("latency"));
    let text: Vec<String> = lines.map(|line| line.replace("30 Mbit/s", "50 Mbit/s")).collect();
    network(&text.join("\n"))
}

fn stage(plan: &Plan) -> Stage {
    Stage::of(plan_file::text(plan).as_bytes()).unwrap()
}

/// Releases of a random scenario, by the names of the certificate.
fn frames(
    network: &Network,
    simulator: &mut Simulator<'_>,
    scenario: &Scenario,
) -> Vec<(String, u64)> {
    let streams = network.streams.iter().map(|stream| stream.name.clone());
    let others = network.best_effort.iter().map(|one| format!("best-effort {}", one.name));
    let names: Vec<String> = streams.chain(others).collect();
    let sent = simulator.releases(scenario);
    sent.into_iter().map(|(flow, at)| (names[flow].clone(), at)).collect()
}

#[test]
fn the_checker_plays_as_the_simulator_does() {
    let (mut same, mut played, mut all) = (0, 0, 0);
    for seed in 1..=24 {
        let network = plain(seed);
        let plan = promises(&network);
        let model = Model::new(&network).unwrap();
        let mut simulator = Simulator::new(&model);
        let scenario = Scenario::new(&model, PatternChoice::Periodic, seed, 20_000_000_000, 0);
        simulator.run(&scenario);
        let report = Report::new(&model, &simulator, &scenario, "periodic", &plan);
        let frames = frames(&network, &mut simulator, &scenario);
        let stage = stage(&plan);
        for stream in report.streams.iter().filter(|stream| !stream.best_effort) {
            let Some(seen) = stream.worst_delay_ps else {
                continue;
            };
            all += 1;
            // Bursts of random frames sizes are played as whole frames, which may break a contract: not played then.
            let Some(own) = stage.attained(&stream.name, &stream.listener, &frames, &[]) else {
                continue;
            };
            played += 1;
            // At equal times frames may be chosen in another order.
            same += u64::from(own == seen);
            if let Some(promised) = stream.promised_delay_ns {
                assert!(own <= promised * 1_000, "seed {seed}: {} {own}", stream.name);
            }
        }
    }
    println!("{same} of {played} as in the simulator, of {all}");
    assert!(played * 2 > all && same * 10 > played * 8, "{same} {played} {all}");
}

const TWO: &str = "[network]\nname = \"n\"\n[defaults]\ntick-error = \"0 us\"\nlink-rate = \"100 Mbit/s\"\n[[switch]]\nname = \"s\"\n\
    latency = { min = \"1 us\", max = \"3 us\" }\nbuffer = \"1 MB\"\n[[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[host]]\nname = \"C\"\n\
    [[link]]\nends = [\"A\", \"s\"]\n[[link]]\nends = [\"B\", \"s\"]\n[[link]]\nends = [\"C\", \"s\"]\n\
    [[stream]]\nname = \"a\"\ntalker = \"A\"\nlisteners = [\"C\"]\nframe = \"101 B\"\ninterval = \"1 ms\"\n\
    [[stream]]\nname = \"b\"\ntalker = \"B\"\nlisteners = [\"C\"]\nframe = \"101 B\"\ninterval = \"1 ms\"\n";

fn with(
    frames: &[(&str, u64)],
    meets: &[(&str, u64)],
    delay_ps: u64,
) -> Result<(Option<u64>, bool), Refused> {
    let named =
        |list: &[(&str, u64)]| list.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
    let mut plan = certify(&promises(&network(TWO))).unwrap();
    let facts = &mut plan.certificate.as_mut().unwrap().promises[0];
    facts.attained = Some(Attained {
        delay_ps,
        schedule: Schedule { frames: named(frames), meets: named(meets) },
    });
    let verdict = check(plan_file::text(&plan).as_bytes())?;
    Ok((verdict.promises[0].attained_ps, verdict.promises[0].exact))
}

/// A frame of 125 bytes takes 10 us on each link; both meet in the queue: 10 + 3 + 10 + 10 us.
#[test]
fn a_schedule_that_attains_a_promise_makes_it_exact() {
    let both = [("a", 1_000_000), ("b", 1_000_000)];
    assert_eq!(with(&both, &[], 33_000_000), Ok((Some(33_000_000), true)));
    // One picosecond more is not reached.
    assert!(matches!(
        with(&both, &[], 33_000_001),
        Err(Refused::Fact(Fact { rule: "schedule", .. }))
    ));
    // Alone it takes less, and that is no exact promise.
    assert_eq!(with(&both[..1], &[], 23_000_000), Ok((Some(23_000_000), false)));
    assert!(with(&both[..1], &[], 23_000_001).is_err());
    // Released later, `b` has the least latency, and still is there with `a`.
    let late = [("a", 1_000_000), ("b", 3_000_000)];
    assert_eq!(with(&late, &[("s>C", 14_000_000)], 33_000_000), Ok((Some(33_000_000), true)));
    assert!(with(&late, &[], 33_000_000).is_err());
}

#[test]
fn a_schedule_outside_of_a_contract_or_of_the_network_is_refused() {
    // Two frames of `b` within its interval.
    assert!(with(&[("a", 0), ("b", 0), ("b", 999_999_999)], &[], 33_000_000).is_err());
    assert!(with(&[("a", 0), ("b", 0), ("b", 1_000_000_000)], &[], 33_000_000).is_ok());
    assert!(with(&[("a", 0), ("x", 0)], &[], 23_000_000).is_err());
    assert!(with(&[("a", 0)], &[("s>X", 0)], 23_000_000).is_err());
    // No frame of the stream at all.
    assert!(with(&[("b", 0)], &[], 1).is_err());
}
