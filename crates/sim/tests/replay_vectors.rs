//! Replays that can be computed by hand: gates, credits, regulators, full buffers, latencies; and wrong records.

use crate::common;

use common::{network, promises};
use rtwire_plan::{GateEntry, GateList, Network, Plan};
use rtwire_sim::SimulationError;
use rtwire_sim::replay::{Departure, Fate, Replay};

/// A time of CLOCK_TAI in 2026, not a multiple of any cycle here.
const TAI: u64 = 1_795_000_000_123_456_789;
const US: u64 = 1000;

/// Hosts A, B, C and D at one switch, 100 Mbit/s without overhead: 1000 B take 80 µs.
fn star(switch: &str, rest: &str) -> (Network, Plan) {
    let mut text = format!(
        "[network]\nname = \"star\"\n[defaults]\nframe-overhead = \"0 B\"\ntick-error = \"0 us\"\nlink-rate = \"100 Mbit/s\"\n\
         [[switch]]\nname = \"s\"\n{switch}\n"
    );
    for host in ["A", "B", "C", "D"] {
        text += &format!("[[host]]\nname = \"{host}\"\n[[link]]\nends = [\"{host}\", \"s\"]\n");
    }
    let network = network(&(text + rest));
    let plan = promises(&network);
    (network, plan)
}

fn stream(name: &str, talker: &str, frame: u64, more: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [\"B\"]\nframe = \"{frame} B\"\n{more}\n"
    )
}

const SLOW: &str = "interval = \"1 s\"";
const ROOM: &str = "latency = \"0 us\"\nbuffer = \"1 MB\"";

fn departure(flow: usize, frame: u64, at_ns: u64) -> Departure {
    Departure {
        flow,
        frame,
        at_ns,
        wire_bytes: None,
    }
}

/// Replays frames `(flow, number, time)` and returns what becomes of each, by flow and listener, then by number.
fn fates((network, plan): &(Network, Plan), frames: &[(usize, u64, u64)]) -> Vec<Fate> {
    let departures: Vec<Departure> = frames
        .iter()
        .map(|(flow, frame, at_ns)| departure(*flow, *frame, TAI + at_ns))
        .collect();
    let replayed = Replay::new(network, plan)
        .unwrap()
        .run(&departures)
        .unwrap();
    let listeners = replayed.listeners.iter();
    listeners
        .flat_map(|it| it.frames.iter().map(|frame| frame.fate))
        .collect()
}

fn at(us: u64) -> Fate {
    between(us * US, us * US)
}

fn between(least_ns: u64, most_ns: u64) -> Fate {
    Fate::Arrives { least_ns, most_ns }
}

#[test]
fn two_frames_meet_at_a_port() {
    let rest = stream("a", "A", 1000, SLOW) + &stream("c", "C", 1000, SLOW);
    let star = star(ROOM, &rest);
    assert_eq!(
        fates(&star, &[(0, 7, 0), (1, 7, 40 * US)]),
        [at(160), at(200)]
    );
    // A frame of another size than described: half the size, 40 µs on each link, so it is ahead at the switch.
    let smaller = Departure {
        wire_bytes: Some(500),
        ..departure(1, 0, TAI + 39 * US)
    };
    let replay = Replay::new(&star.0, &star.1).unwrap();
    let replayed = replay.run(&[departure(0, 0, TAI), smaller]).unwrap();
    let worst: Vec<_> = replayed.listeners.iter().map(|it| it.worst_ns()).collect();
    // It arrives at 79 µs and takes 40 µs; the other one comes at 80 µs and waits 39 µs.
    assert_eq!(worst, [Some(199 * US), Some(80 * US)]);
    assert_eq!(replayed.at(1, "B").unwrap().frame(0).unwrap().fate, at(80));
    assert!(replayed.at(1, "B").unwrap().frame(1).is_none());
    assert!(replayed.at(1, "A").is_none());
}

/// A 30 Mbit/s link takes 266 666 666 2/3 ps for 1000 B: the delay is rounded up to ns.
#[test]
fn delays_are_rounded_up() {
    let rest = stream("a", "A", 1000, SLOW);
    let (mut network, _) = star(ROOM, &rest);
    for link in &mut network.links {
        link.rate_bps = 30_000_000;
    }
    let plan = promises(&network);
    assert_eq!(
        fates(&(network, plan), &[(0, 0, 0)]),
        [between(533_334, 533_334)]
    );
}

/// Sets the gates of the port s>B: the most urgent queue for 200 µs, then all others for 800 µs, from 100 µs on.
fn gate((network, mut plan): (Network, Plan), entries: &[(u8, u64)]) -> (Network, Plan) {
    let port = plan
        .ports
        .iter_mut()
        .find(|port| port.node == "s" && port.port == "B");
    port.unwrap().gates = Some(GateList {
        cycle_ns: entries.iter().map(|entry| entry.1 * US).sum(),
        base_offset_ns: 100 * US,
        entries: entries
            .iter()
            .map(|(gates, us)| GateEntry {
                gates: *gates,
                duration_ns: us * US,
            })
            .collect(),
        scheduled_queues: 0x80,
        unscheduled_open_ns: 800 * US,
        guard_band_ns: 0,
    });
    (network, plan)
}

#[test]
fn a_frame_that_comes_as_its_gate_closes_waits_for_the_next_window() {
    let rest = stream("urgent", "A", 1000, &format!("{SLOW}\npriority = 7"));
    let star = gate(
        star(&format!("{ROOM}\nqueues = 8"), &rest),
        &[(0x80, 200), (0x7f, 800)],
    );
    // The last whole ms of CLOCK_TAI before the record: windows are at 100 to 300 µs after each.
    let ms = TAI / 1_000_000 * 1_000_000;
    // Frames reach the port 80 µs after their departure.
    let run = |at_us_of_ms: &[(u64, u64)]| -> Vec<Fate> {
        let departures: Vec<Departure> = at_us_of_ms
            .iter()
            .map(|(us, ns)| departure(0, us * US + ns, ms + us * US + ns))
            .collect();
        let replayed = Replay::new(&star.0, &star.1).unwrap().run(&departures);
        let frames = &replayed.unwrap().listeners[0].frames;
        frames.iter().map(|frame| frame.fate).collect()
    };
    // It comes at 150 µs, within the window.
    assert_eq!(run(&[(70, 0)]), [at(160)]);
    // It comes 1 ns before the gate closes, and begins at once.
    assert_eq!(run(&[(219, 999)]), [at(160)]);
    // It comes as the gate closes: the next window begins 800 µs later.
    assert_eq!(run(&[(220, 0)]), [at(960)]);
    // Whatever came first in the record, gates are where they are.
    assert_eq!(run(&[(0, 0), (220, 0)]), [at(180), at(960)]);
    assert_eq!(run(&[(220, 0), (1_070_220, 0)])[0], at(960));
}

#[test]
fn cycles_without_a_common_multiple_are_rebased_exactly() {
    // A prime cycle of 997 µs beside one of 1 ms: the window that is open is found from CLOCK_TAI by hand.
    let rest = stream("urgent", "A", 1000, &format!("{SLOW}\npriority = 7"));
    let star = gate(
        star(&format!("{ROOM}\nqueues = 8"), &rest),
        &[(0x80, 200), (0x7f, 797)],
    );
    let cycle = 997 * US;
    for step in 0..40 {
        let sent = TAI + step * 31_337_331;
        let into = (sent + 80 * US + cycle - 100 * US) % cycle;
        let wait = if into < 200 * US { 0 } else { cycle - into };
        let replay = Replay::new(&star.0, &star.1).unwrap();
        let replayed = replay.run(&[departure(0, 0, sent)]).unwrap();
        let delay = 160 * US + wait;
        assert_eq!(replayed.listeners[0].frames[0].fate, between(delay, delay));
    }
}

#[test]
fn a_frame_that_fits_no_window_is_stuck_and_nothing_else_is() {
    let switch = format!("{ROOM}\nqueues = 8\ngates = \"held\"");
    let profile = "[[gate-profile]]\nname = \"held\"\nguard-band = \"built-in\"\n";
    let rest = stream("long", "A", 1000, &format!("{SLOW}\npriority = 7"))
        + &stream("low", "C", 1000, &format!("{SLOW}\npriority = 0"))
        + profile;
    // The hardware holds frames back that would not end within their window of 79 µs.
    let star = gate(star(&switch, &rest), &[(0x80, 79), (0x7f, 800)]);
    let fates = fates(&star, &[(0, 0, 0), (0, 1, 100 * US), (1, 0, 0)]);
    assert_eq!(fates[..2], [Fate::Stuck, Fate::Stuck]);
    assert!(matches!(fates[2], Fate::Arrives { .. }));
    assert_eq!(
        (fates[0].most_ns(), fates[2].most_ns().is_some()),
        (None, true)
    );
}

#[test]
fn credits_pace_a_class() {
    // Each frame costs 75 Mbit/s x 80 µs = 6000 bit, which return at 25 Mbit/s in 240 µs.
    let shaper = "[[shaper]]\nnode = \"s\"\nto = \"B\"\npriority = 7\nkind = \"credit\"\nidle-slope = \"25 Mbit/s\"\n";
    let rest = stream(
        "av",
        "A",
        1000,
        "rate = \"20 Mbit/s\"\nburst = \"4000 B\"\npriority = 7",
    ) + &stream("low", "C", 1000, &format!("{SLOW}\npriority = 0"))
        + shaper;
    let star = star(&format!("{ROOM}\nqueues = 2"), &rest);
    // They reach the switch at 80, 160 and 240 µs, and begin at 80, 400 and 720 µs. The other class uses the pause.
    assert_eq!(
        fates(&star, &[(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 100 * US)]),
        [at(160), at(480), at(800), at(160)]
    );
}

#[test]
fn a_regulator_holds_what_comes_too_early() {
    // 1000 B are 8000 bit: one each 8 ms at 1 Mbit/s. The regulator is at the switch, behind 80 µs.
    let shaper = "[[shaper]]\nnode = \"s\"\npriority = 7\nkind = \"asynchronous\"\n";
    let rest = stream(
        "a",
        "A",
        1000,
        "rate = \"1 Mbit/s\"\nburst = \"1000 B\"\npriority = 7",
    ) + shaper;
    let star = star(&format!("{ROOM}\nqueues = 2"), &rest);
    // The second breaks the contract by 7 ms: it passes at 8.08 ms, and with the same delay as the third.
    assert_eq!(
        fates(&star, &[(0, 0, 0), (0, 1, 1000 * US), (0, 2, 16_000 * US)]),
        [at(160), at(7160), at(160)]
    );
}

/// The receivers of one allowance share its tokens: the regulator knows only one stream.
#[test]
fn the_receivers_of_an_allowance_are_flows_of_their_own_and_share_its_regulator() {
    let rest = "[[best-effort]]\nhost = \"A\"\nto = [\"B\", \"C\"]\nrate = \"1 Mbit/s\"\nburst = \"1000 B\"\n\
                frame = \"1000 B\"\n";
    let plain = star(ROOM, rest);
    let replay = Replay::new(&plain.0, &plain.1).unwrap();
    assert_eq!(replay.flow_count(), 2);
    let replayed = replay.run(&[departure(1, 0, TAI)]).unwrap();
    let received: Vec<_> = replayed
        .listeners
        .iter()
        .map(|it| (it.flow, it.listener.as_str(), it.frames.len()))
        .collect();
    assert_eq!(received, [(0, "B", 0), (1, "C", 1)]);
    let planned: Vec<_> = plain
        .1
        .best_effort
        .iter()
        .map(|it| it.to.as_str())
        .collect();
    assert_eq!(planned, ["B", "C"], "the plan has the same order");
    // Two switches; the first regulates what goes to the second.
    let text = "[network]\nname = \"two\"\n[defaults]\nframe-overhead = \"0 B\"\nlink-rate = \"100 Mbit/s\"\n";
    let parts = ["s", "t"].map(|name| format!("[[switch]]\nname = \"{name}\"\n{ROOM}\n"));
    let hosts = ["A", "B", "C"].map(|name| format!("[[host]]\nname = \"{name}\"\n"));
    let links = [("A", "s"), ("s", "t"), ("B", "t"), ("C", "t")]
        .map(|(a, b)| format!("[[link]]\nends = [\"{a}\", \"{b}\"]\n"));
    let shaper = "[[shaper]]\nnode = \"s\"\npriority = 0\nkind = \"asynchronous\"\n";
    let text = format!(
        "{text}{}{}{}{rest}{shaper}",
        parts.concat(),
        hosts.concat(),
        links.concat()
    );
    let network = network(&text);
    let plan = promises(&network);
    // The first passes at 80 µs and takes 80 µs on each of two links more; the second passes 8 ms after it.
    assert_eq!(
        fates(&(network, plan), &[(0, 0, 0), (1, 0, 0)]),
        [at(240), at(8240)]
    );
}

/// The record takes the place of a source that sends without end. A drop is of the receiver behind it only.
#[test]
fn only_what_is_recorded_is_sent_and_each_receiver_has_its_own_result() {
    let text = "[[stream]]\nname = \"m\"\ntalker = \"A\"\nlisteners = [\"B\", \"C\"]\nframe = \"1000 B\"\n\
                rate = \"1 Mbit/s\"\nshaper = \"off\"\n";
    let star = star(
        "latency = \"0 us\"\nbuffer = \"1000 B\"",
        &(text.to_owned() + &stream("d", "D", 1000, SLOW)),
    );
    // The frame of D is at B's port when the frame of A comes; C's port is free.
    let frames = [(0, 0, 40 * US), (1, 0, 0)];
    assert_eq!(fates(&star, &frames), [Fate::Dropped, at(160), at(160)]);
    // C's port never opens a gate: there the same frame is stuck, not dropped.
    let (network, mut plan) = star;
    let port = plan
        .ports
        .iter_mut()
        .find(|it| it.node == "s" && it.port == "C");
    port.unwrap().gates = Some(GateList {
        cycle_ns: 1000,
        base_offset_ns: 0,
        entries: vec![GateEntry {
            gates: 0,
            duration_ns: 1000,
        }],
        scheduled_queues: 0,
        unscheduled_open_ns: 0,
        guard_band_ns: 0,
    });
    assert_eq!(
        fates(&(network, plan), &frames),
        [Fate::Dropped, Fate::Stuck, at(160)]
    );
}

#[test]
fn a_full_buffer_drops() {
    let rest = stream("a", "A", 1000, SLOW)
        + &stream("c", "C", 1000, SLOW)
        + &stream("d", "D", 1000, SLOW);
    let star = star("latency = \"0 us\"\nbuffer = \"2000 B\"", &rest);
    // All come at 80 µs, before the first is chosen: there is room for two.
    assert_eq!(
        fates(&star, &[(0, 0, 0), (1, 0, 0), (2, 0, 0)]),
        [at(160), at(240), Fate::Dropped]
    );
    // 1 ns later the first is on the wire, but not yet gone: the third needs 1000 B and finds 999 B and 7 bit.
    assert_eq!(
        fates(&star, &[(0, 0, 0), (1, 0, 0), (2, 0, 1)]),
        [at(160), at(240), Fate::Dropped]
    );
    // When the first is gone there is room.
    assert_eq!(
        fates(&star, &[(0, 0, 0), (1, 0, 0), (2, 0, 80 * US)]),
        [at(160), at(240), at(240)]
    );
}

#[test]
fn the_ways_to_use_a_latency_are_all_tried() {
    let switch = "latency = \"10 us\"\nbuffer = \"2000 B\"";
    let rest = stream("a", "A", 1000, SLOW) + &stream("c", "C", 1000, SLOW);
    let star = star(switch, &rest);
    // Alone: at once, or 10 µs later.
    assert_eq!(fates(&star, &[(0, 0, 0)]), [between(160 * US, 170 * US)]);
    // The second comes while the first waits or is sent; behind a late port both are late.
    assert_eq!(
        fates(&star, &[(0, 0, 0), (1, 0, 40 * US)]),
        [between(160 * US, 170 * US), between(200 * US, 210 * US)]
    );
    // Three frames: with a latency, the first is not yet on the wire when the third comes, or not far enough.
    let fates = fates(&star, &[(0, 0, 0), (1, 0, 0), (0, 1, 80 * US)]);
    assert_eq!(fates[0], between(160 * US, 170 * US));
    assert_eq!(fates[2], between(240 * US, 250 * US));
    assert!(
        matches!(fates[1], Fate::MayArrive { least_ns, .. } if least_ns == 240 * US),
        "{fates:?}"
    );
}

#[test]
fn the_order_of_the_record_does_not_matter() {
    let rest = stream("a", "A", 1000, SLOW) + &stream("c", "C", 1000, SLOW);
    let star = star(ROOM, &rest);
    let replay = Replay::new(&star.0, &star.1).unwrap();
    let mut departures: Vec<Departure> = (0..50)
        .map(|n| departure((n % 2) as usize, 1000 - n, TAI + n / 3 * 70 * US))
        .collect();
    let forward = replay.run(&departures).unwrap();
    departures.reverse();
    assert_eq!(replay.run(&departures).unwrap(), forward);
    departures.swap(3, 40);
    assert_eq!(replay.run(&departures).unwrap(), forward);
    let frames = &forward.listeners[0].frames;
    assert!(frames.windows(2).all(|pair| pair[0].frame < pair[1].frame));
    assert!(replay.run(&[]).unwrap().listeners[0].frames.is_empty());
}

#[test]
fn wrong_records_are_refused_with_the_reason() {
    let star = star(ROOM, &stream("a", "A", 1000, SLOW));
    let replay = Replay::new(&star.0, &star.1).unwrap();
    let good = departure(0, 3, TAI);
    assert_eq!(
        replay.run(&[good, departure(1, 0, TAI)]),
        Err(SimulationError::UnknownFlow { flow: 1, flows: 1 })
    );
    assert_eq!(
        replay.run(&[good, departure(0, 3, TAI + 5)]),
        Err(SimulationError::Repeated { flow: 0, frame: 3 })
    );
    for bytes in [0, 65_537, u32::MAX] {
        let wrong = Departure {
            wire_bytes: Some(bytes),
            ..good
        };
        let error = replay.run(&[wrong]).unwrap_err();
        assert!(
            matches!(error, SimulationError::FrameSize { .. }),
            "{error}"
        );
    }
    for far in [0, u64::MAX] {
        let error = replay.run(&[good, departure(0, 4, far)]).unwrap_err();
        assert!(matches!(error, SimulationError::Range { .. }), "{error}");
    }
    assert!(replay.run(&[departure(0, u64::MAX, u64::MAX)]).is_ok());
    let mut other = star.1.clone();
    other.streams[0].name = "b".to_owned();
    assert!(matches!(
        Replay::new(&star.0, &other),
        Err(SimulationError::Inconsistent { .. })
    ));
}

/// A link so slow that the frames would need months.
#[test]
fn a_replay_without_end_is_refused() {
    let (mut network, _) = star(ROOM, &stream("a", "A", 1500, SLOW));
    let plan = promises(&network);
    network.links[0].rate_bps = 1;
    let replay = Replay::new(&network, &plan).unwrap();
    let departures: Vec<Departure> = (0..1000).map(|n| departure(0, n, TAI)).collect();
    let error = replay.run(&departures).unwrap_err();
    assert!(matches!(error, SimulationError::Range { .. }), "{error}");
}
