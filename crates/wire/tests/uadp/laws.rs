//! `parse(emit(x)) = x` for every value.

use super::messages::*;
use proptest::prelude::*;
use rtwire_wire::uadp::*;

fn holds(message: NetworkMessage<'_>, signature_octets: usize) {
    let mut bytes = vec![0xaa; 16384];
    let octets = message.emit(&mut bytes).unwrap();
    let parsed = NetworkMessage::parse(&bytes[..octets], signature_octets).unwrap();
    assert_eq!(parsed, message);
    // What was read is written in the same octets.
    let mut again = vec![0x55; octets];
    assert_eq!(parsed.emit(&mut again), Ok(octets));
    assert_eq!(again, &bytes[..octets]);
    // A buffer that is one octet too short is noticed.
    assert!(message.emit(&mut again[..octets - 1]).is_err());
    View::new(&bytes[..octets])
        .with_signature_octets(signature_octets)
        .walk(&mut |seen| assert!(matches!(seen, Seen::Field(_)), "{seen:?} in {message:?}"));
}

proptest! {
    #[test]
    fn a_variant_is_read_as_it_was_written(variant in variant()) {
        let mut bytes = [0; 512];
        let octets = variant.emit(&mut bytes).unwrap();
        prop_assert_eq!(Variant::parse(&bytes[..octets]), Ok((variant, octets)));
        for octets in 0..octets {
            prop_assert!(Variant::parse(&bytes[..octets]).is_err());
        }
    }

    #[test]
    fn a_data_value_is_read_as_it_was_written(value in data_value()) {
        let mut bytes = [0; 512];
        let octets = value.emit(&mut bytes).unwrap();
        prop_assert_eq!(DataValue::parse(&bytes[..octets]), Ok((value, octets)));
    }

    #[test]
    fn a_message_with_a_payload_header(
        header in header(),
        messages in proptest::collection::vec((any::<u16>(), data_set()), 1..4),
        signature in any::<[u8; 32]>(),
    ) {
        let (ids, messages): (Vec<u16>, Vec<_>) = messages.into_iter().unzip();
        let header = Header { writers: Some(WriterIds::of(&ids)), ..header };
        let signed = header.security.is_some_and(|security| security.signed);
        let message = NetworkMessage {
            signature: if signed { &signature } else { &[] },
            ..NetworkMessage::new(header, Body::DataSets(DataSets::of(&messages)))
        };
        holds(message, 32);
    }

    #[test]
    fn a_message_without_a_payload_header(header in header(), message in data_set()) {
        let header = Header { security: None, ..header };
        holds(NetworkMessage::new(header, Body::DataSets(DataSets::of(&[message]))), 0);
    }

    #[test]
    fn a_chunk(
        header in header(),
        id in any::<u16>(),
        numbers in any::<(u16, u16, u16)>(),
        data in proptest::collection::vec(any::<u8>(), 1..64),
    ) {
        let chunk = Chunk {
            sequence: numbers.0,
            offset: u32::from(numbers.1),
            total_octets: u32::from(numbers.1) + u32::from(numbers.2) + data.len() as u32,
            data: &data,
        };
        let ids = [id];
        let header = Header {
            chunk: true,
            writers: Some(WriterIds::of(&ids)),
            security: None,
            spare_flags: 0,
            ..header
        };
        holds(NetworkMessage::new(header, Body::Chunk(chunk)), 0);
    }

    #[test]
    fn discovery(
        publisher in publisher(),
        ids in proptest::collection::vec(any::<u16>(), 0..5),
        flags in any::<(bool, bool, u16)>(),
        body in proptest::collection::vec(any::<u8>(), 0..30),
        choice in 0..13_u8,
    ) {
        let header = |kind| Header { publisher_id: Some(publisher), kind, ..Header::default() };
        let ids = WriterIds::of(&ids);
        let profiles = [Value::String(Some("http://opcfoundation.org/UA-Profile/x"))];
        let ask = |information| Body::Probe(Probe::Information(information));
        let say = |content| Body::Announcement(Announcement { sequence: flags.2, content });
        let (kind, payload) = match choice {
            0 => (MessageKind::Probe, Body::Probe(Probe::FindApplications)),
            1 => (MessageKind::Probe, ask(Information::Endpoints)),
            2 => (MessageKind::Probe, ask(Information::MetaData(ids))),
            3 => (MessageKind::Probe, ask(Information::WriterConfiguration(ids))),
            4 => (MessageKind::Probe, ask(Information::WriterGroup {
                writer_group_id: flags.2,
                include_writers: flags.0,
            })),
            5 | 6 => (MessageKind::Probe, ask(Information::Connections {
                transport_profiles: (choice == 5).then_some(Elements::values(&profiles)),
                include_groups: flags.0,
                include_writers: flags.1,
            })),
            7 => (MessageKind::Announcement, say(AnnouncementContent::Endpoints(&body))),
            8 => (MessageKind::Announcement, say(AnnouncementContent::MetaData {
                writer_id: flags.2,
                body: &body,
            })),
            9 => (MessageKind::Announcement, say(AnnouncementContent::WriterConfiguration {
                writer_ids: ids,
                body: &body,
            })),
            10 => (MessageKind::Announcement, say(AnnouncementContent::Connections(&body))),
            11 => (MessageKind::Announcement, say(AnnouncementContent::Application(&body))),
            _ => (MessageKind::Announcement, say(AnnouncementContent::Other {
                kind: 6,
                body: &body,
            })),
        };
        holds(NetworkMessage::new(header(kind), payload), 0);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        View::new(&bytes).walk(&mut |seen| if let Seen::Field(field) = seen {
            assert!(field.at + field.octets <= bytes.len());
        });
        let _ = NetworkMessage::parse(&bytes, 32);
    }
}
