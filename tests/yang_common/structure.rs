//! Data held against the published structure in `tests/yang/structure.txt` (RFC 8340 trees, RFC 7951 data).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

const TREE: &str = include_str!("../yang/structure.txt");
/// RFC 8343, as far as a switch's data need it.
const INTERFACES: &str = "\
module: ietf-interfaces
  +--rw interfaces
     +--rw interface* [name]
        +--rw name           string
        +--rw description?   string
        +--rw type           identityref
        +--rw enabled?       boolean
";
/// Prefixes of the tree, and their modules.
const MODULES: [(&str, &str); 6] = [
    ("sfsg-bridge", "ieee802-dot1q-stream-filters-gates-bridge"),
    ("psfp-bridge", "ieee802-dot1q-psfp-bridge"),
    ("ats-bridge", "ieee802-dot1q-ats-bridge"),
    ("sched-bridge", "ieee802-dot1q-sched-bridge"),
    ("cbsa-bridge", "ieee802-dot1q-cbsa-bridge"),
    ("preempt-bridge", "ieee802-dot1q-preemption-bridge"),
];

/// A node of the tree. Choices and cases are nodes, too, which no data have.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) module: String,
    pub(crate) name: String,
    /// The type of a leaf; `None` for a container, a list, a choice.
    pub(crate) leaf: Option<String>,
    pub(crate) keys: Vec<String>,
    pub(crate) list: bool,
    pub(crate) mandatory: bool,
    pub(crate) choice: bool,
    pub(crate) case: bool,
    pub(crate) children: Vec<Node>,
}

/// Returns what is wrong with a switch's data, each with its place.
pub(crate) fn faults(data: &Value) -> Vec<String> {
    let tops = tree();
    let mut found = Vec::new();
    let root = Node {
        children: tops,
        ..Node::default()
    };
    match data.as_object() {
        Some(members) => inside(&root, members, "", &mut found),
        None => found.push("no object".to_owned()),
    }
    references(data, &mut found);
    found
}

/// Returns the nodes at the top of the published structure.
pub(crate) fn tree() -> Vec<Node> {
    let text = format!("{INTERFACES}{TREE}");
    let mut tops: Vec<Node> = Vec::new();
    let mut ports = Vec::new();
    let (mut module, mut augment) = (String::new(), false);
    // The nodes from the top to the present one, with their columns.
    let mut open: Vec<(usize, Node)> = Vec::new();
    let mut close = |open: &mut Vec<(usize, Node)>, column: usize, augment: bool| {
        while open.last().is_some_and(|(at, _)| *at >= column) {
            let Some((_, node)) = open.pop() else { break };
            match open.last_mut() {
                Some((_, parent)) => parent.children.push(node),
                None if augment => ports.push(node),
                None => tops.push(node),
            }
        }
    };
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("module: ") {
            close(&mut open, 0, augment);
            (module, augment) = (name.to_owned(), false);
        } else if line.contains("augment /if:interfaces/if:interface:") {
            close(&mut open, 0, augment);
            augment = true;
        } else if let Some(column) = line.find("--") {
            close(&mut open, column, augment);
            let parent = open
                .last()
                .map_or(module.as_str(), |(_, node)| &node.module);
            let node = node(&line[column + 2..], parent);
            open.push((column, node));
        }
    }
    close(&mut open, 0, augment);
    let interface = &mut tops[0].children[0];
    assert_eq!(interface.name, "interface");
    interface.children.append(&mut ports);
    tops
}

/// Reads a line behind its `+--`: `rw name? type`, `rw list* [keys]`, `:(case)`.
fn node(text: &str, parent: &str) -> Node {
    let text = text.strip_prefix("rw ").unwrap_or(text).trim();
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    let (name, case) = match name.strip_prefix(":(") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (bare, choice) = match name.strip_prefix('(') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let optional = bare.ends_with('?');
    let bare = bare.trim_end_matches(['?', '*', ')']);
    let (module, bare) = match bare.split_once(':') {
        Some((prefix, bare)) => {
            let module = MODULES.iter().find(|(one, _)| *one == prefix);
            (module.unwrap_or_else(|| panic!("prefix {prefix}")).1, bare)
        }
        None => (parent, bare),
    };
    let list = name.contains('*');
    let keys: Vec<String> = rest
        .strip_prefix('[')
        .and_then(|rest| rest.split(']').next())
        .map(|keys| keys.split(' ').map(str::to_owned).collect())
        .unwrap_or_default();
    let leaf = (!rest.is_empty() && !rest.starts_with(['[', '{']) && !choice && !case)
        .then(|| rest.to_owned());
    Node {
        module: module.to_owned(),
        name: bare.to_owned(),
        mandatory: !optional && !list && !case && (choice || leaf.is_some()),
        leaf,
        keys,
        list,
        choice,
        case,
        children: Vec::new(),
    }
}

/// Returns the nodes that data may have below a node: those within choices, too.
fn visible(node: &Node) -> Vec<&Node> {
    let mut found = Vec::new();
    for child in &node.children {
        if child.choice || child.case {
            found.extend(visible(child));
        } else {
            found.push(child);
        }
    }
    found
}

fn inside(node: &Node, members: &Map<String, Value>, at: &str, found: &mut Vec<String>) {
    let known = visible(node);
    let key_of = |child: &Node| {
        if child.module == node.module {
            child.name.clone()
        } else {
            format!("{}:{}", child.module, child.name)
        }
    };
    for (key, value) in members {
        match known.iter().find(|child| key_of(child) == *key) {
            None => found.push(format!(
                "{at}/{key}: the published modules have no such node here"
            )),
            Some(child) => check(child, value, &format!("{at}/{key}"), found),
        }
    }
    let has = |child: &Node| members.contains_key(&key_of(child));
    for child in &node.children {
        if child.choice {
            let cases: Vec<&Node> = child
                .children
                .iter()
                .filter(|case| visible(case).into_iter().any(has) || (!case.case && has(case)))
                .collect();
            if cases.len() > 1 {
                found.push(format!(
                    "{at}: {} cases of the choice {}",
                    cases.len(),
                    child.name
                ));
            }
            if cases.is_empty() && child.mandatory {
                found.push(format!(
                    "{at}: the mandatory choice {} is missing",
                    child.name
                ));
            }
        } else if child.mandatory && !has(child) {
            found.push(format!("{at}: the mandatory {} is missing", child.name));
        }
    }
}

fn check(node: &Node, value: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(kind) = &node.leaf {
        let values: Vec<&Value> = match (node.list, value.as_array()) {
            (true, Some(values)) => values.iter().collect(),
            _ => vec![value],
        };
        for one in values {
            if !fits(kind, one) {
                found.push(format!("{at}: {one} is no {kind}"));
            }
        }
        return;
    }
    if !node.list {
        match value.as_object() {
            Some(members) => inside(node, members, at, found),
            None => found.push(format!("{at}: no object")),
        }
        return;
    }
    let Some(entries) = value.as_array() else {
        found.push(format!("{at}: no list"));
        return;
    };
    let mut seen = BTreeSet::new();
    for entry in entries {
        let Some(members) = entry.as_object() else {
            found.push(format!("{at}: no object"));
            continue;
        };
        let keys: Vec<Option<&Value>> = node.keys.iter().map(|key| members.get(key)).collect();
        if keys.contains(&None) {
            found.push(format!("{at}: an entry without its keys {:?}", node.keys));
        }
        if !seen.insert(format!("{keys:?}")) {
            found.push(format!("{at}: two entries with the same keys {keys:?}"));
        }
        inside(node, members, at, found);
    }
}

/// Returns whether a value is of a type, as RFC 7951 writes it. Of enumerations it checks those whose words decide whether a
/// switch forwards; of other named types that they are texts.
fn fits(kind: &str, value: &Value) -> bool {
    let kind = kind.split("  ").next().unwrap_or(kind);
    let short = kind.rsplit(':').next().unwrap_or(kind);
    let within =
        |least: u64, most: u64| value.as_u64().is_some_and(|n| (least..=most).contains(&n));
    let one_of = |words: &[&str]| value.as_str().is_some_and(|text| words.contains(&text));
    match short {
        "uint8" => within(0, 255),
        "uint16" => within(0, 65_535),
        "uint32" => within(0, u64::from(u32::MAX)),
        "uint64" => value
            .as_str()
            .is_some_and(|text| text.parse::<u64>().is_ok()),
        "boolean" => value.is_boolean(),
        "empty" => *value == serde_json::json!([null]),
        "priority-type" | "traffic-class-type" => within(0, 7),
        "vlan-index-type" => within(1, 4094),
        "vlan-identifier-type" => within(0, 4095),
        "port-number-type" => within(1, 65_535),
        "name-type" => value
            .as_str()
            .is_some_and(|text| text.chars().count() <= 32),
        "vid-range-type" => value.as_str().is_some_and(|text| {
            text.parse::<u16>()
                .is_ok_and(|vid| (1..=4094).contains(&vid))
        }),
        "mac-address" => value.as_str().is_some_and(|text| {
            let parts: Vec<&str> = text.split('-').collect();
            let hex = |part: &&str| part.len() == 2 && u8::from_str_radix(part, 16).is_ok();
            parts.len() == 6 && parts.iter().all(hex)
        }),
        "identityref" => value.as_str().is_some_and(|text| {
            text.split_once(':')
                .is_some_and(|(module, _)| module.len() > 3)
        }),
        "priority-spec-type" => one_of(&[
            "zero", "one", "two", "three", "four", "five", "six", "seven", "wildcard",
        ]),
        "gate-state-value-type" => one_of(&["open", "closed"]),
        "frame-preemption-status-enum" => one_of(&["express", "preemptable"]),
        "vlan-tag-identification-type" => one_of(&["tagged", "priority", "all"]),
        _ if kind.starts_with("->") => value.is_string() || value.is_u64(),
        _ => value.is_string(),
    }
}

/// What refers to something must find it: gates of filters, identities of handles, bridges and components of ports, ports of
/// identities and port maps.
fn references(data: &Value, found: &mut Vec<String>) {
    let all = |path: &str| -> Vec<&Value> {
        let mut level = vec![data];
        for part in path.split('/') {
            level = level
                .into_iter()
                .flat_map(|one| match one {
                    Value::Array(items) => items.iter().collect(),
                    other => vec![other],
                })
                .filter_map(|one| one.get(part))
                .flat_map(|one| match one {
                    Value::Array(items) => items.iter().collect(),
                    other => vec![other],
                })
                .collect();
        }
        level
    };
    let bridge = "ieee802-dot1q-bridge:bridges/bridge";
    let component = &format!("{bridge}/component");
    let filters =
        "ieee802-dot1q-stream-filters-gates-bridge:stream-filters/stream-filter-instance-table";
    let gates = "ieee802-dot1q-stream-filters-gates-bridge:stream-gates/stream-gate-instance-table";
    let identity = "ieee802-dot1cb-stream-identification:stream-identity";
    let interface = "ietf-interfaces:interfaces/interface";
    let port = &format!("{interface}/ieee802-dot1q-bridge:bridge-port");
    for (from, to) in [
        (
            format!("{component}/{filters}/stream-gate-ref"),
            format!("{component}/{gates}/stream-gate-instance-id"),
        ),
        (
            format!("{component}/{filters}/stream-handle"),
            format!("{identity}/handle"),
        ),
        (format!("{port}/bridge-name"), format!("{bridge}/name")),
        (
            format!("{port}/component-name"),
            format!("{component}/name"),
        ),
        (
            format!("{identity}/out-facing/input-port"),
            format!("{interface}/name"),
        ),
    ] {
        let there = all(&to);
        for one in all(&from) {
            if !there.contains(&one) {
                found.push(format!("{from}: {one} is not among {to}"));
            }
        }
    }
    let most = all(&format!("{interface}/name")).len();
    let maps = format!("{component}/filtering-database/filtering-entry");
    for entry in all(&maps) {
        if entry["port-map"].as_array().map_or(0, Vec::len) != most {
            found.push(format!("{maps}: a port is missing in {entry}"));
        }
    }
}
