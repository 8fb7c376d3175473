//! Each sentence of the rule for ports.

use super::*;

fn port() -> PortEvidence {
    PortEvidence {
        id: PortId::new("s1", "B"),
        link_rate_bps: 100_000_000,
        promised_backlog_bytes: Some(100_000),
        buffer_bytes: Some(130_204),
        max_backlog_bytes: Some(90_000),
        frames_dropped: 0,
        drop_windows: vec![],
        backlog: vec![BacklogSample {
            from_ns: 700 * MS,
            to_ns: 701 * MS,
            max_bytes: 90_000,
        }],
        utilization_ppm: 900_000,
        hold_ns: 0,
        utilization_percent: 90.0,
        emulated: None,
    }
}

#[test]
fn ports() {
    let with = |port: PortEvidence, stall: Option<Stall>, lost: u64| {
        let n = 2_000 + lost;
        let s = StreamEvidence {
            frames_sent: n,
            frames_planned: n,
            ..stream(&good(2_000))
        };
        judge(&Evidence {
            ports: vec![port],
            stalls: stalls(stall),
            ..evidence(s)
        })
    };
    assert_eq!(with(port(), None, 0).verdict, Verdict::Kept);

    let over = PortEvidence {
        max_backlog_bytes: Some(110_000),
        backlog: vec![BacklogSample {
            from_ns: 700 * MS,
            to_ns: 701 * MS,
            max_bytes: 110_000,
        }],
        ..port()
    };
    assert_eq!(with(over.clone(), None, 0).verdict, Verdict::Broken);
    // 10 000 B are 800 µs at 100 Mbit/s.
    let j = with(
        over.clone(),
        Some(core_stall(700 * MS, 700 * MS + 800 * US)),
        0,
    );
    assert_eq!(j.verdict, Verdict::Inconclusive, "{:?}", j.reasons);
    assert_eq!(
        with(
            over.clone(),
            Some(core_stall(700 * MS, 700 * MS + 799 * US)),
            0
        )
        .verdict,
        Verdict::Broken
    );
    let unseen = PortEvidence {
        backlog: vec![],
        ..over
    };
    assert_eq!(
        with(unseen, Some(core_stall(700 * MS, 710 * MS)), 0).verdict,
        Verdict::Broken
    );

    let dropped = PortEvidence {
        frames_dropped: 2,
        drop_windows: vec![DropWindow {
            from_ns: 700 * MS,
            to_ns: 705 * MS,
            frames: 2,
        }],
        ..port()
    };
    assert_eq!(with(dropped.clone(), None, 2).verdict, Verdict::Broken);
    // 30 204 B of spare buffer are 2 416.32 µs.
    let j = with(
        dropped.clone(),
        Some(core_stall(701 * MS, 703 * MS + 417 * US)),
        2,
    );
    assert_eq!(j.verdict, Verdict::Inconclusive, "{:?}", j.reasons);
    assert_eq!(
        j.streams[0].verdict,
        Verdict::Inconclusive,
        "the stream's loss is explained with it"
    );
    assert_eq!(
        with(
            dropped.clone(),
            Some(core_stall(701 * MS, 703 * MS + 416 * US)),
            2
        )
        .verdict,
        Verdict::Broken
    );
    assert_eq!(
        with(
            dropped.clone(),
            Some(core_stall(701 * MS, 703 * MS + 417 * US)),
            3
        )
        .verdict,
        Verdict::Broken,
        "one more lost than dropped"
    );
    let more = PortEvidence {
        frames_dropped: 3,
        ..dropped
    };
    assert_eq!(
        with(more, Some(core_stall(701 * MS, 704 * MS)), 2).verdict,
        Verdict::Broken,
        "nobody knows when the third was dropped"
    );

    let unknown = PortEvidence {
        max_backlog_bytes: None,
        ..port()
    };
    assert_eq!(with(unknown, None, 0).verdict, Verdict::Inconclusive);
    let unbounded = PortEvidence {
        promised_backlog_bytes: None,
        ..port()
    };
    assert_eq!(
        with(unbounded.clone(), None, 0).verdict,
        Verdict::Inconclusive
    );
    assert_eq!(
        with(
            PortEvidence {
                frames_dropped: 1,
                ..unbounded
            },
            None,
            0
        )
        .verdict,
        Verdict::Broken
    );
}
