//! Tests that the examples of the project can be read and planned, with the results that they state.

use rtwire_plan::{Network, Options, Reason, plan, read};

fn five_nodes(interval: &str) -> Network {
    let text = include_str!("../../../examples/five-nodes.toml");
    let set = [("shaping-interval".to_owned(), interval.to_owned())];
    read(text, "five-nodes.toml", &set).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn five_nodes_fit_at_all_three_shaping_intervals() {
    let mut before = u64::MAX;
    for interval in ["10 ms", "1 ms", "100 us"] {
        let plan = plan(&five_nodes(interval), &Options::default())
            .unwrap_or_else(|refusal| panic!("{refusal}"));
        let port = plan
            .ports
            .iter()
            .find(|port| port.node == "s1" && port.port == "B")
            .unwrap();
        assert!(
            port.utilization_permille >= 920,
            "the experiment uses at least 92 % of B's link"
        );
        assert!(
            port.loeser_haertig.is_some(),
            "one switch is what the closed form is for"
        );
        let a = plan.streams[0].promises[0].delay_ns.unwrap();
        assert!(
            a < before,
            "a shorter shaping interval must give a smaller promise"
        );
        before = a;
    }
}

#[test]
fn the_unshaped_twin_differs_in_the_shaper_only_and_is_refused() {
    let text = include_str!("../../../examples/five-nodes-unshaped.toml");
    let twin =
        read(text, "five-nodes-unshaped.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let mut shaped = twin.streams.clone();
    for stream in &mut shaped {
        stream.shaped = true;
    }
    assert_eq!(shaped, five_nodes("1 ms").streams);
    let refusal = plan(&twin, &Options::default()).unwrap_err();
    assert_eq!(
        refusal.reasons,
        [Reason::Unshaped {
            stream: "C-to-B".into()
        }]
    );
}

#[test]
fn the_line_is_planned() {
    let text = include_str!("../../../examples/line.toml");
    let network = read(text, "line.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let plan = plan(&network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"));
    for stream in &plan.streams {
        for promise in &stream.promises {
            assert!(promise.delay_ns <= promise.deadline_ns, "{}", stream.name);
        }
    }
}

/// The rows of `examples/osadl/README.md`: each set-up with its promise, and set-up 1 without one where a deadline asks for less.
#[test]
fn the_four_set_ups_of_osadl_promise_what_their_table_says() {
    let table = include_str!("../../../examples/osadl/README.md");
    let files = [
        (
            "1-no-priority.toml",
            include_str!("../../../examples/osadl/1-no-priority.toml"),
            2_130_960,
            "2.131 ms",
        ),
        (
            "2-vlan-priority.toml",
            include_str!("../../../examples/osadl/2-vlan-priority.toml"),
            285_360,
            "285.4 µs",
        ),
        (
            "3-limited.toml",
            include_str!("../../../examples/osadl/3-limited.toml"),
            285_360,
            "285.4 µs",
        ),
        (
            "4-launch-times.toml",
            include_str!("../../../examples/osadl/4-launch-times.toml"),
            172_320,
            "172.3 µs",
        ),
    ];
    for (name, text, promise_ns, words) in files {
        let network = read(text, name, &[]).unwrap_or_else(|faults| panic!("{faults}"));
        let plan =
            plan(&network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"));
        let promises: Vec<_> = plan
            .streams
            .iter()
            .flat_map(|stream| &stream.promises)
            .map(|promise| promise.delay_ns)
            .collect();
        assert_eq!(promises, [Some(promise_ns); 2], "{name}");
        let row = format!("| [{name}]({name}) | {words}");
        assert!(table.contains(&row), "no `{row}` in the table");
        let gated = plan.ports.iter().filter(|port| port.gates.is_some());
        let gates = if name.starts_with('4') { 2 } else { 0 };
        assert_eq!(gated.count(), gates, "{name}");
    }
    // What set-up 2 keeps, set-up 1 cannot promise: the whole burst of best effort is in the way.
    for (place, fits) in [(0, false), (1, true)] {
        let (name, text, ..) = files[place];
        let text = text.replace(
            "interval = \"500 us\"",
            "interval = \"500 us\"\ndeadline = \"500 us\"",
        );
        let network = read(&text, name, &[]).unwrap_or_else(|faults| panic!("{faults}"));
        match plan(&network, &Options::default()) {
            Ok(_) => assert!(fits, "{name}"),
            Err(refusal) => {
                assert!(!fits, "{name}: {refusal}");
                let said = refusal.to_string();
                assert!(said.contains("question") && said.contains("500"), "{said}");
            }
        }
    }
}
