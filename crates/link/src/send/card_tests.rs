//! Tests of senders with launch times by AF_XDP, opened where they are otherwise refused, because no card here
//! observes them.

use super::*;
use crate::{LaunchMode, Receiver, ReceiverConfig, WakeUp};
use rtwire_sys::ErrorKind;
use rtwire_sys::clock::now_ns;
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_testkit::{NetnsPair, require};
use std::time::Duration;

const ETHER_TYPE: u16 = 0x88B5;

/// Opens a sender at queue 0 as if a card observed launch times there. Returns `None` on a kernel without memory for
/// them (before Linux 6.11).
fn sender(pair: &NetnsPair) -> Option<Sender> {
    let config = SenderConfig {
        path: TxPath::XdpLaunch,
        ..SenderConfig::new(pair.a.interface.as_str())
    };
    let kept = LaunchQueue {
        delta_ns: 0,
        hardware: true,
        gated: false,
    };
    let opened = pair.a.run(|| {
        let interface = interface::by_name(&config.interface)?;
        Sender::in_shared_memory(&config, interface, (0, Some(kept)))
    });
    match opened {
        Ok(sender) => Some(sender),
        Err(LinkError::System(error)) if error.kind() == ErrorKind::Other => None,
        Err(error) => panic!("{error}"),
    }
}

fn frame(number: u32, octets: usize) -> Vec<u8> {
    let mut frame = vec![number as u8; octets];
    frame[..6].copy_from_slice(&[0xff; 6]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

#[test]
fn frames_with_launch_times_come_unharmed_and_in_order() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let Some(mut sender) = sender(&pair) else {
        return;
    };
    let config = ReceiverConfig {
        interface: pair.b.interface.clone(),
        wake_up: WakeUp::Block,
        queue_frames: 16,
        stamps: false,
        one_by_one: true,
    };
    let all = Filter::new(&[Instruction::Accept]).unwrap();
    let mut receiver = pair
        .b
        .run(|| Receiver::frames(&config, ETHER_TYPE, &all).unwrap());
    // Many times around the rings, with future times and past times.
    for number in 0..2000_u32 {
        let octets = [60, 61, 1000, 1514][number as usize % 4];
        let sent = frame(number, octets);
        let launch_ns = match number % 3 {
            0 => 0,
            1 => now_ns(Clock::Tai) + 1_000_000,
            _ => u64::MAX,
        };
        match sender.send_at(&sent, launch_ns) {
            Ok(count) => assert_eq!(count, u64::from(number)),
            // Linux 6.11 to 6.14 have the memory but refuse the time.
            Err(LinkError::Call { call: "send", .. }) if number == 0 => return,
            Err(error) => panic!("{error}"),
        }
        assert!(receiver.wait(Some(Duration::from_secs(5))).unwrap());
        assert_eq!(receiver.peek().unwrap().data, sent, "frame {number}");
        receiver.release();
    }
    assert_eq!(sender.count(), 2000);
}

#[test]
fn each_frame_needs_its_time_and_is_no_longer_than_any_other() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let Some(mut sender) = sender(&pair) else {
        return;
    };
    let short = frame(0, 60);
    let told = |error: LinkError| {
        assert!(error.to_string().contains("call `send_at`"), "{error}");
    };
    told(sender.send(&short).unwrap_err());
    told(sender.send_batch(&[&short]).unwrap_err());
    assert!(sender.place().is_none(), "there nothing has a time");
    told(sender.send_place(60).unwrap_err());
    let long = sender.send_at(&frame(0, 1600), 1).unwrap_err();
    assert!(
        matches!(long, LinkError::TooLong { octets: 1600, .. }),
        "{long}"
    );
    assert_eq!(sender.count(), 0);
    assert_eq!(
        sender.launch_queue().map(|queue| queue.hardware),
        Some(true)
    );
}

#[test]
fn transmit_stamps_and_other_paths_are_refused_by_name() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let interface = pair.a.interface.as_str();
    let kept = LaunchQueue {
        delta_ns: 0,
        hardware: true,
        gated: false,
    };
    let stamped = SenderConfig {
        stamping: Some(TxStamping {
            queue: true,
            driver: false,
            card: false,
        }),
        path: TxPath::XdpLaunch,
        ..SenderConfig::new(interface)
    };
    let told = pair.a.run(|| {
        let interface = interface::by_name(&stamped.interface)?;
        Sender::in_shared_memory(&stamped, interface, (0, Some(kept)))
    });
    let told = told.unwrap_err().to_string();
    assert!(told.contains("no transmit stamps"), "{told}");
    for path in [TxPath::Qdisc, TxPath::Xdp] {
        let config = SenderConfig {
            path,
            ..SenderConfig::new(interface)
        };
        let mut sender = pair.a.run(|| Sender::frames(&config)).unwrap();
        let told = sender.send_at(&frame(0, 60), 1).unwrap_err().to_string();
        assert!(told.contains("`launch` or `xdp-launch`"), "{told}");
    }
    let deadline = SenderConfig {
        path: TxPath::Launch(LaunchMode::Deadline),
        ..SenderConfig::new(interface)
    };
    assert!(pair.a.run(|| Sender::frames(&deadline)).is_err());
}
