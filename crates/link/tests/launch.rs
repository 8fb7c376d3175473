//! Launch times: observed by ETF (in the kernel lab), and refused with a reason where no queue observes them
//! (everywhere).
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "launch/card.rs"]
mod card;
#[path = "launch/gates.rs"]
mod gates;

use rtwire_link::{
    LaunchFault, LaunchMode, LinkError, Sender, SenderConfig, TxPath, TxReport, TxStamps,
};
use rtwire_sys::clock::{Clock, now_ns, tai_offset_ns};
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::interface;
use rtwire_sys::launch::LaunchOptions;
use rtwire_sys::packet::PacketSocket;
use rtwire_testkit::{NetnsPair, Side, require, try_tc};
use std::time::Duration;

const ETHER_TYPE: u16 = 0x88B5;
const MS: u64 = 1_000_000;

fn tc(side: &Side, arguments: &str) -> Result<(), String> {
    try_tc(&side.namespace, arguments)
}

fn etf(side: &Side, options: &str) {
    tc(
        side,
        &format!("qdisc replace dev rtwa root etf clockid CLOCK_TAI {options}"),
    )
    .unwrap();
}

fn sender(side: &Side, mode: LaunchMode) -> Result<Sender, LinkError> {
    let config = SenderConfig {
        path: TxPath::Launch(mode),
        ..SenderConfig::new(side.interface.as_str())
    };
    side.run(|| Sender::frames(&config))
}

fn frame(number: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    frame[14] = number;
    frame
}

struct Peer {
    socket: PacketSocket,
    batch: rtwire_sys::Batch,
    tai_offset_ns: i64,
}

/// Opens a listener at `side` with timestamps. The kernel begins to stamp only after a while, so this waits.
fn peer(side: &Side) -> Peer {
    let socket = side.run(|| {
        let interface = interface::by_name(&side.interface).unwrap();
        PacketSocket::receiver(
            &interface,
            ETHER_TYPE,
            &Filter::new(&[Instruction::Accept]).unwrap(),
            |socket| socket.enable_rx_stamps(),
        )
        .unwrap()
        .0
    });
    std::thread::sleep(Duration::from_millis(400));
    Peer {
        socket,
        batch: rtwire_sys::Batch::new(8, 64),
        tai_offset_ns: tai_offset_ns().unwrap(),
    }
}

impl Peer {
    /// Returns the frames received so far: number and time of CLOCK_TAI.
    fn arrived(&mut self) -> Vec<(u8, u64)> {
        let mut all = Vec::new();
        while self
            .socket
            .receive(&mut self.batch, rtwire_sys::Wait::No, 8)
            .is_ok()
        {
            for index in 0..self.batch.len() {
                let message = self.batch.get(index).unwrap();
                let stamp = message.stamp_realtime_ns.unwrap();
                all.push((
                    message.data[14],
                    stamp.saturating_add_signed(self.tai_offset_ns),
                ));
            }
        }
        all
    }
}

fn reports(stamps: &mut TxStamps) -> Vec<(u64, LaunchFault)> {
    let mut all = Vec::new();
    stamps
        .collect_reports(Duration::from_millis(100), |report| {
            if let TxReport::Launch(failure) = report {
                all.push((failure.launch_ns, failure.fault));
            }
        })
        .unwrap();
    all
}

#[test]
fn without_etf_it_is_refused_by_name() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    let error = sender(&pair.a, LaunchMode::Strict).unwrap_err();
    assert!(
        matches!(&error, LinkError::NoLaunch { found, .. } if found.contains("noqueue")),
        "{error}"
    );
    let text = error.to_string();
    for part in [
        "`rtwa`",
        "sch_etf",
        "tc qdisc replace dev rtwa root etf clockid CLOCK_TAI",
    ] {
        assert!(text.contains(part), "{text}");
    }
    tc(
        &pair.a,
        "qdisc add dev rtwa root tbf rate 1gbit burst 10k latency 1ms",
    )
    .unwrap();
    let error = sender(&pair.a, LaunchMode::Strict).unwrap_err().to_string();
    assert!(
        error.contains("`tbf`, which ignores launch times"),
        "{error}"
    );
}

#[test]
fn a_time_is_asked_for_where_it_counts_and_only_there() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let config = SenderConfig::new("rtwa");
    let mut plain = pair.a.run(|| Sender::frames(&config)).unwrap();
    let error = plain.send_at(&frame(0), 1).unwrap_err().to_string();
    assert!(error.contains("path `launch`"), "{error}");
    assert_eq!(plain.count(), 0);
}

#[test]
#[ignore = "needs sch_etf: runs in the kernel lab"]
fn frames_leave_in_the_order_of_their_times_and_not_before() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    // An emulated processor wakes milliseconds late. The precision of launches is measured in virtual time.
    const DELTA_NS: u64 = 100 * MS;
    etf(&pair.a, &format!("delta {DELTA_NS}"));
    let mut peer = peer(&pair.b);
    let mut sender = sender(&pair.a, LaunchMode::Strict).unwrap();
    assert_eq!(sender.launch_queue().unwrap().delta_ns, DELTA_NS);
    let error = sender.send(&frame(9)).unwrap_err().to_string();
    assert!(error.contains("send_at"), "{error}");
    let start = now_ns(Clock::Tai) + 400 * MS;
    for number in [2, 0, 3, 1] {
        sender
            .send_at(&frame(number), start + u64::from(number) * 20 * MS)
            .unwrap();
    }
    std::thread::sleep(Duration::from_millis(800));
    let arrived = peer.arrived();
    let numbers: Vec<u8> = arrived.iter().map(|one| one.0).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    for (number, tai_ns) in arrived {
        let due = start + u64::from(number) * 20 * MS;
        assert!(
            tai_ns + DELTA_NS >= due,
            "frame {number} came {} ns early",
            due - tai_ns
        );
    }
    let mut stamps = sender.take_stamps().unwrap().unwrap();
    assert_eq!(reports(&mut stamps), []);
}

#[test]
#[ignore = "needs sch_etf: runs in the kernel lab"]
fn late_frames_are_refused_counted_and_reported() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    etf(&pair.a, "delta 50000");
    let mut peer = peer(&pair.b);
    let mut sender = sender(&pair.a, LaunchMode::Strict).unwrap();
    let mut stamps = sender.take_stamps().unwrap().unwrap();
    let past = now_ns(Clock::Tai) - MS;
    let error = sender.send_at(&frame(0), past).unwrap_err();
    assert!(
        matches!(error, LinkError::LaunchRefused { launch_ns } if launch_ns == past),
        "{error}"
    );
    assert_eq!(sender.count(), 1);
    assert_eq!(reports(&mut stamps), [(past, LaunchFault::Refused)]);
    assert_eq!(stamps.launch_refused(), 1);
    assert_eq!(peer.arrived(), []);
}

#[test]
#[ignore = "needs sch_etf: runs in the kernel lab"]
fn what_the_queue_could_not_send_in_time_is_reported_missed() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    // The queue wakes only at the launch time itself, so every frame is late by the queue's wake-up.
    etf(&pair.a, "delta 0");
    let mut peer = peer(&pair.b);
    let mut sender = sender(&pair.a, LaunchMode::Strict).unwrap();
    let mut stamps = sender.take_stamps().unwrap().unwrap();
    let launch = now_ns(Clock::Tai) + 200 * MS;
    sender.send_at(&frame(0), launch).unwrap();
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(reports(&mut stamps), [(launch, LaunchFault::Missed)]);
    assert_eq!(stamps.launch_missed(), 1);
    assert_eq!(peer.arrived(), []);
}

#[test]
#[ignore = "needs sch_etf: runs in the kernel lab"]
fn a_deadline_may_be_met_early_and_the_modes_must_agree() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    etf(&pair.a, "delta 50000 deadline_mode");
    let mut peer = peer(&pair.b);
    let error = sender(&pair.a, LaunchMode::Strict).unwrap_err().to_string();
    assert!(error.contains("as deadlines"), "{error}");
    let mut sender = sender(&pair.a, LaunchMode::Deadline).unwrap();
    sender
        .send_at(&frame(5), now_ns(Clock::Tai) + 60_000 * MS)
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(peer.arrived().len(), 1, "a minute early");
}

#[test]
#[ignore = "needs sch_etf: runs in the kernel lab"]
fn a_wrong_clock_is_refused_by_the_queue() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    etf(&pair.a, "delta 50000");
    let tc = tc(
        &pair.b,
        "qdisc replace dev rtwb root etf clockid CLOCK_MONOTONIC delta 50000",
    );
    assert!(tc.is_err(), "the queue itself takes no other clock");
    let socket = pair
        .a
        .run(|| PacketSocket::sender(&interface::by_name("rtwa").unwrap()).unwrap());
    let mut reader = socket
        .enable_launch(LaunchOptions {
            clock: Clock::Monotonic,
            deadline: false,
            report: true,
        })
        .unwrap();
    let launch = now_ns(Clock::Monotonic) + 100 * MS;
    assert!(socket.send_at(&frame(0), launch).is_err());
    let mut faults = Vec::new();
    assert!(reader.wait(Duration::from_secs(1)).unwrap());
    reader
        .read(|report| {
            if let rtwire_sys::stamps::TxReport::Launch(failure) = report {
                faults.push((failure.launch_ns, failure.fault));
            }
        })
        .unwrap();
    assert_eq!(faults, [(launch, LaunchFault::Refused)]);
}

#[test]
#[ignore = "needs sch_mqprio and sch_etf: runs in the kernel lab"]
fn the_priority_decides_which_queue_is_asked() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    rtwire_testkit::ip(&pair.a.namespace, "link del rtwa");
    rtwire_testkit::ip(
        &pair.a.namespace,
        &format!(
            "link add rtwa numtxqueues 2 numrxqueues 2 type veth peer name rtwb netns {} numtxqueues 2 numrxqueues 2",
            pair.b.namespace
        ),
    );
    rtwire_testkit::ip(&pair.a.namespace, "link set rtwa up");
    tc(
        &pair.a,
        "qdisc add dev rtwa root handle 100: mqprio num_tc 2 map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0",
    )
    .unwrap();
    tc(
        &pair.a,
        "qdisc replace dev rtwa parent 100:2 etf clockid CLOCK_TAI delta 70000",
    )
    .unwrap();
    let open = |priority| {
        let config = SenderConfig {
            path: TxPath::Launch(LaunchMode::Strict),
            priority,
            ..SenderConfig::new("rtwa")
        };
        pair.a.run(|| Sender::frames(&config))
    };
    assert_eq!(open(3).unwrap().launch_queue().unwrap().delta_ns, 70_000);
    let error = open(0).unwrap_err().to_string();
    assert!(error.contains("of its mqprio queues, number 0"), "{error}");
}
