//! The streams of a description.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{
    Context, burst_too_small, bytes, find_host, find_route, frame_limits, frame_size, ns, receivers,
};
use super::fault::Findings;
use super::routers::Kept;
use super::walk::{Record, Span};
use crate::network::{Contract, ContractKind, Semantics, Stream, Transport};
use crate::ratio::Ratio;

pub(super) fn streams(
    records: &[Record],
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut ports = Ports::default();
    for record in records {
        if let Some(name) = record.text("name") {
            if !names.insert(name) {
                findings.at(
                    &record.place("name"),
                    format!("stream \"{name}\": the name is taken"),
                    None,
                );
            }
        }
        let Some(stream) = stream(record, context, findings) else {
            continue;
        };
        if let Some(message) = ports.taken(&stream, &streams) {
            let free = ports.free();
            findings.at(
                &record.place("port"),
                message,
                free.map(|port| format!("{port} is free")),
            );
        }
        ports.take(&stream, streams.len());
        let second = second_copy(record, &stream, context, findings);
        match second {
            Some([first, second]) => {
                let copy = Stream {
                    name: format!("{}{SECOND_COPY}", stream.name),
                    copy_of: Some(stream.name.clone()),
                    routes: vec![second],
                    ..stream.clone()
                };
                streams.push(Stream {
                    routes: vec![first],
                    ..stream
                });
                streams.push(copy);
            }
            None => streams.push(stream),
        }
    }
    streams
}

/// The end of a second copy's name. No name in a file has this character.
const SECOND_COPY: &str = "~2";

/// Returns the routes of both copies of a redundant stream.
fn second_copy(
    record: &Record,
    stream: &Stream,
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> Option<[Vec<String>; 2]> {
    if record.text("redundancy") != Some("disjoint") {
        return None;
    }
    let place = record.place("redundancy");
    if record.has("route") {
        let help = Some("leave `route` away: both ways are found".to_owned());
        findings.at(&place, "`redundancy` finds its routes itself", help);
        return None;
    }
    let [listener] = stream.listeners.as_slice() else {
        let help = Some("a stream for each listener".to_owned());
        findings.at(
            &place,
            "`redundancy` is for a stream with one listener",
            help,
        );
        return None;
    };
    match context.nodes.disjoint(&stream.talker, listener) {
        Ok(ways) => Some(ways),
        Err(Some(message)) => {
            let help = Some("add a link between switches, or leave `redundancy` away".to_owned());
            findings.at(&place, message, help);
            None
        }
        Err(None) => None,
    }
}

/// The ports that are taken, and the stream that has each.
#[derive(Default)]
struct Ports {
    /// The first stream of each transport, stated port and listener.
    first: BTreeMap<(bool, u16, usize), usize>,
    used: BTreeSet<u16>,
    /// Every port from 1000 up to this one, excluded, is used.
    used_up_to: u16,
}

impl Ports {
    fn key(stream: &Stream, listener: usize) -> (bool, u16, usize) {
        (stream.transport == Transport::Udp, stream.port, listener)
    }

    /// Returns a message if an earlier stream has this port at a listener of `stream`.
    fn taken(&self, stream: &Stream, earlier: &[Stream]) -> Option<String> {
        let taken = stream.listener_indices.iter().zip(&stream.listeners);
        let (first, listener) = taken
            .filter_map(|(index, name)| {
                let first = self.first.get(&Ports::key(stream, *index))?;
                Some((*first, name))
            })
            .min_by_key(|(first, _)| *first)?;
        Some(format!(
            "port {} is taken at listener \"{listener}\" by stream \"{}\"",
            stream.port, earlier[first].name
        ))
    }

    fn take(&mut self, stream: &Stream, at: usize) {
        if stream.port == 0 {
            return;
        }
        for listener in &stream.listener_indices {
            let key = Ports::key(stream, *listener);
            self.first.entry(key).or_insert(at);
        }
        self.used.insert(stream.port);
    }

    /// Returns the lowest port from 1000 on that no stream has yet.
    fn free(&mut self) -> Option<u16> {
        // Ports are never given back, so that the search goes on where it ended.
        let from = self.used_up_to.max(1000);
        let free = (from..=u16::MAX).find(|port| !self.used.contains(port));
        self.used_up_to = free.unwrap_or(u16::MAX);
        free
    }
}

fn stream(record: &Record, context: &Context<'_>, findings: &mut Findings<'_>) -> Option<Stream> {
    let talker = record.text("talker").unwrap_or_default();
    let talker_index = record
        .text("talker")
        .and_then(|name| find_host(context, "talker", name, &record.place("talker"), findings));
    let listeners = receivers(context, record, "listeners", talker, findings);
    let routes = match (&listeners, talker_index) {
        (Some(listeners), Some(_)) => routes(record, talker, listeners, context, findings),
        _ => None,
    };
    let transport = transport(record);
    let dscp = super::routers::dscp(record, context, findings);
    let vlan = record.integer("vlan").and_then(|id| u16::try_from(id).ok());
    let sizes = sizes(record, transport, record.has("vlan"), findings);
    let wire_bytes = sizes.map(|(frame, _)| frame + context.defaults.frame_overhead_bytes);
    let contract = contract(
        record,
        sizes.map(|(frame, _)| frame).zip(wire_bytes),
        context,
        findings,
    );
    // The range 1 to 65535 has been checked; the planner assigns what is not stated.
    let port = record
        .integer("port")
        .and_then(|port| u16::try_from(port).ok())
        .unwrap_or(0);
    let (frame_bytes, payload_bytes) = sizes?;
    let listeners = listeners?;
    let smallest = smallest(record, frame_bytes, findings);
    Some(Stream {
        name: record.text("name")?.to_owned(),
        talker: talker.to_owned(),
        talker_index: talker_index?,
        listener_indices: listeners.iter().map(|(_, index, _)| *index).collect(),
        listeners: listeners.into_iter().map(|(name, _, _)| name).collect(),
        frame_bytes,
        payload_bytes,
        wire_bytes: wire_bytes?,
        contract: contract?,
        shaped: record.text("shaper") != Some("off"),
        // The range 0 to 7 has been checked.
        pcp: record
            .integer("priority")
            .and_then(|pcp| u8::try_from(pcp).ok())
            .unwrap_or(0),
        dscp,
        deadline_ns: record.quantity("deadline").map(ns),
        published_delay_ns: record.quantity("published-delay").map(ns),
        semantics: match record.text("semantics") {
            Some("newest") => Semantics::Newest,
            _ => Semantics::Queue,
        },
        transport,
        port,
        vlan,
        routes: routes?,
        smallest_frame_bytes: smallest,
        time_triggered: time_triggered(record),
        cyclic: record.text("schedule") == Some("cyclic"),
        jitter_ns: record.quantity("jitter").map(ns),
        copy_of: None,
    })
}

pub(super) fn transport(record: &Record) -> Transport {
    match record.text("transport") {
        Some("udp") => Transport::Udp,
        _ => Transport::Rtdip,
    }
}

pub(super) fn time_triggered(record: &Record) -> bool {
    record.text("schedule") == Some("time-triggered")
}

/// Returns the smallest frame, if the description states it.
fn smallest(record: &Record, frame_bytes: u64, findings: &mut Findings<'_>) -> Option<u64> {
    let size = bytes(record.quantity("smallest-frame")?);
    let (least, _) = frame_limits(record.has("vlan"));
    let found = size.filter(|size| (least..=frame_bytes).contains(size));
    if found.is_none() {
        findings.at(
            &record.place("smallest-frame"),
            "`smallest-frame` is no size that a frame of this stream can have",
            Some(format!("\"{least} B\" to \"{frame_bytes} B\"")),
        );
    }
    found
}

/// Returns frame and payload in bytes, from the one that the description states.
fn sizes(
    record: &Record,
    transport: Transport,
    tagged: bool,
    findings: &mut Findings<'_>,
) -> Option<(u64, u64)> {
    let headers = transport.header_bytes(tagged);
    let (least, largest) = frame_limits(tagged);
    if record.has("frame") {
        let frame = frame_size(record, tagged, findings)?;
        if frame <= headers {
            let help = Some(format!(
                "at least \"{} B\" with this transport",
                headers + 1
            ));
            findings.at(
                &record.place("frame"),
                format!("`frame` of {frame} B has no room for data behind {headers} B of headers"),
                help,
            );
            return None;
        }
        return Some((frame, frame - headers));
    }
    let place = record.place("payload");
    let Some(payload) = bytes(record.quantity("payload")?) else {
        findings.at(&place, "`payload` is no whole number of bytes", None);
        return None;
    };
    if headers + payload > largest {
        let help = Some(format!(
            "the largest is \"{} B\" with this transport",
            largest - headers
        ));
        findings.at(
            &place,
            format!("`payload` of {payload} B fits no frame"),
            help,
        );
        return None;
    }
    Some(((headers + payload).max(least), payload))
}

fn contract(
    record: &Record,
    sizes: Option<(u64, u64)>,
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> Option<Contract> {
    if record.has("interval") {
        for key in ["burst", "shaping-interval"] {
            if record.has(key) {
                let help =
                    "`interval` sends one frame each; give `rate` in its place to allow more"
                        .to_owned();
                findings.at(
                    &record.place(key),
                    format!("`{key}` goes with `rate`, not with `interval`"),
                    Some(help),
                );
            }
        }
    }
    if record.has("frames-per-interval") && !record.has("interval") {
        let message = "`frames-per-interval` goes with `interval`";
        let help = Some("give `burst` beside `rate`".to_owned());
        findings.at(&record.place("frames-per-interval"), message, help);
    }
    let rate = record.quantity("rate");
    if rate.is_some_and(Ratio::is_zero) && !record.has("burst") {
        let help = Some("zero has a meaning only with `burst`: a one-shot grant".to_owned());
        findings.at(&record.place("rate"), "`rate` is zero", help);
        return None;
    }
    let (frame_bytes, wire_bytes) = sizes?;
    let frame = Ratio::whole(i128::from(wire_bytes) * 8);
    let shaping_ns = record
        .quantity("shaping-interval")
        .map_or(context.defaults.shaping_interval_ns, ns);
    // A launch in hardware is not late as a thread that wakes is.
    let usual_ns = if time_triggered(record) {
        0
    } else {
        context.defaults.tick_error_ns
    };
    let error_ns = record.quantity("tick-error").map_or(usual_ns, ns);
    let (rate, kind) = match (record.quantity("interval"), rate) {
        (Some(interval), _) => {
            let interval_ns = ns(interval);
            // The range 1 to 1000 has been checked.
            let frames = record.integer("frames-per-interval").unwrap_or(1);
            let frames = u32::try_from(frames).unwrap_or(1);
            let together = frame.times(Ratio::whole(frames.into()));
            (
                together.and_then(|bits| bits.over(Ratio::from_ns(interval_ns))),
                ContractKind::Interval {
                    interval_ns,
                    frames,
                },
            )
        }
        (None, Some(rate)) => {
            let scale = Ratio::new(i128::from(wire_bytes), i128::from(frame_bytes));
            let kind = if record.has("burst") {
                ContractKind::Declared
            } else {
                ContractKind::Rate
            };
            (scale.and_then(|scale| rate.times(scale)), kind)
        }
        (None, None) => return None,
    };
    let declared = match kind {
        ContractKind::Declared => record.quantity("burst")?,
        _ => Ratio::ZERO,
    };
    if kind == ContractKind::Declared && declared < frame {
        burst_too_small(record, declared, wire_bytes, findings);
        return None;
    }
    let made =
        rate.and_then(|rate| Contract::new(rate, wire_bytes, shaping_ns, error_ns, kind, declared));
    if let Err(overflow) = &made {
        findings.at(
            &record.span,
            format!("the contract cannot be computed: {overflow}"),
            None,
        );
    }
    made.ok()
}

fn routes(
    record: &Record,
    talker: &str,
    listeners: &[(String, usize, Span)],
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> Option<Vec<Vec<String>>> {
    let Some(stated) = record.names("route") else {
        if record.has("route") {
            return None;
        }
        let found: Vec<_> = listeners
            .iter()
            .filter_map(|(name, _, span)| {
                let kept = Kept::of(record);
                find_route(context, (talker, name), kept, span, findings)
            })
            .collect();
        return Some(found);
    };
    let [(listener, _, _)] = listeners else {
        let help = Some("a stream for each listener, or no `route`".to_owned());
        findings.at(
            &record.place("route"),
            "`route` is for a stream with one listener",
            help,
        );
        return None;
    };
    explicit(record, stated, talker, listener, context, findings)
        .then(|| vec![stated.iter().map(|(name, _)| name.clone()).collect()])
}

/// True if a stated route exists. Every fault of it is noted.
fn explicit(
    record: &Record,
    stated: &[(String, Span)],
    talker: &str,
    listener: &str,
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> bool {
    let before = findings.count();
    let [(first, first_span), between @ .., (last, last_span)] = stated else {
        let help = Some(format!(
            "for instance [\"{talker}\", \"s1\", \"{listener}\"]"
        ));
        findings.at(
            &record.place("route"),
            "`route` needs at least two nodes",
            help,
        );
        return false;
    };
    for (name, span) in stated {
        if context.nodes.number(name).is_none() {
            let help = findings
                .nearest(name, context.nodes.names().iter().copied())
                .map(|near| format!("did you mean \"{near}\"?"));
            findings.at(
                span,
                format!(
                    "route: \"{name}\": there is no such {}",
                    context.nodes.kinds()
                ),
                help,
            );
        }
    }
    // A switch may be passed again by another port. The same port again would be a circle.
    let mut ports = BTreeSet::new();
    for (at, pair) in stated.windows(2).enumerate() {
        let [(from, _), (to, span)] = pair else {
            continue;
        };
        if !ports.insert((from, to)) {
            let message = format!("route: the way from \"{from}\" to \"{to}\" is passed twice");
            findings.at(span, message, None);
        } else if at > 0 && stated[at - 1].0 == *to {
            let message = format!("route: from \"{from}\" it goes back to \"{to}\" at once");
            let help =
                Some("no switch sends a frame back over the link by which it came".to_owned());
            findings.at(span, message, help);
        }
    }
    if findings.count() > before {
        return false;
    }
    if first != talker {
        let message = format!("route begins at \"{first}\", but the talker is \"{talker}\"");
        findings.at(
            first_span,
            message,
            Some(format!("begin with \"{talker}\"")),
        );
    }
    if last != listener {
        let message = format!("route ends at \"{last}\", but the listener is \"{listener}\"");
        findings.at(last_span, message, Some(format!("end with \"{listener}\"")));
    }
    for (name, span) in between {
        match (context.nodes.kind_word(name), Kept::of(record)) {
            (Some("host"), _) => {
                let message = format!("route: \"{name}\" is a host, which forwards nothing");
                findings.at(span, message, None);
            }
            (Some("router"), Some(kept)) => {
                let message = format!("route: it passes router \"{name}\", but {}", kept.why);
                findings.at(span, message, Some(kept.help.to_owned()));
            }
            _ => {}
        }
    }
    for pair in stated.windows(2) {
        let [(a_name, _), (b_name, span)] = pair else {
            continue;
        };
        // That both exist has been seen above.
        let (Some(a), Some(b)) = (context.nodes.number(a_name), context.nodes.number(b_name))
        else {
            continue;
        };
        if !context.nodes.joined(a, b) {
            findings.at(
                span,
                format!("route: there is no link between \"{a_name}\" and \"{b_name}\""),
                joined_to(context, a),
            );
        }
    }
    findings.count() == before
}

/// Lists the neighbours of a node; of very many, the first ones only.
fn joined_to(context: &Context<'_>, node: usize) -> Option<String> {
    const MOST: usize = 20;
    let all = context.nodes.neighbours(node);
    let count = all.len();
    let near: Vec<&str> = all
        .take(MOST)
        .map(|near| context.nodes.name(near))
        .collect();
    let more = match count.saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!near.is_empty()).then(|| {
        let name = context.nodes.name(node);
        format!("\"{name}\" is joined to \"{}\"{more}", near.join("\", \""))
    })
}
