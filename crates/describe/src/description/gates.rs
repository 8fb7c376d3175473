//! Gates and time-triggered streams of a description.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{bytes, ns};
use super::fault::Findings;
use super::walk::{Record, Records};
use crate::network::{Defaults, Network};
use crate::profile::{GateProfile, Isolation, ScheduleRules};

/// The gate profiles of a file, and the built-in ones.
pub(super) struct Profiles(Vec<GateProfile>);

impl Profiles {
    /// Returns the profile that a switch or host names under `gates`.
    pub(super) fn find(&self, record: &Record, findings: &mut Findings<'_>) -> Option<GateProfile> {
        let name = record.text("gates")?;
        let found = self.0.iter().find(|profile| profile.name == name);
        if found.is_none() {
            let names = || self.0.iter().map(|profile| profile.name.as_str());
            let help = match findings.nearest(name, names()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("profiles are {}", names().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("gates: there is no [[gate-profile]] \"{name}\"");
            findings.at(&record.place("gates"), message, Some(help));
        }
        found.cloned()
    }
}

pub(super) fn profiles(records: &[Record], findings: &mut Findings<'_>) -> Profiles {
    let mut all = GateProfile::built_in();
    for record in records {
        let Some(name) = record.text("name") else {
            continue;
        };
        if all.iter().any(|profile| profile.name == name) {
            let message = format!("gate profile \"{name}\": the name is taken");
            findings.at(&record.place("name"), message, None);
            continue;
        }
        // Ranges have been checked.
        let count = |key| {
            record
                .integer(key)
                .and_then(|count| u32::try_from(count).ok())
        };
        all.push(GateProfile {
            name: name.to_owned(),
            entries: count("entries"),
            minimum_window_ns: record.quantity("minimum-window").map_or(1, ns),
            longest_cycle_ns: record.quantity("longest-cycle").map_or(1_000_000_000, ns),
            openings: count("openings"),
            holds_back: record.text("guard-band") == Some("built-in"),
        });
    }
    Profiles(all)
}

/// The largest frame that a guard band must keep out: header and payload of a jumbo frame, without FCS, bytes.
const LARGEST_GUARDED_BYTES: u64 = 16_384;

pub(super) fn rules(
    record: Option<&Record>,
    defaults: &Defaults,
    findings: &mut Findings<'_>,
) -> ScheduleRules {
    let text = |key| record.and_then(|record| record.text(key));
    let mut frame_bytes = 1518;
    if let Some((record, size)) =
        record.and_then(|record| Some((record, record.quantity("largest-frame")?)))
    {
        match bytes(size).filter(|size| (60..=LARGEST_GUARDED_BYTES).contains(size)) {
            Some(size) => frame_bytes = size,
            None => findings.at(
                &record.place("largest-frame"),
                "`largest-frame` is no whole number of bytes that a frame can have",
                Some(format!("\"60 B\" to \"{LARGEST_GUARDED_BYTES} B\"")),
            ),
        }
    }
    ScheduleRules {
        clock_error_ns: defaults.clock_error_ns,
        best_effort_percent: record
            .and_then(|record| record.integer("best-effort-share"))
            .and_then(|percent| u8::try_from(percent).ok())
            .unwrap_or(10),
        guard_wire_bytes: frame_bytes + defaults.frame_overhead_bytes,
        queueing: text("queueing") != Some("off"),
        isolation: match text("isolation") {
            Some("frames") => Isolation::Frames,
            _ => Isolation::Streams,
        },
        cycle_ns: record.and_then(|record| record.quantity("cycle")).map(ns),
    }
}

/// Checks that the rest of the network supports the time-triggered streams.
pub(super) fn check(network: &Network, records: &Records, findings: &mut Findings<'_>) {
    let none = Vec::new();
    let list = records.get("stream").unwrap_or(&none);
    // Faulty streams are missing from the network: records are found by name.
    let mut by_name: BTreeMap<&str, &Record> = BTreeMap::new();
    for record in list {
        if let Some(name) = record.text("name") {
            by_name.entry(name).or_insert(record);
        }
    }
    for record in list {
        rules_of_one(record, findings);
    }
    if !network.streams.iter().any(|stream| stream.time_triggered) {
        return;
    }
    let routers = network.routers();
    // Which time-triggered stream has a queue of a gated port.
    let mut taken: BTreeMap<(&str, &str, u8), &str> = BTreeMap::new();
    for stream in network
        .streams
        .iter()
        .filter(|stream| stream.time_triggered)
    {
        let Some(record) = by_name.get(stream.stated_name()) else {
            continue;
        };
        let mut told: BTreeSet<&str> = BTreeSet::new();
        for (from, to) in hops(&stream.routes) {
            let is_switch = network.switch(from).is_some();
            if network.gates(from).is_none() {
                if is_switch && told.insert(from) {
                    let message = format!(
                        "time-triggered stream \"{}\" passes switch \"{from}\", which has no `gates`",
                        stream.name
                    );
                    let help = Some(format!(
                        "gates = \"unlimited\" at \"{from}\", or the profile of its family"
                    ));
                    findings.at(&record.place("schedule"), message, help);
                }
                continue;
            }
            if network.queues(from) < 2 {
                if told.insert(from) {
                    let message = format!(
                        "time-triggered stream \"{}\" passes \"{from}\", which has one queue for all traffic",
                        stream.name
                    );
                    let help = Some(format!("queues = 2 or more at \"{from}\""));
                    findings.at(&record.place("schedule"), message, help);
                }
                continue;
            }
            let queue = network.class(from, stream.pcp);
            taken.entry((from, to, queue)).or_insert(&stream.name);
        }
    }
    for stream in network
        .streams
        .iter()
        .filter(|stream| !stream.time_triggered)
    {
        let Some(record) = by_name.get(stream.stated_name()) else {
            continue;
        };
        let mut hops = routers.hops_of_all(&stream.routes, stream.marks());
        let shared = hops.find_map(|(from, to, pcp)| {
            let queue = network.class(from, pcp);
            Some((from, to, queue, *taken.get(&(from, to, queue))?))
        });
        if let Some((from, to, queue, other)) = shared {
            let message = format!(
                "stream \"{}\" would share queue {queue} of port {from}>{to} with the time-triggered \"{other}\"",
                stream.name
            );
            let help = Some("give one of them another `priority`".to_owned());
            findings.at(&record.place("priority"), message, help);
        }
    }
    for (index, allowance) in network.best_effort.iter().enumerate() {
        let mut hops = routers.hops_of_all(&allowance.routes, allowance.marks());
        let shared = hops.find_map(|(from, to, pcp)| {
            let queue = network.class(from, pcp);
            Some((from, to, queue, *taken.get(&(from, to, queue))?))
        });
        // Where one is faulty the others cannot be told apart, and the file is refused all the same.
        let list = records
            .get("best-effort")
            .filter(|list| list.len() == network.best_effort.len());
        let record = list.and_then(|list| list.get(index));
        if let (Some((from, to, queue, other)), Some(record)) = (shared, record) {
            let message = format!(
                "best-effort \"{}\" would share queue {queue} of port {from}>{to} with the time-triggered \"{other}\"",
                allowance.name
            );
            let help = Some(format!("give \"{other}\" a higher `priority`"));
            findings.at(&record.span, message, help);
        }
    }
}

fn hops(routes: &[Vec<String>]) -> Vec<(&str, &str)> {
    let pairs = routes.iter().flat_map(|route| route.windows(2));
    pairs
        .filter_map(|pair| match pair {
            [from, to] => Some((from.as_str(), to.as_str())),
            _ => None,
        })
        .collect()
}

/// Checks that a stream has the keys that its kind needs, and none that exclude each other.
fn rules_of_one(record: &Record, findings: &mut Findings<'_>) {
    if record.text("schedule") != Some("time-triggered") {
        if record.has("jitter") && record.text("schedule") != Some("cyclic") {
            let help = Some("schedule = \"time-triggered\"".to_owned());
            let message = "`jitter` is kept by time-triggered and cyclic streams only";
            findings.at(&record.place("jitter"), message, help);
        }
        return;
    }
    if record
        .integer("frames-per-interval")
        .is_some_and(|frames| frames > 1)
    {
        let help = Some("state a stream for each frame".to_owned());
        let message = "a time-triggered stream has one window, for one frame in each `interval`";
        findings.at(&record.place("frames-per-interval"), message, help);
    }
    if record.has("rate") {
        let help = Some("give `interval` in place of `rate`".to_owned());
        let message = "a time-triggered stream sends one frame in each `interval`";
        findings.at(&record.place("rate"), message, help);
    }
    if record.text("shaper") == Some("off") {
        let help = Some("shaper = \"on\"".to_owned());
        let message = "a time-triggered stream keeps to its schedule: its shaper cannot be off";
        findings.at(&record.place("shaper"), message, help);
    }
}
