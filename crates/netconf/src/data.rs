//! A switch's data: from JSON (RFC 7951) to elements with namespaces, and what is special about them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::element::{Content, Element};
use crate::error::NetconfError;

/// The modules that data may be of, and their namespaces. Those of the IEEE are called after the module.
pub const MODULES: [(&str, &str); 10] = [
    (
        "ietf-interfaces",
        "urn:ietf:params:xml:ns:yang:ietf-interfaces",
    ),
    ("iana-if-type", "urn:ietf:params:xml:ns:yang:iana-if-type"),
    (
        "ieee802-dot1q-types",
        "urn:ieee:std:802.1Q:yang:ieee802-dot1q-types",
    ),
    (
        "ieee802-dot1q-bridge",
        "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge",
    ),
    (
        "ieee802-dot1q-sched",
        "urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched",
    ),
    (
        "ieee802-dot1q-sched-bridge",
        "urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched-bridge",
    ),
    (
        "ieee802-dot1q-cbsa-bridge",
        "urn:ieee:std:802.1Q:yang:ieee802-dot1q-cbsa-bridge",
    ),
    (
        "ieee802-dot1q-preemption-bridge",
        "urn:ieee:std:802.1Q:yang:ieee802-dot1q-preemption-bridge",
    ),
    (
        "ieee802-dot1q-stream-filters-gates-bridge",
        "urn:ieee:std:802.1Q:yang:ieee802-dot1q-stream-filters-gates-bridge",
    ),
    // Its namespace says 802.1Q, although it is of 802.1CB.
    (
        "ieee802-dot1cb-stream-identification",
        "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-stream-identification",
    ),
];

/// The module of streams' identification, and its list.
pub(crate) const IDENTIFICATION: &str = "ieee802-dot1cb-stream-identification";
pub(crate) const IDENTITY: &str = "stream-identity";

/// Leaves that name an identity (RFC 7951, section 6.8).
const IDENTITIES: [&str; 5] = [
    "type",
    "bridge-type",
    "port-type",
    "operation-name",
    "transmission-selection-algorithm",
];

/// Lists and their keys.
const LISTS: [(&str, &[&str]); 16] = [
    ("interface", &["name"]),
    ("bridge", &["name"]),
    ("component", &["name"]),
    ("filtering-entry", &["database-id", "vids", "address"]),
    ("vlan-registration-entry", &["database-id", "vids"]),
    ("port-map", &["port-ref"]),
    ("vlan", &["vid"]),
    ("vid-to-fid", &["vid"]),
    ("stream-gate-instance-table", &["stream-gate-instance-id"]),
    (
        "stream-filter-instance-table",
        &["stream-filter-instance-id"],
    ),
    ("gate-control-entry", &["index"]),
    ("queue-max-sdu-table", &["traffic-class"]),
    ("cbsa-parameter-table", &["traffic-class"]),
    ("transmission-selection-algorithm-map", &["traffic-class"]),
    ("stream-identity", &["index"]),
    ("traffic-class-map", &["priority"]),
];

/// Returns the keys of an element that is a list entry. A leaf of a list's name is none (`vlan` of an identification).
pub(crate) fn keys(element: &Element) -> &'static [&'static str] {
    if element.children().is_empty() {
        return &[];
    }
    list_keys(&element.name)
}

fn list_keys(name: &str) -> &'static [&'static str] {
    let found = LISTS.iter().find(|(list, _)| *list == name);
    found.map_or(&[], |(_, keys)| *keys)
}

/// Returns the namespace of a module.
fn namespace(module: &str) -> Option<&'static str> {
    let found = MODULES.iter().find(|(name, _)| *name == module);
    found.map(|(_, namespace)| *namespace)
}

/// Returns the module of a namespace.
pub(crate) fn module(namespace: &str) -> Option<&'static str> {
    let found = MODULES.iter().find(|(_, one)| *one == namespace);
    found.map(|(name, _)| *name)
}

/// Returns a switch's data as elements.
///
/// # Errors
/// [`NetconfError::Data`]: a module that is not in [`MODULES`], or JSON of another form.
pub fn elements(data: &Value) -> Result<Vec<Element>, NetconfError> {
    let members = data
        .as_object()
        .ok_or_else(|| NetconfError::Data("they are no object".to_owned()))?;
    members_of(members, "", &[])
}

fn members_of(
    members: &Map<String, Value>,
    outer: &str,
    keys: &[&str],
) -> Result<Vec<Element>, NetconfError> {
    let mut found = Vec::new();
    for (key, value) in members {
        let (space, name) = match key.split_once(':') {
            Some((module, name)) => (
                namespace(module)
                    .ok_or_else(|| NetconfError::Data(format!("module {module} is not known")))?,
                name,
            ),
            None => (outer, key.as_str()),
        };
        match value {
            Value::Array(items) => {
                for one in items {
                    found.push(element(space, name, one)?);
                }
            }
            one => found.push(element(space, name, one)?),
        }
    }
    // The keys of a list entry stand before all else (RFC 7950, section 7.8.5).
    let place = |one: &Element| keys.iter().position(|key| *key == one.name);
    found.sort_by_key(|one| place(one).unwrap_or(keys.len()));
    Ok(found)
}

fn element(space: &str, name: &str, value: &Value) -> Result<Element, NetconfError> {
    let text = match value {
        Value::Object(members) => {
            let nodes = members_of(members, space, list_keys(name))?;
            return Ok(Element::nodes(space, name, nodes));
        }
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Null | Value::Array(_) => {
            return Err(NetconfError::Data(format!("{name} has no value")));
        }
    };
    let mut leaf = Element::leaf(space, name, &text);
    let identity = text
        .split_once(':')
        .filter(|_| IDENTITIES.contains(&name))
        .and_then(|(module, name)| Some((namespace(module)?, name)));
    if let Some((namespace, name)) = identity {
        leaf.content = Content::Identity {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
    }
    Ok(leaf)
}

/// Returns the modules whose nodes are in the data.
pub(crate) fn modules(elements: &[Element]) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&Element> = elements.iter().collect();
    while let Some(one) = waiting.pop() {
        found.extend(module(&one.namespace));
        waiting.extend(one.children());
    }
    found
}

/// Returns the data without the nodes of modules that are not in `has`.
pub(crate) fn limited(elements: &[Element], has: &BTreeSet<String>) -> Vec<Element> {
    let known = |one: &&Element| module(&one.namespace).is_some_and(|name| has.contains(name));
    elements
        .iter()
        .filter(known)
        .map(|one| {
            let mut kept = one.clone();
            if let Some(children) = kept.children_mut() {
                *children = limited(one.children(), has);
            }
            kept
        })
        .collect()
}

/// Returns a subtree filter for all that a plan may own at these interfaces and this bridge. `identities` asks for the
/// identification of streams, too.
pub(crate) fn filter(elements: &[Element], identities: bool) -> Vec<Element> {
    let mut found: Vec<Element> = elements
        .iter()
        .filter(|one| one.name != IDENTITY)
        .map(|one| {
            let entries = one.children().iter().map(|entry| {
                let name = entry.child("name").cloned();
                Element::nodes(&entry.namespace, &entry.name, name.into_iter().collect())
            });
            Element::nodes(&one.namespace, &one.name, entries.collect())
        })
        .collect();
    if let Some(space) = namespace(IDENTIFICATION).filter(|_| identities) {
        found.push(Element::nodes(space, IDENTITY, Vec::new()));
    }
    found
}

/// Returns a filter for these nodes of all interfaces, those with settings and all others.
pub(crate) fn interface_leaves(names: &[&str]) -> Vec<Element> {
    let space = namespace("ietf-interfaces").unwrap_or_default();
    let all = |list: &str| {
        let nodes = names
            .iter()
            .map(|name| Element::nodes(space, name, Vec::new()));
        let entry = Element::nodes(space, "interface", nodes.collect());
        Element::nodes(space, list, vec![entry])
    };
    vec![all("interfaces"), all("interfaces-state")]
}

/// Returns a filter for the names of all modules, in the library of RFC 8525 and in that of RFC 7895.
pub(crate) fn module_names() -> Vec<Element> {
    let space = "urn:ietf:params:xml:ns:yang:ietf-yang-library";
    let node = |name: &str, inner: Vec<Element>| Element::nodes(space, name, inner);
    let set = node(
        "module-set",
        vec![node("module", vec![node("name", vec![])])],
    );
    // There, those that others only import stand among the rest.
    let leaves = ["name", "conformance-type"].map(|name| node(name, vec![]));
    let older = node("module", leaves.into());
    vec![
        node("yang-library", vec![set]),
        node("modules-state", vec![older]),
    ]
}

/// Returns the interfaces in these data that have a name, with it.
pub(crate) fn named_interfaces(elements: &[Element]) -> impl Iterator<Item = (&str, &Element)> {
    let lists = elements
        .iter()
        .filter(|one| matches!(one.name.as_str(), "interfaces" | "interfaces-state"));
    let entries = lists
        .flat_map(Element::children)
        .filter(|one| one.name == "interface");
    entries.filter_map(|one| Some((one.child("name")?.value(), one)))
}

/// Returns the names of the interfaces in these data.
#[must_use]
pub fn interfaces(elements: &[Element]) -> BTreeSet<String> {
    named_interfaces(elements)
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_come_first_identities_have_their_namespace_and_numbers_are_text() {
        let all = elements(&json!({ "ieee802-dot1q-bridge:bridges": { "bridge": [ {
            "address": "02-00-00-00-00-01",
            "bridge-type": "ieee802-dot1q-bridge:customer-vlan-bridge",
            "component": [ { "filtering-database": { "filtering-entry": [ {
                "address": "01-00-00-00-00-01", "database-id": 5, "entry-type": "static", "vids": "5" } ] }, "name": "c" } ],
            "name": "ieee802-dot1q-types:s",
        } ] } }))
        .unwrap();
        let mut text = String::new();
        all[0].write(&mut text);
        let space = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge";
        assert_eq!(
            text,
            format!(
                "<bridges xmlns=\"{space}\"><bridge><name>ieee802-dot1q-types:s</name><address>02-00-00-00-00-01</address>\
             <bridge-type xmlns:id=\"{space}\">id:customer-vlan-bridge</bridge-type><component><name>c</name>\
             <filtering-database><filtering-entry><database-id>5</database-id><vids>5</vids><address>01-00-00-00-00-01</address>\
             <entry-type>static</entry-type></filtering-entry></filtering-database></component></bridge></bridges>"
            )
        );
    }

    #[test]
    fn data_of_unknown_modules_are_refused() {
        assert!(elements(&json!({ "other:top": {} })).is_err());
        assert!(elements(&json!([])).is_err());
        assert!(elements(&json!({ "ietf-interfaces:interfaces": null })).is_err());
    }
}
