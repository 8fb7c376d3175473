//! The way of each frame through the emulated ports, put together from their records.

use std::collections::{HashMap, VecDeque};

use rtwire_measure::verdict::{FrameId, PortFrame};

use crate::events::{Event, Kind};
use crate::fabric::PortIndex;

/// A stream, a best-effort flow or a calibration flow: how its frames are known, and the ports that they pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// The RTDiP key of its frames.
    pub(crate) key: u32,
    /// For each listener: the ports on the route, the talker's own first.
    pub(crate) routes: Vec<Vec<PortIndex>>,
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
        let numbers = (0_u32..)
            .zip(flows)
            .map(|(number, flow)| (flow.key, number));
        passages.pair(events, &numbers.collect());
        passages.came(flows, sent);
        passages
    }

    /// Returns the time at which a frame left a port, ns.
    pub(crate) fn left_ns(&self, port: PortIndex, frame: FrameId) -> Option<u64> {
        self.left.get(&(port, frame)).copied()
    }

    /// Pairs each entry with the next departure of the same frame.
    fn pair(&mut self, events: &[Event], numbers: &HashMap<u32, u32>) {
        let mut inside: HashMap<(u16, u64), VecDeque<usize>> = HashMap::new();
        for event in events {
            let Some(passage) = self.ports.get_mut(usize::from(event.port)) else {
                continue;
            };
            let [key, seq] = [(event.identity >> 32) as u32, event.identity as u32];
            match event.kind {
                Kind::Entered => {
                    let waiting = inside.entry((event.port, event.identity)).or_default();
                    waiting.push_back(passage.frames.len());
                    passage.frames.push(PortFrame {
                        frame: numbers.get(&key).map(|&flow| FrameId { flow, seq }),
                        came_ns: None,
                        entered_ns: event.time_ns,
                        left_ns: None,
                        class: event.class,
                        wire_bits: u32::from(event.wire_bytes) * 8,
                    });
                }
                Kind::Left => {
                    let waiting = inside.get_mut(&(event.port, event.identity));
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
                Kind::Dropped => {}
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
    }
}
