//! Cyclic streams: what they need, what may not be beside them, and that plans' files are held to the same rules.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rtwire_describe::{Network, PortShaper, ShaperKind, read};

const GOOD: &str = r#"[network]
name = "t"
[defaults]
link-rate = "1 Gbit/s"
[schedule]
cycle = "250 us"
[[switch]]
name = "s"
buffer = "1 MB"
queues = 4
gates = "unlimited"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "s"]
[[link]]
ends = ["s", "B"]
[[stream]]
name = "x"
talker = "A"
listeners = ["B"]
frame = "100 B"
interval = "1 ms"
priority = 6
schedule = "cyclic"
jitter = "1 ms"
[[stream]]
name = "y"
talker = "A"
listeners = ["B"]
frame = "100 B"
interval = "1 ms"
priority = 2
[[best-effort]]
name = "office"
host = "A"
to = ["B"]
rate = "1 Mbit/s"
"#;

fn described(from: &str, to: &str) -> Result<Network, String> {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    read(&text, "t.toml", &[]).map_err(|faults| faults.to_string())
}

#[test]
fn a_network_with_cyclic_streams_is_read() {
    let network = described("", "").unwrap();
    assert!(network.has_cyclic_streams());
    assert_eq!(network.schedule.cycle_ns, Some(250_000));
    // Of four queues the two most urgent ones; for even cycles the highest.
    assert_eq!(network.cyclic_queues("s"), Some([3, 2]));
    let told = network.without_cyclic_streams("this has none").unwrap_err();
    assert!(told.contains("stream \"x\"") && told.contains("this has none"));
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(serde_json::from_str::<Network>(&text).unwrap(), network);
    // Files of networks without cycles have the same bytes as before there were any.
    let other = described("schedule = \"cyclic\"\njitter = \"1 ms\"\n", "").unwrap();
    assert_eq!(other.without_cyclic_streams(""), Ok(()));
    let text = serde_json::to_string(&other).unwrap();
    assert!(!text.contains("cyclic"), "{text}");
}

/// Each fault is told at its line and column, with the change that would be right.
#[test]
fn what_may_not_be_is_told_where_it_is() {
    let cases = [
        (
            "cycle = \"250 us\"\n",
            "",
            "t.toml:26:12: cyclic stream \"x\": no cycle is stated",
        ),
        (
            "gates = \"unlimited\"\n",
            "",
            "t.toml:26:12: cyclic stream \"x\" passes switch \"s\", which has no `gates`",
        ),
        (
            "queues = 4",
            "queues = 1",
            "t.toml:27:12: cyclic stream \"x\" passes \"s\", which has one queue for all traffic",
        ),
        (
            "queues = 4",
            "queues = 2",
            "t.toml:35:12: stream \"y\" would have queue 0 of \"s\": its two most urgent ones are those of cyclic streams",
        ),
        (
            "priority = 2",
            "priority = 6",
            "t.toml:35:12: stream \"y\" has priority 6 at \"s\", which cyclic streams have for themselves",
        ),
        (
            "priority = 2",
            "priority = 5",
            "t.toml:35:12: stream \"y\" would have queue 2 of \"s\"",
        ),
        (
            "priority = 2",
            "priority = 7\nschedule = \"cyclic\"",
            "t.toml:35:12: cyclic stream \"y\" has priority 7, \"x\" has 6",
        ),
        (
            "priority = 2",
            "priority = 5\nschedule = \"time-triggered\"",
            "t.toml:36:12: stream \"y\" is time-triggered and \"x\" is cyclic: together there is no bound here",
        ),
        (
            "schedule = \"cyclic\"",
            "schedule = \"cyclic\"\nshaper = \"off\"",
            "t.toml:28:10: cyclic stream \"x\" keeps to its contract: its shaper cannot be off",
        ),
        (
            "cycle = \"250 us\"",
            "cycle = \"800 ms\"",
            "t.toml:27:12: cyclic stream \"x\" passes switch \"s\", whose gates cannot repeat after two cycles, 1600000000 ns",
        ),
        (
            "queues = 4",
            "queues = 4\npriority-map = [3, 0, 0, 0, 0, 0, 3, 3]",
            "best-effort \"office\" would have queue 3 of \"s\"",
        ),
        (
            "schedule = \"cyclic\"\n",
            "",
            "`jitter` is kept by time-triggered and cyclic streams only",
        ),
    ];
    for (from, to, expected) in cases {
        let told = described(from, to).expect_err(expected);
        assert!(told.contains(expected), "{told}\nexpected: {expected}");
    }
}

/// A network that no description was read for.
#[test]
fn a_network_from_elsewhere_is_checked() {
    let good = described("", "").unwrap();
    assert_eq!(good.check(), Ok(()));
    let mut network = good.clone();
    network.schedule.cycle_ns = None;
    let told = network.check().unwrap_err();
    assert!(told.contains("no cycle is stated"), "{told}");
    let mut network = good.clone();
    network.streams[1].pcp = 6;
    let told = network.check().unwrap_err();
    assert!(told.contains("priority 6"), "{told}");
    let mut network = good.clone();
    network.shapers.push(PortShaper {
        node: "s".to_owned(),
        to: None,
        pcp: 2,
        kind: ShaperKind::Asynchronous,
    });
    let told = network.check().unwrap_err();
    assert!(told.contains("which has shapers"), "{told}");
    let mut network = good;
    network.schedule.cycle_ns = Some(u64::MAX);
    assert!(network.check().is_err());
}
