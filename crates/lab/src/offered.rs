//! The evidence on what was offered: each talker's contract, its launch times, and the load of best effort.

use std::collections::{BTreeMap, BTreeSet};

use rtwire_measure::verdict::{
    PortId, StallLine, TalkerEvidence, excess_bits, unexplained_excess_bits,
};
use rtwire_plan::{BestEffort, Isolation, Stream};
use rtwire_session::outcome::TalkerResult;
use rtwire_session::streams::{frames_in, frames_planned};

use crate::evidence::{Collected, part, ports_of};
use crate::held_back::receivers;
use crate::tasks;

impl Collected<'_> {
    pub(crate) fn talker_evidence(
        &self,
        index: usize,
        stream: &Stream,
        result: &TalkerResult,
    ) -> TalkerEvidence {
        let contract = &stream.contract;
        let (num, den) = (part(contract.rate.num()), part(contract.rate.den()));
        let terms = Terms {
            rate: (num, den),
            burst_bits: contract.burst_bits,
            tolerance_bits: bits_in(num, den, self.calibrated.handover_ns),
            frame_bits: stream.wire_bytes * 8,
        };
        // A talker whose shaper is off has no contract. So what it sends explains no delay.
        let excess = match stream.shaped {
            true => self.excess(&[index], &terms, &[result]),
            false => (0, 0),
        };
        TalkerEvidence {
            stream: stream.name.clone(),
            ports: distinct(stream.routes.iter().flat_map(|route| ports_of(route))),
            rate_bps: terms.rate.0.div_ceil(terms.rate.1.max(1)),
            tick_error_declared_ns: contract.tick_error_ns,
            tick_overshoot_max_ns: latest(result),
            shaper_caps_burst: stream.shaped,
            contract_excess_bits: Some(excess.0),
            unexplained_excess_bits: excess.1,
            best_effort: false,
            frames_off_launch: self.off_launch(index, stream),
            frames_planned: frames_planned(stream, self.duration_ns),
            frames_sent: result.frames_sent,
        }
    }

    /// Returns the evidence on best effort, one for each receiver: a talker with a contract and an offered load.
    ///
    /// Where a manager divides what is free, there is none: a host's allowance changes from moment to moment, and its agent
    /// keeps it. What came of it is in the exact delays of the streams, and in the ports.
    pub(crate) fn best_effort_evidence(&self) -> Vec<TalkerEvidence> {
        if self.network.manager_host.is_some() {
            return Vec::new();
        }
        let excesses = self.allowance_excesses();
        let behind = self.network.streams.len()..;
        let flows = behind.zip(&self.plan.best_effort);
        flows
            .filter_map(|(index, flow)| {
                let mut allowances = self.network.best_effort.iter();
                let allowance = allowances.find(|one| one.name == flow.name)?;
                let route = tasks::best_effort_route(self.network, flow)?;
                let excess = excesses.get(flow.name.as_str()).copied();
                let excess = excess.unwrap_or_default();
                Some(self.receiver_evidence(index, allowance, (&flow.to, route), excess))
            })
            .collect()
    }

    /// Returns the excess of each allowance. It is for all receivers together: when a stall holds up the turns of several,
    /// each of them is within it, and all of them are not.
    fn allowance_excesses(&self) -> BTreeMap<&str, (u64, u64)> {
        let of_allowance = |(name, flows): (&'_ str, Vec<usize>)| {
            let mut allowances = self.network.best_effort.iter();
            let allowance = allowances.find(|one| one.name == name)?;
            let (num, den) = (part(allowance.rate.num()), part(allowance.rate.den()));
            let late_ns = self.network.defaults.tick_error_ns + self.calibrated.handover_ns;
            let terms = Terms {
                rate: (num, den),
                burst_bits: part(allowance.burst.ceil()),
                tolerance_bits: bits_in(num, den, late_ns),
                frame_bits: allowance.wire_bytes * 8,
            };
            let results = flows.iter();
            let results = results.filter_map(|&flow| self.talker(flow, &allowance.host));
            let results: Vec<&TalkerResult> = results.collect();
            Some((
                allowance.name.as_str(),
                self.excess(&flows, &terms, &results),
            ))
        };
        let all = receivers(self.network, self.plan);
        all.into_iter().filter_map(of_allowance).collect()
    }

    fn receiver_evidence(
        &self,
        index: usize,
        allowance: &BestEffort,
        (to, route): (&str, &[String]),
        excess: (u64, u64),
    ) -> TalkerEvidence {
        let share = allowance.to.len().max(1) as u64;
        let none = TalkerResult::default();
        let result = self.talker(index, &allowance.host).unwrap_or(&none);
        let rate = allowance.rate;
        let (num, den) = (part(rate.num()), part(rate.den()));
        TalkerEvidence {
            stream: format!("{} to {to}", allowance.name),
            ports: ports_of(route),
            rate_bps: num.div_ceil(den.saturating_mul(share).max(1)),
            tick_error_declared_ns: self.network.defaults.tick_error_ns,
            tick_overshoot_max_ns: latest(result),
            shaper_caps_burst: true,
            contract_excess_bits: Some(excess.0),
            unexplained_excess_bits: excess.1,
            best_effort: true,
            frames_off_launch: 0,
            frames_planned: frames_in(rate, allowance.wire_bytes, self.duration_ns) / share,
            frames_sent: result.frames_sent,
        }
    }

    /// Returns the number of frames that departed at another time than their launch time, by more than the clocks' error.
    fn off_launch(&self, flow: usize, stream: &Stream) -> u64 {
        let mut planned = self.plan.streams.iter();
        let planned = planned.find(|one| one.name == stream.name);
        let Some(launch) = planned.and_then(|one| one.launch.as_ref()) else {
            return 0;
        };
        let error_ns = self.network.schedule.clock_error_ns;
        let (offset_ns, period_ns) = (launch.offset_ns, launch.period_ns.max(1));
        let off = |at_ns: &&u64| {
            let after_ns = (**at_ns + period_ns - offset_ns % period_ns) % period_ns;
            after_ns.min(period_ns - after_ns) > error_ns
        };
        let departures = self.exact.departures_of(flow);
        let skipped = match (self.network.schedule.isolation, &departures[..]) {
            // Each frame of the others needs this talker's frame before it.
            (Isolation::Frames, [first, .., last]) => {
                let launches = (last - first + period_ns / 2) / period_ns + 1;
                launches.saturating_sub(departures.len() as u64)
            }
            _ => 0,
        };
        departures.iter().filter(off).count() as u64 + skipped
    }

    /// Returns the number of bits of flows beyond the contract that they have together, and the number of these that no stall
    /// explains.
    fn excess(&self, flows: &[usize], terms: &Terms, results: &[&TalkerResult]) -> (u64, u64) {
        let departures = flows.iter().map(|&flow| self.exact.departures_of(flow));
        let departures = in_order(departures);
        let frames = || departures.iter().map(|&at_ns| (at_ns, terms.frame_bits));
        let (num, den) = terms.rate;
        let excess = excess_bits(frames(), num, den, terms.burst_bits);
        if excess == 0 {
            return (0, 0);
        }
        // One frame more: a stamp can be late by a whole interval, but a talker that sends too much goes on doing so.
        let burst_bits = terms.burst_bits + terms.tolerance_bits + terms.frame_bits;
        let own = results.iter().flat_map(|result| &result.stalls);
        let own = own.map(|stall| (stall.due_ns, stall.woke_ns));
        let record = self.noise.stall_record();
        let stalls = StallLine::new(record.possible().chain(own));
        let slack_ns = self.calibrated.handover_ns;
        let unexplained =
            unexplained_excess_bits(frames(), num, den, burst_bits, &stalls, slack_ns);
        (excess, unexplained)
    }
}

/// The contract of a flow on the wire.
struct Terms {
    /// bit/s, as a ratio.
    rate: (u64, u64),
    burst_bits: u64,
    /// Bits beyond the burst that may be due to a stamp, late by what no stall record shows. For best effort also to a
    /// tick late by the declared error, which a stream's burst contains.
    tolerance_bits: u64,
    frame_bits: u64,
}

/// Returns the number of bits at a rate in a time, rounded up.
fn bits_in(num: u64, den: u64, ns: u64) -> u64 {
    let bits = u128::from(num) * u128::from(ns);
    let bits = bits.div_ceil(u128::from(den.max(1)) * 1_000_000_000);
    u64::try_from(bits).unwrap_or(u64::MAX)
}

/// Returns the departures of several flows in order of time.
fn in_order(flows: impl Iterator<Item = Vec<u64>>) -> Vec<u64> {
    let mut all: Vec<u64> = flows.flatten().collect();
    all.sort_unstable();
    all
}

fn latest(result: &TalkerResult) -> u64 {
    result
        .overshoots_ns
        .iter()
        .copied()
        .max()
        .unwrap_or(0)
        .into()
}

fn distinct(ports: impl Iterator<Item = PortId>) -> Vec<PortId> {
    ports.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of two frames, three receivers, a turn each ms: a stall of two turns brings three frames at once.
    #[test]
    fn receivers_that_are_each_within_their_allowance_can_exceed_it_together() {
        const MS: u64 = 1_000_000;
        let receivers = [vec![MS, 6 * MS], vec![4 * MS], vec![4 * MS]];
        let excess = |departures: &[u64]| {
            let frames = departures.iter().map(|&at_ns| (at_ns, 1_000));
            excess_bits(frames, 1_000_000, 1, 2_000)
        };
        assert!(receivers.iter().all(|one| excess(one) == 0));
        let held_up = [vec![MS, 4 * MS], vec![4 * MS], vec![4 * MS]];
        assert!(held_up.iter().all(|one| excess(one) == 0));
        assert_eq!(excess(&in_order(receivers.into_iter())), 0);
        assert_eq!(excess(&in_order(held_up.into_iter())), 1_000);
    }
}
