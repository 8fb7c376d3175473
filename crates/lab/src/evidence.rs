//! Turns the results of a run into evidence beside the plan.

use std::collections::BTreeMap;
use std::path::Path;

use rtwire_measure::verdict::{
    Evidence, PortEvidence, PortId, Rule, Sample, StreamEvidence, TalkerEvidence, excess_bits,
    hold_ns,
};
use rtwire_plan::{BestEffort, ContractKind, Network, Plan, PortPlan, Ratio, Stream};

use rtwire_session::outcome::{HostResult, ListenerResult, TalkerResult};
use rtwire_session::samples::{self, Arrival, SentStamp};
use rtwire_session::streams::frames_planned;

use crate::LabError;
use crate::fabric::{Fabric, PortIndex};
use crate::monitor::PortWatch;
use crate::ports::Field;

/// The collected results of a run.
pub(crate) struct Collected<'a> {
    pub(crate) network: &'a Network,
    /// The plan that the run is judged by, including the lab's own latencies.
    pub(crate) plan: &'a Plan,
    pub(crate) fabric: &'a Fabric,
    pub(crate) results: &'a BTreeMap<String, HostResult>,
    pub(crate) watches: Vec<PortWatch>,
    pub(crate) directory: &'a Path,
    /// Time during which the talkers really sent, ns; shorter than requested after Ctrl-C.
    pub(crate) duration_ns: u64,
    pub(crate) rule: Rule,
}

impl Collected<'_> {
    /// Returns the evidence for the verdict. The caller adds the stalls from the noise record.
    pub(crate) fn evidence(&self) -> Result<Evidence, LabError> {
        let mut streams = Vec::new();
        let mut talkers = Vec::new();
        for (index, stream) in self.network.streams.iter().enumerate() {
            let sent = samples::read_sent(&samples::sent_path(self.directory, index))?;
            if let Some(result) = self.talker(index, &stream.talker) {
                talkers.push(self.talker_evidence(stream, result, &sent));
            }
            for (way, listener) in stream.listeners.iter().enumerate() {
                streams.push(self.stream_evidence(index, stream, way, listener, &sent)?);
            }
        }
        Ok(Evidence {
            streams,
            ports: self.port_evidence(),
            talkers,
            stalls: rtwire_measure::noise::StallRecord::default(),
            rule: self.rule,
        })
    }

    pub(crate) fn talker(&self, stream: usize, host: &str) -> Option<&TalkerResult> {
        let talkers = &self.results.get(host)?.talkers;
        talkers.iter().find(|talker| talker.stream == stream)
    }

    pub(crate) fn listener(&self, stream: usize, host: &str) -> Option<&ListenerResult> {
        let listeners = &self.results.get(host)?.listeners;
        listeners.iter().find(|listener| listener.stream == stream)
    }

    fn stream_evidence(
        &self,
        index: usize,
        stream: &Stream,
        way: usize,
        listener: &str,
        sent: &[SentStamp],
    ) -> Result<StreamEvidence, LabError> {
        let frames_sent = self
            .talker(index, &stream.talker)
            .map_or(0, |talker| talker.frames_sent);
        let path = samples::arrivals_path(self.directory, index, listener);
        let arrivals = samples::read_arrivals(&path)?;
        // A sequence number that the talker never used belongs to another sender's frame.
        let own: Vec<Arrival> = arrivals
            .into_iter()
            .filter(|arrival| u64::from(arrival.sequence) < frames_sent)
            .collect();
        let transmission_ns = self.transmission_ns(stream, &stream.routes[way]);
        let samples = join(sent, &own, transmission_ns);
        // If a host's process ended, its received frames are unknown. The verdict sees them as its own loss, not the
        // network's.
        let result = self
            .listener(index, listener)
            .cloned()
            .unwrap_or_else(|| ListenerResult {
                socket_drops: frames_sent,
                ..ListenerResult::default()
            });
        let route = ports_of(&stream.routes[way]);
        let plans: Vec<&PortPlan> = route.iter().filter_map(|id| self.port_plan(id)).collect();
        let promise = self
            .plan
            .streams
            .iter()
            .find(|planned| planned.name == stream.name)
            .and_then(|planned| planned.promises.iter().find(|p| p.listener == listener))
            .and_then(|promise| promise.delay_ns);
        Ok(StreamEvidence {
            name: stream.name.clone(),
            listener: listener.to_owned(),
            promise_ns: promise,
            deadline_ns: stream.deadline_ns,
            published_max_ns: stream.published_delay_ns,
            frames_planned: frames_planned(stream, self.duration_ns),
            frames_sent,
            frames_received: result.frames_received,
            frames_overtaken: result.frames_overtaken,
            samples,
            frames_duplicated: result.frames_duplicated,
            frames_reordered: result.frames_reordered,
            listener_drops: result.socket_drops,
            link_rate_bps: plans
                .iter()
                .map(|plan| plan.link_rate_bps)
                .min()
                .unwrap_or(0),
            utilization_ppm: plans
                .iter()
                .map(|plan| ppm(plan.utilization))
                .max()
                .unwrap_or(0),
            hold_ns: route.iter().map(|id| self.hold_ns(id)).max().unwrap_or(0),
            unseen_ns: route.iter().map(|id| self.unseen_ns(stream, id)).sum(),
            route,
        })
    }

    /// Returns the total transmission time of the stream's frame over all links of its route, ns. An emulated link
    /// hands a frame over when its transmission begins. A store-and-forward network does so when the last bit has
    /// arrived.
    fn transmission_ns(&self, stream: &Stream, route: &[String]) -> u64 {
        let links = route
            .windows(2)
            .filter_map(|hop| self.network.link(&hop[0], &hop[1]));
        links
            .map(|link| {
                let ns = u128::from(stream.wire_bytes) * 8_000_000_000
                    / u128::from(link.rate_bps.max(1));
                u64::try_from(ns).unwrap_or(u64::MAX)
            })
            .sum()
    }

    /// Returns the most by which a real port could have delayed a frame of this stream more than the emulated one, ns.
    ///
    /// An emulated link hands a frame over when its transmission begins. A larger frame in front then reaches the next
    /// port too early by its own transmission time. Only this frame's own transmission time is added to its delay.
    /// After a pause the rate limiter may also be ahead of a real link; the kernel program has recorded the lead.
    fn unseen_ns(&self, stream: &Stream, id: &PortId) -> u64 {
        let Some(plan) = self.port_plan(id) else {
            return 0;
        };
        let (streams, others) = self.passing(id);
        let sizes = streams
            .map(|s| s.wire_bytes)
            .chain(others.map(|o| o.wire_bytes));
        let larger = sizes.max().unwrap_or(0).saturating_sub(stream.wire_bytes);
        let ns = u128::from(larger) * 8_000_000_000 / u128::from(plan.link_rate_bps.max(1));
        let early = self.port_index(plan).map_or(0, |port| {
            self.fabric.records.get(port, Field::EarlinessMaxNs)
        });
        u64::try_from(ns).unwrap_or(u64::MAX).saturating_add(early)
    }

    fn talker_evidence(
        &self,
        stream: &Stream,
        result: &TalkerResult,
        sent: &[SentStamp],
    ) -> TalkerEvidence {
        let mut ports: Vec<PortId> = stream.routes.iter().flat_map(|r| ports_of(r)).collect();
        ports.sort();
        ports.dedup();
        let contract = &stream.contract;
        let mut stamps: Vec<u64> = sent.iter().map(|stamp| stamp.stamp_ns).collect();
        stamps.sort_unstable();
        let bits = stream.wire_bytes * 8;
        let (num, den) = (part(contract.rate.num()), part(contract.rate.den()));
        let excess = excess_bits(
            stamps.into_iter().map(|at| (at, bits)),
            num,
            den,
            contract.burst_bits,
        );
        TalkerEvidence {
            stream: stream.name.clone(),
            ports,
            rate_bps: num.div_ceil(den.max(1)),
            tick_error_declared_ns: contract.tick_error_ns,
            tick_overshoot_max_ns: result
                .overshoots_ns
                .iter()
                .copied()
                .max()
                .unwrap_or(0)
                .into(),
            shaper_caps_burst: stream.shaped,
            // A talker whose shaper is off has no contract. So what it sends explains no delay.
            contract_excess_bits: Some(if stream.shaped { excess } else { 0 }),
        }
    }

    fn port_plan(&self, id: &PortId) -> Option<&PortPlan> {
        let mut ports = self.plan.ports.iter();
        ports.find(|plan| plan.node == id.node && plan.port == id.port)
    }

    /// Returns the streams and the best-effort allowances that pass a port.
    fn passing(
        &self,
        id: &PortId,
    ) -> (
        impl Iterator<Item = &Stream>,
        impl Iterator<Item = &BestEffort>,
    ) {
        let passes =
            |routes: &[Vec<String>]| routes.iter().any(|route| ports_of(route).contains(id));
        let streams = self.network.streams.iter();
        let others = self.network.best_effort.iter();
        (
            streams.filter(move |stream| passes(&stream.routes)),
            others.filter(move |other| passes(&other.routes)),
        )
    }

    /// Returns the longest time for which one contract through this port may send at the link's rate, ns.
    fn hold_ns(&self, id: &PortId) -> u64 {
        let Some(rate) = self.port_plan(id).map(|plan| plan.link_rate_bps) else {
            return 0;
        };
        let (streams, others) = self.passing(id);
        let streams = streams.map(|s| (s.contract.burst_bits, part(s.contract.rate.ceil())));
        let others = others.map(|other| (part(other.burst.ceil()), part(other.rate.ceil())));
        hold_ns(rate, streams.chain(others))
    }

    fn port_evidence(&self) -> Vec<PortEvidence> {
        let mut evidence = Vec::new();
        for plan in &self.plan.ports {
            if plan.classes.is_empty() {
                continue;
            }
            let Some(port) = self.port_index(plan) else {
                continue;
            };
            let records = &self.fabric.records;
            let id = PortId::new(&plan.node, &plan.port);
            let watch = self.watches.get(port).cloned().unwrap_or_default();
            evidence.push(PortEvidence {
                hold_ns: self.hold_ns(&id),
                id,
                link_rate_bps: plan.link_rate_bps,
                promised_backlog_bytes: plan.backlog_bytes,
                buffer_bytes: plan.buffer_bytes,
                max_backlog_bytes: Some(records.get(port, Field::MaxBytes)),
                frames_dropped: records.get(port, Field::DroppedFrames),
                drop_windows: watch.drops,
                backlog: watch.backlog,
                utilization_ppm: ppm(plan.utilization),
                utilization_percent: percent(
                    records.get(port, Field::WireBytes),
                    plan.link_rate_bps,
                    self.duration_ns,
                ),
            });
        }
        evidence
    }

    fn port_index(&self, plan: &PortPlan) -> Option<PortIndex> {
        let node = crate::blueprint::node_index(self.network, &plan.node)?;
        let neighbour = crate::blueprint::node_index(self.network, &plan.port)?;
        self.fabric.blueprint.port(node, neighbour)
    }
}

/// Returns a short description of a stream for the report.
pub(crate) fn describe(stream: &Stream) -> String {
    let ms = |ns: u64| rtwire_measure::units::duration(ns);
    if !stream.shaped {
        return "shaper off".to_owned();
    }
    match stream.contract.kind {
        ContractKind::Interval { interval_ns } => {
            format!("{} B every {}", stream.frame_bytes, ms(interval_ns))
        }
        ContractKind::Rate => {
            // The description states frame bytes, the contract counts bytes on the wire.
            let wire = part(stream.contract.rate.ceil());
            let stated = u128::from(wire) * u128::from(stream.frame_bytes)
                / u128::from(stream.wire_bytes.max(1));
            format!(
                "{}, T_s {}",
                rtwire_measure::units::rate(u64::try_from(stated).unwrap_or(u64::MAX)),
                ms(stream.contract.shaping_interval_ns)
            )
        }
        ContractKind::Declared => format!("burst {} bit", stream.contract.burst_bits),
    }
}

/// Returns one sample for each frame that arrived, at its first arrival plus `transmission_ns`.
fn join(sent: &[SentStamp], arrivals: &[Arrival], transmission_ns: u64) -> Vec<Sample> {
    let most = sent
        .iter()
        .map(|stamp| stamp.sequence)
        .chain(arrivals.iter().map(|a| a.sequence));
    let count = most.max().map_or(0, |most| most as usize + 1);
    let mut stamps: Vec<u64> = vec![0; count];
    for stamp in sent {
        stamps[stamp.sequence as usize] = stamp.stamp_ns;
    }
    let mut seen = vec![false; count];
    arrivals
        .iter()
        .filter(|arrival| !std::mem::replace(&mut seen[arrival.sequence as usize], true))
        .map(|arrival| Sample {
            seq: arrival.sequence,
            tx_ns: Some(stamps[arrival.sequence as usize]).filter(|&stamp| stamp != 0),
            rx_ns: arrival.stamp_ns.map(|stamp| stamp + transmission_ns),
            app_tx_ns: arrival.app_sent_ns,
            app_rx_ns: arrival.app_received_ns + transmission_ns,
        })
        .collect()
}

fn ports_of(route: &[String]) -> Vec<PortId> {
    route
        .windows(2)
        .map(|hop| PortId::new(&hop[0], &hop[1]))
        .collect()
}

fn part(value: i128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn ppm(ratio: Ratio) -> u32 {
    let num = u128::try_from(ratio.num()).unwrap_or(u128::MAX);
    let den = u128::try_from(ratio.den()).unwrap_or(1).max(1);
    u32::try_from(num.saturating_mul(1_000_000).div_ceil(den)).unwrap_or(u32::MAX)
}

#[allow(clippy::cast_precision_loss)] // shown to one decimal
fn percent(wire_bytes: u64, rate_bps: u64, duration_ns: u64) -> f64 {
    let room = rate_bps as f64 * duration_ns as f64 / 1e9;
    if room > 0.0 {
        wire_bytes as f64 * 800.0 / room
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(sequence: u32, at: u64) -> Arrival {
        Arrival {
            sequence,
            stamp_ns: Some(at),
            app_sent_ns: 1,
            app_received_ns: at + 1,
        }
    }

    #[test]
    fn stamps_and_arrivals_meet_by_number_and_the_first_arrival_counts() {
        let sent = [
            SentStamp {
                sequence: 1,
                stamp_ns: 10,
            },
            SentStamp {
                sequence: 0,
                stamp_ns: 5,
            },
        ];
        let arrivals = [
            arrival(1, 30),
            arrival(0, 40),
            arrival(1, 50),
            arrival(2, 60),
        ];
        let samples = join(&sent, &arrivals, 100);
        let delays: Vec<_> = samples
            .iter()
            .map(|s| (s.seq, s.network_delay_ns()))
            .collect();
        assert_eq!(delays, [(1, Some(120)), (0, Some(135)), (2, None)]);
    }
}
