//! Values arrive as they were sent: both transports, both transmit paths, all ways to wait.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use rtwire_channel::{SourceAddress, TxStampKind};
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_testkit::{NetnsPair, require};
use rtwire_wire::{MacAddress, Pcp};
use std::time::Duration;

#[test]
fn every_value_comes_as_it_was_sent() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = wait;
            config.key = 0xfeed;
            let (endpoint, mut listener) = listener(&pair, way, &config);
            let mut config = talker_config(&pair.a, &pair.b, way, 1001);
            config.key = 0xfeed;
            config.pcp = Pcp::new(5).unwrap();
            let mut talker = talker(&pair, &config);
            let before = now_ns(Clock::Tai);
            for (number, octets) in [0, 1, 64, 256, 1024, 1400].into_iter().enumerate() {
                let data: Vec<u8> = (0..octets).map(|at| (at + number) as u8).collect();
                assert_eq!(talker.send(&data).unwrap(), number as u32);
                let received = listener.recv(SOON).unwrap().expect("it was sent");
                assert_eq!(received.data, data, "{way:?} {wait:?}");
                assert_eq!(received.sequence, number as u32);
                assert_eq!(received.source_port, 7);
                assert_eq!(received.priority.get(), 5);
                let sent = received.sender_time_ns.unwrap();
                assert!(sent >= before && sent <= now_ns(Clock::Tai));
                match received.source {
                    SourceAddress::Mac(mac) => assert_eq!(mac, MacAddress(pair.a.mac)),
                    SourceAddress::Udp(address) => assert_eq!(*address.ip(), pair.a.address),
                }
            }
            assert!(
                listener
                    .recv(Some(Duration::from_millis(5)))
                    .unwrap()
                    .is_none()
            );
            let seen = listener.statistics().unwrap();
            assert_eq!((seen.received, seen.lost, seen.dropped), (6, 0, 0));
            assert_eq!((seen.duplicated, seen.reordered), (0, 0));
            assert_eq!(seen.refused.total(), 0);
            assert_eq!(endpoint.statistics().unwrap().refused.total(), 0);
            assert_eq!(talker.statistics().sent, 6);
        }
    }
}

#[test]
fn stamps_are_there_and_in_order() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = wait;
            let (_endpoint, mut listener) = listener(&pair, way, &config);
            let mut config = talker_config(&pair.a, &pair.b, way, 1001);
            config.stamping = Some(BOTH_STAMPS);
            let mut talker = talker(&pair, &config);
            let mut stamps = talker.take_stamps().unwrap().unwrap();
            assert!(talker.take_stamps().unwrap().is_none());
            // The kernel begins to stamp received frames only after a while.
            std::thread::sleep(Duration::from_millis(300));
            let mut rows = Vec::new();
            for _ in 0..100 {
                talker.send(b"x").unwrap();
                let received = listener.recv(SOON).unwrap().unwrap();
                assert!(received.stamp.is_on_the_way(), "settled long ago");
                let stamp = received.arrival_ns;
                rows.push((received.sender_time_ns.unwrap(), stamp, now_ns(Clock::Tai)));
            }
            let (mut queue, mut driver) = (vec![0; 100], vec![0; 100]);
            while stamps
                .collect(Duration::from_millis(20), |stamp| match stamp.kind {
                    TxStampKind::Queue => queue[stamp.frame as usize] = stamp.tai_ns,
                    TxStampKind::Driver => driver[stamp.frame as usize] = stamp.tai_ns,
                    TxStampKind::Card => unreachable!("not asked for"),
                })
                .unwrap()
                > 0
            {}
            for (frame, (sent, received, seen)) in rows.into_iter().enumerate() {
                let (queue, driver) = (queue[frame], driver[frame]);
                let at = format!("{way:?} {wait:?} frame {frame}");
                if way.is_direct() {
                    assert_eq!(queue, 0, "{at}: there is no queue to enter");
                } else {
                    assert!(sent <= queue && queue <= driver, "{at}");
                }
                assert!(
                    sent <= driver && driver <= received && received <= seen,
                    "{at}"
                );
            }
            assert_eq!(listener.statistics().unwrap().unstamped, 0);
        }
    }
}

/// Returns the frames of `kind` that arrive at `b` while `work` runs, headers included.
fn captured(pair: &NetnsPair, kind: u16, work: impl FnOnce()) -> Vec<Vec<u8>> {
    use rtwire_link::{Receiver, ReceiverConfig, WakeUp};
    use rtwire_sys::filter::{Filter, Instruction};
    let config = ReceiverConfig {
        interface: pair.b.interface.clone(),
        wake_up: WakeUp::Block,
        queue_frames: 64,
        stamps: false,
        one_by_one: false,
    };
    let all = Filter::new(&[Instruction::Accept]).unwrap();
    let mut receiver = pair
        .b
        .run(|| Receiver::frames(&config, kind, &all))
        .unwrap();
    work();
    let mut frames = Vec::new();
    while receiver.wait(Some(Duration::from_millis(20))).unwrap() {
        frames.push(receiver.peek().unwrap().data.to_vec());
        receiver.release();
    }
    frames
}

#[test]
fn frames_on_the_wire_are_as_documented() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let mut config = talker_config(&pair.a, &pair.b, Way::RtdipQdisc, 1001);
    config.pcp = Pcp::new(3).unwrap();
    let mut talker = talker(&pair, &config);
    let frames = captured(&pair, 0x88B5, || {
        talker.send(&[0xff; 100]).unwrap();
        talker.send(&[0xee; 2]).unwrap();
    });
    assert_eq!(frames[0].len(), talker.frame_octets(100));
    // Short frames are padded with zeros, not with remains of earlier frames.
    assert_eq!(frames[1].len(), 60);
    assert_eq!(talker.frame_octets(2), 60);
    assert_eq!(
        frames[1][..14],
        [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]
    );
    assert_eq!(frames[1][14..22], [0x12, 3, 0x03, 0xe9, 0, 7, 0, 2]);
    assert_eq!(frames[1][22..30], [0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(frames[1][38..], [vec![0xee; 2], vec![0; 20]].concat());
}

#[test]
fn datagrams_carry_the_priority_as_type_of_service() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let mut config = talker_config(&pair.a, &pair.b, Way::Udp, 1001);
    config.pcp = Pcp::new(5).unwrap();
    let mut talker = talker(&pair, &config);
    let frames = captured(&pair, 0x0800, || {
        talker.send(&[1; 30]).unwrap();
    });
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].len(), talker.frame_octets(30));
    assert_eq!(frames[0][15], 5 << 5);
}

#[test]
fn tagged_frames_come_too() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for wait in WAITS {
        for (vid, way) in [
            (0, Way::RtdipQdisc),
            (100, Way::RtdipQdisc),
            (100, Way::RtdipDirect),
            (100, Way::Native),
            (100, Way::Generic),
        ] {
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = wait;
            let (_endpoint, mut listener) = listener(&pair, way, &config);
            let mut config = talker_config(&pair.a, &pair.b, way, 1001);
            config.pcp = Pcp::new(6).unwrap();
            config.transport = rtwire_channel::Transport::Rtdip {
                destination: MacAddress(pair.b.mac),
                vlan: rtwire_wire::VlanTag::new(config.pcp, vid),
            };
            let mut talker = talker(&pair, &config);
            assert_eq!(talker.frame_octets(1), 64);
            assert_eq!(talker.frame_octets(talker.maximum_data()), 1518);
            for octets in [1, 500, talker.maximum_data()] {
                talker.send(&vec![9; octets]).unwrap();
                let received = listener.recv(SOON).unwrap().expect("it was sent");
                assert_eq!(received.data, vec![9; octets]);
                assert_eq!(received.priority.get(), 6);
            }
        }
    }
}
