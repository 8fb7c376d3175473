//! The rule for an emulated network, line by line: what is planted, the verdict, and the words of its reason.

use super::*;

const RATE: u64 = 100_000_000;
/// A frame of 1 538 bytes on the wire takes 123.04 µs.
const BITS: u32 = 12_304;
const TOOK: u64 = 123_040;
const LATENCY: u64 = 300 * US;
const HANDOVER: u64 = 200 * US;

/// One stream over one port: a frame each ms from 10 ms, delivered as an ideal port would, in the described network within
/// half of its promise.
fn network(n: usize) -> Evidence {
    let sent = |i: usize| 10 * MS + i as u64 * MS;
    let delays = vec![TOOK + 10 * US; n];
    let mut stream = stream(&delays);
    stream.route = vec![PortId::new("C", "s1")];
    stream.emulated = Some(EmulatedStream {
        flow: 0,
        transmission_ns: TOOK,
        frames: (0..n)
            .map(|i| ReplayedFrame {
                seq: i as u32,
                exact_ns: Some(PROMISE / 2),
                left_ns: Some(sent(i) + 5 * US),
                unsettled: false,
            })
            .collect(),
        held_back: Some(HeldBack {
            slowest_ns: PROMISE / 2,
            lost: 0,
        }),
    });
    let frame = |i: usize| PortFrame {
        frame: Some(FrameId {
            flow: 0,
            seq: i as u32,
        }),
        came_ns: Some(sent(i)),
        entered_ns: sent(i) + 5 * US,
        left_ns: Some(sent(i) + 5 * US),
        class: 0,
        wire_bits: BITS,
    };
    let port = PortEvidence {
        id: PortId::new("C", "s1"),
        link_rate_bps: RATE,
        promised_backlog_bytes: Some(2_000),
        buffer_bytes: None,
        max_backlog_bytes: Some(1_514),
        frames_dropped: 0,
        drop_windows: vec![],
        backlog: vec![],
        utilization_ppm: 123_040,
        hold_ns: 0,
        utilization_percent: 12.3,
        emulated: Some(EmulatedPort {
            frames: (0..n).map(frame).collect(),
            latency_ns: LATENCY,
            exact_backlog_bytes: Some(1_538),
            exact_dropped: 0,
            held_back_backlog_bytes: Some(1_538),
            unmatched: 0,
            drops: vec![],
        }),
    };
    let talker = |name: &str, best_effort| TalkerEvidence {
        stream: name.to_owned(),
        ports: vec![PortId::new("C", "s1")],
        rate_bps: 12_304_000,
        tick_error_declared_ns: 0,
        tick_overshoot_max_ns: 0,
        shaper_caps_burst: true,
        contract_excess_bits: Some(0),
        unexplained_excess_bits: 0,
        frames_off_launch: 0,
        best_effort,
        frames_planned: 1_000,
        frames_sent: 1_000,
    };
    Evidence {
        streams: vec![stream],
        ports: vec![port],
        talkers: vec![talker("C-to-B", false), talker("office to B", true)],
        emulation: Some(Emulation {
            handover_ns: HANDOVER,
            records_lost: 0,
        }),
        ..Evidence::default()
    }
}

fn exact(e: &mut Evidence) -> &mut Vec<ReplayedFrame> {
    &mut e.streams[0].emulated.as_mut().unwrap().frames
}

fn port(e: &mut Evidence) -> &mut EmulatedPort {
    e.ports[0].emulated.as_mut().unwrap()
}

/// Delays frame `i` in its port by `ns`, and everything that follows from it.
fn delay(e: &mut Evidence, i: usize, ns: u64) {
    let left = &mut port(e).frames[i].left_ns;
    *left = left.map(|at| at + ns);
    let left = &mut exact(e)[i].left_ns;
    *left = left.map(|at| at + ns);
    let sample = &mut e.streams[0].samples[i];
    sample.rx_ns = sample.rx_ns.map(|at| at + ns);
}

fn held_back(e: &mut Evidence) -> &mut HeldBack {
    let emulated = e.streams[0].emulated.as_mut().unwrap();
    emulated.held_back.as_mut().unwrap()
}

/// The port drops a frame of a flow, a while after the stream's frame 7 entered it.
fn drop_at(e: &mut Evidence, flow: u32, after_ns: u64) {
    e.ports[0].frames_dropped += 1;
    port(e).drops.push(PortDrop {
        frame: Some(FrameId { flow, seq: 9_999 }),
        at_ns: 17 * MS + 5 * US + after_ns,
    });
}

fn stall_at(e: &mut Evidence, i: u64, length_ns: u64) {
    let from = 10 * MS + i * MS;
    e.stalls = stalls([core_stall(from, from + length_ns)]);
}

/// The port serves a busy period of 120 frames at 98 % of its rate.
fn slow_by_a_fiftieth(e: &mut Evidence) {
    let frames = &mut port(e).frames;
    for (k, frame) in frames.iter_mut().take(120).enumerate() {
        frame.came_ns = None;
        frame.entered_ns = 10 * MS;
        frame.left_ns = Some(10 * MS + k as u64 * TOOK * 102 / 100);
    }
    let last = frames[119].left_ns.unwrap();
    for (k, frame) in frames.iter_mut().skip(120).enumerate() {
        frame.came_ns = None;
        frame.entered_ns = last + (k as u64 + 1) * MS;
        frame.left_ns = Some(frame.entered_ns);
    }
    let left: Vec<_> = frames.iter().map(|frame| frame.left_ns).collect();
    for (at, left_ns) in left.into_iter().enumerate() {
        exact(e)[at].left_ns = left_ns;
        e.streams[0].samples[at].rx_ns = left_ns.map(|ns| ns + TOOK + 5 * US);
    }
}

/// A line of the rule: its name, what is planted, the verdict, and words of a reason of the whole run.
type Line = (&'static str, fn(&mut Evidence), Verdict, &'static str);

const LINES: &[Line] = &[
    ("nothing is wrong", |_| {}, Verdict::Kept, "were kept"),
    (
        "exactly the promise",
        |e| exact(e)[7].exact_ns = Some(PROMISE),
        Verdict::Kept,
        "were kept",
    ),
    (
        "a nanosecond beyond it",
        |e| exact(e)[7].exact_ns = Some(PROMISE + 1),
        Verdict::Broken,
        "although all talkers kept their contracts",
    ),
    (
        "no stall excuses an exact delay",
        |e| {
            exact(e)[7].exact_ns = Some(PROMISE + 1);
            stall_at(e, 7, 5 * MS);
        },
        Verdict::Broken,
        "although all talkers kept their contracts",
    ),
    (
        "beyond it behind a talker that the machine held up",
        |e| {
            exact(e)[7].exact_ns = Some(PROMISE + 1);
            e.talkers[1].contract_excess_bits = Some(1);
        },
        Verdict::Inconclusive,
        "missed its contract or its launch times",
    ),
    (
        "a talker held up, all delays in time",
        |e| e.talkers[1].contract_excess_bits = Some(1),
        Verdict::Kept,
        "were kept",
    ),
    (
        "beyond it behind a missed launch time",
        |e| {
            exact(e)[7].exact_ns = Some(PROMISE + 1);
            e.talkers[0].frames_off_launch = 1;
        },
        Verdict::Inconclusive,
        "missed its contract or its launch times",
    ),
    (
        "beyond it behind such a talker, and also with its frames held back",
        |e| {
            exact(e)[7].exact_ns = Some(PROMISE + 1);
            held_back(e).slowest_ns = PROMISE + 1;
            e.talkers[1].contract_excess_bits = Some(1);
        },
        Verdict::Broken,
        "held back until they keep their contracts",
    ),
    (
        "lost behind such a talker, and also with its frames held back",
        |e| {
            exact(e)[7].exact_ns = None;
            held_back(e).lost = 1;
            e.talkers[1].contract_excess_bits = Some(1);
        },
        Verdict::Broken,
        "held back until they keep their contracts",
    ),
    (
        "beyond it before the schedule has settled",
        |e| {
            for frame in &mut exact(e)[..3] {
                frame.exact_ns = Some(PROMISE + 1);
                frame.unsettled = true;
            }
        },
        Verdict::Kept,
        "were kept",
    ),
    (
        "a talker beyond its contract",
        |e| {
            e.talkers[1].contract_excess_bits = Some(1);
            e.talkers[1].unexplained_excess_bits = 1;
        },
        Verdict::Broken,
        "Talker of office to B: It sent 1 bit beyond its contract",
    ),
    (
        "lost in the described network",
        |e| exact(e)[7].exact_ns = None,
        Verdict::Broken,
        "lost in the described network",
    ),
    (
        "lost in the emulated one",
        |e| e.streams[0].frames_sent += 1,
        Verdict::Broken,
        "Lost in the network: 1",
    ),
    (
        "dropped by the listener's own socket",
        |e| {
            e.streams[0].frames_sent += 1;
            e.streams[0].listener_drops = 1;
        },
        Verdict::Inconclusive,
        "the listener's own socket",
    ),
    (
        "twice",
        |e| e.streams[0].frames_duplicated = 1,
        Verdict::Broken,
        "arrived twice",
    ),
    (
        "out of order",
        |e| e.streams[0].frames_reordered = 1,
        Verdict::Broken,
        "after one that was sent later",
    ),
    (
        "an altered payload",
        |e| e.streams[0].frames_corrupted = 1,
        Verdict::Broken,
        "arrived with an altered payload",
    ),
    (
        "late by the calibrated latency",
        |e| delay(e, 7, LATENCY),
        Verdict::Kept,
        "were kept",
    ),
    (
        "later than that, without a stall",
        |e| delay(e, 7, LATENCY + 1),
        Verdict::Broken,
        "does not behave as described",
    ),
    (
        "later than that, and a stall at that moment",
        |e| {
            delay(e, 7, MS / 2);
            stall_at(e, 7, MS / 2);
        },
        Verdict::Kept,
        "1 frame delivered late by recorded stalls",
    ),
    (
        "a stall at another moment",
        |e| {
            delay(e, 7, MS / 2);
            stall_at(e, 9, MS / 2);
        },
        Verdict::Broken,
        "does not behave as described",
    ),
    (
        "a stall that is too short",
        |e| {
            delay(e, 7, MS / 2);
            stall_at(e, 7, MS / 2 - LATENCY - 1);
        },
        Verdict::Broken,
        "does not behave as described",
    ),
    (
        "held up before the port",
        |e| port(e).frames[7].came_ns = Some(17 * MS - HANDOVER),
        Verdict::Broken,
        "with no stall of the machine at that moment",
    ),
    (
        "held up behind the last port",
        |e| e.streams[0].samples[7].rx_ns = Some(17 * MS + TOOK + HANDOVER + 6 * US),
        Verdict::Broken,
        "no stall of the machine at that moment",
    ),
    (
        "a port slower than its rate by 2 %",
        slow_by_a_fiftieth,
        Verdict::Broken,
        "slower than its rate by 1.9",
    ),
    (
        "such a port beside a stall of a core that does not serve it",
        |e| {
            slow_by_a_fiftieth(e);
            e.stalls = stalls([core_stall(10 * MS, 12 * MS)]);
        },
        Verdict::Broken,
        "slower than its rate by 1.9",
    ),
    (
        "the wrong class first",
        |e| {
            let frames = &mut port(e).frames;
            frames[8].class = 7;
            frames[8].entered_ns = frames[7].entered_ns - LATENCY - 1;
        },
        Verdict::Broken,
        "should have gone first",
    ),
    (
        "a frame that leaves and never entered",
        |e| port(e).unmatched = 1,
        Verdict::Broken,
        "had not entered, or left twice",
    ),
    (
        "a frame of no stream",
        |e| port(e).frames[7].frame = None,
        Verdict::Kept,
        "were kept",
    ),
    (
        "a burst of frames of no stream",
        |e| {
            for frame in &mut port(e).frames[10..14] {
                frame.frame = None;
            }
        },
        Verdict::Inconclusive,
        "B of them at once",
    ),
    (
        "such a burst for which the promised backlog has room",
        |e| {
            e.ports[0].promised_backlog_bytes = Some(10_000);
            for frame in &mut port(e).frames[10..14] {
                frame.frame = None;
            }
        },
        Verdict::Kept,
        "were kept",
    ),
    (
        "more than a hundredth of the link for frames of no stream",
        |e| {
            // Each takes 123 µs of a second.
            for frame in port(e).frames.iter_mut().take(250) {
                frame.frame = None;
            }
        },
        Verdict::Inconclusive,
        "250 frames of no stream here",
    ),
    (
        "a full buffer",
        |e| e.ports[0].frames_dropped = 1,
        Verdict::Broken,
        "the buffer was full",
    ),
    (
        "a full buffer behind a stall",
        |e| {
            drop_at(e, 0, MS / 4);
            e.streams[0].frames_sent += 1;
            delay(e, 7, MS / 2);
            stall_at(e, 7, MS / 2);
        },
        Verdict::Inconclusive,
        "the described port drops none",
    ),
    (
        "a full buffer at another moment than the stall",
        |e| {
            drop_at(e, 0, 900 * MS);
            delay(e, 7, MS / 2);
            stall_at(e, 7, MS / 2);
        },
        Verdict::Broken,
        "the buffer was full",
    ),
    (
        "a full buffer behind a stall, and another one without",
        |e| {
            drop_at(e, 0, MS / 4);
            drop_at(e, 0, 900 * MS);
            delay(e, 7, MS / 2);
            stall_at(e, 7, MS / 2);
        },
        Verdict::Broken,
        "1 frame dropped because the buffer was full",
    ),
    (
        "a full buffer behind a stall, and a lost frame of another flow",
        |e| {
            drop_at(e, 1, MS / 4);
            e.streams[0].frames_sent += 1;
            delay(e, 7, MS / 2);
            stall_at(e, 7, MS / 2);
        },
        Verdict::Broken,
        "Lost in the network: 1",
    ),
    (
        "a backlog beyond the promise",
        |e| port(e).exact_backlog_bytes = Some(2_001),
        Verdict::Broken,
        "2 001 B of the promised 2 000 B",
    ),
    (
        "such a backlog behind a talker that the machine held up",
        |e| {
            port(e).exact_backlog_bytes = Some(2_001);
            e.talkers[1].contract_excess_bits = Some(1);
        },
        Verdict::Kept,
        "were kept",
    ),
    (
        "a backlog far beyond it, and a talker beyond its contract by one bit",
        |e| {
            port(e).exact_backlog_bytes = Some(100_000);
            port(e).held_back_backlog_bytes = Some(99_999);
            e.talkers[1].contract_excess_bits = Some(1);
        },
        Verdict::Broken,
        "100 000 B of the promised 2 000 B in the described network, and 99 999 B",
    ),
    (
        "such a backlog, and nobody knows what frames held back reach",
        |e| {
            port(e).exact_backlog_bytes = Some(100_000);
            port(e).held_back_backlog_bytes = None;
            e.talkers[1].contract_excess_bits = Some(1);
        },
        Verdict::Inconclusive,
        "missed its launch times",
    ),
    (
        "such a backlog, and frames dropped there",
        |e| {
            port(e).exact_backlog_bytes = Some(2_001);
            port(e).exact_dropped = 1;
            e.talkers[1].contract_excess_bits = Some(1);
        },
        Verdict::Inconclusive,
        "frames are dropped there",
    ),
    (
        "most frames need an explanation",
        |e| {
            for i in 0..1_001 {
                delay(e, i, MS / 2);
            }
            let all = (0..1_001).map(|i| core_stall((10 + i) * MS, (10 + i) * MS + MS / 2));
            e.stalls = stalls(all);
        },
        Verdict::Inconclusive,
        "with less than 50 % of the frames free of them",
    ),
    (
        "too few frames",
        |e| {
            *e = network(999);
        },
        Verdict::Inconclusive,
        "a verdict needs 1 000",
    ),
    (
        "a load that was not offered",
        |e| e.streams[0].frames_planned = 2_030,
        Verdict::Inconclusive,
        "the load was not offered",
    ),
    (
        "best effort that was not offered",
        |e| e.talkers[1].frames_sent = 989,
        Verdict::Inconclusive,
        "Talker of office to B: It sent 989 of 1 000 planned frames",
    ),
    (
        "records of ports lost",
        |e| e.emulation.as_mut().unwrap().records_lost = 1,
        Verdict::Inconclusive,
        "1 record of the emulated ports lost",
    ),
    (
        "a frame twice among the samples",
        |e| e.streams[0].samples[8] = e.streams[0].samples[7],
        Verdict::Inconclusive,
        "appears twice among the samples",
    ),
    (
        "frames that were not replayed",
        |e| exact(e).truncate(1_900),
        Verdict::Inconclusive,
        "have no kernel time stamps",
    ),
    (
        "frames without a record of their last port",
        |e| {
            exact(e)[..21]
                .iter_mut()
                .for_each(|frame| frame.left_ns = None)
        },
        Verdict::Inconclusive,
        "21 frames arrived without a record of each port",
    ),
    (
        "frames without a record of a port on the way",
        |e| drop(port(e).frames.drain(..21)),
        Verdict::Inconclusive,
        "21 frames arrived without a record of each port",
    ),
    (
        "a port on the way that nobody recorded",
        |e| e.streams[0].route.push(PortId::new("s1", "B")),
        Verdict::Inconclusive,
        "2 000 frames arrived without a record of each port",
    ),
    (
        "a hundredth of the frames without a record",
        |e| {
            exact(e)[..20]
                .iter_mut()
                .for_each(|frame| frame.left_ns = None)
        },
        Verdict::Kept,
        "were kept",
    ),
    (
        "no promise",
        |e| e.streams[0].promise_ns = None,
        Verdict::Inconclusive,
        "nothing to judge",
    ),
    (
        "a missed deadline below the promise",
        |e| {
            e.streams[0].deadline_ns = Some(PROMISE / 2);
            exact(e)[7].exact_ns = Some(PROMISE / 2 + 1);
        },
        Verdict::Inconclusive,
        "longer than the deadline",
    ),
    (
        "interrupted",
        |e| e.interrupted = true,
        Verdict::Inconclusive,
        "interrupted before its end",
    ),
    (
        "noise threads that lost their priority",
        |e| e.stalls_doubted = vec!["The noise thread of core 0 was demoted.".to_owned()],
        Verdict::Inconclusive,
        "no recorded stall excuses anything",
    ),
    (
        "such threads, and a frame that only they excuse",
        |e| {
            delay(e, 7, MS / 2);
            stall_at(e, 7, MS / 2);
            e.stalls_doubted = vec!["The noise thread of core 0 was demoted.".to_owned()];
        },
        Verdict::Broken,
        "does not behave as described",
    ),
    (
        "a clock that was set, and what it makes of delays, ports and contracts",
        |e| {
            exact(e)[7].exact_ns = Some(PROMISE + 1);
            delay(e, 9, MS / 2);
            e.talkers[0].contract_excess_bits = Some(5_000);
            e.talkers[0].unexplained_excess_bits = 5_000;
            e.clock_set = vec!["The clock was set back by 3 s during the run.".to_owned()];
        },
        Verdict::Inconclusive,
        "The clock was set back by 3 s during the run. No time",
    ),
    (
        "a clock that was set, and a lost frame",
        |e| {
            e.streams[0].frames_received -= 1;
            e.clock_set = vec!["The clock was set back by 3 s during the run.".to_owned()];
        },
        Verdict::Broken,
        "Lost in the network",
    ),
];

#[test]
fn each_line_of_the_rule() {
    let mut wrong = Vec::new();
    for (name, plant, verdict, words) in LINES {
        let mut evidence = network(2_000);
        plant(&mut evidence);
        let judged = judge(&evidence);
        let reasons = judged.reasons.join(" ").replace('\u{a0}', " ");
        if judged.verdict != *verdict || !reasons.contains(words) {
            wrong.push(format!(
                "{name}: {}: {reasons:?}, not {}: {words:?}",
                judged.verdict.as_str(),
                verdict.as_str()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_drop_behind_a_stall_at_the_port_before_is_explained() {
    let mut evidence = network(2_000);
    delay(&mut evidence, 7, MS / 2);
    stall_at(&mut evidence, 7, MS / 2);
    // The frames go on to a second port, which is never late itself.
    let mut second = evidence.ports[0].clone();
    second.id = PortId::new("s1", "B");
    for frame in &mut second.emulated.as_mut().unwrap().frames {
        frame.came_ns = frame.left_ns;
        frame.entered_ns = frame.left_ns.unwrap();
    }
    evidence.streams[0].route.push(second.id.clone());
    evidence.ports.push(second);
    assert_eq!(judge(&evidence).verdict, Verdict::Kept);
    let drop_after = |ns: u64| {
        let mut evidence = evidence.clone();
        let second = &mut evidence.ports[1];
        second.frames_dropped = 1;
        let emulated = second.emulated.as_mut().unwrap();
        emulated.drops.push(PortDrop {
            frame: None,
            at_ns: emulated.frames[7].entered_ns + ns,
        });
        judge(&evidence).ports[1].verdict
    };
    assert_eq!(drop_after(50 * US), Verdict::Inconclusive);
    assert_eq!(drop_after(TOOK + 1), Verdict::Broken, "it is idle again");
    assert_eq!(drop_after(2 * MS), Verdict::Broken, "a frame on time");
}

#[test]
fn delays_that_are_not_judged_are_counted() {
    let mut evidence = network(2_000);
    for frame in &mut exact(&mut evidence)[..3] {
        frame.unsettled = true;
    }
    let reasons = judge(&evidence).streams[0].reasons.join(" ");
    assert!(
        reasons.contains("3 delays at the beginning not judged"),
        "{reasons}"
    );
}

/// `docs/verdict.md` names cases above for each line of its rule, and one of them has the line's verdict.
#[test]
fn the_page_names_a_case_for_each_line() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verdict.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut lines = 0;
    for row in page.lines().filter(|row| row.starts_with("| ")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [number, _, verdict, cases] = cells[..] else {
            continue;
        };
        if number.trim_start_matches("| ").parse() != Ok(lines + 1) {
            continue;
        }
        lines += 1;
        let named = cases.trim_end_matches(" |").split(", `");
        let named = named.map(|name| name.trim_matches('`'));
        let found: Vec<&Line> = named
            .map(|name| {
                let mut all = LINES.iter();
                let case = all.find(|case| case.0 == name);
                case.unwrap_or_else(|| panic!("line {lines}: no case `{name}`"))
            })
            .collect();
        assert!(
            found
                .iter()
                .any(|case| verdict.starts_with(case.2.as_str())),
            "line {lines}: none is {verdict}"
        );
    }
    assert_eq!(lines, 18);
}

#[test]
fn coverage_is_the_share_of_frames_that_needed_no_explanation() {
    let mut evidence = network(2_000);
    for i in 0..20 {
        delay(&mut evidence, i, MS / 2);
    }
    let all = (0..20).map(|i| core_stall((10 + i) * MS, (10 + i) * MS + MS / 2));
    evidence.stalls = stalls(all);
    let judged = &judge(&evidence).streams[0];
    assert_eq!((judged.explained, judged.coverage_ppm), (20, 990_000));
}
