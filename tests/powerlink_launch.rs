//! SoC by launch time, as far as every kernel shows it: keys of the project file, what is said where nothing keeps launch
//! times. Where ETF is (`crates/powerlink-station/tests/soc_launch.rs`, `tests/vm/suites/powerlink.sh`) is the kernel lab. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod powerlink_common;

use powerlink_common::{Cell, asked, last_state};
use rtwire_powerlink_station::{Project, SocSending};
use rtwire_testkit::{ip, require};

fn parsed(station: &str) -> Result<Project, String> {
    let text = format!("[station]\n{station}\ninterface = \"lo\"\ncycle = \"1 ms\"\n");
    let text = if station.contains("240") {
        text + "[[node]]\nnumber = 1\n"
    } else {
        text
    };
    Project::parse(&text, "project.toml".as_ref()).map_err(|error| error.to_string())
}

#[test]
fn the_keys_are_read_and_checked() {
    let plain = parsed("node = 240").unwrap();
    assert_eq!(plain.soc, SocSending::Auto);
    assert_eq!((plain.soc_priority, plain.soc_margin_ns), (7, 100_000));
    let given =
        parsed("node = 240\nsoc = \"launch\"\nsoc-priority = 3\nsoc-margin = \"50 us\"").unwrap();
    assert_eq!(given.soc, SocSending::Launch);
    assert_eq!((given.soc_priority, given.soc_margin_ns), (3, 50_000));
    assert_eq!(
        parsed("node = 240\nsoc = \"spin\"").unwrap().soc,
        SocSending::Spin
    );
    let faults =
        parsed("node = 240\nsoc = \"lauch\"\nsoc-priority = 16\nsoc-margin = 50").unwrap_err();
    for part in [
        "project.toml:3:7: `soc` is \"lauch\", but expected is \"auto\" or \"spin\" or \"launch\"",
        "did you mean \"launch\"?",
        "project.toml:4:16: `soc-priority` is 16, but expected is a number from 0 to 15",
        "project.toml:5:14: `soc-margin` is a whole number, but expected is a duration",
    ] {
        assert!(faults.contains(part), "{part}\n---\n{faults}");
    }
    let faults = parsed("node = 1\nsoc = \"launch\"\nsoc-priority = 3").unwrap_err();
    for part in [
        "project.toml:3:7: only a managing node (node = 240) sends SoC and SoA: no `soc`",
        "project.toml:4:16: only a managing node (node = 240) sends SoC and SoA: no `soc-priority`",
    ] {
        assert!(faults.contains(part), "{part}\n---\n{faults}");
    }
}

#[test]
fn where_nothing_keeps_launch_times_it_is_refused_or_done_without() {
    require!(root);
    require!(program "ip");
    require!(program "tc");
    let cell = Cell::files("user");
    let with = |soc: &str| {
        let name = format!("{soc}.toml");
        let text = std::fs::read_to_string(cell.file("mn.toml")).unwrap();
        let text = text.replace("[station]", &format!("[station]\nsoc = \"{soc}\""));
        std::fs::write(cell.file(&name), text).unwrap();
        asked(cell.mn(), &["mn", &cell.file(&name), "--duration", "1s"])
    };
    let (code, said) = with("launch");
    assert_eq!(code, 3, "{said}");
    for part in [
        "interface `rtws` keeps no launch times for priority 7: its queue is `noqueue`",
        "`tc qdisc replace dev rtws root etf clockid CLOCK_TAI delta 200000`",
        "sch_etf",
    ] {
        assert!(said.contains(part), "{part}\n---\n{said}");
    }
    for (soc, part) in [
        (
            "auto",
            "isochronous phase in user space; SoC sent by the loop, since no launch times: its queue is `noqueue`",
        ),
        ("spin", "in user space; SoC sent by the loop; watchdog"),
    ] {
        let (code, said) = with(soc);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(part), "{part}\n---\n{said}");
        assert!(!said.contains("by launch time"), "{said}");
    }
    // A down interface changes nothing of it.
    ip(&cell.mn().namespace, "link set rtws down");
    assert_eq!(with("launch").0, 3);
}

#[test]
fn a_state_tells_of_launch_times_only_where_there_are_some() {
    require!(root);
    require!(program "ip");
    let (mut cell, states) = Cell::telling("driver");
    let state = last_state(&states);
    assert!(state["soc_launch"].is_null(), "{state}");
    let path = state["path"].as_str().unwrap();
    assert!(path.contains("in the driver"), "{path}");
    assert!(path.contains("SoC sent by the loop, since"), "{path}");
    cell.running.clear();
}
