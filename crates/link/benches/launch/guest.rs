//! The measuring part, on a kernel with ETF.

use rtwire_link::{Cycle, CycleConfig, LaunchMode, Sender, SenderConfig, TxPath};
use rtwire_measure::bench::{Compared, Row};
use rtwire_measure::summary::{RANKS, nearest_rank};
use rtwire_sys::clock::{Clock, now_ns, tai_offset_ns};
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, interface, memory, sched};
use rtwire_testkit::{NetnsPair, ip, tc, try_tc};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ETHER_TYPE: u16 = 0x88B5;
const PERIOD_NS: u64 = 1_000_000;
/// Time before its launch time at which a frame is handed over.
const LEAD_NS: u64 = 600_000;
/// Real-time priority of the sender; `PRIORITY` is its socket priority, which leads to ETF.
const FIFO: u8 = 80;
const PRIORITY: u32 = 3;
/// Possible values of ETF's delta. The first that loses no frame under load is found, and the next one is used.
const DELTAS_NS: [u64; 15] = [
    5_000, 8_000, 10_000, 15_000, 20_000, 30_000, 50_000, 80_000, 100_000, 200_000, 500_000,
    1_000_000, 5_000_000, 20_000_000, 50_000_000,
];

pub(crate) fn main(arguments: &[String]) {
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let frames = after("--frames").map_or(500, |text| text.parse().unwrap());
    let label = after("--label").map_or("real time", String::as_str);
    // A new search would find another value with another build now and then; baselines need one and the same.
    let delta_us = after("--delta-us").map(|text| text.parse::<u64>().unwrap());
    for row in rows(frames, label, delta_us.map(|us| us * 1000)) {
        println!("@@ row {}", serde_json::to_string(&row).unwrap());
    }
}

/// Launch errors of one sender.
struct Errors {
    name: &'static str,
    /// Distances from the launch time in ns, sorted; negative ones are early.
    errors_ns: Vec<i64>,
    sent: u64,
}

impl Errors {
    fn at(&self, permille: u32) -> f64 {
        nearest_rank(&self.errors_ns, permille).map_or(0.0, |ns| ns as f64 / 1000.0)
    }

    /// Returns the distance from the 1st to the 99th percentile.
    fn spread(&self) -> f64 {
        self.at(990) - self.at(10)
    }
}

/// Measures both senders, idle and under load. ETF wakes `delta_ns` before a launch time; `None` searches a
/// sufficient value.
pub(crate) fn rows(frames: u64, label: &str, delta_ns: Option<u64>) -> Vec<Row> {
    let lane = Lane::new();
    let delta_ns = delta_ns.unwrap_or_else(|| lane.calibrate());
    let mut rows = Vec::new();
    for (load, name) in [(false, "idle"), (true, "under load")] {
        let sleeper = lane.under_load(load, || lane.sleeper(frames));
        let launch = lane.under_load(load, || lane.launch(frames, delta_ns));
        for (own, other) in [(&launch, &sleeper), (&sleeper, &launch)] {
            let mut figure = |what: &str, value: f64, against: f64, judged: bool| {
                let lost = own.sent - own.errors_ns.len() as u64;
                let held = value <= against && lost == 0;
                let mut why = Vec::new();
                if own.name == "ETF" {
                    why.push(format!("ETF with delta {} µs", delta_ns / 1000));
                }
                if lost > 0 {
                    why.push(format!("{lost} of {} lost", own.sent));
                }
                rows.push(Row {
                    figure: format!("launch error, {}, {name}, {label}, {what}", own.name),
                    value,
                    unit: if what.starts_with("lost") {
                        "frames"
                    } else {
                        "µs"
                    }
                    .to_owned(),
                    reach: judged.then(|| "at most clock_nanosleep's".to_owned()),
                    held: judged.then_some(held),
                    why: (!why.is_empty()).then(|| why.join("; ")),
                    samples: own.errors_ns.len() as u64,
                    against: vec![Compared {
                        name: other.name.to_owned(),
                        value: against,
                    }],
                });
            };
            for (what, permille) in RANKS {
                figure(what, own.at(permille), other.at(permille), false);
            }
            // An emulated processor that its host starves gives a valid result for neither.
            let judged = own.name == "ETF" && !label.contains("real time");
            figure("p99 - p1", own.spread(), other.spread(), judged);
        }
    }
    rows
}

struct Lane {
    pair: NetnsPair,
    tai_offset_ns: i64,
}

impl Lane {
    /// Creates a cable whose near end has two queues: one for launch times, the other for everything else.
    fn new() -> Self {
        let pair = NetnsPair::new();
        ip(&pair.a.namespace, "link del rtwa");
        ip(
            &pair.a.namespace,
            &format!(
                "link add rtwa numtxqueues 2 numrxqueues 2 type veth peer name rtwb netns {} numtxqueues 2 numrxqueues 2",
                pair.b.namespace
            ),
        );
        for (side, own, peer) in [(&pair.a, "1", "2"), (&pair.b, "2", "1")] {
            let interface = &side.interface;
            for command in [
                format!("link set {interface} address 02:00:00:00:00:0{own}"),
                format!("addr add {}/24 dev {interface}", side.address),
                format!("link set {interface} up"),
                format!(
                    "neigh replace 10.77.0.{peer} lladdr 02:00:00:00:00:0{peer} dev {interface} nud permanent"
                ),
            ] {
                ip(&side.namespace, &command);
            }
        }
        let lane = Self {
            pair,
            tai_offset_ns: tai_offset_ns().unwrap(),
        };
        tc(
            &lane.pair.a.namespace,
            "qdisc add dev rtwa root handle 100: mqprio num_tc 2 map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0",
        );
        memory::lock_all().unwrap();
        lane
    }

    /// Finds a delta with which no frame is lost under load.
    fn calibrate(&self) -> u64 {
        let enough = DELTAS_NS.windows(2).find(|pair| {
            let errors = self.under_load(true, || self.launch(300, pair[0]));
            errors.errors_ns.len() == 300
        });
        enough.map_or(DELTAS_NS[14], |pair| pair[1])
    }

    /// Runs `work` while another, non-real-time thread sends datagrams as fast as it can.
    fn under_load<T>(&self, load: bool, work: impl FnOnce() -> T) -> T {
        let stop = AtomicBool::new(!load);
        std::thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                self.pair.a.run(|| {
                    let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
                    socket.connect("10.77.0.2:9").unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        let _ = socket.send(&[0; 1000]);
                    }
                });
            });
            let result = work();
            stop.store(true, Ordering::Relaxed);
            result
        })
    }

    fn sleeper(&self, frames: u64) -> Errors {
        self.errors(
            "clock_nanosleep",
            frames,
            TxPath::Direct,
            0,
            |sender, frame, _| {
                let _ = sender.send(frame);
            },
        )
    }

    fn launch(&self, frames: u64, delta_ns: u64) -> Errors {
        // ETF cannot be changed in place, so it is removed first. At the first call there is none, and the error is
        // ignored.
        let _ = try_tc(&self.pair.a.namespace, "qdisc del dev rtwa parent 100:2");
        tc(
            &self.pair.a.namespace,
            &format!("qdisc add dev rtwa parent 100:2 etf clockid CLOCK_TAI delta {delta_ns}"),
        );
        let lead_ns = LEAD_NS.max(2 * delta_ns);
        self.errors(
            "ETF",
            frames,
            TxPath::Launch(LaunchMode::Strict),
            lead_ns,
            |sender, frame, launch_ns| {
                let _ = sender.send_at(frame, launch_ns);
            },
        )
    }

    /// Sends `frames` frames in cycles, each `lead_ns` before its launch time, and records their arrival.
    fn errors(
        &self,
        name: &'static str,
        frames: u64,
        path: TxPath,
        lead_ns: u64,
        send: impl Fn(&mut Sender, &[u8], u64) + Sync,
    ) -> Errors {
        let socket = self.pair.b.run(|| {
            let interface = interface::by_name("rtwb").unwrap();
            PacketSocket::receiver(
                &interface,
                ETHER_TYPE,
                &Filter::new(&[Instruction::Accept]).unwrap(),
                |socket| {
                    socket.set_receive_room(32 << 20)?;
                    socket.enable_rx_stamps()
                },
            )
            .unwrap()
            .0
        });
        // The kernel begins to stamp frames only after a while.
        std::thread::sleep(Duration::from_millis(400));
        let config = SenderConfig {
            path,
            priority: PRIORITY,
            ..SenderConfig::new("rtwa")
        };
        self.pair.a.run(|| {
            let mut sender = Sender::frames(&config).unwrap();
            sched::set_fifo(FIFO).unwrap();
            memory::touch_stack();
            let mut frame = [0_u8; 64];
            frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
            frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
            frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
            let first = (now_ns(Clock::Tai) / PERIOD_NS + 20) * PERIOD_NS;
            let mut cycle = Cycle::new(CycleConfig {
                clock: Clock::Tai,
                period_ns: PERIOD_NS,
                epoch_ns: first - lead_ns,
                spin_ns: 0,
            });
            for _ in 0..frames {
                let launch_ns = cycle.wait().unwrap().instant_ns + lead_ns;
                frame[16..24].copy_from_slice(&launch_ns.to_ne_bytes());
                send(&mut sender, &frame, launch_ns);
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        let mut batch = Batch::new(64, 64);
        let mut errors_ns = Vec::new();
        while socket.receive(&mut batch, Wait::No, 64).is_ok() {
            for index in 0..batch.len() {
                let message = batch.get(index).unwrap();
                let launch_ns = u64::from_ne_bytes(message.data[16..24].try_into().unwrap());
                if let Some(stamp) = message.stamp_realtime_ns {
                    let arrival = stamp.saturating_add_signed(self.tai_offset_ns);
                    errors_ns.push(arrival as i64 - launch_ns as i64);
                }
            }
        }
        errors_ns.sort_unstable();
        Errors {
            name,
            errors_ns,
            sent: frames,
        }
    }
}
