//! The client against a model of a switch, which may refuse any request, take something else than it is sent, or go away.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::element::{Content, NETCONF, Operation, below, parsed};

/// A switch: what it can, what it has, and what goes wrong.
#[derive(Clone, Debug)]
struct Model {
    abilities: Vec<&'static str>,
    modules: Vec<&'static str>,
    interfaces: Vec<&'static str>,
    running: Vec<Element>,
    candidate: Vec<Element>,
    /// The settings that it goes back to, unless a commit confirms.
    fallback: Option<Vec<Element>>,
    /// The request that is refused, counted from 1.
    refuses: usize,
    /// The request that it does not live to answer, and if it carries it out first.
    dies: (usize, bool),
    /// It takes this leaf's value for another one.
    garbles: Option<&'static str>,
    requests: usize,
    asked: Vec<String>,
    is_chunked: bool,
}

const ALL: [&str; 3] = ["candidate:1.0", "confirmed-commit:1.1", "startup:1.0"];
const MODULES: [&str; 6] = [
    "ietf-interfaces",
    "ieee802-dot1q-bridge",
    "ieee802-dot1q-sched-bridge",
    "ieee802-dot1q-cbsa-bridge",
    "ieee802-dot1q-stream-filters-gates-bridge",
    "ieee802-dot1cb-stream-identification",
];

impl Model {
    fn new() -> Self {
        Self {
            abilities: ALL.to_vec(),
            modules: MODULES.to_vec(),
            interfaces: vec!["swp1", "mgmt"],
            running: Vec::new(),
            candidate: Vec::new(),
            fallback: None,
            refuses: 0,
            dies: (0, false),
            garbles: None,
            requests: 0,
            asked: Vec::new(),
            is_chunked: false,
        }
    }

    fn with(running: &Value) -> Self {
        let running = data::elements(running).unwrap();
        Self {
            candidate: running.clone(),
            running,
            ..Self::new()
        }
    }

    fn hello(&self) -> String {
        let base = if self.is_chunked { "1.1" } else { "1.0" };
        let mut all = vec![format!("urn:ietf:params:netconf:base:{base}")];
        let abilities = self.abilities.iter();
        all.extend(abilities.map(|one| format!("urn:ietf:params:netconf:capability:{one}")));
        all.extend(self.modules.iter().map(|one| format!("urn:x?module={one}")));
        let list: String = all
            .iter()
            .map(|one| format!("<capability>{one}</capability>"))
            .collect();
        format!("<hello xmlns=\"{NETCONF}\"><capabilities>{list}</capabilities></hello>")
    }

    /// Answers a request; `None` if the switch is gone.
    fn answer(&mut self, message: &[u8]) -> Option<String> {
        self.requests += 1;
        let (id, name, inside) = parsed(message, |root| {
            let one = root.first_element_child().unwrap();
            let id = root.attribute("message-id").unwrap().to_owned();
            Ok((id, one.tag_name().name().to_owned(), below(root)?))
        })
        .unwrap();
        self.asked.push(name.clone());
        if self.dies == (self.requests, false) {
            return None;
        }
        let says = if self.refuses == self.requests {
            "<rpc-error><error-tag>operation-failed</error-tag><error-severity>error</error-severity></rpc-error>".to_owned()
        } else {
            self.carry_out(&name, &inside[0], message)
        };
        if self.dies == (self.requests, true) {
            return None;
        }
        Some(format!(
            "<rpc-reply message-id=\"{id}\" xmlns=\"{NETCONF}\">{says}</rpc-reply>"
        ))
    }

    fn carry_out(&mut self, name: &str, request: &Element, message: &[u8]) -> String {
        let text = |elements: &[Element]| {
            let mut text = String::from("<data>");
            elements.iter().for_each(|one| one.write(&mut text));
            text + "</data>"
        };
        match name {
            "get" => {
                let names = self.interfaces.iter().map(|name| json!({ "name": name }));
                let all = json!({ "ietf-interfaces:interfaces": { "interface": names.collect::<Vec<_>>() } });
                return text(&data::elements(&all).unwrap());
            }
            "get-config" => {
                let source = request.child("source").unwrap();
                return match source.child("candidate") {
                    Some(_) => text(&self.candidate),
                    None => text(&self.running),
                };
            }
            "edit-config" => {
                let config = parsed(message, |root| {
                    let edit = root.first_element_child().unwrap();
                    let config = edit
                        .children()
                        .find(|one| one.has_tag_name((NETCONF, "config")));
                    let mut read = below(config.unwrap())?;
                    mark(config.unwrap(), &mut read);
                    Ok(read)
                })
                .unwrap();
                apply(&mut self.candidate, &config);
                if let Some(leaf) = self.garbles {
                    garble(&mut self.candidate, leaf);
                }
            }
            "commit" if request.child("confirmed").is_some() => {
                self.fallback = Some(std::mem::replace(&mut self.running, self.candidate.clone()));
            }
            "commit" => {
                self.fallback = None;
                self.running = self.candidate.clone();
            }
            "cancel-commit" => self.go_back(),
            "discard-changes" => self.candidate = self.running.clone(),
            _ => {}
        }
        "<ok/>".to_owned()
    }

    /// The session ends, or the time is over.
    fn go_back(&mut self) {
        if let Some(before) = self.fallback.take() {
            self.candidate = before.clone();
            self.running = before;
        }
    }
}

fn mark(node: roxmltree::Node<'_, '_>, elements: &mut [Element]) {
    let nodes = node.children().filter(roxmltree::Node::is_element);
    for (node, element) in nodes.zip(elements) {
        element.operation = match node.attribute((NETCONF, "operation")) {
            Some("replace") => Some(Operation::Replace),
            Some("delete") => Some(Operation::Delete),
            other => {
                assert_eq!(other, None);
                None
            }
        };
        if let Some(children) = element.children_mut() {
            mark(node, children);
        }
    }
}

/// Carries out an edit as RFC 6241, section 7.2, has it.
fn apply(store: &mut Vec<Element>, edit: &[Element]) {
    for one in edit {
        let place = store.iter().position(|other| {
            crate::compare::counterpart(one, std::slice::from_ref(other)).is_some()
        });
        let mut plain = one.clone();
        clean(&mut plain);
        match (one.operation, place) {
            (Some(Operation::Delete), place) => {
                store.remove(place.expect("only what is there is deleted"));
            }
            (Some(Operation::Replace), Some(place)) => store[place] = plain,
            (None, Some(place)) => match store[place].children_mut() {
                Some(children) if !one.children().is_empty() => apply(children, one.children()),
                _ => store[place] = plain,
            },
            (_, None) => {
                let mut empty = plain.clone();
                if let (Some(children), false) = (empty.children_mut(), one.children().is_empty()) {
                    children.clear();
                    apply(children, one.children());
                    store.push(empty);
                } else {
                    store.push(plain);
                }
            }
        }
    }
}

fn clean(one: &mut Element) {
    one.operation = None;
    if let Some(children) = one.children_mut() {
        children.iter_mut().for_each(clean);
    }
}

fn garble(elements: &mut [Element], leaf: &str) {
    for one in elements {
        if one.name == leaf {
            one.content = Content::Text {
                text: "77".to_owned(),
                prefix: None,
            };
        } else if let Some(children) = one.children_mut() {
            garble(children, leaf);
        }
    }
}

/// The end of a session: a report, or what the switch is left with.
#[derive(Debug)]
enum End {
    Report(Report),
    Broken(Left),
}

fn run(model: &mut Model, job: Job, planned: &Value, settings: Settings, keeps: bool) -> End {
    // One that has to be confirmed is looked at once more before.
    let mut looks = u32::from(settings.must_confirm);
    let mut client = Client::new(job, data::elements(planned).unwrap(), settings);
    let mut at_switch = Decoder::new();
    let mut action = client.start();
    let mut sent = encode(Framing::EndOfMessage, &model.hello());
    let end = loop {
        action = match action {
            Action::Send(bytes) => {
                at_switch.push(&bytes);
                while let Some(message) = at_switch.next_message().unwrap() {
                    if parsed(&message, |root| Ok(root.tag_name().name() == "hello")).unwrap() {
                        if model.is_chunked {
                            at_switch.set_framing(Framing::Chunked);
                        }
                        continue;
                    }
                    let framing = if model.is_chunked {
                        Framing::Chunked
                    } else {
                        Framing::EndOfMessage
                    };
                    match model.answer(&message) {
                        Some(answer) => sent = encode(framing, &answer),
                        None => sent.clear(),
                    }
                }
                if sent.is_empty() {
                    match client.ended() {
                        Ok(action) => action,
                        Err(_) => break End::Broken(client.left()),
                    }
                } else {
                    client.received(&std::mem::take(&mut sent)).unwrap()
                }
            }
            Action::Wait => panic!("all was said"),
            Action::Decide if looks > 0 => {
                looks -= 1;
                client.look_again()
            }
            Action::Decide if keeps => client.confirm(),
            Action::Decide => client.cancel(),
            Action::Done(report) => break End::Report(*report),
        };
    };
    model.go_back();
    end
}

fn gated(pvid: u32, entries: &[u32], credit: Option<u32>, filters: &[u32]) -> Value {
    let list: Vec<Value> = entries
        .iter()
        .zip(0..)
        .map(|(ns, index)| {
            json!({ "index": index, "operation-name": "ieee802-dot1q-sched:set-gate-states", "gate-states-value": 128,
                "time-interval-value": ns })
        })
        .collect();
    let mut port = json!({ "pvid": pvid });
    if !entries.is_empty() {
        port["ieee802-dot1q-sched-bridge:gate-parameter-table"] = json!({
            "gate-enabled": true, "supported-list-max": 8, "config-change": true,
            "admin-control-list": { "gate-control-entry": list },
        });
    }
    if let Some(slope) = credit {
        port["ieee802-dot1q-cbsa-bridge:cbsa"] = json!({ "cbsa-parameter-table": [ { "traffic-class": 6, "admin-idle-slope": slope.to_string() } ] });
    }
    let mut component = json!({ "name": "s", "type": "ieee802-dot1q-bridge:c-vlan-component" });
    let mut all = json!({});
    if !filters.is_empty() {
        let table: Vec<Value> = filters
            .iter()
            .map(|one| json!({ "stream-filter-instance-id": one, "stream-handle": one }))
            .collect();
        component["ieee802-dot1q-stream-filters-gates-bridge:stream-filters"] =
            json!({ "stream-filter-instance-table": table });
        all["ieee802-dot1cb-stream-identification:stream-identity"] = filters
            .iter()
            .map(|one| json!({ "index": one, "handle": one, "out-facing": { "input-port": ["swp1"] } }))
            .collect::<Vec<_>>()
            .into();
    }
    all["ietf-interfaces:interfaces"] =
        json!({ "interface": [ { "name": "swp1", "ieee802-dot1q-bridge:bridge-port": port } ] });
    all["ieee802-dot1q-bridge:bridges"] = json!({ "bridge": [ {
        "name": "s", "address": "02-00-00-00-00-01", "component": [component] } ] });
    all
}

fn push(model: &mut Model, planned: &Value) -> Report {
    match run(model, Job::Push, planned, Settings::default(), true) {
        End::Report(report) => report,
        End::Broken(left) => panic!("{left:?}"),
    }
}

#[test]
fn a_push_changes_what_differs_and_a_check_finds_nothing_behind_it() {
    let planned = gated(5, &[100, 200], None, &[1]);
    let mut model = Model::with(&gated(1, &[1, 2, 3], Some(5), &[1, 9]));
    let before = match run(&mut model, Job::Check, &planned, Settings::default(), true) {
        End::Report(Report {
            outcome: Outcome::Differs(all),
            ..
        }) => all,
        other => panic!("{other:?}"),
    };
    let words: Vec<String> = before.iter().map(Difference::to_string).collect();
    let port = "/interfaces/interface[swp1]/bridge-port";
    let gates = format!("{port}/gate-parameter-table/admin-control-list/gate-control-entry");
    for wanted in [
        format!("{port}/pvid: planned 5, found 1"),
        format!("{gates}[0]/time-interval-value: planned 100, found 1"),
        format!("{gates}[2]: there, not planned"),
        format!("{port}/cbsa/cbsa-parameter-table[6]: there, not planned"),
        "/bridges/bridge[s]/component[s]/stream-filters/stream-filter-instance-table[9]: there, not planned".to_owned(),
        "/stream-identity[9]: there, not planned".to_owned(),
    ] {
        assert!(words.contains(&wanted), "{wanted}\n{words:#?}");
    }
    assert_eq!(words.len(), 7, "{words:#?}");
    let report = push(&mut model, &planned);
    let Outcome::Pushed {
        changes,
        confirmed: true,
    } = report.outcome
    else {
        panic!("{report:?}")
    };
    assert_eq!(changes, before);
    assert!(report.notes[0].contains("--keep"), "{:?}", report.notes);
    let asked =
        "get lock get-config edit-config get-config commit get-config commit unlock close-session";
    assert_eq!(model.asked[2..].join(" "), asked);
    let check = run(&mut model, Job::Check, &planned, Settings::default(), true);
    assert!(
        matches!(
            check,
            End::Report(Report {
                outcome: Outcome::Same,
                ..
            })
        ),
        "{check:?}"
    );
    // Nothing to do: nothing is edited.
    model.asked.clear();
    assert_eq!(push(&mut model, &planned).outcome, Outcome::Same);
    assert_eq!(
        model.asked.join(" "),
        "get lock get-config unlock close-session"
    );
}

#[test]
fn a_switch_keeps_its_address_its_own_limits_and_what_is_not_the_plan_s() {
    let planned = gated(5, &[100], None, &[]);
    let mut there = gated(5, &[100], None, &[]);
    there["ieee802-dot1q-bridge:bridges"]["bridge"][0]["address"] = "00-11-22-33-44-55".into();
    let port = &mut there["ietf-interfaces:interfaces"]["interface"][0]["ieee802-dot1q-bridge:bridge-port"];
    let table = &mut port["ieee802-dot1q-sched-bridge:gate-parameter-table"];
    table["supported-list-max"] = 512.into();
    table["config-change"] = false.into();
    // Tables that name what is in force anyway.
    table["queue-max-sdu-table"] = json!([{ "traffic-class": 7, "queue-max-sdu": 0 }]);
    port["transmission-selection-algorithm-table"] = json!({ "transmission-selection-algorithm-map": [
        { "traffic-class": 0, "transmission-selection-algorithm": "ieee802-dot1q-types:strict-priority" } ] });
    let interfaces = there["ietf-interfaces:interfaces"]["interface"]
        .as_array_mut()
        .unwrap();
    interfaces.push(json!({ "name": "mgmt", "enabled": true }));
    let mut model = Model::with(&there);
    assert_eq!(push(&mut model, &planned).outcome, Outcome::Same);
    // A change of something else leaves them.
    let later = gated(6, &[100], None, &[]);
    assert!(matches!(
        push(&mut model, &later).outcome,
        Outcome::Pushed { .. }
    ));
    let mut text = String::new();
    model.running.iter().for_each(|one| one.write(&mut text));
    for kept in ["00-11-22-33-44-55", ">512<", "mgmt", ">6</pvid>"] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    // A smaller limit than the plan needs is no reason to refuse here: the switch judges.
    let stated = Settings {
        address_stated: true,
        ..Settings::default()
    };
    let end = run(&mut model, Job::Check, &later, stated, true);
    let End::Report(Report {
        outcome: Outcome::Differs(all),
        ..
    }) = end
    else {
        panic!("{end:?}")
    };
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].place.ends_with("/address"));
}

#[test]
fn what_a_switch_lacks_is_named_and_nothing_is_changed() {
    let planned = gated(5, &[100], Some(4), &[1]);
    let mut model = Model::new();
    model.modules.retain(|one| !one.contains("stream"));
    let lacking = [
        "ieee802-dot1cb-stream-identification".to_owned(),
        "ieee802-dot1q-stream-filters-gates-bridge".to_owned(),
    ];
    assert_eq!(
        push(&mut model, &planned).outcome,
        Outcome::NoModules(lacking.to_vec())
    );
    assert!(model.running.is_empty());
    let limited = Settings {
        limited: true,
        ..Settings::default()
    };
    let End::Report(report) = run(&mut model, Job::Push, &planned, limited, true) else {
        panic!()
    };
    assert!(
        matches!(report.outcome, Outcome::Pushed { .. }),
        "{report:?}"
    );
    assert_eq!(report.left_out, lacking);
    let mut without = Model::new();
    without.abilities.retain(|one| !one.contains("candidate"));
    assert_eq!(push(&mut without, &planned).outcome, Outcome::NoCandidate);
    let mut other = Model::new();
    other.interfaces = vec!["eth0"];
    let wanted = Outcome::NoInterfaces {
        missing: vec!["swp1".to_owned()],
        known: vec!["eth0".to_owned()],
    };
    assert_eq!(push(&mut other, &planned).outcome, wanted);
    let made = Settings {
        new_interfaces: true,
        ..Settings::default()
    };
    let End::Report(report) = run(&mut other, Job::Push, &planned, made, true) else {
        panic!()
    };
    assert!(
        matches!(report.outcome, Outcome::Pushed { .. }),
        "{report:?}"
    );
}

#[test]
fn a_value_that_a_switch_does_not_take_is_found_before_the_commit() {
    let mut model = Model::with(&gated(1, &[1], None, &[]));
    let was = model.running.clone();
    model.garbles = Some("time-interval-value");
    let report = push(&mut model, &gated(5, &[100], None, &[]));
    let Outcome::NotTaken {
        differences,
        left: Left::Unchanged,
    } = report.outcome
    else {
        panic!("{report:?}")
    };
    assert_eq!(differences[0].found.as_deref(), Some("77"));
    assert_eq!((&model.running, &model.candidate), (&was, &was));
    assert!(!model.asked.contains(&"commit".to_owned()));
}

#[test]
fn a_show_needs_what_a_push_needs_and_changes_nothing() {
    let planned = gated(5, &[100], None, &[]);
    let show = |model: &mut Model, settings: Settings| match run(
        model,
        Job::Show,
        &planned,
        settings,
        true,
    ) {
        End::Report(report) => report.outcome,
        End::Broken(left) => panic!("{left:?}"),
    };
    let must_confirm = Settings {
        must_confirm: true,
        ..Settings::default()
    };
    let mut model = Model::with(&gated(1, &[1], None, &[]));
    let shown = show(&mut model, must_confirm.clone());
    assert!(
        matches!(&shown, Outcome::Differs(all) if all.len() == 2),
        "{shown:?}"
    );
    assert_eq!(model.asked.join(" "), "get get-config close-session");
    model.interfaces.clear();
    let shown = show(&mut model, Settings::default());
    assert!(matches!(shown, Outcome::NoInterfaces { .. }), "{shown:?}");
    model.abilities = vec!["candidate:1.0"];
    for job in [Job::Show, Job::Push] {
        let end = run(&mut model, job, &planned, must_confirm.clone(), true);
        assert!(
            matches!(&end, End::Report(report) if report.outcome == Outcome::NoConfirmation),
            "{end:?}"
        );
    }
    model.abilities.clear();
    assert_eq!(show(&mut model, Settings::default()), Outcome::NoCandidate);
    assert!(!model.asked.contains(&"edit-config".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any request may go wrong, in any way: the switch has the old settings or the new ones, whole, and the report is right.
    #[test]
    fn nothing_is_half_applied(
        refuses in 0_usize..15, dies in 0_usize..15, after: bool, abilities in prop::sample::subsequence(ALL.to_vec(), 0..=3),
        older: bool, is_chunked: bool, keeps: bool, lists in prop::collection::vec(prop::collection::vec(1_u32..4, 0..3), 2),
        filters in prop::collection::vec(prop::collection::vec(1_u32..4, 0..3), 2), credits: [Option<u32>; 2], pvid in 1_u32..3,
        keep_for_restart: bool, must_confirm: bool,
    ) {
        let unique = |all: &[u32]| { let mut all = all.to_vec(); all.sort_unstable(); all.dedup(); all };
        let credits = credits.map(|one| one.map(|slope| slope % 3 + 1));
        let mut model = Model::with(&gated(1, &lists[0], credits[0], &unique(&filters[0])));
        model.abilities = abilities.into_iter()
            .map(|one| if older && one.starts_with("confirmed") { "confirmed-commit:1.0" } else { one }).collect();
        (model.refuses, model.dies, model.is_chunked) = (refuses, (dies, after), is_chunked);
        let old = model.running.clone();
        let planned = gated(pvid, &lists[1], credits[1], &unique(&filters[1]));
        let settings = Settings { keep_for_restart, must_confirm, ..Settings::default() };
        let end = run(&mut model, Job::Push, &planned, settings, keeps);
        let new = data::elements(&planned).unwrap();
        let is_old = model.running == old;
        let is_new = differences(&new, &model.running).is_empty();
        prop_assert!(is_old || is_new, "{:?}", model.running);
        match end {
            End::Report(report) => {
                match report.outcome {
                    Outcome::Same => prop_assert!(is_old && is_new),
                    Outcome::Pushed { confirmed, .. } => {
                        prop_assert!(is_new);
                        prop_assert_eq!(confirmed, model.abilities.iter().any(|one| one.starts_with("confirmed")));
                    }
                    Outcome::NoCandidate => prop_assert!(is_old),
                    Outcome::NoConfirmation => prop_assert!(is_old && must_confirm),
                    Outcome::Refused { left, .. } | Outcome::NotTaken { left, .. } | Outcome::Cancelled { left } => match left {
                        Left::Unchanged | Left::PutBack | Left::PutsBack { .. } => prop_assert!(is_old, "{:?}", left),
                        Left::Changed => prop_assert!(is_new),
                        Left::Unknown => {}
                    },
                    other => prop_assert!(false, "{:?}", other),
                }
                if refuses == 0 && dies == 0 && keeps && model.abilities.contains(&"candidate:1.0")
                    && (!must_confirm || model.abilities.iter().any(|one| one.starts_with("confirmed"))) {
                    prop_assert!(is_new);
                }
            }
            End::Broken(left) => match left {
                Left::Unchanged | Left::PutBack | Left::PutsBack { .. } => prop_assert!(is_old, "{:?}", left),
                Left::Changed => prop_assert!(is_new),
                Left::Unknown => {}
            },
        }
    }

    #[test]
    fn no_bytes_of_a_switch_make_it_fall(bytes in prop::collection::vec(any::<u8>(), 0..80), begins: bool) {
        let mut client = Client::new(Job::Push, Vec::new(), Settings::default());
        let _ = client.start();
        if begins {
            let _ = client.received(&encode(Framing::EndOfMessage, &Model::new().hello()));
        }
        let _ = client.received(&bytes);
        let _ = client.received(b"]]>]]>");
        let _ = (client.ended(), client.left());
    }
}
