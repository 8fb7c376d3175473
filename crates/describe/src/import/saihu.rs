//! Saihu's output-port network: servers with a service curve, flows along them (JSON; its README, "Output-Port Network").
//!
//! A server becomes a port of a switch. Servers that follow the same server are ports of one switch, since a link has
//! one other end. Flows start and end at hosts on links of 1000 Gbit/s, which add some nanoseconds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Imported;
use super::draft::{Contract, Draft, LARGEST_ON_WIRE, Stream};
use super::fault::{ImportFault, shown};
use super::ports::{Server, lay_out};
use super::quantities::{Kind, quantity, unit};
use crate::ratio::Ratio;

/// A piece of the document and its place.
#[derive(Clone)]
struct Place<'a> {
    value: &'a Value,
    at: String,
}

/// The units of bare numbers.
#[derive(Clone, Copy)]
struct Units {
    time: Ratio,
    data: Ratio,
    rate: Ratio,
}

impl<'a> Place<'a> {
    fn fault(&self, fault: String) -> ImportFault {
        let at = if self.at.is_empty() {
            "the document"
        } else {
            &self.at
        };
        ImportFault::Value {
            at: at.to_owned(),
            fault,
        }
    }

    fn find(&self, key: &str) -> Option<Place<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        let at = if self.at.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.at)
        };
        Some(Place { value, at })
    }

    fn get(&self, key: &str) -> Result<Place<'a>, ImportFault> {
        self.find(key)
            .ok_or_else(|| self.fault(format!("there is no \"{key}\"")))
    }

    fn list(&self) -> Result<Vec<Place<'a>>, ImportFault> {
        let list = self.value.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| self.fault("expected is a list that is not empty".into()))?;
        let places = list.iter().enumerate().map(|(at, value)| Place {
            value,
            at: format!("{}[{at}]", self.at),
        });
        Ok(places.collect())
    }

    fn text(&self) -> Result<&'a str, ImportFault> {
        self.value
            .as_str()
            .ok_or_else(|| self.fault("expected is a text".to_owned()))
    }

    /// Returns a name that a description accepts.
    fn name(&self) -> Result<String, ImportFault> {
        let text = self.text()?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty() || text.len() > 50 || !text.chars().all(fits) {
            return Err(self.fault(format!(
                "\"{}\" is no name here: 1 to 50 letters, digits, `-`, `_` and `.`",
                shown(text)
            )));
        }
        Ok(text.to_owned())
    }

    fn quantity(&self, kind: Kind, units: Units) -> Result<Ratio, ImportFault> {
        let default = match kind {
            Kind::Time => units.time,
            Kind::Data => units.data,
            Kind::Rate => units.rate,
        };
        let text = match self.value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => other.to_string(),
        };
        quantity(&text, kind, default).ok_or_else(|| {
            self.fault(format!(
                "\"{}\" is not {} or a number, from 0 on",
                shown(&text),
                kind.wanted()
            ))
        })
    }

    fn quantities(&self, kind: Kind, units: Units) -> Result<Vec<Ratio>, ImportFault> {
        let list = self.list()?;
        list.iter().map(|one| one.quantity(kind, units)).collect()
    }

    /// Returns the units stated here, else those of the surrounding object.
    fn units(&self, around: Units) -> Result<Units, ImportFault> {
        let stated = |key: &str, kind: Kind, around: Ratio| {
            let Some(place) = self.find(key) else {
                return Ok(around);
            };
            let text = place.text()?;
            unit(text, kind).ok_or_else(|| {
                place.fault(format!(
                    "\"{}\" is not the unit of {}",
                    shown(text),
                    kind.wanted()
                ))
            })
        };
        Ok(Units {
            time: stated("time_unit", Kind::Time, around.time)?,
            data: stated("data_unit", Kind::Data, around.data)?,
            rate: stated("rate_unit", Kind::Rate, around.rate)?,
        })
    }

    /// Returns the pairs of two lists of the same length.
    fn pairs(
        &self,
        first: (&str, Kind),
        second: (&str, Kind),
        units: Units,
    ) -> Result<Vec<(Ratio, Ratio)>, ImportFault> {
        let firsts = self.get(first.0)?.quantities(first.1, units)?;
        let seconds = self.get(second.0)?.quantities(second.1, units)?;
        if firsts.len() != seconds.len() {
            return Err(self.fault(format!(
                "{} \"{}\" and {} \"{}\": there must be as many",
                firsts.len(),
                first.0,
                seconds.len(),
                second.0
            )));
        }
        Ok(firsts.into_iter().zip(seconds).collect())
    }
}

/// A flow as the document states it.
pub(super) struct Flow {
    pub(super) name: String,
    /// The path's servers by number.
    pub(super) path: Vec<usize>,
    rate: Ratio,
    burst: Ratio,
    largest: Option<Ratio>,
    smallest: Ratio,
}

/// Converts seconds to whole nanoseconds, rounded up.
fn ns(place: &Place<'_>, seconds: Ratio) -> Result<u64, ImportFault> {
    let ns = seconds.ceil_ns().ok().filter(|ns| *ns <= 1_000_000_000_000);
    ns.ok_or_else(|| place.fault("more than 1000 s".to_owned()))
}

/// Imports an output-port network of Saihu.
///
/// # Errors
/// [`ImportFault`]: the first value that does not follow the format, or the reason why no switches and links
/// correspond to it.
pub fn saihu(text: &str) -> Result<Imported, ImportFault> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| ImportFault::Json(error.to_string()))?;
    let document = Place {
        value: &value,
        at: String::new(),
    };
    let one = Ratio::whole(1);
    let mut units = Units {
        time: one,
        data: one,
        rate: one,
    };
    let mut draft = Draft {
        name: "saihu".to_owned(),
        origin: "From an output-port network of Saihu.".to_owned(),
        ..Draft::default()
    };
    let network = document.find("network");
    if let Some(network) = &network {
        units = network.units(units)?;
        if let Some(name) = network.find("name") {
            draft.name = name.name()?;
        }
        let multiplexing = network.find("multiplexing");
        if multiplexing.is_some_and(|word| word.value != "FIFO") {
            draft.notes.push(
                "multiplexing is not FIFO: ports serve in order of arrival here, and bounds are lower for it"
                    .to_owned(),
            );
        }
    }
    let servers = document.get("servers")?.list()?;
    let mut numbers = BTreeMap::new();
    for (number, place) in servers.iter().enumerate() {
        let name = place.get("name")?.name()?;
        if numbers.insert(name.clone(), number).is_some() {
            return Err(place.fault(format!("there are two servers \"{name}\"")));
        }
    }
    let flows = flows(&document, network.as_ref(), units, &numbers, &mut draft)?;
    let mut read = Vec::new();
    for (number, place) in servers.iter().enumerate() {
        let load = flows
            .iter()
            .filter(|flow| flow.path.contains(&number))
            .try_fold(Ratio::ZERO, |sum, flow| sum.plus(flow.rate));
        let load = load.map_err(|_| place.fault("rates beyond 128 bits".to_owned()))?;
        read.push(server(place, units, load, &mut draft)?);
    }
    let paths: Vec<(String, Vec<usize>)> = flows
        .iter()
        .map(|flow| (flow.name.clone(), flow.path.clone()))
        .collect();
    let routes = lay_out(&read, &paths, &mut draft)?;
    for (flow, route) in flows.iter().zip(routes) {
        add_stream(flow, route, &mut draft)?;
    }
    draft.finish()
}

fn server(
    place: &Place<'_>,
    units: Units,
    load: Ratio,
    draft: &mut Draft,
) -> Result<Server, ImportFault> {
    let units = place.units(units)?;
    let name = place.get("name")?.name()?;
    let curve = place.get("service_curve")?;
    let mut lines = curve.pairs(("latencies", Kind::Time), ("rates", Kind::Rate), units)?;
    // The least latency of those that carry the load, else the highest rate: each alone is below the whole.
    lines.sort_by_key(|(latency, rate)| (*rate <= load, *latency));
    if lines.iter().all(|(_, rate)| *rate <= load) {
        lines.sort_by_key(|line| std::cmp::Reverse(line.1));
    }
    let (latency, rate) = lines[0];
    if rate.is_zero() {
        return Err(curve.fault("expected is a rate above 0".to_owned()));
    }
    if lines.len() > 1 {
        draft.notes.push(format!(
            "of the service curve of {name} only the line with the rate {rate} bit/s"
        ));
    }
    let capacity = place.find("capacity");
    let capacity = capacity
        .map(|place| place.quantity(Kind::Rate, units))
        .transpose()?;
    if capacity != Some(rate) {
        let stated = capacity.map_or_else(
            || "any rate".to_owned(),
            |capacity| format!("{capacity} bit/s"),
        );
        draft.notes.push(format!(
            "{name} serves {rate} bit/s and may send at {stated}: its link has the first rate, so compare with --method tfa, which does not assume line shaping"
        ));
    }
    Ok(Server {
        name,
        latency_ns: ns(&curve, latency)?,
        rate,
    })
}

fn flows(
    document: &Place<'_>,
    network: Option<&Place<'_>>,
    units: Units,
    numbers: &BTreeMap<String, usize>,
    draft: &mut Draft,
) -> Result<Vec<Flow>, ImportFault> {
    let mut flows = Vec::new();
    let mut names = BTreeSet::new();
    for place in document.get("flows")?.list()? {
        let units = place.units(units)?;
        let name = place.get("name")?.name()?;
        if !names.insert(name.clone()) {
            return Err(place.fault(format!("there are two flows \"{name}\"")));
        }
        let mut path = Vec::new();
        for server in place.get("path")?.list()? {
            let called = server.text()?;
            let number = numbers
                .get(called)
                .ok_or_else(|| server.fault(format!("there is no server \"{}\"", shown(called))))?;
            if path.contains(number) {
                return Err(server.fault(format!("\"{called}\" is on this path already")));
            }
            path.push(*number);
        }
        let curve = place.get("arrival_curve")?;
        let mut buckets = curve.pairs(("bursts", Kind::Data), ("rates", Kind::Rate), units)?;
        buckets.sort_by_key(|(burst, rate)| (*rate, *burst));
        if buckets.len() > 1 {
            draft.notes.push(format!(
                "of the arrival curve of {name} only the bucket with the rate {} bit/s",
                buckets[0].1
            ));
        }
        // A bare length of the network is in the network's unit.
        let length = |key: &str| {
            let own = place.find(key).map(|found| (found, units));
            let around = network.and_then(|network| network.find(key).map(|it| (it, units)));
            let found = own.or(around);
            found
                .map(|(place, units)| place.quantity(Kind::Data, units))
                .transpose()
        };
        let largest = length("max_packet_length")?.filter(|length| !length.is_zero());
        flows.push(Flow {
            name,
            path,
            rate: buckets[0].1,
            burst: buckets[0].0,
            largest,
            smallest: length("min_packet_length")?.unwrap_or(Ratio::ZERO),
        });
    }
    Ok(flows)
}

/// Converts bits to whole bytes, rounded up.
fn bytes(bits: Ratio) -> u64 {
    let bytes = bits.over(Ratio::whole(8)).map_or(i128::MAX, Ratio::ceil);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn add_stream(flow: &Flow, route: Vec<String>, draft: &mut Draft) -> Result<(), ImportFault> {
    let name = &flow.name;
    let size = flow.largest.map_or_else(
        || {
            let size = bytes(flow.burst).clamp(60, 1514);
            draft.notes.push(format!(
                "{name} has no max_packet_length, so it is a fluid flow: imported in frames of {size} B"
            ));
            size
        },
        bytes,
    );
    if size > LARGEST_ON_WIRE {
        return Err(ImportFault::Shape(format!(
            "{name}: a packet of {size} B is no Ethernet frame, the largest is {LARGEST_ON_WIRE} B on the wire"
        )));
    }
    let too_much = || ImportFault::Shape(format!("{name}: a burst beyond 64 bits"));
    let burst_bits = u64::try_from(flow.burst.ceil()).map_err(|_| too_much())?;
    let (Some(talker), Some(listener)) = (route.first(), route.last()) else {
        return Ok(());
    };
    draft.streams.push(Stream {
        name: name.clone(),
        talker: talker.clone(),
        listeners: vec![listener.clone()],
        bytes: size,
        smallest_bytes: Some(bytes(flow.smallest)),
        contract: Contract::Bucket {
            rate: flow.rate,
            burst_bits,
        },
        deadline_ns: None,
        route: Some(route.clone()),
    });
    Ok(())
}
