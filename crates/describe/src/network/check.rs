//! Checks the consistency of a network that is not from [`crate::read`]: from a plan's file, or made by a program.

use std::collections::{HashMap, HashSet};

use super::{Contract, ContractKind, Network, PriorityMap};
use crate::profile::GateProfile;
use crate::ratio::Ratio;

/// The longest time, as in descriptions: 1000 s.
const LONGEST_NS: u64 = 1_000_000_000_000;
/// The largest rate: 1000 Gbit/s.
const LARGEST_RATE_BPS: u64 = 1_000_000_000_000;
/// A size above that of any Ethernet frame, bytes.
const LARGEST_FRAME_BYTES: u64 = 100_000;
/// The largest buffer: 1 GiB.
const LARGEST_BUFFER_BYTES: u64 = 1 << 30;

/// The largest number of frames in an interval.
const MOST_FRAMES: u32 = 1_000;

type Checked = Result<(), String>;

fn within(what: &str, value: u64, least: u64, largest: u64) -> Checked {
    if (least..=largest).contains(&value) {
        return Ok(());
    }
    Err(format!(
        "{what} is {value}, but must be {least} to {largest}"
    ))
}

fn queues(what: &str, queues: u8) -> Checked {
    within(&format!("{what}: `queues`"), u64::from(queues), 1, 8)
}

fn priority_map(what: &str, map: Option<&PriorityMap>, queues: u8) -> Checked {
    match map.and_then(|map| map.iter().find(|class| **class >= queues)) {
        Some(class) => Err(format!(
            "{what}: `priority_map` has queue {class}, but there are {queues}"
        )),
        None => Ok(()),
    }
}

fn rate(what: &str, rate: Ratio) -> Checked {
    // Headers and the frame overhead may multiply what a description states.
    let largest = Ratio::whole(i128::from(LARGEST_RATE_BPS) * 10_000);
    if rate.is_negative() || rate > largest {
        return Err(format!("{what}: a rate of {rate} bit/s is out of range"));
    }
    Ok(())
}

impl Network {
    /// Checks what [`crate::read`] guarantees and every user of a network relies on.
    ///
    /// Names resolve, routes follow links, quantities are in range, and contracts match their streams.
    ///
    /// # Errors
    /// The first violation, in words.
    pub fn check(&self) -> Checked {
        let mut nodes: HashSet<&str> = HashSet::new();
        for host in &self.hosts {
            let what = format!("host \"{}\"", host.name);
            name(&what, &host.name, &mut nodes)?;
            queues(&what, host.queues)?;
            priority_map(&what, host.priority_map.as_ref(), host.queues)?;
            within(
                &format!("{what}: `latency_ns`"),
                host.latency_ns,
                0,
                LONGEST_NS,
            )?;
            gates(&what, host.gates.as_ref())?;
        }
        for switch in &self.switches {
            let what = format!("switch \"{}\"", switch.name);
            name(&what, &switch.name, &mut nodes)?;
            queues(&what, switch.queues)?;
            priority_map(&what, switch.priority_map.as_ref(), switch.queues)?;
            within(
                &format!("{what}: `latency_ns`"),
                switch.latency_ns,
                0,
                LONGEST_NS,
            )?;
            within(
                &format!("{what}: `latency_min_ns`"),
                switch.latency_min_ns,
                0,
                switch.latency_ns,
            )?;
            let bytes = switch.buffer.bytes;
            within(
                &format!("{what}: its buffer"),
                bytes,
                1,
                LARGEST_BUFFER_BYTES,
            )?;
            gates(&what, switch.gates.as_ref())?;
        }
        self.check_ports()?;
        let defaults = &self.defaults;
        for (what, value, largest) in [
            (
                "`shaping_interval_ns`",
                defaults.shaping_interval_ns,
                LONGEST_NS,
            ),
            ("`tick_error_ns`", defaults.tick_error_ns, LONGEST_NS),
            (
                "`frame_overhead_bytes`",
                defaults.frame_overhead_bytes,
                1_000,
            ),
            ("`clock_error_ns`", defaults.clock_error_ns, LONGEST_NS),
            ("`clock_drift_ppb`", defaults.clock_drift_ppb, 100_000_000),
            (
                "`cycle_ns` of the schedule",
                self.schedule.cycle_ns.unwrap_or(0),
                LONGEST_NS,
            ),
            (
                "`clock_error_ns` of the schedule",
                self.schedule.clock_error_ns,
                LONGEST_NS,
            ),
            (
                "`guard_wire_bytes`",
                self.schedule.guard_wire_bytes,
                LARGEST_FRAME_BYTES,
            ),
            (
                "`best_effort_percent`",
                u64::from(self.schedule.best_effort_percent),
                100,
            ),
        ] {
            within(what, value, 0, largest)?;
        }
        let links = self.check_links(&nodes)?;
        if let Some(fault) = self.preemption_faults().first() {
            return Err(fault.message.clone());
        }
        if let Some(fault) = self.meter_faults().first() {
            return Err(fault.message.clone());
        }
        if let Some(fault) = self.cyclic_faults().first() {
            return Err(fault.message.clone());
        }
        let ways = Ways {
            network: self,
            links,
            hosts: self
                .hosts
                .iter()
                .enumerate()
                .map(|(at, host)| (host.name.as_str(), at))
                .collect(),
        };
        self.check_streams(&ways)?;
        self.check_routers()?;
        self.check_others(&ways, &nodes)
    }

    fn check_ports(&self) -> Checked {
        for switch in &self.switches {
            let shaped = self.shapers.iter().any(|shaper| shaper.node == switch.name);
            if switch.cuts_through() && (switch.gates.is_some() || shaped) {
                return Err(format!(
                    "switch \"{}\" has cut-through, and gates or a shaper",
                    switch.name
                ));
            }
            let mut seen = HashSet::new();
            for port in &switch.ports {
                let what = format!("a port of switch \"{}\"", switch.name);
                let known = |name: &Option<String>| {
                    let name = name.as_deref();
                    name.is_none_or(|name| self.neighbours(&switch.name).any(|one| one == name))
                };
                let named = port.from.is_some() || port.to.is_some();
                if !named || port.from == port.to || !known(&port.from) || !known(&port.to) {
                    return Err(format!("{what}: there is no such port or input"));
                }
                if !seen.insert((&port.from, &port.to)) {
                    return Err(format!("{what} is there twice"));
                }
                if let Some(latency) = port.latency {
                    let key = format!("{what}: `latency`");
                    within(&key, latency.max_ns, 0, LONGEST_NS)?;
                    within(&key, latency.min_ns, 0, latency.max_ns)?;
                }
            }
        }
        Ok(())
    }

    fn check_links(&self, nodes: &HashSet<&str>) -> Result<HashSet<(&str, &str)>, String> {
        let mut joined = HashSet::new();
        for link in &self.links {
            let [a, b] = &link.ends;
            let what = format!("link \"{a}\" to \"{b}\"");
            let known = nodes.contains(a.as_str()) && nodes.contains(b.as_str());
            if !known || a == b {
                return Err(format!("{what}: its ends are not two nodes of the network"));
            }
            if !joined.insert((a.as_str(), b.as_str())) || !joined.insert((b.as_str(), a.as_str()))
            {
                return Err(format!("{what} is there twice"));
            }
            within(
                &format!("{what}: `rate_bps`"),
                link.rate_bps,
                1,
                LARGEST_RATE_BPS,
            )?;
            within(
                &format!("{what}: `cable_delay_ns`"),
                link.cable_delay_ns,
                0,
                LONGEST_NS,
            )?;
        }
        Ok(joined)
    }

    fn check_streams(&self, ways: &Ways<'_>) -> Checked {
        let mut names: HashSet<&str> = HashSet::new();
        for stream in &self.streams {
            let what = format!("stream \"{}\"", stream.name);
            // A second copy has the name of the first, and an end that no other name has.
            if !names.insert(&stream.name) {
                return Err(format!("{what} is there twice"));
            }
            if ways.hosts.get(stream.talker.as_str()) != Some(&stream.talker_index) {
                return Err(format!(
                    "{what}: its talker \"{}\" is not host {}",
                    stream.talker, stream.talker_index
                ));
            }
            let indices: Option<Vec<usize>> = stream
                .listeners
                .iter()
                .map(|listener| ways.hosts.get(listener.as_str()).copied())
                .collect();
            if indices.as_ref() != Some(&stream.listener_indices) {
                return Err(format!(
                    "{what}: its listeners are not the hosts of their indices"
                ));
            }
            ways.check(&what, &stream.talker, &stream.listeners, &stream.routes)?;
            let (frame, wire) = (stream.frame_bytes, stream.wire_bytes);
            within(
                &format!("{what}: `frame_bytes`"),
                frame,
                1,
                LARGEST_FRAME_BYTES,
            )?;
            within(
                &format!("{what}: `payload_bytes`"),
                stream.payload_bytes,
                0,
                frame,
            )?;
            within(&format!("{what}: `wire_bytes`"), wire, frame, frame + 1_000)?;
            if let Some(smallest) = stream.smallest_frame_bytes {
                within(
                    &format!("{what}: `smallest_frame_bytes`"),
                    smallest,
                    1,
                    frame,
                )?;
            }
            within(&format!("{what}: `pcp`"), u64::from(stream.pcp), 0, 7)?;
            within(
                &format!("{what}: `vlan`"),
                stream.vlan.unwrap_or(0).into(),
                0,
                4_094,
            )?;
            for (key, time) in [
                ("deadline_ns", stream.deadline_ns),
                ("jitter_ns", stream.jitter_ns),
            ] {
                within(
                    &format!("{what}: `{key}`"),
                    time.unwrap_or(0),
                    0,
                    LONGEST_NS,
                )?;
            }
            contract(&what, &stream.contract, wire)?;
            let interval = matches!(stream.contract.kind, ContractKind::Interval { .. });
            if stream.time_triggered && !interval {
                return Err(format!("{what} is time-triggered without an interval"));
            }
            if stream.time_triggered && stream.contract.kind.frames() > 1 {
                return Err(format!("{what} is time-triggered with several frames"));
            }
        }
        let copies = self
            .streams
            .iter()
            .filter_map(|stream| stream.copy_of.as_deref());
        for name in copies {
            if !names.contains(name) {
                return Err(format!(
                    "stream \"{name}\" has a second copy, but is missing"
                ));
            }
        }
        Ok(())
    }

    fn check_others(&self, ways: &Ways<'_>, nodes: &HashSet<&str>) -> Checked {
        let mut names: HashSet<&str> = HashSet::new();
        for allowance in &self.best_effort {
            let what = format!("best-effort allowance \"{}\"", allowance.name);
            if !names.insert(&allowance.name) {
                return Err(format!("{what} is there twice"));
            }
            ways.check(&what, &allowance.host, &allowance.to, &allowance.routes)?;
            let (frame, wire) = (allowance.frame_bytes, allowance.wire_bytes);
            within(
                &format!("{what}: `frame_bytes`"),
                frame,
                1,
                LARGEST_FRAME_BYTES,
            )?;
            within(&format!("{what}: `wire_bytes`"), wire, frame, frame + 1_000)?;
            rate(&what, allowance.rate)?;
            rate(&what, allowance.rate_bps)?;
            burst(&what, allowance.burst, wire)?;
        }
        for port in &self.port_latencies {
            let what = format!("latency of port {}>{}", port.from, port.to);
            within(&what, port.latency_ns, 0, LONGEST_NS)?;
        }
        for shaper in &self.shapers {
            let what = format!("shaper at \"{}\"", shaper.node);
            let to = shaper.to.as_deref();
            let known = nodes.contains(shaper.node.as_str())
                && to.is_none_or(|to| ways.links.contains(&(shaper.node.as_str(), to)));
            if !known {
                return Err(format!("{what}: there is no such port"));
            }
            within(&format!("{what}: `pcp`"), u64::from(shaper.pcp), 0, 7)?;
            if let super::ShaperKind::Credit { idle_slope } = shaper.kind {
                rate(&what, idle_slope)?;
                if idle_slope.is_zero() {
                    return Err(format!("{what}: its idle slope is zero"));
                }
            }
        }
        Ok(())
    }
}

fn name<'a>(what: &str, name: &'a str, names: &mut HashSet<&'a str>) -> Checked {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(format!(
            "{what}: a name has 1 to 64 letters, digits, `-`, `_` and `.`"
        ));
    }
    if !names.insert(name) {
        return Err(format!("{what}: the name is taken"));
    }
    Ok(())
}

fn gates(what: &str, gates: Option<&GateProfile>) -> Checked {
    let Some(gates) = gates else { return Ok(()) };
    within(
        &format!("{what}: `minimum_window_ns`"),
        gates.minimum_window_ns,
        1,
        LONGEST_NS,
    )?;
    within(
        &format!("{what}: `longest_cycle_ns`"),
        gates.longest_cycle_ns,
        1,
        LONGEST_NS,
    )
}

fn burst(what: &str, burst: Ratio, wire_bytes: u64) -> Checked {
    let least = Ratio::whole(i128::from(wire_bytes) * 8);
    let largest = Ratio::whole(i128::from(u64::MAX >> 8));
    if burst < least || burst > largest {
        return Err(format!("{what}: a burst of {burst} bit is out of range"));
    }
    Ok(())
}

fn contract(what: &str, contract: &Contract, wire_bytes: u64) -> Checked {
    rate(what, contract.rate)?;
    burst(what, contract.burst, wire_bytes)?;
    for (key, time) in [
        ("shaping_interval_ns", contract.shaping_interval_ns),
        ("tick_error_ns", contract.tick_error_ns),
    ] {
        within(&format!("{what}: `{key}`"), time, 0, LONGEST_NS)?;
    }
    if let ContractKind::Interval {
        interval_ns,
        frames,
    } = contract.kind
    {
        let most = u64::from(MOST_FRAMES);
        within(&format!("{what}: `frames`"), frames.into(), 1, most)?;
        within(
            &format!("{what}: `interval_ns`"),
            interval_ns,
            1,
            LONGEST_NS,
        )?;
        let frame = Ratio::whole(i128::from(wire_bytes) * 8 * i128::from(frames));
        if frame.over(Ratio::from_ns(interval_ns)) != Ok(contract.rate) {
            return Err(format!(
                "{what}: its rate is not that of its frames in each interval"
            ));
        }
    }
    let same = Contract::new(
        contract.rate,
        wire_bytes,
        contract.shaping_interval_ns,
        contract.tick_error_ns,
        contract.kind,
        contract.burst,
    );
    if same.as_ref() != Ok(contract) {
        return Err(format!("{what}: its burst is not that of its contract"));
    }
    Ok(())
}

/// The network's links and switches, against which routes are checked.
struct Ways<'a> {
    network: &'a Network,
    links: HashSet<(&'a str, &'a str)>,
    hosts: HashMap<&'a str, usize>,
}

impl Ways<'_> {
    fn check(&self, what: &str, from: &str, to: &[String], routes: &[Vec<String>]) -> Checked {
        if !self.hosts.contains_key(from) {
            return Err(format!("{what}: its sender \"{from}\" is no host"));
        }
        if to.is_empty() || to.len() != routes.len() {
            return Err(format!("{what}: it needs a route for each receiver"));
        }
        let mut seen: HashSet<&str> = HashSet::from([from]);
        for (end, route) in to.iter().zip(routes) {
            let fault = || {
                Err(format!(
                    "{what}: its route to \"{end}\" does not follow the links"
                ))
            };
            if !self.hosts.contains_key(end.as_str()) || !seen.insert(end) {
                return Err(format!(
                    "{what}: its receiver \"{end}\" is no other host, or is there twice"
                ));
            }
            let [first, between @ .., last] = route.as_slice() else {
                return fault();
            };
            // A switch may be passed again, but no port.
            let mut passed: HashSet<(&str, &str)> = HashSet::new();
            let mut ports = route.windows(2);
            let once = ports.all(|pair| passed.insert((pair[0].as_str(), pair[1].as_str())));
            let onward = route.windows(3).all(|way| way[0] != way[2]);
            let switches = once
                && onward
                && between
                    .iter()
                    .all(|node| !self.hosts.contains_key(node.as_str()));
            let joined = route
                .windows(2)
                .all(|pair| self.links.contains(&(pair[0].as_str(), pair[1].as_str())));
            if first != from || last != end || !switches || !joined || self.network.links.is_empty()
            {
                return fault();
            }
        }
        Ok(())
    }
}
