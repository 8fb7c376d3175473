//! Tiny networks in which a built start alone attains the promise.

use rtwire_plan::{Options, plan, read};

use crate::{Model, PatternChoice, Report, Scenario, SearchOptions, Simulator, search};

/// Two switches in line. Links are of 100 Mbit/s.
fn line(streams: &[(&str, &str, &str, &str)]) -> String {
    let mut text = "[network]\nname = \"line\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n".to_owned();
    for name in ["s", "t"] {
        text += &format!("[[switch]]\nname = \"{name}\"\nbuffer = \"1 MB\"\nqueues = 2\n");
    }
    text += "[[link]]\nends = [\"s\", \"t\"]\n";
    for (host, at) in [
        ("a", "s"),
        ("b", "s"),
        ("c", "s"),
        ("d", "t"),
        ("y", "t"),
        ("z", "t"),
    ] {
        text += &format!("[[host]]\nname = \"{host}\"\n[[link]]\nends = [\"{host}\", \"{at}\"]\n");
    }
    for (number, (from, to, size, more)) in streams.iter().enumerate() {
        text += &format!(
            "[[stream]]\nname = \"f{number}\"\ntalker = \"{from}\"\nlisteners = [\"{to}\"]\nframe = \"{size} B\"\n\
             interval = \"20 ms\"\n{more}\n"
        );
    }
    text
}

/// Returns the promise of the first stream and the worst delay that a number of simulations finds, ps.
fn first(streams: &[(&str, &str, &str, &str)], simulations: u64) -> (u64, u64) {
    let network = read(&line(streams), "line.toml", &[]).unwrap();
    let plan = plan(&network, &Options::default()).unwrap();
    let model = Model::new(&network).unwrap();
    let mut simulator = Simulator::new(&model);
    let longest_ps = 100_000_000_000;
    let scenario = Scenario::new(&model, PatternChoice::Greedy, 1, longest_ps, 0);
    simulator.run(&scenario);
    let mut report = Report::new(&model, &simulator, &scenario, "greedy", &plan);
    let options = SearchOptions {
        simulations,
        seed: 1,
        longest_ps,
    };
    search(&model, &mut simulator, &plan, &options, &mut report, |_| {
        true
    });
    let seen = &report.streams[0];
    (
        seen.promised_delay_ns.unwrap() * 1_000,
        seen.worst_delay_ps.unwrap(),
    )
}

/// Promises of ports are whole nanoseconds.
fn attains(streams: &[(&str, &str, &str, &str)], simulations: u64) {
    let (promise_ps, seen_ps) = first(streams, simulations);
    assert!(
        seen_ps <= promise_ps && seen_ps + 2_000 >= promise_ps,
        "{seen_ps} of {promise_ps} ps"
    );
}

#[test]
fn frames_that_leave_earlier_come_at_the_front() {
    let streams = [
        ("a", "z", "64", ""),
        ("b", "y", "256", ""),
        ("b", "z", "512", ""),
        ("c", "z", "128", ""),
        ("d", "z", "256", ""),
    ];
    // The joins at two ports, in three rounds, and the first simulation: one start.
    attains(&streams, 7);
}

#[test]
fn one_lower_frame_is_under_way_at_a_port() {
    let (high, low) = ("priority = 7", "priority = 0");
    let streams = [
        ("a", "z", "64", high),
        ("b", "z", "512", high),
        ("d", "z", "256", high),
        ("c", "y", "1000", low),
        ("c", "y", "64", low),
        ("y", "z", "1500", low),
    ];
    attains(&streams, 40);
}

#[test]
fn the_same_seed_finds_the_same() {
    let streams = [
        ("a", "z", "64", ""),
        ("b", "z", "512", ""),
        ("d", "z", "256", ""),
    ];
    assert_eq!(first(&streams, 30), first(&streams, 30));
}
