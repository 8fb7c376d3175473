//! The statements of a plan besides its certificate: memory that is shared, what ends enforce, limits, and a network of the
//! form that every rule relies on.

use std::path::Path;

use crate::common;

use common::{network, promises};
use rtwire_plan::network::{PortShaper, ShaperKind};
use rtwire_plan::{Network, Options, Plan, Ratio, certify, plan, plan_file};
use rtwire_proof::{Refused, Stage, Verdict, check};
use serde_json::{Value, json};

/// Two switches. `a` and `b` leave `s` by ports of their own, `c` meets `b` at the next switch.
const CELL: &str = "[network]\nname = \"n\"\n[defaults]\ntick-error = \"0 us\"\nlink-rate = \"100 Mbit/s\"\n\
    [[switch]]\nname = \"s\"\nlatency = \"1 us\"\nbuffer = \"1 MB\"\nqueues = 4\n\
    [[switch]]\nname = \"t\"\nlatency = \"1 us\"\nbuffer = \"1 MB\"\nqueues = 4\n\
    [[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[host]]\nname = \"C\"\n[[host]]\nname = \"D\"\n[[host]]\nname = \"E\"\n\
    [[link]]\nends = [\"A\", \"s\"]\n[[link]]\nends = [\"B\", \"s\"]\n[[link]]\nends = [\"C\", \"s\"]\n\
    [[link]]\nends = [\"s\", \"t\"]\n[[link]]\nends = [\"t\", \"D\"]\n[[link]]\nends = [\"t\", \"E\"]\n\
    [[stream]]\nname = \"a\"\ntalker = \"A\"\nlisteners = [\"C\"]\nframe = \"101 B\"\ninterval = \"1 ms\"\n\
    [[stream]]\nname = \"b\"\ntalker = \"B\"\nlisteners = [\"D\"]\nframe = \"101 B\"\ninterval = \"1 ms\"\n\
    [[stream]]\nname = \"c\"\ntalker = \"E\"\nlisteners = [\"D\"]\nframe = \"101 B\"\ninterval = \"1 ms\"\n";

fn json(plan: &Plan) -> Value {
    serde_json::from_str(&plan_file::text(plan)).unwrap()
}

/// The plan of a network, which keeps its limits, with a certificate.
fn certified(network: &Network) -> Value {
    json(&certify(&plan(network, &Options::default()).unwrap()).unwrap())
}

fn judge(value: &Value) -> Result<Verdict, Refused> {
    check(value.to_string().as_bytes())
}

/// Returns the reason why the promise of a stream is not covered; empty if it is proved.
fn why(verdict: &Verdict, stream: &str) -> String {
    let judged = verdict.promises.iter().find(|one| one.stream == stream);
    judged.unwrap().not_covered.clone().unwrap_or_default()
}

fn changed(change: impl Fn(&mut Value)) -> Result<Verdict, Refused> {
    let mut value = certified(&network(CELL));
    assert_eq!(judge(&value).unwrap().proved(), 3);
    change(&mut value);
    judge(&value)
}

#[track_caller]
fn refused(change: impl Fn(&mut Value), words: &str) {
    let said = changed(change).unwrap_err().to_string();
    assert!(said.contains(words), "{said}");
}

/// The plan of every example is accepted.
#[test]
fn examples_are_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut accepted = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let plan = certify(&promises(&network(&text))).unwrap();
        let verdict = check(plan_file::text(&plan).as_bytes());
        let verdict = verdict.unwrap_or_else(|refused| panic!("{}: {refused}", path.display()));
        assert!(!verdict.promises.is_empty(), "{}", path.display());
        accepted += 1;
    }
    assert!(accepted > 12, "{accepted}");
}

/// A port that is not covered may take all memory that it shares. A port behind is not concerned: lost frames hinder none.
#[test]
fn memory_shared_with_a_port_that_is_not_covered_is_not_proved() {
    let shaped = |shared: bool, to: &str| {
        let mut network = network(CELL);
        network.switches[0].buffer.shared = shared;
        let kind = ShaperKind::Credit { idle_slope: Ratio::whole(50_000_000) };
        let to = Some(to.to_owned());
        network.shapers.push(PortShaper { node: "s".to_owned(), to, pcp: 0, kind });
        judge(&certified(&network)).unwrap()
    };
    let verdict = shaped(true, "C");
    assert_eq!(why(&verdict, "a"), "credit-based shaper at s>C");
    let shares = "memory shared with s>C, which is not covered: credit-based shaper at s>C";
    assert_eq!(why(&verdict, "b"), shares);
    assert_eq!(why(&verdict, "c"), "");
    // With memory of its own, or where nothing passes the port, all else is proved.
    assert_eq!(shaped(false, "C").proved(), 2);
    assert_eq!(shaped(true, "A").proved(), 3);
}

/// The shaper of a talker lets through no more than the contract from which the promises follow.
#[test]
fn a_laxer_shaper_is_refused() {
    let words = "shaper or launch of \"b\"";
    let shaper = |key: &'static str, value: Value| {
        move |plan: &mut Value| plan["streams"][1]["shaper"][key] = value.clone()
    };
    // 125 bytes in each millisecond.
    let burst = 1_000;
    assert!(changed(shaper("burst_bits", burst.into())).is_ok());
    assert!(changed(shaper("rate_bps", "999999".into())).is_ok());
    refused(shaper("burst_bits", (burst + 1).into()), words);
    refused(shaper("rate_bps", "1000001".into()), words);
    refused(shaper("rate_bps", "2000001/2".into()), words);
    refused(shaper("tick_error_ns", 1.into()), words);
    refused(|plan| plan["streams"][1]["launch"] = json!({"offset_ns": 5}), words);
}

/// There is no rule for a mechanism that switches enforce and the network does not state.
#[test]
fn gates_preemption_meters_and_cycles_of_the_plan_alone_are_not_covered() {
    let at = |port: &str, key: &'static str| {
        let port = port.to_owned();
        changed(move |plan| {
            let ports = plan["ports"].as_array_mut().unwrap();
            let name = |one: &Value| {
                format!("{}>{}", one["node"].as_str().unwrap(), one["port"].as_str().unwrap())
            };
            ports.iter_mut().find(|one| name(one) == port).unwrap()[key] = json!({});
        })
        .unwrap()
    };
    let verdict = at("s>t", "gates");
    assert_eq!(why(&verdict, "b"), "gates at s>t");
    assert_eq!((why(&verdict, "a"), why(&verdict, "c")), (String::new(), "gates at s>t".into()));
    assert_eq!(why(&at("t>D", "preemption"), "b"), "frame preemption at t>D");
    let all = |key: &'static str, value: Value| {
        let verdict = changed(|plan| plan[key] = value.clone()).unwrap();
        assert_eq!(verdict.proved(), 0, "{key}");
    };
    all("meters", json!([{"switch": "s"}]));
    all("cyclic", json!({"cycle_ns": 1}));
}

/// No jitter is proved, neither that of a promise nor the limit of a stream.
#[test]
fn jitter_is_not_covered() {
    let verdict = changed(|plan| plan["streams"][0]["promises"][0]["jitter_ns"] = 0.into());
    assert_eq!(why(&verdict.unwrap(), "a"), "its jitter");
    let verdict = changed(|plan| plan["network"]["streams"][0]["jitter_ns"] = 0.into()).unwrap();
    assert_eq!((why(&verdict, "a"), why(&verdict, "b")), ("its jitter".to_owned(), String::new()));
}

/// A talker with a larger contract than one frame in each interval may send several: what others do not wait for then is
/// not accepted. Its schedules may show it.
#[test]
fn a_stated_contract_above_its_interval_has_no_staircase() {
    for (key, value) in [("burst", "20000"), ("rate", "90000000")] {
        let said = changed(|plan| plan["network"]["streams"][2]["contract"][key] = value.into());
        assert!(matches!(said, Err(Refused::Fact(_))), "{key}: {said:?}");
        let mut plan = certified(&network(CELL));
        let twice = [("c".to_owned(), 0), ("c".to_owned(), 0)];
        let attained = |plan: &Value| {
            let stage = Stage::of(plan.to_string().as_bytes()).unwrap();
            stage.attained("c", "D", &twice, &[])
        };
        assert_eq!(attained(&plan), None);
        plan["network"]["streams"][2]["contract"]["burst"] = "20000".into();
        assert!(attained(&plan).is_some());
    }
}

/// Faults that the planner finds in a network are found by the checker, too: its rules rely on their absence.
#[test]
fn networks_of_another_form_are_refused() {
    let renamed = |from: &'static str, to: &'static str| {
        let whole = certified(&network(CELL)).to_string();
        let quoted = |name: &str| format!("\"{name}\"");
        let whole = whole.replace(&format!(">{from}\""), &format!(">{to}\""));
        let whole = whole.replace(&format!("\"{from}>"), &format!("\"{to}>"));
        let whole = whole.replace(&quoted(from), &quoted(to));
        check(whole.as_bytes()).map_err(|refused| refused.to_string())
    };
    assert_eq!(renamed("C", "Z").unwrap().proved(), 3);
    assert!(renamed("C", "x>C").unwrap_err().contains("node \"x>C\" has `>` in its name"));
    let again = |plan: &mut Value, from: &str, to: &str| {
        let copy = plan["network"][from][0].clone();
        let mut fields = plan["network"][to][0].clone();
        fields["name"] = copy["name"].clone();
        plan["network"][to].as_array_mut().unwrap().push(fields);
    };
    refused(|plan| again(plan, "hosts", "hosts"), "node \"A\" is there twice");
    refused(|plan| again(plan, "switches", "switches"), "node \"s\" is there twice");
    refused(|plan| again(plan, "hosts", "switches"), "node \"A\" is there twice");
    let moves = |plan: &mut Value, from: &str, to: &str| {
        again(plan, from, to);
        plan["network"][from].as_array_mut().unwrap().remove(0);
    };
    let words = "\"a\" is not from host to host over switches";
    refused(|plan| moves(plan, "hosts", "switches"), words);
    refused(|plan| moves(plan, "switches", "hosts"), words);
    let words = "has not 1 to 8 queues, or a priority without one";
    for queues in [0, 9] {
        refused(|plan| plan["network"]["switches"][0]["queues"] = queues.into(), words);
        refused(|plan| plan["network"]["hosts"][0]["queues"] = queues.into(), words);
    }
    let map = json!([0, 1, 2, 3, 0, 1, 2, 4]);
    refused(|plan| plan["network"]["switches"][0]["priority_map"] = map.clone(), words);
    refused(|plan| plan["network"]["streams"][0]["copy_of"] = "z".into(), "is missing");
}

/// A limit needs a promise, but for a plan that ignores limits: the verdict says so.
#[test]
fn a_limit_without_a_promise_is_refused() {
    let forgets = |plan: &mut Value| {
        let promise = &mut plan["streams"][0]["promises"][0];
        (promise["delay_ns"], promise["terms"]) = (Value::Null, json!([]));
    };
    let verdict = changed(forgets).unwrap();
    assert_eq!((verdict.promises.len(), verdict.limits_ignored), (2, false));
    for key in ["deadline_ns", "jitter_ns"] {
        let limited = |plan: &mut Value| {
            forgets(plan);
            plan["network"]["streams"][0][key] = 1_000_000.into();
        };
        refused(limited, "\"a\" to C has a limit, but no promise");
        let verdict = changed(|plan| {
            limited(plan);
            plan["options"]["ignore_limits"] = true.into();
        })
        .unwrap();
        assert!(verdict.limits_ignored);
    }
}

/// A talker hands over both copies of a frame together, so no schedule has one without the other.
#[test]
fn copies_are_released_together() {
    let text = include_str!("../../../examples/redundant.toml");
    let stage = Stage::of(plan_file::text(&promises(&network(text))).as_bytes()).unwrap();
    let attained = |stream: &str, frames: &[(&str, u64)]| {
        let frames = frames.iter().map(|(name, at)| ((*name).to_owned(), *at));
        stage.attained(stream, "press", &frames.collect::<Vec<_>>(), &[])
    };
    let both = [("position~2", 7), ("position", 7)];
    assert!(attained("position", &both).is_some());
    assert!(attained("position~2", &both).is_some());
    assert_eq!(attained("position", &both[1..]), None);
    assert_eq!(attained("position~2", &both[..1]), None);
    assert_eq!(attained("position", &[both[0], ("position", 8)]), None);
}
