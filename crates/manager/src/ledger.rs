//! The connections in force: admission, routes, identities, and the records from which all of it is built again.

mod cyclic;
mod load;
mod longest;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rtwire_plan::admission::{Admission, Denied, Offer, Route, Ticket};
use rtwire_plan::identity::LARGEST_NUMBER;
use rtwire_plan::{Contract, ContractKind, Plan, Ratio, Transport};

use crate::connection::{Ask, Carrier, Granted, SMALLEST_FRAME_BYTES, Stored};
use crate::launches::Slot;
use crate::message::{Hop, Reason, Refused};
use crate::ports::Ports;
use crate::snapshot::Snapshot;
use crate::ways::Ways;

/// The first port for connections of RTDiP that ask for any.
const FIRST_PORT: u16 = 1_000;
/// The same for UDP: lower ones are for root only.
const FIRST_UDP_PORT: u16 = 1_024;
/// The first source port for connections that ask for any.
const FIRST_SOURCE_PORT: u16 = 49_152;

/// A connection in force.
#[derive(Debug)]
struct Live {
    stored: Arc<Stored>,
    ticket: Ticket,
}

/// A released connection whose last frames may be under way.
#[derive(Debug)]
struct Leaving {
    ticket: Ticket,
    talker: String,
    rate: u64,
}

/// A host's place in the network.
#[derive(Debug)]
struct Place {
    number: usize,
    /// The rate of its link, bit/s; 0 for a host without one.
    link_bps: u64,
    /// The slots of the plan's own time-triggered streams that it sends, with their places among the streams.
    planned: Vec<(Slot, usize)>,
    /// The connections that it sends.
    sent: BTreeSet<u64>,
    /// The sum of their rates, bytes per millisecond.
    sent_rate: u64,
    /// The number of its released connections whose last frames may be under way, and the sum of their rates.
    leaving: (usize, u64),
    /// The connections that it hears.
    heard: BTreeSet<u64>,
}

/// The connections of a network.
#[derive(Debug)]
pub(crate) struct Ledger {
    base: Arc<Plan>,
    admission: Admission,
    live: BTreeMap<u64, Live>,
    /// Released connections whose last frames may be under way, by the moment at which those have arrived, ns, and id.
    leaving: BTreeMap<(u64, u64), Leaving>,
    by_request: HashMap<(usize, u128), u64>,
    places: HashMap<String, Place>,
    ways: Ways,
    /// Destination ports in use, by transport and listener; source ports by transport and talker.
    ports: Ports,
    sources: Ports,
    numbers: HashSet<u32>,
    last_number: u32,
    last_connection: u64,
    epoch: u64,
}

/// Returns a refusal without a time.
pub(crate) fn refused(reason: Reason, text: impl Into<String>) -> Refused {
    Refused {
        reason,
        retry_after_us: 0,
        text: text.into(),
    }
}

fn denied(denied: &Denied) -> Refused {
    let reason = match denied {
        Denied::Deadline { .. } => Reason::Deadline,
        Denied::Faulty(_) | Denied::FrameTooLarge { .. } => Reason::Faulty,
        _ => Reason::Capacity,
    };
    refused(reason, denied.to_string())
}

impl Ledger {
    pub(crate) fn base(&self) -> &Arc<Plan> {
        &self.base
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn last_connection(&self) -> u64 {
        self.last_connection
    }

    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn knows(&self, host: &str) -> bool {
        self.places.contains_key(host)
    }

    pub(crate) fn admission(&mut self) -> &mut Admission {
        &mut self.admission
    }

    /// Returns the number of connections that a host sends.
    pub(crate) fn sent_by(&self, host: &str) -> usize {
        self.places.get(host).map_or(0, |place| place.sent.len())
    }

    /// Returns the sum of the rates of a host's connections, bytes per millisecond.
    pub(crate) fn rate_of(&self, host: &str) -> u64 {
        self.places.get(host).map_or(0, |place| place.sent_rate)
    }

    /// Returns the number of a host's released connections whose last frames may be under way, and the sum of their
    /// rates, bytes per millisecond.
    pub(crate) fn leaving_of(&self, host: &str) -> (usize, u64) {
        self.places.get(host).map_or((0, 0), |place| place.leaving)
    }

    /// Returns the connection that this request made.
    pub(crate) fn made_by(&self, host: &str, request: u128) -> Option<Arc<Stored>> {
        let place = self.places.get(host)?;
        let id = self.by_request.get(&(place.number, request))?;
        Some(Arc::clone(&self.live.get(id)?.stored))
    }

    pub(crate) fn granted(&self, connection: u64) -> Option<&Granted> {
        Some(&self.live.get(&connection)?.stored.granted)
    }

    /// Returns the bytes of a frame on the wire.
    pub(crate) fn wire_bytes(&self, frame_bytes: u16) -> u64 {
        u64::from(frame_bytes.max(SMALLEST_FRAME_BYTES))
            + self.base.network.defaults.frame_overhead_bytes
    }

    pub(crate) fn offer_of(&self, ask: &Ask) -> Result<Offer, Refused> {
        let faulty = |text: String| refused(Reason::Faulty, text);
        let wire = self.wire_bytes(ask.padded_bytes());
        let transport = transport(ask.carrier);
        let least = transport.header_bytes(ask.vlan.is_some());
        if u64::from(ask.frame_bytes) < least && ask.carrier == Carrier::Rtdip {
            return Err(faulty(format!(
                "a frame of {} bytes is less than its headers, {least} bytes",
                ask.frame_bytes
            )));
        }
        if ask.rate_bytes_per_ms == 0 {
            return Err(faulty(
                "a rate is at least 1 byte per millisecond".to_owned(),
            ));
        }
        if u64::from(ask.burst_bytes) < wire {
            return Err(faulty(format!(
                "a burst of {} bytes is less than one frame on the wire, {wire} bytes",
                ask.burst_bytes
            )));
        }
        let contract = contract(&self.base, ask, wire)
            .ok_or_else(|| faulty("the rate is out of range".to_owned()))?;
        let mut offer =
            Offer::new(&contract, wire, ask.pcp).map_err(|error| faulty(error.to_string()))?;
        offer.deadline_ns = ask.deadline_ns;
        // A program may send less than its largest frame.
        Ok(offer.with_smallest(self.wire_bytes(0)))
    }

    /// Returns the nodes from one host to another.
    pub(crate) fn way(&mut self, talker: &str, listener: &str) -> Result<Vec<String>, Refused> {
        self.ways.between(talker, listener)
    }

    pub(crate) fn route(&mut self, talker: &str, listener: &str) -> Result<Arc<Route>, Refused> {
        let way = self.way(talker, listener)?;
        self.admission
            .route(&[way])
            .map_err(|error| refused(Reason::Faulty, error.to_string()))
    }

    /// Checks a connection and reserves it, unless `only_ask`: then its id is 0.
    pub(crate) fn reserve(
        &mut self,
        talker: &str,
        request: u128,
        ask: &Ask,
        only_ask: bool,
    ) -> Result<Arc<Stored>, Refused> {
        let route = self.route(talker, &ask.listener)?;
        let offer = self.offer_of(ask)?;
        let ask = self.with_ports(talker, ask)?;
        let launch_offset_ns = self.launch_offset_ns(talker, &ask)?;
        let number = self.next_number()?;
        let ticket = self
            .admission
            .offer(&offer, &route)
            .map_err(|no| denied(&no))?;
        let promise_ns = self.admission.promise_ns(ticket).unwrap_or(u64::MAX);
        let (mut connection, mut epoch) = (0, self.epoch);
        if !only_ask {
            self.epoch += 1;
            self.last_connection += 1;
            (connection, epoch) = (self.last_connection, self.epoch);
        }
        let stored = Arc::new(Stored {
            request,
            granted: Granted {
                connection,
                epoch,
                talker: talker.to_owned(),
                ask,
                promise_ns,
                launch_offset_ns,
                number,
                key: self.base.key_of(number),
            },
        });
        if only_ask {
            // It was admitted a moment ago.
            let _ = self.admission.remove(ticket);
        } else {
            self.enter(Arc::clone(&stored), ticket);
        }
        Ok(stored)
    }

    fn with_ports(&self, talker: &str, ask: &Ask) -> Result<Ask, Refused> {
        let mut ask = ask.clone();
        let number = |host: &str| self.places.get(host).map_or(usize::MAX, |one| one.number);
        let (from, to) = (number(talker), number(&ask.listener));
        let first = match ask.carrier {
            Carrier::Rtdip => FIRST_PORT,
            Carrier::Udp => FIRST_UDP_PORT,
        };
        let taken = |what: &str, port: u16, host: &str| {
            refused(
                Reason::PortTaken,
                format!("{what} port {port} is in use at \"{host}\"; 0 asks for one that is free"),
            )
        };
        let none = |host: &str| refused(Reason::Quota, format!("no port is free at \"{host}\""));
        let carrier = ask.carrier;
        let free = |of: &Ports, host: usize, range| of.first_free(carrier, host, range);
        let (port, source_port) = (ask.port, ask.source_port);
        if port == 0 {
            let lowest = free(&self.ports, to, (first, u16::MAX));
            ask.port = lowest.ok_or_else(|| none(&ask.listener))?;
        } else if self.ports.contains(ask.carrier, to, port) {
            return Err(taken("destination", ask.port, &ask.listener));
        }
        if source_port == 0 {
            let upper = free(&self.sources, from, (FIRST_SOURCE_PORT, u16::MAX));
            let lower = || free(&self.sources, from, (first, FIRST_SOURCE_PORT - 1));
            ask.source_port = upper.or_else(lower).ok_or_else(|| none(talker))?;
        } else if self.sources.contains(ask.carrier, from, source_port) {
            return Err(taken("source", ask.source_port, talker));
        }
        Ok(ask)
    }

    /// Returns a free number: the next one, so that a number is used again as late as possible.
    fn next_number(&self) -> Result<u32, Refused> {
        let mut all = (self.last_number.saturating_add(1)..=LARGEST_NUMBER)
            .chain(1..=self.last_number.min(LARGEST_NUMBER));
        all.find(|number| !self.numbers.contains(number))
            .ok_or_else(|| {
                refused(
                    Reason::Quota,
                    format!("all {LARGEST_NUMBER} numbers of streams are in use"),
                )
            })
    }

    /// Releases a connection. Its id was checked before. What it holds of the links is free one promise later: its last
    /// frames may be under way until then.
    pub(crate) fn release(&mut self, now_ns: u64, connection: u64) {
        let Some(live) = self.live.remove(&connection) else {
            return;
        };
        let granted = &live.stored.granted;
        let rate = u64::from(granted.ask.rate_bytes_per_ms);
        let until_ns = now_ns.saturating_add(granted.promise_ns);
        let leaving = Leaving {
            ticket: live.ticket,
            talker: granted.talker.clone(),
            rate,
        };
        self.leaving.insert((until_ns, connection), leaving);
        let carrier = granted.ask.carrier;
        if let Some(place) = self.places.get_mut(&granted.talker) {
            place.sent.remove(&connection);
            place.sent_rate -= rate;
            place.leaving.0 += 1;
            place.leaving.1 += rate;
            self.sources
                .remove(carrier, place.number, granted.ask.source_port);
            self.by_request.remove(&(place.number, live.stored.request));
        }
        if let Some(place) = self.places.get_mut(&granted.ask.listener) {
            place.heard.remove(&connection);
            self.ports.remove(carrier, place.number, granted.ask.port);
        }
        self.numbers.remove(&granted.number);
        self.epoch += 1;
    }

    /// Frees what released connections held, as far as their last frames have arrived.
    pub(crate) fn settle(&mut self, now_ns: u64) {
        while let Some(first) = self.leaving.first_entry() {
            if first.key().0 > now_ns {
                break;
            }
            let over = first.remove();
            // The ticket is that of the admission, and in use as long as it is here.
            let _ = self.admission.remove(over.ticket);
            if let Some(place) = self.places.get_mut(&over.talker) {
                place.leaving.0 -= 1;
                place.leaving.1 -= over.rate;
            }
        }
    }

    /// Returns the moment at which the last frames of all released connections have arrived, ns.
    pub(crate) fn leaving_until_ns(&self) -> Option<u64> {
        self.leaving
            .last_key_value()
            .map(|((until_ns, _), _)| *until_ns)
    }

    /// Checks a question as if the last frames of all released connections had arrived. Nothing has changed afterwards.
    pub(crate) fn without_leaving<T>(&mut self, check: impl FnOnce(&mut Ledger) -> T) -> T {
        let mark = self.admission.mark();
        for leaving in self.leaving.values() {
            let _ = self.admission.remove(leaving.ticket);
        }
        let result = check(self);
        // The mark is the last open one: it was made above.
        let _ = self.admission.undo_to(mark);
        result
    }

    /// Returns the connections of a host with ids above `after`, at most `limit`, and true if there are more.
    pub(crate) fn list(&self, host: &str, after: u64, limit: usize) -> (Vec<Granted>, bool) {
        let Some(place) = self.places.get(host) else {
            return (Vec::new(), false);
        };
        let behind = (
            core::ops::Bound::Excluded(after),
            core::ops::Bound::Unbounded,
        );
        let sent = place.sent.range(behind).take(limit + 1);
        let heard = place.heard.range(behind).take(limit + 1);
        let mut ids: Vec<u64> = sent.chain(heard).copied().collect();
        ids.sort_unstable();
        let more = ids.len() > limit;
        ids.truncate(limit);
        let all = ids.iter().filter_map(|id| self.granted(*id)).cloned();
        (all.collect(), more)
    }

    /// Returns the terms of a connection's promise.
    pub(crate) fn explain(&mut self, granted: &Granted) -> Result<Vec<Hop>, Refused> {
        let way = self.way(&granted.talker, &granted.ask.listener)?;
        let network = &self.base.network;
        let mut hops = Vec::new();
        for pair in way.windows(2) {
            let (node, to) = (&pair[0], &pair[1]);
            let class = network.class(node, granted.ask.pcp);
            let link = network.links.iter().find(|link| {
                let [a, b] = &link.ends;
                (a == node && b == to) || (a == to && b == node)
            });
            hops.push(Hop {
                node: node.clone(),
                to: to.clone(),
                class,
                budget_ns: self.admission.budget_ns(node, to, class).unwrap_or(0),
                cable_ns: link.map_or(0, |link| link.cable_delay_ns),
            });
        }
        Ok(hops)
    }

    /// Returns the connections as a plan can be made of them. They are shared, not copied.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let live = self.live.iter();
        let connections = live.map(|(id, live)| (*id, Arc::clone(&live.stored)));
        Snapshot::new(Arc::clone(&self.base), self.epoch, connections.collect())
    }
}

pub(crate) const fn transport(carrier: Carrier) -> Transport {
    match carrier {
        Carrier::Rtdip => Transport::Rtdip,
        Carrier::Udp => Transport::Udp,
    }
}

/// Returns the contract of a connection.
pub(crate) fn contract(base: &Plan, ask: &Ask, wire_bytes: u64) -> Option<Contract> {
    // A byte per millisecond is 8000 bit/s.
    let rate = Ratio::whole(i128::from(ask.rate_bytes_per_ms) * 8_000);
    let burst = Ratio::whole(i128::from(ask.burst_bytes) * 8);
    let defaults = &base.network.defaults;
    Contract::new(
        rate,
        wire_bytes,
        defaults.shaping_interval_ns,
        defaults.tick_error_ns,
        ContractKind::Declared,
        burst,
    )
    .ok()
}
