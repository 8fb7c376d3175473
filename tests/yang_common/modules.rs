//! Modules for a NETCONF server, made from the published structure: names, namespaces, places, keys, mandatory nodes, ranges.
//! Nodes that no plan sets are left out, and so are most constraints. `RTWIRE_YANG_MODULES` has a server use the modules themselves.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use super::structure::{Node, tree};

/// Module, prefix, and what it has besides the nodes of the tree.
const MADE: [(&str, &str, &str); 8] = [
    (
        "ieee802-dot1q-types",
        "dot1q-types",
        "identity type-of-operation; identity transmission-selection-algorithm;\n\
         identity strict-priority { base transmission-selection-algorithm; }\n\
         identity credit-based-shaper { base transmission-selection-algorithm; }\n",
    ),
    (
        "ieee802-dot1q-bridge",
        "dot1q",
        "identity type-of-bridge; identity customer-vlan-bridge { base type-of-bridge; }\n\
         identity type-of-component; identity c-vlan-component { base type-of-component; }\n\
         identity type-of-port; identity c-vlan-bridge-port { base type-of-port; }\n",
    ),
    (
        "ieee802-dot1q-sched",
        "sched",
        "identity set-gate-states { base dot1q-types:type-of-operation; }\n",
    ),
    ("ieee802-dot1q-sched-bridge", "sched-bridge", ""),
    ("ieee802-dot1q-cbsa-bridge", "cbsa-bridge", ""),
    ("ieee802-dot1q-preemption-bridge", "preempt-bridge", ""),
    (
        "ieee802-dot1q-stream-filters-gates-bridge",
        "sfsg-bridge",
        "",
    ),
    ("ieee802-dot1cb-stream-identification", "dot1cb-sid", ""),
];

/// Constraints of the published modules that a server can break a plan with: node, and what stands in it.
const CONSTRAINTS: [(&str, &str, &str); 2] = [
    (
        "ieee802-dot1q-sched-bridge",
        "admin-control-list",
        "must \"count(./gate-control-entry) <= ../supported-list-max\";",
    ),
    (
        "ieee802-dot1q-sched-bridge",
        "time-interval-value",
        "must \". <= ../../../supported-interval-max\";",
    ),
];

/// Writes the modules into a folder, and returns their names.
pub(crate) fn write(folder: &Path) -> io::Result<Vec<&'static str>> {
    let top = Node {
        children: tree(),
        ..Node::default()
    };
    for (name, prefix, more) in MADE {
        let mut text = format!(
            "module {name} {{\nyang-version 1.1;\nnamespace \"urn:ieee:std:802.1Q:yang:{name}\";\nprefix {prefix};\n\
             import ietf-interfaces {{ prefix if; }}\n"
        );
        let others = MADE.iter().filter(|(other, ..)| *other != name);
        // A module imports those before it in the list only.
        for (other, prefix, _) in others.take_while(|(other, ..)| place(other) < place(name)) {
            let _ = writeln!(text, "import {other} {{ prefix {prefix}; }}");
        }
        let _ = writeln!(text, "revision 2024-08-07;\n{more}");
        if name == "ieee802-dot1cb-stream-identification" || name == "ieee802-dot1q-bridge" {
            for node in top.children.iter().filter(|node| node.module == name) {
                statement(node, name, &mut text);
            }
        }
        augments(&top, "", name, &mut text);
        text.push_str("}\n");
        fs::write(folder.join(format!("{name}@2024-08-07.yang")), text)?;
    }
    Ok(MADE.iter().map(|(name, ..)| *name).collect())
}

fn place(name: &str) -> Option<usize> {
    MADE.iter().position(|(one, ..)| *one == name)
}

fn prefix(module: &str) -> Option<&'static str> {
    let found = MADE.iter().find(|(one, ..)| *one == module);
    found.map(|(_, prefix, _)| *prefix)
}

/// Writes what `module` adds to nodes of other modules.
fn augments(node: &Node, path: &str, module: &str, text: &mut String) {
    let added: Vec<&Node> = node
        .children
        .iter()
        .filter(|child| !path.is_empty() && child.module == module && node.module != module)
        .collect();
    if !added.is_empty() {
        let _ = writeln!(text, "augment \"{path}\" {{");
        added
            .iter()
            .for_each(|child| statement(child, module, text));
        text.push_str("}\n");
    }
    for child in &node.children {
        let prefix = match child.module.as_str() {
            "ietf-interfaces" => Some("if"),
            other => prefix(other),
        };
        if let Some(prefix) = prefix.filter(|_| child.module != module) {
            augments(
                child,
                &format!("{path}/{prefix}:{}", child.name),
                module,
                text,
            );
        }
    }
}

/// Writes a node and all below it that are of the module.
fn statement(node: &Node, module: &str, text: &mut String) {
    let _ = match (&node.leaf, node.list, node.choice, node.case) {
        (Some(_), true, ..) => writeln!(text, "leaf-list {} {{", node.name),
        (Some(_), false, ..) => writeln!(text, "leaf {} {{", node.name),
        (None, true, ..) => writeln!(
            text,
            "list {} {{ key \"{}\";",
            node.name,
            node.keys.join(" ")
        ),
        (None, false, true, _) => writeln!(text, "choice {} {{", node.name),
        (None, false, false, true) => writeln!(text, "case {} {{", node.name),
        _ => writeln!(text, "container {} {{", node.name),
    };
    if let Some(kind) = &node.leaf {
        let _ = writeln!(text, "type {}", kind_of(&node.name, kind));
    }
    let constraints = CONSTRAINTS
        .iter()
        .filter(|(of, name, _)| *of == module && *name == node.name);
    constraints.for_each(|(.., constraint)| text.push_str(constraint));
    if node.mandatory {
        text.push_str("mandatory true;\n");
    }
    for child in node.children.iter().filter(|child| child.module == module) {
        statement(child, module, text);
    }
    text.push_str("}\n");
}

/// Returns a type's statement, as far as its name in the tree tells it.
fn kind_of(name: &str, kind: &str) -> String {
    let kind = kind.split("  ").next().unwrap_or(kind);
    let ranged = |kind: &str, range: &str| format!("{kind} {{ range \"{range}\"; }}");
    let words = |all: &[&str]| {
        let all: String = all.iter().map(|one| format!("enum {one}; ")).collect();
        format!("enumeration {{ {all}}}")
    };
    let base = match name {
        "bridge-type" => "dot1q:type-of-bridge",
        "type" => "dot1q:type-of-component",
        "port-type" => "dot1q:type-of-port",
        "operation-name" => "dot1q-types:type-of-operation",
        _ => "dot1q-types:transmission-selection-algorithm",
    };
    match kind.rsplit(':').next().unwrap_or(kind) {
        plain @ ("uint8" | "uint16" | "uint32" | "uint64" | "int32" | "boolean" | "empty") => {
            format!("{plain};")
        }
        "identityref" => format!("identityref {{ base {base}; }}"),
        "priority-type" | "traffic-class-type" => ranged("uint8", "0..7"),
        "vlan-index-type" => ranged("uint16", "1..4094"),
        "vlan-identifier-type" => ranged("uint16", "0..4095"),
        "port-number-type" => ranged("uint32", "1..65535"),
        "name-type" => "string { length \"0..32\"; }".to_owned(),
        "mac-address" => "string { pattern \"[0-9a-fA-F]{2}(-[0-9a-fA-F]{2}){5}\"; }".to_owned(),
        "interface-ref" => "leafref { path \"/if:interfaces/if:interface/if:name\"; }".to_owned(),
        "priority-spec-type" => words(&[
            "zero", "one", "two", "three", "four", "five", "six", "seven", "wildcard",
        ]),
        "gate-state-value-type" => words(&["open", "closed"]),
        "frame-preemption-status-enum" => words(&["express", "preemptable"]),
        "vlan-tag-identification-type" => words(&["tagged", "priority", "all"]),
        _ if name == "stream-gate-ref" => "uint32;".to_owned(),
        _ => "string;".to_owned(),
    }
}
