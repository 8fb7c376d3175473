//! Networks of which the answer is known.

use super::*;

/// Three hosts that send to a fourth through one switch with a queue for each priority: `x`, and `y` from two of them.
fn three(x: &str, y: &str) -> String {
    let mut text =
        "[network]\nname = \"t\"\n[defaults]\ntick-error = \"0 us\"\nlink-rate = \"100 Mbit/s\"\n\
        [[switch]]\nname = \"s\"\nqueues = 8\nbuffer = \"1 MB\"\n"
            .to_owned();
    for host in ["A", "B", "C", "L"] {
        text += &format!("[[host]]\nname = \"{host}\"\n[[link]]\nends = [\"{host}\", \"s\"]\n");
    }
    for (name, talker, more) in [("x", "A", x), ("y", "B", y), ("z", "C", y)] {
        text += &format!(
            "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [\"L\"]\n{more}\n"
        );
    }
    text
}

const BULK: &str = "frame = \"1000 B\"\nrate = \"40 Mbit/s\"\nshaping-interval = \"1 ms\"";

#[test]
fn a_suggestion_of_one_priority_is_a_synthesis_of_one_change() {
    // 500 B take 41.92 us on each link, a frame of y 81.92 us more.
    let text = three(
        "frame = \"500 B\"\ninterval = \"1 ms\"\ndeadline = \"170 us\"",
        BULK,
    );
    let refused = refusal(&text);
    let mut suggestions = refused.suggestions.iter();
    let suggestion = suggestions.find(|one| one.kind == rtwire_plan::ChangeKind::Priority);
    assert_eq!(
        suggestion.unwrap().parts,
        ["priority = 1 for \"x\", in place of 0"]
    );
    let (found, changed) = synthesized(&text, MayChange::ALL, Objective::Changes);
    assert_eq!(found.report.certainty, Certainty::Least);
    let [change] = found.report.changes.as_slice() else {
        panic!("{:?}", found.report);
    };
    assert_eq!(
        (change.stream.as_str(), change.key.as_str()),
        ("x", "priority")
    );
    assert_eq!(
        (change.old.as_deref(), change.new.as_str()),
        (Some("0"), "1")
    );
    let values: Vec<u64> = found.report.cost.iter().map(|part| part.value).collect();
    assert_eq!(values, [1, 1, 1]);
    assert!(
        changed.contains("name = \"x\"\npriority = 1\n"),
        "{changed}"
    );
}

/// `x` has 524 bytes on the wire (41.92 us), `y` and `z` 1024 (81.92 us) and priority 4. `x` passes two routers before it meets them
/// at the switch: below them it takes 331.52 us, above them 249.6 us. So its DSCP must be read as 5 or more there.
#[test]
fn a_priority_is_raised_to_what_routers_make_of_it() {
    let text = |table: &str, more: &str| {
        let mut text = format!(
            "[network]\nname = \"t\"\n[defaults]\ntick-error = \"0 us\"\nlink-rate = \"100 Mbit/s\"\n\
             [[router]]\nname = \"r1\"\nbuffer = \"1 MB\"\n{table}\n[[router]]\nname = \"r2\"\nbuffer = \"1 MB\"\n\
             [[switch]]\nname = \"s\"\nqueues = 8\nbuffer = \"1 MB\"\n[[host]]\nname = \"L\"\n"
        );
        for ends in [["r1", "r2"], ["r2", "s"], ["s", "L"]] {
            text += &format!("[[link]]\nends = {ends:?}\n");
        }
        for (name, at, bytes, more) in [
            ("x", "r1", 500, more),
            ("y", "s", 1000, "priority = 4"),
            ("z", "s", 1000, "priority = 4"),
        ] {
            text += &format!(
                "[[host]]\nname = \"{name}-host\"\nqueues = 1\n[[link]]\nends = [\"{name}-host\", \"{at}\"]\n\
                 [[stream]]\nname = \"{name}\"\ntalker = \"{name}-host\"\nlisteners = [\"L\"]\n\
                 frame = \"{bytes} B\"\ninterval = \"1 ms\"\n{more}\n"
            );
        }
        text
    };
    let x = "transport = \"udp\"\npriority = 3\ndeadline = \"300 us\"";
    for (table, priority) in [("", "5"), ("remark = { 40 = 0, 48 = 8 }", "7")] {
        let (found, _) = synthesized(&text(table, x), MayChange::ALL, Objective::Changes);
        assert_eq!(found.report.certainty, Certainty::Least);
        let changes: Vec<_> = found.report.changes.iter().map(|it| &it.key).collect();
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(found.report.changes[0].stream, "x");
        assert_eq!(found.report.changes[0].new, priority, "{table}");
    }
    // A stated DSCP stays, so the priority of x has no part in it: y and z go below.
    let stated = format!("{x}\ndscp = 10");
    let (found, _) = synthesized(&text("", &stated), MayChange::ALL, Objective::Changes);
    assert!(found.report.certainty.fits(), "{:?}", found.report);
    let mut changed: Vec<&str> = found
        .report
        .changes
        .iter()
        .map(|it| &it.stream[..])
        .collect();
    changed.sort_unstable();
    assert_eq!(changed, ["y", "z"]);
}

#[test]
fn a_shaping_interval_no_shorter_than_must_be() {
    // Each of y and z comes in bursts of 5 kB and a frame.
    let x = "frame = \"500 B\"\ninterval = \"1 ms\"\ndeadline = \"400 us\"";
    let text = three(x, BULK);
    let only = MayChange {
        shaping_intervals: true,
        ..MayChange::NOTHING
    };
    let (found, _) = synthesized(&text, only, Objective::Changes);
    let report = &found.report;
    assert_eq!(report.certainty, Certainty::Least, "{report:?}");
    assert!(!report.changes.is_empty());
    let ladder = [
        "\"1 ms\"",
        "\"500 us\"",
        "\"200 us\"",
        "\"100 us\"",
        "\"50 us\"",
    ];
    for (at, change) in report.changes.iter().enumerate() {
        assert_eq!(change.key, "shaping-interval");
        let rung = ladder.iter().position(|one| *one == change.new).unwrap();
        let mut longer: Vec<_> = report.changes.iter().map(|one| one.setting()).collect();
        longer[at].value = ladder[rung - 1].to_owned();
        refusal(&edit::set(&text, &longer).unwrap());
    }
}

/// The printed answer of a plan is a plan, also with a synthesis in it.
#[test]
fn an_answer_with_a_synthesis_is_a_plan() {
    let x = "frame = \"500 B\"\ninterval = \"1 ms\"\ndeadline = \"170 us\"";
    let (found, _) = synthesized(&three(x, BULK), MayChange::ALL, Objective::Changes);
    let planned = plan(&found.network, &Options::default()).unwrap();
    let answer = rtwire_plan::answer::Answer {
        synthesis: Some(found.report),
        ..planned.clone().into()
    };
    let text = rtwire_plan::plan_file::json_text(&answer);
    assert!(text.contains("\"synthesis\""));
    let read = rtwire_plan::plan_file::read(text.as_bytes(), "answer.json").unwrap();
    assert_eq!(read, planned);
}

/// Three switches in a ring. Both streams go the short way, on which there is no room for both.
fn ring(deadline: &str) -> String {
    let mut text =
        "[network]\nname = \"t\"\n[defaults]\ntick-error = \"0 us\"\nlink-rate = \"100 Mbit/s\"\n"
            .to_owned();
    for switch in ["s1", "s2", "s3"] {
        text += &format!("[[switch]]\nname = \"{switch}\"\nqueues = 1\nbuffer = \"1 MB\"\n");
    }
    for (host, switch) in [("A", "s1"), ("B", "s1"), ("L", "s2"), ("M", "s2")] {
        text +=
            &format!("[[host]]\nname = \"{host}\"\n[[link]]\nends = [\"{host}\", \"{switch}\"]\n");
    }
    for (a, b) in [("s1", "s2"), ("s2", "s3"), ("s3", "s1")] {
        text += &format!("[[link]]\nends = [\"{a}\", \"{b}\"]\n");
    }
    for (name, talker, listener) in [("x", "A", "L"), ("y", "B", "M")] {
        text += &format!(
            "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [\"{listener}\"]\n\
             frame = \"1000 B\"\nrate = \"60 Mbit/s\"\nshaping-interval = \"100 us\"\ndeadline = \"{deadline}\"\n"
        );
    }
    text
}

#[test]
fn one_of_two_streams_goes_around() {
    let text = ring("10 ms");
    refusal(&text);
    for objective in [Objective::Changes, Objective::Simple] {
        let (found, changed) = synthesized(&text, MayChange::ALL, objective);
        assert_eq!(found.report.certainty, Certainty::Least, "{changed}");
        let [change] = found.report.changes.as_slice() else {
            panic!("{:?}", found.report);
        };
        assert_eq!(change.key, "route");
        assert!(change.new.contains("\"s1\", \"s3\", \"s2\""), "{change:?}");
    }
    // Three links of 80 us, then a fourth: around is later than the deadline even alone.
    let (found, _) = synthesized(&ring("300 us"), MayChange::ALL, Objective::Changes);
    assert_eq!(found.report.certainty, Certainty::NoneFits);
}

#[test]
fn what_fits_is_not_changed() {
    for name in [
        "five-nodes",
        "line",
        "ring",
        "scheduled-cell",
        "preemption",
        "reservations",
    ] {
        let path = format!("{}/../../examples/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        if plan(&network(&text), &Options::default()).is_err() {
            continue;
        }
        for objective in [Objective::Changes, Objective::Simple] {
            let (found, _) = synthesized(&text, MayChange::ALL, objective);
            assert_eq!(found.report.certainty, Certainty::AsStated, "{name}");
            assert!(found.report.changes.is_empty());
            assert_eq!(found.report.planned, 1);
        }
    }
}

#[test]
fn the_impossible_is_told_at_once() {
    // 500 B take 40 us on each link.
    let text = three(
        "frame = \"500 B\"\ninterval = \"1 ms\"\ndeadline = \"79 us\"",
        BULK,
    );
    let (found, _) = synthesized(&text, MayChange::ALL, Objective::Changes);
    assert_eq!(found.report.certainty, Certainty::NoneFits);
    assert_eq!(found.report.planned, 1);
    // And with nothing to change.
    let (found, _) = synthesized(
        &text.replace("79 us", "100 us"),
        MayChange::NOTHING,
        Objective::Changes,
    );
    assert_eq!(found.report.certainty, Certainty::NoneFits);
    // A sender without a shaper, which no value here mends.
    let off = three(
        "frame = \"500 B\"\ninterval = \"1 ms\"",
        &format!("{BULK}\nshaper = \"off\""),
    );
    let (found, _) = synthesized(&off, MayChange::ALL, Objective::Changes);
    assert_eq!(found.report.certainty, Certainty::NoneFits);
    assert!(found.report.changes.is_empty());
}

/// The scheduled cell without its schedule: set-points are late behind images until they are time-triggered.
#[test]
fn gates_are_taken_where_nothing_else_helps() {
    let path = format!(
        "{}/../../examples/scheduled-cell.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    let text = text
        .replace("schedule = \"time-triggered\"\n", "")
        .replace("jitter = \"3 us\"\n", "");
    let text = text.replace("deadline = \"20 us\"", "deadline = \"19 us\"");
    refusal(&text);
    for objective in [Objective::Changes, Objective::Simple] {
        let (found, changed) = synthesized(&text, MayChange::ALL, objective);
        assert!(found.report.certainty.fits(), "{:?}", found.report);
        assert!(
            changed.contains("schedule = \"time-triggered\""),
            "{changed}"
        );
    }
    // Never a change of what must stay.
    let kept = MayChange {
        gates: false,
        ..MayChange::ALL
    };
    let (found, _) = synthesized(&text, kept, Objective::Changes);
    let mut changes = found.report.changes.iter();
    assert!(
        changes.all(|one| one.key != "schedule"),
        "{:?}",
        found.report
    );
}

#[test]
fn the_same_file_leads_to_the_same_result() {
    let path = format!(
        "{}/../../examples/five-nodes.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace(
        "shaping-interval = \"1 ms\"",
        "shaping-interval = \"100 ms\"",
    );
    refusal(&text);
    let one = synthesized(&text, MayChange::ALL, Objective::Changes);
    let other = synthesized(&text, MayChange::ALL, Objective::Changes);
    assert_eq!(one, other);
    assert!(one.0.report.certainty.fits(), "{:?}", one.0.report);
}

/// A stated tick error stays with a stream that becomes time-triggered, also if it is the usual one.
#[test]
fn a_stated_tick_error_stays() {
    let text = "[network]\nname = \"t\"\n[defaults]\ntick-error = \"50 us\"\nlink-rate = \"100 Mbit/s\"\n\
        [[switch]]\nname = \"s\"\nqueues = 8\nbuffer = \"1 MB\"\ngates = \"unlimited\"\n\
        [[host]]\nname = \"A\"\ngates = \"unlimited\"\n[[host]]\nname = \"B\"\n[[host]]\nname = \"L\"\n\
        [[link]]\nends = [\"A\", \"s\"]\n[[link]]\nends = [\"B\", \"s\"]\n[[link]]\nends = [\"L\", \"s\"]\n\
        [[stream]]\nname = \"x\"\ntalker = \"A\"\nlisteners = [\"L\"]\nframe = \"100 B\"\ninterval = \"2 ms\"\n\
        deadline = \"120 us\"\npriority = 7\n\
        [[stream]]\nname = \"y\"\ntalker = \"B\"\nlisteners = [\"L\"]\nframe = \"1514 B\"\nrate = \"5 Mbit/s\"\n";
    let only = MayChange {
        gates: true,
        ..MayChange::NOTHING
    };
    let (found, _) = synthesized(text, only, Objective::Changes);
    assert_eq!(
        found.report.certainty,
        Certainty::Least,
        "{:?}",
        found.report
    );
    let stated = text.replace("priority = 7\n", "priority = 7\ntick-error = \"50 us\"\n");
    synthesized(&stated, only, Objective::Changes);
}
