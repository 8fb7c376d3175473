//! Redundant streams behind their recovery function, with whole links and broken ones.

use std::fmt::Write as _;

use rtwire_plan::{Network, Options, Plan, plan, read};
use rtwire_sim::random::Random;
use rtwire_sim::{Break, Model, Outcome, PatternChoice, Report, Scenario, Simulator};

use super::common::pick;

const MS: u64 = 1_000_000_000;

/// A ring of switches with redundant streams over it, one of them launched at times, and others.
fn random_ring(random: &mut Random) -> String {
    let count = 3 + random.below(4);
    let preempts = random.once_in(4);
    let mut text = String::from(
        "[network]\nname = \"ring\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\nclock-error = \"1 us\"\n",
    );
    for at in 0..count {
        let latency = random.below(40);
        let more = if preempts {
            "preemptable = [0, 1, 2, 3]"
        } else {
            "gates = \"unlimited\""
        };
        let longest = pick(random, &[1_000, 300_000, 2_000_000]);
        let cable = random.below(longest);
        writeln!(
            text,
            "[[switch]]\nname = \"s{at}\"\nbuffer = \"100 MB\"\nqueues = 8\nlatency = \"{latency} us\"\n{more}\n\
             [[host]]\nname = \"h{at}\"\n[[link]]\nends = [\"h{at}\", \"s{at}\"]\n\
             [[link]]\nends = [\"s{at}\", \"s{}\"]\ncable-delay = \"{cable} ns\"",
            (at + 1) % count
        )
        .unwrap();
    }
    for stream in 0..3 + random.below(4) {
        let from = random.below(count);
        let to = (from + 1 + random.below(count - 1)) % count;
        let redundancy = if stream < 3 { "disjoint" } else { "none" };
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{from}\"\nlisteners = [\"h{to}\"]\n\
             frame = \"{} B\"\nredundancy = \"{redundancy}\"",
            60 + random.below(400)
        )
        .unwrap();
        if stream == 0 && !preempts {
            writeln!(
                text,
                "priority = 7\nschedule = \"time-triggered\"\ninterval = \"1 ms\""
            )
            .unwrap();
            continue;
        }
        writeln!(text, "priority = {}", random.below(7)).unwrap();
        if random.once_in(2) {
            writeln!(
                text,
                "interval = \"{} us\"\ntick-error = \"{} us\"",
                400 + random.below(2_000),
                pick(random, &[0, 20, 150])
            )
            .unwrap();
        } else {
            writeln!(
                text,
                "rate = \"{} kbit/s\"\nburst = \"{} B\"",
                200 + random.below(2_000),
                600 + random.below(3_000)
            )
            .unwrap();
        }
    }
    text
}

fn planned(text: &str) -> (Network, Plan) {
    let network = read(text, "ring.toml", &[]).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
    let options = Options {
        ignore_limits: true,
        ..Options::default()
    };
    let plan = plan(&network, &options).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    (network, plan)
}

/// Returns both directions of a link between switches on the way of a stream.
fn break_of(
    model: &Model,
    plan: &Plan,
    name: &str,
    times: [u64; 2],
    random: &mut Random,
) -> Vec<Break> {
    let stream = plan.streams.iter().find(|it| it.name == name).unwrap();
    let route = &stream.promises[0].route;
    let at = 1 + usize::try_from(random.below(route.len() as u64 - 3)).unwrap();
    let ports = model.link_ports(&route[at], &route[at + 1]).unwrap();
    let [from_ps, until_ps] = times;
    ports
        .map(|port| Break {
            port,
            from_ps,
            until_ps,
        })
        .to_vec()
}

fn play(model: &Model, plan: &Plan, scenario: &Scenario) -> Report {
    let mut simulator = Simulator::new(model);
    simulator.run(scenario);
    Report::new(model, &simulator, scenario, "mixed", plan)
}

#[test]
fn recovered_streams_survive_either_way_in_random_rings() {
    let (mut recovered, mut cut, mut rogue, mut order, mut launched) = (0, 0, 0, 0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed, 5);
        let text = random_ring(&mut random);
        let (network, plan) = planned(&text);
        let model = Model::with_plan(&network, &plan).unwrap();
        for choice in [
            PatternChoice::Greedy,
            PatternChoice::Mixed,
            PatternChoice::Random,
        ] {
            let names: Vec<[String; 2]> = plan
                .streams
                .iter()
                .filter_map(|it| it.recovery.as_ref())
                .map(|it| it.ways.clone().map(|way| way.stream))
                .collect();
            launched += plan
                .streams
                .iter()
                .filter(|it| it.recovery.is_some() && it.launch.is_some())
                .count();
            let whole = Scenario::new(&model, choice, seed, 60 * MS, 0);
            let mut scenarios = vec![whole.clone()];
            let [one, other] = &names[usize::try_from(random.below(names.len() as u64)).unwrap()];
            let planned = plan.streams.iter().find(|it| it.name == *one).unwrap();
            let delay_ps = planned.recovery.as_ref().unwrap().delay_ns * 1_000;
            for [early, late] in [[one, other], [other, one]] {
                let begin = random.below(10 * MS);
                let mut breaks = break_of(&model, &plan, early, [begin, u64::MAX], &mut random);
                scenarios.push(Scenario {
                    breaks: breaks.clone(),
                    ..whole.clone()
                });
                // Repaired, and the other way broken once nothing of before is on it.
                let repaired = begin + random.below(5 * MS);
                for part in &mut breaks {
                    part.until_ps = repaired;
                }
                breaks.extend(break_of(
                    &model,
                    &plan,
                    late,
                    [repaired + delay_ps, u64::MAX],
                    &mut random,
                ));
                scenarios.push(Scenario {
                    breaks,
                    ..whole.clone()
                });
            }
            for scenario in &scenarios {
                let report = play(&model, &plan, scenario);
                // Of the streams that cross the broken links only that one has a way that is whole for sure.
                for stream in &report.recovered {
                    let sure = stream.stream == *one || scenario.breaks.is_empty();
                    let told = format!(
                        "seed {seed}, {choice:?}: {stream:?}\n{:?}\n{text}",
                        scenario.breaks
                    );
                    assert!(!sure || !stream.violated, "{told}");
                    assert_eq!(stream.frames_twice, 0, "{told}");
                    assert!(
                        stream.worst_delay_ps.unwrap_or(0) <= stream.promised_delay_ns * 1_000,
                        "{told}"
                    );
                    recovered += stream.frames_recovered;
                    rogue += stream.frames_rogue;
                    order += stream.frames_out_of_order;
                }
                for stream in &report.streams {
                    assert!(!stream.violated, "seed {seed}: {stream:?}\n{text}");
                    assert!(
                        stream.frames_lost == stream.frames_cut,
                        "seed {seed}: {stream:?}\n{text}"
                    );
                    cut += stream.frames_cut;
                }
                ways_are_within(&model, &plan, scenario, &text);
            }
        }
    }
    println!(
        "{recovered} frames recovered, {cut} copies cut, {order} out of order, {rogue} out of the window, {launched} launched"
    );
    assert!(recovered > 100_000 && cut > 20_000 && order > 100 && launched > 20);
}

/// No frame by a way is sooner than the plan says. (A launched copy's delay counts from its own launch.)
fn ways_are_within(model: &Model, plan: &Plan, scenario: &Scenario, text: &str) {
    let mut simulator = Simulator::new(model);
    simulator.run(scenario);
    let ways = plan.streams.iter().filter(|it| it.launch.is_none());
    for way in ways
        .filter_map(|it| it.recovery.as_ref())
        .flat_map(|it| &it.ways)
    {
        let flow = plan
            .streams
            .iter()
            .position(|it| it.name == way.stream)
            .unwrap();
        // Each stream before has one listener.
        let seen = &simulator.listeners()[flow];
        assert!(
            seen.judged == 0 || seen.least_ps >= way.least_delay_ns * 1_000,
            "{seen:?}, {way:?}\n{text}"
        );
    }
}

/// A ring whose far way is 3 ms longer, and the breaks after which a history of one number less has lost the near way.
fn far_ring() -> (Network, Plan) {
    let mut text = String::from(
        "[network]\nname = \"ring\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n",
    );
    for at in 0..3 {
        writeln!(
            text,
            "[[switch]]\nname = \"s{at}\"\nbuffer = \"1 MB\"\nlatency = \"1 us\"\n[[host]]\nname = \"h{at}\"\n\
             [[link]]\nends = [\"h{at}\", \"s{at}\"]\n\
             [[link]]\nends = [\"s{at}\", \"s{}\"]\ncable-delay = \"{} us\"",
            (at + 1) % 3,
            if at == 1 { 3_000 } else { 0 }
        )
        .unwrap();
    }
    text += "[[stream]]\nname = \"twice\"\ntalker = \"h0\"\nlisteners = [\"h1\"]\nframe = \"60 B\"\n\
             interval = \"1 ms\"\nredundancy = \"disjoint\"\n";
    planned(&text)
}

/// Both verdicts: the planned function is good, one with less history, one with too short a timer, and a link that both
/// ways share are not.
#[test]
fn a_recovery_that_is_too_short_is_found() {
    let (network, plan) = far_ring();
    let recovery = plan.streams[0].recovery.clone().unwrap();
    assert_eq!(recovery.history_length, 5);
    let report = |change: &dyn Fn(&mut Plan), breaks: &[(&str, &str, u64, u64)]| {
        let mut plan = plan.clone();
        change(&mut plan);
        let model = Model::with_plan(&network, &plan).unwrap();
        let mut scenario = Scenario::new(&model, PatternChoice::Greedy, 1, 30 * MS, 0);
        for (one, other, from_ps, until_ps) in breaks {
            for port in model.link_ports(one, other).unwrap() {
                scenario.breaks.push(Break {
                    port,
                    from_ps: *from_ps,
                    until_ps: *until_ps,
                });
            }
        }
        let report = play(&model, &plan, &scenario);
        (report.outcome, report.recovered[0].clone())
    };
    let breaks = [
        ("s0", "s1", 5 * MS + MS / 2, 10 * MS + MS / 2),
        ("s2", "s0", 20 * MS, u64::MAX),
    ];
    let (outcome, stream) = report(&|_| {}, &breaks);
    assert_eq!(
        (outcome, stream.frames_lost, stream.frames_sent),
        (Outcome::Kept, 0, 31)
    );
    assert_eq!(stream.frames_waiting, recovery.resequencing_frames);
    let shorter = |plan: &mut Plan| plan.streams[0].recovery.as_mut().unwrap().history_length -= 1;
    let (outcome, stream) = report(&shorter, &breaks);
    assert_eq!(outcome, Outcome::Broken);
    assert!(
        stream.frames_lost > 5 && stream.frames_rogue > 0,
        "{stream:?}"
    );
    // The timer's time is below the time between frames and the lag.
    let sooner = |plan: &mut Plan| plan.streams[0].recovery.as_mut().unwrap().reset_ms = 10;
    let (outcome, stream) = report(&sooner, &[]);
    assert_eq!(outcome, Outcome::Broken);
    assert!(stream.frames_twice > 0, "{stream:?}");
    let (outcome, stream) = report(&|_| {}, &[("h0", "s0", 10 * MS, u64::MAX)]);
    assert_eq!(outcome, Outcome::Broken);
    assert_eq!(stream.frames_lost, 21, "{stream:?}");
    // Less promised than there is.
    let faster = |plan: &mut Plan| plan.streams[0].recovery.as_mut().unwrap().delay_ns = 3_000_000;
    let (outcome, _) = report(&faster, &[("s0", "s1", 0, u64::MAX)]);
    assert_eq!(outcome, Outcome::Broken);
    let fewer = |plan: &mut Plan| {
        plan.streams[0]
            .recovery
            .as_mut()
            .unwrap()
            .resequencing_frames -= 1
    };
    assert_eq!(report(&fewer, &breaks).0, Outcome::Broken);
}

/// A frame is lost if any part of it is on a broken link, and only then.
#[test]
fn a_break_takes_what_is_on_the_link() {
    let (network, plan) = far_ring();
    let model = Model::with_plan(&network, &plan).unwrap();
    let lost = |from_ps: u64, until_ps: u64| {
        let mut scenario = Scenario::new(&model, PatternChoice::Greedy, 1, MS / 2, 0);
        for lateness in &mut scenario.lateness {
            *lateness = rtwire_sim::Lateness::Prompt;
        }
        let [port, _] = model.link_ports("s0", "s1").unwrap();
        scenario.breaks.push(Break {
            port,
            from_ps,
            until_ps,
        });
        let report = play(&model, &plan, &scenario);
        assert_eq!(report.recovered[0].frames_lost, 0);
        report.streams[0].frames_cut
    };
    // 84 bytes of wire: 6.72 us on the talker's link, then 6.72 us on this one. No latency, because ports are prompt.
    let (begin, end) = (6_720_000, 2 * 6_720_000);
    assert_eq!(lost(0, begin), 0);
    assert_eq!(lost(0, begin + 1), 1);
    assert_eq!(lost(begin + 1_000, begin + 2_000), 1);
    assert_eq!(lost(end, end + 1), 1);
    assert_eq!(lost(end + 1, u64::MAX), 0);
}
