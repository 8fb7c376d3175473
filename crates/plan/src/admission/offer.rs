//! Adds, removes and changes streams.

use std::sync::Arc;

use super::check::{Delta, Sum, bits_up};
use super::journal::Undo;
use super::types::{AdmissionError, Denied, NONE, Offer, Record, Route, Ticket};
use super::{Admission, types::LEAST_BITS};

impl Admission {
    /// Admits a stream, or returns the reason against it and changes nothing.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn offer(&mut self, offer: &Offer, route: &Arc<Route>) -> Result<Ticket, Denied> {
        self.admit(offer, route)?;
        let generation = self.next_generation;
        self.next_generation += 1;
        let record = Record {
            offer: *offer,
            route: Arc::clone(route),
            generation,
        };
        let recycled = self.free.pop();
        let slot = match recycled {
            Some(slot) => {
                self.streams[slot as usize] = Some(record);
                slot
            }
            None => {
                let slot =
                    u32::try_from(self.streams.len()).map_err(|_| AdmissionError::Range {
                        what: "the number of streams".to_owned(),
                    })?;
                self.streams.push(Some(record));
                slot
            }
        };
        self.admitted += 1;
        let ticket = Ticket { slot, generation };
        self.note(|| Undo::Added(ticket, recycled.is_none()));
        Ok(ticket)
    }

    /// Removes a stream. Its resources are free again, exactly.
    ///
    /// # Errors
    /// [`AdmissionError::NoTicket`].
    pub fn remove(&mut self, ticket: Ticket) -> Result<(), AdmissionError> {
        let record = self.take_out(ticket)?;
        self.note(|| Undo::Removed(ticket, record));
        Ok(())
    }

    /// Replaces the contract, the route or both of an admitted stream. If that is denied, the old ones stay.
    ///
    /// # Errors
    /// [`Denied`]; [`Denied::Faulty`] also if there is no such stream.
    pub fn change(
        &mut self,
        ticket: Ticket,
        offer: &Offer,
        route: &Arc<Route>,
    ) -> Result<(), Denied> {
        let old = self.record(ticket).ok_or(AdmissionError::NoTicket)?.clone();
        self.apply(&old, false);
        if let Err(denied) = self.admit(offer, route) {
            // What was there a moment ago fits again: sums are exact.
            self.apply(&old, true);
            return Err(denied);
        }
        self.streams[ticket.slot as usize] = Some(Record {
            offer: *offer,
            route: Arc::clone(route),
            generation: ticket.generation,
        });
        self.note(|| Undo::Changed(ticket, old));
        Ok(())
    }

    /// Checks that a stream would be admitted, and changes nothing.
    ///
    /// # Errors
    /// [`Denied`], the same as from [`Admission::offer`].
    pub fn would_admit(&mut self, offer: &Offer, route: &Arc<Route>) -> Result<(), Denied> {
        self.examine(offer, route)
    }

    pub(super) fn take_out(&mut self, ticket: Ticket) -> Result<Record, AdmissionError> {
        self.record(ticket).ok_or(AdmissionError::NoTicket)?;
        let slot = ticket.slot as usize;
        let record = self.streams[slot].take().ok_or(AdmissionError::NoTicket)?;
        self.apply(&record, false);
        self.free.push(ticket.slot);
        self.admitted -= 1;
        Ok(record)
    }

    /// Checks all hops, then adds the stream's sums. The checks change nothing.
    fn admit(&mut self, offer: &Offer, route: &Arc<Route>) -> Result<(), Denied> {
        self.examine(offer, route)?;
        for at in 0..self.scratch.len() {
            let delta = self.scratch[at];
            self.add(route.hops[at].port as usize, &delta, true);
        }
        Ok(())
    }

    fn examine(&mut self, offer: &Offer, route: &Arc<Route>) -> Result<(), Denied> {
        offer.check()?;
        if u64::from(offer.frame_bits) > self.largest_frame_bits {
            return Err(Denied::FrameTooLarge {
                frame_bits: offer.frame_bits.into(),
                largest_bits: self.largest_frame_bits,
            });
        }
        if let Some(deadline_ns) = offer.deadline_ns {
            let latest = (0..route.ends.len()).filter_map(|end| {
                self.along(offer.pcp, route, end, |number, class| {
                    self.class(&self.ports[number], class).budget_ns
                })
            });
            let promise_ns = latest.max().unwrap_or(0);
            if promise_ns > deadline_ns {
                return Err(Denied::Deadline {
                    promise_ns,
                    deadline_ns,
                });
            }
        }
        self.scratch.clear();
        for at in 0..route.hops.len() {
            let mut delta = self.delta(offer, route, at);
            let port = route.hops[at].port as usize;
            if let Err(no) = self.check(port, &mut delta) {
                return Err(self.denied(port, &no));
            }
            self.scratch.push(delta);
        }
        Ok(())
    }

    /// Returns the traffic that a stream adds at hop `at`. The hops before it are in `scratch`.
    fn delta(&self, offer: &Offer, route: &Route, at: usize) -> Delta {
        let hop = route.hops[at];
        let port = &self.ports[hop.port as usize];
        let jitter = if hop.before == NONE {
            0
        } else {
            let before = &self.scratch[usize::from(hop.before)];
            let port = &self.ports[route.hops[usize::from(hop.before)].port as usize];
            before
                .jitter
                .saturating_add(self.class(port, before.class).budget)
                .saturating_sub(least(port, offer.smallest_bits))
        };
        let rate = self.drifted(offer.rate_1024);
        Delta {
            port: hop.port,
            class: port.class(offer.pcp),
            cell: route.hops[at].cell,
            sum: Sum {
                burst: offer
                    .burst_bits
                    .saturating_add(bits_up(rate, jitter.saturating_add(port.variation))),
                rate,
            },
            jitter,
            known: 0,
        }
    }

    /// Returns a rate as sent by a fast clock.
    pub(super) fn drifted(&self, rate: u64) -> u64 {
        // At most a tenth more.
        let more = (u128::from(rate) * u128::from(self.drift)).div_ceil(1 << 32);
        rate + u64::try_from(more).unwrap_or(0)
    }

    /// Adds a stream's sums at all its hops, or subtracts them, without a check.
    pub(super) fn apply(&mut self, record: &Record, more: bool) {
        self.scratch.clear();
        for at in 0..record.route.hops.len() {
            let delta = self.delta(&record.offer, &record.route, at);
            self.add(record.route.hops[at].port as usize, &delta, more);
            self.scratch.push(delta);
        }
    }

    fn add(&mut self, number: usize, delta: &Delta, more: bool) {
        let port = &self.ports[number];
        let class = usize::from(delta.class);
        let pool = port.pool;
        if more {
            let first = port.first_class as usize;
            for below in 0..=class {
                if delta.known & (1 << below) == 0 {
                    let known = &mut self.classes[first + below].known;
                    *known = known.with(delta.sum);
                }
            }
        }
        let total = &mut self.classes[port.first_class as usize + class].total;
        let cell = &mut self.cells[delta.cell as usize + class];
        // What is added has been checked against overflow, what is taken away was added before.
        for sum in [total, cell] {
            if more {
                sum.burst += delta.sum.burst;
                sum.rate += delta.sum.rate;
            } else {
                sum.burst -= delta.sum.burst;
                sum.rate -= delta.sum.rate;
            }
        }
        if pool != NONE {
            let used = &mut self.pools[usize::from(pool)].used_bits;
            if more {
                *used += delta.sum.burst;
            } else {
                *used -= delta.sum.burst;
            }
        }
    }
}

/// Returns the least time of a frame through a port, in 2^-40 s, rounded down.
pub(super) fn least(port: &super::check::Port, frame_bits: u32) -> u64 {
    let fine = u128::from(port.least_per_bit) * u128::from(frame_bits);
    u64::try_from(fine >> LEAST_BITS).unwrap_or(0)
}
