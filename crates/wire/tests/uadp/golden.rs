//! Recorded messages: each field where the other decoder found it, with its value, and the same octets when written.

use super::capture::{all, expected, from_hex, messages};
use rtwire_wire::uadp::*;

/// The name that the other decoder uses.
fn their_name(field: &ViewField<'_>) -> String {
    let name = match field.name {
        "UADPFlags" => "UADPVersion|Flags",
        "VariantMask" => "variantMask",
        "DataValueMask" => "dvMask",
        "SourceTimestamp" => "sourceTs",
        "Int32" => "i32",
        "Double" => "f64",
        "PublisherId.length" => "PublisherId.len",
        "EncryptedPayload" => "<encrypted payload>",
        "PublisherId" if matches!(field.value, ViewValue::Text(_)) => "PublisherId.str",
        other => other,
    };
    let mut field = *field;
    // The names live as long as the test.
    field.name = Box::leak(name.to_owned().into_boxed_str());
    field.to_string()
}

fn their_value(field: &ViewField<'_>) -> String {
    match field.value {
        ViewValue::Number(number) => number.to_string(),
        ViewValue::Text(text) => text.to_owned(),
        ViewValue::Value(Value::Int32(number)) => number.to_string(),
        ViewValue::Value(Value::Double(number)) => number.to_string(),
        ViewValue::Value(Value::DateTime(time)) => time.0.to_string(),
        ViewValue::Octets(octets) if field.name == "MessageNonce" => {
            octets.iter().map(|octet| format!("{octet:02x}")).collect()
        }
        _ => String::new(),
    }
}

#[test]
fn every_field_is_where_the_other_decoder_found_it() {
    let expected = expected();
    let mut compared = 0;
    for (name, told) in expected.as_object().unwrap() {
        let recorded = messages(name);
        for (number, told) in told.as_array().unwrap().iter().enumerate() {
            let bytes = from_hex(told["message_hex"].as_str().unwrap());
            assert_eq!(recorded[number], bytes, "{name}, message {number}");
            let mut found = Vec::new();
            View::new(&bytes).walk(&mut |seen| match seen {
                Seen::Field(field) => found.push((
                    field.at,
                    bytes[field.at..field.at + field.octets].to_vec(),
                    their_name(&field),
                    their_value(&field),
                )),
                Seen::Fault(fault) => panic!("{name}, message {number}: {fault}"),
            });
            let theirs: Vec<_> = told["fields"]
                .as_array()
                .unwrap()
                .iter()
                .map(|field| {
                    let text = |key: &str| field[key].as_str().unwrap().to_owned();
                    let theirs = text("name").replace("Trailer/Signature/Padding", "Signature");
                    let at = field["offset"].as_u64().unwrap() as usize;
                    (at, from_hex(&text("bytes")), theirs, text("value"))
                })
                .collect();
            assert_eq!(found, theirs, "{name}, message {number}");
            compared += theirs.len();
        }
    }
    assert!(compared > 1000, "{compared} fields");
}

#[test]
fn every_message_is_written_as_it_was() {
    let mut messages = 0;
    for (name, bytes) in all() {
        let message = NetworkMessage::parse(&bytes, SIGNATURE_OCTETS)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut again = vec![0xaa; bytes.len() + 8];
        let octets = message.emit(&mut again).unwrap();
        assert_eq!(again[..octets], bytes, "{name}");
        messages += 1;
    }
    assert!(messages > 50, "{messages} messages");
}

fn read(bytes: &[u8]) -> NetworkMessage<'_> {
    NetworkMessage::parse(bytes, SIGNATURE_OCTETS).unwrap()
}

fn data_sets<'a>(message: &NetworkMessage<'a>) -> Vec<DataSetMessage<'a>> {
    match message.body {
        Body::DataSets(messages) => messages.iter().collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn publisher_identifiers_of_all_types() {
    for (name, id) in [
        ("wire-pidB.pcap", PublisherId::Byte(200)),
        ("wire-pidH.pcap", PublisherId::UInt16(200)),
        ("wire-pidI.pcap", PublisherId::UInt32(200)),
        ("wire-pidQ.pcap", PublisherId::UInt64(200)),
        ("wire-pidS.pcap", PublisherId::String("pub-2234")),
    ] {
        let bytes = &messages(name)[0];
        assert_eq!(read(bytes).header.publisher_id, Some(id), "{name}");
    }
    let bytes = &messages("wire-nomask.pcap")[0];
    let header = read(bytes).header;
    assert_eq!((header.publisher_id, header.stray_id_type), (None, 1));
}

#[test]
fn a_heartbeat_is_no_data() {
    let bytes = &messages("wire-heartb.pcap")[0];
    let content = data_sets(&read(bytes))[0].content;
    assert_eq!(content, Content::Heartbeat(FieldEncoding::Variant));
    // Ethernet pads it: then it has a FieldCount of zero, and no field.
    let mut padded = bytes.clone();
    padded.resize(PADDED_OCTETS, 0);
    match data_sets(&read(&padded))[0].content {
        Content::KeyFrame(fields) => assert!(fields.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn delta_frames_lose_their_fill() {
    let mut changed = 0;
    for bytes in messages("wire-delta.pcap") {
        if let Content::DeltaFrame(fields) = data_sets(&read(&bytes))[0].content {
            assert_eq!(fields.len(), 4, "as the publisher counts");
            let real: Vec<_> = fields.without_fill().collect();
            assert!(real.len() < 4, "{real:?}");
            assert!(
                real.iter()
                    .all(|(_, field)| field.value() != Some(Variant::Null))
            );
            changed += 1;
        }
    }
    assert!(changed > 0);
}

#[test]
fn several_messages_in_one() {
    let bytes = &messages("wire-multi3.pcap")[0];
    let message = read(bytes);
    let ids: Vec<u16> = message.header.writers.unwrap().iter().collect();
    assert_eq!(ids, [62541, 62542, 62543]);
    let fields = [
        Variant::from(0x0102_0300_i32),
        Variant::from(0x0102_0301_i32),
    ];
    for data_set in data_sets(&message) {
        assert_eq!(
            data_set.content,
            Content::KeyFrame(Fields::variants(&fields))
        );
    }
}

const FIXED: &str = "b101ba080f64002b2b2b2b010000001b000000000003020101030201";
const DYNAMIC: &str =
    "d103ba08000000000000014df4d91000009c14f68a2679dd01000060a58565020006000302010601030201";
const VARIANT: &str = "f101ba080964000000014df40900000300060003020106010302010603030201";
const ENCRYPTED: &str = "f111ba080964000000014df40307000000081bc43b8001000000328d681d765b2386b50a3e4a418216b2a34e7e63b2802ba507fa8f306d76d265a62c4cc80b2d4283808978cbb09dc0";

#[test]
fn the_fixed_profile() {
    let mut raw = Vec::new();
    raw.extend(0x0102_0300_i32.to_le_bytes());
    raw.extend(0x0102_0301_i32.to_le_bytes());
    let message = DataSetMessage {
        sequence: Some(0),
        status: Some(0),
        timestamp: Some(DateTime(1)),
        minor_version: Some(1),
        content: Content::RawData(&raw),
        ..DataSetMessage::default()
    };
    let messages = [Profile::PeriodicFixed.data_set_mask().select(&message)];
    let header = Header {
        publisher_id: Some(PublisherId::UInt16(2234)),
        group: Some(GroupHeader {
            writer_group_id: Some(100),
            group_version: Some(0x2b2b_2b2b),
            message_number: Some(1),
            sequence: Some(0),
        }),
        writers: Some(WriterIds::of(&[62541])),
        timestamp: Some(DateTime(1)),
        ..Header::default()
    };
    let message = NetworkMessage::new(
        Profile::PeriodicFixed.network_mask().select(&header),
        Body::DataSets(DataSets::of(&messages)),
    );
    let mut bytes = [0; 64];
    let octets = message.emit(&mut bytes).unwrap();
    assert_eq!(bytes[..octets], from_hex(FIXED));
}

#[test]
fn the_dynamic_profile() {
    let fields = [
        Variant::from(0x0102_0300_i32),
        Variant::from(0x0102_0301_i32),
    ];
    let message = DataSetMessage {
        sequence: Some(0),
        status: Some(0),
        timestamp: Some(DateTime(i64::from_le_bytes([
            0x9c, 0x14, 0xf6, 0x8a, 0x26, 0x79, 0xdd, 0x01,
        ]))),
        major_version: Some(9),
        minor_version: Some(0x6585_a560),
        content: Content::KeyFrame(Fields::variants(&fields)),
        ..DataSetMessage::default()
    };
    let messages = [Profile::Dynamic.data_set_mask().select(&message)];
    let header = Header {
        publisher_id: Some(PublisherId::UInt64(2234)),
        group: Some(GroupHeader::default()),
        writers: Some(WriterIds::of(&[62541])),
        ..Header::default()
    };
    let message = NetworkMessage::new(
        Profile::Dynamic.network_mask().select(&header),
        Body::DataSets(DataSets::of(&messages)),
    );
    let mut bytes = [0; 64];
    let octets = message.emit(&mut bytes).unwrap();
    assert_eq!(bytes[..octets], from_hex(DYNAMIC));
    assert_eq!(read(&bytes[..octets]), message);
}

#[test]
fn a_key_frame_with_both_headers() {
    let bytes = from_hex(VARIANT);
    let message = read(&bytes);
    let values: Vec<_> = match data_sets(&message)[0].content {
        Content::KeyFrame(fields) => fields.iter().map(|field| field.value().unwrap()).collect(),
        other => panic!("{other:?}"),
    };
    let expected = [0x0102_0300, 0x0102_0301, 0x0102_0303_i32].map(Variant::from);
    assert_eq!(values, expected);
}

#[test]
fn the_parts_of_an_encrypted_message() {
    let bytes = from_hex(ENCRYPTED);
    let message = read(&bytes);
    let security = message.header.security.unwrap();
    assert!(security.signed && security.encrypted && !security.force_key_reset);
    assert_eq!((security.token_id, security.nonce.len()), (7, 8));
    assert_eq!(security.octets(), 14);
    assert_eq!(message.body, Body::Encrypted(&bytes[26..41]));
    assert_eq!(message.signature, &bytes[41..]);
    let (header, payload_at) = Header::parse(&bytes).unwrap();
    let envelope = Envelope::new(header.security.as_ref(), payload_at, bytes.len(), 32).unwrap();
    assert_eq!(envelope.signed(&bytes), &bytes[..41]);
    // The payload as it is after decryption, read by its own.
    let plain = from_hex("0b0000000302010103020103030201");
    let body = Body::parse(&header, &plain, payload_at).unwrap();
    match body {
        Body::DataSets(messages) => assert_eq!(messages.len(), 1),
        other => panic!("{other:?}"),
    }
}

/// The seeds of the fuzz target have each form, so that it does not have to find them.
#[test]
fn the_seeds_have_each_form() {
    let folder = super::capture::folder().join("../../../fuzz/corpus/uadp");
    let mut forms = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let message = NetworkMessage::parse(&bytes, SIGNATURE_OCTETS)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if message.header.promoted.is_some() {
            forms.insert("promoted fields");
        }
        match message.body {
            Body::Chunk(_) => _ = forms.insert("chunk"),
            Body::Probe(_) => _ = forms.insert("probe"),
            Body::Announcement(_) => _ = forms.insert("announcement"),
            Body::Encrypted(_) => _ = forms.insert("encrypted"),
            Body::DataSets(messages) => {
                forms.extend(messages.iter().map(|message| match message.content {
                    Content::KeyFrame(_) => "key frame",
                    Content::RawData(_) => "raw data",
                    Content::DeltaFrame(_) => "delta frame",
                    Content::Event(_) => "event",
                    Content::KeepAlive(_) => "keep-alive",
                    Content::Heartbeat(_) => "heartbeat",
                }));
            }
        }
    }
    assert_eq!(forms.len(), 11, "{forms:?}");
}
