//! Answers on the wire: the driver, in each mode, and the packet socket send the same bytes, with the question's VLAN tag,
//! and also when the interface's address has changed. `on_cards_…` runs in the kernel lab, on drivers of real cards.
#![allow(clippy::unwrap_used)]

use rtwire_link::program::{
    Attach, FIRST_ASKING_PORT, Patch, PatchSource, ProgramConfig, ProgramError, QueueConfig,
    ReceiveProgram, Responder, XdpMode,
};
use rtwire_link::responder::{PacketResponder, whole_frame_filter};
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, WakeUp};
use rtwire_sys::bpf::Direction;
use rtwire_sys::carrier::wait_for_carrier;
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::interface::{by_name, keeps_tags_outside};
use rtwire_sys::netdev::{RECEIVE_TAGS, receive_metadata};
use rtwire_testkit::{NetnsPair, Side, TAG_BESIDE, cards, foreign_bpf, ip, require};
use rtwire_wire::rtdip::{Header, Semantics};
use rtwire_wire::{EtherType, MacAddress, Pcp, VlanTag, ethernet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PORT: u16 = 1002;
const ASKING: u16 = FIRST_ASKING_PORT + 9;
const KEY: u32 = 7;
const SOON: Duration = Duration::from_secs(2);

/// The responder.
enum Answering {
    Driver(Responder),
    Socket(Box<PacketResponder>),
}

impl Answering {
    fn open(pair: &NetnsPair, mode: Option<XdpMode>) -> (Self, Vec<ReceiveProgram>) {
        Self::open_with(pair, mode, WakeUp::Block)
    }

    fn socket(side: &Side, wake_up: WakeUp) -> Self {
        let name = side.interface.as_str();
        let open = || PacketResponder::open(name, wake_up, PORT, KEY, Some(b"none yet"));
        Self::Socket(Box::new(side.run(open).unwrap()))
    }

    fn open_with(
        pair: &NetnsPair,
        mode: Option<XdpMode>,
        wake_up: WakeUp,
    ) -> (Self, Vec<ReceiveProgram>) {
        let Some(mode) = mode else {
            return (Self::socket(&pair.b, wake_up), Vec::new());
        };
        // A veth accepts frames from its peer's driver only if it has a program itself.
        let programs = [&pair.b, &pair.a].map(|side| {
            let config = ProgramConfig {
                attach: Attach::Only(mode),
                ..ProgramConfig::new(side.interface.as_str())
            };
            side.run(|| ReceiveProgram::with(&config)).unwrap()
        });
        let open = || programs[0].respond_channel(PORT, KEY, Some(b"none yet"));
        let responder = pair.b.run(open).unwrap();
        (Self::Driver(responder), programs.to_vec())
    }

    fn replace(&mut self, content: &[u8], patches: &[Patch]) {
        match self {
            Self::Driver(responder) => responder.replace_with(content, patches),
            Self::Socket(responder) => responder.replace_with(content, patches),
        }
        .unwrap();
    }
}

/// Asks questions from `a`.
struct Asking {
    sender: Sender,
    receiver: Receiver,
    from: MacAddress,
    to: MacAddress,
    vlan: Option<VlanTag>,
    /// The tag is not among the bytes that are sent: it is added beside them.
    tagged_below: bool,
}

impl Asking {
    fn new(pair: &NetnsPair) -> Self {
        Self::between(&pair.a, &pair.b)
    }

    fn between(a: &Side, b: &Side) -> Self {
        let name = a.interface.as_str();
        let config = ReceiverConfig {
            interface: name.to_owned(),
            wake_up: WakeUp::Block,
            queue_frames: 64,
            stamps: false,
            one_by_one: true,
        };
        let filter = whole_frame_filter(EtherType::RTDIP.0, ASKING).unwrap();
        a.run(|| Self {
            sender: Sender::frames(&SenderConfig::new(name)).unwrap(),
            receiver: Receiver::frames_with_tags(&config, &filter).unwrap(),
            from: MacAddress(a.mac),
            to: MacAddress(b.mac),
            vlan: None,
            tagged_below: false,
        })
    }

    fn ask(&mut self, sequence: u32, data: &[u8]) {
        let ethernet = ethernet::Header {
            destination: self.to,
            source: self.from,
            vlan: self.vlan.filter(|_| !self.tagged_below),
            ether_type: EtherType::RTDIP,
        };
        let header = Header {
            semantics: Semantics::Queue,
            priority: Pcp::HIGHEST,
            destination_port: PORT,
            source_port: ASKING,
            sequence,
            key: KEY,
            // So that an answer, which has a timestamp, is no longer than its question.
            time_ns: Some(1),
        };
        let mut frame = vec![0; 1600];
        let at = ethernet.emit(&mut frame).unwrap();
        let end = at + header.emit(data, &mut frame[at..]).unwrap();
        self.sender.send(&frame[..end.max(60)]).unwrap();
    }

    /// Returns the next answer's header and data.
    fn answer(&mut self) -> (Header, Vec<u8>) {
        assert!(self.receiver.wait(Some(SOON)).unwrap(), "no answer");
        let frame = self.receiver.peek().unwrap();
        assert_eq!(frame.tag.map(VlanTag::from_bits), self.vlan);
        let frame = ethernet::Frame::new(frame.data).unwrap();
        assert_eq!((frame.source(), frame.destination()), (self.to, self.from));
        let (header, data) = Header::parse(frame.payload()).unwrap();
        let answer = (header, data.to_vec());
        self.receiver.release();
        answer
    }
}

/// Runs `ask` while the packet responder, if that is the one, answers.
fn while_answering(answering: &mut Answering, ask: impl FnOnce() + Send) {
    let Answering::Socket(responder) = answering else {
        return ask();
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asks = scope.spawn(|| {
            ask();
            over.store(true, Ordering::Release);
        });
        while !over.load(Ordering::Acquire) && !asks.is_finished() {
            responder.answer_one(Duration::from_millis(10)).unwrap();
        }
    });
}

#[test]
fn answers_are_patched_and_replaced_alike_by_driver_and_socket() {
    require!(root, program "ip");
    let question: Vec<u8> = (0..128_u8).map(|at| at.wrapping_mul(3)).collect();
    let patches = [
        Patch {
            source: PatchSource::Question { offset: 3 },
            octets: 16,
            place: 4,
        },
        Patch {
            source: PatchSource::Sequence,
            octets: 4,
            place: 40,
        },
        Patch {
            source: PatchSource::ArrivalTime,
            octets: 8,
            place: 50,
        },
    ];
    for mode in [Some(XdpMode::Native), Some(XdpMode::Generic), None] {
        let pair = NetnsPair::new();
        let (mut answering, _programs) = Answering::open(&pair, mode);
        let mut asking = Asking::new(&pair);
        let mut ask = |answering: &mut Answering, sequence: u32| {
            let before = now_ns(Clock::Tai);
            let mut answer = None;
            while_answering(answering, || {
                asking.ask(sequence, &question);
                answer = Some(asking.answer());
            });
            let (header, data) = answer.unwrap();
            assert_eq!(
                (header.sequence, header.key, header.source_port),
                (sequence, KEY, PORT),
                "{mode:?}"
            );
            (before, header, data)
        };
        let (.., data) = ask(&mut answering, 1);
        assert_eq!(data, b"none yet", "{mode:?}");
        for round in 0..20_u8 {
            answering.replace(&[round; 100], &patches);
            let sequence = 1000 + u32::from(round);
            let (before, header, data) = ask(&mut answering, sequence);
            assert_eq!(data.len(), 100, "{mode:?}");
            assert_eq!(data[4..20], question[3..19], "{mode:?}");
            assert_eq!(data[40..44], sequence.to_be_bytes(), "{mode:?}");
            let came = u64::from_be_bytes(data[50..58].try_into().unwrap());
            // The clock that a program reads is not strictly in step with the clock here.
            let slack = 1_000_000;
            assert!(came + slack > before && came < header.time_ns.unwrap() + slack);
            for at in (0..4).chain(20..40).chain(44..50).chain(58..100) {
                assert_eq!(data[at], round, "{mode:?}: byte {at}");
            }
            // Content without patches for the next answers.
            answering.replace(&[!round; 70], &[]);
            let (.., data) = ask(&mut answering, sequence);
            assert_eq!(data, [!round; 70], "{mode:?}");
        }
    }
}

#[test]
fn an_answer_has_the_vlan_and_the_priority_of_its_question() {
    require!(root, program "ip");
    const VLAN: u16 = 42;
    let tag = |pcp: u16, vid| Some(VlanTag::from_bits(pcp << 13 | vid));
    for (mode, wake_up) in [
        (Some(XdpMode::Native), WakeUp::Block),
        (Some(XdpMode::Generic), WakeUp::Block),
        (None, WakeUp::Block),
        (None, WakeUp::Spin),
    ] {
        let pair = NetnsPair::new();
        let (mut answering, _programs) = Answering::open_with(&pair, mode, wake_up);
        let mut asking = Asking::new(&pair);
        let mut ask = |vlan, sequence| {
            asking.vlan = vlan;
            while_answering(&mut answering, || {
                asking.ask(sequence, b"0123456789012345678901234567890123456789");
                asking.answer();
            });
        };
        for (number, vlan) in [
            tag(5, VLAN),
            None,
            tag(3, 0),
            tag(0, 1),
            tag(7, 4094),
            Some(VlanTag::from_bits(1 << 12 | 2 << 13 | VLAN)),
        ]
        .into_iter()
        .enumerate()
        {
            ask(vlan, number as u32);
        }
    }
}

#[test]
fn an_answer_has_the_tag_that_a_driver_keeps_outside_of_its_question() {
    require!(root, program "ip");
    for mode in [Some(XdpMode::Native), Some(XdpMode::Generic), None] {
        let pair = NetnsPair::new();
        let bits = pair.b.run(|| receive_metadata(&by_name("rtwb").unwrap()));
        if mode == Some(XdpMode::Native) && bits.unwrap().unwrap_or(0) & RECEIVE_TAGS == 0 {
            // Before Linux 6.8 a veth does not tell such a tag.
            continue;
        }
        let pushing = foreign_bpf(TAG_BESIDE);
        let attach = || pushing.attach_tc("tag", by_name("rtwa").unwrap().index, Direction::Egress);
        pair.a.run(attach).unwrap();
        let (mut answering, _programs) = Answering::open(&pair, mode);
        let mut asking = Asking::new(&pair);
        asking.vlan = Some(VlanTag::from_bits(5 << 13 | 42));
        asking.tagged_below = true;
        while_answering(&mut answering, || {
            for number in 0..20 {
                asking.ask(number, b"0123456789012345678901234567890123456789");
                assert_eq!(asking.answer().0.sequence, number, "{mode:?}");
            }
        });
    }
}

#[test]
#[ignore = "needs cards: runs in the kernel lab (tests/vm/suites/cards.sh)"]
fn on_cards_an_answer_has_the_tag_of_its_question_or_is_refused() {
    const QUESTIONS: u16 = 20;
    const LINK: Duration = Duration::from_secs(30);
    let [a, b] = cards();
    let outside = b.run(|| keeps_tags_outside(&b.interface));
    let modes = [Some(XdpMode::Native), Some(XdpMode::Generic), None];
    for mode in modes {
        let mut program = None;
        let mut answering = match mode {
            None => Answering::socket(&b, WakeUp::Block),
            Some(mode) => {
                let config = ProgramConfig {
                    attach: Attach::Only(mode),
                    ..ProgramConfig::new(b.interface.as_str())
                };
                let attached = b.run(|| ReceiveProgram::with(&config)).unwrap();
                let open = || attached.respond_channel(PORT, KEY, Some(b"none yet"));
                let opened = b.run(open);
                if mode == XdpMode::Native && outside {
                    let refused = opened.unwrap_err();
                    assert!(
                        matches!(refused, ProgramError::HiddenTags { .. }),
                        "{refused}"
                    );
                    assert!(refused.is_lacking(), "packet sockets serve");
                    println!("@@ note native replies are refused: {refused}");
                    continue;
                }
                program = Some(attached);
                Answering::Driver(opened.unwrap())
            }
        };
        // The program before has been detached just now.
        for side in [&a, &b] {
            let wait = || wait_for_carrier(&by_name(&side.interface).unwrap(), LINK);
            assert!(side.run(wait).unwrap().on);
        }
        let mut asking = Asking::between(&a, &b);
        while_answering(&mut answering, || {
            for number in 0..QUESTIONS {
                asking.vlan = Some(VlanTag::from_bits((number % 8) << 13 | 5));
                asking.ask(number.into(), b"0123456789012345678901234567890123456789");
                assert_eq!(asking.answer().0.sequence, number.into(), "{mode:?}");
            }
        });
        println!("@@ note {mode:?}: {QUESTIONS} of {QUESTIONS} with VLAN and priority");
        drop(program);
    }
}

#[test]
fn a_changed_address_leaves_no_responder_deaf() {
    require!(root, program "ip");
    for mode in [Some(XdpMode::Native), Some(XdpMode::Generic), None] {
        let pair = NetnsPair::new();
        let (mut answering, programs) = Answering::open(&pair, mode);
        let mut asking = Asking::new(&pair);
        let mut queue = programs.first().map(|program| {
            let open = || program.queue_channel(PORT + 1, KEY, &QueueConfig::default());
            pair.b.run(open).unwrap()
        });
        for last in [0x77, 0x78] {
            ip(
                &pair.b.namespace,
                &format!("link set rtwb address 02:00:00:00:00:{last:02x}"),
            );
            asking.to = MacAddress([2, 0, 0, 0, 0, last]);
            // The one makes the program look at the address as `rtwire respond` does, the other as a waiting reader does.
            if let Some(queue) = queue.as_mut().filter(|_| last == 0x78) {
                assert!(!queue.wait(Some(Duration::from_millis(150))).unwrap());
            } else if let Some(program) = programs.first() {
                assert_eq!(program.is_attached(), Ok(true));
            } else {
                // A packet responder looks at it when a frame for others comes, ten times a second.
                thread::sleep(Duration::from_millis(110));
            }
            while_answering(&mut answering, || {
                for number in 0..20 {
                    asking.ask(number, b"0123456789012345678901234567890123456789");
                    // Its source is the new address.
                    asking.answer();
                }
            });
        }
    }
}
