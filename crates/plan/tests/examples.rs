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
