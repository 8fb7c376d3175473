//! The committed JSON Schemas match the code, and the written JSON matches the schemas.
//!
//! After a change of the data: `RTWIRE_BLESS=1 cargo test -p rtwire-measure --test schema`.
// A test may end with a panic; that is how it fails.
#![allow(clippy::expect_used)]

mod synthetic;

use std::path::Path;

use rtwire_measure::bench::{self, BenchTable, Compared, Earlier, Row};
use rtwire_measure::noise::NoiseRecord;
use rtwire_measure::report::{self, Machine, Report};
use serde_json::Value;
use synthetic::Story;

fn compare(name: &str, schema: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../schema")
        .join(name);
    let now = serde_json::to_string_pretty(schema).expect("a schema is JSON") + "\n";
    if std::env::var_os("RTWIRE_BLESS").is_some() {
        std::fs::write(&path, &now).expect("the folder `schema` is ours");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == now,
        "schema/{name} is not that of the code: RTWIRE_BLESS=1 cargo test -p rtwire-measure --test schema"
    );
}

#[test]
fn committed_schemas_are_those_of_the_code() {
    compare("report.schema.json", &report::json_schema());
    compare("bench.schema.json", &bench::json_schema());
}

/// The part of JSON Schema that our schemas use. Unknown properties are errors here, although the schema allows them.
fn check(schema: &Value, root: &Value, value: &Value, at: &str) -> Result<(), String> {
    let list = |name: &str| {
        schema
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root
            .pointer(reference.trim_start_matches('#'))
            .ok_or(format!("{at}: no {reference}"))?;
        return check(target, root, value, at);
    }
    let options: Vec<&Value> = list("anyOf").chain(list("oneOf")).collect();
    if !options.is_empty() {
        let fits = options
            .iter()
            .any(|option| check(option, root, value, at).is_ok());
        return if fits {
            Ok(())
        } else {
            Err(format!("{at}: {value} fits none of the choices"))
        };
    }
    if schema
        .get("const")
        .is_some_and(|constant| constant != value)
    {
        return Err(format!("{at}: {value} is not {}", schema["const"]));
    }
    if list("enum").count() > 0 && !list("enum").any(|option| option == value) {
        return Err(format!("{at}: {value} is none of {}", schema["enum"]));
    }
    let is = |kind: &Value| match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        other => panic!("{at}: the schema uses {other:?}"),
    };
    let right = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(kind) => is(kind),
        None => true,
    };
    if !right {
        return Err(format!("{at}: {value} is not {}", schema["type"]));
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (i, v) in values.iter().enumerate() {
            check(items, root, v, &format!("{at}[{i}]"))?;
        }
    }
    if let Some(object) = value.as_object() {
        if let Some(missing) = list("required")
            .filter_map(Value::as_str)
            .find(|name| !object.contains_key(*name))
        {
            return Err(format!("{at}: {missing} is missing"));
        }
        for (name, v) in object {
            let known = schema
                .get("properties")
                .and_then(|p| p.get(name))
                .ok_or(format!("{at}: {name} is unknown"))?;
            check(known, root, v, &format!("{at}.{name}"))?;
        }
    }
    Ok(())
}

#[test]
fn reports_obey_the_schema() {
    let schema = report::json_schema();
    for story in [Story::Kept, Story::Broken, Story::Inconclusive] {
        let report = synthetic::report(story, 2);
        let json = report.to_json().expect("a report is JSON");
        let value: Value = serde_json::from_str(&json).expect("JSON");
        check(&schema, &schema, &value, "report").expect("the schema is that of the data");
        let back: Report = serde_json::from_str(&json).expect("it reads back");
        assert!(
            back.noise == report.noise && back.ports == report.ports && back.rule == report.rule
        );
        let delays = |r: &Report| {
            r.streams
                .iter()
                .map(|s| (s.network_delay_ns, s.over_time.clone()))
                .collect::<Vec<_>>()
        };
        assert!(delays(&back) == delays(&report));
    }
    let mut wrong = serde_json::to_value(synthetic::report(Story::Kept, 2)).expect("JSON");
    wrong["streams"][1]["frames_lost"] = Value::from("none");
    let fault = check(&schema, &schema, &wrong, "report").expect_err("the check can fail");
    assert_eq!(
        fault,
        "report.streams[1].frames_lost: \"none\" is not \"integer\""
    );
}

/// The names that users of the JSON rely on.
#[test]
fn reports_have_the_promised_fields() {
    let value = serde_json::to_value(synthetic::report(Story::Inconclusive, 2)).expect("JSON");
    assert_eq!(value["verdict"], "inconclusive");
    for field in [
        "streams",
        "ports",
        "hosts",
        "noise",
        "machine",
        "command",
        "reasons",
        "plan_hash",
        "started_at",
        "duration_s",
    ] {
        assert!(!value[field].is_null(), "{field}");
    }
    let stream = &value["streams"][0];
    for field in [
        "name",
        "promised_delay_ns",
        "frames_sent",
        "frames_lost",
        "frames_duplicated",
        "frames_reordered",
        "frames_explained",
        "verdict",
    ] {
        assert!(!stream[field].is_null(), "{field}");
    }
    for delay in ["network_delay_ns", "app_delay_ns"] {
        for field in ["min", "p50", "p99", "p999", "max"] {
            assert!(stream[delay][field].is_u64(), "{delay}.{field}");
        }
    }
    let port = &value["ports"][0];
    for field in [
        "switch",
        "port",
        "promised_backlog_bytes",
        "max_backlog_bytes",
        "buffer_bytes",
        "frames_dropped",
        "utilization_percent",
    ] {
        assert!(!port[field].is_null(), "{field}");
    }
}

fn bench_table() -> BenchTable {
    BenchTable {
        machine: Machine::this("0.1.0"),
        commit: "0123abc".to_owned(),
        command: "make bench-main".to_owned(),
        noise: None,
        rows: vec![
            Row {
                figure: "round trip, RTDiP queue, spinning, 64 B, p50".to_owned(),
                value: 1.72,
                unit: "µs".to_owned(),
                reach: Some("below UDP and TCP".to_owned()),
                held: Some(true),
                why: None,
                samples: 20_000,
                against: vec![
                    Compared {
                        name: "UDP".to_owned(),
                        value: 3.7,
                    },
                    Compared {
                        name: "TCP".to_owned(),
                        value: 5.79,
                    },
                ],
            },
            Row {
                figure: "round trip, RTDiP queue, blocking, 64 B, p99.9".to_owned(),
                value: 166.0,
                unit: "µs".to_owned(),
                reach: None,
                held: None,
                why: Some("the machine stalled in 3 % of the rounds".to_owned()),
                samples: 20_000,
                against: vec![],
            },
        ],
        earlier: vec![],
    }
}

#[test]
fn what_several_programs_measured_keeps_the_command_and_noise_of_each() {
    let target = tempfile::tempdir().expect("a temporary folder");
    let noise = NoiseRecord::default();
    let program = |command: &str, figure: &str| {
        let mut table = bench_table();
        table.command = command.to_owned();
        table.noise = Some(noise.clone());
        table.rows.truncate(1);
        table.rows[0].figure = figure.to_owned();
        table
    };
    let first = program("first", "a");
    first.write(target.path(), "both").expect("it is written");
    let mut path = None;
    // The same program twice: the second run replaces the rows of the first.
    for _ in 0..2 {
        let second = program("second", "b").add_to(target.path(), "both");
        path = Some(second.expect("it is added"));
    }
    let text = std::fs::read_to_string(path.expect("it was written")).expect("it is there");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let schema = bench::json_schema();
    check(&schema, &schema, &value, "bench").expect("the schema is that of the data");
    let table: BenchTable = serde_json::from_str(&text).expect("a table");
    let figures: Vec<&str> = table.rows.iter().map(|row| row.figure.as_str()).collect();
    assert_eq!(
        (table.command.as_str(), figures),
        ("second", vec!["a", "b"])
    );
    let first = Earlier {
        commit: "0123abc".to_owned(),
        command: "first".to_owned(),
        noise: Some(noise),
    };
    assert_eq!(table.earlier, [first]);
}

#[test]
fn bench_tables_obey_the_schema_and_are_written_where_they_belong() {
    let table = bench_table();
    let target = tempfile::tempdir().expect("a temporary folder");
    let path = table
        .write(target.path(), "main")
        .expect("it can be written");
    assert_eq!(path, target.path().join("bench/main.json"));
    let value: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("it is there")).expect("JSON");
    let schema = bench::json_schema();
    check(&schema, &schema, &value, "bench").expect("the schema is that of the data");
    for field in ["machine", "commit", "command", "noise", "rows"] {
        assert!(value.get(field).is_some(), "{field}");
    }
    for field in [
        "figure", "value", "unit", "reach", "held", "samples", "against", "why",
    ] {
        assert!(
            value["rows"][1].get(field).is_some(),
            "{field} is written even where it is null"
        );
    }
    let text = table.print_text();
    assert!(
        text.lines()
            .nth(1)
            .is_some_and(|l| l.ends_with("UDP 3.700, TCP 5.790")),
        "{text}"
    );
    assert!(text.contains("the machine stalled in 3 %"), "{text}");
    let error = table
        .write(Path::new("/proc/nowhere"), "main")
        .expect_err("nobody can write there")
        .to_string();
    assert!(
        error.starts_with("cannot write /proc/nowhere/bench: "),
        "{error}"
    );
}

#[test]
fn tables_fit_a_terminal() {
    for story in [Story::Kept, Story::Broken, Story::Inconclusive] {
        let mut report = synthetic::report(story, 2);
        report.streams[1].name =
            "a stream with quite a long name, as people give them when they are let".to_owned();
        let text = report.print_text();
        for line in text.lines() {
            assert!(
                line.chars().count() <= 100,
                "{} columns: {line}",
                line.chars().count()
            );
        }
        for word in [
            report.verdict.as_str().to_uppercase().as_str(),
            "D-to-B",
            "1.411 ms",
            "core 1",
            "s1 to B",
        ] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
        if story == Story::Kept {
            println!("{text}");
        }
    }
}
