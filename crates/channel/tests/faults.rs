//! Errors are reported precisely and counted, and never cause a panic.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use rtwire_channel::{ChannelError, Endpoint, LinkError, Refusals, Talker, WakeUp};
use rtwire_testkit::{NetnsPair, ip, require, without_bpf};
use rtwire_wire::MacAddress;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_port_has_one_listener() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        let config = listener_config(way, 1001);
        let (endpoint, first) = listener(&pair, way, &config);
        let again = |endpoint: &Endpoint| pair.b.run(|| endpoint.queue_listener(&config).map(drop));
        let other = self::endpoint(&pair, way);
        for endpoint in [&endpoint, &other] {
            let error = again(endpoint).unwrap_err();
            assert!(
                matches!(error, ChannelError::PortInUse { port: 1001, .. }),
                "{error:?}"
            );
            let text = "port 1001 on interface `rtwb` is in use already: choose another port, or end the program that \
                        listens there";
            assert_eq!(error.to_string(), text);
        }
        // The other namespace is another network.
        pair.a.run(|| {
            let endpoint = Endpoint::open(&pair.a.interface).unwrap();
            endpoint.queue_listener(&config).map(drop).unwrap();
        });
        drop(first);
        again(&other).unwrap();
    }
}

#[test]
fn an_unknown_interface_is_named() {
    let error = Endpoint::open("nosuch0").unwrap_err();
    let text = "SIOCGIFINDEX for interface `nosuch0`: No such device; look at `ip link` for the interfaces there are";
    assert_eq!(error.to_string(), text);
    assert!(Endpoint::open("a-name-that-is-too-long").is_err());
}

/// Runs in a process of its own, without CAP_NET_RAW: see the next test.
#[test]
#[ignore = "run by the test without_cap_net_raw_the_capability_is_named"]
fn child_without_cap_net_raw() {
    let namespace = std::env::var("RTWTEST_NAMESPACE").unwrap();
    rtwire_sys::netns::enter(&namespace).unwrap();
    let config = rtwire_channel::TalkerConfig::new(
        "rtwa",
        rtwire_channel::Transport::rtdip(MacAddress::BROADCAST),
        1,
    );
    let talker = Talker::open(&config).unwrap_err();
    let listener = Endpoint::open("rtwa")
        .unwrap()
        .queue_listener(&rtwire_channel::ListenerConfig::new(1))
        .unwrap_err();
    for error in [talker, listener] {
        assert_eq!(error.capability(), Some("CAP_NET_RAW"));
        println!("TOLD {error}");
    }
}

#[test]
fn without_cap_net_raw_the_capability_is_named() {
    require!(root, program "ip", program "setpriv");
    let pair = NetnsPair::new();
    let output = Command::new("setpriv")
        .arg("--bounding-set=-net_raw")
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "child_without_cap_net_raw",
            "--ignored",
            "--nocapture",
        ])
        .env("RTWTEST_NAMESPACE", &pair.a.namespace)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let told = "TOLD socket(AF_PACKET) for interface `rtwa`: Operation not permitted; CAP_NET_RAW is needed: run as root, \
                or give it with `setcap cap_net_raw+ep PROGRAM`";
    assert_eq!(text.matches(told).count(), 2, "{text}");
    assert!(output.status.success());
}

#[test]
fn an_interface_that_vanishes_ends_the_wait() {
    require!(root, program "ip");
    for way in WAYS {
        for wait in WAITS {
            let pair = NetnsPair::new();
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = wait;
            let (_endpoint, mut listener) = listener(&pair, way, &config);
            let mut talker = talker(&pair, &talker_config(&pair.a, &pair.b, way, 1001));
            talker.send(b"x").unwrap();
            assert!(listener.recv(SOON).unwrap().is_some());
            let start = Instant::now();
            let (first, second) = std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let first = listener.recv(Some(Duration::from_secs(10))).unwrap_err();
                    // The interface is seen as down before it is seen as gone.
                    let second = listener.recv(Some(Duration::from_secs(10))).unwrap_err();
                    (first, second)
                });
                std::thread::sleep(Duration::from_millis(50));
                ip(&pair.a.namespace, "link del rtwa");
                waiting.join().unwrap()
            });
            let at = format!("{way:?} {wait:?}: {first}; {second}");
            assert!(start.elapsed() < Duration::from_secs(5), "{at}");
            let down = matches!(first, ChannelError::Link(LinkError::InterfaceDown { .. }));
            assert!(first.is_gone() || down, "{at}");
            assert!(second.is_gone(), "{at}");
            assert!(
                second.to_string().contains("interface `rtwb` is gone"),
                "{at}"
            );
            let error = talker.send(b"x").unwrap_err();
            assert!(error.is_gone(), "{way:?}: {error:?}");
        }
    }
}

#[test]
fn an_interface_that_was_down_comes_back() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = wait;
            let (_endpoint, mut listener) = listener(&pair, way, &config);
            let mut talker = talker(&pair, &talker_config(&pair.a, &pair.b, way, 1001));
            ip(&pair.b.namespace, "link set rtwb down");
            if way != Way::Udp {
                let error = listener.recv(Some(Duration::from_millis(300))).unwrap_err();
                assert!(
                    matches!(error, ChannelError::Link(LinkError::InterfaceDown { .. })),
                    "{wait:?} {error}"
                );
            }
            ip(&pair.b.namespace, "link set rtwb up");
            let peer = "02:00:00:00:00:01";
            ip(
                &pair.b.namespace,
                &format!("neigh replace 10.77.0.1 lladdr {peer} dev rtwb nud permanent"),
            );
            // The carrier comes back only after a while; values sent before are lost.
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(3) {
                let _ = talker.send(b"x");
                if listener
                    .recv(Some(Duration::from_millis(10)))
                    .unwrap()
                    .is_some()
                {
                    break;
                }
            }
            assert!(
                listener.statistics().unwrap().received > 0,
                "{way:?} {wait:?}"
            );
        }
    }
}

#[test]
fn a_reader_that_stops_loses_only_its_own() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            let open = |port| {
                let mut config = listener_config(way, port);
                (config.wake_up, config.order) = wait;
                config.queue_frames = 64;
                listener(&pair, way, &config)
            };
            let (_first, mut stopped) = open(1001);
            let (_second, mut reading) = open(1002);
            let mut to_stopped = talker(&pair, &talker_config(&pair.a, &pair.b, way, 1001));
            let mut to_reading = talker(&pair, &talker_config(&pair.a, &pair.b, way, 1002));
            let data = [0x5a; 1000];
            for number in 0..2000 {
                to_stopped.send(&data).unwrap();
                to_reading.send(&data).unwrap();
                let got = reading.recv(SOON).unwrap().unwrap();
                assert_eq!(got.sequence, number);
            }
            let well = reading.statistics().unwrap();
            assert_eq!(
                (well.received, well.lost, well.dropped),
                (2000, 0, 0),
                "{way:?} {wait:?}"
            );
            while stopped.recv(NOW).unwrap().is_some() {}
            to_stopped.send(&data).unwrap();
            assert!(stopped.recv(SOON).unwrap().is_some());
            let ill = stopped.statistics().unwrap();
            assert!(ill.dropped > 1000, "{way:?} {wait:?} {ill:?}");
            assert_eq!(ill.dropped, ill.lost, "what was dropped is what is missing");
            assert_eq!(ill.received + ill.dropped, 2001);
        }
    }
}

fn with(at: usize, value: u8) -> Vec<u8> {
    let mut packet = good_packet();
    packet[at] = value;
    packet
}

#[test]
fn without_bpf_strays_are_counted_all_the_same() {
    require!(root, program "ip");
    without_bpf(|| {
        let refused = rtwire_link::StrayCounter::load([2, 0, 0, 0, 0, 1]).unwrap_err();
        assert!(refused.to_string().contains("CAP_BPF"), "{refused}");
        count_faulty_frames(&[Way::RtdipQdisc]);
        count_strays_while_listeners_come_and_go(Way::RtdipQdisc, Way::RtdipQdisc);
    });
}

#[test]
fn strays_are_counted_while_listeners_come_and_go() {
    require!(root, program "ip");
    for way in FRAMES {
        count_strays_while_listeners_come_and_go(way, way);
    }
    // The receive program with another process's packet sockets beside it; and the reverse.
    for way in [Way::Native, Way::Generic] {
        count_strays_while_listeners_come_and_go(way, Way::RtdipQdisc);
        count_strays_while_listeners_come_and_go(Way::RtdipQdisc, way);
    }
}

/// Each stray is counted once, by whichever path. Frames for a listener are no strays, be it here or in another
/// process.
fn count_strays_while_listeners_come_and_go(way: Way, others: Way) {
    let pair = NetnsPair::new();
    let open = |endpoint: &Endpoint, port| {
        let mut config = listener_config(Way::RtdipQdisc, port);
        config.key = 5;
        pair.b.run(|| endpoint.queue_listener(&config)).unwrap()
    };
    let endpoint = self::endpoint(&pair, way);
    // As good as another process: this endpoint has ports of its own.
    let other = self::endpoint(&pair, others);
    let mut injector = Injector::new(&pair);
    // Four ports whose lower ten bits are equal.
    let mut send_to_all = || {
        for port in [0x03e9_u16, 0x07e9, 0x0be9, 0x0fe9] {
            let mut packet = good_packet();
            packet[2..4].copy_from_slice(&port.to_be_bytes());
            injector.send(&packet);
        }
    };
    let unknown = |expected: u64| {
        let statistics = pair.b.run(|| endpoint.statistics()).unwrap();
        assert_eq!(statistics.refused.unknown_port, expected);
        assert_eq!(statistics.refused.total(), expected);
        assert_eq!(statistics.not_examined, 0);
    };
    let mut first = open(&endpoint, 0x03e9);
    send_to_all();
    unknown(3);
    let mut second = open(&endpoint, 0x07e9);
    let _others = open(&other, 0x0be9);
    send_to_all();
    unknown(4);
    assert!(first.recv(SOON).unwrap().is_some() && first.recv(NOW).unwrap().is_some());
    assert!(second.recv(NOW).unwrap().is_some() && second.recv(NOW).unwrap().is_none());
    // First the listener whose socket counts ends, then the last one left.
    pair.b.run(|| drop(first));
    send_to_all();
    unknown(6);
    assert!(second.recv(NOW).unwrap().is_some());
    pair.b.run(|| drop(second));
    send_to_all();
    unknown(9);
    let _again = open(&endpoint, 0x03e9);
    send_to_all();
    unknown(11);
}

#[test]
fn faulty_frames_are_counted_by_their_fault() {
    require!(root, program "ip");
    count_faulty_frames(&FRAMES);
}

fn count_faulty_frames(ways: &[Way]) {
    let pair = NetnsPair::new();
    for (wait, way) in WAITS
        .into_iter()
        .flat_map(|wait| ways.iter().map(move |&way| (wait, way)))
    {
        let mut config = listener_config(way, 1001);
        (config.wake_up, config.order) = wait;
        config.key = 5;
        let (endpoint, mut listener) = listener(&pair, way, &config);
        let mut injector = Injector::new(&pair);
        injector.send(&good_packet());
        assert!(listener.recv(SOON).unwrap().is_some());
        // Frames of every length shorter than a header, and a header without the timestamp it announces.
        for length in [0, 1, 2, 4, 15, 16, 23] {
            injector.send(&good_packet()[..length]);
        }
        injector.send(&with(0, 0x22));
        injector.send(&with(0, 0x02));
        injector.send(&good_packet()[..33]);
        injector.send(&with(6, 0xff));
        injector.send(&with(1, 8));
        injector.send(&with(0, 0x16));
        injector.send(&with(2, 0x77));
        injector.send(&with(12, 1));
        injector.send(&with(0, 0x13));
        // A frame for another station is neither ours nor a fault.
        injector.send_to(MacAddress([2, 0, 0, 0, 0, 99]), &good_packet());
        assert!(
            listener
                .recv(Some(Duration::from_millis(20)))
                .unwrap()
                .is_none()
        );
        let expected = Refusals {
            truncated: 7,
            wrong_version: 2,
            wrong_length: 2,
            malformed: 2,
            unknown_port: 1,
            wrong_key: 1,
            wrong_semantics: 1,
            policed: 0,
        };
        assert_eq!(endpoint.statistics().unwrap().refused, expected, "{wait:?}");
        assert_eq!(listener.statistics().unwrap().received, 1);
        // A frame for a group is for this host, too.
        injector.send_to(MacAddress::BROADCAST, &good_packet());
        assert!(listener.recv(SOON).unwrap().is_some());
        // Refusals of a closed listener stay counted.
        drop(listener);
        assert_eq!(endpoint.statistics().unwrap().refused, expected);
        injector.send(&good_packet());
        assert_eq!(endpoint.statistics().unwrap().refused.unknown_port, 2);
    }
}

#[test]
fn faulty_datagrams_are_counted_by_their_fault() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let way = Way::Udp;
    for wait in WAITS {
        let mut config = listener_config(way, 1001);
        (config.wake_up, config.order) = wait;
        config.key = 5;
        let (endpoint, mut listener) = listener(&pair, way, &config);
        let socket = pair
            .a
            .run(|| std::net::UdpSocket::bind("10.77.0.1:0"))
            .unwrap();
        socket.connect((pair.b.address, 1001)).unwrap();
        let send = |packet: &[u8]| socket.send(packet).map(drop).unwrap();
        send(&good_packet());
        assert!(listener.recv(SOON).unwrap().is_some());
        for length in [0, 1, 15, 16, 23] {
            send(&good_packet()[..length]);
        }
        send(&with(0, 0x22));
        send(&good_packet()[..33]);
        // A frame longer than its room.
        send(&[good_packet(), vec![0; 3000]].concat());
        send(&with(1, 8));
        send(&with(2, 0x77));
        send(&with(12, 1));
        send(&with(0, 0x13));
        assert!(
            listener
                .recv(Some(Duration::from_millis(20)))
                .unwrap()
                .is_none()
        );
        let expected = Refusals {
            truncated: 5,
            wrong_version: 1,
            wrong_length: 2,
            malformed: 1,
            unknown_port: 1,
            wrong_key: 1,
            wrong_semantics: 1,
            policed: 0,
        };
        assert_eq!(endpoint.statistics().unwrap().refused, expected, "{wait:?}");
    }
}

#[test]
fn arbitrary_octets_are_survived() {
    require!(root, program "ip");
    for way in FRAMES {
        survives_arbitrary_octets(way);
    }
}

fn survives_arbitrary_octets(way: Way) {
    let pair = NetnsPair::new();
    let mut config = listener_config(way, 1001);
    config.wake_up = WakeUp::Spin;
    let (endpoint, mut listener) = listener(&pair, way, &config);
    let mut injector = Injector::new(&pair);
    // A small random number generator: the same bytes in every run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..3000 {
        let length = (random() % 120) as usize;
        let mut packet: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        // Half of the frames are mostly right, so that the later checks are reached as well.
        if random() % 2 == 0 && length > 4 {
            let start = [0x10 | (packet[0] & 7), packet[1] & 15, 0x03, 0xe9];
            packet[..4].copy_from_slice(&start);
        }
        injector.send(&packet);
        while listener.recv(NOW).unwrap().is_some() {}
    }
    let seen = listener.statistics().unwrap();
    let all = endpoint.statistics().unwrap();
    let total = seen.received + all.refused.total() + all.not_examined;
    assert_eq!(total, 3000, "{way:?} {seen:?} {all:?}");
}

#[test]
fn too_much_data_is_refused() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for (way, fit) in [(Way::RtdipQdisc, 1476), (Way::Udp, 1448)] {
        let (_endpoint, mut listener) = listener(&pair, way, &listener_config(way, 1001));
        let mut talker = talker(&pair, &talker_config(&pair.a, &pair.b, way, 1001));
        assert_eq!(talker.maximum_data(), fit);
        assert_eq!(talker.frame_octets(fit), 1514);
        let error = talker.send(&vec![0; fit + 1]).unwrap_err();
        let text = format!(
            "{} bytes of user data do not fit one frame: send at most {fit} at once",
            fit + 1
        );
        assert_eq!(error.to_string(), text);
        talker.send(&vec![7; fit]).unwrap();
        assert_eq!(listener.recv(SOON).unwrap().unwrap().data, vec![7; fit]);
    }
}

#[test]
fn a_peer_that_does_not_listen_is_noticed_over_udp() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let mut talker = talker(&pair, &talker_config(&pair.a, &pair.b, Way::Udp, 1001));
    for number in 0..10 {
        assert_eq!(talker.send(b"x").unwrap(), number);
        std::thread::sleep(Duration::from_millis(5));
    }
    let statistics = talker.statistics();
    assert_eq!(statistics.sent, 10);
    assert!(statistics.refused > 0);
}

#[test]
fn a_full_transmit_queue_is_told_and_numbers_stay_right() {
    require!(root, program "ip", program "tc");
    let pair = NetnsPair::new();
    let tc = "qdisc add dev rtwa root tbf rate 8mbit burst 3000 limit 8000";
    let done = Command::new("tc")
        .args(["-n", &pair.a.namespace])
        .args(tc.split(' '))
        .status();
    assert!(done.unwrap().success());
    for way in WAYS {
        let (_endpoint, mut listener) = listener(&pair, way, &listener_config(way, 1001));
        let mut config = talker_config(&pair.a, &pair.b, way, 1001);
        config.stamping = Some(BOTH_STAMPS);
        let mut talker = talker(&pair, &config);
        let mut stamps = talker.take_stamps().unwrap().unwrap();
        let mut full = Vec::new();
        for number in 0..40 {
            if number == 30 {
                // The queue has drained: values sent now have numbers behind the dropped ones.
                std::thread::sleep(Duration::from_millis(30));
            }
            match talker.send(&[7; 1000]) {
                Ok(sequence) => assert_eq!(sequence, number),
                Err(ChannelError::Link(LinkError::QueueFull)) => full.push(number),
                Err(other) => panic!("{other}"),
            }
        }
        let mut came = Vec::new();
        while let Some(received) = listener.recv(Some(Duration::from_millis(50))).unwrap() {
            came.push(received.sequence);
        }
        let mut left = Vec::new();
        stamps
            .collect(Duration::from_millis(10), |stamp| {
                if stamp.kind == rtwire_channel::TxStampKind::Driver {
                    left.push(stamp.frame as u32);
                }
            })
            .unwrap();
        let sent: Vec<u32> = (0..40).filter(|number| !full.contains(number)).collect();
        assert_eq!(came, sent, "{way:?}");
        assert!(sent.contains(&30), "{way:?}: {sent:?}");
        assert_eq!(left, sent, "{way:?}: stamps are of the frames that left");
        assert_eq!(talker.statistics().sent, 40);
        assert_eq!(talker.statistics().queue_full, full.len() as u64);
        // Frames that bypass the queueing discipline meet no full queue.
        assert_eq!(full.is_empty(), way.is_direct(), "{way:?}");
    }
}
