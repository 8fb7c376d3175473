//! Tests of polling the driver in the receiver's own calls. They need root.

use super::*;
use rtwire_testkit::{NetnsPair, require};
use std::net::UdpSocket;
use std::process::Command;

fn config(pair: &NetnsPair) -> ReceiverConfig {
    ReceiverConfig {
        interface: pair.b.interface.clone(),
        wake_up: WakeUp::Block,
        queue_frames: 16,
        stamps: false,
        one_by_one: true,
    }
}

#[test]
fn a_reader_that_polls_takes_what_no_interrupt_announces() {
    require!(root, program "ethtool");
    let pair = NetnsPair::new();
    for (side, feature, state) in [(&pair.a, "tso", "off"), (&pair.b, "gro", "on")] {
        let done = Command::new("ip")
            .args(["netns", "exec", &side.namespace, "ethtool", "-K"])
            .args([side.interface.as_str(), feature, state])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let local = SocketAddrV4::new(pair.b.address, 2007);
    let mut receiver = pair
        .b
        .run(|| Receiver::datagrams(&config(&pair), local))
        .unwrap();
    receiver.busy_poll(Duration::from_micros(100)).unwrap();
    assert_eq!(receiver.napi_id().unwrap(), None, "nothing has come yet");
    let peer = pair.a.run(|| UdpSocket::bind((pair.a.address, 0)).unwrap());
    peer.connect(local).unwrap();
    peer.send(b"first").unwrap();
    assert!(receiver.wait(Some(Duration::from_secs(2))).unwrap());
    receiver.release();
    assert!(receiver.napi_id().unwrap().is_some());
    // From here on the kernel itself would poll only once in two seconds.
    let _deferral = pair
        .b
        .run(|| rtwire_host::napi::NapiDeferral::hold(&pair.b.interface, 1000, 2_000_000_000))
        .unwrap();
    // One poll starts the deferral.
    assert!(!receiver.look().unwrap());
    let start = std::time::Instant::now();
    for turn in 0..50_u8 {
        peer.send(&[turn]).unwrap();
        assert!(receiver.wait(Some(Duration::from_secs(5))).unwrap());
        assert_eq!(receiver.peek().unwrap().data, [turn]);
        receiver.release();
    }
    let took = start.elapsed();
    assert!(
        took < Duration::from_secs(1),
        "only timers found them: {took:?}"
    );
}

#[test]
fn packet_sockets_cannot_poll_and_say_what_can() {
    require!(root);
    let pair = NetnsPair::new();
    let filter = crate::responder::port_filter(2007).unwrap();
    let mut receiver = pair
        .b
        .run(|| Receiver::frames(&config(&pair), 0x88b5, &filter))
        .unwrap();
    let refused = receiver.busy_poll(Duration::from_micros(100)).unwrap_err();
    assert!(refused.to_string().contains("datagrams"), "{refused}");
}
