//! Random messages of our encoder: the other codec reads what was written, but for the forms that it reads otherwise.

use crate::messages::{data_set, header};
use crate::{emitted, read_by_them};
use proptest::prelude::*;
use rtwire_wire::uadp::*;
use rtwire_zerodds::forms::{Form, unlike};
use rtwire_zerodds::ours;
use std::cell::Cell;

/// A message with a payload header and one to three DataSetMessages, or without one.
fn message() -> BoxedStrategy<NetworkMessage<'static>> {
    let data_sets = proptest::collection::vec((any::<u16>(), data_set()), 1..4);
    (header(), data_sets, any::<bool>())
        .prop_map(|(header, data_sets, announced)| {
            let (ids, mut messages): (Vec<u16>, Vec<_>) = data_sets.into_iter().unzip();
            if !announced {
                messages.truncate(1);
            }
            let header = Header {
                writers: announced.then_some(WriterIds::of(ids.leak())),
                security: None,
                ..header
            };
            NetworkMessage::new(header, Body::DataSets(DataSets::of(messages.leak())))
        })
        .boxed()
}

#[test]
fn they_read_what_we_write() {
    let (all, alike) = (Cell::new(0), Cell::new(0));
    proptest!(|(message in message())| {
        let bytes = emitted(&message);
        let ours = ours::reading(&message);
        let theirs = read_by_them(&bytes);
        all.set(all.get() + 1);
        match unlike(&message) {
            None => {
                let theirs = theirs.unwrap();
                prop_assert_eq!(ours.difference(&theirs), None);
                alike.set(alike.get() + 1);
            }
            // The list is exact: none of its forms is read well.
            Some(form) => prop_assert_ne!(theirs, Ok(ours), "{:?} is read well now", form),
        }
    });
    let (all, alike) = (all.get(), alike.get());
    println!("{alike} of {all} random messages have no form that is read otherwise");
    assert!(all < 100 || alike > all / 8, "{alike} of {all}");
}

/// Returns a message of one key frame with one field.
fn one(value: Value<'static>) -> NetworkMessage<'static> {
    fields(Fields::variants(vec![Variant::Scalar(value)].leak()))
}

fn fields(fields: Fields<'static>) -> NetworkMessage<'static> {
    content(vec![Content::KeyFrame(fields)])
}

fn content(contents: Vec<Content<'static>>) -> NetworkMessage<'static> {
    let message = |content| DataSetMessage {
        content,
        ..DataSetMessage::default()
    };
    let messages: Vec<_> = contents.into_iter().map(message).collect();
    NetworkMessage::new(
        Header::default(),
        Body::DataSets(DataSets::of(messages.leak())),
    )
}

/// One message of each form: it is recognised, our codec reads its own message, and the other one does not.
#[test]
fn each_form_is_read_otherwise() {
    let key_frame = |value: i32| Content::KeyFrame(Fields::variants(vec![value.into()].leak()));
    let null = Variant::Array(Array {
        kind: BuiltIn::Float,
        elements: None,
        dimensions: None,
    });
    let swapped = DataValue {
        source_time: Some(DateTime(1)),
        source_picoseconds: Some(2),
        server_time: Some(DateTime(3)),
        ..DataValue::default()
    };
    let expanded = Value::ExpandedNodeId(ExpandedNodeId {
        node: NodeId::TwoByte(1),
        namespace_uri: None,
        server: None,
    });
    let heartbeat = Content::Heartbeat(FieldEncoding::Variant);
    let probe = NetworkMessage::new(
        Header {
            kind: MessageKind::Probe,
            ..Header::default()
        },
        Body::Probe(Probe::FindApplications),
    );
    for (form, message) in [
        (Form::Heartbeat, content(vec![heartbeat])),
        (Form::Unannounced, content(vec![key_frame(1), key_frame(2)])),
        (Form::NullArray, fields(Fields::variants(vec![null].leak()))),
        (Form::OtherType, one(expanded)),
        (Form::XmlOctets, one(Value::XmlElement(Some(&[0xff])))),
        (
            Form::SourcePicoseconds,
            fields(Fields::data_values(vec![swapped].leak())),
        ),
        (Form::OtherBody, probe),
    ] {
        let bytes = emitted(&message);
        assert_eq!(unlike(&message), Some(form));
        assert_eq!(NetworkMessage::parse(&bytes, 0), Ok(message), "{form:?}");
        assert_ne!(
            read_by_them(&bytes),
            Ok(ours::reading(&message)),
            "{form:?}"
        );
    }
}
