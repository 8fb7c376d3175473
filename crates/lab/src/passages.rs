//! The way of each frame through the emulated ports, put together from their records.

use std::collections::{HashMap, VecDeque};

use rtwire_measure::verdict::{FrameId, PortDrop, PortFrame, StallLine};

use crate::events::{Event, Kind};
use crate::fabric::PortIndex;
use crate::limit::Limit;

/// A stream, a best-effort flow or a calibration flow: how its frames are known, and the ports that they pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// The RTDiP key of its frames.
    pub(crate) key: u32,
    /// For each listener: the ports on the route, the talker's own first.
    pub(crate) routes: Vec<Vec<PortIndex>>,
    /// The node that it goes to, if its frames are those of unmodified programs. They have no key: they are known by their
    /// talker's port and by this node, and numbered as they enter.
    pub(crate) to_node: Option<u16>,
}

impl Flow {
    /// Returns the port before `port` on this flow's way; `None` for the talker's own.
    fn before(&self, port: PortIndex) -> Option<PortIndex> {
        self.routes.iter().find_map(|route| {
            let at = route.iter().position(|one| *one == port)?;
            route.get(at.checked_sub(1)?).copied()
        })
    }
}

/// The frames that one port has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passage {
    /// The accepted frames, sorted by the time at which they left; those that never left come last.
    pub(crate) frames: Vec<PortFrame>,
    /// Number of frames that left without a record of their entry.
    pub(crate) unmatched: u64,
    /// The frames that found no room. One of an unmodified program never entered, so it has no number.
    pub(crate) drops: Vec<PortDrop>,
}

/// Frames of unmodified programs, followed from port to port.
struct Strangers<'a> {
    flows: &'a [Flow],
    /// The flow for each first port and node that frames go to.
    first: HashMap<(PortIndex, u16), u32>,
    /// The frames of each flow so far.
    counts: HashMap<u32, u32>,
    /// For each identity: the frames that have it, with the port that each has entered last.
    under_way: HashMap<u64, Vec<(FrameId, PortIndex)>>,
}

impl<'a> Strangers<'a> {
    fn new(flows: &'a [Flow]) -> Strangers<'a> {
        let first = (0_u32..).zip(flows).filter_map(|(number, flow)| {
            let port = flow.routes.first()?.first()?;
            Some(((*port, flow.to_node?), number))
        });
        Strangers {
            flows,
            first: first.collect(),
            counts: HashMap::new(),
            under_way: HashMap::new(),
        }
    }

    /// Returns the frame that has entered a port; `None` if it belongs to no flow.
    fn entered(&mut self, event: &Event) -> Option<FrameId> {
        let port = usize::from(event.port);
        let node = event.identity as u16;
        if let Some(&flow) = self.first.get(&(port, node)) {
            let count = self.counts.entry(flow).or_default();
            let id = FrameId { flow, seq: *count };
            *count += 1;
            let under_way = self.under_way.entry(event.identity).or_default();
            under_way.push((id, port));
            return Some(id);
        }
        let under_way = self.under_way.get_mut(&event.identity)?;
        let flows = self.flows;
        let comes = |(id, last): &(FrameId, PortIndex)| {
            let flow = flows.get(id.flow as usize);
            flow.and_then(|flow| flow.before(port)) == Some(*last)
        };
        let at = under_way.iter().position(comes)?;
        let (id, _) = under_way[at];
        let is_last = |flow: &Flow| flow.routes.iter().any(|route| route.last() == Some(&port));
        if flows.get(id.flow as usize).is_some_and(is_last) {
            under_way.remove(at);
        } else {
            under_way[at].1 = port;
        }
        Some(id)
    }
}

/// All ports' frames, and the time at which each frame left each port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passages {
    pub(crate) ports: Vec<Passage>,
    left: HashMap<(PortIndex, FrameId), u64>,
}

impl Passages {
    /// Puts the records of `ports` ports together. `sent` returns a frame's transmit stamp, ns.
    pub(crate) fn new(
        events: &[Event],
        ports: usize,
        flows: &[Flow],
        sent: impl Fn(FrameId) -> Option<u64>,
    ) -> Self {
        let mut passages = Self {
            ports: vec![Passage::default(); ports],
            left: HashMap::new(),
        };
        let keyed = (0_u32..)
            .zip(flows)
            .filter(|(_, flow)| flow.to_node.is_none());
        let numbers = keyed.map(|(number, flow)| (flow.key, number));
        passages.pair(events, &numbers.collect(), Strangers::new(flows));
        passages.came(flows, sent);
        passages
    }

    /// Returns the time at which a frame left a port, ns.
    pub(crate) fn left_ns(&self, port: PortIndex, frame: FrameId) -> Option<u64> {
        self.left.get(&(port, frame)).copied()
    }

    /// Puts the time that an agent may hold each frame of a flow before the time from which the frame should be at its first
    /// port.
    pub(crate) fn hold_back(
        &mut self,
        flows: &[Flow],
        flow: u32,
        limit: Limit,
        stalls: &StallLine,
    ) {
        let first = flows
            .get(flow as usize)
            .and_then(|flow| flow.routes.first()?.first());
        let Some(passage) = first.and_then(|&port| self.ports.get_mut(port)) else {
            return;
        };
        let of_flow = |frame: &&mut PortFrame| frame.frame.is_some_and(|id| id.flow == flow);
        let mut frames: Vec<_> = passage.frames.iter_mut().filter(of_flow).collect();
        frames.sort_by_key(|frame| frame.frame);
        let mut held = limit.queue();
        for frame in frames {
            frame.came_ns = frame
                .came_ns
                .map(|sent_ns| held.pass(sent_ns, frame.entered_ns, stalls));
        }
    }

    /// Pairs each entry with the next departure of the same frame.
    fn pair(
        &mut self,
        events: &[Event],
        numbers: &HashMap<u32, u32>,
        mut strangers: Strangers<'_>,
    ) {
        let mut inside: HashMap<(u16, bool, u64), VecDeque<usize>> = HashMap::new();
        for event in events {
            let Some(passage) = self.ports.get_mut(usize::from(event.port)) else {
                continue;
            };
            let [key, seq] = [(event.identity >> 32) as u32, event.identity as u32];
            let same = (event.port, event.has_key, event.identity);
            let keyed = numbers.get(&key).filter(|_| event.has_key);
            let keyed = keyed.map(|&flow| FrameId { flow, seq });
            match event.kind {
                Kind::Entered => {
                    let waiting = inside.entry(same).or_default();
                    waiting.push_back(passage.frames.len());
                    let frame = match event.has_key {
                        true => keyed,
                        false => strangers.entered(event),
                    };
                    passage.frames.push(PortFrame {
                        frame,
                        came_ns: None,
                        entered_ns: event.time_ns,
                        left_ns: None,
                        class: event.class,
                        wire_bits: u32::from(event.wire_bytes) * 8,
                    });
                }
                Kind::Left => {
                    let waiting = inside.get_mut(&same);
                    let Some(at) = waiting.and_then(VecDeque::pop_front) else {
                        passage.unmatched += 1;
                        continue;
                    };
                    let frame = &mut passage.frames[at];
                    frame.left_ns = Some(event.time_ns.max(frame.entered_ns));
                    if let Some(id) = frame.frame {
                        let port = usize::from(event.port);
                        self.left.entry((port, id)).or_insert(event.time_ns);
                    }
                }
                Kind::Dropped => passage.drops.push(PortDrop {
                    frame: keyed,
                    at_ns: event.time_ns,
                }),
            }
        }
        for passage in &mut self.ports {
            let key = |frame: &PortFrame| (frame.left_ns.unwrap_or(u64::MAX), frame.entered_ns);
            passage.frames.sort_by_key(key);
        }
    }

    fn came(&mut self, flows: &[Flow], sent: impl Fn(FrameId) -> Option<u64>) {
        for (port, passage) in self.ports.iter_mut().enumerate() {
            for frame in &mut passage.frames {
                let Some(id) = frame.frame else {
                    continue;
                };
                let before = flows
                    .get(id.flow as usize)
                    .and_then(|flow| flow.before(port));
                frame.came_ns = match before {
                    Some(before) => self.left.get(&(before, id)).copied(),
                    None => sent(id),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, port: u16, key: u64, seq: u64, time_ns: u64) -> Event {
        Event {
            time_ns,
            identity: key << 32 | seq,
            has_key: key != 0,
            port,
            wire_bytes: 84,
            core: 0,
            class: 1,
            kind,
        }
    }

    #[test]
    fn a_frame_is_followed_from_its_talker_through_its_ports() {
        let flows = [Flow {
            key: 9,
            routes: vec![vec![0, 2], vec![0, 4]],
            to_node: None,
        }];
        let events = [
            event(Kind::Entered, 0, 9, 0, 10),
            event(Kind::Entered, 0, 9, 1, 11),
            event(Kind::Left, 0, 9, 0, 12),
            event(Kind::Entered, 2, 9, 0, 13),
            event(Kind::Entered, 4, 9, 0, 14),
            event(Kind::Left, 2, 9, 0, 15),
            event(Kind::Left, 2, 9, 0, 16),
            event(Kind::Entered, 2, 7, 0, 17),
            event(Kind::Dropped, 4, 9, 1, 18),
        ];
        let passages = Passages::new(&events, 5, &flows, |id| Some(u64::from(id.seq) + 1));
        let first = &passages.ports[0].frames;
        assert_eq!(first.len(), 2);
        assert_eq!((first[0].came_ns, first[0].left_ns), (Some(1), Some(12)));
        assert_eq!((first[1].came_ns, first[1].left_ns), (Some(2), None));
        let second = &passages.ports[2];
        assert_eq!(second.frames[0].came_ns, Some(12));
        assert_eq!(second.unmatched, 1, "it left twice and entered once");
        assert_eq!(second.frames[1].frame, None, "another plan's frame");
        assert_eq!(passages.ports[4].frames[0].came_ns, Some(12));
        let id = FrameId { flow: 0, seq: 0 };
        assert_eq!(passages.left_ns(2, id), Some(15));
        let dropped = PortDrop {
            frame: Some(FrameId { flow: 0, seq: 1 }),
            at_ns: 18,
        };
        assert_eq!(passages.ports[4].drops, [dropped]);
    }

    #[test]
    fn frames_without_a_key_are_followed_by_what_their_headers_say() {
        let flow = |first: usize, to_node| Flow {
            key: 0,
            routes: vec![vec![first, 6]],
            to_node: Some(to_node),
        };
        let flows = [flow(0, 3), flow(2, 3)];
        // The same headers from two hosts; one that nobody has sent; one to another node.
        let stranger = |kind, port, mix: u64, time_ns| event(kind, port, 0, mix << 16 | 3, time_ns);
        let events = [
            stranger(Kind::Entered, 0, 7, 10),
            stranger(Kind::Entered, 2, 7, 11),
            stranger(Kind::Entered, 0, 8, 12),
            stranger(Kind::Left, 2, 7, 13),
            stranger(Kind::Left, 0, 7, 14),
            stranger(Kind::Entered, 6, 7, 15),
            stranger(Kind::Entered, 6, 7, 16),
            stranger(Kind::Entered, 6, 9, 17),
            event(Kind::Entered, 0, 0, 7 << 16 | 5, 18),
        ];
        let passages = Passages::new(&events, 7, &flows, |_| None);
        let ids = |port: usize| -> Vec<_> {
            let frames = passages.ports[port].frames.iter();
            let mut ids: Vec<_> = frames
                .map(|frame| frame.frame.map(|id| (id.flow, id.seq)))
                .collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(ids(0), [None, Some((0, 0)), Some((0, 1))]);
        assert_eq!(ids(2), [Some((1, 0))]);
        assert_eq!(ids(6), [None, Some((0, 0)), Some((1, 0))]);
        let mut at_last = passages.ports[6].frames.iter();
        let of_second = at_last.find(|frame| frame.frame.is_some_and(|id| id.flow == 1));
        assert_eq!(of_second.and_then(|frame| frame.came_ns), Some(13));
    }
}
