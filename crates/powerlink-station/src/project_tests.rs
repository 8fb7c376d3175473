//! Keys of the project file for what a station must not do, and their defaults.

use crate::{Project, configure};
use rtwire_powerlink::od::ObjectDictionary;
use rtwire_wire::MacAddress;
use std::path::Path;

const NODES: &str = "[[node]]\nnumber = 1\nresponse-timeout = \"200 us\"\n\
    [[node]]\nnumber = 32\nresponse-timeout = \"200 us\"\n\
    [[node]]\nnumber = 110\nresponse-timeout = \"200 us\"\n";

fn parse(text: &str) -> Result<Project, String> {
    Project::parse(text, Path::new("cell.toml")).map_err(|error| error.to_string())
}

fn managing(keys: &str) -> Project {
    parse(&format!(
        "[station]\nnode = 240\ninterface = \"eth0\"\n{keys}\n{NODES}"
    ))
    .unwrap()
}

fn controlled(keys: &str) -> Project {
    parse(&format!(
        "[station]\nnode = 1\ninterface = \"eth0\"\n{keys}\n"
    ))
    .unwrap()
}

fn dictionary(project: &Project) -> ObjectDictionary {
    let config = configure::managing(project, MacAddress([2; 6]), 0).unwrap();
    config.dictionary
}

#[test]
fn nodes_get_time_between_soc_and_their_request() {
    // Another stack's managing node leaves 108 us, and its nodes need that (150 us here: `slow_nodes` in the nodes' tests).
    for (cycle, pause_ns) in [
        ("50 ms", 150_000),
        ("10 ms", 150_000),
        ("5 ms", 100_000),
        ("2 ms", 40_000),
        ("1 ms", 0),
        ("400 us", 0),
    ] {
        let project = managing(&format!("cycle = \"{cycle}\""));
        assert_eq!(dictionary(&project).number(0x1f8a, 1), pause_ns, "{cycle}");
        let given = managing(&format!("cycle = \"{cycle}\"\nwait-soc-preq = \"30 us\""));
        assert_eq!(dictionary(&given).number(0x1f8a, 1), 30_000);
    }
    let none = managing("cycle = \"50 ms\"\nwait-soc-preq = \"0 us\"");
    assert_eq!(dictionary(&none).number(0x1f8a, 1), 0);
}

#[test]
fn a_configurators_pause_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut cdc = rtwire_powerlink::Cdc::default();
    cdc.push(0x1006, 0, 50_000, 4);
    std::fs::write(folder.path().join("a.cdc"), cdc.emit()).unwrap();
    cdc.push(0x1f8a, 1, 7_000, 4);
    std::fs::write(folder.path().join("b.cdc"), cdc.emit()).unwrap();
    for (file, pause_ns) in [("a.cdc", 150_000), ("b.cdc", 7_000)] {
        let text =
            format!("[station]\nnode = 240\ninterface = \"eth0\"\ncdc = \"{file}\"\n{NODES}");
        let project = Project::parse(&text, &folder.path().join("cell.toml")).unwrap();
        assert_eq!(dictionary(&project).number(0x1f8a, 1), pause_ns);
    }
}

#[test]
fn the_watchdog_lasts_five_cycles_or_twenty_milliseconds() {
    let ms = 1_000_000;
    for (cycle_ns, cycles) in [
        (50 * ms, 5),
        (4 * ms, 5),
        (3 * ms, 7),
        (ms, 20),
        (400_000, 50),
        (0, 10),
    ] {
        let project = controlled("cycle = \"1 ms\"");
        assert_eq!(project.watchdog_cycles(cycle_ns), cycles, "{cycle_ns}");
    }
    let limits = |project: &Project| {
        configure::controlled(project, MacAddress([2; 6]))
            .unwrap()
            .limits
    };
    let by_default = limits(&controlled("cycle = \"10 ms\""));
    assert_eq!(
        (by_default.watchdog_cycles, by_default.silence_ns),
        (5, 600_000_000)
    );
    assert_eq!(by_default.answer_within_ns, None);
    assert_eq!(
        [1, 50].map(|cycle_ms| by_default.watchdog_of(cycle_ms * ms)),
        [20, 5],
        "it follows a cycle time that is not the file's"
    );
    let given = "cycle = \"10 ms\"\nwatchdog = 3\nsilence-after-reset = \"0 ms\"\nanswer-within = \"300 us\"";
    let given = limits(&controlled(given));
    assert_eq!((given.watchdog_cycles, given.silence_ns), (3, 0));
    assert_eq!(given.answer_within_ns, Some(300_000));
    assert_eq!([0, ms].map(|cycle_ns| given.watchdog_of(cycle_ns)), [3, 3]);
    let config = configure::managing(
        &managing("cycle = \"10 ms\"\nwatchdog = 3"),
        MacAddress([2; 6]),
        0,
    );
    assert_eq!(config.unwrap().watchdog_cycles, 3);
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    for (node, key, message) in [
        (240, "watchdog = 1", "expected is a number from 2 to 100000"),
        (
            240,
            "silence-after-reset = \"1 s\"",
            "only a controlled node",
        ),
        (240, "answer-within = \"1 ms\"", "only a controlled node"),
        (
            240,
            "wait-soc-preq = \"6 ms\"",
            "at most half a cycle, 5000000 ns",
        ),
        (1, "wait-soc-preq = \"1 us\"", "only a managing node"),
        (
            1,
            "answer-within = \"10 ns\"",
            "too short: at least 1000 ns",
        ),
    ] {
        let nodes = if node == 240 { NODES } else { "" };
        let error = parse(&format!(
            "[station]\nnode = {node}\ninterface = \"eth0\"\ncycle = \"10 ms\"\n{key}\n{nodes}"
        ))
        .unwrap_err();
        assert!(error.contains(message), "{key}: {error}");
    }
}

#[test]
fn only_a_managing_node_needs_a_cycle() {
    assert_eq!(controlled("").cycle_ns, 0);
    controlled("").check().unwrap();
    let none = parse(&format!(
        "[station]\nnode = 240\ninterface = \"eth0\"\n{NODES}"
    ));
    assert!(none.unwrap_err().contains("missing key `cycle`"));
}

#[test]
fn slots_are_the_managing_nodes_and_a_file_of_parameters_the_controlled_ones() {
    let four = managing("cycle = \"2 ms\"\nasync-slots = 4");
    assert_eq!(dictionary(&four).number(0x1f8a, 3), 4);
    assert_eq!(
        dictionary(&managing("cycle = \"2 ms\"")).number(0x1f8a, 3),
        1
    );
    let stores = controlled("parameters = \"valve.parameters\"");
    assert_eq!(
        stores.parameters.as_deref(),
        Some(Path::new("valve.parameters"))
    );
    let wrong = parse(&format!(
        "[station]\nnode = 240\ninterface = \"eth0\"\ncycle = \"2 ms\"\nparameters = \"a\"\n{NODES}"
    ));
    assert!(wrong.unwrap_err().contains("has `parameters`"));
    let wrong = parse("[station]\nnode = 1\ninterface = \"eth0\"\nasync-slots = 2\n");
    assert!(wrong.unwrap_err().contains("no `async-slots`"));
}
