//! Captures of every kind, and damaged ones.

use super::*;
use proptest::prelude::*;

fn word(big: bool, value: u32) -> [u8; 4] {
    if big {
        value.to_be_bytes()
    } else {
        value.to_le_bytes()
    }
}

fn half(big: bool, value: u16) -> [u8; 2] {
    if big {
        value.to_be_bytes()
    } else {
        value.to_le_bytes()
    }
}

/// A pcap file of two packets.
fn pcap(big: bool, magic: u32, link: u32) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(word(big, magic));
    file.extend(half(big, 2));
    file.extend(half(big, 4));
    for value in [0, 0, 65_535, link] {
        file.extend(word(big, value));
    }
    for (second, part, octets) in [(7, 999_999, 60), (8, 5, 64)] {
        for value in [second, part, octets, octets] {
            file.extend(word(big, value));
        }
        file.extend(vec![second as u8; octets as usize]);
    }
    file
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut block = word(big, kind).to_vec();
    block.extend(word(big, body.len() as u32 + 12));
    block.extend(body);
    block.extend(word(big, body.len() as u32 + 12));
    block
}

fn section(big: bool) -> Vec<u8> {
    let mut body = word(big, 0x1a2b_3c4d).to_vec();
    body.extend(half(big, 1));
    body.extend(half(big, 0));
    body.extend([0xff; 8]);
    block(big, 0x0a0d_0d0a, &body)
}

fn interface(big: bool, resolution: u8, offset_s: i64) -> Vec<u8> {
    let mut body = half(big, 1).to_vec();
    body.extend([0; 6]);
    body.extend(half(big, 9));
    body.extend(half(big, 1));
    body.extend([resolution, 0, 0, 0]);
    body.extend(half(big, 14));
    body.extend(half(big, 8));
    body.extend(if big {
        offset_s.to_be_bytes()
    } else {
        offset_s.to_le_bytes()
    });
    block(big, 1, &body)
}

fn enhanced(big: bool, interface: u32, units: u64, data: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for value in [
        interface,
        (units >> 32) as u32,
        units as u32,
        data.len() as u32,
        data.len() as u32,
    ] {
        body.extend(word(big, value));
    }
    body.extend(data);
    body.resize(body.len().next_multiple_of(4), 0);
    block(big, 6, &body)
}

type Seen = (Option<u64>, u16, Vec<u8>);

fn all(file: &[u8]) -> Result<Vec<Seen>, CaptureError> {
    let mut reader = Reader::new(file)?;
    let mut seen = Vec::new();
    while let Some(packet) = reader.next_packet()? {
        assert_eq!(packet.number, seen.len() as u64 + 1);
        seen.push((packet.time_ns, packet.link_type, packet.data.to_vec()));
    }
    Ok(seen)
}

#[test]
fn pcap_of_both_orders_and_resolutions() {
    for big in [false, true] {
        for (magic, unit, format) in [
            (0xa1b2_c3d4, 1_000, Format::PcapMicroseconds),
            (0xa1b2_3c4d, 1, Format::PcapNanoseconds),
        ] {
            let file = pcap(big, magic, 1);
            assert_eq!(Reader::new(&file[..]).unwrap().format(), format);
            let seen = all(&file).unwrap();
            assert_eq!(seen.len(), 2);
            assert_eq!(
                seen[0],
                (Some(7_000_000_000 + 999_999 * unit), 1, vec![7; 60])
            );
            assert_eq!(seen[1], (Some(8_000_000_000 + 5 * unit), 1, vec![8; 64]));
        }
    }
}

#[test]
fn an_fcs_at_the_end_of_frames_is_taken_off() {
    // Bits 28 to 31 count two pairs of bytes; bit 26 marks them valid.
    let seen = all(&pcap(false, 0xa1b2_c3d4, 1 | 1 << 26 | 2 << 28)).unwrap();
    assert_eq!((seen[0].2.len(), seen[1].2.len()), (56, 60));
}

#[test]
fn pcapng_of_both_orders_and_any_resolution() {
    for big in [false, true] {
        let mut file = section(big);
        file.extend(interface(big, 9, 0));
        file.extend(interface(big, 6, -1));
        file.extend(interface(big, 12, 0));
        file.extend(interface(big, 0x80 | 10, 3));
        file.extend(block(big, 5, &[0; 20]));
        file.extend(enhanced(big, 0, 1 << 40, b"ns"));
        file.extend(enhanced(big, 1, 2_000_000, b"us"));
        file.extend(enhanced(big, 2, 5_000_999, b"ps"));
        file.extend(enhanced(big, 3, 1024 + 512, b"binary"));
        // A second section in the other byte order, with its own interfaces.
        file.extend(section(!big));
        file.extend(interface(!big, 3, 0));
        file.extend(enhanced(!big, 0, 4, b"ms"));
        let seen = all(&file).unwrap();
        let times: Vec<_> = seen.iter().map(|s| s.0.unwrap()).collect();
        assert_eq!(
            times,
            [1 << 40, 1_000_000_000, 5_000, 4_500_000_000, 4_000_000]
        );
        assert_eq!(seen[3].2, b"binary");
    }
}

#[test]
fn packets_without_a_time_are_shown_as_such() {
    let mut file = section(false);
    file.extend(interface(false, 9, 0));
    let mut body = 5_u32.to_le_bytes().to_vec();
    body.extend(b"hello\0\0\0");
    file.extend(block(false, 3, &body));
    assert_eq!(all(&file).unwrap(), [(None, 1, b"hello".to_vec())]);
}

#[test]
fn what_is_written_reads_back() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, LINK_ETHERNET).unwrap();
    for length in 0..9 {
        writer
            .packet(&Recorded {
                time_ns: u64::from(length) << 35,
                data: &vec![length; usize::from(length)],
                original_octets: 60,
                comment: if length % 2 == 0 { "" } else { "odd" },
            })
            .unwrap();
    }
    writer.finish().unwrap();
    let seen = all(&file).unwrap();
    assert_eq!(seen.len(), 9);
    for (length, (time_ns, _, data)) in (0_u8..).zip(&seen) {
        assert_eq!(*time_ns, Some(u64::from(length) << 35));
        assert_eq!(*data, vec![length; usize::from(length)]);
    }
}

fn message(file: &[u8]) -> String {
    all(file).unwrap_err().to_string()
}

#[test]
fn damage_is_told_with_its_place() {
    let whole = pcap(false, 0xa1b2_c3d4, 1);
    assert_eq!(
        message(b"hi"),
        "at byte 0: the file ends within its first four bytes: 4 bytes are needed, 2 are there; it was cut off, or is still being written"
    );
    assert!(message(b"").contains("4 bytes are needed, 0 are there"));
    assert_eq!(
        message(b"[network]"),
        "this is neither pcap nor pcapng: it begins with 5b 6e 65 74; a capture begins with a1 b2 c3 d4 or 0a 0d 0d 0a (or the like)"
    );
    assert!(message(&[0x1f, 0x8b, 8, 0]).contains("gzip; decompress it first"));
    assert!(
        message(&whole[..20]).starts_with("at byte 4: the file ends within the header of the file")
    );
    assert!(
        message(&whole[..30])
            .starts_with("at byte 24: the file ends within the header of a packet")
    );
    assert_eq!(
        message(&whole[..50]),
        "at byte 40: the file ends within a packet: 60 bytes are needed, 10 are there; it was cut off, or is still being written"
    );
    let mut broken = whole.clone();
    broken[100 + 8..100 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        message(&broken),
        "at byte 100: the header of a packet says that 4294967295 bytes follow; at most 262144 are possible; the file is damaged from here on"
    );
    let mut ng = section(false);
    let at = ng.len();
    ng.extend(interface(false, 9, 0));
    let packet_at = ng.len();
    ng.extend(enhanced(false, 0, 1, &[1; 60]));
    let mut broken = ng.clone();
    broken[packet_at - 4] ^= 1;
    assert!(message(&broken).starts_with(&format!(
        "at byte {at}: a block says at its start that it has"
    )));
    let mut broken = ng.clone();
    broken[packet_at + 8] = 9;
    assert!(
        message(&broken).contains("a packet of interface 9, of which the file has described 1")
    );
    let mut broken = ng.clone();
    broken[packet_at + 20..packet_at + 24].copy_from_slice(&100_u32.to_le_bytes());
    assert!(
        message(&broken).contains("a packet says that it has 100 bytes; its block has room for 60")
    );
    let mut broken = ng;
    broken[packet_at + 4] = 13;
    assert!(message(&broken).contains("a block says that it has 13 bytes"));
}

#[test]
fn payloads_behind_each_kind_of_header() {
    let mut frame = vec![0; 12];
    frame.extend([0x88, 0xab, 7]);
    assert_eq!(payload(LINK_ETHERNET, &frame, 0x88ab), Some(&[7][..]));
    assert_eq!(payload(LINK_ETHERNET, &frame, 0x88b5), None);
    assert_eq!(payload(LINK_ETHERNET, &frame[..13], 0x88ab), None);
    let mut tagged = vec![0; 12];
    tagged.extend([0x81, 0, 0, 1, 0x88, 0xab, 8]);
    assert_eq!(payload(LINK_ETHERNET, &tagged, 0x88ab), Some(&[8][..]));
    let mut any = vec![0; 14];
    any.extend([0x88, 0xab, 9]);
    assert_eq!(payload(LINK_LINUX_SLL, &any, 0x88ab), Some(&[9][..]));
    let mut any = vec![0x88, 0xab];
    any.extend([0; 18]);
    any.push(10);
    assert_eq!(payload(LINK_LINUX_SLL2, &any, 0x88ab), Some(&[10][..]));
    assert_eq!(payload(105, &any, 0x88ab), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_octets_make_it_panic(file in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = all(&file);
    }

    #[test]
    fn no_damage_makes_it_panic(
        big: bool,
        ng: bool,
        cut in 0_usize..400,
        flips in prop::collection::vec((0_usize..400, any::<u8>()), 0..6),
    ) {
        let mut file = if ng {
            let mut file = section(big);
            file.extend(interface(big, 9, 0));
            file.extend(enhanced(big, 0, 99, &[3; 61]));
            file.extend(enhanced(big, 0, 100, &[4; 60]));
            file
        } else {
            pcap(big, 0xa1b2_3c4d, 1)
        };
        for (at, value) in flips {
            if let Some(octet) = file.get_mut(at) {
                *octet = value;
            }
        }
        file.truncate(cut);
        // The reader terminates, whatever the content.
        if let Ok(seen) = all(&file) {
            prop_assert!(seen.len() <= file.len());
        }
    }
}
