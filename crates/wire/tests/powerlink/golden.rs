//! Frames of an independent stack are read with their meaning, and written back unchanged.

use crate::capture;
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::*;
use std::collections::BTreeMap;

/// The `nth` frame (from 1, as tshark counts) of the capture.
fn frame(nth: usize) -> Vec<u8> {
    capture::frames().swap_remove(nth - 1)
}

#[test]
fn every_recorded_frame_is_read_and_written_back() {
    let frames = capture::frames();
    let mut kinds = BTreeMap::new();
    for (index, frame) in frames.iter().enumerate() {
        let packet = Packet::parse(frame).unwrap_or_else(|e| panic!("frame {}: {e}", index + 1));
        *kinds.entry(packet.message.message_type()).or_insert(0) += 1;
        let mut again = vec![0xaa; frame.len()];
        let octets = packet.emit(&mut again).unwrap();
        let octets = pad(&mut again, octets, frame.len());
        // Octets without a meaning that the sender left set: behind the data, in the two octets before the identity,
        // and a list of errors that is all zeros.
        assert_eq!(
            &again[..octets],
            &frame[..],
            "frame {}: {packet:?}",
            index + 1
        );
    }
    let expected = [
        (MessageType::SOC, 493),
        (MessageType::PREQ, 1395),
        (MessageType::PRES, 1395),
        (MessageType::SOA, 1316),
        (MessageType::ASND, 206),
    ];
    assert_eq!(kinds, BTreeMap::from(expected));
}

#[test]
fn start_of_cycle() {
    let bytes = frame(828);
    let packet = Packet::parse(&bytes).map(|p| p.message);
    let Ok(Message::Soc(soc)) = packet else {
        panic!("{packet:?}");
    };
    assert!(!soc.multiplexed_cycle_completed && !soc.prescaled_slot);
    assert_eq!(soc.net_time.to_ns(), 1_795_205_475_227_661_183);
    assert_eq!(NetTime::from_ns(1_795_205_475_227_661_183), soc.net_time);
}

#[test]
fn poll_request_and_response() {
    let bytes = frame(846);
    let request = Packet::parse(&bytes).unwrap();
    assert_eq!((request.destination, request.source), (110, node::MN));
    let Message::PReq(request) = request.message else {
        panic!("{request:?}");
    };
    assert!(request.poll.ready && !request.exception_acknowledge);
    assert_eq!(request.poll.payload, [0x40]);
    let bytes = frame(847);
    let response = Packet::parse(&bytes).unwrap();
    assert_eq!(response.destination_address, multicast::PRES);
    let Message::PRes(response) = response.message else {
        panic!("{response:?}");
    };
    assert_eq!(response.state, NmtState::PRE_OPERATIONAL_2);
    assert_eq!(response.request, SendRequest::NONE);
    assert!(response.poll.payload.is_empty());
}

#[test]
fn ident_and_status_response() {
    let bytes = frame(830);
    let packet = Packet::parse(&bytes).unwrap();
    let Message::Asnd(Asnd::Ident(ident)) = packet.message else {
        panic!("{packet:?}");
    };
    assert_eq!(ident.feature_flags, 0x0001_0265);
    assert_eq!(
        (ident.mtu, ident.poll_in_octets, ident.poll_out_octets),
        (1500, 36, 36)
    );
    assert_eq!(ident.response_time_ns, 50_000);
    assert_eq!(ident.device_type, 0x000f_0191);
    assert_eq!(ident.revision_number, 0x0002_0007);
    assert_eq!(ident.ip_address, [192, 168, 100, 32]);
    assert_eq!(ident.default_gateway, [192, 168, 100, 254]);
    assert!(ident.host_name.starts_with(b"20-ffffffff\0"));
    let bytes = frame(858);
    let packet = Packet::parse(&bytes).unwrap();
    let Message::Asnd(Asnd::Status(status)) = packet.message else {
        panic!("{packet:?}");
    };
    assert!(status.exception_clear && !status.exception_new);
    assert_eq!((status.request.priority, status.request.pending), (3, 1));
    assert_eq!(status.state, NmtState::PRE_OPERATIONAL_2);
    assert!(status.errors.is_empty());
}

#[test]
fn commands_and_service_data() {
    let bytes = frame(2541);
    let packet = Packet::parse(&bytes).unwrap();
    let Message::Asnd(Asnd::NmtCommand(command)) = packet.message else {
        panic!("{packet:?}");
    };
    assert_eq!(command.command, NmtCommandId::RESET_CONFIGURATION);
    // WriteByIndex 1011h/1 = "load", its refusal, an acknowledgement, and a write that succeeds.
    let command = |nth: usize| {
        let bytes = frame(nth);
        let Ok(Message::Asnd(Asnd::Sdo(sdo))) = Packet::parse(&bytes).map(|p| p.message) else {
            panic!("{nth}");
        };
        let owned = sdo
            .command
            .map(|c| (c.transaction, c.response, c.abort_code(), c.data.to_vec()));
        (sdo.sequence, owned)
    };
    let sequence = |receive_number, send_number| Sequence {
        receive_number,
        receive: Connection::Valid,
        send_number,
        send: Connection::Valid,
    };
    let load = vec![0x11, 0x10, 1, 0, b'l', b'o', b'a', b'd'];
    assert_eq!(command(949), (sequence(0, 1), Some((0, false, None, load))));
    let refusal = vec![0, 0, 2, 6];
    let refusal = Some((0, true, Some(0x0602_0000), refusal));
    assert_eq!(command(1020), (sequence(1, 1), refusal));
    assert_eq!(command(1055), (sequence(1, 1), None));
    assert_eq!(
        command(1108),
        (sequence(2, 2), Some((1, true, None, vec![])))
    );
}

#[test]
fn sync_request_and_response_keep_to_302_c() {
    let sync = SyncRequest {
        control: SyncRequest::MODE_SET | SyncRequest::RESPONSE_TIME_FIRST | SyncRequest::ADDRESS,
        response_time_first_ns: 12_000,
        fall_back_timeout_ns: 5_000_000,
        address: MacAddress([2, 0, 0, 0, 0, 7]),
        ..SyncRequest::default()
    };
    let request = Packet {
        destination_address: multicast::SOA,
        source_address: MacAddress([2, 0, 0, 0, 0, 0xf0]),
        destination: node::BROADCAST,
        source: node::MN,
        message: Message::Soa(Soa {
            state: NmtState::PRE_OPERATIONAL_2,
            service: RequestedService::SYNC_REQUEST,
            target: 7,
            version: VERSION,
            sync: Some(sync),
            ..Soa::default()
        }),
    };
    let mut out = [0xaa; 60];
    assert_eq!(request.emit(&mut out), Ok(54));
    assert_eq!(out[24..32], [0x21, 0, 0, 0x80, 0xe0, 0x2e, 0, 0]);
    assert_eq!(out[48..54], [2, 0, 0, 0, 0, 7]);
    assert_eq!(Packet::parse(&out), Ok(request));
}

#[test]
fn service_data_over_udp() {
    let sdo = Sdo {
        sequence: Sequence {
            receive_number: 5,
            receive: Connection::Valid,
            send_number: 6,
            send: Connection::Request,
        },
        command: Some(SdoCommand {
            transaction: 9,
            segmentation: Segmentation::Initiate { total_octets: 12 },
            command: SdoCommandId::WRITE_BY_INDEX,
            data: &[0x06, 0x10, 0, 0],
            ..SdoCommand::default()
        }),
    };
    let mut out = [0; 64];
    let octets = sdo.emit_datagram(&mut out).unwrap();
    let expected = [
        6, 0, 0, 5, 0x16, 0x1b, 0, 0, 0, 9, 0x10, 1, 8, 0, 0, 0, 12, 0, 0, 0, 0x06, 0x10, 0, 0,
    ];
    assert_eq!(out[..octets], expected);
    assert_eq!(Sdo::parse_datagram(&out[..octets]), Ok(sdo));
    assert!(Sdo::parse_datagram(&[6, 0, 0, 4, 0, 0, 0, 0]).is_err());
}

#[test]
fn errors_name_what_is_wrong() {
    let parse = |bytes: &[u8]| Packet::parse(bytes).unwrap_err().to_string();
    let mut bytes = frame(847);
    assert_eq!(
        parse(&bytes[..20]),
        "truncated: PRes needs 21 octets, there are 20"
    );
    bytes[22] = 200;
    assert_eq!(
        parse(&bytes),
        "wrong size: the size of the process data is 200, at most 36 is possible"
    );
    bytes[14] = 2;
    assert_eq!(
        parse(&bytes),
        "POWERLINK message type 2 found; 1, 3 to 7 and 13 are known"
    );
    bytes[12] = 8;
    assert_eq!(
        parse(&bytes),
        "EtherType 0x08AB found, 0x88AB (POWERLINK) expected"
    );
    let long = [0; MAXIMUM_PAYLOAD_OCTETS + 1];
    let request = Packet {
        destination_address: MacAddress::default(),
        source_address: MacAddress::default(),
        destination: 1,
        source: 240,
        message: Message::PReq(Request {
            poll: Poll {
                payload: &long,
                ..Poll::default()
            },
            ..Request::default()
        }),
    };
    let error = request.emit(&mut [0; 1600]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1491 octets do not fit: there is room for 1490"
    );
}

#[test]
fn lists_of_nodes() {
    let mut list = [0; 32];
    node_list_insert(&mut list, 0);
    node_list_insert(&mut list, 110);
    node_list_insert(&mut list, 255);
    let named: Vec<u8> = (0..=255)
        .filter(|&n| node_list_contains(&list, n))
        .collect();
    assert_eq!(named, [0, 110, 255]);
    assert!(!node_list_contains(&list[..3], 110));
    assert_eq!(
        NmtCommandId::START_NODE_EX.plain(),
        NmtCommandId::START_NODE
    );
    assert_eq!(NmtCommandId::RESET_NODE.plain(), NmtCommandId::RESET_NODE);
}

#[test]
fn reserved_bits_do_not_make_a_command() {
    // Of the command's header only bits without a meaning are set.
    let bytes = [6, 0, 0, 5, 0x0a, 0x0a, 0, 0, 7, 0, 0x0f, 0, 0, 0, 7, 7];
    let sdo = Sdo::parse_datagram(&bytes).unwrap();
    assert_eq!(sdo.command, None);
    let mut out = [0; 16];
    let octets = sdo.emit_datagram(&mut out).unwrap();
    assert_eq!(Sdo::parse_datagram(&out[..octets]), Ok(sdo));
}
