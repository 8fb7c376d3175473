//! The transmit path `xdp` on an interface that also receives: no frame is lost either way, with each XDP program and
//! without one, and the sender tells its mode.
#![allow(clippy::unwrap_used)]

mod common;

use rtwire_link::program::{Attach, ProgramConfig, QueueConfig, ReceiveProgram, XdpMode};
use rtwire_link::responder::port_filter;
use rtwire_link::{
    LinkError, Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp, ZeroCopy,
};
use rtwire_sys::carrier::wait_for_carrier;
use rtwire_sys::interface::by_name;
use rtwire_testkit::{NetnsPair, Side, cards, foreign_xdp, require};
use rtwire_wire::EtherType;
use rtwire_wire::rtdip::Semantics;
use std::time::{Duration, Instant};

const IN_PROGRAM: u16 = 1001;
const IN_LINUX: u16 = 1002;
const FRAMES: u32 = 100;
const SOON: Option<Duration> = Some(Duration::from_secs(2));

fn sender(side: &Side, path: TxPath, zero_copy: ZeroCopy) -> Result<Sender, LinkError> {
    let config = SenderConfig {
        path,
        zero_copy,
        ..SenderConfig::new(side.interface.as_str())
    };
    side.run(|| Sender::frames(&config))
}

fn receiver(side: &Side, port: u16) -> Receiver {
    let config = ReceiverConfig {
        interface: side.interface.clone(),
        wake_up: WakeUp::Block,
        queue_frames: 256,
        stamps: false,
        one_by_one: true,
    };
    let filter = port_filter(port).unwrap();
    side.run(|| Receiver::frames(&config, EtherType::RTDIP.0, &filter))
        .unwrap()
}

fn frame(from: &Side, to: &Side, port: u16, sequence: u32) -> Vec<u8> {
    common::frame((from, to), None, Semantics::Queue, port, sequence)
}

/// Counts frames until none has come for a while.
fn taken(receiver: &mut Receiver) -> u32 {
    let mut frames = 0;
    while frames < FRAMES && receiver.wait(SOON).unwrap() {
        receiver.release();
        frames += 1;
    }
    frames
}

enum There {
    Nothing,
    Ours(XdpMode),
    Foreign(XdpMode),
}

#[test]
fn what_arrives_beside_the_path_xdp_is_received_and_what_is_sent_arrives() {
    require!(root, program "ip");
    for there in [
        There::Nothing,
        There::Ours(XdpMode::Native),
        There::Ours(XdpMode::Generic),
        There::Foreign(XdpMode::Native),
        There::Foreign(XdpMode::Generic),
    ] {
        // Asked for zero copy, a veth copies: then too, the memory that a driver would receive into is of no harm.
        for zero_copy in [ZeroCopy::Never, ZeroCopy::IfPossible] {
            let pair = NetnsPair::new();
            let mut program = None;
            let mut foreign = None;
            match there {
                There::Nothing => {}
                There::Ours(mode) => {
                    let config = ProgramConfig {
                        attach: Attach::Only(mode),
                        ..ProgramConfig::new(pair.b.interface.as_str())
                    };
                    program = Some(pair.b.run(|| ReceiveProgram::with(&config)).unwrap());
                }
                There::Foreign(mode) => {
                    let object = foreign_xdp();
                    let interface = &pair.b.interface;
                    let index = rtwire_sys::interface::by_name;
                    let link = pair.b.run(|| {
                        object.attach_xdp("foreign", index(interface).unwrap().index, mode)
                    });
                    foreign = Some((link.unwrap(), object));
                }
            }
            let mut answering = sender(&pair.b, TxPath::Xdp, zero_copy).unwrap();
            assert_eq!(answering.path_in_use().to_string(), "xdp (copy)");
            let mut queue = program.as_ref().map(|program| {
                let open = || program.queue_channel(IN_PROGRAM, 0, &QueueConfig::default());
                pair.b.run(open).unwrap()
            });
            let mut linux = receiver(&pair.b, IN_LINUX);
            let mut far = receiver(&pair.a, IN_LINUX);
            let mut asking = sender(&pair.a, TxPath::Qdisc, ZeroCopy::Never).unwrap();
            for number in 0..FRAMES {
                for port in [IN_PROGRAM, IN_LINUX] {
                    asking.send(&frame(&pair.a, &pair.b, port, number)).unwrap();
                }
                let answer = frame(&pair.b, &pair.a, IN_LINUX, number);
                answering.send(&answer).unwrap();
            }
            if let Some(queue) = &mut queue {
                let mut frames = 0;
                while frames < FRAMES && queue.wait(SOON).unwrap() {
                    queue.release();
                    frames += 1;
                }
                assert_eq!(frames, FRAMES);
            }
            assert_eq!(taken(&mut linux), FRAMES);
            assert_eq!(taken(&mut far), FRAMES);
            drop((answering, foreign));
        }
    }
}

/// Sends this number of frames each way on two cards, with a sender of the path `xdp` where the program receives.
#[test]
#[ignore = "needs cards: runs in the kernel lab (tests/vm/suites/cards.sh)"]
fn on_cards_what_arrives_beside_the_path_xdp_is_received() {
    const LINK: Duration = Duration::from_secs(30);
    const PROMISED: Duration = Duration::from_millis(500);
    let can_zero_copy = std::env::var("RTWIRE_ZERO_COPY").is_ok();
    let [a, b] = cards();
    let config = ProgramConfig {
        attach: Attach::Only(XdpMode::Native),
        ..ProgramConfig::new(b.interface.as_str())
    };
    let program = b.run(|| ReceiveProgram::with(&config)).unwrap();
    let linked = || {
        for side in [&a, &b] {
            let wait = || wait_for_carrier(&by_name(&side.interface).unwrap(), LINK);
            assert!(side.run(wait).unwrap().on);
        }
    };
    for zero_copy in [ZeroCopy::Never, ZeroCopy::IfPossible, ZeroCopy::Only] {
        let opened = sender(&b, TxPath::Xdp, zero_copy);
        if zero_copy == ZeroCopy::Only && !can_zero_copy {
            println!("@@ note zero copy is refused: {}", opened.unwrap_err());
            continue;
        }
        let mut answering = opened.unwrap();
        let mode = match zero_copy {
            ZeroCopy::Never => "xdp (copy)",
            _ if can_zero_copy => "xdp (zero copy)",
            _ => "xdp (copy)",
        };
        assert_eq!(answering.path_in_use().to_string(), mode, "{zero_copy:?}");
        linked();
        let open = || program.queue_channel(IN_PROGRAM, 0, &QueueConfig::default());
        let mut queue = b.run(open).unwrap();
        let mut linux = receiver(&b, IN_LINUX);
        let mut far = receiver(&a, IN_LINUX);
        let mut asking = sender(&a, TxPath::Qdisc, ZeroCopy::Never).unwrap();
        let mut longest = Duration::ZERO;
        for number in 0..FRAMES {
            for port in [IN_PROGRAM, IN_LINUX] {
                asking.send(&frame(&a, &b, port, number)).unwrap();
            }
            let start = Instant::now();
            answering.send(&frame(&b, &a, IN_LINUX, number)).unwrap();
            assert!(
                queue.wait(SOON).unwrap(),
                "{zero_copy:?}: {number} in program"
            );
            queue.release();
            assert!(
                linux.wait(SOON).unwrap(),
                "{zero_copy:?}: {number} in Linux"
            );
            linux.release();
            assert!(far.wait(SOON).unwrap(), "{zero_copy:?}: {number} sent");
            far.release();
            longest = longest.max(start.elapsed());
        }
        println!("@@ note {mode}: {FRAMES} of {FRAMES} each way, at most {longest:?}");
        assert!(
            longest < PROMISED,
            "{zero_copy:?}: a frame lay for {longest:?}"
        );
    }
}

#[test]
fn who_insists_on_zero_copy_is_refused_by_a_driver_that_copies() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let refused = sender(&pair.a, TxPath::Xdp, ZeroCopy::Only).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("queue 0 of interface `rtwa`"), "{text}");
    assert!(text.contains("zero copy"), "{text}");
    for path in [TxPath::Qdisc, TxPath::Direct] {
        let sender = sender(&pair.a, path, ZeroCopy::Only).unwrap();
        assert_eq!(sender.path_in_use().to_string(), path.name());
    }
}
