//! Omits each term of a bound in turn, and names a schedule that exceeds the rest.
//!
//! The schedules are small enough to follow by hand. `C` is 100 Mbit/s unless a port says otherwise: a long frame (12
//! 000 bit) takes 120 us, a short one (1000 bit) 10 us.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::{Term, without};
use crate::bound::graph::{
    ClassShaper, Flow, Graph, Hop, Meter, Method, Preempting, Server, ServerInput,
};
use crate::bound::segments::Segments;
use crate::bound::tfa::analyse;
use crate::schedule::closings::closed;
use crate::schedule::gates::{GateEntry, GateList};
use rtwire_describe::ratio::Ratio;

const LONG: i128 = 12_000;
const SHORT: i128 = 1_000;

fn port(mbit: i128) -> Server {
    Server {
        rate: Ratio::whole(mbit * 1_000_000),
        classes: 1,
        ..Server::default()
    }
}

/// Returns a flow of the lowest class along these servers, at `kbit` kbit/s, with bursts of `frames` frames.
fn flow(bits: i128, frames: i128, kbit: i128, servers: &[usize]) -> Flow {
    let hops = servers.iter().enumerate().map(|(at, server)| Hop {
        server: *server,
        class: 0,
        before: at.checked_sub(1),
    });
    Flow {
        burst: Ratio::whole(bits * frames),
        rate: Ratio::whole(kbit * 1_000),
        frame_max: Ratio::whole(bits),
        frame_min: Ratio::whole(bits),
        period: None,
        jitter: Ratio::ZERO,
        meter: None,
        hops: hops.collect(),
    }
}

fn urgent(mut flow: Flow, class: u8) -> Flow {
    for hop in &mut flow.hops {
        hop.class = class;
    }
    flow
}

fn classes(mut server: Server, classes: u8) -> Server {
    server.classes = classes;
    server
}

/// Returns a port with two classes. The upper one interrupts the lower one, except for pieces of 1000 bit, at 200 bit each.
fn preempting(server: Server, count: u8) -> Server {
    let mut server = classes(server, count);
    server.preemption = Some(Preempting {
        first_express: 1,
        piece: Ratio::whole(SHORT),
        interruption: Ratio::whole(200),
    });
    server
}

/// Makes a flow urgent at its first server only.
fn first_urgent(mut flow: Flow) -> Flow {
    flow.hops[0].class = 1;
    flow
}

/// Puts a meter behind a flow's first server. It counts a part of what short frames take of the link, by `wire`.
fn metered(mut flow: Flow, wire: i128) -> Flow {
    let hops = flow.hops.len();
    flow.meter = Some(Meter {
        counted: flow.frame_max,
        wire: Ratio::whole(wire),
        clock: Ratio::whole(1),
        frame_min: Ratio::whole(SHORT),
        entered_at: (0..hops).map(|hop| (hop > 0).then_some(1)).collect(),
    });
    flow
}

/// Lets frames from a server enter the queue once 112 bit of them have come.
fn cutting(mut server: Server, from: usize) -> Server {
    server.inputs = vec![ServerInput {
        from,
        header: Some(Ratio::whole(112)),
        ..ServerInput::default()
    }];
    server
}

/// Returns a flow as [`flow`] does, with one frame in each 300 us.
fn each_300_us(servers: &[usize]) -> Flow {
    let mut flow = flow(LONG, 1, 40_000, servers);
    flow.period = Some(Ratio::from_ns(300_000));
    flow
}

fn late(mut server: Server, us: u64) -> Server {
    server.latency = Ratio::from_ns(us * 1_000);
    server
}

fn credit(mut server: Server, class: usize, mbit: i128) -> Server {
    server.shapers[class] = ClassShaper::Credit {
        idle_slope: Ratio::whole(mbit * 1_000_000),
    };
    server
}

/// The quantity that is bounded.
#[derive(Clone, Copy)]
enum Of {
    /// The delay of a class at a server, microseconds.
    Delay(usize, usize),
    /// The memory of a server, bits.
    Memory(usize),
    /// The delay of a flow over all its servers as one segment, microseconds.
    Way(usize),
    /// The sum of a flow's delays over all its servers, with its own frames as sent, microseconds.
    Sum(usize),
}

struct Case {
    term: Term,
    servers: Vec<Server>,
    flows: Vec<Flow>,
    of: Of,
    /// The value that a schedule reaches, and the schedule in words.
    reached: i128,
    #[allow(dead_code, reason = "for readers, and shown where the test fails")]
    how: &'static str,
}

fn bound(case: &Case) -> Ratio {
    let graph = Graph {
        servers: case.servers.clone(),
        flows: case.flows.clone(),
    };
    let bounds = analyse(&graph, Method::FULL).unwrap();
    match case.of {
        Of::Delay(server, class) => {
            let delay = bounds[server].classes[class].delay.unwrap();
            delay.times(Ratio::whole(1_000_000)).unwrap()
        }
        Of::Memory(server) => bounds[server].backlog.unwrap(),
        Of::Way(flow) => {
            let mut segments = Segments::new(&graph, Method::FULL, 100).unwrap();
            let way: Vec<usize> = (0..graph.flows[flow].hops.len()).collect();
            let delay = segments.delay(flow, &way).unwrap().unwrap();
            delay.times(Ratio::whole(1_000_000)).unwrap()
        }
        Of::Sum(flow) => {
            let mut segments = Segments::new(&graph, Method::FULL, 100).unwrap();
            let hops = graph.flows[flow].hops.iter().enumerate();
            let sum = hops.fold(Ratio::ZERO, |sum, (at, hop)| {
                let class = bounds[hop.server].classes[usize::from(hop.class)];
                let own = segments.own(flow, at).unwrap().or(class.delay);
                sum.plus(own.unwrap()).unwrap()
            });
            sum.times(Ratio::whole(1_000_000)).unwrap()
        }
    }
}

fn cases() -> Vec<Case> {
    let mut periodic = flow(LONG, 1, 1_200, &[0]);
    periodic.period = Some(Ratio::from_ns(10_000_000));
    let mut catching = late(port(100), 1_000);
    catching.catches_up = true;
    let long_and_short = Flow {
        burst: Ratio::whole(LONG + SHORT),
        frame_min: Ratio::whole(SHORT),
        ..flow(LONG, 1, 100, &[0, 1])
    };
    let mut holding = late(port(100), 500);
    holding.catches_up = true;
    let mut regulated = port(100);
    regulated.shapers[0] = ClassShaper::Regulated;
    let behind_others =
        "8 long frames go first at server 0, so that 6 of this flow leave it one after the other";
    vec![
        Case {
            term: Term::ClosedWindow,
            servers: vec![port(100)],
            flows: vec![periodic.clone(), periodic],
            of: Of::Delay(0, 0),
            reached: 240,
            how: "two frames at the same instant",
        },
        Case {
            term: Term::Blocking,
            servers: vec![classes(port(100), 2)],
            flows: vec![
                flow(LONG, 1, 1_000, &[0]),
                urgent(flow(SHORT, 1, 1_000, &[0]), 1),
            ],
            of: Of::Delay(0, 1),
            reached: 130,
            how: "the long frame has just begun",
        },
        Case {
            term: Term::Latency,
            servers: vec![late(port(100), 50)],
            flows: vec![flow(LONG, 1, 1_000, &[0])],
            of: Of::Delay(0, 0),
            reached: 170,
            how: "the port is as late as it may be",
        },
        Case {
            term: Term::LatencyVariation,
            servers: vec![late(port(100), 500)],
            flows: vec![flow(LONG, 1, 100, &[0]), flow(LONG, 1, 40_000, &[0])],
            of: Of::Delay(0, 0),
            reached: 860,
            how: "frames of 0 and 300 us are in the queue at 500 us, before one of 0 us whose latency is as long",
        },
        Case {
            term: Term::CutThrough,
            servers: vec![
                port(100),
                cutting(port(100), 0),
                port(100),
                cutting(port(100), 2),
                port(100),
            ],
            flows: vec![
                each_300_us(&[0, 1, 4]),
                each_300_us(&[2, 3, 4]),
                flow(LONG, 1, 100, &[1]),
                flow(LONG, 1, 100, &[3]),
                flow(LONG, 1, 100, &[4]),
            ],
            of: Of::Delay(4, 0),
            reached: 480,
            how: "the first frames of both are stored and wait 61 us for a local one, the second ones are not: they end 120 us later, and with them comes the last flow's",
        },
        Case {
            term: Term::Piece,
            servers: vec![preempting(port(100), 2)],
            flows: vec![
                flow(LONG, 1, 1_000, &[0]),
                urgent(flow(SHORT, 1, 1_000, &[0]), 1),
            ],
            of: Of::Delay(0, 1),
            reached: 20,
            how: "1000 bit of the long frame cannot be interrupted, and they have just begun",
        },
        Case {
            term: Term::Interruptions,
            servers: vec![preempting(port(100), 2)],
            flows: vec![
                flow(LONG, 1, 1_000, &[0]),
                urgent(flow(SHORT, 1, 1_000, &[0]), 1),
            ],
            of: Of::Delay(0, 0),
            reached: 132,
            how: "the short frame interrupts the long one: 200 bit of fragments are sent besides both",
        },
        Case {
            term: Term::Interrupted,
            servers: vec![preempting(port(100), 2), port(100)],
            flows: vec![
                flow(LONG, 1, 1_000, &[0, 1]),
                first_urgent(flow(LONG, 1, 1_000, &[0, 1])),
            ],
            of: Of::Delay(1, 0),
            reached: 230,
            how: "the other long frame interrupts the first one before its last 10 us: that ends 10 us behind it",
        },
        Case {
            term: Term::Overtaking,
            servers: vec![classes(port(100), 2)],
            flows: vec![
                flow(LONG, 1, 1_000, &[0]),
                urgent(flow(SHORT, 5, 50_000, &[0]), 1),
            ],
            of: Of::Delay(0, 0),
            reached: 210,
            how: "five urgent frames at once, four more while it waits: it begins at 90 us",
        },
        Case {
            term: Term::Jitter,
            servers: vec![port(100), port(50)],
            flows: vec![flow(LONG, 8, 100, &[0]), flow(LONG, 1, 40_000, &[0, 1])],
            of: Of::Delay(1, 0),
            reached: 840,
            how: behind_others,
        },
        Case {
            term: Term::LeastLatency,
            servers: vec![late(port(100), 500), port(50)],
            flows: vec![flow(LONG, 1, 40_000, &[0, 1])],
            of: Of::Delay(1, 0),
            reached: 560,
            how: "late for the first frame only: 620, 740, 860, 1020 us from server 0; the fourth leaves at 1580 us",
        },
        Case {
            term: Term::LineFrame,
            servers: vec![port(100), port(100)],
            flows: vec![flow(LONG, 1, 1_000, &[0, 1])],
            of: Of::Delay(1, 0),
            reached: 120,
            how: "one frame",
        },
        Case {
            term: Term::CatchingUp,
            servers: vec![catching.clone(), port(100)],
            flows: vec![flow(LONG, 1, 40_000, &[0, 1])],
            of: Of::Delay(1, 0),
            reached: 480,
            how: "the frames of 0, 300, 600 and 900 us are handed over at once",
        },
        Case {
            term: Term::AggregateLatency,
            servers: vec![holding, port(50)],
            flows: vec![flow(LONG, 1, 40_000, &[0, 1])],
            of: Of::Delay(1, 0),
            reached: 480,
            how: "the frames of 0 and 300 us are handed over at 620 us",
        },
        Case {
            term: Term::AggregateBlocking,
            servers: vec![classes(port(100), 2), classes(port(50), 2)],
            flows: vec![
                flow(LONG, 1, 100, &[0]),
                urgent(flow(SHORT, 1, 40_000, &[0, 1]), 1),
            ],
            of: Of::Delay(1, 1),
            reached: 100,
            how: "frames of each 25 us pile up behind a long one: nine leave from 130 to 210 us, the last at 310 us",
        },
        Case {
            term: Term::AggregateFrame,
            servers: vec![port(100), port(50)],
            flows: vec![flow(LONG, 1, 100, &[0, 1]), flow(SHORT, 1, 40_000, &[0, 1])],
            of: Of::Delay(1, 0),
            reached: 330,
            how: "a long frame, then nine short ones that piled up behind it: the last comes at 210 and leaves at 540 us",
        },
        Case {
            term: Term::LastOwn,
            servers: vec![port(1_000), port(100)],
            flows: vec![flow(LONG, 2, 100, &[0, 1])],
            of: Of::Sum(0),
            reached: 252,
            how: "both frames at once: the first comes at 12 us, and the second leaves 240 us later",
        },
        Case {
            term: Term::LastOthers,
            servers: vec![port(1_000), port(100)],
            flows: vec![flow(LONG, 1, 100, &[0, 1]), flow(LONG, 1, 100, &[0, 1])],
            of: Of::Sum(0),
            reached: 252,
            how: "both at once, the other one goes first, and comes at 12 us",
        },
        Case {
            term: Term::LastFrame,
            servers: vec![port(1_000), port(100)],
            flows: vec![flow(LONG, 1, 100, &[0, 1]), flow(LONG, 1, 100, &[0, 1])],
            of: Of::Sum(0),
            reached: 252,
            how: "both at once, the other one goes first, and has all come when this one begins",
        },
        Case {
            term: Term::LastSmallest,
            servers: vec![port(100), port(50)],
            flows: vec![long_and_short, flow(SHORT, 10, 100, &[0, 1])],
            of: Of::Sum(0),
            reached: 580,
            how: "a long frame, ten of the other flow, a short one: the first comes at 120 us, and all take 460 us from then on",
        },
        Case {
            term: Term::LastCatchingUp,
            servers: vec![catching, port(100)],
            flows: vec![flow(LONG, 1, 100, &[0, 1]), flow(LONG, 1, 100, &[0, 1])],
            of: Of::Sum(0),
            reached: 1_480,
            how: "both are handed over at 1240 us, the other one first",
        },
        Case {
            term: Term::LastInterrupted,
            servers: vec![preempting(port(100), 2), port(100)],
            flows: vec![
                flow(LONG, 1, 100, &[0, 1]),
                first_urgent(flow(LONG, 1, 100, &[0, 1])),
            ],
            of: Of::Sum(0),
            reached: 472,
            how: "the other one interrupts it before its last 10 us: both end at 232 and 242 us",
        },
        Case {
            term: Term::MeterStairs,
            servers: vec![classes(port(1_000), 2), classes(port(100), 2)],
            flows: vec![
                metered(urgent(each_300_us(&[0, 1]), 1), 1),
                flow(SHORT, 1, 1_000, &[1]),
            ],
            of: Of::Delay(1, 0),
            reached: 200,
            how: "twelve short urgent frames at once, and one each 25 us: at 190 us 19 are sent, and the other one begins",
        },
        Case {
            term: Term::MeterWire,
            servers: vec![classes(port(1_000), 2), classes(port(100), 2)],
            flows: vec![
                metered(urgent(flow(LONG, 1, 100, &[0, 1]), 1), 2),
                flow(SHORT, 1, 1_000, &[1]),
            ],
            of: Of::Delay(1, 0),
            reached: 250,
            how: "24 short urgent frames count as much as a long one",
        },
        Case {
            term: Term::MeterAggregate,
            servers: vec![port(100), port(50)],
            flows: vec![
                metered(flow(LONG, 1, 20_000, &[0, 1]), 1),
                metered(flow(LONG, 1, 20_000, &[0, 1]), 1),
            ],
            of: Of::Delay(1, 0),
            reached: 470,
            how: "short frames of both in turns, each 10 us: 46 of them pass the meters, of 14 400 bit each, and the last leaves at 930 us",
        },
        Case {
            term: Term::MeterSmallest,
            servers: vec![port(1_000), port(100), port(50)],
            flows: vec![
                flow(LONG, 1, 100, &[1, 2]),
                metered(flow(LONG, 1, 40_000, &[0, 1, 2]), 1),
            ],
            of: Of::Delay(2, 0),
            reached: 510,
            how: "a long frame, then twelve short ones, and one each 25 us, that piled up behind it: the 27th comes at 390 and leaves at 900 us",
        },
        Case {
            term: Term::MemoryLatency,
            servers: vec![late(port(100), 500)],
            flows: vec![flow(LONG, 1, 40_000, &[0])],
            of: Of::Memory(0),
            reached: 24_000,
            how: "two frames before the port begins",
        },
        Case {
            term: Term::CreditBlocking,
            servers: vec![credit(classes(port(100), 2), 1, 30)],
            flows: vec![
                flow(LONG, 1, 100, &[0]),
                urgent(flow(SHORT, 1, 1_000, &[0]), 1),
            ],
            of: Of::Delay(0, 1),
            reached: 130,
            how: "the long frame has just begun",
        },
        Case {
            term: Term::CreditAbove,
            servers: vec![credit(credit(classes(port(100), 3), 2, 40), 1, 20)],
            flows: vec![
                urgent(flow(LONG, 1, 100, &[0]), 2),
                urgent(flow(SHORT, 1, 1_000, &[0]), 1),
            ],
            of: Of::Delay(0, 1),
            reached: 130,
            how: "the long frame of the class above goes first",
        },
        Case {
            term: Term::CreditBurst,
            servers: vec![credit(classes(port(100), 2), 1, 40)],
            flows: vec![
                flow(SHORT, 1, 1_000, &[0]),
                urgent(flow(LONG, 1, 100, &[0]), 1),
            ],
            of: Of::Delay(0, 0),
            reached: 130,
            how: "the long frame of the class with the credit goes first",
        },
        Case {
            term: Term::CreditUsed,
            servers: vec![credit(classes(port(100), 2), 1, 40)],
            flows: vec![
                flow(SHORT, 1, 1_000, &[0]),
                urgent(flow(SHORT, 1, 100, &[0]), 1),
            ],
            of: Of::Delay(0, 0),
            reached: 20,
            how: "the short frame of the class with the credit goes first",
        },
        Case {
            term: Term::CreditSaved,
            servers: vec![credit(classes(port(100), 2), 1, 30), classes(port(10), 2)],
            flows: vec![
                flow(LONG, 1, 100, &[0]),
                urgent(flow(SHORT, 6, 1_000, &[0, 1]), 1),
            ],
            of: Of::Delay(1, 1),
            reached: 550,
            how: "behind the long frame the credit is 3600 bit, and lets six short frames go at once: the last comes after 50 us, and leaves after 600",
        },
        Case {
            term: Term::CreditOwn,
            servers: vec![credit(classes(port(100), 2), 1, 30)],
            flows: vec![urgent(flow(LONG, 2, 1_000, &[0]), 1)],
            of: Of::Delay(0, 1),
            reached: 520,
            how: "two long frames: the second waits 400 us for the credit",
        },
        Case {
            term: Term::RegulatedBurst,
            servers: vec![port(100), regulated],
            flows: vec![flow(LONG, 1, 1_000, &[0, 1])],
            of: Of::Delay(1, 0),
            reached: 120,
            how: "one frame",
        },
        Case {
            term: Term::SegmentFrame,
            servers: vec![port(100), port(100)],
            flows: vec![flow(LONG, 1, 1_000, &[0, 1])],
            of: Of::Way(0),
            reached: 240,
            how: "the second port waits for the last bit",
        },
        Case {
            term: Term::SegmentUrgent,
            servers: vec![classes(port(100), 2)],
            flows: vec![
                flow(LONG, 1, 1_000, &[0]),
                urgent(flow(LONG, 1, 1_000, &[0]), 1),
            ],
            of: Of::Way(0),
            reached: 240,
            how: "both come at once, the urgent one goes first",
        },
        Case {
            term: Term::SegmentBlocking,
            servers: vec![classes(port(100), 2)],
            flows: vec![
                urgent(flow(LONG, 1, 1_000, &[0]), 1),
                flow(LONG, 1, 1_000, &[0]),
            ],
            of: Of::Way(0),
            reached: 240,
            how: "the lower one has just begun",
        },
        Case {
            term: Term::SegmentOthers,
            servers: vec![port(100), port(100)],
            flows: vec![flow(LONG, 1, 1_000, &[0, 1]), flow(LONG, 1, 1_000, &[0])],
            of: Of::Way(0),
            reached: 360,
            how: "both come at once, the other one goes first",
        },
    ]
}

#[test]
fn without_any_term_some_schedule_is_worse_than_the_bound() {
    for case in cases() {
        let reached = Ratio::whole(case.reached);
        let whole = bound(&case);
        assert!(
            whole >= reached,
            "{:?}: {} reaches {reached}, the bound is {whole}",
            case.term,
            case.how
        );
        let less = without(case.term, || bound(&case));
        assert!(
            less < reached,
            "{:?}: left out, the bound is {less}, and {reached} ({}) does not show it",
            case.term,
            case.how
        );
    }
}

/// Gates of a port that are closed for its unscheduled queues, and a window with `reached_ns` of closed time.
struct Gates {
    term: Term,
    closed_ns: u64,
    open_ns: u64,
    /// The time of the longest frame, and the error of the clock.
    frame_ns: u64,
    error_ns: u64,
    window_ns: u64,
    reached_ns: u64,
    how: &'static str,
}

impl Gates {
    /// Returns the bound on the closed time in the window.
    fn bound(&self) -> Ratio {
        let entry = |gates, duration_ns| GateEntry { gates, duration_ns };
        let list = GateList {
            cycle_ns: self.closed_ns + self.open_ns,
            base_offset_ns: 0,
            entries: vec![entry(0x80, self.closed_ns), entry(0x7f, self.open_ns)],
            scheduled_queues: 0x80,
            unscheduled_open_ns: self.open_ns,
            guard_band_ns: 0,
        };
        let closed = closed(&list, self.frame_ns, self.error_ns).unwrap();
        let grown = closed.rate.times(Ratio::from_ns(self.window_ns)).unwrap();
        closed.burst.plus(grown).unwrap()
    }
}

fn gates() -> Vec<Gates> {
    vec![
        Gates {
            term: Term::ClosedBurst,
            closed_ns: 100,
            open_ns: 900,
            frame_ns: 0,
            error_ns: 0,
            window_ns: 100,
            reached_ns: 100,
            how: "one closing",
        },
        Gates {
            term: Term::ClosedAhead,
            closed_ns: 100,
            open_ns: 900,
            frame_ns: 40,
            error_ns: 0,
            window_ns: 140,
            reached_ns: 140,
            how: "40 ns before the closing the frame would not end in time",
        },
        Gates {
            term: Term::ClosedWander,
            closed_ns: 100,
            open_ns: 900,
            frame_ns: 0,
            error_ns: 50,
            window_ns: 1_000,
            reached_ns: 200,
            how: "the clock is 50 ns behind at the first closing and 50 ns ahead at the second: from start to start are 900 ns",
        },
        Gates {
            term: Term::ClosedSpeed,
            closed_ns: 4_999_000,
            open_ns: 44_991_000,
            frame_ns: 0,
            error_ns: 0,
            window_ns: 5_000_000,
            reached_ns: 5_000_000,
            how: "4999 us of a clock that is 200 ppm slow are 5000 us",
        },
    ]
}

#[test]
fn without_any_term_of_closed_gates_they_are_closed_for_longer_than_the_bound() {
    for case in gates() {
        let reached = Ratio::from_ns(case.reached_ns);
        let whole = case.bound();
        assert!(whole >= reached, "{:?}: {}: {whole}", case.term, case.how);
        let less = without(case.term, || case.bound());
        assert!(
            less < reached,
            "{:?}: left out, the bound is {less}, and {reached} ({}) does not show it",
            case.term,
            case.how
        );
    }
}

#[test]
fn every_term_has_its_case() {
    let graphs = cases().into_iter().map(|case| case.term);
    let gates = gates().into_iter().map(|case| case.term);
    let schedules = crate::schedule::mutation_tests::tried();
    let all = graphs.chain(gates).chain(schedules);
    let tried: Vec<usize> = all.map(|term| term as usize).collect();
    // The last of the enumeration: none behind it is forgotten.
    for number in 0..=Term::JitterClock as usize {
        assert!(tried.contains(&number), "term {number}");
    }
}
