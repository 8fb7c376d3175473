//! Streams that come and go while the network runs.
//!
//! Each class of each port has a fixed *budget*: no frame of the class takes longer
//! through the port, whoever else is admitted. A stream is admitted if every port on
//! its way keeps its budgets with it; no port elsewhere, and no promise given
//! before, is touched. That takes a few sums for each hop, however many streams
//! there are.
//!
//! ```text
//! Network, Budgets -> Admission -- offer(Offer, Route) --> Ticket, or Denied
//!                         |------- remove, change(Ticket)
//!                         |------- mark, undo_to(Mark)     what-if, exact
//!                         `------- refine()                bounds below the budgets
//! ```
//!
//! Why the budgets hold, on loops too: take the first instant at which some frame
//! exceeds a budget. All frames before kept theirs, so that everything arrived at
//! that port within the contracts that were checked, and the check says that the
//! frame is in time. `docs/bounds.md` has the condition that is checked.
//!
//! All sums are whole numbers, so that taking a stream out leaves exactly what was
//! there before it came.
//!
//! ```
//! use rtwire_plan::admission::{Admission, Budgets, Offer};
//!
//! let network = rtwire_plan::read(include_str!("../../../../examples/line.toml"), "line.toml", &[])?;
//! let plan = rtwire_plan::plan(&network, &Default::default())?;
//! let mut admission = Admission::new(&network, &Budgets::around(&plan, 1_500))?;
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
//! Limits: FIFO and strict priority; ports with credit shapers, regulators or gates
//! are refused. An offer or a removal takes no lock and makes no system call, but
//! memory grows with the number of streams: not for a real-time loop.

mod build;
mod check;
mod journal;
mod offer;
mod refine;
#[cfg(test)]
mod tests;
mod types;

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
    /// What each class of each port carries and may carry, by [`Port::first_class`].
    classes: Vec<PortClass>,
    /// What comes over each input of each port, by class, by [`Port::first_cell`].
    cells: Vec<Sum>,
    pools: Vec<Pool>,
    /// Names of nodes and the numbers of ports between neighbours.
    numbers: std::collections::HashMap<(String, String), u32>,
    largest_frame_bits: u64,
    foreign_frame_bits: u64,
    smallest_frame_bits: u64,
    /// By how much clocks may run fast, 2^-32.
    drift: u64,
    streams: Vec<Option<Record>>,
    next_generation: u64,
    free: Vec<u32>,
    admitted: usize,
    journal: Vec<Undo>,
    marks: usize,
    /// Kept from decision to decision, so that none allocates.
    scratch: Vec<Delta>,
    crossings: Vec<Crossing>,
}

impl Admission {
    /// How many streams are admitted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.admitted
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.admitted == 0
    }

    /// The number of ports: two for each link.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// The way along these nodes, one list for each listener, from the talker on.
    ///
    /// # Errors
    /// [`AdmissionError`] where two neighbours of the list are joined by no link, or the lists begin at different nodes.
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
                let key = (pair[0].clone(), pair[1].clone());
                let Some(port) = self.numbers.get(&key) else {
                    return Err(AdmissionError::NoRoute {
                        what: format!("there is no link from \"{}\" to \"{}\"", pair[0], pair[1]),
                    });
                };
                let known = hops
                    .iter()
                    .position(|hop| hop.port == *port && hop.before == before);
                before = match known {
                    Some(at) => types::short(at)?,
                    None if hops.iter().any(|hop| hop.port == *port) => {
                        return Err(AdmissionError::NoRoute {
                            what: format!(
                                "the ways part and come together again at \"{}\"",
                                pair[0]
                            ),
                        });
                    }
                    None => {
                        hops.push(types::RouteHop {
                            port: *port,
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

    /// The budget of a class at the port of `from` towards `to`, nanoseconds.
    #[must_use]
    pub fn budget_ns(&self, from: &str, to: &str, class: u8) -> Option<u64> {
        let port = *self.numbers.get(&(from.to_owned(), to.to_owned()))?;
        let port = &self.ports[port as usize];
        (class < port.classes).then(|| self.class(port, class).budget_ns)
    }

    /// What an admitted stream may rely on at its latest listener, nanoseconds; none where the ticket is not valid.
    #[must_use]
    pub fn promise_ns(&self, ticket: Ticket) -> Option<u64> {
        let record = self.record(ticket)?;
        (0..record.route.ends.len())
            .filter_map(|listener| self.promise_at(record, listener))
            .max()
    }

    /// The same for the listener of this number, in the order in which the route was given.
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

    /// The sum over the way to a listener of what `delay_ns` says of each port, and of the cables.
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
