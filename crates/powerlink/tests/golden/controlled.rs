//! Our controlled node in the place of a recorded one. It gets the recorded managing node's frames, and its answers
//! are compared with those of the recorded node.

use crate::capture;
use rtwire_powerlink::cn::ControlledConfig;
use rtwire_powerlink::od::{DataType, Entry, Mappable, Object, ObjectKind};
use rtwire_powerlink::{ControlledNode, ObjectDictionary};
use rtwire_wire::powerlink::{AsndService, NmtState, RequestedService, View};
use rtwire_wire::{MacAddress, Node, Outbox};
use std::collections::{BTreeMap, VecDeque};

/// The objects of the recorded demonstration node that the recorded managing node uses.
pub fn demonstration_node() -> ObjectDictionary {
    let mut d = ObjectDictionary::controlled_node();
    d.set_number(0x1000, 0, 0x000f_0191);
    d.set_number(0x1018, 3, 0x0002_0007);
    d.set_number(0x1f82, 0, 0x0001_0265);
    d.set_number(0x1f98, 8, 1500);
    for (index, name) in [
        (0x6000, "DigitalInput_00h_AU8"),
        (0x6200, "DigitalOutput_00h_AU8"),
    ] {
        let mut entry = Entry::new("byte", DataType::Unsigned(1));
        entry.mappable = Mappable::Both;
        let entries = BTreeMap::from([(0, Entry::new("NumberOfEntries", DataType::Unsigned(1)))]);
        d.insert(
            index,
            Object {
                name: name.into(),
                kind: ObjectKind::Array,
                entries,
                others: Some((4, entry)),
            },
        );
    }
    d
}

struct Sent(VecDeque<Vec<u8>>);

impl Outbox for Sent {
    fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
        self.0.push_back(frame.to_vec());
    }
}

/// Replays the capture to a node of this number. Returns the deviations with the count of each, the number of frames
/// compared, and the node's last state.
fn replay(number: u8) -> (BTreeMap<String, usize>, usize, NmtState) {
    let frames = capture::frames();
    let mut d = demonstration_node();
    d.set_value(0x1f9a, 0, format!("{number:02x}-ffffffff").as_bytes());
    let mut node = ControlledNode::new(ControlledConfig {
        node: number,
        address: MacAddress([2, 0, 0, 0, 0x0e, number]),
        dictionary: d,
        limits: rtwire_powerlink::cn::Limits {
            silence_ns: 0,
            ..rtwire_powerlink::cn::Limits::default()
        },
    })
    .unwrap();
    let mut sent = Sent(VecDeque::new());
    let mut deviations = BTreeMap::new();
    let mut compared = 0;
    // The recorded node was switched on some time after the managing node: ours is, a few SoA before its first word.
    let of = |frame: &[u8]| View::new(frame).source();
    let first = frames
        .iter()
        .position(|(_, frame)| of(frame) == Some(number))
        .unwrap();
    let asked = |(_, frame): &(u64, Vec<u8>)| {
        View::new(frame).requested() == Some((RequestedService::IDENT_REQUEST, number))
    };
    let begin = frames[..first].iter().rposition(asked).unwrap();
    node.start(frames[begin].0, &mut sent);
    for (index, (ns, frame)) in frames.iter().enumerate().skip(begin) {
        if node.wake_at_ns().is_some_and(|at| at <= *ns) {
            node.moment(*ns, &mut sent);
        }
        let view = View::new(frame);
        if view.source() != Some(number) {
            node.frame(*ns, frame, &mut sent);
            // As the recorded node's application does: its input follows its output.
            continue;
        }
        compared += 1;
        let kind = format!(
            "{} {}",
            view.message_type().unwrap(),
            view.asnd_service().map_or(String::new(), |s| s.to_string())
        );
        // A response may have overtaken an asynchronous frame on the recorded node's way to the medium.
        let same = |ours: &Vec<u8>| {
            let ours = View::new(ours);
            (ours.message_type(), ours.asnd_service()) == (view.message_type(), view.asnd_service())
        };
        let found = sent
            .0
            .iter()
            .position(same)
            .and_then(|at| sent.0.remove(at));
        let Some(ours) = found else {
            *deviations
                .entry(format!(
                    "{kind}: nothing sent (first in frame {})",
                    index + 1
                ))
                .or_insert(0) += 1;
            continue;
        };
        for difference in capture::differences(&ours, frame) {
            let text = format!("{kind} {difference} (first in frame {})", index + 1);
            let text = match deviations
                .keys()
                .find(|known: &&String| known.starts_with(&format!("{kind} {difference} ")))
            {
                Some(known) => known.clone(),
                None => text,
            };
            *deviations.entry(text).or_insert(0) += 1;
        }
    }
    if !sent.0.is_empty() {
        deviations.insert(format!("{} frames more than recorded", sent.0.len()), 1);
    }
    (deviations, compared, node.state())
}

/// The deviations that are allowed, with the count and the reason of each.
const ALLOWED: [(&str, usize, &str); 6] = [
    (
        "ASnd StatusResponse epl.asnd.sres.ec:",
        1,
        "the recorded node answers ER one request late, ours at once",
    ),
    (
        "ASnd StatusResponse epl.asnd.sres.pr:",
        1,
        "ours has told of its waiting frame already",
    ),
    (
        "ASnd StatusResponse epl.asnd.sres.rs:",
        1,
        "ours has told of its waiting frame already",
    ),
    (
        "ASnd IdentResponse epl.asnd.ires.state:",
        1,
        "ours was switched on at another moment, or has read the SoC already",
    ),
    (
        "PRes  epl.pdo:",
        usize::MAX,
        "the recorded application's data",
    ),
    (
        "1 frames more than recorded",
        1,
        "the recorded node was switched on later",
    ),
];

#[test]
fn each_recorded_node_can_be_replaced() {
    for number in [1, 32, 110] {
        let (deviations, compared, state) = replay(number);
        assert!(compared > 480, "{compared}");
        assert_eq!(state, NmtState::OPERATIONAL);
        for (deviation, count) in &deviations {
            let allowed = ALLOWED
                .iter()
                .find(|allowed| deviation.starts_with(allowed.0));
            assert!(
                allowed.is_some_and(|allowed| *count <= allowed.1),
                "node {number}: {count} times: {deviation}; all: {deviations:#?}"
            );
        }
    }
}

/// Replays the managing node's frames to a node with the default limits. It is switched on at a time of the capture's clock, which
/// may lie before its begin. Returns the time from each reset to the node's next word in ns, and its last state.
fn started(number: u8, at_ns: i64) -> (Vec<u64>, NmtState) {
    const SHIFT_NS: u64 = 10_000_000_000;
    let begin_ns = SHIFT_NS.saturating_add_signed(at_ns);
    let mut node = ControlledNode::new(ControlledConfig {
        node: number,
        address: MacAddress([2, 0, 0, 0, 0x0e, number]),
        dictionary: demonstration_node(),
        limits: rtwire_powerlink::cn::Limits::default(),
    })
    .unwrap();
    let mut sent = Sent(VecDeque::new());
    node.start(begin_ns, &mut sent);
    let (mut reset_ns, mut silences) = (Some(begin_ns), Vec::new());
    for (ns, frame) in capture::frames() {
        let ns = ns + SHIFT_NS;
        if ns < begin_ns {
            continue;
        }
        while let Some(due_ns) = node.wake_at_ns().filter(|due_ns| *due_ns <= ns) {
            node.moment(due_ns, &mut sent);
        }
        let view = View::new(&frame);
        if view.source() != Some(240) {
            continue;
        }
        node.frame(ns, &frame, &mut sent);
        let command = view.asnd_service() == Some(AsndService::NMT_COMMAND);
        let to_it = [Some(number), Some(255)].contains(&view.destination());
        if command && to_it && matches!(frame[18], 0x28..=0x2b) {
            reset_ns = Some(ns);
            sent.0.clear();
        }
        if !sent.0.is_empty() {
            sent.0.clear();
            silences.extend(reset_ns.take().map(|reset_ns| ns - reset_ns));
        }
    }
    (silences, node.state())
}

/// Another stack's managing node ends where nodes answer 50 ms after a reset. The recorded nodes are silent for 540 ms and more.
#[test]
fn with_its_silence_it_boots_whoever_is_started_first() {
    let ms = 1_000_000;
    for number in [1, 32, 110] {
        for at_ms in [-5_000, -400, 0, 300] {
            let (silences, state) = started(number, at_ms * ms);
            assert_eq!(state, NmtState::OPERATIONAL, "node {number} at {at_ms} ms");
            assert!(
                silences.len() >= 2,
                "node {number} at {at_ms} ms: {silences:?}"
            );
            for silence_ns in silences {
                assert!(
                    silence_ns >= 540_000_000,
                    "node {number} at {at_ms} ms: {silence_ns}"
                );
            }
        }
    }
}
