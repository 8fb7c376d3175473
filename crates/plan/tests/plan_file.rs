//! Plan files are complete, have the same bytes every time, and every change in one is found.

use std::path::Path;

use proptest::prelude::*;
use rtwire_plan::plan_file::{self, PlanFileError};
use rtwire_plan::schedule::Scheduling;
use rtwire_plan::{Options, Plan, plan, plan_with, read, verify};
use serde_json::{Value, json};

fn examples() -> Vec<(String, Plan)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            found.push((name.clone(), example(&name)));
        }
    }
    assert!(found.len() >= 6, "the examples are missing");
    found
}

fn text_of(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn example(name: &str) -> Plan {
    let network = read(&text_of(name), name, &[]).unwrap_or_else(|faults| panic!("{faults}"));
    // Some of them are there to be refused.
    let options = Options {
        ignore_limits: name.contains("unshaped"),
        ..Options::default()
    };
    plan(&network, &options).unwrap_or_else(|refusal| panic!("{name}: {refusal}"))
}

#[test]
fn every_example_survives_its_file_and_holds() {
    for (name, plan) in examples() {
        let text = plan_file::text(&plan);
        assert_eq!(text, plan_file::text(&plan));
        let again = plan_file::read(text.as_bytes(), &name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(plan, again);
        let findings = verify(&again);
        assert!(findings.is_empty(), "{name}: {}", findings[0]);
        // What stands in the network is enough to plan again.
        if !plan.options.ignore_limits {
            let fresh = rtwire_plan::plan(&again.network, &Options::default()).unwrap();
            assert_eq!(fresh.plan_id, plan.plan_id, "{name}");
        }
    }
}

#[test]
fn the_answer_of_the_command_is_read_as_well() {
    let plan = example("five-nodes.toml");
    let outcome = Ok(plan.clone());
    let answer = plan_file::json_text(&rtwire_plan::answer::Answer::from(&outcome));
    assert_eq!(
        plan_file::read(answer.as_bytes(), "answer.json").unwrap(),
        plan
    );
}

#[test]
fn kept_and_long_searched_launches_hold() {
    let text = text_of("scheduled-cell.toml");
    let network = read(&text, "cell.toml", &[]).unwrap();
    let old = plan(&network, &Options::default()).unwrap();
    // Launches that the planner would not choose: those of a network with the streams in another order.
    let mut turned = network.clone();
    turned.streams.reverse();
    let other = plan(&turned, &Options::default()).unwrap();
    for before in [&old, &other] {
        let mut go_on = || true;
        let mut scheduling = Scheduling::new(&mut go_on).keeping(before);
        scheduling.work = u32::MAX;
        let new = plan_with(&network, &Options::default(), &mut scheduling).unwrap();
        assert_eq!(new.epoch, 2);
        let findings = verify(&new);
        assert!(findings.is_empty(), "{}", findings[0]);
    }
}

/// Collects the pointers of all leaves, of all elements of lists, and of all fields.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                places(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                let at = format!("{at}/{index}");
                found.push(at.clone());
                places(value, &at, found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

/// Returns the document with the value at a place changed, or an element removed.
fn changed(document: &Value, place: &str) -> Value {
    let mut document = document.clone();
    let value = document.pointer_mut(place).unwrap();
    match value {
        Value::Number(number) => *value = json!(number.as_u64().unwrap() + 1),
        Value::Bool(flag) => *value = json!(!*flag),
        Value::Null => *value = json!(1),
        Value::String(text) => {
            let last = text.pop().unwrap_or('a');
            text.push(if last == '1' { '2' } else { '1' });
        }
        Value::Array(_) | Value::Object(_) => {
            let (list, index) = place.rsplit_once('/').unwrap();
            let items = document.pointer_mut(list).unwrap().as_array_mut().unwrap();
            items.remove(index.parse().unwrap());
        }
    }
    document
}

/// True for words and records from which nothing follows. Only the checksum covers them.
fn is_record(place: &str) -> bool {
    [
        "/checksum",
        "/input_hash",
        "/options/",
        "/network/input_hash",
        "/network/description",
    ]
    .iter()
    .any(|record| place.starts_with(record))
        || place.ends_with("/published_delay_ns")
}

fn whatever_is_changed_is_found(plan: &Plan, every: usize) {
    let document: Value = serde_json::from_str(&plan_file::text(plan)).unwrap();
    let mut all = Vec::new();
    places(&document, "", &mut all);
    assert!(all.len() > 500);
    for place in all.iter().step_by(every) {
        let bad = changed(&document, place);
        let bytes = bad.to_string();
        assert!(
            plan_file::read(bytes.as_bytes(), "bad.json").is_err(),
            "{place} is read"
        );
        // With the checksum out of the way it is still found.
        let Ok(read) = plan_file::read_changed(bytes.as_bytes(), "bad.json") else {
            continue;
        };
        let findings = verify(&read);
        let beyond = findings.iter().any(|finding| !finding.is_checksum());
        assert!(beyond || is_record(place), "{place}: {findings:?}");
        assert!(!findings.is_empty(), "{place}");
    }
}

#[test]
fn whatever_is_changed_in_a_plan_is_found() {
    whatever_is_changed_is_found(&example("five-nodes.toml"), 1);
}

#[test]
fn whatever_is_changed_in_a_schedule_is_found() {
    whatever_is_changed_is_found(&example("scheduled-cell.toml"), 3);
}

#[test]
fn a_finding_names_the_promise() {
    let mut plan = example("five-nodes.toml");
    let promise = &mut plan.streams[0].promises[0];
    let right = promise.delay_ns.unwrap();
    promise.delay_ns = Some(right - 1_000);
    let shown: Vec<String> = verify(&plan).iter().map(ToString::to_string).collect();
    let name = &plan.streams[0].name;
    assert_eq!(
        shown[0],
        format!(
            "stream \"{name}\", promises[0].delay_ns: the plan says {}, but {right} follows",
            right - 1_000
        )
    );
    assert!(shown[1].starts_with("checksum: "), "{shown:?}");
    assert_eq!(shown.len(), 2);
}

#[test]
fn each_fault_has_one_message_that_says_what_to_do() {
    let plan = example("line.toml");
    let text = plan_file::text(&plan);
    let fault = |bytes: &str| {
        plan_file::read(bytes.as_bytes(), "p.json")
            .unwrap_err()
            .to_string()
    };
    let again = "plan again with `rtwire plan NETWORK.toml --output plan.json`";
    for (bytes, begins, ends) in [
        (text[..text.len() / 2].to_owned(), "p.json:", again),
        (
            text.replacen("\"version\": 3", "\"version\": 1", 1),
            "p.json: this is a plan of version 1; this rtwire reads version 3",
            again,
        ),
        (
            // Its promises rest on another meaning of `latency`.
            text.replacen("\"version\": 3", "\"version\": 2", 1),
            "p.json: this is a plan of version 2; this rtwire reads version 3",
            again,
        ),
        (
            text.replacen("\"version\": 3", "\"version\": 4", 1),
            "p.json: this is a plan of version 4, made by a newer rtwire",
            "or plan again here",
        ),
        (
            text.replacen("\"epoch\": 1", "\"epoch\": 1, \"colour\": 5", 1),
            "p.json:3:",
            again,
        ),
        (
            text.replacen("\"shaped\": true", "\"shaped\": true, \"colour\": 5", 1),
            "p.json:",
            again,
        ),
        (
            text.replacen("\"epoch\": 1", "\"epoch\": 2", 1),
            "p.json: was changed after it was planned: `rtwire verify p.json` says what",
            "if all of it holds",
        ),
        (text.replacen("\"pcp\": ", "\"pcp\": 1", 1), "p.json", ""),
        (
            "{\"status\": \"reject\", \"reasons\": []}".to_owned(),
            "p.json: there is no plan to use in it: the answer of `rtwire plan --json` was `reject`",
            "plan again",
        ),
        (
            "{\"colour\": 5}".to_owned(),
            "p.json: this is JSON, but no plan",
            "`rtwire plan NETWORK.toml --output plan.json`",
        ),
        (
            "[network]".to_owned(),
            "p.json:1:1: not a plan",
            "`rtwire plan NETWORK.toml --output plan.json`",
        ),
        (String::new(), "p.json:1:0: the plan is cut off", again),
    ] {
        let message = fault(&bytes);
        assert!(
            message.starts_with(begins) && message.ends_with(ends),
            "{message}"
        );
    }
    let cut = plan_file::read(&text.as_bytes()[..text.len() / 2], "p.json");
    assert!(matches!(cut, Err(PlanFileError::CutOff { line, .. }) if line > 100));
    let unknown = fault(&text.replacen("\"epoch\": 1", "\"epoch\": 1, \"colour\": 5", 1));
    assert!(unknown.contains("unknown field `colour`"), "{unknown}");
}

#[test]
fn integers_that_others_round_are_text() {
    let mut plan = example("line.toml");
    let exact = plan_file::LARGEST_EXACT;
    let with = |plan: &mut Plan, ns: u64| {
        plan.streams[0].promises[0].delay_ns = Some(ns);
        plan_file::text(plan)
    };
    for (ns, shown) in [
        (exact, "\"delay_ns\": 9007199254740991,"),
        (exact + 1, "\"delay_ns\": \"9007199254740992\","),
        (u64::MAX, "\"delay_ns\": \"18446744073709551615\","),
    ] {
        let text = with(&mut plan, ns);
        assert!(text.contains(shown));
        let read = plan_file::read_changed(text.as_bytes(), "p.json").unwrap();
        assert_eq!(read, plan);
    }
    let small = with(&mut plan, 77_777).replace("77777", "\"77777\"");
    let fault = plan_file::read(small.as_bytes(), "p.json").unwrap_err();
    assert!(
        fault.to_string().contains("expected a whole number"),
        "{fault}"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        cut in 0_usize..20_000,
        at in 0_usize..20_000,
        with in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let text = plan_file::text(&example("line.toml"));
        let mut bytes = text.into_bytes();
        let at = at % bytes.len();
        bytes.splice(at..at, with);
        if cut % 3 == 0 {
            bytes.truncate(cut);
        }
        if let Ok(plan) = plan_file::read_changed(&bytes, "p.json") {
            let _ = verify(&plan);
        }
    }
}
