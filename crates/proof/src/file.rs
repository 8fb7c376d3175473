//! The plan file as far as the checker reads it. Unknown fields are refused, because they may change the meaning.
//!
//! Fields from which no fact follows are named, but not read.
#![allow(dead_code, reason = "named so that only unknown fields are refused")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny as Any, Visitor};

use crate::number::{Fraction, Num};

/// A whole number: a JSON number, or decimal text above 2^53 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Int(pub(crate) u64);

impl Int {
    pub(crate) fn num(self) -> Num {
        i128::from(self.0).into()
    }
}

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Int, D::Error> {
        struct Whole;
        impl Visitor<'_> for Whole {
            type Value = Int;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a whole number")
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Int, E> {
                Ok(Int(value))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Int, E> {
                text.parse().map(Int).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Whole)
    }
}

/// A fraction as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact(pub(crate) Fraction);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Exact, D::Error> {
        let text = String::deserialize(deserializer)?;
        let fraction = Fraction::parse(&text);
        fraction
            .map(Exact)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not a fraction above zero")))
    }
}

/// One form of the file; its fields are those of the same name in `rtwire_plan` (docs/plan-file.md).
macro_rules! form {
    ($name:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }
    };
}

form!(File {
    status: Option<Any>, version: Int, epoch: Any, plan_id: Any, checksum: Any, input_hash: Any,
    network: Network, options: Options, numbers_used: Any, method: Any, routes: Option<Any>,
    streams: Vec<StreamPlan>, best_effort: Any, ports: Vec<PortPlan>, meters: Option<Any>, cyclic: Option<Any>,
    warnings: Any, synthesis: Option<Any>,
    certificate: Option<Certificate>,
});
form!(Options {
    analysis: Any,
    ignore_limits: bool,
    search_work: Any,
    search_seed: Any,
    replan: Any,
});
form!(Network {
    name: Any, description: Any, input_hash: Any, hosts: Vec<Host>, switches: Vec<Switch>,
    links: Vec<Link>, streams: Vec<Stream>, best_effort: Vec<BestEffort>, defaults: Defaults,
    port_latencies: Vec<PortLatency>, shapers: Vec<Shaper>, schedule: Any,
    manager_host: Option<Any>, transfers: Option<Any>,
});
form!(Defaults {
    shaping_interval_ns: Any,
    tick_error_ns: Any,
    frame_overhead_bytes: Int,
    link_rate_bps: Any,
    clock_error_ns: Any,
    clock_drift_ppb: Int,
});
form!(Host {
    name: String, queues: u8, priority_map: Option<[u8; 8]>, latency_ns: Int, gates: Option<Any>,
    preemption: Option<Any>,
});
form!(Switch {
    name: String, latency_ns: Int, latency_min_ns: Int, buffer: Buffer, queues: u8,
    priority_map: Option<[u8; 8]>, gates: Option<Any>, ports: Option<Any>,
    cut_through: Option<Any>, preemption: Option<Any>, flow_meters: Option<Any>, routing: Option<Routing>,
});
form!(Routing { priorities: Option<BTreeMap<u8, u8>>, remark: Option<BTreeMap<u8, u8>> });
form!(Buffer { bytes: Int, frames: Option<Int>, shared: bool, release: Release });
form!(PortLatency { from: String, to: String, latency_ns: Int });
form!(Shaper { node: String, to: Option<String>, pcp: Any, kind: ShaperKind });
form!(Link { ends: [String; 2], rate_bps: Int, cable_delay_ns: Int });
form!(Stream {
    name: String, talker: String, talker_index: Any, listeners: Vec<String>, listener_indices: Any,
    frame_bytes: Int, payload_bytes: Any, wire_bytes: Int, contract: Contract, shaped: bool, pcp: u8,
    dscp: Option<u8>, deadline_ns: Option<Int>, published_delay_ns: Any, semantics: Any, transport: String, port: Any,
    vlan: Any, routes: Vec<Vec<String>>, smallest_frame_bytes: Option<Int>, time_triggered: bool,
    cyclic: Option<bool>,
    jitter_ns: Option<Any>, copy_of: Option<String>,
});
form!(Contract {
    rate: Exact,
    burst: Exact,
    burst_bits: Any,
    shaping_interval_ns: Int,
    tick_error_ns: Int,
    kind: ContractKind,
});
form!(BestEffort {
    name: String, host: String, to: Vec<String>, rate_bps: Any, rate: Exact, burst: Exact, frame_bytes: Int,
    wire_bytes: Int, routes: Vec<Vec<String>>,
});
form!(StreamPlan {
    name: String, identity: Any, shaper: Keeps, promises: Vec<Promise>, launch: Option<Any>,
    recovery: Option<Any>,
});
form!(Keeps { rate_bps: Exact, burst_bits: Int, interval_ns: Any, tick_error_ns: Int });
form!(Promise {
    listener: String, route: Vec<String>, priorities: Option<Any>, delay_ns: Option<Int>, terms: Vec<Term>,
    deadline_ns: Any, jitter_ns: Option<Any>,
});
form!(Term { what: Any, at: Any, ns: Int });
form!(PortPlan {
    node: String, port: String, node_kind: Any, link_rate_bps: Any, latency_ns: Any,
    utilization: Any, utilization_permille: Any, backlog_bytes: Option<Int>,
    backlog_frames: Option<Int>, buffer_bytes: Any, buffer_frames: Any, shared: Any,
    classes: Vec<ClassPlan>, loeser_haertig: Any, gates: Option<Any>, preemption: Option<Any>,
});
form!(ClassPlan { class: u8, flows: Any, delay_ns: Option<Int> });
form!(Certificate { version: Int, ports: Vec<PortFacts>, promises: Vec<PromiseFacts> });
form!(PortFacts {
    port: String, rate_bps: Int, latency_min_ns: Int, latency_ns: Int, catches_up: bool,
    arrivals: Vec<ArrivalFact>, classes: Vec<ClassFact>,
});
form!(ArrivalFact { flow: String, late_ps: Option<Int> });
form!(ClassFact { class: u8, blocking_bits: Int, delay_ps: Option<Int> });
form!(PromiseFacts {
    stream: String, listener: String, pieces: Vec<Piece>, attained: Option<Attained>,
});
form!(Attained { delay_ps: Int, schedule: Schedule });
form!(Piece { ports: Vec<String>, delay_ps: Int });

/// Frames by flow and release, and the ports where frames meet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Schedule {
    pub(crate) frames: Vec<(String, Int)>,
    pub(crate) meets: Vec<(String, Int)>,
}

/// The moment at which a frame's memory is free.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Release {
    Frame,
    Bit,
}

/// The kind of a shaper: none is covered.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub(crate) enum ShaperKind {
    Credit { idle_slope: Any },
    Asynchronous,
}

/// The form of a talker's limit.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub(crate) enum ContractKind {
    Interval { interval_ns: Int, frames: Option<Any> },
    Rate,
    Declared,
}
