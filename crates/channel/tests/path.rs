//! Receive paths: chosen, reported, shared between endpoints, policed, taken away.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use rtwire_channel::{
    ChannelError, Endpoint, EndpointConfig, LinkError, PathInUse, Police, ReceivePath, Semantics,
    WakeUp,
};
use rtwire_testkit::{NetnsPair, ip, require, without_bpf};
use std::time::Duration;

#[test]
fn the_path_is_said() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for (path, in_use) in [
        (ReceivePath::Packet, PathInUse::Packet),
        (ReceivePath::Auto, PathInUse::Native),
        (ReceivePath::Native, PathInUse::Native),
        (ReceivePath::Generic, PathInUse::Generic),
    ] {
        let config = EndpointConfig {
            path,
            ..EndpointConfig::new(pair.b.interface.as_str())
        };
        let endpoint = pair.b.run(|| Endpoint::with(&config)).unwrap();
        assert_eq!(endpoint.path_in_use(), in_use);
        assert_eq!(endpoint.why_not_better(), None);
        assert_eq!(
            endpoint.path_in_use().to_string().parse(),
            Ok(match in_use {
                PathInUse::Native => ReceivePath::Native,
                PathInUse::Generic => ReceivePath::Generic,
                PathInUse::Uman => ReceivePath::Uman,
                PathInUse::Packet | PathInUse::Datagrams | PathInUse::Agent => {
                    ReceivePath::Packet
                }
            })
        );
    }
    let wrong = "native mode".parse::<ReceivePath>().unwrap_err();
    assert!(wrong.contains("auto, native, generic, packet"), "{wrong}");
}

/// Packet sockets serve where XDP is missing, and the reason is reported. If the program is required, that is an
/// error.
#[test]
fn where_there_is_no_xdp_packet_sockets_do_and_it_is_said() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let with = |path| EndpointConfig {
        path,
        ..EndpointConfig::new(pair.b.interface.as_str())
    };
    // This MTU is too long for native mode: the driver refuses, and generic mode takes its place.
    for (side, name) in [(&pair.a, "rtwa"), (&pair.b, "rtwb")] {
        ip(&side.namespace, &format!("link set {name} mtu 9000"));
    }
    let endpoint = pair
        .b
        .run(|| Endpoint::with(&with(ReceivePath::Auto)))
        .unwrap();
    assert_eq!(endpoint.path_in_use(), PathInUse::Generic);
    let why = endpoint.why_not_better().unwrap();
    assert!(why.contains("MTU"), "{why}");
    // While it is shared in generic mode, the program is not available in native mode.
    let refused = pair.b.run(|| Endpoint::with(&with(ReceivePath::Native)));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("in generic mode already"), "{refused}");
    drop(endpoint);
    let refused = pair.b.run(|| Endpoint::with(&with(ReceivePath::Native)));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("MTU"), "{refused}");
}

/// Runs in a process of its own that may not use BPF.
#[test]
#[ignore = "run by the next test"]
fn child_without_cap_bpf() {
    let with = |path| EndpointConfig {
        path,
        ..EndpointConfig::new("rtwb")
    };
    let endpoint = Endpoint::with(&with(ReceivePath::Auto)).unwrap();
    println!(
        "TOLD {}: {}",
        endpoint.path_in_use(),
        endpoint.why_not_better().unwrap()
    );
    endpoint
        .queue_listener(&rtwire_channel::ListenerConfig::new(1))
        .unwrap();
    println!(
        "TOLD {}",
        Endpoint::with(&with(ReceivePath::Generic)).unwrap_err()
    );
}

#[test]
fn without_cap_bpf_packet_sockets_do_and_it_is_said() {
    require!(root, program "ip", program "setpriv");
    let pair = NetnsPair::new();
    // Entering a namespace needs one of the capabilities that are then dropped.
    let output = std::process::Command::new("ip")
        .args(["netns", "exec", &pair.b.namespace, "setpriv"])
        .arg("--bounding-set=-bpf,-sys_admin")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_without_cap_bpf", "--ignored"])
        .arg("--nocapture")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("TOLD packet: "), "{text}");
    assert_eq!(text.matches("CAP_BPF").count(), 2, "{text}");
}

/// A kernel without BPF, imitated by a seccomp filter.
#[test]
fn without_bpf_packet_sockets_do_and_it_is_said() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let mut config = EndpointConfig {
        path: ReceivePath::Auto,
        ..EndpointConfig::new(pair.b.interface.as_str())
    };
    without_bpf(|| {
        let endpoint = pair.b.run(|| Endpoint::with(&config)).unwrap();
        assert_eq!(endpoint.path_in_use(), PathInUse::Packet);
        let why = endpoint.why_not_better().unwrap();
        assert!(why.contains("a kernel with BPF and BTF"), "{why}");
        let listening = listener_config(Way::RtdipDirect, 1001);
        let mut listener = pair.b.run(|| endpoint.queue_listener(&listening)).unwrap();
        let mut talker = talker(
            &pair,
            &talker_config(&pair.a, &pair.b, Way::RtdipDirect, 1001),
        );
        talker.send(b"came").unwrap();
        assert_eq!(listener.recv(SOON).unwrap().unwrap().data, b"came");
        config.path = ReceivePath::Generic;
        assert!(pair.b.run(|| Endpoint::with(&config)).is_err());
    });
}

#[test]
fn endpoints_share_the_program_and_each_has_its_own() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in [Way::Native, Way::Generic] {
        let (first, mut one) = listener(&pair, way, &listener_config(way, 1001));
        let (second, mut two) = newest_listener(&pair, way, &listener_config(way, 1002));
        let mut to_one = talker(&pair, &talker_config(&pair.a, &pair.b, way, 1001));
        let mut config = talker_config(&pair.a, &pair.b, way, 1002);
        config.semantics = Semantics::Newest;
        let mut to_two = talker(&pair, &config);
        drop(first);
        for value in 0..3 {
            to_one.send(&[value]).unwrap();
            to_two.send(&[value + 10]).unwrap();
            assert_eq!(one.recv(SOON).unwrap().unwrap().data, [value]);
            assert!(two.wait(SOON).unwrap());
            assert_eq!(two.read().unwrap().unwrap().data, [value + 10]);
        }
        drop(one);
        to_one.send(b"nobody").unwrap();
        to_two.send(b"still").unwrap();
        assert!(two.wait(SOON).unwrap());
        assert_eq!(two.read().unwrap().unwrap().data, b"still");
        assert_eq!(second.statistics().unwrap().refused.unknown_port, 1);
    }
}

#[test]
fn what_exceeds_the_contract_is_dropped_and_counted() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            let mut config = listener_config(way, 1001);
            (config.wake_up, config.order) = wait;
            // A burst of some five frames of this length, then one frame in some minutes.
            config.police = Some(Police::new(100, 5 * 8 * 230));
            let (endpoint, mut listener) = listener(&pair, way, &config);
            let mut talker = talker(&pair, &talker_config(&pair.a, &pair.b, way, 1001));
            for _ in 0..20 {
                talker.send(&[7; 130]).unwrap();
            }
            let mut came = 0;
            while listener
                .recv(Some(Duration::from_millis(10)))
                .unwrap()
                .is_some()
            {
                came += 1;
            }
            let seen = listener.statistics().unwrap();
            assert!((4..=7).contains(&came), "{way:?} {wait:?}: {came}");
            assert_eq!(
                (seen.received, seen.refused.policed),
                (came, 20 - came),
                "{way:?} {wait:?}"
            );
            drop(listener);
            assert_eq!(endpoint.statistics().unwrap().refused.policed, 20 - came);
        }
    }
}

#[test]
fn a_program_that_is_taken_away_is_told_and_comes_again_when_it_is_told_to() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in [Way::Native, Way::Generic] {
        for wake_up in [WakeUp::Block, WakeUp::Spin] {
            let mut config = listener_config(way, 1001);
            config.wake_up = wake_up;
            let (endpoint, mut queue) = listener(&pair, way, &config);
            config.port = 1002;
            let mut newest = pair.b.run(|| endpoint.newest_listener(&config)).unwrap();
            endpoint.program().unwrap().detach().unwrap();
            let told = |error: Option<ChannelError>| {
                let error = error.unwrap();
                assert!(
                    matches!(error, ChannelError::Link(LinkError::ProgramDetached { .. })),
                    "{error}"
                );
            };
            told(queue.recv(SOON).err());
            told(newest.wait(SOON).err());
            told(newest.read().err());
            pair.b
                .run(|| endpoint.program().unwrap().reattach())
                .unwrap();
            let mut talker = talker(&pair, &talker_config(&pair.a, &pair.b, way, 1001));
            talker.send(b"again").unwrap();
            assert_eq!(queue.recv(SOON).unwrap().unwrap().data, b"again");
        }
    }
}

/// A renamed interface is the same interface with another name.
#[test]
fn a_renamed_interface_goes_on() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in [Way::RtdipDirect, Way::Native, Way::Generic] {
        let (_endpoint, mut listener) = listener(&pair, way, &listener_config(way, 1001));
        let mut talker = talker(&pair, &talker_config(&pair.a, &pair.b, way, 1001));
        for name in ["rtwother", "rtwb"] {
            let old = if name == "rtwb" { "rtwother" } else { "rtwb" };
            let rename = format!("link set {old} name {name}");
            let output = std::process::Command::new("ip")
                .args(["-n", &pair.b.namespace])
                .args(rename.split(' '))
                .output()
                .unwrap();
            if !output.status.success() {
                // Kernels before 6.5 or so rename an interface only while it is down.
                ip(&pair.b.namespace, &format!("link set {old} down"));
                ip(&pair.b.namespace, &rename);
                ip(&pair.b.namespace, &format!("link set {name} up"));
                let _ = listener.recv(Some(Duration::from_millis(150)));
            }
            talker.send(name.as_bytes()).unwrap();
            let received = listener.recv(SOON).unwrap().unwrap();
            assert_eq!(received.data, name.as_bytes(), "{way:?}");
        }
    }
}

/// `auto` chooses by the listener's semantics and its way to wait; and the program works beside sockets of another
/// process.
#[test]
fn auto_takes_what_costs_each_listener_less_and_strays_stay_right() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let with = |path| EndpointConfig {
        path,
        ..EndpointConfig::new(pair.b.interface.as_str())
    };
    let open = |path| pair.b.run(|| Endpoint::with(&with(path))).unwrap();
    let endpoint = open(ReceivePath::Auto);
    let queue = |endpoint: &Endpoint, port, wake_up| {
        let mut config = listener_config(Way::Native, port);
        config.wake_up = wake_up;
        config.key = 5;
        pair.b.run(|| endpoint.queue_listener(&config)).unwrap()
    };
    let mut blocks = queue(&endpoint, 1001, WakeUp::Block);
    let mut spins = queue(&endpoint, 1002, WakeUp::Spin);
    let mut first_spins = queue(
        &endpoint,
        1003,
        WakeUp::SpinThenBlock(Duration::from_micros(20)),
    );
    let newest = pair
        .b
        .run(|| endpoint.newest_listener(&listener_config(Way::Native, 1004)))
        .unwrap();
    let datagrams = pair
        .b
        .run(|| endpoint.queue_listener(&listener_config(Way::Udp, 1005)))
        .unwrap();
    // As good as other processes: one endpoint without the program, one that shares it.
    let (packet, sharing) = (open(ReceivePath::Packet), open(ReceivePath::Auto));
    let mut others = [
        queue(&packet, 1006, WakeUp::Block),
        queue(&sharing, 1007, WakeUp::Block),
        queue(&sharing, 1008, WakeUp::Spin),
    ];
    assert_eq!(
        [
            &blocks,
            &spins,
            &first_spins,
            &datagrams,
            &others[0],
            &others[1],
            &others[2]
        ]
        .map(|listener| listener.path_in_use().path),
        [
            PathInUse::Packet,
            PathInUse::Native,
            PathInUse::Native,
            PathInUse::Datagrams,
            PathInUse::Packet,
            PathInUse::Packet,
            PathInUse::Native
        ]
    );
    assert_eq!(newest.path_in_use().to_string(), "native");
    let why = blocks.path_in_use().to_string();
    assert!(
        why.starts_with("packet (") && why.contains("sleeps"),
        "{why}"
    );

    let mut injector = Injector::new(&pair);
    for port in 1001..=1010_u16 {
        if port == 1004 || port == 1005 {
            continue;
        }
        let mut packet = good_packet();
        packet[2..4].copy_from_slice(&port.to_be_bytes());
        injector.send(&packet);
        // Frames with faults that a reader, a filter and the program can find.
        let at = |place: usize, value| {
            let mut packet = packet.clone();
            packet[place] = value;
            packet
        };
        injector.send(&at(6, 0xff));
        injector.send(&at(1, 8));
        injector.send(&at(0, 0x22));
        injector.send(&packet[..20]);
        injector.send(&at(12, 1));
    }
    let mut own = [&mut blocks, &mut spins, &mut first_spins];
    for listener in own.iter_mut().map(|one| &mut **one).chain(&mut others) {
        assert_eq!(listener.recv(SOON).unwrap().unwrap().data, b"0123456789");
        assert!(listener.recv(NOW).unwrap().is_none());
    }
    let expected = |wrong_key| rtwire_channel::Refusals {
        truncated: 8,
        wrong_version: 8,
        wrong_length: 8,
        malformed: 8,
        // Correct frames, and frames with a wrong key, for ports 1009 and 1010.
        unknown_port: 4,
        wrong_key,
        ..rtwire_channel::Refusals::default()
    };
    let statistics = |endpoint: &Endpoint| pair.b.run(|| endpoint.statistics()).unwrap().refused;
    assert_eq!(statistics(&endpoint), expected(3));
    assert_eq!(statistics(&sharing), expected(2));
    // Refusals of a closed listener are not counted again.
    pair.b.run(|| drop((blocks, spins, newest, datagrams)));
    assert_eq!(statistics(&endpoint), expected(3));
    let mut packet = good_packet();
    packet[2..4].copy_from_slice(&1001_u16.to_be_bytes());
    injector.send(&packet);
    assert_eq!(statistics(&endpoint).unknown_port, 5);
}
