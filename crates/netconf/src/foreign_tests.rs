//! The client against a scripted switch that writes in another manner than the model and netconfd do.
//!
//! It is written after RFC 6241, 6242, 7950 and 8525, and after what a server on libyang and sysrepo was seen to offer.
//! It has version 1.1 only, its modules in the library only, and a prefix for NETCONF's own elements. Its chunks end anywhere, and
//! prefixes of identities are declared far above. Comments and notifications lie in between. One refusal has several errors.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::{Value, json};

use super::*;

const NC: &str = "xmlns:nc=\"urn:ietf:params:xml:ns:netconf:base:1.0\"";
const BRIDGE: &str = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge";

fn planned() -> Value {
    let port = json!({ "port-type": "ieee802-dot1q-bridge:c-vlan-bridge-port", "pvid": 5 });
    let interface = json!({ "name": "swp1", "ieee802-dot1q-bridge:bridge-port": port });
    json!({ "ietf-interfaces:interfaces": { "interface": [interface] } })
}

fn hello() -> Vec<u8> {
    let abilities = [
        "base:1.1",
        "capability:writable-running:1.0",
        "capability:candidate:1.0",
        "capability:confirmed-commit:1.1",
        "capability:rollback-on-error:1.0",
        "capability:validate:1.1",
        "capability:with-defaults:1.0?basic-mode=explicit&amp;also-supported=report-all,trim",
        "capability:yang-library:1.1?revision=2019-01-04&amp;content-id=17",
    ];
    let list: String = abilities
        .iter()
        .map(|one| format!("\n    <nc:capability>urn:ietf:params:netconf:{one}</nc:capability>"))
        .collect();
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<nc:hello {NC}><!-- a switch -->\n  <nc:capabilities>{list}\n  \
         </nc:capabilities>\n  <nc:session-id>4294967295</nc:session-id>\n</nc:hello>\n"
    );
    encode(Framing::EndOfMessage, &text)
}

/// Writes a reply in chunks of 7 bytes.
fn reply(id: usize, inside: &str) -> Vec<u8> {
    let text = format!(
        "<nc:rpc-reply nc:x=\"y\" message-id=\"{id}\" {NC}>\n  {inside}\n</nc:rpc-reply>\n"
    );
    let chunks = text.as_bytes().chunks(7);
    let mut bytes: Vec<u8> = chunks
        .flat_map(|chunk| [format!("\n#{}\n", chunk.len()).as_bytes(), chunk].concat())
        .collect();
    bytes.extend_from_slice(b"\n##\n");
    bytes
}

const OK: &str = "<nc:ok/>";

fn library() -> String {
    let modules = ["ietf-interfaces", "ieee802-dot1q-bridge"]
        .map(|name| format!("<module><name>{name}</name></module>"));
    format!(
        "<nc:data><yang-library xmlns=\"urn:ietf:params:xml:ns:yang:ietf-yang-library\"><module-set><name>complete</name>{}\
         </module-set></yang-library></nc:data>",
        modules.concat()
    )
}

/// The settings; the identity's prefix is declared at the top.
fn settings(pvid: u32) -> String {
    format!(
        "<nc:data xmlns:if=\"urn:ietf:params:xml:ns:yang:ietf-interfaces\" xmlns:b=\"{BRIDGE}\">\n\
         <if:interfaces><if:interface><if:name>swp1</if:name><b:bridge-port>\n<b:pvid>\n {pvid}\n</b:pvid>\
         <b:port-type>b:c-vlan-bridge-port</b:port-type></b:bridge-port></if:interface>\
         <if:interface><if:name>swp2</if:name></if:interface></if:interfaces></nc:data>"
    )
}

/// Holds a session in which the switch answers with these replies in turn, and then is gone. Returns the end and the requests.
fn held(replies: &[&str], keeps: bool) -> (Result<Report, Left>, Vec<String>) {
    let mut client = Client::new(
        Job::Push,
        data::elements(&planned()).unwrap(),
        Settings::default(),
    );
    let mut asked = Vec::new();
    let mut said = 0;
    let mut action = client.start();
    let mut answer = hello();
    let end = loop {
        action = match action {
            Action::Send(bytes) => {
                if asked.is_empty() && said == 0 && bytes.ends_with(b"]]>]]>") {
                    client.received(&std::mem::take(&mut answer)).unwrap()
                } else {
                    asked.push(String::from_utf8(bytes).unwrap());
                    match replies.get(said) {
                        None => break Err(client.left()),
                        Some(inside) => {
                            said += 1;
                            // Something else in between is no reply.
                            let notes = encode(Framing::Chunked, "<notification xmlns=\"urn:x\"/>");
                            let all = [notes, reply(said, inside)].concat();
                            let (first, rest) = all.split_at(all.len() / 2);
                            match client.received(first).unwrap() {
                                Action::Wait => client.received(rest).unwrap(),
                                other => panic!("half a reply: {other:?}"),
                            }
                        }
                    }
                }
            }
            Action::Wait => panic!("all was said: {asked:#?}"),
            Action::Decide if keeps => client.confirm(),
            Action::Decide => client.cancel(),
            Action::Done(report) => break Ok(*report),
        };
    };
    (end, asked)
}

/// The replies up to the one to the commit.
fn up_to_commit<'a>(library: &'a str, old: &'a str, new: &'a str) -> Vec<&'a str> {
    vec![library, old, OK, old, OK, new, OK]
}

#[test]
fn a_switch_of_another_manner_takes_its_share() {
    let (library, old, new) = (library(), settings(1), settings(5));
    let mut replies = up_to_commit(&library, &old, &new);
    replies.extend([new.as_str(), OK, OK, OK]);
    let (end, asked) = held(&replies, true);
    let Ok(Report {
        outcome: Outcome::Pushed { changes, confirmed },
        notes,
        ..
    }) = end
    else {
        panic!("{end:?}")
    };
    assert!(confirmed && notes.is_empty(), "{notes:?}");
    assert_eq!(
        changes[0].to_string(),
        "/interfaces/interface[swp1]/bridge-port/pvid: planned 5, found 1"
    );
    assert_eq!(changes.len(), 1, "{changes:?}");
    // Each request is one chunk of the length that it says, and what is asked of the switch is what the RFC has.
    for (one, at) in asked.iter().zip(1..) {
        let (length, rest) = one[2..].split_once('\n').unwrap();
        let text = &rest[..length.parse().unwrap()];
        assert_eq!(&rest[text.len()..], "\n##\n");
        let document = roxmltree::Document::parse(text).unwrap();
        let id = document.root_element().attribute("message-id");
        assert_eq!(id, Some(at.to_string().as_str()));
    }
    assert!(
        asked[6].contains("<commit><confirmed/><confirm-timeout>60</confirm-timeout></commit>"),
        "{}",
        asked[6]
    );
    assert!(asked[8].contains("<commit/>"), "{}", asked[8]);
    assert!(asked[3].contains(">report-all</with-defaults>"));
}

#[test]
fn wherever_it_goes_away_the_message_says_what_it_is_left_with() {
    let (library, old, new) = (library(), settings(1), settings(5));
    let mut replies = up_to_commit(&library, &old, &new);
    replies.extend([new.as_str(), OK, OK, OK]);
    let back = Left::PutsBack { within_s: 60 };
    // Before its commit nothing is in force. The reply to the confirmation decides.
    let lefts = [
        [Left::Unchanged; 6].to_vec(),
        vec![Left::Unknown, back, Left::Unknown, Left::Changed],
    ];
    for (left, at) in lefts.concat().into_iter().zip(0..) {
        let (end, _) = held(&replies[..at], true);
        assert_eq!(end.unwrap_err(), left, "gone behind {at} replies");
    }
}

#[test]
fn another_value_in_force_is_cancelled_and_the_old_settings_are_looked_for() {
    let (library, old, new) = (library(), settings(1), settings(5));
    let other = settings(7);
    for (shown, left) in [(&old, Left::PutBack), (&other, Left::Unknown)] {
        let mut replies = up_to_commit(&library, &old, &new);
        replies.extend([other.as_str(), OK, shown.as_str(), OK, OK]);
        let (end, asked) = held(&replies, true);
        assert!(asked[8].contains("<cancel-commit/>"), "{}", asked[8]);
        let outcome = end.unwrap().outcome;
        assert!(
            matches!(&outcome, Outcome::NotTaken { left: found, .. } if *found == left),
            "{outcome:?}"
        );
    }
}

#[test]
fn all_reasons_of_a_refusal_are_told_and_the_candidate_is_discarded() {
    let (library, old) = (library(), settings(1));
    let error = |tag: &str, path: &str, text: &str| {
        format!(
            "<nc:rpc-error><nc:error-type>protocol</nc:error-type><nc:error-tag>{tag}</nc:error-tag>\
             <nc:error-severity>error</nc:error-severity><nc:error-path xmlns:b=\"{BRIDGE}\">{path}</nc:error-path>\
             <nc:error-message xml:lang=\"en\">{text}</nc:error-message><nc:error-info><nc:bad-element>x</nc:bad-element>\
             </nc:error-info></nc:rpc-error>"
        )
    };
    let refusal = error(
        "invalid-value",
        "/b:pvid",
        "Value \"5\" &lt; is\u{7f}wrong.",
    ) + &error("data-missing", "", "");
    let replies = [library.as_str(), &old, OK, &old, &refusal, OK, OK, OK];
    let (end, asked) = held(&replies, true);
    let Outcome::Refused {
        request,
        errors,
        left: Left::Unchanged,
    } = end.unwrap().outcome
    else {
        panic!()
    };
    assert_eq!(request, "to take the settings");
    let words: Vec<String> = errors.iter().map(RpcError::to_string).collect();
    assert_eq!(
        words,
        [
            "invalid-value: Value \"5\" < is wrong. (at /b:pvid)",
            "data-missing"
        ]
    );
    assert!(asked[5].contains("<discard-changes/>"));
}
