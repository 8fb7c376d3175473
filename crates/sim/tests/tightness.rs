//! Near the bounds: the published experiment with its known worst packet schedule.

use crate::common;
use crate::searched;

use rtwire_plan::{Network, read};
use rtwire_sim::Report;

const MS: u64 = 1_000_000_000;

/// As in the fixture's packet simulation: bursts r T_s + M on the wire (1538 B), no tick error, no switch latency.
fn experiment(interval: &str) -> Network {
    let set = [
        ("shaping-interval".to_owned(), interval.to_owned()),
        ("tick-error".to_owned(), "0 us".to_owned()),
    ];
    let source = include_str!("../../../examples/five-nodes.toml");
    let source = source.replace("latency = \"10 us\"", "latency = \"0 us\"");
    read(&source, "five.toml", &set).unwrap()
}

fn searched(network: &Network, simulations: u64, longest_ps: u64) -> Report {
    searched::searched(network, &common::promises(network), simulations, longest_ps)
}

#[test]
fn the_single_switch_is_nearly_reached() {
    let fixtures: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/captures/bounds.json")).unwrap();
    let exact = &fixtures["loeser_haertig"]["packet_exact_us"];
    for (interval, key) in [
        ("10 ms", "ts10ms"),
        ("1 ms", "ts1ms"),
        ("100 us", "ts100us"),
    ] {
        let network = experiment(interval);
        let report = searched(&network, 600, 100 * MS);
        let port = report
            .ports
            .iter()
            .find(|port| port.node == "s1" && port.port == "B")
            .unwrap();
        let seen_us = port.classes[0].worst_delay_ps as f64 / 1e6;
        let bound_us = port.classes[0].promised_delay_ns.unwrap() as f64 / 1e3;
        let known_us = exact[key][1].as_f64().unwrap();
        let used = report
            .streams
            .iter()
            .filter_map(|stream| stream.used_permille)
            .max();
        println!(
            "{interval}: {seen_us} us seen at the port, {known_us} us published, {bound_us} us bound; \
             {used:?} thousandths of a promise"
        );
        assert!(seen_us <= bound_us, "{interval}");
        assert!(
            seen_us >= 0.9 * known_us,
            "{interval}: {seen_us} of {known_us} us"
        );
        assert!(!report.streams.iter().any(|stream| stream.violated));
    }
}

/// A line of six switches. One stream uses all of it, and others share two of its ports each. At each port there is
/// one lower frame, which delays most if its transmission begins just before the others arrive.
fn blocked_line() -> String {
    let mut text = "[network]\nname = \"blocked\"\n[defaults]\ntick-error = \"0 us\"\n".to_owned();
    for at in 0..=5 {
        text += &format!("[[switch]]\nname = \"s{at}\"\nbuffer = \"1 MB\"\nqueues = 2\n");
        if at > 0 {
            let ends = format!("[\"s{}\", \"s{at}\"]", at - 1);
            text += &format!(
                "[[link]]\nends = {ends}\nrate = \"100 Mbit/s\"\ncable-delay = \"5 us\"\n"
            );
        }
    }
    let mut stream = |name: &str, from: u64, to: u64, interval: &str, priority: u8| {
        for (end, at) in [("t", from), ("l", to)] {
            text += &format!(
                "[[host]]\nname = \"{end}{name}\"\n[[link]]\nends = [\"{end}{name}\", \"s{at}\"]\nrate = \"1000 Gbit/s\"\n"
            );
        }
        text += &format!(
            "[[stream]]\nname = \"{name}\"\ntalker = \"t{name}\"\nlisteners = [\"l{name}\"]\nframe = \"1518 B\"\n\
             vlan = 1\ninterval = \"{interval}\"\npriority = {priority}\n"
        );
    };
    stream("f", 0, 5, "616800 ns", 7);
    stream("a", 0, 2, "616800 ns", 7);
    for at in 1..4 {
        stream(&format!("b{at}"), at, at + 2, "616800 ns", 7);
    }
    for at in 0..5 {
        stream(&format!("low{at}"), at, at + 1, "100 ms", 0);
    }
    text
}

#[test]
fn a_lower_frame_at_each_port_of_a_line_delays_by_as_much_as_is_promised() {
    let network = read(&blocked_line(), "blocked.toml", &[]).unwrap();
    let report = searched(&network, 3_000, 20 * MS);
    let along = &report.streams[0];
    let (seen_ps, promised_ps) = (
        along.worst_delay_ps.unwrap(),
        along.promised_delay_ns.unwrap() * 1_000,
    );
    // The promise of each port is rounded to whole nanoseconds.
    assert!(
        seen_ps <= promised_ps && seen_ps + 7_000 >= promised_ps,
        "{seen_ps} {promised_ps}"
    );
}
