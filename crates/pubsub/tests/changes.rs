//! A reader whose publisher changes its metadata: fields are found by their names, and nothing is taken before that.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Sent, field};
use proptest::prelude::*;
use rtwire_pubsub::publish::{PublisherNode, WriterGroup};
use rtwire_pubsub::security::{Algorithm, Key, KeyMaterial, Opener, SecurityMode};
use rtwire_pubsub::subscribe::{Outcome, Reader, ReaderGroup, SubscriberNode, Unsuitable};
use rtwire_pubsub::{
    DataSet, Extent, Field, FieldValue, Group, Profile, Publisher, Scalar, ScalarArray,
};
use rtwire_wire::Node;
use rtwire_wire::uadp::{BuiltIn, FieldEncoding};

const MS: u64 = 1_000_000;

/// The fields that a publisher may have. The value of each is made of its place here and a number.
fn pool() -> Vec<Field> {
    vec![
        field("speed", BuiltIn::Double, Extent::Scalar),
        field("count", BuiltIn::Int32, Extent::Scalar),
        field("on", BuiltIn::Byte, Extent::Scalar),
        field("text", BuiltIn::String, Extent::Bytes(9)),
        field("list", BuiltIn::UInt16, Extent::Elements(3)),
        field("bytes", BuiltIn::ByteString, Extent::Bytes(5)),
    ]
}

fn group(profile: Profile, encoding: FieldEncoding, version: u32, fields: Vec<Field>) -> Group {
    Group {
        name: "g".to_owned(),
        publisher: Publisher::UInt16(2234),
        id: 100,
        version,
        profile,
        interval_ns: MS,
        offset_ns: 0,
        keep_alive_ns: 10 * MS,
        receive_timeout_ns: 0,
        security: SecurityMode::None,
        data_sets: vec![DataSet {
            writer: 7,
            name: "d".to_owned(),
            encoding,
            key_frame_count: if encoding == FieldEncoding::RawData {
                1
            } else {
                3
            },
            major_version: version,
            minor_version: version,
            event: false,
            zeros_are_data: false,
            fields,
        }],
    }
}

/// A publisher that sends without a transport.
struct Source {
    node: PublisherNode,
    group: Group,
}

impl Source {
    fn new(group: &Group, now_ns: u64) -> Self {
        let groups = vec![WriterGroup::new(group.clone(), &[], None, 0).unwrap()];
        let mut node = PublisherNode::new(groups, Vec::new(), false);
        node.start(now_ns, &mut Sent::default());
        Self {
            node,
            group: group.clone(),
        }
    }

    /// Sends the message of the next instant, with values made of `number`.
    fn message(&mut self, number: u8) -> Vec<u8> {
        for (at, field) in self.group.data_sets[0].fields.iter().enumerate() {
            let group = &mut self.node.groups_mut()[0];
            assert!(with_value(field, number, |value| group.set_value(0, at, value)));
        }
        let mut sent = Sent::default();
        let at = self.node.wake_at_ns().unwrap();
        self.node.moment(at, &mut sent);
        sent.0.remove(0)
    }
}

/// Shows the value of a field that is made of a number and of the field's name.
fn with_value<T>(field: &Field, number: u8, shown: impl FnOnce(FieldValue<'_>) -> T) -> T {
    let own = number.wrapping_add(field.name.as_bytes()[0]);
    let text = format!("{own:03}");
    let octets = [own, 1, 2, 3];
    shown(match field.extent {
        Extent::Scalar => FieldValue::Scalar(Scalar::of_number(field.kind, i64::from(own))),
        Extent::Elements(_) => {
            FieldValue::Array(ScalarArray::of_octets(field.kind, &octets).unwrap())
        }
        Extent::Bytes(_) if field.kind == BuiltIn::String => FieldValue::Text(&text),
        Extent::Bytes(_) => FieldValue::Bytes(&octets),
    })
}

fn subscriber(group: &Group) -> SubscriberNode {
    let groups = vec![ReaderGroup::new(group.clone(), None).unwrap()];
    let mut node = SubscriberNode::new(groups, 0);
    node.start(0, &mut Sent::default());
    node
}

fn reader(node: &SubscriberNode) -> &Reader {
    &node.groups()[0].readers()[0]
}

fn assert_values(node: &SubscriberNode, number: u8) {
    let reader = reader(node);
    let values = reader.all().unwrap();
    for (at, field) in reader.data_set().fields.iter().enumerate() {
        with_value(field, number, |value| {
            assert_eq!(values.get(at), Some(value), "{}", field.name);
        });
    }
}

fn forms() -> impl Strategy<Value = (Profile, FieldEncoding)> {
    prop_oneof![
        Just((Profile::Fixed, FieldEncoding::RawData)),
        Just((Profile::Dynamic, FieldEncoding::RawData)),
        Just((Profile::Dynamic, FieldEncoding::Variant)),
        Just((Profile::Dynamic, FieldEncoding::DataValue)),
    ]
}

proptest! {
    /// The publisher's old fields are some of the pool, its new ones all of it, each in any order; the reader knows the old ones.
    #[test]
    fn values_are_found_by_the_names_of_their_fields(
        before in Just(pool()).prop_shuffle(),
        count in 1_usize..6,
        after in Just(pool()).prop_shuffle(),
        (profile, encoding) in forms(),
        (other_profile, other_encoding) in forms(),
    ) {
        let first = group(profile, encoding, 1, before[..count].to_vec());
        let second = group(other_profile, other_encoding, 2, after);
        let mut node = subscriber(&first);
        let mut source = Source::new(&first, 0);
        for number in 1..5 {
            prop_assert_eq!(node.receive(0, &source.message(number)), Outcome::Taken);
            assert_values(&node, number);
        }
        let strange = node.groups()[0].strange();
        let mut source = Source::new(&second, 0);
        let early = source.message(9);
        prop_assert!(node.receive(0, &early) != Outcome::Taken);
        assert_values(&node, 4);
        prop_assert!(node.groups()[0].strange() > strange);
        prop_assert_eq!(node.groups_mut()[0].adopt(&second), Ok(true));
        prop_assert_eq!(node.groups_mut()[0].adopt(&second), Ok(false), "twice");
        prop_assert!(reader(&node).all().is_none(), "before a key frame");
        // A key frame is the first, the fourth, the seventh.
        for number in 10..17 {
            let message = source.message(number);
            node.receive(0, &message);
            if reader(&node).all().is_some() {
                assert_values(&node, number);
                // What came before changes nothing, whatever of it was read.
                node.receive(0, &early);
                assert_values(&node, number);
            }
        }
        let counters = reader(&node).counters();
        prop_assert_eq!((counters.changes, counters.lost, counters.malformed), (1, 0, 0));
        prop_assert!(counters.taken >= 4 + 4, "{counters:?}");
        // And back.
        let mut source = Source::new(&first, 0);
        prop_assert!(node.receive(0, &source.message(1)) != Outcome::Taken);
        prop_assert_eq!(node.groups_mut()[0].adopt(&first), Ok(true));
        (2..5).for_each(|number| {
            node.receive(0, &source.message(number));
        });
        assert_values(&node, 4);
    }
}

#[test]
fn what_does_not_suit_is_named_and_changes_nothing() {
    let good = group(Profile::Dynamic, FieldEncoding::Variant, 1, pool());
    let changed = |change: fn(&mut Group)| {
        let mut other = good.clone();
        other.version = 2;
        other.data_sets[0].major_version = 2;
        change(&mut other);
        other
    };
    let raw = group(Profile::Fixed, FieldEncoding::RawData, 1, pool());
    for (own, announced, wanted) in [
        (
            &good,
            changed(|other| drop(other.data_sets[0].fields.remove(1))),
            "the publisher's data set `d` has no field `count` any more",
        ),
        (
            &good,
            changed(|other| other.data_sets[0].fields[0].kind = BuiltIn::Float),
            "field `speed` of data set `d` is Float at the publisher, and Double here",
        ),
        (
            &good,
            changed(|other| other.data_sets[0].fields[1].extent = Extent::Elements(4)),
            "field `count` of data set `d` is an array of at most 4 Int32 at the publisher, and Int32 here",
        ),
        (
            &good,
            changed(|other| other.data_sets[0].writer = 8),
            "the publisher announces no writer 7, which data set `d` needs",
        ),
        (
            &raw,
            group(Profile::Fixed, FieldEncoding::RawData, 2, {
                let mut fields = pool();
                fields[3].extent = Extent::Bytes(10);
                fields
            }),
            "field `text` of data set `d` is String of at most 10 bytes at the publisher, and String of at most 9 bytes here",
        ),
    ] {
        let mut node = subscriber(own);
        let refused = node.groups_mut()[0].adopt(&announced).unwrap_err();
        assert_eq!(refused.to_string(), wanted);
        assert_eq!(
            node.receive(0, &Source::new(own, 0).message(3)),
            Outcome::Taken
        );
        assert_values(&node, 3);
    }
    // A longer text of Variants has its own length on the wire: only one that is too long for its field is not taken.
    let longer = changed(|other| other.data_sets[0].fields[3].extent = Extent::Bytes(10));
    assert_eq!(subscriber(&good).groups_mut()[0].adopt(&longer), Ok(true));
}

#[test]
fn a_secured_group_takes_no_announcement() {
    let mut own = group(Profile::Dynamic, FieldEncoding::Variant, 1, pool());
    own.security = SecurityMode::Sign;
    let material = KeyMaterial::new(Algorithm::Aes128Ctr, 1, &[1; 32], &[2; 16], &[3; 4]);
    let key = Key::new(&material.unwrap()).unwrap();
    let mut opener = Opener::new(own.security);
    opener.add_key(key);
    let mut node = ReaderGroup::new(own.clone(), Some(opener)).unwrap();
    let announced = group(Profile::Dynamic, FieldEncoding::Variant, 2, pool());
    let refused = node.adopt(&announced).unwrap_err();
    assert!(matches!(refused, Unsuitable::Secured { .. }), "{refused}");
}

#[test]
fn metadata_of_another_version_than_the_messages_wait_for_theirs() {
    let forms = [
        (Profile::Fixed, FieldEncoding::RawData),
        (Profile::Dynamic, FieldEncoding::Variant),
    ];
    for (profile, encoding) in forms {
        let [first, second, third] =
            [1, 2, 3].map(|version| group(profile, encoding, version, pool()));
        let mut node = subscriber(&first);
        let early = Source::new(&second, 0).message(1);
        assert_eq!(node.receive(0, &early), Outcome::Passed);
        assert_eq!(node.groups_mut()[0].adopt(&third), Ok(false));
        assert_eq!(node.groups_mut()[0].adopt(&second), Ok(true));
        let message = Source::new(&second, 0).message(2);
        assert_eq!(node.receive(0, &message), Outcome::Taken);
    }
}
