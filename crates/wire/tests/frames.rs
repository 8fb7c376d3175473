//! Golden octets, laws and arbitrary input for the frames of `rtwire-wire`.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rtwire_wire::ethernet::{self, EthernetError};
use rtwire_wire::rtdip::{self, RtdipError, Semantics};
use rtwire_wire::{
    EtherType, FRAME_OVERHEAD_OCTETS, MacAddress, Pcp, VlanTag, rtdip_frame_octets,
    udp_frame_octets, wire_octets,
};

fn header(time_ns: Option<u64>) -> rtdip::Header {
    rtdip::Header {
        semantics: Semantics::Queue,
        priority: Pcp::new(5).unwrap(),
        destination_port: 0x03e9,
        source_port: 0x07d1,
        sequence: 0xdead_beef,
        key: 0x0102_0304,
        time_ns,
    }
}

#[test]
fn golden_packet() {
    let mut out = [0xaa; 32];
    let length = header(None).emit(b"abc", &mut out).unwrap();
    let expected = [
        0x10, 5, 0x03, 0xe9, 0x07, 0xd1, 0, 3, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, b'a', b'b', b'c',
    ];
    assert_eq!(out[..length], expected);
    assert!(out[length..].iter().all(|&b| b == 0xaa));
}

#[test]
fn golden_packet_with_time_and_newest_semantics() {
    let mut header = header(Some(0x1122_3344_5566_7788));
    header.semantics = Semantics::Newest;
    let mut out = [0; 32];
    let length = header.emit(b"", &mut out).unwrap();
    assert_eq!(length, 24);
    assert_eq!(out[0], 0x13);
    assert_eq!(
        out[16..24],
        [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]
    );
}

#[test]
fn golden_ethernet_header() {
    let header = ethernet::Header {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 2]),
        vlan: VlanTag::new(Pcp::new(6).unwrap(), 100),
        ether_type: EtherType::RTDIP,
    };
    let mut out = [0; 18];
    assert_eq!(header.emit(&mut out), Ok(18));
    let expected = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0xc0, 0x64, 0x88, 0xb5,
    ];
    assert_eq!(out, expected);
    assert_eq!(
        header.emit(&mut [0; 17]),
        Err(EthernetError::Truncated {
            needed: 18,
            found: 17
        })
    );
}

#[test]
fn padding_is_never_user_data() {
    let mut frame = [0x55; 60];
    let length = header(None).emit(b"x", &mut frame).unwrap();
    assert_eq!(length, 17);
    let (_, data) = rtdip::Header::parse(&frame).unwrap();
    assert_eq!(data, b"x");
}

#[test]
fn each_fault_has_its_error() {
    let mut good = [0; 40];
    header(Some(1)).emit(&[7; 16], &mut good).unwrap();
    let parse = |bytes: &[u8]| rtdip::Header::parse(bytes).map(|_| ());
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        bytes
    };
    assert_eq!(parse(&good), Ok(()));
    let truncated = |needed, found| Err(RtdipError::Truncated { needed, found });
    assert_eq!(parse(&good[..15]), truncated(16, 15));
    assert_eq!(parse(&good[..23]), truncated(24, 23));
    let length = RtdipError::Length {
        field: 16,
        found: 15,
    };
    assert_eq!(parse(&good[..39]), Err(length));
    assert_eq!(parse(&with(0, 0x22)), Err(RtdipError::Version { found: 2 }));
    assert_eq!(parse(&with(0, 0x16)), Err(RtdipError::Flags { unknown: 4 }));
    assert_eq!(parse(&with(1, 8)), Err(RtdipError::Priority { found: 8 }));
    let too_long = RtdipError::TooLong { data: 9, fit: 8 };
    assert_eq!(header(Some(1)).emit(&[0; 9], &mut [0; 32]), Err(too_long));
    let too_long = RtdipError::TooLong {
        data: 65_536,
        fit: 65_535,
    };
    assert_eq!(
        header(None).emit(&[0; 65_536], &mut vec![0; 70_000]),
        Err(too_long)
    );
}

#[test]
fn mac_addresses_are_read_and_written() {
    let mac: MacAddress = "02:00:00:Aa:00:0f".parse().unwrap();
    assert_eq!(mac.to_string(), "02:00:00:aa:00:0f");
    for wrong in [
        "",
        "02:00",
        "02:00:00:00:00:0",
        "02:00:00:00:00:00:00",
        "+2:00:00:00:00:00",
        "x",
    ] {
        assert!(wrong.parse::<MacAddress>().is_err(), "{wrong}");
    }
    assert!(MacAddress::BROADCAST.is_group());
    assert!(!mac.is_group());
}

#[test]
fn sizes_on_the_wire() {
    assert_eq!(rtdip_frame_octets(1, false), 60);
    assert_eq!(rtdip_frame_octets(1, true), 64);
    assert_eq!(rtdip_frame_octets(rtdip::MAXIMUM_DATA_OCTETS, false), 1514);
    assert_eq!(udp_frame_octets(100, false), 14 + 20 + 8 + 24 + 100);
    assert_eq!(wire_octets(1514, FRAME_OVERHEAD_OCTETS), 1538);
    assert_eq!(wire_octets(20, FRAME_OVERHEAD_OCTETS), 84);
}

prop_compose! {
    fn any_header()(newest: bool, pcp in 0u8..8, destination_port: u16, source_port: u16,
                    sequence: u32, key: u32, time_ns: Option<u64>) -> rtdip::Header {
        rtdip::Header {
            semantics: if newest { Semantics::Newest } else { Semantics::Queue },
            priority: Pcp::new(pcp).unwrap(),
            destination_port, source_port, sequence, key, time_ns,
        }
    }
}

proptest! {
    #[test]
    fn parse_of_emit_is_the_same(header in any_header(), data: Vec<u8>, padding in 0usize..64) {
        let mut bytes = vec![0xa5; header.octets() + data.len() + padding];
        let length = header.emit(&data, &mut bytes).unwrap();
        prop_assert_eq!(length, header.octets() + data.len());
        prop_assert_eq!(rtdip::Header::parse(&bytes), Ok((header, &data[..])));
        let packet = rtdip::Packet::new(&bytes).unwrap();
        prop_assert_eq!(packet.time_ns(), header.time_ns);
        prop_assert_eq!(packet.data(), Some(&data[..]));
    }

    #[test]
    fn emit_of_parse_is_the_same(mut bytes in prop::collection::vec(any::<u8>(), 0..128)) {
        // Mostly valid headers: otherwise nearly every input would end at the version.
        if let Some(first) = bytes.first_mut() { *first = 0x10 | (*first & 3) }
        if bytes.len() > 7 { bytes[1] &= 7; bytes[6] = 0; bytes[7] &= 63 }
        if let Ok((header, data)) = rtdip::Header::parse(&bytes) {
            let mut out = vec![0; 256];
            let length = header.emit(data, &mut out).unwrap();
            prop_assert_eq!(&out[..length], &bytes[..length]);
        }
    }

    #[test]
    fn ethernet_round_trip(destination: [u8; 6], source: [u8; 6], bits: Option<u16>, kind: u16,
                           payload: Vec<u8>) {
        prop_assume!(kind != EtherType::VLAN.0);
        let header = ethernet::Header {
            destination: MacAddress(destination), source: MacAddress(source),
            vlan: bits.map(VlanTag::from_bits), ether_type: EtherType(kind),
        };
        let mut bytes = vec![0; 18];
        let length = header.emit(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes.extend(&payload);
        let frame = ethernet::Frame::new(&bytes).unwrap();
        prop_assert_eq!(frame.destination(), header.destination);
        prop_assert_eq!(frame.source(), header.source);
        prop_assert_eq!(frame.vlan(), header.vlan);
        prop_assert_eq!(frame.vlan().map(VlanTag::to_bits), bits);
        prop_assert_eq!(frame.ether_type(), header.ether_type);
        prop_assert_eq!(frame.payload(), &payload[..]);
    }

    #[test]
    fn nothing_panics(bytes: Vec<u8>) {
        let _ = rtdip::Header::parse(&bytes);
        if let Ok(packet) = rtdip::Packet::new(&bytes) {
            let _ = (packet.version(), packet.flags(), packet.priority(), packet.destination_port());
            let _ = (packet.source_port(), packet.sequence(), packet.key());
            let _ = (packet.time_ns(), packet.data());
        }
        if let Ok(frame) = ethernet::Frame::new(&bytes) {
            let _ = (frame.vlan(), frame.ether_type(), frame.payload());
        }
    }

    #[test]
    fn mac_text_round_trip(bytes: [u8; 6]) {
        let mac = MacAddress(bytes);
        prop_assert_eq!(mac.to_string().parse(), Ok(mac));
    }
}
