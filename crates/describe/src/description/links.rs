//! The links of a description and the nodes that they join.

use std::collections::BTreeMap;

use super::context::{ns, whole_rate};
use super::fault::Findings;
use super::nodes::Nodes;
use super::walk::{Record, Span};
use crate::network::{Defaults, Link};

pub(super) fn links(
    records: &[Record],
    nodes: &mut Nodes<'_>,
    defaults: &Defaults,
    places: &BTreeMap<String, Span>,
    default_rate_given: bool,
    findings: &mut Findings<'_>,
) -> (Vec<Link>, bool) {
    let mut links = Vec::new();
    // Without all ends known, "no link" would be a wrong accusation.
    let mut complete = true;
    for record in records {
        let rate_bps = match record.quantity("rate") {
            Some(rate) => whole_rate("rate", rate, &record.place("rate"), findings),
            None if record.has("rate") => None,
            None => {
                if defaults.link_rate_bps.is_none() && !default_rate_given {
                    let help = Some("or give `link-rate` in [defaults]".to_owned());
                    findings.at(&record.span, "missing key `rate` in [[link]]", help);
                }
                defaults.link_rate_bps
            }
        };
        let Some([(a_name, a_span), (b_name, b_span)]) = record.names("ends") else {
            complete = false;
            continue;
        };
        let (a, b) = (nodes.number(a_name), nodes.number(b_name));
        for (end, number, span) in [(a_name, a, a_span), (b_name, b, b_span)] {
            if number.is_none() {
                let help = findings
                    .nearest(end, places.keys().map(String::as_str))
                    .map(|near| format!("did you mean \"{near}\"?"));
                findings.at(
                    span,
                    format!("link end \"{end}\": there is no such {}", nodes.kinds()),
                    help,
                );
            }
        }
        let (Some(a), Some(b)) = (a, b) else {
            complete = false;
            continue;
        };
        if a == b {
            findings.at(
                &record.place("ends"),
                format!("the link joins \"{a_name}\" to itself"),
                None,
            );
            complete = false;
            continue;
        }
        if nodes.joined(a, b) {
            findings.at(
                &record.place("ends"),
                format!("a link between \"{a_name}\" and \"{b_name}\" is given already"),
                None,
            );
            continue;
        }
        nodes.join(a, b);
        let cable_delay_ns = record.quantity("cable-delay").map_or(0, ns);
        if let Some(rate_bps) = rate_bps {
            links.push(Link {
                ends: [a_name.clone(), b_name.clone()],
                rate_bps,
                cable_delay_ns,
            });
        }
    }
    let first_switch = nodes.names().get(nodes.host_names().len());
    for host in nodes
        .host_names()
        .iter()
        .filter(|host| complete && !nodes.has_link(host))
    {
        if let Some(place) = places.get(*host) {
            let help = first_switch
                .map(|switch| format!("add [[link]] ends = [\"{host}\", \"{switch}\"]"));
            findings.at(place, format!("host \"{host}\" has no link"), help);
        }
    }
    nodes.settle();
    (links, complete)
}
