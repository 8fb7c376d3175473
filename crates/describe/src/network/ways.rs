//! The way of a frame through a node: the latency between an input and a port.

use std::collections::BTreeMap;

use super::{Host, LatencyRange, Network, Switch};

impl Network {
    /// Returns the latency of the port of `from` towards `to`: of all frames there, over whichever input they come.
    ///
    /// Host ports and ports set by [`Network::set_port_latency`] catch up.
    #[must_use]
    pub fn port_latency(&self, from: &str, to: &str) -> LatencyRange {
        self.port_latency_of((from, to), self.host(from), self.switch(from))
    }

    /// Returns [`Network::port_latency`] for a caller that has found the node already: a host, a switch, or none.
    #[must_use]
    pub fn port_latency_of(
        &self,
        (from, to): (&str, &str),
        host: Option<&Host>,
        switch: Option<&Switch>,
    ) -> LatencyRange {
        if let Some(own) = self.catching_up((from, to), host) {
            return own;
        }
        let Some(switch) = switch else {
            return LatencyRange::default();
        };
        if switch.ports.is_empty() {
            return LatencyRange::of_switch(switch);
        }
        let inputs = self.neighbours(from).filter(|before| *before != to);
        let ranges = inputs.map(|before| LatencyRange::of_pair(switch, before, to));
        let all = ranges.reduce(LatencyRange::and);
        all.unwrap_or_else(|| LatencyRange::of_switch(switch))
    }

    /// Returns the latency of frames that come to `node` over the link from `before` and leave to `to`.
    ///
    /// It is within that of the port ([`Network::port_latency`]).
    #[must_use]
    pub fn input_latency(&self, before: &str, node: &str, to: &str) -> LatencyRange {
        self.input_latency_of(before, (node, to), self.host(node), self.switch(node))
    }

    /// Returns [`Network::input_latency`] for a caller that has found the node already: a host, a switch, or none.
    #[must_use]
    pub fn input_latency_of(
        &self,
        before: &str,
        (node, to): (&str, &str),
        host: Option<&Host>,
        switch: Option<&Switch>,
    ) -> LatencyRange {
        if let Some(own) = self.catching_up((node, to), host) {
            return own;
        }
        switch.map_or_else(LatencyRange::default, |switch| {
            LatencyRange::of_pair(switch, before, to)
        })
    }

    /// Checks that no stream has several frames in each interval, for a caller whose talkers send one.
    ///
    /// # Errors
    /// The message for the user, with the name of the first such stream.
    pub fn without_groups(&self) -> Result<(), String> {
        let mut streams = self.streams.iter();
        match streams.find(|stream| stream.contract.kind.frames() > 1) {
            None => Ok(()),
            Some(stream) => Err(format!(
                "stream \"{}\" has `frames-per-interval`: it is planned and simulated, but rtwire's talkers send one frame in each interval\n      | state a `rate` with a `burst`, or a stream for each frame",
                stream.name
            )),
        }
    }

    /// Checks that no frame passes a switch twice, for a caller whose switches forward by the receiver alone.
    ///
    /// # Errors
    /// The message for the user, with the first such stream or allowance, and the switch.
    pub fn without_second_pass(&self) -> Result<(), String> {
        let streams = self.streams.iter().map(|one| (&one.name, &one.routes));
        let others = self.best_effort.iter().map(|one| (&one.name, &one.routes));
        for (name, routes) in streams.chain(others) {
            for route in routes {
                let mut passed = std::collections::BTreeSet::new();
                if let Some(switch) = route.iter().find(|node| !passed.insert(*node)) {
                    return Err(format!(
                        "stream \"{name}\" passes \"{switch}\" twice: it is planned and simulated, but an entry for its receiver has one port at each switch\n      | state a `route` that passes each switch once"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that no host has several links, or only that `host` has not, for a caller that knows one interface of a host.
    ///
    /// # Errors
    /// The message for the user, with the first such host and its links. `why` says what is missing.
    pub fn without_several_links(&self, host: Option<&str>, why: &str) -> Result<(), String> {
        let mut links: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for link in &self.links {
            let [a, b] = &link.ends;
            links.entry(a).or_default().push(b);
            links.entry(b).or_default().push(a);
        }
        let names = self.hosts.iter().map(|host| host.name.as_str());
        for name in names.filter(|name| host.is_none_or(|only| only == *name)) {
            match links.get(name) {
                Some(to) if to.len() > 1 => {
                    let to: Vec<String> = to.iter().map(|to| format!("\"{to}\"")).collect();
                    return Err(format!(
                        "host \"{name}\" has several links, to {}: it is planned and simulated, but {why}\n      | describe a host for each link",
                        to.join(" and ")
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the neighbours of a node, in the order of the links.
    pub fn neighbours<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a str> {
        self.links.iter().filter_map(move |link| {
            let [a, b] = &link.ends;
            match (a == node, b == node) {
                (true, _) => Some(b.as_str()),
                (_, true) => Some(a.as_str()),
                _ => None,
            }
        })
    }

    fn catching_up(&self, (from, to): (&str, &str), host: Option<&Host>) -> Option<LatencyRange> {
        let mut of_ports = self.port_latencies.iter();
        let own = of_ports.find(|port| port.from == from && port.to == to);
        let late_ns = own.map(|port| port.latency_ns);
        let late_ns = late_ns.or_else(|| host.map(|host| host.latency_ns));
        late_ns.map(LatencyRange::catching_up)
    }
}
