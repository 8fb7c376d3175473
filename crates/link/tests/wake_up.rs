//! A sleeping reader of the receive program wakes for its frame, whatever Linux then does with that frame.
#![allow(clippy::unwrap_used)]

mod common;

use rtwire_link::program::{Attach, ProgramConfig, QueueConfig, ReceiveProgram, XdpMode};
use rtwire_link::responder::port_filter;
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp};
use rtwire_sys::bpf::Direction;
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::interface;
use rtwire_testkit::{NetnsPair, foreign_bpf, ip, require};
use rtwire_wire::rtdip::Semantics;
use rtwire_wire::{EtherType, VlanTag};
use std::time::Duration;

const QUEUE: u16 = 1001;
const NEWEST: u16 = 1002;
const BESIDE: u16 = 1003;
const FRAMES: usize = 21;
/// The longest median of a reader that is woken. One that nobody wakes looks 100 ms after it went to sleep, and frames come 7 ms
/// after that: each waits for some 93 ms.
const SOON_NS: u64 = 50_000_000;

/// The fate of a frame behind the driver.
#[derive(Clone, Copy, Debug)]
enum Behind {
    Nothing,
    /// A filter of traffic control drops every frame.
    Dropped,
    /// The interface belongs to a bridge.
    Bridge,
    /// The frame has a VLAN tag, and is dropped.
    TaggedAndDropped,
}

fn frame(pair: &NetnsPair, port: u16, number: u32, vlan: Option<VlanTag>) -> Vec<u8> {
    let semantics = if port == NEWEST {
        Semantics::Newest
    } else {
        Semantics::Queue
    };
    common::frame((&pair.a, &pair.b), vlan, semantics, port, number)
}

/// Returns the median time from sending a frame until its sleeping reader has it.
fn median_ns(
    sender: &mut Sender,
    frames: &[Vec<u8>],
    mut wait: impl FnMut(Option<Duration>) -> bool + Send,
) -> u64 {
    let (tell, told) = std::sync::mpsc::channel();
    let mut times: Vec<u64> = std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..FRAMES {
                tell.send(0).unwrap();
                assert!(wait(Some(Duration::from_secs(10))), "no frame at all");
                tell.send(now_ns(Clock::Monotonic)).unwrap();
            }
        });
        let times = frames.iter().map(|frame| {
            assert_eq!(told.recv().unwrap(), 0);
            // The reader has gone to sleep by then.
            std::thread::sleep(Duration::from_millis(7));
            let begun = now_ns(Clock::Monotonic);
            sender.send(frame).unwrap();
            told.recv().unwrap() - begun
        });
        times.collect()
    });
    times.sort_unstable();
    times[times.len() / 2]
}

fn check(mode: XdpMode, wake_up: WakeUp, behind: Behind) {
    let pair = NetnsPair::new();
    let object = foreign_bpf(
        "__attribute__((section(\"tc\"), used)) int drop(void *frame) { return 2; }\n\
         char LICENSE[] __attribute__((section(\"license\"), used)) = \"GPL\";\n",
    );
    let drop_all = || {
        pair.b.run(|| {
            let index = interface::by_name("rtwb").unwrap().index;
            object.attach_tc("drop", index, Direction::Ingress).unwrap();
        });
    };
    let mut vlan = None;
    match behind {
        Behind::Nothing => {}
        Behind::Dropped => drop_all(),
        Behind::Bridge => {
            ip(&pair.b.namespace, "link add br0 type bridge");
            ip(&pair.b.namespace, "link set br0 up");
            ip(&pair.b.namespace, "link set rtwb master br0");
        }
        Behind::TaggedAndDropped => {
            drop_all();
            vlan = Some(VlanTag::from_bits(5 << 13 | 9));
        }
    }
    let config = ProgramConfig {
        attach: Attach::Only(mode),
        ..ProgramConfig::new("rtwb")
    };
    let program = pair.b.run(|| ReceiveProgram::with(&config)).unwrap();
    let queue_config = QueueConfig {
        wake_up,
        ..QueueConfig::default()
    };
    let mut queue = pair
        .b
        .run(|| program.queue_channel(QUEUE, 0, &queue_config))
        .unwrap();
    let slot = pair.b.run(|| program.newest_channel(NEWEST, 0)).unwrap();
    let mut newest = pair.b.run(|| slot.reader(wake_up)).unwrap();
    // A socket further on in Linux: it shows that the frame does not come so far.
    let beside = ReceiverConfig {
        interface: "rtwb".to_owned(),
        wake_up: WakeUp::Block,
        queue_frames: 16,
        stamps: false,
        one_by_one: true,
    };
    let filter = port_filter(BESIDE).unwrap();
    let mut beside = pair
        .b
        .run(|| Receiver::frames(&beside, EtherType::RTDIP.0, &filter))
        .unwrap();
    let sending = SenderConfig {
        path: TxPath::Direct,
        ..SenderConfig::new("rtwa")
    };
    let mut sender = pair.a.run(|| Sender::frames(&sending)).unwrap();

    let frames = |port| -> Vec<Vec<u8>> {
        (1..=FRAMES as u32)
            .map(|number| frame(&pair, port, number, vlan))
            .collect()
    };
    let of_queue = median_ns(&mut sender, &frames(QUEUE), |time| {
        let there = queue.wait(time).unwrap();
        queue.release();
        there
    });
    let mut value = [0; 16];
    let of_newest = median_ns(&mut sender, &frames(NEWEST), |time| {
        let there = newest.wait(time).unwrap();
        newest.read(&mut value).unwrap();
        there
    });
    let case = format!("{mode}, {wake_up:?}, {behind:?}: {of_queue}, {of_newest} ns");
    assert!(of_queue < SOON_NS && of_newest < SOON_NS, "{case}");
    sender.send(&frame(&pair, BESIDE, 1, vlan)).unwrap();
    let comes = matches!(behind, Behind::Nothing);
    let patience = Duration::from_millis(if comes { 2000 } else { 200 });
    let came = beside.wait(Some(patience)).unwrap();
    assert_eq!(came, comes, "{case}");
}

#[test]
fn a_sleeper_is_woken_whatever_becomes_of_its_frame_in_linux() {
    require!(root, program "ip");
    let first_spins = WakeUp::SpinThenBlock(Duration::from_micros(20));
    for mode in [XdpMode::Native, XdpMode::Generic] {
        check(mode, WakeUp::Block, Behind::Nothing);
        check(mode, WakeUp::Block, Behind::Dropped);
        check(mode, first_spins, Behind::Dropped);
        check(mode, WakeUp::Block, Behind::Bridge);
        check(mode, WakeUp::Block, Behind::TaggedAndDropped);
    }
}
