//! One test for each known error in bounds of this kind.

use rtwire_plan::{
    Analysis, Network, Options, Plan, PortPlan, Reason, Refusal, TermKind, plan, read,
};

const STAR: &str = r#"
[network]
name = "star"
[defaults]
tick-error = "0 us"
link-rate = "100 Mbit/s"
[[switch]]
name = "s1"
buffer = "1 MB"
queues = 8
[[host]]
name = "A"
[[host]]
name = "B"
[[host]]
name = "C"
[[host]]
name = "D"
[[link]]
ends = ["A", "s1"]
[[link]]
ends = ["B", "s1"]
[[link]]
ends = ["C", "s1"]
[[link]]
ends = ["D", "s1"]
"#;

fn network(streams: &str) -> Network {
    let text = format!("{STAR}{streams}");
    read(&text, "star.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

fn planned(streams: &str) -> Plan {
    plan(&network(streams), &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn refused(streams: &str) -> Refusal {
    plan(&network(streams), &Options::default()).unwrap_err()
}

fn stream(name: &str, talker: &str, listeners: &str, rest: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [{listeners}]\n{rest}\n"
    )
}

fn delay(plan: &Plan, name: &str) -> u64 {
    plan.streams
        .iter()
        .find(|stream| stream.name == name)
        .unwrap()
        .promises[0]
        .delay_ns
        .unwrap()
}

fn port<'a>(plan: &'a Plan, node: &str, to: &str) -> &'a PortPlan {
    plan.ports
        .iter()
        .find(|port| port.node == node && port.port == to)
        .unwrap()
}

const SMALL: &str = "frame = \"60 B\"\ninterval = \"1 ms\"";
const FULL: &str = "frame = \"1514 B\"\ninterval = \"1 ms\"";

#[test]
fn frames_count_with_preamble_fcs_and_gap() {
    let plan = planned(&stream("one", "A", "\"B\"", SMALL));
    // 60 + 24 bytes, on two links of 100 Mbit/s.
    assert_eq!(delay(&plan, "one"), 2 * 84 * 8 * 10);
    assert_eq!(port(&plan, "s1", "B").utilization.to_string(), "21/3125");
}

#[test]
fn rates_scale_with_the_overhead_too() {
    let network = network(&stream(
        "one",
        "A",
        "\"B\"",
        "frame = \"60 B\"\nrate = \"10 Mbit/s\"",
    ));
    assert_eq!(network.streams[0].contract.rate.to_string(), "14000000");
}

#[test]
fn a_tag_costs_four_bytes_and_padding_counts() {
    let tagged = network(&stream(
        "one",
        "A",
        "\"B\"",
        "payload = \"1 B\"\ninterval = \"1 ms\"\nvlan = 1",
    ));
    let plain = network(&stream(
        "one",
        "A",
        "\"B\"",
        "payload = \"1 B\"\ninterval = \"1 ms\"",
    ));
    assert_eq!(
        (tagged.streams[0].frame_bytes, plain.streams[0].frame_bytes),
        (64, 60)
    );
}

#[test]
fn a_lower_frame_under_way_delays_the_highest_class_at_host_and_switch() {
    let urgent = stream("urgent", "A", "\"B\"", &format!("{SMALL}\npriority = 7"));
    let alone = delay(&planned(&urgent), "urgent");
    let at_switch = planned(&(urgent.clone() + &stream("bulk", "C", "\"B\"", FULL)));
    assert_eq!(delay(&at_switch, "urgent"), alone + 123_040);
    let at_host = planned(&(urgent.clone() + &stream("bulk", "A", "\"C\"", FULL)));
    assert_eq!(delay(&at_host, "urgent"), alone + 123_040);
    let best_effort = "[[best-effort]]\nhost = \"C\"\nto = [\"B\"]\nrate = \"1 Mbit/s\"\n";
    let by_best_effort = planned(&(urgent + best_effort));
    assert_eq!(delay(&by_best_effort, "urgent"), alone + 123_040);
    let terms = &by_best_effort.streams[0].promises[0].terms;
    assert!(
        terms
            .iter()
            .any(|term| term.what == TermKind::Blocking && term.at == "s1>B" && term.ns == 123_040)
    );
}

#[test]
fn a_host_is_a_port_too() {
    let both = stream("one", "A", "\"B\"", FULL) + &stream("two", "A", "\"C\"", FULL);
    let plan = planned(&both);
    assert_eq!(
        port(&plan, "A", "s1").classes[0].delay_ns,
        Some(2 * 123_040)
    );
    assert_eq!(delay(&plan, "one"), 3 * 123_040);
}

#[test]
fn frames_behind_one_link_cannot_come_at_once() {
    let rest = "frame = \"1514 B\"\nrate = \"10 Mbit/s\"\nburst = \"15380 B\"";
    let plan = planned(&stream("one", "A", "\"B\"", rest));
    // Ten frames wait at the host; at the switch one comes when the one before has gone.
    assert_eq!(
        port(&plan, "A", "s1").classes[0].delay_ns,
        Some(10 * 123_040)
    );
    assert_eq!(port(&plan, "s1", "B").classes[0].delay_ns, Some(123_040));
}

#[test]
fn simultaneous_arrivals_count() {
    let streams = stream("one", "A", "\"B\"", FULL)
        + &stream("two", "C", "\"B\"", FULL)
        + &stream("three", "D", "\"B\"", FULL);
    let plan = planned(&streams);
    assert_eq!(
        port(&plan, "s1", "B").classes[0].delay_ns,
        Some(3 * 123_040)
    );
}

#[test]
fn each_branch_of_a_multicast_is_charged_and_the_trunk_once() {
    let plan = planned(&stream("one", "A", "\"B\", \"C\"", FULL));
    for to in ["B", "C"] {
        assert_eq!(port(&plan, "s1", to).utilization.to_string(), "769/6250");
    }
    assert_eq!(port(&plan, "A", "s1").utilization.to_string(), "769/6250");
}

#[test]
fn the_burst_contains_shaping_interval_tick_error_and_one_frame() {
    let rest = "frame = \"1514 B\"\nrate = \"10 Mbit/s\"\nshaping-interval = \"1 ms\"\ntick-error = \"500 us\"";
    let network = network(&stream("one", "A", "\"B\"", rest));
    // r (T_s + J) + M with r = 10 Mbit/s * 1538/1514.
    assert_eq!(
        network.streams[0].contract.burst.to_string(),
        "20849128/757"
    );
    assert_eq!(network.streams[0].contract.burst_bits, 27_542);
}

/// Tests a sender that may spend a window's budget anywhere in the window. It needs twice r T_s, and states that
/// burst.
#[test]
fn a_window_budget_is_twice_the_burst() {
    let shaped = "frame = \"1514 B\"\nrate = \"30 Mbit/s\"\nshaping-interval = \"10 ms\"";
    let window = "frame = \"1514 B\"\nrate = \"30 Mbit/s\"\nburst = \"461400000/757 bit\"";
    let by = |rest: &str| {
        let streams = stream("one", "A", "\"B\"", rest) + &stream("two", "C", "\"B\"", rest);
        // Without the frame that is being sent.
        port(&planned(&streams), "s1", "B").backlog_bytes.unwrap() - 1538
    };
    assert!(by(window) > by(shaped) * 19 / 10);
}

#[test]
fn rates_that_add_up_to_the_link_are_refused() {
    let half = "frame = \"1514 B\"\nrate = \"757/769 Mbit/s\"\nburst = \"1538 B\"";
    let halves = |rate: &str| {
        let rest = half.replace("757/769 Mbit/s", rate);
        stream("one", "A", "\"B\"", &rest) + &stream("two", "C", "\"B\"", &rest)
    };
    // 37850/769 Mbit/s of frame bytes are 50 Mbit/s on the wire.
    let refusal = refused(&halves("37850/769 Mbit/s"));
    assert!(
        matches!(
            &refusal.reasons[0],
            Reason::Rate {
                rate_bps: 100_000_000,
                ..
            }
        ),
        "{refusal}"
    );
    assert!(refusal.is_unbounded());
    planned(&halves("37849/769 Mbit/s"));
}

#[test]
fn a_pool_must_hold_all_ports_together() {
    let streams = ["A", "C"]
        .map(|talker| stream(&format!("{talker}-B"), talker, "\"B\"", FULL))
        .concat()
        + &["A", "C"]
            .map(|talker| stream(&format!("{talker}-D"), talker, "\"D\"", FULL))
            .concat();
    let needs: u64 = planned(&streams)
        .ports
        .iter()
        .filter(|port| port.node == "s1")
        .map(|port| port.backlog_bytes.unwrap())
        .sum();
    let pool = |bytes: u64| {
        let text = format!("{STAR}{streams}").replace(
            "buffer = \"1 MB\"",
            &format!("shared-buffer = \"{bytes} B\""),
        );
        plan(&read(&text, "pool.toml", &[]).unwrap(), &Options::default())
    };
    pool(needs).unwrap();
    let refusal = pool(needs - 1).unwrap_err();
    assert!(
        matches!(
            &refusal.reasons[0],
            Reason::SharedBuffer {
                excess_bytes: 1,
                ..
            }
        ),
        "{refusal}"
    );
}

/// Tests that 86 frames fill a buffer for 86 frames, however small they are.
#[test]
fn a_buffer_counted_in_frames_is_full_of_small_ones_too() {
    let small = "frame = \"60 B\"\nrate = \"1 Mbit/s\"\nburst = \"8400 B\"";
    let streams = ["A", "C", "D"]
        .map(|talker| stream(talker, talker, "\"B\"", small))
        .concat();
    let text = format!("{STAR}{streams}").replace("buffer = \"1 MB\"", "buffer = \"86 x 1514 B\"");
    let refusal = plan(
        &read(&text, "frames.toml", &[]).unwrap(),
        &Options::default(),
    )
    .unwrap_err();
    assert!(
        matches!(
            &refusal.reasons[0],
            Reason::BufferFrames {
                buffer_frames: 86,
                ..
            }
        ),
        "{refusal}"
    );
    let text = text.replace("86 x 1514 B", "130204 B");
    plan(
        &read(&text, "bytes.toml", &[]).unwrap(),
        &Options::default(),
    )
    .unwrap();
}

/// Tests that a port that is late and then catches up sends frames closer together than its rate.
#[test]
fn behind_a_late_port_traffic_has_more_jitter() {
    let rest = "frame = \"1514 B\"\nrate = \"20 Mbit/s\"\nburst = \"15380 B\"";
    let mut network = network(
        &(stream("one", "A", "\"B\"", rest)
            + &stream(
                "two",
                "C",
                "\"B\"",
                "frame = \"1514 B\"\ninterval = \"10 ms\"",
            )),
    );
    // Port by port: in a row of ports those that were held together wait for each other once.
    let options = Options {
        analysis: Analysis::Full,
        ..Options::default()
    };
    let before = plan(&network, &options).unwrap();
    let row_before = plan(&network, &Options::default()).unwrap();
    let hash = network.input_hash.clone();
    network.set_port_latency("A", "s1", 500_000);
    let after = plan(&network, &options).unwrap();
    let row_after = plan(&network, &Options::default()).unwrap();
    // 500 us at 100 Mbit/s may come at once: the other stream waits for them as well.
    let two = delay(&after, "two") - delay(&before, "two");
    assert!((490_000..=510_000).contains(&two), "{two}");
    assert!(delay(&after, "one") >= delay(&before, "one") + 500_000 + two);
    assert!(delay(&row_after, "one") >= delay(&row_before, "one") + 500_000);
    assert_ne!(
        hash, network.input_hash,
        "another input must have another hash"
    );
    assert!(
        port(&after, "s1", "B").loeser_haertig.is_none(),
        "the closed form knows no such inputs"
    );
}

#[test]
fn promises_add_up_and_cables_count() {
    let text = format!("{STAR}{}", stream("one", "A", "\"B\"", FULL)).replace(
        "ends = [\"B\", \"s1\"]",
        "ends = [\"B\", \"s1\"]\ncable-delay = \"500 ns\"",
    );
    let plan = plan(
        &read(&text, "cable.toml", &[]).unwrap(),
        &Options::default(),
    )
    .unwrap();
    let promise = &plan.streams[0].promises[0];
    assert_eq!(
        promise.terms.iter().map(|term| term.ns).sum::<u64>(),
        promise.delay_ns.unwrap()
    );
    assert_eq!(promise.delay_ns, Some(2 * 123_040 + 500));
}

#[test]
fn an_unshaped_stream_has_no_contract() {
    let off = stream("flood", "A", "\"B\"", &format!("{FULL}\nshaper = \"off\""));
    let refusal = refused(&(off.clone() + &stream("good", "C", "\"B\"", FULL)));
    assert_eq!(
        refusal.reasons,
        [Reason::Unshaped {
            stream: "flood".into()
        }]
    );
    assert!(
        refusal
            .to_string()
            .contains("shaper = \"on\" for \"flood\""),
        "{refusal}"
    );
    let ignoring = plan(
        &network(&off),
        &Options {
            ignore_limits: true,
            ..Options::default()
        },
    )
    .unwrap();
    assert_eq!(ignoring.streams[0].promises[0].delay_ns, None);
    assert!(
        ignoring
            .warnings
            .iter()
            .any(|warning| warning.contains("flood"))
    );
}

#[test]
fn behind_an_overloaded_port_there_is_no_promise_but_elsewhere_there_is() {
    let much = "frame = \"1514 B\"\nrate = \"60 Mbit/s\"";
    let streams = stream("one", "A", "\"B\"", much)
        + &stream("two", "C", "\"B\"", much)
        + &stream("three", "D", "\"C\"", FULL);
    let ignoring = plan(
        &network(&streams),
        &Options {
            ignore_limits: true,
            ..Options::default()
        },
    )
    .unwrap();
    let promise = |name: &str| {
        ignoring
            .streams
            .iter()
            .find(|stream| stream.name == name)
            .unwrap()
            .promises[0]
            .delay_ns
    };
    assert_eq!((promise("one"), promise("two")), (None, None));
    assert!(promise("three").is_some());
    assert!(refused(&streams).to_string().contains("1 Gbit/s"));
}

/// Tests that every suggestion fits if applied, and that its neighbour does not.
#[test]
fn suggestions_fit_and_are_the_nearest() {
    let source = include_str!("../../../examples/five-nodes.toml");
    let with = |interval: &str| {
        read(
            source,
            "five-nodes.toml",
            &[("shaping-interval".to_owned(), interval.to_owned())],
        )
        .unwrap()
    };
    let refusal = plan(&with("20 ms"), &Options::default()).unwrap_err();
    let text = refusal.to_string();
    let interval = text
        .split("shaping-interval = \"")
        .nth(1)
        .unwrap_or_else(|| panic!("{text}"))
        .split('"')
        .next()
        .unwrap();
    plan(&with(interval), &Options::default())
        .unwrap_or_else(|refusal| panic!("{interval}: {refusal}"));
    let ns = with(interval).defaults.shaping_interval_ns;
    plan(&with(&format!("{} ns", ns + 1_000)), &Options::default()).unwrap_err();
    let frames = text
        .split("buffer = \"")
        .nth(1)
        .unwrap_or_else(|| panic!("{text}"))
        .split('"')
        .next()
        .unwrap();
    let roomy = source
        .replace("86 x 1514 B", frames)
        .replace("\"12 ms\"", "\"1 s\"")
        .replace("\"16 ms\"", "\"1 s\"");
    let set = [("shaping-interval".to_owned(), "20 ms".to_owned())];
    plan(
        &read(&roomy, "roomy.toml", &set).unwrap(),
        &Options::default(),
    )
    .unwrap();
}

#[test]
fn a_higher_priority_is_found_where_it_helps() {
    let late = stream(
        "late",
        "A",
        "\"B\"",
        &format!("{SMALL}\ndeadline = \"200 us\""),
    );
    let others = stream(
        "bulk",
        "C",
        "\"B\"",
        "frame = \"1514 B\"\nrate = \"10 Mbit/s\"\nshaping-interval = \"5 ms\"",
    );
    let more = stream(
        "more",
        "D",
        "\"B\"",
        "frame = \"1514 B\"\nrate = \"10 Mbit/s\"\nshaping-interval = \"5 ms\"",
    );
    let refusal = refused(&(late + &others + &more));
    let Reason::Deadline {
        stream,
        excess_ns,
        delay_ns,
        deadline_ns,
        ..
    } = &refusal.reasons[0]
    else {
        panic!("{refusal}");
    };
    assert_eq!(
        (stream.as_str(), *excess_ns),
        ("late", delay_ns - deadline_ns)
    );
    assert!(
        refusal.to_string().contains("priority = 1 for \"late\""),
        "{refusal}"
    );
}

/// Tests that the numbers are the same every time: no clock, no address, no order of hashing.
#[test]
fn planning_is_deterministic() {
    let network = network(&stream("one", "A", "\"B\", \"C\", \"D\"", FULL));
    let first = plan(&network, &Options::default()).unwrap();
    for _ in 0..3 {
        assert_eq!(plan(&network, &Options::default()).unwrap(), first);
    }
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(serde_json::from_str::<Network>(&text).unwrap(), network);
    let text = serde_json::to_string(&first).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), first);
}

/// Tests that a loop of switches with a route for each stream is bounded if it settles.
#[test]
fn a_loop_with_routes_is_bounded_where_it_settles() {
    let mut text = String::from(
        "[network]\nname = \"ring\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n",
    );
    for index in 0..3 {
        text += &format!(
            "[[switch]]\nname = \"s{index}\"\nbuffer = \"1 MB\"\n[[host]]\nname = \"h{index}\"\n[[link]]\nends = [\"h{index}\", \"s{index}\"]\n"
        );
    }
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        text += &format!("[[link]]\nends = [\"s{a}\", \"s{b}\"]\n");
    }
    for index in 0..3 {
        let (next, last) = ((index + 1) % 3, (index + 2) % 3);
        text += &stream(
            &format!("f{index}"),
            &format!("h{index}"),
            &format!("\"h{last}\""),
            &format!(
                "{FULL}\nroute = [\"h{index}\", \"s{index}\", \"s{next}\", \"s{last}\", \"h{last}\"]"
            ),
        );
    }
    let network = read(&text, "ring.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let plan = plan(&network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert!(plan.streams.iter().all(|stream| {
        stream.promises[0]
            .delay_ns
            .is_some_and(|ns| ns >= 4 * 123_040)
    }));
}

/// The frames behind another one on its link come later by its time there. So a frame that takes the link for long is in
/// the queue before those of other links that came meanwhile have gone, but not with those of its own.
#[test]
fn a_frame_is_the_last_on_its_link() {
    let of =
        |bytes: u32| format!("frame = \"{bytes} B\"\nvlan = 1\ninterval = \"10 ms\"\npriority = 7");
    let streams = [
        stream("v", "A", "\"D\"", &of(512)),
        stream("short", "A", "\"D\"", &of(64)),
        stream("long", "B", "\"D\"", &of(512)),
        stream("middle", "B", "\"D\"", &of(256)),
    ];
    let network = network(&streams.concat());
    let promise = |analysis| {
        let options = Options {
            analysis,
            ..Options::default()
        };
        delay(&plan(&network, &options).unwrap(), "v")
    };
    // On the wire 4288, 704, 4288 and 2240 bit. The short one goes first: 4992 bit on the link. On the switch the long one
    // and the examined one are all that is left when the latter comes. By the line alone 704 bit more would have come.
    assert_eq!(promise(Analysis::Rows), (4_992 + 9_280) * 10);
    assert_eq!(promise(Analysis::EndToEnd), (4_992 + 8_576) * 10);
}
