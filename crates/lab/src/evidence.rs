//! Turns the results of a run into evidence beside the plan.

use std::collections::BTreeMap;
use std::path::Path;

use rtwire_measure::clock_steps::ClockStep;
use rtwire_measure::noise::NoiseRecord;
use rtwire_measure::verdict::{
    EmulatedStream, Emulation, Evidence, PortEvidence, PortId, Rule, Sample, StreamEvidence,
    hold_ns,
};
use rtwire_plan::{BestEffort, ContractKind, Network, Plan, PortPlan, Ratio, Stream};

use rtwire_session::outcome::{HostResult, ListenerResult, TalkerResult};
use rtwire_session::samples::{self, Arrival, SentStamp};
use rtwire_session::streams::frames_planned;

use crate::LabError;
use crate::calibrate::Calibrated;
use crate::events::Events;
use crate::fabric::{Fabric, PortIndex};
use crate::managed::added_backlog_bytes;
use crate::monitor::PortWatch;
use crate::ports::Field;
use crate::replayed::Exact;

/// The collected results of a run.
pub(crate) struct Collected<'a> {
    pub(crate) network: &'a Network,
    /// The description's own plan, by which the run is judged.
    pub(crate) plan: &'a Plan,
    pub(crate) fabric: &'a Fabric,
    pub(crate) calibrated: &'a Calibrated,
    pub(crate) events: &'a Events,
    pub(crate) noise: &'a NoiseRecord,
    pub(crate) exact: &'a Exact,
    pub(crate) interrupted: bool,
    pub(crate) clock_step: Option<ClockStep>,
    pub(crate) results: &'a BTreeMap<String, HostResult>,
    pub(crate) watches: Vec<PortWatch>,
    pub(crate) directory: &'a Path,
    /// Time during which the talkers really sent, ns; shorter than requested after Ctrl-C.
    pub(crate) duration_ns: u64,
    pub(crate) rule: Rule,
}

impl Collected<'_> {
    /// Returns the evidence for the verdict.
    pub(crate) fn evidence(&self) -> Result<Evidence, LabError> {
        let mut streams = Vec::new();
        let mut talkers = Vec::new();
        for (index, stream) in self.network.streams.iter().enumerate() {
            let sent = samples::read_sent(&samples::sent_path(self.directory, index))?;
            if let Some(result) = self.talker(index, &stream.talker) {
                talkers.push(self.talker_evidence(index, stream, result));
            }
            for (way, listener) in stream.listeners.iter().enumerate() {
                streams.push(self.stream_evidence(index, stream, way, listener, &sent)?);
            }
        }
        talkers.extend(self.best_effort_evidence());
        Ok(Evidence {
            streams,
            ports: self.port_evidence(),
            talkers,
            stalls: self.noise.stall_record(),
            stalls_doubted: self.noise.doubts(),
            interrupted: self.interrupted,
            clock_set: self.clock_step.iter().map(ClockStep::sentence).collect(),
            emulation: Some(Emulation {
                handover_ns: self.calibrated.handover_ns,
                records_lost: self.events.lost,
            }),
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
        // One-shot reservations may fill the class of priority 0 up to its budgets. In it the deadline is what lasts.
        let promise = match self.shares_a_class(stream, &route) {
            true => stream.deadline_ns,
            false => promise,
        };
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
            frames_corrupted: result.frames_corrupted,
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
            emulated: Some(EmulatedStream {
                transmission_ns,
                ..self.exact.stream(index, way, listener)
            }),
            // All hosts of a lab share this machine's clock.
            clock_uncertainty_ns: Some(0),
            route,
        })
    }

    /// Returns true if a stream is in the class of one-shot reservations at a port of a route.
    fn shares_a_class(&self, stream: &Stream, route: &[PortId]) -> bool {
        self.network.manager_host.is_some()
            && route.iter().any(|id| {
                let mut nodes = self.fabric.blueprint.nodes.iter();
                let node = nodes.find(|node| node.name == id.node);
                node.is_some_and(|node| {
                    node.class_of[usize::from(stream.pcp & 7)] == node.class_of[0]
                })
            })
    }

    /// Returns the backlog that a port may have, bytes.
    fn promised_backlog_bytes(&self, plan: &PortPlan) -> Option<u64> {
        let planned = plan.backlog_bytes?;
        if self.network.manager_host.is_none() {
            return Some(planned);
        }
        let most = planned.saturating_add(added_backlog_bytes(self.network, plan));
        Some(
            plan.buffer_bytes
                .map_or(most, |buffer| most.min(buffer.max(planned))),
        )
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

    /// Returns true if a stream or a best-effort allowance passes a port.
    fn is_used(&self, id: &PortId) -> bool {
        let (mut streams, mut others) = self.passing(id);
        streams.next().is_some() || others.next().is_some()
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
            // A schedule needs no class at a port that only its own streams pass. They pass it all the same.
            let id = PortId::new(&plan.node, &plan.port);
            if !self.is_used(&id) {
                continue;
            }
            let Some(port) = self.port_index(plan) else {
                continue;
            };
            let records = &self.fabric.records;
            let watch = self.watches.get(port).cloned().unwrap_or_default();
            let ends = (plan.node.as_str(), plan.port.as_str());
            evidence.push(PortEvidence {
                hold_ns: self.hold_ns(&id),
                emulated: Some(self.exact.port(port, ends, self.calibrated)),
                id,
                link_rate_bps: plan.link_rate_bps,
                promised_backlog_bytes: self.promised_backlog_bytes(plan),
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
        ContractKind::Interval { interval_ns, .. } => {
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
            app_rx_ns: arrival
                .app_received_ns
                .map_or(0, |time| time + transmission_ns),
        })
        .collect()
}

pub(crate) fn ports_of(route: &[String]) -> Vec<PortId> {
    route
        .windows(2)
        .map(|hop| PortId::new(&hop[0], &hop[1]))
        .collect()
}

pub(crate) fn part(value: i128) -> u64 {
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
            app_received_ns: Some(at + 1),
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
