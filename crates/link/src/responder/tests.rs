//! Tests of the responder's look at the interface's address.

use super::*;
use rtwire_testkit::{NetnsPair, ip, require};
use rtwire_wire::Pcp;
use rtwire_wire::rtdip::Semantics;

const PORT: u16 = 1002;
const SOON: Duration = Duration::from_secs(2);

#[test]
fn looks_are_a_tenth_of_a_second_apart() {
    const MS: u64 = 1_000_000;
    // A frame for another station in each ms, for 10 s.
    let mut pace = Pace::default();
    let due: Vec<u64> = (0..10_000).filter(|ms| pace.is_due(ms * MS)).collect();
    assert_eq!(due.len(), 100);
    assert!(due.windows(2).all(|two| two[1] - two[0] == 100));
    assert!(pace.is_due(50_000 * MS), "after a pause at once");
}

#[test]
fn a_frame_for_another_station_costs_a_look_only_where_one_is_due() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let open = || PacketResponder::open("rtwb", WakeUp::Block, PORT, 7, None);
    let mut responder = pair.b.run(open).unwrap();
    let mut sender = pair
        .a
        .run(|| Sender::frames(&SenderConfig::new("rtwa")))
        .unwrap();
    ip(&pair.b.namespace, "link set rtwb address 02:00:00:00:00:77");
    let ethernet = ethernet::Header {
        destination: MacAddress([2, 0, 0, 0, 0, 0x77]),
        source: MacAddress(pair.a.mac),
        vlan: None,
        ether_type: EtherType::RTDIP,
    };
    let question = Header {
        semantics: Semantics::Queue,
        priority: Pcp::HIGHEST,
        destination_port: PORT,
        source_port: FIRST_ASKING_PORT,
        sequence: 1,
        key: 7,
        time_ns: None,
    };
    let mut frame = [0; MINIMUM_FRAME_OCTETS];
    let at = ethernet.emit(&mut frame).unwrap();
    question.emit(b"0123456789", &mut frame[at..]).unwrap();

    // The next look is due long after the end of this test.
    let now = clock::now_ns(Clock::Monotonic);
    responder.looks.last_ns = Some(now + 3_600_000_000_000);
    sender.send(&frame).unwrap();
    assert!(responder.answer_one(SOON).unwrap(), "no frame");
    assert_eq!(responder.counters().accepted, 0);
    // It is due now.
    responder.looks.last_ns = None;
    sender.send(&frame).unwrap();
    assert!(responder.answer_one(SOON).unwrap(), "no frame");
    assert_eq!(responder.counters().accepted, 1);
}
