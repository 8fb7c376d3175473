//! Checks the values of a description together, and builds the network from them.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{
    Context, burst_too_small, bytes, find_host, find_route, frame_size, ns, receivers, whole_rate,
};
use super::fault::Findings;
use super::gates::Profiles;
use super::keys::{Kind, TABLES};
use super::links::links;
use super::nodes::Nodes;
use super::value::{quantity, short};
use super::walk::{Record, Records, Span};
use crate::hash::Fingerprint;
use crate::network::{BestEffort, Buffer, Defaults, Host, Network, Release, Switch};
use crate::ratio::Ratio;

pub(super) fn build(
    records: &Records,
    source: &str,
    overrides: &[(String, String)],
    findings: &mut Findings<'_>,
) -> Option<Network> {
    let none: Vec<Record> = Vec::new();
    let list = |name: &str| records.get(name).unwrap_or(&none);
    let defaults = defaults(list("defaults").first(), overrides, findings);
    let mut places: BTreeMap<String, Span> = BTreeMap::new();
    let profiles = super::gates::profiles(list("gate-profile"), findings);
    let mut all = switches(list("switch"), "switch", &profiles, &mut places, findings);
    all.extend(switches(
        list("router"),
        "router",
        &profiles,
        &mut places,
        findings,
    ));
    let switches = all;
    let hosts = hosts(list("host"), &profiles, &mut places, findings);
    // A default that is faulty has been told once; each link would tell it again.
    let default_rate_given = list("defaults")
        .iter()
        .any(|record| record.has("link-rate"))
        || overrides.iter().any(|(key, _)| key == "link-rate");
    let mut nodes = Nodes::new(&hosts, &switches);
    let (links, links_complete) = links(
        list("link"),
        &mut nodes,
        &defaults,
        &places,
        default_rate_given,
        findings,
    );
    let context = Context {
        defaults: &defaults,
        nodes: &nodes,
        links_complete,
    };
    let streams = super::streams::streams(list("stream"), &context, findings);
    let best_effort = best_effort(list("best-effort"), &context, findings);
    let managed = super::managed::managed(
        list("manager").first(),
        list("transfer"),
        (&context, &best_effort),
        findings,
    );
    let schedule = super::gates::rules(list("schedule").first(), &defaults, findings);
    let mut fingerprint = Fingerprint::new().with(source);
    for (key, value) in overrides {
        fingerprint = fingerprint.with(key).with(value);
    }
    let record = list("network").first()?;
    let mut network = Network {
        name: record.text("name")?.to_owned(),
        description: record.text("description").map(str::to_owned),
        input_hash: fingerprint.text(),
        hosts,
        switches,
        links,
        streams,
        best_effort,
        defaults,
        port_latencies: Vec::new(),
        shapers: Vec::new(),
        schedule,
        manager_host: managed.0,
        transfers: managed.1,
    };
    super::ports::ports(list("port"), &mut network, findings);
    network.shapers = super::shapers::shapers(list("shaper"), &network, findings);
    super::gates::check(&network, records, findings);
    super::ports::check(&network, records, findings);
    super::routers::check(&network, records, findings);
    super::preemption::check(&network, records, findings);
    super::meters::check(&network, records, overrides, findings);
    super::cyclic::check(&network, records, findings);
    Some(network)
}

fn defaults(
    record: Option<&Record>,
    overrides: &[(String, String)],
    findings: &mut Findings<'_>,
) -> Defaults {
    let table = TABLES.iter().find(|table| table.name == "defaults");
    let mut values: BTreeMap<&'static str, Ratio> = BTreeMap::new();
    for key in table.map_or(&[][..], |table| table.keys) {
        let Kind::Quantity { dimension, zero } = key.kind else {
            continue;
        };
        let stated = record.and_then(|record| record.quantity(key.name));
        let built_in = key
            .default
            .and_then(|text| quantity(key.name, text, dimension, zero).ok());
        if let Some(value) = stated.or(built_in) {
            values.insert(key.name, value);
        }
        for (_, text) in overrides.iter().filter(|(name, _)| name == key.name) {
            match quantity(key.name, text, dimension, zero) {
                Ok(value) => {
                    values.insert(key.name, value);
                }
                Err((message, help)) => findings.in_option(key.name, text, message, help),
            }
        }
    }
    let names = || {
        table
            .map_or(&[][..], |table| table.keys)
            .iter()
            .map(|key| key.name)
    };
    for (name, value) in overrides
        .iter()
        .filter(|(name, _)| !names().any(|known| known == name))
    {
        let help = match findings.nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("keys are {}", names().collect::<Vec<_>>().join(", ")),
        };
        findings.in_option(
            &short(name),
            &short(value),
            format!("unknown key `{}`", short(name)),
            Some(help),
        );
    }
    let time = |key: &str| values.get(key).map_or(0, |value| ns(*value));
    let overhead = values.get("frame-overhead").copied().unwrap_or(Ratio::ZERO);
    let frame_overhead_bytes = match bytes(overhead) {
        Some(bytes) if bytes <= 1000 => bytes,
        _ => {
            let place = record.map_or(0..0, |record| record.place("frame-overhead"));
            let message = "`frame-overhead` must be a whole number of bytes, at most 1000 B";
            findings.at(
                &place,
                message,
                Some("24 B on Ethernet; 0 B to count headers and payload only".to_owned()),
            );
            24
        }
    };
    let link_rate_bps = values.get("link-rate").and_then(|rate| {
        let place = record.map_or(0..0, |record| record.place("link-rate"));
        whole_rate("link-rate", *rate, &place, findings)
    });
    Defaults {
        shaping_interval_ns: time("shaping-interval"),
        tick_error_ns: time("tick-error"),
        frame_overhead_bytes,
        link_rate_bps,
        clock_error_ns: time("clock-error"),
        clock_drift_ppb: values.get("clock-drift").map_or(0, |drift| {
            // Within a tenth, which is 10^8 of them.
            let ppb = drift.times(Ratio::whole(1_000_000_000)).map(Ratio::ceil);
            ppb.ok()
                .and_then(|ppb| u64::try_from(ppb).ok())
                .unwrap_or(0)
        }),
    }
}

/// Records a name; notes a fault if it is taken.
fn claim(
    record: &Record,
    what: &str,
    places: &mut BTreeMap<String, Span>,
    findings: &mut Findings<'_>,
) -> Option<String> {
    let name = record.text("name")?;
    if places.contains_key(name) {
        let help = Some("each host, switch and router has a name of its own".to_owned());
        findings.at(
            &record.place("name"),
            format!("{what} \"{name}\": the name is taken"),
            help,
        );
        return None;
    }
    places.insert(name.to_owned(), record.place("name"));
    Some(name.to_owned())
}

fn queues(record: &Record, default: u8) -> u8 {
    // The range 1 to 8 has been checked.
    record
        .integer("queues")
        .and_then(|queues| u8::try_from(queues).ok())
        .unwrap_or(default)
}

/// Reads the switches, or the routers.
fn switches(
    records: &[Record],
    kind: &str,
    profiles: &Profiles,
    places: &mut BTreeMap<String, Span>,
    findings: &mut Findings<'_>,
) -> Vec<Switch> {
    let mut switches = Vec::new();
    for record in records {
        let Some(name) = claim(record, kind, places, findings) else {
            continue;
        };
        let (size, shared) = match (record.buffer("buffer"), record.buffer("shared-buffer")) {
            (Some(size), _) => (size, false),
            (None, Some(size)) => (size, true),
            // Missing or faulty, which has been noted.
            (None, None) => ((Ratio::ZERO, None), false),
        };
        let latency = record.latency("latency");
        let latency = latency.unwrap_or((Ratio::ZERO, Ratio::ZERO));
        let queues = queues(record, 1);
        let priority_map = super::priorities::of_node(record, &name, queues, findings);
        switches.push(Switch {
            name,
            latency_ns: ns(latency.1),
            latency_min_ns: ns(latency.0),
            buffer: Buffer {
                bytes: bytes(size.0).unwrap_or(0),
                frames: size.1,
                shared,
                release: match record.text("buffer-release") {
                    Some("bit") => Release::Bit,
                    _ => Release::Frame,
                },
            },
            queues,
            priority_map,
            gates: profiles.find(record, findings),
            cut_through: super::ports::cut_through(record).unwrap_or_default(),
            preemption: super::preemption::of_node(record, findings),
            flow_meters: super::meters::of_switch(record, findings),
            ports: Vec::new(),
            routing: (kind == "router").then(|| super::routers::routing(record)),
        });
    }
    switches
}

fn hosts(
    records: &[Record],
    profiles: &Profiles,
    places: &mut BTreeMap<String, Span>,
    findings: &mut Findings<'_>,
) -> Vec<Host> {
    let mut hosts = Vec::new();
    for record in records {
        let Some(name) = claim(record, "host", places, findings) else {
            continue;
        };
        let queues = queues(record, 8);
        let priority_map = super::priorities::of_node(record, &name, queues, findings);
        hosts.push(Host {
            name,
            queues,
            priority_map,
            latency_ns: record.quantity("latency").map_or(0, ns),
            gates: profiles.find(record, findings),
            preemption: super::preemption::of_node(record, findings),
        });
    }
    hosts
}

fn best_effort(
    records: &[Record],
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> Vec<BestEffort> {
    let mut list: Vec<BestEffort> = Vec::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for record in records {
        let frame_bytes = if record.has("frame") {
            frame_size(record, false, findings)
        } else {
            Some(1514)
        };
        let host = record.text("host").unwrap_or_default();
        let known = record
            .has("host")
            .then(|| find_host(context, "host", host, &record.place("host"), findings))
            .flatten();
        let to = receivers(context, record, "to", host, findings);
        let (Some(_), Some(to), Some(frame_bytes), Some(rate_bps)) =
            (known, to, frame_bytes, record.quantity("rate"))
        else {
            continue;
        };
        let name = record
            .text("name")
            .map_or_else(|| format!("best-effort-{host}"), str::to_owned);
        if names.contains(&name) {
            findings.at(
                &record.place("name"),
                format!("best-effort \"{name}\": the name is taken"),
                None,
            );
        }
        let routes = to
            .iter()
            .filter_map(|(name, _, span)| find_route(context, (host, name), None, span, findings))
            .collect();
        let wire_bytes = frame_bytes + context.defaults.frame_overhead_bytes;
        let wire_bits = Ratio::whole(i128::from(wire_bytes) * 8);
        let burst = record.quantity("burst").unwrap_or(wire_bits);
        if burst < wire_bits {
            burst_too_small(record, burst, wire_bytes, findings);
        }
        let scale = Ratio::new(i128::from(wire_bytes), i128::from(frame_bytes));
        let Ok(rate) = scale.and_then(|scale| rate_bps.times(scale)) else {
            continue;
        };
        names.insert(name.clone());
        list.push(BestEffort {
            name,
            host: host.to_owned(),
            to: to.into_iter().map(|(name, _, _)| name).collect(),
            rate_bps,
            rate,
            burst,
            frame_bytes,
            wire_bytes,
            routes,
        });
    }
    list
}
