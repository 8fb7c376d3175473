//! TAPRIO with launch times (txtime-assist). The kernel assigns every frame a time within the windows of its class,
//! and ETF below observes it. All times are those of an emulated processor that wakes milliseconds late.

use super::*;

/// ETF wakes this long before a frame's time and sends then, so frames leave up to this much early.
const DELTA_MS: u64 = 100;
/// Class 0 may send in the first 400 ms of each second, class 1 in the rest.
const FIRST_MS: u64 = 400;
const CYCLE_MS: u64 = 1000;

/// Creates a cable of two queues whose near end has the windows; `priority` 3 belongs to class 1.
fn gated() -> NetnsPair {
    let pair = NetnsPair::new();
    rtwire_testkit::ip(&pair.a.namespace, "link del rtwa");
    rtwire_testkit::ip(
        &pair.a.namespace,
        &format!(
            "link add rtwa numtxqueues 2 numrxqueues 2 type veth peer name rtwb netns {} numtxqueues 2 numrxqueues 2",
            pair.b.namespace
        ),
    );
    rtwire_testkit::ip(
        &pair.b.namespace,
        "link set rtwb address 02:00:00:00:00:02 up",
    );
    rtwire_testkit::ip(&pair.a.namespace, "link set rtwa up");
    tc(
        &pair.a,
        &format!(
            "qdisc add dev rtwa root handle 100: taprio num_tc 2 map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 \
             base-time 0 sched-entry S 01 {} sched-entry S 02 {} flags 0x1 txtime-delay {} clockid CLOCK_TAI",
            FIRST_MS * MS,
            (CYCLE_MS - FIRST_MS) * MS,
            2 * DELTA_MS * MS,
        ),
    )
    .unwrap();
    for place in ["100:1", "100:2"] {
        tc(
            &pair.a,
            &format!(
                "qdisc replace dev rtwa parent {place} etf clockid CLOCK_TAI delta {} skip_sock_check",
                DELTA_MS * MS
            ),
        )
        .unwrap();
    }
    pair
}

fn open(pair: &NetnsPair, path: TxPath, priority: u32) -> Result<Sender, LinkError> {
    let config = SenderConfig {
        path,
        priority,
        ..SenderConfig::new("rtwa")
    };
    pair.a.run(|| Sender::frames(&config))
}

/// Sleeps until this many ms of a cycle; returns the cycle's start.
fn wait_for(phase_ms: u64) -> u64 {
    let cycle = CYCLE_MS * MS;
    let start = (now_ns(Clock::Tai) / cycle + 1) * cycle;
    let _ = rtwire_sys::clock::sleep_until(Clock::Tai, start + phase_ms * MS);
    start
}

#[test]
#[ignore = "needs sch_taprio and sch_etf: runs in the kernel lab"]
fn frames_without_a_time_leave_in_the_windows_of_their_class() {
    require!(root, program "ip", program "tc");
    let pair = gated();
    let mut peer = peer(&pair.b);
    let mut first = open(&pair, TxPath::Qdisc, 0).unwrap();
    let mut second = open(&pair, TxPath::Qdisc, 3).unwrap();
    // Each frame is sent in the other class's window and has to wait for its own.
    let start = wait_for(50);
    second.send(&frame(2)).unwrap();
    let _ = rtwire_sys::clock::sleep_until(Clock::Tai, start + 650 * MS);
    first.send(&frame(1)).unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    let arrived = peer.arrived();
    let numbers: Vec<u8> = arrived.iter().map(|one| one.0).collect();
    assert_eq!(numbers, [2, 1]);
    let opens = [start + FIRST_MS * MS, start + CYCLE_MS * MS];
    for ((number, tai_ns), opens) in arrived.iter().zip(opens) {
        let late = *tai_ns as i64 - opens as i64;
        assert!(
            late >= -((DELTA_MS * MS) as i64),
            "frame {number} came {late} ns after its window opened"
        );
        assert!(
            late < (FIRST_MS * MS) as i64,
            "frame {number} came {late} ns after its window opened, when it had closed"
        );
    }
}

#[test]
#[ignore = "needs sch_taprio and sch_etf: runs in the kernel lab"]
fn a_launch_time_within_the_window_is_kept_and_one_outside_is_refused() {
    require!(root, program "ip", program "tc");
    let pair = gated();
    let mut peer = peer(&pair.b);
    let mut sender = open(&pair, TxPath::Launch(LaunchMode::Strict), 3).unwrap();
    let queue = sender.launch_queue().unwrap();
    assert!(queue.gated, "{queue:?}");
    assert_eq!(queue.delta_ns, DELTA_MS * MS);
    let mut stamps = sender.take_stamps().unwrap().unwrap();
    let start = wait_for(50);
    let outside = start + 300 * MS;
    let error = sender.send_at(&frame(0), outside).unwrap_err();
    assert!(
        matches!(error, LinkError::LaunchRefused { launch_ns } if launch_ns == outside),
        "{error}"
    );
    let inside = start + 700 * MS;
    sender.send_at(&frame(1), inside).unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    let arrived = peer.arrived();
    assert!(
        matches!(arrived[..], [(1, tai_ns)] if tai_ns + DELTA_MS * MS >= inside),
        "{arrived:?}, due at {inside}"
    );
    // TAPRIO drops frames without a report; only the sender's own error shows it.
    assert_eq!(reports(&mut stamps), []);
    assert_eq!(sender.count(), 2);
}
