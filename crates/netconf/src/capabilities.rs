//! A server's abilities, from its hello and its library of modules.

use std::collections::BTreeSet;

use crate::element::{Element, NETCONF, below, parsed};
use crate::error::NetconfError;

const BASE: &str = "urn:ietf:params:netconf:base:";
const ABILITY: &str = "urn:ietf:params:netconf:capability:";

/// The abilities of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) chunked: bool,
    pub(crate) candidate: bool,
    pub(crate) confirmed_commit: bool,
    /// It takes `cancel-commit`.
    pub(crate) cancel_commit: bool,
    pub(crate) startup: bool,
    /// It reports values that are the default.
    pub(crate) all_values: bool,
    /// It has a library of modules (RFC 7895, RFC 8525).
    pub(crate) library: bool,
    /// The modules that its hello names.
    pub(crate) modules: BTreeSet<String>,
}

impl Capabilities {
    /// Reads a hello.
    pub(crate) fn of_hello(message: &[u8]) -> Result<Self, NetconfError> {
        let children = parsed(message, |root| {
            if root.tag_name().name() != "hello" || root.tag_name().namespace() != Some(NETCONF) {
                return Err(NetconfError::Protocol(format!(
                    "its first message is `{}`, not a hello",
                    root.tag_name().name()
                )));
            }
            below(root)
        })?;
        let list = children.iter().find(|one| one.name == "capabilities");
        let all: Vec<&str> = list
            .map_or(&[][..], Element::children)
            .iter()
            .map(Element::value)
            .collect();
        if !all.iter().any(|one| one.starts_with(BASE)) {
            return Err(NetconfError::Protocol(
                "its hello names no version of NETCONF".to_owned(),
            ));
        }
        let has = |name: &str| {
            let mut all = all.iter();
            all.any(|one| one.split('?').next() == Some(&format!("{ABILITY}{name}")))
        };
        let version = |name: &str| has(&format!("{name}:1.0")) || has(&format!("{name}:1.1"));
        Ok(Self {
            chunked: all.contains(&format!("{BASE}1.1").as_str()),
            candidate: has("candidate:1.0"),
            confirmed_commit: version("confirmed-commit"),
            cancel_commit: has("confirmed-commit:1.1"),
            startup: has("startup:1.0"),
            all_values: all.iter().any(|one| reports_all(one)),
            library: version("yang-library"),
            modules: all
                .iter()
                .filter_map(|one| module(one))
                .map(str::to_owned)
                .collect(),
        })
    }

    /// Adds the modules of a library (`yang-library` of RFC 8525, `modules-state` of RFC 7895).
    pub(crate) fn add_library(&mut self, data: &[Element]) {
        for one in data.iter().flat_map(|top| match top.name.as_str() {
            "modules-state" | "yang-library" => top.children(),
            _ => &[],
        }) {
            match one.name.as_str() {
                "module" => self.add(one),
                "module-set" => {
                    let modules = one.children().iter().filter(|inner| inner.name == "module");
                    modules.for_each(|inner| self.add(inner));
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, module: &Element) {
        // One that others only import has no data.
        let is_imported = module
            .child("conformance-type")
            .is_some_and(|kind| kind.value() == "import");
        let name = module.child("name").filter(|_| !is_imported);
        self.modules
            .extend(name.map(|name| name.value().to_owned()));
    }
}

/// Returns the module that a capability stands for.
fn module(capability: &str) -> Option<&str> {
    let (_, query) = capability.split_once('?')?;
    query.split('&').find_map(|one| one.strip_prefix("module="))
}

/// Returns `true` if the capability is that of defaults (RFC 6243), and all values can be had.
fn reports_all(capability: &str) -> bool {
    let Some((name, query)) = capability.split_once('?') else {
        return false;
    };
    name == format!("{ABILITY}with-defaults:1.0")
        && query.split('&').any(|one| {
            let (_, modes) = one.split_once('=').unwrap_or_default();
            modes.split(',').any(|mode| mode == "report-all")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(capabilities: &[&str]) -> String {
        let list: String = capabilities
            .iter()
            .map(|one| format!("<capability>\n {one} </capability>"))
            .collect();
        format!(
            "\n<?xml version=\"1.0\"?><x:hello xmlns:x=\"{NETCONF}\"><x:capabilities>{}</x:capabilities></x:hello>",
            list.replace("<", "<x:").replace("<x:/", "</x:")
        )
    }

    #[test]
    fn a_hello_says_what_a_switch_can() {
        let text = hello(&[
            "urn:ietf:params:netconf:base:1.1",
            "urn:ietf:params:netconf:capability:candidate:1.0",
            "urn:ietf:params:netconf:capability:confirmed-commit:1.1",
            "urn:ietf:params:netconf:capability:with-defaults:1.0?basic-mode=trim&amp;also-supported=explicit,report-all",
            "urn:x?revision=2020-01-01&amp;module=ieee802-dot1q-bridge&amp;features=a",
        ]);
        let found = Capabilities::of_hello(text.as_bytes()).unwrap();
        assert!(
            found.chunked
                && found.candidate
                && found.confirmed_commit
                && found.cancel_commit
                && found.all_values
        );
        assert!(!found.startup && !found.library);
        assert_eq!(Vec::from_iter(found.modules), ["ieee802-dot1q-bridge"]);
        let old = hello(&[
            "urn:ietf:params:netconf:base:1.0",
            "urn:ietf:params:netconf:capability:confirmed-commit:1.0",
        ]);
        let found = Capabilities::of_hello(old.as_bytes()).unwrap();
        assert!(
            !found.chunked && found.confirmed_commit && !found.cancel_commit && !found.all_values
        );
    }

    #[test]
    fn both_libraries_name_modules_but_not_those_that_are_only_imported() {
        let space = "urn:ietf:params:xml:ns:yang:ietf-yang-library";
        let module = |name: &str, more: &str| format!("<module><name>{name}</name>{more}</module>");
        let kind = |name: &str| format!("<conformance-type>{name}</conformance-type>");
        let text = format!(
            "<data><yang-library xmlns=\"{space}\"><module-set><name>one</name>{}<import-only-module><name>c</name>\
             </import-only-module></module-set><module-set><name>two</name>{}</module-set></yang-library>\
             <modules-state xmlns=\"{space}\">{}{}</modules-state></data>",
            module("a", ""),
            module("b", ""),
            module("d", &kind("implement")),
            module("e", &kind("import")),
        );
        let mut found = Capabilities::default();
        found.add_library(&parsed(text.as_bytes(), below).unwrap());
        assert_eq!(Vec::from_iter(found.modules), ["a", "b", "d"]);
    }

    #[test]
    fn what_is_no_hello_is_told() {
        for wrong in [
            "Welcome to s1!",
            "<hello/>",
            &hello(&[]),
            &format!("<rpc-reply xmlns=\"{NETCONF}\"/>"),
        ] {
            assert!(Capabilities::of_hello(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
