//! One-shot reservations: a part of what is free, for a limited time, through the same admission as connections.
//!
//! A reservation counts from the arrival of its question until its lifetime is over. The agent counts from the moment
//! of sending, which is earlier, on its own clock. So the agent's use ends first, however long the answer takes, and
//! nothing has to be said at the end. Its last frames may be under way for one promise more, and so long it is held.

use std::collections::BTreeMap;
use std::sync::Arc;

use rtwire_plan::admission::{Offer, Route, Ticket};
use rtwire_plan::{Contract, ContractKind, Ratio};

use crate::division::{Demand, max_min};
use crate::ledger::{Ledger, refused};
use crate::message::{Reason, Refused, Share};

/// The rules of one-shot reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareRules {
    /// The lifetime of a reservation, microseconds.
    pub lifetime_us: u32,
    /// The burst of each reservation on the wire, bytes.
    pub burst_bytes: u32,
    /// The part of each link that is never given away, thousandths.
    pub kept_permille: u32,
}

impl Default for ShareRules {
    /// Returns 100 ms, four full frames, 1 %.
    fn default() -> ShareRules {
        ShareRules {
            lifetime_us: 100_000,
            burst_bytes: 4 * 1542,
            kept_permille: 10,
        }
    }
}

/// A rate that an agent may still use, or whose last frames may be under way, until this moment.
#[derive(Clone, Copy, Debug)]
struct Held {
    rate: u64,
    until_ns: u64,
}

/// The best effort of one host to one listener.
#[derive(Debug)]
struct Sender {
    wanted: u64,
    /// The demand counts in the division until then, ns.
    wants_until_ns: u64,
    /// Grants that the agent may still use. The largest one is reserved.
    held: Vec<Held>,
    /// The session and sequence number of the question that was granted last.
    granted_by: (u64, u64),
    ticket: Option<Ticket>,
    reserved: u64,
    way: Vec<String>,
    route: Arc<Route>,
}

/// All one-shot reservations.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    rules: ShareRules,
    senders: BTreeMap<(String, String), Sender>,
    /// Links that are kept free for a connection that was refused because of reservations, until a moment, ns.
    claims: Vec<(Vec<(String, String)>, u64)>,
    /// The moment before which a host's refused connections keep nothing free again, ns.
    next_claim_ns: BTreeMap<String, u64>,
}

/// The pause between two claims of a host, in lifetimes. So a host that asks for connections and does not take them
/// cannot hold up the reservations of others for long.
const CLAIM_PAUSE: u64 = 20;

fn links(way: &[String]) -> impl Iterator<Item = (&str, &str)> {
    way.windows(2)
        .map(|pair| (pair[0].as_str(), pair[1].as_str()))
}

/// Returns the longest time that a frame of a sender's reservation is under way, ns.
fn under_way_ns(sender: &Sender, ledger: &mut Ledger) -> u64 {
    let ticket = sender.ticket;
    let promise_ns = ticket.and_then(|ticket| ledger.admission().promise_ns(ticket));
    promise_ns.unwrap_or(0)
}

impl Shares {
    pub(crate) fn new(rules: ShareRules) -> Shares {
        Shares {
            rules,
            ..Shares::default()
        }
    }

    fn lifetime_ns(&self) -> u64 {
        u64::from(self.rules.lifetime_us) * 1_000
    }

    fn offer(&self, rate: u64, smallest_wire_bytes: u64) -> Option<Offer> {
        let burst = Ratio::whole(i128::from(self.rules.burst_bytes) * 8);
        let rate = Ratio::whole(i128::from(rate) * 8_000);
        let contract = Contract::new(rate, 1542, 0, 0, ContractKind::Declared, burst).ok()?;
        let offer = Offer::new(&contract, 1542, 0).ok()?;
        Some(offer.with_smallest(smallest_wire_bytes))
    }

    /// Ends what is over, and reserves no more than agents may still use.
    pub(crate) fn expire(&mut self, now_ns: u64, ledger: &mut Ledger) {
        self.claims.retain(|(_, until_ns)| *until_ns > now_ns);
        let mut senders = std::mem::take(&mut self.senders);
        senders.retain(|_, sender| {
            sender.held.retain(|held| held.until_ns > now_ns);
            let most = sender.held.iter().map(|held| held.rate).max().unwrap_or(0);
            if most < sender.reserved {
                // Less than before always fits.
                let _ = self.reserve(sender, most, ledger);
            }
            sender.reserved > 0 || sender.wants_until_ns > now_ns
        });
        self.senders = senders;
    }

    /// Reserves this rate for a sender in place of its old one. Returns false, and keeps the old one, if it does not
    /// fit.
    fn reserve(&self, sender: &mut Sender, rate: u64, ledger: &mut Ledger) -> bool {
        let smallest = ledger.wire_bytes(0);
        let admission = ledger.admission();
        let done = match (sender.ticket, rate) {
            (Some(ticket), 0) => {
                sender.ticket = None;
                admission.remove(ticket).is_ok()
            }
            (None, 0) => true,
            (Some(ticket), _) => self
                .offer(rate, smallest)
                .is_some_and(|offer| admission.change(ticket, &offer, &sender.route).is_ok()),
            (None, _) => {
                let offer = self.offer(rate, smallest);
                sender.ticket = offer.and_then(|offer| admission.offer(&offer, &sender.route).ok());
                sender.ticket.is_some()
            }
        };
        if done {
            sender.reserved = rate;
        }
        done
    }

    /// Reserves the largest rate up to `most` that admission permits. Returns it.
    fn reserve_up_to(&self, sender: &mut Sender, most: u64, ledger: &mut Ledger) -> u64 {
        if most <= sender.reserved || self.reserve(sender, most, ledger) {
            return most;
        }
        let (mut low, mut high) = (sender.reserved, most);
        while high - low > (most / 64).max(1) {
            let middle = low + (high - low) / 2;
            if self.reserve(sender, middle, ledger) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Answers a question for a reservation. `asked_by` is its session and sequence number.
    pub(crate) fn ask(
        &mut self,
        now_ns: u64,
        asked_by: (u64, u64),
        host: &str,
        listener: &str,
        wanted: u32,
        ledger: &mut Ledger,
    ) -> Result<Share, Refused> {
        self.expire(now_ns, ledger);
        let key = (host.to_owned(), listener.to_owned());
        let mut share = Share {
            rate_bytes_per_ms: 0,
            burst_bytes: self.rules.burst_bytes,
            lifetime_us: self.rules.lifetime_us,
        };
        if wanted == 0 {
            // The agent has stopped before it said so. If it was delayed, a later question may have been granted since.
            let sender = self.senders.get_mut(&key);
            if let Some(sender) = sender.filter(|sender| sender.granted_by <= asked_by) {
                let until_ns = now_ns.saturating_add(under_way_ns(sender, ledger));
                sender.wants_until_ns = now_ns;
                for held in &mut sender.held {
                    held.until_ns = held.until_ns.min(until_ns);
                }
            }
            return Ok(share);
        }
        if !self.senders.contains_key(&key) {
            let way = ledger.way(host, listener)?;
            let route = ledger.route(host, listener)?;
            let sender = Sender {
                wanted: 0,
                wants_until_ns: 0,
                held: Vec::new(),
                granted_by: (0, 0),
                ticket: None,
                reserved: 0,
                way,
                route,
            };
            self.senders.insert(key.clone(), sender);
        }
        let lifetime_ns = self.lifetime_ns();
        if let Some(sender) = self.senders.get_mut(&key) {
            sender.wanted = u64::from(wanted);
            // A sender that goes on asks before its reservation ends.
            sender.wants_until_ns = now_ns + lifetime_ns;
        }
        let fair = self.fair(&key, now_ns, ledger);
        let Some(mut sender) = self.senders.remove(&key) else {
            return Ok(share);
        };
        let claimed = self.claims.iter().any(|(claimed, _)| {
            let mut own = links(&sender.way);
            own.any(|(a, b)| claimed.iter().any(|(c, d)| a == c && b == d))
        });
        let granted = if claimed {
            0
        } else {
            self.reserve_up_to(&mut sender, fair, ledger)
        };
        if granted > 0 {
            let under_way_ns = under_way_ns(&sender, ledger);
            sender.held.push(Held {
                rate: granted,
                until_ns: (now_ns + lifetime_ns).saturating_add(under_way_ns),
            });
            sender.granted_by = sender.granted_by.max(asked_by);
        }
        self.senders.insert(key, sender);
        if granted == 0 {
            let why = if claimed {
                "a connection waits for what reservations hold"
            } else {
                "nothing is free now"
            };
            return Err(Refused {
                retry_after_us: self.rules.lifetime_us / 4,
                ..refused(Reason::Busy, why)
            });
        }
        share.rate_bytes_per_ms = u32::try_from(granted).unwrap_or(u32::MAX);
        Ok(share)
    }

    /// Returns a sender's fair part of what connections leave, as far as nobody else still holds it.
    fn fair(&self, of: &(String, String), now_ns: u64, ledger: &mut Ledger) -> u64 {
        let mut numbers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let (mut capacities, mut kept): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut lefts: Vec<u64> = Vec::new();
        let mut demands = Vec::new();
        let mut own = None;
        let rates: BTreeMap<(String, String), u64> = ledger
            .base()
            .network
            .links
            .iter()
            .flat_map(|link| {
                let [a, b] = link.ends.clone();
                [
                    ((a.clone(), b.clone()), link.rate_bps),
                    ((b, a), link.rate_bps),
                ]
            })
            .collect();
        for (key, sender) in &self.senders {
            let counts = sender.wants_until_ns > now_ns;
            let mut demand = Demand {
                wanted: sender.wanted,
                links: Vec::new(),
            };
            for (a, b) in links(&sender.way) {
                let number = *numbers.entry((a, b)).or_insert_with(|| {
                    let left = ledger.admission().rate_left_bps(a, b).unwrap_or(0);
                    let rate = rates.get(&(a.to_owned(), b.to_owned())).copied();
                    let permille = u64::from(self.rules.kept_permille);
                    kept.push(rate.unwrap_or(0) / 1_000 * permille / 8_000);
                    lefts.push(left / 8_000);
                    capacities.push(left / 8_000);
                    capacities.len() - 1
                });
                // Reservations are part of what is divided.
                capacities[number] += sender.reserved;
                demand.links.push(number);
            }
            if counts {
                if key == of {
                    own = Some(demands.len());
                }
                demands.push(demand);
            }
        }
        // What is free at this moment: its own reservation, and what nobody has.
        let reserved = self.senders.get(of).map_or(0, |own| own.reserved);
        let own_links = own.map(|own: usize| demands[own].links.clone());
        let room = own_links.into_iter().flatten().map(|link| {
            let (left, kept) = (lefts[link], kept[link]);
            reserved.saturating_add(left.saturating_sub(kept))
        });
        let room = room.min().unwrap_or(0);
        for (capacity, kept) in capacities.iter_mut().zip(kept) {
            *capacity = capacity.saturating_sub(kept);
        }
        let divided = max_min(&capacities, &demands);
        let fair = own.and_then(|own| divided.get(own).copied());
        fair.unwrap_or(0).min(room)
    }

    /// Returns the moment at which the last reservation ends that shares a link with this way, ns.
    pub(crate) fn in_the_way_until_ns(&self, way: &[String]) -> Option<u64> {
        let shares =
            |sender: &&Sender| links(&sender.way).any(|one| links(way).any(|other| one == other));
        let senders = self.senders.values().filter(shares);
        let held = senders.flat_map(|sender| sender.held.iter().map(|held| held.until_ns));
        held.max()
    }

    /// Checks a question again as if there were no reservations. Nothing has changed afterwards.
    pub(crate) fn without<T>(
        &mut self,
        ledger: &mut Ledger,
        check: impl FnOnce(&mut Ledger) -> T,
    ) -> T {
        let mark = ledger.admission().mark();
        for sender in self.senders.values() {
            if let Some(ticket) = sender.ticket {
                let _ = ledger.admission().remove(ticket);
            }
        }
        let result = check(ledger);
        // The mark is the last open one: it was made above.
        let _ = ledger.admission().undo_to(mark);
        result
    }

    /// Keeps the links of a way free of new reservations until a moment, ns, unless the host had that a short time ago.
    pub(crate) fn claim(&mut self, now_ns: u64, host: &str, way: &[String], until_ns: u64) {
        let next_ns = self.next_claim_ns.get(host).copied().unwrap_or(0);
        if now_ns < next_ns {
            return;
        }
        let pause_ns = CLAIM_PAUSE * self.lifetime_ns();
        let next_ns = until_ns.saturating_add(pause_ns);
        self.next_claim_ns.insert(host.to_owned(), next_ns);
        let links = links(way).map(|(a, b)| (a.to_owned(), b.to_owned()));
        self.claims.push((links.collect(), until_ns));
    }

    /// Returns the sum of what is reserved on the link from `a` to `b`, bytes per millisecond.
    pub(crate) fn reserved_on(&self, a: &str, b: &str) -> u64 {
        let on = self
            .senders
            .values()
            .filter(|sender| links(&sender.way).any(|link| link == (a, b)));
        on.map(|sender| sender.reserved).sum()
    }
}
