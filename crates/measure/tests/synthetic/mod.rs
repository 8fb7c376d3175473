//! Reports of simulated runs of realistic size: four streams through one switch port. The port's queue is simulated,
//! so delays, backlog and stalls fit together.

use std::collections::VecDeque;

use rtwire_measure::noise::{
    CoreNoise, HistogramBucket, NoiseRecord, Stall, StallSource, StealInterval,
};
use rtwire_measure::report::{
    Calibration, DrawnLink, DrawnNode, HostReport, Machine, Network, NodeKind, PortReport, Report,
    StreamReport, TalkerReport,
};
use rtwire_measure::summary::Summary;
use rtwire_measure::verdict::{
    BacklogSample, Evidence, PortEvidence, PortId, Sample, StreamEvidence, TalkerEvidence, judge,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const START: u64 = 1_795_209_399_000_000_000;
const WIRE_BITS: u64 = 1_538 * 8;

/// The scenario that the report shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Story {
    /// All frames in time, on a machine with short stalls.
    Kept,
    /// Three promises too small, one frame lost.
    Broken,
    /// Many long stalls of the machine.
    Inconclusive,
}

/// Pseudo-random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }

    /// Mostly small values, rarely large ones.
    fn tailed(&mut self, typical: u64) -> u64 {
        let doublings = (self.next(1 << 20) + 1).leading_zeros() - 43;
        typical / 2 + self.next(typical) + (typical / 6) * u64::from(doublings).pow(2)
    }
}

struct Talker {
    name: &'static str,
    host: &'static str,
    rate_mbit: u64,
    frame_bits: u64,
    tick_ns: u64,
    promise_ns: u64,
}

struct Frame {
    talker: usize,
    tx: u64,
}

pub(crate) fn report(story: Story, seconds: u64) -> Report {
    let duration = seconds * 1_000 * MS;
    let mut random = Random(42);
    let tight = story == Story::Broken;
    let talkers = [
        Talker {
            name: "A-to-B",
            host: "A",
            rate_mbit: 1,
            frame_bits: 88 * 8,
            tick_ns: MS,
            promise_ns: 1_411_300,
        },
        Talker {
            name: "C-to-B",
            host: "C",
            rate_mbit: 30,
            frame_bits: WIRE_BITS,
            tick_ns: MS,
            promise_ns: if tight { 780 * US } else { 1_518_200 },
        },
        Talker {
            name: "D-to-B",
            host: "D",
            rate_mbit: 32,
            frame_bits: WIRE_BITS,
            tick_ns: MS,
            promise_ns: if tight { 820 * US } else { 1_518_200 },
        },
        Talker {
            name: "E-to-B",
            host: "E",
            rate_mbit: 20,
            frame_bits: WIRE_BITS,
            tick_ns: MS,
            promise_ns: if tight { 700 * US } else { 1_518_200 },
        },
    ];
    let stalls = stalls(story, duration, &mut random);
    let mut frames = Vec::new();
    for (i, t) in talkers.iter().enumerate() {
        let mut budget = 0;
        for tick in 0..duration / t.tick_ns - 20 {
            budget = if i == 0 {
                t.frame_bits
            } else {
                budget + t.rate_mbit * t.tick_ns / US
            };
            let mut tx = START + tick * t.tick_ns + random.tailed(20 * US) + i as u64 * 30 * US;
            while budget >= t.frame_bits {
                frames.push(Frame { talker: i, tx });
                tx += t.frame_bits * 10;
                budget -= t.frame_bits;
            }
        }
    }
    frames.sort_by_key(|f| f.tx);
    let (arrivals, backlog) = play(&frames, &talkers, &stalls, &mut random);

    let route = |host: &str| vec![PortId::new(host, "s1"), PortId::new("s1", "B")];
    let mut streams: Vec<StreamEvidence> = Vec::new();
    for (i, t) in talkers.iter().enumerate() {
        let samples: Vec<Sample> = frames
            .iter()
            .zip(&arrivals)
            .filter(|(f, _)| f.talker == i)
            .enumerate()
            .map(|(seq, (f, rx))| Sample {
                seq: seq as u32,
                tx_ns: Some(f.tx),
                rx_ns: Some(*rx),
                app_tx_ns: f.tx - 1 - random.next(3 * US),
                app_rx_ns: rx + random.tailed(22 * US),
            })
            .collect();
        let n = samples.len() as u64;
        streams.push(StreamEvidence {
            name: t.name.to_owned(),
            listener: "B".to_owned(),
            promise_ns: Some(t.promise_ns),
            deadline_ns: None,
            published_max_ns: Some(1_400 * US),
            samples,
            frames_planned: n,
            frames_sent: n + u64::from(tight && i == 1),
            frames_received: n,
            frames_overtaken: 0,
            frames_corrupted: 0,
            frames_duplicated: 0,
            frames_reordered: 0,
            listener_drops: 0,
            route: route(t.host),
            link_rate_bps: 100_000_000,
            utilization_ppm: 840_000,
            hold_ns: 600 * US,
            emulated: None,
            clock_uncertainty_ns: Some(0),
        });
    }
    let max = backlog.iter().map(|b| b.max_bytes).max();
    let port = PortEvidence {
        id: PortId::new("s1", "B"),
        link_rate_bps: 100_000_000,
        promised_backlog_bytes: Some(17_804),
        buffer_bytes: Some(130_204),
        max_backlog_bytes: max,
        frames_dropped: u64::from(tight),
        drop_windows: vec![],
        backlog,
        utilization_ppm: 840_000,
        hold_ns: 600 * US,
        utilization_percent: 83.6,
        emulated: None,
    };
    let talker_evidence = talkers.iter().map(|t| TalkerEvidence {
        stream: t.name.to_owned(),
        ports: route(t.host),
        rate_bps: t.rate_mbit * 1_000_000,
        tick_error_declared_ns: 100 * US,
        tick_overshoot_max_ns: 92 * US,
        shaper_caps_burst: true,
        contract_excess_bits: Some(0),
        unexplained_excess_bits: 0,
        best_effort: false,
        frames_off_launch: 0,
        frames_planned: 0,
        frames_sent: 0,
    });
    let noise = noise(stalls, duration, &mut random);
    let evidence = Evidence {
        streams,
        ports: vec![port],
        talkers: talker_evidence.collect(),
        stalls: noise.stall_record(),
        ..Evidence::default()
    };
    let judgement = judge(&evidence);
    let stream_reports = evidence
        .streams
        .iter()
        .zip(&judgement.streams)
        .zip(&talkers)
        .map(|((e, j), t)| {
            let description = if t.rate_mbit == 1 {
                "one frame each 1 ms".to_owned()
            } else {
                format!("{} Mbit/s, T_s 1 ms", t.rate_mbit)
            };
            StreamReport::new(e, j, t.host, &description, START, duration)
        });
    Report {
        format: 2,
        title: "five nodes".to_owned(),
        verdict: judgement.verdict,
        reasons: judgement.reasons.clone(),
        streams: stream_reports.collect(),
        ports: evidence.ports.iter().zip(&judgement.ports).map(|(e, j)| PortReport::new(e, j, START, duration)).collect(),
        talkers: evidence.talkers.iter().zip(&judgement.talkers).map(|(e, j)| TalkerReport::new(e, j)).collect(),
        sharing: None,
        hosts: talkers.iter().map(|t| host(t, seconds)).collect(),
        calibration: ["A", "B", "C", "D", "E"]
            .iter()
            .map(|n| Calibration { node: "s1".to_owned(), port: (*n).to_owned(), latency_ns: 61_400, samples: 500, p50_ns: 21_300, max_ns: 58_210 })
            .collect(),
        noise: Some(noise),
        machine: Machine {
            rtwire_version: "0.1.0".to_owned(),
            ..Machine::this("0.1.0")
        },
        command: "rtwire lab examples/five-nodes.toml --set shaping-interval=1ms --duration 8s --report five-nodes.html".to_owned(),
        started_at: "2026-11-20T21:16:02Z".to_owned(),
        started_tai_ns: START,
        duration_s: seconds as f64,
        plan_hash: "sha256:1d0c3a6ff2a84b17".to_owned(),
        rule: evidence.rule,
        notes: vec!["The kernel of this machine preempts only voluntarily; wake-ups of milliseconds are to be expected.".to_owned()],
        network: network(),
    }
}

fn stalls(story: Story, duration: u64, random: &mut Random) -> Vec<Stall> {
    let (every, typical) = match story {
        Story::Kept => (900 * MS, 260 * US),
        Story::Broken => (1_500 * MS, 240 * US),
        Story::Inconclusive => (700 * MS, 9 * MS),
    };
    let mut stalls = Vec::new();
    let mut at = START + every / 3;
    while at < START + duration {
        let length = 200 * US + random.next(typical);
        let source = StallSource::Core(random.next(2) as u32);
        stalls.push(Stall {
            source,
            alive_ns: at - 150 * US,
            due_ns: at,
            woke_ns: at + length,
        });
        at += every / 2 + random.next(every);
    }
    stalls
}

/// One queue, served at 100 Mbit/s except during stalls.
fn play(
    frames: &[Frame],
    talkers: &[Talker],
    stalls: &[Stall],
    random: &mut Random,
) -> (Vec<u64>, Vec<BacklogSample>) {
    let mut free_at = 0;
    let mut backlog: Vec<BacklogSample> = Vec::new();
    let mut queue: VecDeque<(u64, u64)> = VecDeque::new();
    let arrivals = frames.iter().map(|f| {
        let bits = talkers[f.talker].frame_bits;
        let arrived = f.tx + bits * 10 + 500;
        let mut done = free_at.max(arrived + 12 * US + random.tailed(6 * US)) + bits * 10;
        for stall in stalls {
            if stall.due_ns < done && stall.woke_ns > done - bits * 10 {
                done = done.max(stall.woke_ns + bits * 10);
            }
        }
        free_at = done;
        queue.retain(|(left, _)| *left > arrived);
        queue.push_back((done, bits / 8));
        let waiting = queue.iter().map(|(_, bytes)| bytes).sum();
        let slot = START + (arrived - START) / (2 * MS) * (2 * MS);
        match backlog.last_mut() {
            Some(last) if last.from_ns == slot => last.max_bytes = last.max_bytes.max(waiting),
            _ => backlog.push(BacklogSample {
                from_ns: slot,
                to_ns: slot + 2 * MS,
                max_bytes: waiting,
            }),
        }
        done + 500
    });
    (arrivals.collect(), backlog)
}

fn noise(stalls: Vec<Stall>, duration: u64, random: &mut Random) -> NoiseRecord {
    let core = |core: u32, random: &mut Random| {
        let mine: Vec<u64> = stalls
            .iter()
            .filter(|s| s.source == StallSource::Core(core))
            .map(Stall::length_ns)
            .collect();
        let mut late: Vec<u64> = (0..duration / 250_000)
            .map(|_| 600 + random.tailed(4_000))
            .collect();
        late.extend(&mine);
        let mut histogram: Vec<HistogramBucket> = Vec::new();
        let (mut from_ns, mut to_ns) = (0, 1_000);
        while late.iter().any(|l| *l >= from_ns) {
            let count = late
                .iter()
                .filter(|l| (from_ns..to_ns).contains(*l))
                .count() as u64;
            histogram.push(HistogramBucket {
                from_ns,
                to_ns,
                count,
            });
            (from_ns, to_ns) = (to_ns, to_ns * 2);
        }
        CoreNoise {
            core,
            policy: "SCHED_FIFO".to_owned(),
            priority: 90,
            policy_at_end: "SCHED_FIFO".to_owned(),
            priority_at_end: 90,
            fallback: None,
            overshoot_ns: Summary::of(late),
            histogram,
            steal_ns: 30 * MS,
            stalls: mine.len() as u64,
            stalled_ns: mine.iter().sum(),
            dropped_stalls: 0,
        }
    };
    let cores = vec![core(0, random), core(1, random)];
    let mut record = NoiseRecord {
        from_ns: START,
        to_ns: START + duration,
        period_ns: 250_000,
        stall_threshold_ns: 200_000,
        cores,
        stalls: Vec::new(),
        steal: (0..3)
            .map(|i| StealInterval {
                core: 0,
                from_ns: START + (i * 2 + 1) * 1_000 * MS,
                to_ns: START + (i * 2 + 1) * 1_000 * MS + 100 * MS,
                stolen_ns: 10 * MS,
            })
            .collect(),
    };
    let late_reader = (0..4).map(|i| Stall {
        source: StallSource::Listener("A-to-B".to_owned()),
        alive_ns: START + i * 1_700 * MS,
        due_ns: START + i * 1_700 * MS,
        woke_ns: START + i * 1_700 * MS + 350 * US,
    });
    record.add(stalls);
    record.add(late_reader);
    record
}

fn host(t: &Talker, seconds: u64) -> HostReport {
    HostReport {
        name: t.host.to_owned(),
        shaper_cpu_ns: Some(seconds * 11 * MS),
        shaper_cpu_percent: Some(1.1),
        tick_error_declared_ns: Some(100 * US),
        tick_overshoot_ns: Some(Summary {
            min: 1_800,
            p50: 6_900,
            p99: 31_000,
            p999: 70_300,
            max: 92_000,
            samples: seconds * 1_000,
        }),
        wakeups: seconds * 1_000,
        ticks_skipped: 0,
    }
}

fn network() -> Network {
    let node = |name: &str, kind| DrawnNode {
        name: name.to_owned(),
        kind,
    };
    let mut nodes: Vec<DrawnNode> = ["A", "B", "C", "D", "E"]
        .iter()
        .map(|n| node(n, NodeKind::Host))
        .collect();
    nodes.push(node("s1", NodeKind::Switch));
    let link = |from: &str, to: &str, percent: f64| DrawnLink {
        from: from.to_owned(),
        to: to.to_owned(),
        rate_bps: 100_000_000,
        utilization_percent: Some(percent),
    };
    let up = [
        ("A", 0.7),
        ("B", 0.0),
        ("C", 30.4),
        ("D", 32.5),
        ("E", 20.3),
    ];
    let down = [("A", 0.0), ("B", 83.6), ("C", 0.0), ("D", 0.0), ("E", 0.0)];
    let links = up
        .iter()
        .map(|(n, p)| link(n, "s1", *p))
        .chain(down.iter().map(|(n, p)| link("s1", n, *p)));
    Network {
        name: "five nodes".to_owned(),
        links: links.collect(),
        nodes,
    }
}
