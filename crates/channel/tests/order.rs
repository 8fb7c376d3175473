//! Order of delivery: most urgent first, or the newest only.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use rtwire_channel::{Order, Semantics, WakeUp};
use rtwire_link::{Sender, SenderConfig};
use rtwire_testkit::{NetnsPair, require};
use rtwire_wire::rtdip::Header;
use rtwire_wire::{EtherType, MacAddress, Pcp, ethernet};
use std::time::Duration;

#[test]
fn the_most_urgent_comes_first_and_the_oldest_among_equals() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            if wait.1 == Order::Arrival {
                continue;
            }
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = wait;
            let (_endpoint, mut listener) = listener(&pair, way, &config);
            let mut talkers: Vec<_> = (0..8)
                .map(|pcp| {
                    let mut config = talker_config(&pair.a, &pair.b, way, 1001);
                    config.pcp = Pcp::new(pcp).unwrap();
                    // Priority 7 needs CAP_NET_ADMIN, which root has.
                    config.source_port = u16::from(pcp);
                    talker(&pair, &config)
                })
                .collect();
            // 60 frames of low priority, among them a few others.
            let plan: Vec<usize> = (0..60)
                .map(|at| [0, 0, 3, 0, 1][at % 5])
                .chain([7])
                .collect();
            for &pcp in &plan {
                talkers[pcp].send(&[pcp as u8]).unwrap();
            }
            let mut expected: Vec<(u8, u32)> = Vec::new();
            for pcp in (0..8).rev() {
                let count = plan.iter().filter(|&&p| p == pcp).count() as u32;
                expected.extend((0..count).map(|number| (pcp as u8, number)));
            }
            for (at, &expected) in expected.iter().enumerate() {
                let got = listener.recv(NOW).unwrap().unwrap();
                assert_eq!(
                    (got.priority.get(), got.sequence),
                    expected,
                    "{way:?} {wait:?} {at}"
                );
                assert_eq!(got.data, [expected.0]);
                if at == 30 {
                    // A value that arrives while others wait is seen at the next call.
                    talkers[6].send(b"late").unwrap();
                    let got = listener.recv(NOW).unwrap().unwrap();
                    assert_eq!((got.priority.get(), got.data), (6, &b"late"[..]));
                }
            }
            assert!(listener.recv(NOW).unwrap().is_none());
            let seen = listener.statistics().unwrap();
            assert_eq!((seen.lost, seen.reordered, seen.duplicated), (0, 0, 0));
        }
    }
}

#[test]
fn only_the_newest_value_counts() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = wait;
            let (_endpoint, mut listener) = newest_listener(&pair, way, &config);
            assert!(listener.read().unwrap().is_none());
            assert!(!listener.wait(Some(Duration::from_millis(5))).unwrap());
            let mut config = talker_config(&pair.a, &pair.b, way, 1001);
            config.semantics = Semantics::Newest;
            let mut talker = talker(&pair, &config);
            let before = rtwire_sys::clock::now_ns(rtwire_sys::clock::Clock::Tai);
            for value in 0..10_u8 {
                talker.send(&[value; 100]).unwrap();
            }
            assert!(listener.wait(SOON).unwrap());
            let newest = listener.read().unwrap().unwrap();
            assert_eq!(newest.data, [9; 100]);
            assert_eq!((newest.sequence, newest.skipped), (9, 9));
            assert!(newest.fresh && !newest.overrun);
            assert!(newest.arrival_ns >= before);
            let again = listener.read().unwrap().unwrap();
            assert_eq!(
                (again.data, again.skipped, again.fresh),
                (&[9; 100][..], 0, false)
            );
            // A restarted talker begins its numbers anew, and its values are accepted.
            let mut second = self::talker(&pair, &config);
            second.send(b"again").unwrap();
            assert!(listener.wait(SOON).unwrap());
            let newest = listener.read().unwrap().unwrap();
            // With UDP each socket has another source address, so it counts as another talker.
            assert_eq!(
                (newest.data, newest.sequence),
                (&b"again"[..], 0),
                "{way:?}"
            );
            // The receive program does not count restarts.
            let restarted = u64::from(way != Way::Udp && !way.in_program());
            assert_eq!(listener.statistics().unwrap().restarted, restarted);
        }
    }
}

#[test]
fn a_newest_value_reader_that_slept_too_long_is_told() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = wait;
            config.queue_frames = 16;
            let (_endpoint, mut listener) = newest_listener(&pair, way, &config);
            let mut config = talker_config(&pair.a, &pair.b, way, 1001);
            config.semantics = Semantics::Newest;
            let mut talker = talker(&pair, &config);
            for value in 0..500_u32 {
                talker.send(&value.to_be_bytes()).unwrap();
            }
            let newest = listener.read().unwrap().unwrap();
            if way.in_program() {
                // The receive program keeps the newest value however long its reader sleeps.
                assert_eq!(
                    (newest.sequence, newest.skipped, newest.overrun),
                    (499, 499, false)
                );
                continue;
            }
            assert!(newest.overrun, "{way:?} {wait:?} {}", newest.sequence);
            assert!(newest.sequence < 499);
            talker.send(b"next").unwrap();
            let newest = listener.read().unwrap().unwrap();
            assert_eq!((newest.sequence, newest.overrun), (500, false));
            assert!(newest.skipped > 0);
            assert!(listener.statistics().unwrap().dropped > 0);
        }
    }
}

#[test]
fn in_order_of_arrival_nothing_overtakes() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wake_up in [WakeUp::Block, WakeUp::Spin] {
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = (wake_up, Order::Arrival);
            let (_endpoint, mut listener) = listener(&pair, way, &config);
            let mut talkers = [1, 6].map(|pcp| {
                let mut config = talker_config(&pair.a, &pair.b, way, 1001);
                config.pcp = Pcp::new(pcp).unwrap();
                talker(&pair, &config)
            });
            for value in 0..40_u8 {
                talkers[usize::from(value % 3 == 0)].send(&[value]).unwrap();
            }
            for value in 0..40_u8 {
                assert_eq!(listener.recv(NOW).unwrap().unwrap().data, [value]);
            }
            assert!(listener.recv(NOW).unwrap().is_none());
        }
    }
}

#[test]
fn a_newest_value_never_goes_back() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for (wait, way) in WAITS
        .into_iter()
        .flat_map(|wait| FRAMES.map(|way| (wait, way)))
    {
        let mut config = listener_config(way, 1001);
        (config.wake_up, config.order) = wait;
        let (_endpoint, mut listener) = newest_listener(&pair, way, &config);
        let link = SenderConfig::new(pair.a.interface.as_str());
        let mut sender = pair.a.run(|| Sender::frames(&link)).unwrap();
        let mut send = |sequence: u32, time_ns| {
            let ethernet = ethernet::Header {
                destination: MacAddress(pair.b.mac),
                source: MacAddress(pair.a.mac),
                vlan: None,
                ether_type: EtherType::RTDIP,
            };
            let header = Header {
                semantics: Semantics::Newest,
                priority: Pcp::LOWEST,
                destination_port: 1001,
                source_port: 1,
                sequence,
                key: 0,
                time_ns: Some(time_ns),
            };
            let mut frame = [0; 60];
            let start = ethernet.emit(&mut frame).unwrap();
            header
                .emit(&sequence.to_be_bytes(), &mut frame[start..])
                .unwrap();
            sender.send(&frame).unwrap();
        };
        let mut newest = || {
            let newest = listener.read().unwrap().unwrap();
            assert_eq!(newest.data, newest.sequence.to_be_bytes());
            (newest.sequence, newest.fresh, newest.skipped)
        };
        // Near the wrap: 2, 0, max - 1 and max are sent in another order.
        send(u32::MAX - 1, 100);
        send(0, 102);
        assert_eq!(newest(), (0, true, 2));
        send(u32::MAX, 101);
        assert_eq!(newest(), (0, false, 0));
        send(0, 102);
        assert_eq!(newest(), (0, false, 0));
        send(2, 104);
        send(1, 103);
        assert_eq!(newest(), (2, true, 1));
        // Sent later although its number is lower: a restarted talker.
        send(0, 200);
        assert_eq!(newest(), (0, true, 0));
        send(3, 105);
        assert_eq!(
            newest(),
            (3, true, 2),
            "a late one of the old talker cannot be told from a lost pair"
        );
    }
}
