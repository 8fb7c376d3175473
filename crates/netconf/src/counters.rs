//! The counters of a switch's ports (RFC 8343, section 5; RFC 7223 has the same leaves in `interfaces-state`).

use std::collections::BTreeMap;

use crate::data::{interface_leaves, named_interfaces};
use crate::element::Element;

/// The counters of one port. Each begins again from 0 behind 2^32 - 1. `None`: the switch does not show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// The moment at which they began from 0, as the switch says it.
    pub began: Option<String>,
    /// Frames that came and were discarded, although nothing was wrong with them.
    pub in_discards: Option<u32>,
    /// Frames that came with errors.
    pub in_errors: Option<u32>,
    /// Frames that were to leave and were discarded, although nothing was wrong with them: mostly for lack of memory.
    pub out_discards: Option<u32>,
    /// Frames that could not be sent because of errors.
    pub out_errors: Option<u32>,
}

impl PortCounters {
    /// Returns what was counted since `earlier`. `None` if the counters began anew in between.
    #[must_use]
    pub fn since(&self, earlier: &PortCounters) -> Option<PortCounters> {
        let less = |now: Option<u32>, before: Option<u32>| Some(now?.wrapping_sub(before?));
        (self.began == earlier.began).then(|| PortCounters {
            began: self.began.clone(),
            in_discards: less(self.in_discards, earlier.in_discards),
            in_errors: less(self.in_errors, earlier.in_errors),
            out_discards: less(self.out_discards, earlier.out_discards),
            out_errors: less(self.out_errors, earlier.out_errors),
        })
    }

    /// Returns the counters with their names in the standard.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Option<u32>); 4] {
        [
            ("in-discards", self.in_discards),
            ("in-errors", self.in_errors),
            ("out-discards", self.out_discards),
            ("out-errors", self.out_errors),
        ]
    }
}

/// Returns a filter for the counters of all ports.
pub(crate) fn filter() -> Vec<Element> {
    interface_leaves(&["name", "statistics"])
}

/// Returns the counters in these data, by the port's name. A leaf that is no number of 32 bits is not shown.
pub(crate) fn counters(data: &[Element]) -> BTreeMap<String, PortCounters> {
    let mut found = BTreeMap::new();
    for (name, entry) in named_interfaces(data) {
        let Some(statistics) = entry.child("statistics") else {
            continue;
        };
        let count = |leaf: &str| statistics.child(leaf)?.value().parse().ok();
        let counters = PortCounters {
            began: statistics
                .child("discontinuity-time")
                .map(|time| time.value().to_owned()),
            in_discards: count("in-discards"),
            in_errors: count("in-errors"),
            out_discards: count("out-discards"),
            out_errors: count("out-errors"),
        };
        found.insert(name.to_owned(), counters);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::NETCONF;
    use crate::{Action, Client, Framing, Job, Outcome, Settings, encode};

    const SPACE: &str = "urn:ietf:params:xml:ns:yang:ietf-interfaces";

    /// Holds a session with a switch that has no more than NETCONF and shows this.
    fn counted(data: &str) -> BTreeMap<String, PortCounters> {
        let hello = format!(
            "<hello xmlns=\"{NETCONF}\"><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability></capabilities></hello>"
        );
        let replies = [format!("<data>{data}</data>"), "<ok/>".to_owned()];
        let mut client = Client::new(Job::Count, Vec::new(), Settings::default());
        assert!(matches!(client.start(), Action::Send(_)));
        let mut action = client
            .received(&encode(Framing::EndOfMessage, &hello))
            .unwrap();
        for (number, reply) in (1..).zip(replies) {
            let Action::Send(asked) = action else {
                panic!("{action:?}")
            };
            let asked = String::from_utf8(asked).unwrap();
            assert_eq!(asked.contains("<statistics"), number == 1, "{asked}");
            let reply = format!(
                "<rpc-reply xmlns=\"{NETCONF}\" message-id=\"{number}\">{reply}</rpc-reply>"
            );
            action = client
                .received(&encode(Framing::EndOfMessage, &reply))
                .unwrap();
        }
        let Action::Done(report) = action else {
            panic!("{action:?}")
        };
        let Outcome::Counted(counted) = report.outcome else {
            panic!("{report:?}")
        };
        counted
    }

    #[test]
    fn counters_are_read_in_both_forms() {
        let entry = |statistics: &str| {
            format!(
                "<interface><name>p</name><statistics><discontinuity-time>t</discontinuity-time>{statistics}</statistics></interface>\
                 <interface><name>q</name></interface>"
            )
        };
        let some = "<in-octets>77</in-octets><in-discards>1</in-discards><in-errors>2</in-errors>\
                    <out-discards>4294967295</out-discards><out-errors>4</out-errors>";
        for list in ["interfaces", "interfaces-state"] {
            let found = counted(&format!(
                "<{list} xmlns=\"{SPACE}\">{}</{list}>",
                entry(some)
            ));
            let expected = PortCounters {
                began: Some("t".to_owned()),
                in_discards: Some(1),
                in_errors: Some(2),
                out_discards: Some(u32::MAX),
                out_errors: Some(4),
            };
            assert_eq!(found, BTreeMap::from([("p".to_owned(), expected)]));
        }
        // Not shown, no number, and more than 32 bits.
        let odd = "<in-errors>x</in-errors><out-errors>4294967296</out-errors>";
        let found = counted(&format!(
            "<interfaces xmlns=\"{SPACE}\">{}</interfaces>",
            entry(odd)
        ));
        assert!(found["p"].named().iter().all(|(_, count)| count.is_none()));
        assert_eq!(counted(""), BTreeMap::new());
    }
}
