//! Tests with hand-made cycles whose figures are known.

use super::*;
use crate::capture::{LINK_ETHERNET, Packet, Reader};
use crate::report::Machine;

/// A capture under construction: frames at chosen times.
struct Cycles {
    follower: Follower,
    number: u64,
}

const BASE_NS: u64 = 1_700_000_000_000_000_000;

impl Cycles {
    fn new(settings: Settings) -> Self {
        Self {
            follower: Follower::new(settings),
            number: 0,
        }
    }

    fn frame(&mut self, at_ns: u64, payload: &[u8]) {
        let mut data = vec![0; 12];
        data.extend([0x88, 0xab]);
        data.extend(payload);
        data.resize(60, 0);
        self.number += 1;
        self.follower.packet(&Packet {
            number: self.number,
            time_ns: Some(BASE_NS + at_ns),
            link_type: LINK_ETHERNET,
            data: &data,
            original_octets: 60,
        });
    }

    fn soc(&mut self, at_ns: u64) {
        self.frame(at_ns, &[1, 255, 240]);
    }

    fn preq(&mut self, at_ns: u64, node: u8) {
        self.frame(at_ns, &[3, node, 240]);
    }

    fn pres(&mut self, at_ns: u64, node: u8) {
        self.frame(at_ns, &[4, 255, node, 0xfd]);
    }

    fn soa(&mut self, at_ns: u64, state: u8, service: u8, target: u8) {
        self.frame(at_ns, &[5, 255, 240, state, 0, 0, service, target]);
    }

    fn finish(self) -> (JitterReport, Neighbourhood) {
        self.follower.finish(
            "made",
            "by hand",
            "rtwire jitter made",
            Machine::this("test"),
        )
    }
}

const US: u64 = 1_000;

#[test]
fn deviations_latencies_and_use_are_those_of_the_frames() {
    let mut cycles = Cycles::new(Settings::default());
    let starts = [0, 1_000, 2_003, 2_999, 4_000, 5_000].map(|us| us * US);
    for (index, start) in (0..).zip(starts) {
        cycles.soc(start);
        cycles.preq(start + 50 * US, 1);
        cycles.pres(start + (70 + index) * US, 1);
        cycles.preq(start + 100 * US, 2);
        cycles.pres(start + 110 * US, 2);
        cycles.soa(start + 200 * US, 0xfd, 0, 0);
    }
    let (report, around) = cycles.finish();
    let soc = report.soc.as_ref().unwrap();
    assert_eq!(report.cycle.unwrap().cycle_ns, 1_000 * US);
    assert!(!report.cycle.unwrap().stated);
    assert_eq!(soc.deviation_ns.samples, 5);
    assert_eq!((soc.deviation_ns.min, soc.deviation_ns.max), (0, 4 * US));
    assert_eq!(
        (soc.interval_ns.min, soc.interval_ns.max),
        (996 * US, 1_003 * US)
    );
    assert_eq!((soc.missing, soc.restarts), (0, 0));
    assert_eq!(soc.histogram.iter().map(|b| b.count).sum::<u64>(), 5);
    let latency = |node: usize| report.nodes[node].latency_ns.unwrap();
    assert_eq!((latency(0).min, latency(0).max), (20 * US, 25 * US));
    assert_eq!((latency(1).min, latency(1).max), (10 * US, 10 * US));
    assert_eq!(report.nodes[0].last_state.as_deref(), Some("operational"));
    let used = report.utilization.unwrap();
    assert_eq!(used.isochronous_ns.unwrap().p50, 200 * US);
    assert_eq!(used.isochronous_percent_p50, Some(20.0));
    // Six frames of 84 bytes on the wire at 100 Mbit/s.
    assert_eq!(used.wire_ns.p50, 6 * 84 * 80);
    // The worst SoC is the early one; its packet has the comment.
    let worst = &report.worst[0];
    assert_eq!(
        (
            worst.kind,
            worst.value_ns,
            worst.number,
            worst.words.as_str()
        ),
        (WorstKind::Soc, 4 * US, 19, "SoC 4.000 µs early")
    );
    assert_eq!(report.worst[1].words, "SoC 3.000 µs late");
    assert_eq!(around.len(), 36);
}

#[test]
fn lost_and_late_are_told_apart() {
    let mut cycles = Cycles::new(Settings::default());
    for cycle in 0..10 {
        let start = cycle * 1_000 * US;
        cycles.soc(start);
        cycles.preq(start + 10 * US, 1);
        match cycle {
            // Never answered.
            3 => {}
            // After the next PReq, but in time for the cycle.
            5 => {
                cycles.preq(start + 60 * US, 2);
                cycles.pres(start + 61 * US, 1);
                cycles.pres(start + 70 * US, 2);
            }
            // In the next cycle only.
            7 => {}
            8 => cycles.pres(start + 20 * US, 1),
            _ => cycles.pres(start + 20 * US, 1),
        }
        if cycle == 8 {
            continue;
        }
        if cycle == 7 {
            cycles.soc(start + 1_000 * US);
            cycles.pres(start + 1_005 * US, 1);
            continue;
        }
        cycles.soa(start + 200 * US, 0xfd, 0, 0);
    }
    let (report, _) = cycles.finish();
    let node = &report.nodes[0];
    assert_eq!((node.polled, node.lost, node.late), (10, 1, 2), "{node:?}");
    assert_eq!(node.answered, 9);
    let silent: Vec<_> = report
        .worst
        .iter()
        .filter(|case| case.kind == WorstKind::NoPres)
        .collect();
    assert_eq!(silent.len(), 2);
    assert_eq!(silent[0].words, "no PRes of node 1 before this SoC");
}

#[test]
fn a_missing_soc_is_a_deviation_and_a_reduced_cycle_is_none() {
    let mut cycles = Cycles::new(Settings {
        cycle_ns: Some(1_000 * US),
        ..Settings::default()
    });
    for start in [0, 1_000, 2_000, 5_000, 6_000].map(|us| us * US) {
        cycles.soc(start);
        cycles.soa(start + 100 * US, 0xfd, 0, 0);
    }
    // The managing node falls back: SoA without SoC.
    for start in [6_500, 7_100, 90_000].map(|us| us * US) {
        cycles.soa(start, 0x1d, 1, 7);
    }
    for start in [200_000, 201_000].map(|us| us * US) {
        cycles.soc(start);
        cycles.soa(start + 100 * US, 0xfd, 0, 0);
    }
    let (report, _) = cycles.finish();
    let soc = report.soc.unwrap();
    assert_eq!((soc.missing, soc.restarts), (2, 1));
    assert_eq!(soc.deviation_ns.max, 2_000 * US, "three cycles less one");
    assert_eq!(soc.deviation_ns.samples, 5);
    assert!(report.cycle.unwrap().stated);
    assert_eq!(
        report.asynchronous,
        [AsynchronousReport {
            node: 7,
            asked: 3,
            answered: 0,
            latency_ns: None
        }]
    );
}

#[test]
fn limits_are_judged() {
    let mut cycles = Cycles::new(Settings::default());
    for start in [0, 1_000, 2_010, 3_010].map(|us| us * US) {
        cycles.soc(start);
        cycles.preq(start + US, 1);
        cycles.pres(start + 31 * US, 1);
    }
    let (mut report, _) = cycles.finish();
    assert!(report.judge(Some(10 * US), Some(30 * US)));
    assert!(report.limits.broken.is_empty());
    assert!(!report.judge(Some(9 * US), Some(29 * US)));
    assert_eq!(
        report.limits.broken,
        [
            "a SoC was 10.00 µs from its cycle, more than 9.000 µs",
            "node 1 took 30.00 µs, more than 29.00 µs"
        ]
    );
    let (mut nothing, around) = Cycles::new(Settings::default()).finish();
    assert!(!nothing.judge(Some(1), Some(1)));
    assert!(around.is_empty());
    assert!(
        nothing
            .print_text()
            .contains("LIMIT BROKEN: no SoC was measured")
    );
    assert!(nothing.to_html().contains("Not within the limits"));
}

#[test]
fn what_was_around_the_worst_cases_is_a_capture() {
    let settings = Settings {
        worst: 1,
        around: 2,
        ..Settings::default()
    };
    let mut cycles = Cycles::new(settings);
    for cycle in 0..100 {
        let late = if cycle == 60 { 300 * US } else { 0 };
        cycles.soc(cycle * 1_000 * US + late);
        cycles.preq(cycle * 1_000 * US + 400 * US, 1);
        cycles.pres(cycle * 1_000 * US + 410 * US, 1);
    }
    let (report, around) = cycles.finish();
    assert_eq!(report.worst[0].words, "SoC 300.0 µs late");
    let mut file = Vec::new();
    around.write(&mut file).unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    let mut times = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        times.push(packet.time_ns.unwrap() - BASE_NS);
    }
    assert!(times.contains(&(60_300 * US)), "{times:?}");
    assert!(times.len() < 15, "{}", times.len());
    let text = String::from_utf8_lossy(&file);
    assert!(text.contains("SoC 300.0 µs late"));
    assert!(text.contains("packet 179 of the whole capture"), "{text}");
}

#[test]
fn short_frames_are_counted_and_nothing_panics() {
    let mut follower = Follower::new(Settings::default());
    for length in 0..40 {
        for kind in 0..=255 {
            let mut data = vec![0; 12];
            data.extend([0x88, 0xab, kind, 7, 240, 0x1d, 1, 2, 3, 4, 5]);
            data.truncate(length);
            follower.packet(&Packet {
                number: 1,
                time_ns: Some(u64::from(kind)),
                link_type: LINK_ETHERNET,
                data: &data,
                original_octets: 0,
            });
        }
    }
    assert!(follower.frames.malformed > 0);
    assert!(follower.frames.backwards > 0);
    let (report, _) = follower.finish("x", "y", "z", Machine::this("test"));
    assert!(report.to_html().contains("</html>"));
}
