//! Each suggestion is typed into the description as a person would, and the file is read and planned again.

use rtwire_plan::{ChangeKind, Options, Refusal, Suggestion, plan, read};

fn planned(text: &str) -> Result<rtwire_plan::Plan, Refusal> {
    let network = read(text, "t.toml", &[]).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
    plan(&network, &Options::default())
}

/// Returns the suggestion of a kind for a network that is refused.
fn suggested(text: &str, kind: ChangeKind) -> (Suggestion, Refusal) {
    let refusal = planned(text).unwrap_err();
    let found = refusal.suggestions.iter().find(|one| one.kind == kind);
    let found = found.unwrap_or_else(|| panic!("{refusal}")).clone();
    (found, refusal)
}

/// Writes `KEY = VALUE` of each part into the tables that begin with one of `heads`, in the order of the parts.
fn typed(text: &str, suggestion: &Suggestion, heads: &[&str]) -> String {
    assert_eq!(suggestion.parts.len(), heads.len(), "{suggestion}");
    let mut text = text.to_owned();
    for (part, head) in suggestion.parts.iter().zip(heads) {
        let (setting, _) = part
            .split_once(" for ")
            .or_else(|| part.split_once(" at "))
            .unwrap();
        let key = setting.split(" = ").next().unwrap();
        let from = text
            .find(head)
            .unwrap_or_else(|| panic!("{head} in {text}"));
        let length = text[from + 1..]
            .find("[[")
            .map_or(text.len() - from, |at| at + 1);
        let lines = text[from..from + length].lines();
        let kept = lines.filter(|line| !line.starts_with(&format!("{key} = ")));
        let table = kept.collect::<Vec<_>>().join("\n");
        text.replace_range(from..from + length, &format!("{table}\n{setting}\n"));
    }
    text
}

/// Two hosts that send, one that listens. `x` is the stream with a deadline.
fn three(more: &str, stream: &str, rates: [&str; 3]) -> String {
    let mut text = "[network]\nname = \"t\"\n[defaults]\ntick-error = \"0 us\"\n\
        [[switch]]\nname = \"s\"\nqueues = 8\nbuffer = \"1 MB\"\n"
        .to_owned();
    for (host, rate) in ["A", "B", "L"].into_iter().zip(rates) {
        text += &format!(
            "[[host]]\nname = \"{host}\"\n[[link]]\nends = [\"{host}\", \"s\"]\nrate = \"{rate}\"\n"
        );
    }
    text + &format!(
        "[[stream]]\nname = \"x\"\ntalker = \"A\"\nlisteners = [\"L\"]\nframe = \"500 B\"\ninterval = \"1 ms\"\n{stream}\n{more}"
    )
}

const FAST: [&str; 3] = ["100 Mbit/s"; 3];

#[test]
fn a_larger_idle_slope() {
    // 524 bytes each ms are 4.192 Mbit/s.
    let credit = "[[shaper]]\nnode = \"s\"\nto = \"L\"\npriority = 7\nkind = \"credit\"\nidle-slope = \"2 Mbit/s\"\n";
    let text = three(credit, "priority = 7", FAST);
    let (found, refusal) = suggested(&text, ChangeKind::IdleSlope);
    assert!(
        found.parts[0].starts_with("idle-slope = \"4193 kbit/s\" for priority 7 of \"s\""),
        "{refusal}"
    );
    planned(&typed(&text, &found, &["[[shaper]]"])).unwrap();
    // With a deadline that needs more, behind a frame of B: the slope is more than the rates, and less than the link.
    // 41.92 us at each link; the frame of B is served within 66.16 us at 63.37 Mbit/s.
    let other = "[[stream]]\nname = \"y\"\ntalker = \"B\"\nlisteners = [\"L\"]\nframe = \"500 B\"\ninterval = \"1 ms\"\npriority = 7\n";
    let more = format!("{credit}{other}");
    let text = three(&more, "priority = 7\ndeadline = \"150 us\"", FAST);
    let (found, _) = suggested(&text, ChangeKind::IdleSlope);
    assert!(!found.parts[0].contains("8385 kbit/s"), "{found}");
    planned(&typed(&text, &found, &["[[shaper]]"])).unwrap();
}

#[test]
fn a_shorter_frame_of_best_effort() {
    let other = "[[best-effort]]\nname = \"o\"\nhost = \"B\"\nto = [\"L\"]\nrate = \"1 Mbit/s\"\n";
    // Own frame at two links, 83.84 us; 1514 bytes of best effort, 123.04 us; 100 us are left for it: 1226 B.
    let text = three(other, "priority = 7\ndeadline = \"183840 ns\"", FAST);
    let (found, refusal) = suggested(&text, ChangeKind::BestEffortFrame);
    assert_eq!(
        found.parts,
        ["frame = \"1226 B\" for best-effort \"o\""],
        "{refusal}"
    );
    planned(&typed(&text, &found, &["[[best-effort]]"])).unwrap();
    planned(&typed(&text, &found, &["[[best-effort]]"]).replace("1226 B", "1227 B")).unwrap_err();
}

#[test]
fn a_faster_link_for_a_late_stream() {
    let text = three("", "deadline = \"60 us\"", FAST);
    let (found, refusal) = suggested(&text, ChangeKind::LinkRate);
    assert_eq!(found.parts.len(), 1, "{refusal}");
    assert!(found.parts[0].contains("\"L\" and \"s\""), "{found}");
    planned(&typed(&text, &found, &["[[link]]\nends = [\"L\""])).unwrap();
}

/// One change of two parts: each on its own line, and neither is enough.
#[test]
fn two_overloaded_links_are_two_lines() {
    let other = "[[stream]]\nname = \"y\"\ntalker = \"B\"\nlisteners = [\"L\"]\nframe = \"1000 B\"\nrate = \"15 Mbit/s\"\n";
    let text = three(other, "", ["100 Mbit/s", "10 Mbit/s", "10 Mbit/s"]);
    let (found, refusal) = suggested(&text, ChangeKind::LinkRate);
    assert!(
        refusal.to_string().contains("\n    and rate = "),
        "{refusal}"
    );
    let heads = ["[[link]]\nends = [\"B\"", "[[link]]\nends = [\"L\""];
    planned(&typed(&text, &found, &heads)).unwrap();
    for part in 0..2 {
        let one = Suggestion {
            parts: vec![found.parts[part].clone()],
            ..found.clone()
        };
        planned(&typed(&text, &one, &heads[part..=part])).unwrap_err();
    }
}

#[test]
fn a_buffer_in_bytes_and_frames() {
    let other = "[[stream]]\nname = \"y\"\ntalker = \"B\"\nlisteners = [\"L\"]\nframe = \"1000 B\"\nrate = \"10 Mbit/s\"\n";
    let text = three(other, "", FAST).replace("buffer = \"1 MB\"", "buffer = \"2 x 1514 B\"");
    let (found, refusal) = suggested(&text, ChangeKind::Limits);
    assert!(
        found.parts[0].contains(" x 1514 B\" at switch \"s\" ("),
        "{refusal}"
    );
    planned(&typed(&text, &found, &["[[switch]]"])).unwrap();
}

#[test]
fn higher_priorities_for_two_late_streams() {
    let mut more = String::new();
    for (name, host, at) in [("y", "B", 0), ("z", "A", 2), ("w", "B", 2)] {
        let deadline = if at == 0 {
            "deadline = \"600 us\"\n"
        } else {
            ""
        };
        let bytes = if at == 0 { 500 } else { 1500 };
        more += &format!(
            "[[stream]]\nname = \"{name}\"\ntalker = \"{host}\"\nlisteners = [\"L\"]\nframe = \"{bytes} B\"\npriority = {at}\nrate = \"5 Mbit/s\"\n{deadline}"
        );
    }
    let text = three(&more, "deadline = \"600 us\"", FAST);
    let (found, _) = suggested(&text, ChangeKind::Priority);
    let heads = ["[[stream]]\nname = \"x\"", "[[stream]]\nname = \"y\""];
    planned(&typed(&text, &found, &heads[..found.parts.len()])).unwrap();
}

/// Three switches in a row, with regulators at the last port only: no port is overloaded, and yet nothing bounds the wait there.
#[test]
fn regulators_at_the_ports_before() {
    let mut text = "[network]\nname = \"t\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n".to_owned();
    for at in 1..=3 {
        text += &format!("[[switch]]\nname = \"s{at}\"\nqueues = 2\nbuffer = \"1 MB\"\n");
    }
    for (host, at) in [("A", 1), ("B", 1), ("L", 3)] {
        text += &format!("[[host]]\nname = \"{host}\"\n[[link]]\nends = [\"{host}\", \"s{at}\"]\n");
    }
    text += "[[link]]\nends = [\"s1\", \"s2\"]\n[[link]]\nends = [\"s2\", \"s3\"]\n";
    for (name, host) in [("x", "A"), ("y", "B")] {
        text += &format!(
            "[[stream]]\nname = \"{name}\"\ntalker = \"{host}\"\nlisteners = [\"L\"]\nframe = \"500 B\"\ninterval = \"1 ms\"\npriority = 5\n"
        );
    }
    text += "[[shaper]]\nnode = \"s3\"\nto = \"L\"\npriority = 5\nkind = \"asynchronous\"\n";
    let (found, refusal) = suggested(&text, ChangeKind::Regulators);
    assert_eq!(found.parts.len(), 2, "{refusal}");
    for part in &found.parts {
        let (head, keys) = part.split_once(' ').unwrap();
        text += &format!("{head}\n{}\n", keys.replace(", ", "\n"));
    }
    planned(&text).unwrap();
    // The one at the first switch alone is not enough.
    let without = text.replace(
        "[[shaper]]\nnode = \"s2\"\nto = \"s3\"\npriority = 5\nkind = \"asynchronous\"\n",
        "",
    );
    assert_ne!(without, text);
    planned(&without).unwrap_err();
}
