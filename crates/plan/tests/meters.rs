//! Flow meters that cannot be planned.

use rtwire_plan::{Options, Plan, Reason, Refusal, admission, plan, plan_file, read, verify};

/// Plans one stream of full frames over a switch of 100 Mbit/s with these keys.
fn planned(keys: &str, rate: &str) -> Result<Plan, Refusal> {
    let text = format!(
        "[network]\nname = \"one\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\nclock-drift = \"0 ppm\"\n\
         [[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\nflow-meters = \"on\"\n{keys}\n\
         [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
         [[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"b\", \"s\"]\n\
         [[stream]]\nname = \"x\"\ntalker = \"a\"\nlisteners = [\"b\"]\nframe = \"1514 B\"\nrate = \"{rate}\"\n"
    );
    let network = read(&text, "one.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
    plan(&network, &Options::default())
}

/// A meter that counts the FCS but not preamble and gap lets through 84 bytes of the wire for each 64 that it counts.
#[test]
fn meters_that_let_through_more_than_the_link_takes_are_named() {
    let refusal = planned("", "78 Mbit/s").unwrap_err();
    let [
        Reason::Meters {
            node,
            port,
            rate_bps,
            link_rate_bps,
        },
    ] = &refusal.reasons[..]
    else {
        panic!("{refusal}");
    };
    assert_eq!(
        (node.as_str(), port.as_str(), *link_rate_bps),
        ("s", "b", 100_000_000)
    );
    // 78 Mbit/s of frames of 1514 B are 78 (1518 / 1514) as counted, and 84 / 64 as much in the smallest frames.
    let expected = 78e6 * 1_518.0 / 1_514.0 * 84.0 / 64.0;
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    let off = *rate_bps as f64 - expected;
    assert!((0.0..10.0).contains(&off), "{rate_bps} {expected}");
    assert!(refusal.is_unbounded());
    assert!(
        refusal.to_string().contains("`meter-overhead`"),
        "{refusal}"
    );
    assert!(planned("meter-overhead = \"24 B\"", "78 Mbit/s").is_ok());
    assert!(planned("", "75 Mbit/s").is_ok());
}

#[test]
fn the_manager_s_admission_refuses_them_by_name() {
    let plan = planned("", "10 Mbit/s").unwrap();
    let budgets = admission::Budgets::default();
    let refused = admission::Admission::new(&plan.network, &budgets).err();
    let told = refused.map(|it| it.to_string()).unwrap_or_default();
    assert!(told.contains("flow meters"), "{told}");
}

/// A meter that is wider than the plan's promises bear, a longer frame, and a meter that is missing: each by itself, with a new
/// checksum.
#[test]
fn a_meter_that_does_not_follow_is_found() {
    let good = planned("", "10 Mbit/s").unwrap();
    assert_eq!(verify(&good), []);
    let spoilt: [fn(&mut Plan); 5] = [
        |it| it.meters[0].committed_rate_bps += 1,
        |it| it.meters[0].committed_burst_bytes += 1,
        |it| it.meters[0].longest_frame_bytes += 1,
        |it| it.meters[0].priority += 1,
        |it| it.meters.clear(),
    ];
    for spoil in spoilt {
        let mut plan = good.clone();
        spoil(&mut plan);
        let found = verify(&plan_file::sealed(plan));
        assert!(
            !found.is_empty() && found.iter().all(|it| it.what.starts_with("meters")),
            "{found:?}"
        );
    }
}
