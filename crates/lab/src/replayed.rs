//! The run once more, exactly: all frames that entered the network, through the described network.

use std::collections::HashMap;
use std::path::Path;

use rtwire_measure::verdict::{
    EmulatedPort, EmulatedStream, FrameId, HeldBack, PortFrame, ReplayedFrame, StallLine,
};
use rtwire_plan::{Isolation, Plan};
use rtwire_session::samples;
use rtwire_sim::replay::{Departure, Fate, FrameReplay, Replay, Replayed};

use crate::LabError;
use crate::calibrate::Calibrated;
use crate::events::Events;
use crate::fabric::{Fabric, PortIndex};
use crate::held_back::held_back;
use crate::limit::Limit;
use crate::passages::{Flow, Passages};
use crate::tasks;

/// The frames of a run, in the emulated network and in the described one.
pub(crate) struct Exact {
    flows: Vec<Flow>,
    passages: Passages,
    /// For each flow, the time at which each frame entered the network, ns; 0 if it never did.
    departed: Vec<Vec<u64>>,
    replayed: Replayed,
    held_back: Conforming,
    /// The time from which the plan's promises hold, ns of CLOCK_TAI.
    settled_from_ns: u64,
}

/// The replay with all frames [held back](crate::held_back).
enum Conforming {
    /// All talkers kept their contracts: it is the replay of the run.
    Same,
    /// Another one.
    Other(Replayed),
    /// With `isolation = "frames"` a promise needs each frame of every talker. Frames at their launch times, with some
    /// missing, would prove nothing.
    Unknown,
}

impl Exact {
    /// Reads the transmit stamps of all flows and replays them. `stalls` are those of the machine.
    ///
    /// # Errors
    /// A file cannot be read, or the simulator refuses the record.
    pub(crate) fn new(
        plan: &Plan,
        fabric: &Fabric,
        directory: &Path,
        events: &Events,
        stalls: &StallLine,
    ) -> Result<Self, LabError> {
        let flows = tasks::flows(plan, fabric);
        let mut departed = Vec::new();
        for flow in 0..flows.len() {
            let stamps = samples::read_sent(&samples::sent_path(directory, flow))?;
            departed.push(samples::stamps_by_sequence(&stamps));
        }
        let ports = 2 * fabric.blueprint.cables.len();
        let sent = |id: FrameId| stamp(&departed, id);
        let mut passages = Passages::new(&events.all, ports, &flows, sent);
        if plan.network.manager_host.is_some() {
            for (stream, flow) in plan.network.streams.iter().zip(0..) {
                passages.hold_back(&flows, flow, Limit::new(stream), stalls);
            }
        }
        let by_stamp = match plan.network.manager_host {
            None => departed.clone(),
            // Behind an agent a frame enters the network when the agent lets it go.
            Some(_) => vec![Vec::new(); flows.len()],
        };
        let entered = with_entries(by_stamp, &flows, &passages);
        let sizes = sizes(&flows, &passages);
        let replay = Replay::new(&plan.network, plan)?;
        let replayed = replay.run(&departures(&entered, &sizes))?;
        let held_back = match plan.network.schedule.isolation {
            Isolation::Frames => Conforming::Unknown,
            Isolation::Streams => match held_back(&plan.network, plan, &entered) {
                held if held == entered => Conforming::Same,
                held => Conforming::Other(replay.run(&departures(&held, &sizes))?),
            },
        };
        let first_ns = entered.iter().flatten().filter(|ns| **ns != 0).min();
        let settled_from_ns = match replay.settled_ns() {
            0 => 0,
            settled_ns => first_ns.copied().unwrap_or(0).saturating_add(settled_ns),
        };
        let departed = with_entries(departed, &flows, &passages);
        Ok(Self {
            flows,
            passages,
            departed,
            replayed,
            held_back,
            settled_from_ns,
        })
    }

    /// Returns the times at which a flow's frames entered the network, in order, ns.
    pub(crate) fn departures_of(&self, flow: usize) -> Vec<u64> {
        let departed = self.departed.get(flow).map_or(&[][..], Vec::as_slice);
        let mut times: Vec<u64> = departed.iter().copied().filter(|&ns| ns != 0).collect();
        times.sort_unstable();
        times
    }

    /// Returns all frames of a port that left it.
    pub(crate) fn served(&self, port: PortIndex) -> impl Iterator<Item = &PortFrame> {
        let passage = self.passages.ports.get(port);
        let frames = passage.map_or(&[][..], |passage| &passage.frames);
        frames.iter().filter(|frame| frame.left_ns.is_some())
    }

    /// Returns the evidence on one flow at one of its listeners, the `way`-th of the description.
    pub(crate) fn stream(&self, flow: usize, way: usize, listener: &str) -> EmulatedStream {
        let number = u32::try_from(flow).unwrap_or(u32::MAX);
        let last = self
            .flows
            .get(flow)
            .and_then(|flow| flow.routes.get(way)?.last());
        let frames = self
            .replayed
            .at(flow, listener)
            .map_or(&[][..], |it| &it.frames);
        let frame = |frame: &FrameReplay| {
            // Sequence numbers of a run have 32 bits; the tape's numbers come from them.
            let seq = u32::try_from(frame.frame).unwrap_or(u32::MAX);
            ReplayedFrame {
                seq,
                exact_ns: exact_ns(frame),
                unsettled: frame.at_ns < self.settled_from_ns,
                left_ns: last
                    .and_then(|&port| self.passages.left_ns(port, FrameId { flow: number, seq })),
            }
        };
        EmulatedStream {
            flow: number,
            transmission_ns: 0,
            frames: frames.iter().map(frame).collect(),
            held_back: self.conforming().map(|replayed| {
                let frames = replayed.at(flow, listener);
                let frames = frames.map_or(&[][..], |it| &it.frames);
                let delays = || frames.iter().map(exact_ns);
                HeldBack {
                    slowest_ns: delays().flatten().max().unwrap_or(0),
                    lost: delays().filter(Option::is_none).count() as u64,
                }
            }),
        }
    }

    /// Returns the replay with all frames held back, if it proves anything.
    fn conforming(&self) -> Option<&Replayed> {
        match &self.held_back {
            Conforming::Same => Some(&self.replayed),
            Conforming::Other(replayed) => Some(replayed),
            Conforming::Unknown => None,
        }
    }

    /// Returns the evidence on one port of the description.
    pub(crate) fn port(
        &self,
        port: PortIndex,
        (node, neighbour): (&str, &str),
        calibrated: &Calibrated,
    ) -> EmulatedPort {
        let of = |replayed: &'_ Replayed| {
            let mut ports = replayed.ports.iter();
            ports
                .find(|it| it.node == node && it.port == neighbour)
                .cloned()
        };
        let exact = of(&self.replayed);
        let held_back = self.conforming().and_then(of);
        let passage = self.passages.ports.get(port).cloned().unwrap_or_default();
        EmulatedPort {
            frames: passage.frames,
            latency_ns: calibrated.latency_ns(port),
            exact_backlog_bytes: exact.as_ref().map(|it| it.backlog_bytes),
            exact_dropped: exact.map_or(0, |it| it.dropped),
            held_back_backlog_bytes: held_back.map(|it| it.backlog_bytes),
            unmatched: passage.unmatched,
            drops: passage.drops,
        }
    }
}

/// Returns the delay of a frame in the described network, ns; `None` if it may be lost there.
fn exact_ns(frame: &FrameReplay) -> Option<u64> {
    match frame.fate {
        Fate::Arrives { most_ns, .. } => Some(most_ns),
        _ => None,
    }
}

fn frame_id(flow: usize, frame: u64) -> Option<FrameId> {
    Some(FrameId {
        flow: u32::try_from(flow).ok()?,
        seq: u32::try_from(frame).ok()?,
    })
}

fn stamp(departed: &[Vec<u64>], id: FrameId) -> Option<u64> {
    let stamps = departed.get(id.flow as usize)?;
    stamps.get(id.seq as usize).copied().filter(|&ns| ns != 0)
}

/// Adds the frames without a time of departure: they entered the network when its first port saw them.
fn with_entries(mut departed: Vec<Vec<u64>>, flows: &[Flow], passages: &Passages) -> Vec<Vec<u64>> {
    for (number, flow) in (0_u32..).zip(flows) {
        let Some(first) = flow.routes.first().and_then(|route| route.first()) else {
            continue;
        };
        let Some(own) = departed.get_mut(number as usize) else {
            continue;
        };
        for frame in passages
            .ports
            .get(*first)
            .map_or(&[][..], |port| &port.frames)
        {
            let Some(id) = frame.frame.filter(|id| id.flow == number) else {
                continue;
            };
            let at = id.seq as usize;
            // A sequence number far beyond the others belongs to no frame of this run.
            if at >= own.len() + 1_000_000 {
                continue;
            }
            if own.len() <= at {
                own.resize(at + 1, 0);
            }
            if own[at] == 0 {
                own[at] = frame.entered_ns;
            }
        }
    }
    departed
}

/// Returns the sizes on the wire of frames of unmodified programs, bytes: all others have the size of their flow.
fn sizes(flows: &[Flow], passages: &Passages) -> HashMap<FrameId, u32> {
    let mut sizes = HashMap::new();
    for (number, flow) in (0_u32..)
        .zip(flows)
        .filter(|(_, flow)| flow.to_node.is_some())
    {
        let first = flow.routes.first().and_then(|route| route.first());
        let passage = first.and_then(|port| passages.ports.get(*port));
        for frame in passage.map_or(&[][..], |passage| &passage.frames) {
            if let Some(id) = frame.frame.filter(|id| id.flow == number) {
                sizes.insert(id, frame.wire_bits / 8);
            }
        }
    }
    sizes
}

fn departures(departed: &[Vec<u64>], sizes: &HashMap<FrameId, u32>) -> Vec<Departure> {
    let of_flow = |(flow, stamps): (usize, &Vec<u64>)| {
        let frames = (0_u64..).zip(stamps.clone());
        let sent = frames.filter(|&(_, at_ns)| at_ns != 0);
        sent.map(move |(frame, at_ns)| Departure {
            flow,
            frame,
            at_ns,
            wire_bytes: frame_id(flow, frame).and_then(|id| sizes.get(&id).copied()),
        })
        .collect::<Vec<_>>()
    };
    departed.iter().enumerate().flat_map(of_flow).collect()
}
