//! One switch's share of a plan: its ports by name and number, its classes, and the traffic that passes it.

use std::collections::BTreeSet;

use rtwire_plan::identity::Destination;
use rtwire_plan::network::{Network, PortPreemption, ShaperKind};
use rtwire_plan::{FlowMeter, NodeKind, Plan, PortPlan, StreamGate};

/// The largest number of a bridge port (IEEE Std 802.1Q, `port-number-type`).
const LARGEST_PORT: u32 = 65_535;
const LARGEST_VLAN: u16 = 4094;

/// The names, numbers and addresses that the user stated.
pub(super) struct Given<'a> {
    /// Place of the port (`s1>B`), its name, its number.
    ports: Vec<(&'a str, &'a str, Option<u32>)>,
    /// Switch and address.
    addresses: Vec<(&'a str, [u8; 6])>,
}

impl<'a> Given<'a> {
    /// Reads the options `--port` and `--address`.
    ///
    /// # Errors
    /// The message for the user: no such port or switch, no number of a port, no address.
    pub(super) fn read(
        plan: &Plan,
        ports: &'a [(String, String)],
        addresses: &'a [(String, String)],
    ) -> Result<Self, String> {
        let mut given = Self {
            ports: Vec::new(),
            addresses: Vec::new(),
        };
        for (place, name) in ports {
            let known = plan.ports.iter().any(|one| {
                one.node_kind == NodeKind::Switch && format!("{}>{}", one.node, one.port) == *place
            });
            if !known {
                return Err(format!(
                    "--port {place}: there is no such port; write SWITCH>NEIGHBOUR=NAME"
                ));
            }
            let (name, number) = match name.rsplit_once('#') {
                None => (name.as_str(), None),
                Some((name, text)) => {
                    let number = text.parse().ok();
                    let number = number.filter(|number| (1..=LARGEST_PORT).contains(number));
                    let number = number.ok_or_else(|| {
                        format!(
                            "--port {place}: `{text}` is no number of a port; write 1 to {LARGEST_PORT} behind #"
                        )
                    })?;
                    (name, Some(number))
                }
            };
            given.ports.push((place, name, number));
        }
        for (switch, text) in addresses {
            if plan.network.switch(switch).is_none() {
                return Err(format!("--address {switch}: there is no such switch"));
            }
            let address = individual(text).ok_or_else(|| {
                format!("--address {switch}: `{text}` is no address of a switch such as 00-1B-21-00-00-01")
            })?;
            given.addresses.push((switch, address));
        }
        Ok(given)
    }
}

/// Reads an individual Ethernet address, written with `-` or `:`.
fn individual(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split(['-', ':']);
    for byte in &mut address {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    (parts.next().is_none() && address[0] & 1 == 0).then_some(address)
}

/// A port of the switch.
pub(super) struct SharePort<'a> {
    /// Its name at the switch.
    pub(super) name: String,
    /// Its number at the switch, 1 to 65535.
    pub(super) number: u32,
    /// Its part of the plan.
    pub(super) plan: &'a PortPlan,
}

/// A stream, or best effort to one receiver, that passes the switch.
pub(super) struct Passing<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its number in the plan, which no other stream has.
    pub(super) number: u32,
    /// The address of its frames; `None` if the plan does not know it (UDP to one host).
    pub(super) address: Option<[u8; 6]>,
    /// Its VLAN, if its frames carry a tag.
    pub(super) vlan: Option<u16>,
    /// Its PCP, 0 to 7.
    pub(super) pcp: u8,
    /// Its largest frame: header and payload without FCS, bytes.
    pub(super) frame_bytes: u64,
    /// True for a stream with a promise.
    pub(super) stream: bool,
    /// The neighbours that its frames come from.
    pub(super) from: BTreeSet<&'a str>,
    /// The neighbours that its frames go to.
    pub(super) to: BTreeSet<&'a str>,
}

impl Passing<'_> {
    /// True if its frames have a tag at each switch. VLAN 0 is only of the first link: a switch takes such a tag away.
    pub(super) fn has_tag(&self) -> bool {
        self.vlan.is_some_and(|vlan| vlan > 0)
    }
}

/// The share of one switch.
pub(super) struct Share<'a> {
    /// The switch.
    pub(super) name: &'a str,
    /// Its address: the stated one, else a locally administered one.
    pub(super) address: [u8; 6],
    /// Queues of each port.
    pub(super) queues: u8,
    /// Its ports, in the plan's order.
    pub(super) ports: Vec<SharePort<'a>>,
    /// The traffic that passes it.
    pub(super) passing: Vec<Passing<'a>>,
    /// The VLAN of frames without a tag: the first that no stream uses.
    pub(super) untagged_vlan: u16,
    /// The network.
    pub(super) network: &'a Network,
    /// The cycle of cyclic queueing, nanoseconds, and the priority and the stream gate of its streams here.
    pub(super) cyclic: Option<(u64, u8, &'a StreamGate)>,
    /// The flow meters that the switch has.
    pub(super) meters: Vec<&'a FlowMeter>,
}

impl<'a> Share<'a> {
    /// Takes the share of the switch `name` from a plan.
    ///
    /// # Errors
    /// The message for the user: two of its ports have the same name or number.
    pub(super) fn new(plan: &'a Plan, name: &'a str, given: &Given<'_>) -> Result<Self, String> {
        let network = &plan.network;
        let ports = share_ports(plan, name, given);
        for (nth, port) in ports.iter().enumerate() {
            for other in &ports[..nth] {
                let same = match (other.name == port.name, other.number == port.number) {
                    (true, _) => format!("are both called {}", port.name),
                    (false, true) => format!("both have the number {}", port.number),
                    (false, false) => continue,
                };
                return Err(format!(
                    "switch {name}: its ports to {} and {} {same}; state --port for each, as in {name}>{}=swp1#1",
                    other.plan.port, port.plan.port, port.plan.port
                ));
            }
        }
        let place = network.switches.iter().position(|one| one.name == name);
        let number = u32::try_from(place.map_or(0, |place| place + 1)).unwrap_or(0);
        let stated = given.addresses.iter().find(|(one, _)| *one == name);
        let [_, high, middle, low] = number.to_be_bytes();
        Ok(Self {
            name,
            // Locally administered, and not a group: no device has it from its maker.
            address: stated.map_or([0x02, 0x72, 0x74, high, middle, low], |(_, one)| *one),
            queues: network.queues(name),
            ports,
            passing: passing(plan, name),
            untagged_vlan: (1..=LARGEST_VLAN)
                .find(|vlan| network.streams.iter().all(|one| one.vlan != Some(*vlan)))
                .unwrap_or(1),
            network,
            cyclic: plan.cyclic.as_ref().and_then(|it| {
                let mut gates = it.switches.iter();
                let gate = gates.find(|gate| gate.switch == name)?;
                Some((it.cycle_ns, it.priority, gate))
            }),
            meters: plan.meters.iter().filter(|it| it.switch == name).collect(),
        })
    }

    /// Returns the traffic class of each priority.
    pub(super) fn classes(&self) -> [u8; 8] {
        std::array::from_fn(|pcp| {
            let pcp = u8::try_from(pcp).unwrap_or(0);
            self.network.class(self.name, pcp)
        })
    }

    /// Returns the credits of a port: class and idle slope in bit/s, rounded down.
    pub(super) fn credits(&self, port: &PortPlan) -> Vec<(u8, u64)> {
        let credit = |class| match self.network.shaper(self.name, &port.port, class) {
            Some(ShaperKind::Credit { idle_slope }) => {
                Some((class, u64::try_from(idle_slope.floor()).unwrap_or(0)))
            }
            _ => None,
        };
        (0..self.queues).filter_map(credit).collect()
    }

    /// Returns the classes of a port whose streams are shaped asynchronously (802.1Qcr).
    pub(super) fn asynchronous(&self, port: &PortPlan) -> Vec<u8> {
        let shaper = |class| self.network.shaper(self.name, &port.port, class);
        (0..self.queues)
            .filter(|class| shaper(*class) == Some(ShaperKind::Asynchronous))
            .collect()
    }

    /// Returns for each priority whether its frames may be interrupted at a port; `None` if the switch has no preemption.
    pub(super) fn preemptable(&self, port: &PortPlan) -> Option<[bool; 8]> {
        self.network.node_preemption(self.name)?;
        let first_express = self.preemption(port).map_or(0, |it| it.first_express);
        Some(self.classes().map(|class| class < first_express))
    }

    /// Returns the preemption of a port; `None` where all frames are sent whole.
    pub(super) fn preemption(&self, port: &PortPlan) -> Option<PortPreemption> {
        self.network.preemption(self.name, &port.port)
    }

    /// Returns the VLAN that the switch puts a stream's frames into.
    pub(super) fn vlan_of(&self, one: &Passing<'_>) -> u16 {
        // VLAN 0 marks a tag that has a priority only.
        one.vlan
            .filter(|vlan| *vlan > 0)
            .unwrap_or(self.untagged_vlan)
    }

    /// Returns the parts of the plan that are not in the data, in words.
    pub(super) fn left_out(&self) -> Vec<String> {
        let mut found = Vec::new();
        for one in self.passing.iter().filter(|one| one.address.is_none()) {
            found.push(format!(
                "{} has no filter and no static entry: it is UDP to one host, whose address the plan does not contain",
                one.name
            ));
        }
        if let Some((_, priority, _)) = self.cyclic {
            found.push(format!(
                "priority {priority}: the stream gates of cyclic queueing (802.1Q, 8.6.5.4) are not in the data; set them at each port by hand (the page has them), else the promises do not hold"
            ));
        }
        let switch = self.network.switch(self.name);
        if self.meters.is_empty() && switch.is_some_and(|it| it.flow_meters.is_some()) {
            found.push(
                "flow meters: that frames of hosts without a meter are discarded is not in the data; set it by hand, else the promises do not hold"
                    .to_owned(),
            );
        }
        for meter in &self.meters {
            found.push(format!(
                "{}: its flow meter at the port to {} is not in the data; set it by hand (the page has it), else the promises do not hold",
                meter.flow, meter.from
            ));
        }
        for port in &self.ports {
            if let Some(preemption) = self.preemption(port.plan) {
                found.push(format!(
                    "port {}: the MAC merge sublayer (802.3, clause 99) is not in the data; turn it on at both ends of the link, with addFragSize {} at {}, else the promises do not hold",
                    port.name, preemption.additional_fragment_size, port.plan.port
                ));
            }
            for class in self.asynchronous(port.plan) {
                found.push(format!(
                    "port {}, class {class}: its asynchronous shapers (802.1Qcr) are not in the data; set them by hand, else the promises do not hold",
                    port.name
                ));
            }
        }
        found
    }
}

/// Returns the ports of the switch `name`. One without a stated number has the lowest that is free.
fn share_ports<'a>(plan: &'a Plan, name: &str, given: &Given<'_>) -> Vec<SharePort<'a>> {
    let own = plan
        .ports
        .iter()
        .filter(|port| port.node_kind == NodeKind::Switch && port.node == name);
    let stated = |port: &PortPlan| {
        let at = format!("{}>{}", port.node, port.port);
        given.ports.iter().find(|(one, ..)| *one == at)
    };
    let taken: BTreeSet<u32> = own
        .clone()
        .filter_map(|port| stated(port).and_then(|(.., number)| *number))
        .collect();
    let mut free = (1..).filter(|number| !taken.contains(number));
    own.map(|port| {
        let (name, number) = stated(port).map_or((None, None), |(_, name, number)| {
            (Some(*name).filter(|name| !name.is_empty()), *number)
        });
        SharePort {
            name: name.unwrap_or(&port.port).to_owned(),
            number: number.or_else(|| free.next()).unwrap_or(LARGEST_PORT),
            plan: port,
        }
    })
    .collect()
}

/// Returns the address of frames, if the plan knows it.
fn address(destination: &Destination) -> Option<[u8; 6]> {
    match destination {
        Destination::Group { mac } => Some(*mac),
        // RFC 1112, section 6.4: the low 23 bits of the group.
        Destination::Multicast { ip } => {
            let [_, high, middle, low] = ip.octets();
            Some([0x01, 0x00, 0x5e, high & 0x7f, middle, low])
        }
        Destination::Peer { .. } => None,
    }
}

/// Returns the traffic of the plan that passes the switch `name`: streams first, then best effort by receiver.
fn passing<'a>(plan: &'a Plan, name: &str) -> Vec<Passing<'a>> {
    let network = &plan.network;
    let streams = network.streams.iter().zip(&plan.streams);
    let streams = streams.map(|(stream, planned)| {
        let routes: Vec<&[String]> = stream.routes.iter().map(Vec::as_slice).collect();
        let frame_bytes = stream.frame_bytes;
        (&stream.name, &planned.identity, frame_bytes, true, routes)
    });
    let ways = network.best_effort.iter().flat_map(|allowance| {
        let routes = allowance.routes.iter();
        routes.map(move |route| (allowance, route.as_slice()))
    });
    let others = ways
        .zip(&plan.best_effort)
        .map(|((allowance, route), planned)| {
            let frame_bytes = allowance.frame_bytes;
            let routes = vec![route];
            (&planned.name, &planned.identity, frame_bytes, false, routes)
        });
    let mut found = Vec::new();
    for (label, identity, frame_bytes, stream, routes) in streams.chain(others) {
        let mut one = Passing {
            name: label,
            number: identity.number,
            address: address(&identity.destination),
            vlan: identity.vlan,
            pcp: identity.pcp & 7,
            frame_bytes,
            stream,
            from: BTreeSet::new(),
            to: BTreeSet::new(),
        };
        for window in routes.iter().flat_map(|route| route.windows(3)) {
            if let [before, here, behind] = window {
                if here == name {
                    one.from.insert(before);
                    one.to.insert(behind);
                }
            }
        }
        if !one.to.is_empty() {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::individual;

    #[test]
    fn addresses_of_switches_are_individual_ones() {
        assert_eq!(
            individual("00-1b-21-00-00-01"),
            Some([0, 0x1b, 0x21, 0, 0, 1])
        );
        assert_eq!(
            individual("00:1B:21:00:00:01"),
            Some([0, 0x1b, 0x21, 0, 0, 1])
        );
        for wrong in [
            "",
            "00-1b-21-00-00",
            "01-1b-21-00-00-01",
            "00-1b-21-00-00-01-02",
            "0-01b-21-00-00-01",
            "00-1b-21-00-00-0é",
        ] {
            assert_eq!(individual(wrong), None, "{wrong}");
        }
    }
}
