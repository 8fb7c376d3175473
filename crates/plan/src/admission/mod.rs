//! Streams that come and go while the network runs.
//!
//! Each class of each port has a fixed *budget*. No frame of the class takes longer through the port, whichever
//! streams are admitted. A stream is admitted if every port on its route still keeps its budgets with it. No other
//! port and no earlier promise is touched. The check takes a few sums for each hop, whatever the number of streams.
//!
//! ```text
//! Network, Budgets -> Admission -- offer(Offer, Route) --> Ticket, or Denied
//!                         |------- remove, change(Ticket)
//!                         |------- mark, undo_to(Mark)     what-if, exact
//!                         `------- refine()                bounds below the budgets
//! ```
//!
//! The budgets hold on loops too. Take the first instant at which some frame exceeds a budget. All frames before it
//! kept theirs, so everything arrived at that port within the checked contracts. The check then says that the frame is
//! in time, which is a contradiction. `docs/bounds.md` has the condition that is checked.
//!
//! All sums are whole numbers. So the removal of a stream restores exactly the sums from before it came.
//!
//! ```
//! use rtwire_plan::admission::{Admission, Budgets, Offer};
//!
//! let network = rtwire_plan::read(include_str!("../../../../examples/line.toml"), "line.toml", &[])?;
//! let plan = rtwire_plan::plan(&network, &Default::default())?;
//! let mut admission = Admission::new(&network, &Budgets::around(&plan, 2_000))?;
//! let stream = &network.streams[0];
//! let route = admission.route(&stream.routes)?;
//! // Another one like it: is there room, and is it in time?
//! match admission.offer(&Offer::of(stream)?, &route) {
//!     Ok(ticket) => admission.remove(ticket)?,
//!     Err(denied) => println!("{denied}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: FIFO and strict priority. Ports with credit shapers, regulators or gates are refused. An offer or a removal
//! takes no lock and makes no system call. But memory grows with the number of streams, so they are not for a
//! real-time loop.

mod build;
mod check;
mod journal;
mod offer;
mod refine;
#[cfg(test)]
mod tests;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use check::{Crossing, Delta, Label, Port, PortClass, Sum};
pub use journal::Mark;
use journal::Undo;
pub use refine::Refined;
pub use types::{AdmissionError, Budgets, Denied, Offer, Route, Ticket};
use types::{Pool, Record};

/// The admitted streams of a network, as the sums that decide.
#[derive(Clone, Debug)]
pub struct Admission {
    ports: Vec<Port>,
    labels: Vec<Label>,
    /// The traffic and the budget of each class of each port, by [`Port::first_class`].
    classes: Vec<PortClass>,
    /// The traffic over each input of each port, by class, by [`Port::first_cell`].
    cells: Vec<Sum>,
    pools: Vec<Pool>,
    /// The numbers of ports, by the node and then by its neighbour.
    numbers: HashMap<String, HashMap<String, u32>>,
    largest_frame_bits: u64,
    foreign_frame_bits: u64,
    smallest_frame_bits: u64,
    /// The largest excess of a clock's rate, 2^-32.
    drift: u64,
    streams: Vec<Option<Record>>,
    next_generation: u64,
    free: Vec<u32>,
    admitted: usize,
    journal: Vec<Undo>,
    marks: usize,
    /// Memory that is kept between decisions, so that no decision allocates.
    scratch: Vec<Delta>,
    crossings: Vec<Crossing>,
}

impl Admission {
    /// Returns the number of admitted streams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.admitted
    }

    /// True if no stream is admitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.admitted == 0
    }

    /// Returns the number of ports: two for each link.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Returns the route along these nodes: one list for each listener, starting at the talker.
    ///
    /// # Errors
    /// [`AdmissionError`] if no link joins two neighbours of a list, or the lists begin at different nodes.
    pub fn route(&self, ways: &[Vec<String>]) -> Result<Arc<Route>, AdmissionError> {
        let mut hops: Vec<types::RouteHop> = Vec::new();
        let mut ends = Vec::new();
        for way in ways {
            if way.first() != ways.first().and_then(|first| first.first()) {
                return Err(AdmissionError::NoRoute {
                    what: "the ways begin at different hosts".to_owned(),
                });
            }
            let mut before = types::NONE;
            for pair in way.windows(2) {
                let Some(port) = self.port_number(&pair[0], &pair[1]) else {
                    return Err(AdmissionError::NoRoute {
                        what: format!("there is no link from \"{}\" to \"{}\"", pair[0], pair[1]),
                    });
                };
                let known = hops
                    .iter()
                    .position(|hop| hop.port == port && hop.before == before);
                before = match known {
                    Some(at) => types::short(at)?,
                    None if hops.iter().any(|hop| hop.port == port) => {
                        return Err(AdmissionError::NoRoute {
                            what: format!(
                                "the ways part and come together again at \"{}\"",
                                pair[0]
                            ),
                        });
                    }
                    None => {
                        hops.push(types::RouteHop {
                            port,
                            cell: 0,
                            before,
                        });
                        types::short(hops.len() - 1)?
                    }
                };
            }
            ends.push(before);
        }
        Route::new(self, hops, ends).map(Arc::new)
    }

    fn port_number(&self, from: &str, to: &str) -> Option<u32> {
        self.numbers.get(from)?.get(to).copied()
    }

    /// Returns the budget of a class at the port of `from` towards `to`, nanoseconds.
    #[must_use]
    pub fn budget_ns(&self, from: &str, to: &str, class: u8) -> Option<u64> {
        let port = &self.ports[self.port_number(from, to)? as usize];
        (class < port.classes).then(|| self.class(port, class).budget_ns)
    }

    /// Returns the rate that the admitted streams leave of the link from `from` to `to`, bit/s, rounded down.
    #[must_use]
    pub fn rate_left_bps(&self, from: &str, to: &str) -> Option<u64> {
        let port = &self.ports[self.port_number(from, to)? as usize];
        let classes = (0..port.classes).map(|class| self.class(port, class).total.rate);
        let used = classes.fold(0_u64, u64::saturating_add);
        Some(port.rate.saturating_sub(used) >> types::RATE_BITS)
    }

    /// Returns the delay promised to an admitted stream at its latest listener, nanoseconds. `None` if the ticket is
    /// not valid.
    #[must_use]
    pub fn promise_ns(&self, ticket: Ticket) -> Option<u64> {
        let record = self.record(ticket)?;
        (0..record.route.ends.len())
            .filter_map(|listener| self.promise_at(record, listener))
            .max()
    }

    /// Returns the delay promised at one listener, nanoseconds. Listeners have the order of the route's lists.
    #[must_use]
    pub fn promise_to_ns(&self, ticket: Ticket, listener: usize) -> Option<u64> {
        self.promise_at(self.record(ticket)?, listener)
    }

    fn promise_at(&self, record: &Record, listener: usize) -> Option<u64> {
        self.along(
            record.offer.pcp,
            &record.route,
            listener,
            |number, class| self.class(&self.ports[number], class).budget_ns,
        )
    }

    /// Returns the sum of `delay_ns` over the ports to a listener, plus the cables' delays.
    fn along(
        &self,
        pcp: u8,
        route: &Route,
        listener: usize,
        delay_ns: impl Fn(usize, u8) -> u64,
    ) -> Option<u64> {
        let mut at = *route.ends.get(listener)?;
        let mut total = 0_u64;
        while at != types::NONE {
            let hop = route.hops[usize::from(at)];
            let port = &self.ports[hop.port as usize];
            let delay_ns = delay_ns(hop.port as usize, port.class(pcp));
            total = total
                .saturating_add(delay_ns.saturating_add(self.labels[hop.port as usize].cable_ns));
            at = hop.before;
        }
        Some(total)
    }

    fn record(&self, ticket: Ticket) -> Option<&Record> {
        let record = self.streams.get(ticket.slot as usize)?.as_ref()?;
        (record.generation == ticket.generation).then_some(record)
    }

    fn class(&self, port: &Port, class: u8) -> &PortClass {
        &self.classes[port.first_class as usize + usize::from(class)]
    }
}
