//! Stamps of a card: refused where there is none, and on a real driver held against the host's own clock.
#![allow(clippy::unwrap_used)]

use rtwire_link::card_time::CardFollower;
use rtwire_link::{
    Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, TxStampKind, TxStamping, WakeUp,
};
use rtwire_sys::card_stamps::{CardAbilities, CardStamps, CardSwitch, CardWish, ReceivedFrames};
use rtwire_sys::carrier::wait_for_carrier;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::interface::by_name;
use rtwire_testkit::{NetnsPair, Side, cards, ip, require};
use std::time::Duration;

const SENT: CardWish = CardWish {
    transmit: true,
    receive: ReceivedFrames::Any,
};
const PTP: CardWish = CardWish {
    transmit: false,
    receive: ReceivedFrames::Ptp,
};
const EVERY: CardWish = CardWish {
    transmit: true,
    receive: ReceivedFrames::Every,
};
const FRAMES: usize = 20;
const LINK: Duration = Duration::from_secs(30);
/// PTP over Ethernet.
const ETHER_TYPE: u16 = 0x88f7;

#[test]
fn a_veth_is_refused_by_name() {
    require!(root);
    let pair = NetnsPair::new();
    let side = &pair.a;
    for wish in [SENT, PTP, EVERY] {
        let refused = side.run(|| CardFollower::open(&side.interface, wish).unwrap_err());
        let text = refused.to_string();
        for part in [
            side.interface.as_str(),
            "driver veth",
            "no clock of its own",
            "software",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}

/// A Sync message of PTP version 2.
fn sync(from: &Side, to: &Side, sequence: u8) -> Vec<u8> {
    let mut frame = to.mac.to_vec();
    frame.extend(from.mac);
    frame.extend(ETHER_TYPE.to_be_bytes());
    frame.extend([0x00, 0x02, 0, 44]);
    frame.resize(60, 0);
    frame[14 + 31] = sequence;
    frame
}

fn receiver(side: &Side, wake_up: WakeUp) -> Receiver {
    let config = ReceiverConfig {
        interface: side.interface.clone(),
        wake_up,
        queue_frames: 64,
        stamps: true,
        one_by_one: true,
    };
    let all = Filter::new(&[Instruction::Accept]).unwrap();
    side.run(|| Receiver::frames(&config, ETHER_TYPE, &all))
        .unwrap()
}

fn switch(side: &Side) -> CardSwitch {
    side.run(|| CardSwitch::of(&side.interface)).unwrap()
}

#[test]
#[ignore = "needs cards: runs in the kernel lab (tests/vm/suites/cards.sh)"]
fn on_cards_nothing_is_switched_on() {
    for side in cards() {
        assert_eq!(switch(&side).to_string(), "sent off, received none");
    }
}

/// Two cards of the driver igb, which stamps every frame that it sends, and received messages of PTP. Both stamps of a frame
/// are of different clocks. Between them is the wire; around them is the host's clock, which this test reads itself.
#[test]
#[ignore = "needs cards: runs in the kernel lab (tests/vm/suites/cards.sh)"]
fn on_cards_the_card_s_stamps_are_between_send_call_and_reading() {
    let [a, b] = cards();
    let abilities = a.run(|| CardAbilities::of(&a.interface)).unwrap();
    println!("@@ note {abilities}");
    let before = [switch(&a), switch(&b)];
    let follow = |side: &Side, wish| {
        side.run(|| CardFollower::open(&side.interface, wish))
            .unwrap()
    };
    let mut at_a = follow(&a, SENT);
    let config = SenderConfig {
        path: TxPath::Direct,
        stamping: Some(TxStamping {
            queue: false,
            driver: false,
            card: true,
        }),
        ..SenderConfig::new(a.interface.as_str())
    };
    let mut sender = a.run(|| Sender::frames(&config)).unwrap();
    let mut stamps = sender.take_stamps().unwrap().unwrap();
    stamps.stamp_by_card(at_a.time());
    let mut wrong_ns = 0;
    let mut stamped = 0;
    for wake_up in [WakeUp::Block, WakeUp::Spin] {
        // QEMU's igb stamps one received message, and the next one only after a register was read that Linux does not
        // read: a card that begins again stamps one more.
        for state in ["down", "up"] {
            ip(&b.namespace, &format!("link set {} {state}", b.interface));
        }
        for side in [&a, &b] {
            let linked = || wait_for_carrier(&by_name(&side.interface).unwrap(), LINK);
            assert!(side.run(linked).unwrap().on);
        }
        let mut at_b = follow(&b, PTP);
        assert_ne!(at_a.time().clock(), at_b.time().clock());
        let mut receiver = receiver(&b, wake_up);
        receiver.stamp_by_card(at_b.time()).unwrap();
        for sequence in 0..FRAMES {
            let called_ns = clock::now_ns(Clock::Tai);
            sender.send(&sync(&a, &b, sequence as u8)).unwrap();
            let came = receiver.wait(Some(Duration::from_secs(5))).unwrap();
            assert!(came, "{wake_up:?}: no frame {sequence}");
            let read_ns = clock::now_ns(Clock::Tai);
            let came_ns = receiver.peek().unwrap().stamp_tai_ns;
            receiver.release();
            let mut left = None;
            while left.is_none() {
                let wait = Duration::from_secs(5);
                let taken = stamps.collect(wait, |stamp| left = Some(stamp)).unwrap();
                assert!(taken > 0, "{wake_up:?}: no stamp of frame {sequence}");
            }
            let left = left.unwrap();
            assert_eq!(left.kind, TxStampKind::Card);
            for follower in [&mut at_a, &mut at_b] {
                follower.read().unwrap();
            }
            let (sent_error, came_error) = (at_a.time().error_ns(), at_b.time().error_ns());
            wrong_ns = wrong_ns.max(sent_error.max(came_error));
            assert!(
                left.tai_ns + sent_error >= called_ns,
                "left before the call"
            );
            let Some(came_ns) = came_ns else { continue };
            stamped += 1;
            assert!(
                came_ns + came_error + sent_error >= left.tai_ns,
                "came before it left"
            );
            assert!(came_ns <= read_ns + came_error, "came after it was read");
        }
        println!("@@ note up to {wake_up:?}: {stamped} received frames with a stamp");
    }
    assert!(stamped > 0, "the card stamped no received frame");
    println!("@@ note largest error of a converted stamp: {wrong_ns} ns");
    // Frames that are no messages of PTP: igb stamps none on receipt, and says so.
    let refused = b.run(|| {
        CardStamps::hold(&b.interface, EVERY)
            .unwrap_err()
            .to_string()
    });
    assert!(
        refused.contains("driver igb") && refused.contains("only some kinds of PTP"),
        "{refused}"
    );
    // Two hold it: the last gives it back.
    let second = follow(&a, SENT);
    drop(at_a);
    assert_ne!(switch(&a), before[0]);
    drop(second);
    assert_eq!([switch(&a), switch(&b)], before);
}
