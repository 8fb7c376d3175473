//! Connections for people and as JSON: the output of `rtwire reserve`, `release`, `connections` and `explain`.

use std::fmt::Write as _;

use rtwire_manager::{Granted, Hop, Refused};
use schemars::JsonSchema;
use serde::Serialize;

use crate::columns::table;

/// The version of the output's form.
const VERSION: u32 = 1;

/// The output of `--json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    /// The version of this form.
    pub(crate) version: u32,
    /// The connections: that of the question, or all that the host sends and hears.
    pub(crate) connections: Vec<ConnectionReport>,
    /// The terms of the connection's promise (`rtwire explain`).
    pub(crate) terms: Vec<Term>,
    /// The connection that was released (`rtwire release`).
    pub(crate) released: Option<u64>,
    /// The epoch without it.
    pub(crate) epoch: Option<u64>,
    /// The reason, if the manager refused.
    pub(crate) refused: Option<RefusedReport>,
}

impl Default for Report {
    fn default() -> Report {
        Report::of([])
    }
}

impl Report {
    pub(crate) fn of(connections: impl IntoIterator<Item = ConnectionReport>) -> Report {
        Report {
            version: VERSION,
            connections: connections.into_iter().collect(),
            terms: Vec::new(),
            released: None,
            epoch: None,
            refused: None,
        }
    }
}

/// A connection.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ConnectionReport {
    /// Its number, never used again; absent if nothing was reserved.
    connection: Option<u64>,
    /// The epoch of the plan from which it is in force.
    epoch: u64,
    /// The host that sends.
    talker: String,
    /// The host that receives.
    listener: String,
    /// `udp` or `rtdip`.
    carrier: &'static str,
    /// Source port.
    source_port: u16,
    /// Destination port.
    port: u16,
    /// Ethernet group address of RTDiP frames; absent for UDP, which goes to the listener's own address.
    group_address: Option<String>,
    /// The key that RTDiP frames carry.
    key: u32,
    /// VLAN id.
    vlan: Option<u16>,
    /// Priority code point.
    pcp: u8,
    /// Largest frame without FCS, bytes.
    frame_bytes: u16,
    /// Rate of the talker's shaper, whole frames on the wire, bytes per millisecond.
    rate_bytes_per_ms: u32,
    /// The same rate, bit/s.
    rate_bps: u64,
    /// Burst of the talker's shaper on the wire, bytes.
    burst_bytes: u32,
    /// The promise: the longest delay of a frame, ns.
    promise_ns: u64,
    /// The deadline that was asked for, ns.
    deadline_ns: Option<u64>,
    /// Time between two frames of a cyclic connection, ns.
    interval_ns: Option<u64>,
    /// Its frames are sent this long behind the multiples of the interval in TAI, ns.
    launch_offset_ns: Option<u64>,
}

impl From<&Granted> for ConnectionReport {
    fn from(granted: &Granted) -> ConnectionReport {
        let ask = &granted.ask;
        ConnectionReport {
            connection: Some(granted.connection).filter(|id| *id != 0),
            epoch: granted.epoch,
            talker: granted.talker.clone(),
            listener: ask.listener.clone(),
            carrier: ask.carrier.word(),
            source_port: ask.source_port,
            port: ask.port,
            group_address: group(granted),
            key: granted.key,
            vlan: ask.vlan,
            pcp: ask.pcp,
            frame_bytes: ask.frame_bytes,
            rate_bytes_per_ms: ask.rate_bytes_per_ms,
            rate_bps: u64::from(ask.rate_bytes_per_ms) * 8_000,
            burst_bytes: ask.burst_bytes,
            promise_ns: granted.promise_ns,
            deadline_ns: ask.deadline_ns,
            interval_ns: ask.interval_ns,
            launch_offset_ns: granted.launch_offset_ns,
        }
    }
}

/// One port's part of a promise.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Term {
    /// The node that sends.
    node: String,
    /// The neighbour.
    to: String,
    /// The class at this port; larger is more urgent.
    class: u8,
    /// The time that the class never exceeds at this port, ns.
    budget_ns: u64,
    /// The cable behind it, ns.
    cable_ns: u64,
}

impl From<&Hop> for Term {
    fn from(hop: &Hop) -> Term {
        Term {
            node: hop.node.clone(),
            to: hop.to.clone(),
            class: hop.class,
            budget_ns: hop.budget_ns,
            cable_ns: hop.cable_ns,
        }
    }
}

/// A refusal.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RefusedReport {
    /// The kind, such as `capacity`, `deadline`, `quota`.
    reason: &'static str,
    /// The values, in words.
    text: String,
    /// For `busy` and `too_often`: the time after which to ask again, us.
    retry_after_us: Option<u32>,
}

impl From<&Refused> for RefusedReport {
    fn from(no: &Refused) -> RefusedReport {
        RefusedReport {
            reason: no.reason.word(),
            text: no.text.clone(),
            retry_after_us: Some(no.retry_after_us).filter(|us| *us > 0),
        }
    }
}

/// Returns the JSON text.
pub(crate) fn json(report: &Report) -> String {
    rtwire_plan::plan_file::json_text(report)
        .trim_end()
        .to_owned()
}

/// Returns the JSON Schema of the output of `--json`.
pub(crate) fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Report).to_value();
    schema["title"] = serde_json::json!("rtwire connections");
    schema
}

fn group(granted: &Granted) -> Option<String> {
    let [a, b, c, d, e, f] = granted.group()?;
    Some(format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"))
}

fn us(ns: u64) -> String {
    format!("{}.{:03} us", ns / 1_000, ns % 1_000)
}

/// Returns the text about a connection that is granted, or would be.
pub(crate) fn granted(granted: &Granted) -> String {
    let ask = &granted.ask;
    let mut text = match granted.connection {
        0 => format!(
            "would be granted: \"{}\" to \"{}\"; nothing is reserved\n",
            granted.talker, ask.listener
        ),
        id => format!(
            "connection {id}: \"{}\" to \"{}\", from epoch {}\n",
            granted.talker, ask.listener, granted.epoch
        ),
    };
    let to = match group(granted) {
        Some(mac) => format!("rtdip, {mac}, key {:#010x}", granted.key),
        None => "udp, the address of the listener".to_owned(),
    };
    let vlan = ask
        .vlan
        .map_or_else(|| "none".to_owned(), |id| id.to_string());
    let launch = ask.interval_ns.zip(granted.launch_offset_ns);
    let launch = launch.map(|(interval_ns, offset_ns)| {
        let (offset, interval) = (us(offset_ns), us(interval_ns));
        (
            "launch",
            format!("{offset} behind each multiple of {interval} in TAI"),
        )
    });
    let rows = [
        (
            "promise",
            format!("every frame within {}", us(granted.promise_ns)),
        ),
        (
            "shaper",
            format!(
                "{} B/ms ({} bit/s) on the wire, burst {} B",
                ask.rate_bytes_per_ms,
                u64::from(ask.rate_bytes_per_ms) * 8_000,
                ask.burst_bytes
            ),
        ),
        ("to", to),
        ("ports", format!("{} to {}", ask.source_port, ask.port)),
        ("priority", format!("{}, VLAN {vlan}", ask.pcp)),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .chain(launch)
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    table(&mut text, 2, &rows);
    text
}

/// Returns the table of a host's connections.
pub(crate) fn list(host: &str, all: &[Granted]) -> String {
    if all.is_empty() {
        return format!("\"{host}\" sends and hears no connection\n");
    }
    let head = [
        "connection",
        "talker",
        "listener",
        "carrier",
        "source",
        "port",
        "prio",
        "B/ms",
        "burst B",
        "promise",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for granted in all {
        let ask = &granted.ask;
        rows.push(vec![
            granted.connection.to_string(),
            granted.talker.clone(),
            ask.listener.clone(),
            ask.carrier.word().to_owned(),
            ask.source_port.to_string(),
            ask.port.to_string(),
            ask.pcp.to_string(),
            ask.rate_bytes_per_ms.to_string(),
            ask.burst_bytes.to_string(),
            us(granted.promise_ns),
        ]);
    }
    let mut text = String::new();
    table(&mut text, 4, &rows);
    text
}

/// Returns the terms of a promise.
pub(crate) fn explained(granted: &Granted, hops: &[Hop]) -> String {
    let mut text = format!(
        "connection {}: \"{}\" to \"{}\", every frame within {}\n",
        granted.connection,
        granted.talker,
        granted.ask.listener,
        us(granted.promise_ns)
    );
    let mut rows = vec![
        ["port", "class", "budget", "cable"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for hop in hops {
        rows.push(vec![
            format!("{}>{}", hop.node, hop.to),
            hop.class.to_string(),
            us(hop.budget_ns),
            us(hop.cable_ns),
        ]);
    }
    table(&mut text, 1, &rows);
    let _ = writeln!(
        text,
        "A budget holds whatever else is admitted: later connections are refused before one is exceeded."
    );
    text
}
