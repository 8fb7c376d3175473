//! Values of single ports and inputs: which one counts, and the messages for those that name nothing.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rtwire_describe::{CutThrough, Network, Ratio, read};

fn described(more: &str) -> Result<Network, String> {
    let host = |name: &str| {
        format!(
            "[[host]]\nname = \"{name}\"\n[[link]]\nends = [\"{name}\", \"s\"]\nrate = \"1 Gbit/s\"\n"
        )
    };
    let text = format!(
        "[network]\nname = \"t\"\n[[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\nlatency = \"9 us\"\n{}{}{}{more}",
        host("A"),
        host("B"),
        host("C")
    );
    read(&text, "t.toml", &[]).map_err(|faults| faults.to_string())
}

fn port(keys: &str) -> String {
    format!("[[port]]\nswitch = \"s\"\n{keys}\n")
}

#[test]
fn the_most_exact_value_counts() {
    let network = described(&format!(
        "{}{}{}",
        port("from = \"A\"\nlatency = \"1 us\""),
        port("to = \"C\"\nlatency = { min = \"2 us\", max = \"3 us\" }"),
        port("from = \"B\"\nto = \"C\"\nlatency = { min = \"4 us\", max = \"4 us\" }"),
    ))
    .unwrap();
    let limits = |before: &str, to: &str| {
        let latency = network.input_latency(before, "s", to);
        (latency.min_ns, latency.max_ns)
    };
    assert_eq!(limits("A", "B"), (0, 1_000), "of its input");
    assert_eq!(
        limits("A", "C"),
        (2_000, 3_000),
        "of its port before its input"
    );
    assert_eq!(limits("B", "C"), (4_000, 4_000), "of its pair");
    assert_eq!(limits("C", "A"), (0, 9_000), "of its switch");
    // Of a port: all that its inputs have.
    let all = network.port_latency("s", "C");
    assert_eq!((all.min_ns, all.max_ns), (2_000, 4_000));
    let all = network.port_latency("s", "B");
    assert_eq!((all.min_ns, all.max_ns), (0, 9_000));
    assert_eq!(network.check(), Ok(()));
}

#[test]
fn what_names_no_port_is_refused() {
    for (keys, message) in [
        ("latency = \"1 us\"", "it needs `to`, `from` or both"),
        (
            "to = \"D\"\nlatency = \"1 us\"",
            "there is no link between \"s\" and \"D\"",
        ),
        (
            "from = \"A\"\nto = \"A\"\nlatency = \"1 us\"",
            "no frame leaves over the link",
        ),
        ("to = \"A\"", "it states nothing"),
    ] {
        let told = described(&port(keys)).unwrap_err();
        assert!(told.contains(message), "{told}");
    }
    let twice = port("to = \"A\"\nlatency = \"1 us\"").repeat(2);
    assert!(described(&twice).unwrap_err().contains("is given already"));
    let told = described("[[port]]\nswitch = \"A\"\nto = \"s\"\nlatency = \"1 us\"\n");
    assert!(told.unwrap_err().contains("there is no switch \"A\""));
}

#[test]
fn cut_through_is_between_links_of_one_rate_and_beside_no_gates() {
    let network = described(&format!(
        "{}{}",
        port("from = \"A\"\ncut-through = \"on\""),
        port("from = \"A\"\nto = \"C\"\ncut-through = \"possible\"")
    ))
    .unwrap();
    assert_eq!(network.cut_through("A", "s", "B"), CutThrough::On);
    assert_eq!(network.cut_through("A", "s", "C"), CutThrough::Possible);
    assert_eq!(network.cut_through("B", "s", "C"), CutThrough::Off);
    // Preamble and destination address.
    assert_eq!(network.header_bytes(), 14);
    assert!(
        network
            .without_cut_through()
            .unwrap_err()
            .contains("switch \"s\"")
    );
    let mut faster = network.clone();
    faster.links[1].rate_bps = 100_000_000;
    assert_eq!(faster.cut_through("A", "s", "B"), CutThrough::Off);
    // The lab measures a port of its own, which stores each frame.
    let mut measured = network;
    measured.set_port_latency("s", "B", 1_000);
    assert_eq!(measured.cut_through("A", "s", "B"), CutThrough::Off);

    let shaper = "[[shaper]]\nnode = \"s\"\npriority = 0\nkind = \"asynchronous\"\n";
    let told = described(&format!(
        "{}{shaper}",
        port("to = \"A\"\ncut-through = \"possible\"")
    ));
    assert!(told.unwrap_err().contains("\"s\" has a shaper"));
    let off = port("to = \"A\"\ncut-through = \"off\"");
    assert!(described(&format!("{off}{shaper}")).is_ok());
}

#[test]
fn a_switch_may_be_passed_twice_but_no_port() {
    let link =
        |a: &str, b: &str| format!("[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"1 Gbit/s\"\n");
    let switch = |name: &str| format!("[[switch]]\nname = \"{name}\"\nbuffer = \"1 MB\"\n");
    let ring = switch("t") + &switch("u") + &link("s", "t") + &link("t", "u") + &link("u", "s");
    let routed = |route: &str| {
        described(&format!(
            "{ring}[[stream]]\nname = \"x\"\ntalker = \"A\"\nlisteners = [\"B\"]\nframe = \"60 B\"\ninterval = \"1 ms\"\nroute = {route}\n"
        ))
    };
    let network = routed("[\"A\", \"s\", \"t\", \"u\", \"s\", \"B\"]").unwrap();
    assert_eq!(network.check(), Ok(()));
    let told = network.without_second_pass().unwrap_err();
    assert!(told.contains("\"x\" passes \"s\" twice"), "{told}");
    let told = routed("[\"A\", \"s\", \"t\", \"u\", \"s\", \"t\", \"u\", \"s\", \"B\"]");
    assert!(
        told.unwrap_err()
            .contains("from \"s\" to \"t\" is passed twice")
    );
    let told = routed("[\"A\", \"s\", \"t\", \"s\", \"B\"]").unwrap_err();
    assert!(told.contains("it goes back to \"s\" at once"), "{told}");
}

#[test]
fn several_frames_in_an_interval_are_one_contract() {
    let stream = |keys: &str| {
        described(&format!(
            "[[stream]]\nname = \"x\"\ntalker = \"A\"\nlisteners = [\"B\"]\nframe = \"101 B\"\ntick-error = \"10 us\"\n{keys}\n"
        ))
    };
    let network = stream("interval = \"1 ms\"\nframes-per-interval = 4").unwrap();
    // 4 frames of 125 B on the wire in each millisecond: 4 Mbit/s, 40 bit in the tick error.
    let contract = &network.streams[0].contract;
    assert_eq!(contract.rate, Ratio::whole(4_000_000));
    assert_eq!(contract.burst_bits, 4 * 1_000 + 40);
    assert_eq!(network.check(), Ok(()));
    assert!(network.without_groups().unwrap_err().contains("\"x\""));
    let one = stream("interval = \"1 ms\"").unwrap();
    assert_eq!(one.without_groups(), Ok(()));
    assert!(
        !serde_json::to_string(&one.streams)
            .unwrap()
            .contains("\"frames\"")
    );
    let told = stream("rate = \"1 Mbit/s\"\nframes-per-interval = 4").unwrap_err();
    assert!(told.contains("goes with `interval`"), "{told}");
}
