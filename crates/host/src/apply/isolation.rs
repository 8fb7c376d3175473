//! Isolation of the interface: in place, or in a network namespace of its own. Pure.

use super::choices::{Choices, Isolation};
use super::configuration::{Configuration, Lack, want};
use super::present::Present;
use super::share::Share;
use crate::change::{Kept, Subject, Value, Wanted};
use crate::netlink::Tree;

/// Returns the name of the namespace that rtwire makes for an interface.
#[must_use]
pub fn namespace_name(interface: &str) -> String {
    format!("rtw-{interface}")
}

/// Adds the settings that isolate the interface. Returns whether all settings belong in a namespace
/// ([`into_namespace`]).
pub(super) fn isolate(
    all: &mut Configuration,
    share: &Share,
    present: &Present,
    choices: &Choices,
) -> bool {
    let udp = share
        .sends
        .iter()
        .chain(&share.receives)
        .any(|stream| stream.udp);
    let moved = match choices.isolation {
        Isolation::None => {
            all.notes.push(
                "the interface is not isolated: other traffic of this machine on it is not in the plan"
                    .to_owned(),
            );
            return false;
        }
        Isolation::Addresses => false,
        // Links on the interface in the namespace were made there.
        Isolation::Namespace if present.moved || present.held_by.is_empty() => true,
        Isolation::Namespace => {
            all.lacks.push(Lack {
                what: format!(
                    "an interface that can be moved: {} would not survive it",
                    present.held_by.join(", ")
                ),
                lost: "the exclusion of this machine's other traffic from the interface".to_owned(),
                remedy: "remove that first, or choose another isolation: --isolation addresses"
                    .to_owned(),
                instead: "the interface stays in place and loses its addresses".to_owned(),
            });
            false
        }
    };
    let interface = || present.interface.clone();
    let addresses = Subject::Addresses {
        interface: interface(),
    };
    if !udp {
        want(all, addresses, Value::Addresses(Kept::default()));
        let arp = Subject::Arp {
            interface: interface(),
        };
        want(all, arp, Value::Flag(false));
    } else if moved {
        all.notes.push(
            "UDP streams need addresses: IPv4 addresses move into the namespace, routes do not"
                .to_owned(),
        );
        want(all, addresses, Value::Addresses(present.addresses.clone()));
    } else {
        all.notes
            .push("UDP streams need addresses: IPv4 and ARP stay as they are".to_owned());
        if present.ipv6 {
            // Without IPv6 its addresses, routes and neighbours are gone: recorded here, they come back.
            want(all, addresses, Value::Addresses(present.four.clone()));
        }
    }
    if present.ipv6 {
        let path = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", present.interface);
        want(all, Subject::Setting { path }, Value::Text("1".to_owned()));
    }
    moved
}

/// Moves the same settings into the interface's own namespace, and puts the steps of the move before them.
pub(super) fn into_namespace(all: &mut Configuration, present: &Present) {
    let interface = || present.interface.clone();
    let namespace = namespace_name(&present.interface);
    let mut whole = Vec::new();
    let mut step = |subject, to| whole.push(Wanted { subject, to });
    if !present.moved {
        // The move itself would remove these. Removed before it, they are recorded and put back.
        let addresses = Value::Addresses(Kept::default());
        step(
            Subject::Addresses {
                interface: interface(),
            },
            addresses,
        );
        step(
            Subject::Queues {
                interface: interface(),
            },
            Value::Queues(Tree::default()),
        );
        step(
            Subject::Up {
                interface: interface(),
            },
            Value::Flag(false),
        );
    }
    step(
        Subject::Namespace {
            name: namespace.clone(),
        },
        Value::Flag(true),
    );
    step(
        Subject::Place {
            interface: interface(),
            namespace: namespace.clone(),
        },
        Value::There(namespace.clone()),
    );
    for one in std::mem::take(&mut all.wanted) {
        let subject = match one.subject {
            // A namespace that rtwire makes has IPv6 off from the start.
            Subject::Setting { path } if path.starts_with("/proc/sys/net/ipv6/") => continue,
            // These belong to the machine, not to the interface.
            subject @ (Subject::Setting { .. } | Subject::Thread { .. }) => subject,
            subject => Subject::Inside {
                namespace: namespace.clone(),
                inside: Box::new(subject),
            },
        };
        whole.push(Wanted {
            subject,
            to: one.to,
        });
    }
    all.wanted = whole;
    all.notes.push(format!(
        "the interface is in network namespace {namespace}; run its programs there: ip netns exec {namespace} rtwire \
         run …"
    ));
}
