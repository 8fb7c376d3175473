//! A ledger is built from a plan and from what was stored.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rtwire_plan::admission::{Admission, Budgets, Ticket};
use rtwire_plan::{Plan, Transport};

use super::{Ledger, Live, Place};
use crate::ManagerError;
use crate::connection::{Carrier, Stored};
use crate::ports::Ports;
use crate::ways::Ways;

impl Ledger {
    /// Returns the ledger of a plan with these stored connections. `last_connection` and `epoch` are the largest ones
    /// that were stored; 0 for a new store.
    pub(crate) fn new(
        base: Arc<Plan>,
        budgets: &Budgets,
        stored: Vec<Stored>,
        last_connection: u64,
        epoch: u64,
    ) -> Result<Ledger, ManagerError> {
        let (admission, _) = Admission::with_streams(&base.network, budgets)?;
        let mut places = HashMap::new();
        for (number, host) in base.network.hosts.iter().enumerate() {
            let place = Place {
                number,
                link_bps: 0,
                planned: Vec::new(),
                sent: BTreeSet::new(),
                sent_rate: 0,
                leaving: (0, 0),
                heard: BTreeSet::new(),
            };
            places.insert(host.name.clone(), place);
        }
        for link in &base.network.links {
            for end in &link.ends {
                if let Some(place) = places.get_mut(end) {
                    place.link_bps = link.rate_bps;
                }
            }
        }
        let mut ledger = Ledger {
            admission,
            live: BTreeMap::new(),
            leaving: BTreeMap::new(),
            by_request: HashMap::new(),
            places,
            ways: Ways::new(&base.network),
            ports: Ports::default(),
            sources: Ports::default(),
            numbers: HashSet::new(),
            last_number: base.numbers_used,
            last_connection,
            epoch: epoch.max(base.epoch),
            base,
        };
        ledger.take_described()?;
        for one in stored {
            ledger.restore(one)?;
        }
        Ok(ledger)
    }

    /// Marks the identities of the description's own streams as used.
    fn take_described(&mut self) -> Result<(), ManagerError> {
        let base = Arc::clone(&self.base);
        for (index, (stream, planned)) in base.network.streams.iter().zip(&base.streams).enumerate()
        {
            if stream.name.starts_with(crate::connection::PREFIX) {
                return Err(ManagerError::NameTaken {
                    name: stream.name.clone(),
                });
            }
            let carrier = match stream.transport {
                Transport::Rtdip => Carrier::Rtdip,
                Transport::Udp => Carrier::Udp,
            };
            self.numbers.insert(planned.identity.number);
            let talker = self.places.get_mut(&stream.talker);
            if let Some((place, launch)) = talker.zip(planned.launch.as_ref()) {
                let (wire, late_ns) = (stream.wire_bytes, stream.contract.tick_error_ns);
                let slot = place.slot(wire, launch.period_ns, launch.offset_ns, late_ns);
                place.planned.push((slot, index));
            }
            for listener in &stream.listener_indices {
                self.ports.insert(carrier, *listener, planned.identity.port);
            }
        }
        for flow in &base.best_effort {
            self.numbers.insert(flow.identity.number);
            if let Some(place) = self.places.get(&flow.to) {
                self.ports
                    .insert(Carrier::Rtdip, place.number, flow.identity.port);
            }
        }
        Ok(())
    }

    fn restore(&mut self, stored: Stored) -> Result<(), ManagerError> {
        let granted = &stored.granted;
        let broken = |why: String| ManagerError::Restore {
            connection: granted.connection,
            why,
        };
        let known = |name: &str| self.places.contains_key(name);
        if !known(&granted.talker) || !known(&granted.ask.listener) {
            return Err(broken("its hosts are not in the plan".to_owned()));
        }
        let route = self
            .route(&granted.talker, &granted.ask.listener)
            .map_err(|no| broken(no.text))?;
        let offer = self.offer_of(&granted.ask).map_err(|no| broken(no.text))?;
        let ticket = self
            .admission
            .offer(&offer, &route)
            .map_err(|no| broken(no.to_string()))?;
        if self.admission.promise_ns(ticket) != Some(granted.promise_ns) {
            return Err(broken("its promise is another one now".to_owned()));
        }
        self.enter(Arc::new(stored), ticket);
        Ok(())
    }

    pub(super) fn enter(&mut self, stored: Arc<Stored>, ticket: Ticket) {
        let granted = &stored.granted;
        let (id, carrier) = (granted.connection, granted.ask.carrier);
        if let Some(place) = self.places.get_mut(&granted.talker) {
            place.sent.insert(id);
            place.sent_rate += u64::from(granted.ask.rate_bytes_per_ms);
            self.sources
                .insert(carrier, place.number, granted.ask.source_port);
            self.by_request.insert((place.number, stored.request), id);
        }
        if let Some(place) = self.places.get_mut(&granted.ask.listener) {
            place.heard.insert(id);
            self.ports.insert(carrier, place.number, granted.ask.port);
        }
        self.numbers.insert(granted.number);
        self.last_number = granted.number;
        self.last_connection = self.last_connection.max(id);
        self.epoch = self.epoch.max(granted.epoch);
        self.live.insert(id, Live { stored, ticket });
    }
}
