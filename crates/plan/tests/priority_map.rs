//! Maps of priorities to queues in plans: promises by hand, and a plan file from before there were maps.

use rtwire_plan::{Network, Options, Plan, plan, plan_file, read};

/// `a` has 524 bytes on the wire (41.92 us), `b` and `c` have 1024 (81.92 us).
fn planned(map: &str) -> (Network, Plan) {
    let mut text = format!(
        "[network]\nname = \"t\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
         [[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\nqueues = 8\n{map}\n[[host]]\nname = \"L\"\n[[link]]\nends = [\"s\", \"L\"]\n"
    );
    for (name, bytes, pcp) in [("a", 500, 3), ("b", 1000, 7), ("c", 1000, 7)] {
        text += &format!(
            "[[host]]\nname = \"{name}-host\"\n[[link]]\nends = [\"{name}-host\", \"s\"]\n\
             [[stream]]\nname = \"{name}\"\ntalker = \"{name}-host\"\nlisteners = [\"L\"]\nframe = \"{bytes} B\"\n\
             interval = \"1 ms\"\npriority = {pcp}\n"
        );
    }
    let network = read(&text, "t.toml", &[]).unwrap();
    let plan = plan(&network, &Options::default()).unwrap();
    (network, plan)
}

fn promise_ns(plan: &Plan, stream: &str) -> u64 {
    let found = plan.streams.iter().find(|one| one.name == stream);
    found.unwrap().promises[0].delay_ns.unwrap()
}

#[test]
fn class_a_at_priority_3_waits_for_one_frame_of_priority_7_and_not_for_both() {
    let (_, usual) = planned("");
    assert_eq!(promise_ns(&usual, "a"), 41_920 + 2 * 81_920 + 41_920);
    let (network, avb) = planned("priority-map = \"802.1q-avb\"");
    // One of the two has just begun.
    assert_eq!(promise_ns(&avb, "a"), 41_920 + 81_920 + 41_920);
    assert_eq!(promise_ns(&avb, "b"), 81_920 + 41_920 + 2 * 81_920);
    // In the plan's own words: class 7 at the switch is that of priority 3.
    let port = avb
        .ports
        .iter()
        .find(|port| port.node == "s" && port.port == "L");
    let port = port.unwrap();
    let of = |class: u8| port.classes.iter().find(|one| one.class == class).unwrap();
    assert_eq!(
        (&of(7).flows[..], of(5).flows.len()),
        (&["a".to_owned()][..], 2)
    );
    let again = plan_file::read(plan_file::text(&avb).as_bytes(), "plan.json").unwrap();
    assert_eq!(again.network.switches, network.switches);
    assert!(rtwire_plan::verify(&again).is_empty());
}

#[test]
fn a_plan_without_maps_has_the_bytes_of_before() {
    let (_, plan) = planned("");
    assert!(!plan_file::text(&plan).contains("priority_map"));
    assert_eq!(plan.version, 3);
}

/// A map that names a queue that is not there is refused in a plan file, too.
#[test]
fn a_plan_with_a_queue_too_many_is_refused() {
    let (_, mut plan) = planned("priority-map = \"802.1q\"");
    plan.network.switches[0].queues = 7;
    let text = plan_file::text(&plan_file::sealed(plan));
    let refused = plan_file::read(text.as_bytes(), "plan.json").unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("`priority_map` has queue 7, but there are 7"),
        "{refused}"
    );
}
