//! The vectors of `tests/captures/bounds.json` as graphs, with the results of other programs.

#![allow(unreachable_pub, reason = "a bench uses this file as well")]

use rtwire_plan::Ratio;
use rtwire_plan::bound::graph::{Flow, Graph, Hop, Method, Server};
use rtwire_plan::bound::segments::Segments;
use serde_json::Value;

pub fn fixtures() -> Value {
    serde_json::from_str(include_str!("../../../../tests/captures/bounds.json")).unwrap()
}

pub fn ratio(value: &Value) -> Ratio {
    match value {
        Value::String(text) => text.parse().unwrap(),
        // The fluid networks are given as floating point: six places are far beyond what is compared.
        Value::Number(number) => {
            let millionths = (number.as_f64().unwrap() * 1e6).round();
            Ratio::new(format!("{millionths:.0}").parse().unwrap(), 1_000_000).unwrap()
        }
        other => panic!("{other}"),
    }
}

pub fn seconds(value: Ratio) -> f64 {
    value.num() as f64 / value.den() as f64
}

/// Returns a server. The latency of these networks is constant, so it is also the least one.
pub fn server(rate: Ratio, latency: Ratio) -> Server {
    Server {
        rate,
        latency,
        latency_min: latency,
        catches_up: false,
        classes: 1,
        foreign_frame: Ratio::ZERO,
        ..Server::default()
    }
}

/// Returns a store-and-forward Ethernet network. Flows whose burst is one frame are periodic.
pub fn graph(network: &Value) -> Graph {
    let frame = network.get("frame_bits").map_or(Ratio::ZERO, |bits| {
        Ratio::whole(bits.as_i64().unwrap().into())
    });
    let servers: Vec<Server> = match network.get("servers") {
        Some(list) => list
            .as_array()
            .unwrap()
            .iter()
            .map(|fields| server(ratio(&fields[0]), ratio(&fields[1])))
            .collect(),
        None => {
            let flows = network["flows"].as_array().unwrap();
            let last = flows
                .iter()
                .flat_map(|flow| flow["path"].as_array().unwrap())
                .map(|at| at.as_u64().unwrap());
            let count = last.max().unwrap() + 1;
            let rate = Ratio::whole(network["C_bps"].as_i64().unwrap().into());
            (0..count)
                .map(|_| server(rate, ratio(&network["T_s"])))
                .collect()
        }
    };
    let flows = network["flows"].as_array().unwrap().iter().map(|flow| {
        let hops = flow["path"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .map(|(index, at)| Hop {
                server: usize::try_from(at.as_u64().unwrap()).unwrap(),
                class: 0,
                before: index.checked_sub(1),
            });
        let (burst, rate) = (ratio(&flow["b"]), ratio(&flow["r"]));
        let period = (!frame.is_zero() && burst == frame).then(|| frame.over(rate).unwrap());
        Flow {
            burst,
            rate,
            frame_max: frame,
            frame_min: frame,
            period,
            jitter: Ratio::ZERO,
            meter: None,
            hops: hops.collect(),
        }
    });
    let flows = flows.collect();
    Graph { servers, flows }
}

/// Returns the bound of the first flow. Ports are in segments if that is less, and its own frames count at each port
/// as they were sent.
pub fn best(graph: &Graph) -> f64 {
    let mut segments = Segments::new(graph, Method::FULL, u64::MAX).unwrap();
    let hops = &graph.flows[0].hops;
    let mut least: Vec<Option<Ratio>> = vec![Some(Ratio::ZERO)];
    for end in 1..=hops.len() {
        let mut here = None;
        for (begin, before) in least.iter().enumerate().take(end) {
            let way: Vec<usize> = (begin..end).collect();
            let alone = if end - begin == 1 {
                let hop = hops[begin];
                let class = segments.ports()[hop.server].classes[usize::from(hop.class)];
                segments.own(0, begin).unwrap().or(class.delay)
            } else {
                None
            };
            let row = segments.delay(0, &way).unwrap();
            let piece = match (alone, row) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            if let (Some(before), Some(piece)) = (*before, piece) {
                let sum = before.plus(piece).unwrap();
                here = Some(here.map_or(sum, |known: Ratio| known.min(sum)));
            }
        }
        least.push(here);
    }
    least.pop().flatten().map_or(f64::INFINITY, seconds)
}

/// Returns the smallest bound of another program.
pub fn least_of_others(tools: &Value) -> f64 {
    let values = tools
        .as_object()
        .into_iter()
        .flat_map(|tools| tools.values());
    values
        .filter_map(Value::as_f64)
        .fold(f64::INFINITY, f64::min)
}
