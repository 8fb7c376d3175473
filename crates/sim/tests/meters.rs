//! Flow meters: what a talker that goes wrong may send, and that nobody else notices.

use rtwire_plan::{Options, Plan, plan, read};
use rtwire_sim::{Model, Outcome, PatternChoice, Report, Scenario, Simulator};

const MS: u64 = 1_000_000_000;
const EXAMPLE: &str = include_str!("../../../examples/flow-meters.toml");

fn planned(text: &str) -> Plan {
    let network = read(text, "meters.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
    plan(&network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Simulates a plan for 200 ms with talkers that go wrong.
fn played(plan: &Plan, babbling: &[&str], seed: u64) -> Report {
    let model = Model::with_plan(&plan.network, plan).unwrap();
    let choice = [
        PatternChoice::Mixed,
        PatternChoice::Greedy,
        PatternChoice::Periodic,
    ][usize::try_from(seed % 3).unwrap()];
    let mut scenario = Scenario::new(&model, choice, seed, 200 * MS, 0);
    scenario.babbling = babbling.iter().map(|it| model.flow(it).unwrap()).collect();
    let mut simulator = Simulator::new(&model);
    simulator.run(&scenario);
    Report::new(&model, &simulator, &scenario, choice.word(), plan)
}

#[test]
fn a_meter_takes_nothing_from_a_talker_that_keeps_its_contract() {
    let plan = planned(EXAMPLE);
    for seed in 0..60 {
        let report = played(&plan, &[], seed);
        assert_eq!(report.outcome, Outcome::Kept, "seed {seed}: {report:#?}");
        assert!(report.meters.iter().all(|it| it.frames_discarded == 0));
        // One for each stream and allowance, where its talker's link ends.
        assert_eq!(report.meters.len(), 4);
        assert!(report.meters.iter().all(|it| it.frames_passed > 0));
    }
}

#[test]
fn a_talker_that_goes_wrong_breaks_no_promise_of_others_behind_meters_and_many_without() {
    let guarded = planned(EXAMPLE);
    let unguarded = planned(&EXAMPLE.replace("flow-meters = \"on\"\n", ""));
    let mut broken = 0;
    for seed in 0..60 {
        for babbling in [&["pictures"][..], &["files"], &["pictures", "files"]] {
            let report = played(&guarded, babbling, seed);
            assert_eq!(report.outcome, Outcome::Kept, "seed {seed}: {report:#?}");
            assert_eq!(report.babbling, babbling);
            for meter in &report.meters {
                let wrong = babbling.contains(&meter.flow.as_str());
                let same_host = ["pictures", "files"].contains(&meter.flow.as_str());
                assert!(meter.frames_discarded > 0 || !wrong, "{meter:?}");
                assert!(meter.frames_discarded == 0 || same_host, "{meter:?}");
            }
            for stream in &report.streams {
                let of_camera = ["pictures", "files"].contains(&stream.name.as_str());
                assert_eq!(stream.unjudged, of_camera, "{stream:?}");
                assert!(of_camera || stream.frames_lost == 0, "{stream:?}");
            }
            let report = played(&unguarded, babbling, seed);
            broken += u32::from(report.outcome == Outcome::Broken);
        }
    }
    assert!(broken > 60, "the talker is too tame: {broken} of 180");
}

/// A meter that is shallower than the plan's takes frames from a talker that keeps its contract: so the plan's is no deeper than
/// needed, and the simulator notices.
#[test]
fn a_bucket_that_is_a_tenth_shallower_loses_frames() {
    let mut plan = planned(EXAMPLE);
    for meter in &mut plan.meters {
        meter.committed_burst_bytes -= meter.committed_burst_bytes / 10 + 1;
    }
    let lost = (0..30).any(|seed| played(&plan, &[], seed).outcome == Outcome::Broken);
    assert!(lost);
}

#[test]
fn the_meters_of_a_network_follow_from_its_numbers() {
    let text = "[network]\nname = \"one\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\nclock-drift = \"0 ppm\"\n\
        [[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\nflow-meters = \"on\"\n\
        [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"b\", \"s\"]\n\
        [[stream]]\nname = \"x\"\ntalker = \"a\"\nlisteners = [\"b\"]\nframe = \"976 B\"\ninterval = \"1 ms\"\ntick-error = \"0 us\"\n";
    // 976 B and 24 B are 1000 B on the wire; with 4 B the meter counts 980 B of them. The host adds no jitter to its only stream.
    let meters = planned(text).meters;
    let [meter] = &meters[..] else {
        panic!("{meters:?}");
    };
    assert_eq!(meter.committed_rate_bps, 7_840_000);
    assert_eq!(meter.committed_burst_bytes, 980);
    assert_eq!(meter.longest_frame_bytes, 976);
    // All of the wire counted, by clocks that are off by 100 ppm: the talker's, and twice the meter's.
    let text = text
        .replace("flow-meters", "meter-overhead = \"24 B\"\nflow-meters")
        .replace("\"0 ppm\"", "\"100 ppm\"");
    let meters = planned(&text).meters;
    // 8 Mbit/s times 1.0001^3, rounded up.
    assert_eq!(meters[0].committed_rate_bps, 8_002_401);
    assert_eq!(meters[0].committed_burst_bytes, 1_000);
}
