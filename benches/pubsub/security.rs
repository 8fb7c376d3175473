//! The cost that signing and encrypting adds to a message of ten fields, at both ends.

use rtwire_measure::bench::Row;
use rtwire_pubsub::publish::{PublisherNode, WriterGroup};
use rtwire_pubsub::security::{
    Algorithm, Key, KeyMaterial, NonceCounter, Opener, Sealer, SecurityMode,
};
use rtwire_pubsub::subscribe::{ReaderGroup, SubscriberNode};
use rtwire_pubsub::{DataSet, Extent, Field, Group, Profile, Publisher, Scalar};
use rtwire_wire::uadp::{BuiltIn, FieldEncoding};
use rtwire_wire::{Node, Outbox};
use std::hint::black_box;
use std::time::Instant;

const MS: u64 = 1_000_000;
/// Messages in a round.
const MESSAGES: u64 = 2_000;

#[derive(Default)]
struct Sent(Vec<Vec<u8>>);

impl Outbox for Sent {
    fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
        self.0.push(frame.to_vec());
    }
}

struct Nowhere;

impl Outbox for Nowhere {
    fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
        black_box(frame);
    }
}

fn group(security: SecurityMode) -> Group {
    let field = |at: usize| Field {
        name: format!("f{at}"),
        kind: [BuiltIn::Int32, BuiltIn::Double][at % 2],
        extent: Extent::Scalar,
    };
    Group {
        name: "g".to_owned(),
        publisher: Publisher::UInt16(2234),
        id: 100,
        version: 1,
        profile: Profile::Fixed,
        interval_ns: MS,
        offset_ns: 0,
        keep_alive_ns: 1_000 * MS,
        receive_timeout_ns: 0,
        security,
        data_sets: vec![DataSet {
            writer: 1,
            name: "s".to_owned(),
            encoding: FieldEncoding::RawData,
            key_frame_count: 1,
            major_version: 1,
            minor_version: 1,
            event: false,
            zeros_are_data: false,
            fields: (0..10).map(field).collect(),
        }],
    }
}

fn key() -> Key {
    let material = KeyMaterial::new(Algorithm::Aes128Ctr, 7, &[1; 32], &[2; 16], &[3; 4]);
    Key::new(&material.unwrap()).unwrap()
}

fn publisher(security: SecurityMode) -> PublisherNode {
    let mut nonces = NonceCounter::starting_at(1);
    nonces.reserve_until(1 << 30);
    let sealers = vec![Sealer::new(key(), [4; 4], nonces)];
    let writers = WriterGroup::new(group(security), &[], Some(0), 0).unwrap();
    PublisherNode::new(vec![writers], sealers, false)
}

/// Returns the least ns of a message to publish, and to receive.
fn cost(security: SecurityMode, rounds: u64) -> (f64, f64) {
    let mut node = publisher(security);
    node.start(0, &mut Nowhere);
    let mut opener = Opener::new(security);
    opener.add_key(key());
    let opener = Some(opener).filter(|_| security.is_secured());
    let readers = ReaderGroup::new(group(security), opener).unwrap();
    let mut subscriber = SubscriberNode::new(vec![readers], 0);
    subscriber.start(0, &mut Nowhere);
    let (mut now, mut least) = (0, (f64::MAX, f64::MAX));
    for _ in 0..rounds {
        let begun = Instant::now();
        for _ in 0..MESSAGES {
            node.groups_mut()[0].set(0, 0, Scalar::of_number(BuiltIn::Int32, now as i64));
            node.moment(now, &mut Nowhere);
            now += MS;
        }
        let took = begun.elapsed().as_nanos() as f64 / MESSAGES as f64;
        let mut sent = Sent::default();
        for _ in 0..MESSAGES {
            node.moment(now, &mut sent);
            now += MS;
        }
        let begun = Instant::now();
        for frame in &sent.0 {
            subscriber.frame(now, black_box(frame), &mut Nowhere);
        }
        let read = begun.elapsed().as_nanos() as f64 / MESSAGES as f64;
        least = (least.0.min(took), least.1.min(read));
    }
    let taken = subscriber.groups()[0].readers()[0].counters().taken;
    assert_eq!(taken, rounds * MESSAGES, "each message is read");
    least
}

/// Measures both ends with and without security.
pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let rounds = if quick { 5 } else { 50 };
    let plain = cost(SecurityMode::None, rounds);
    let sealed = cost(SecurityMode::SignAndEncrypt, rounds);
    let row = |end: &str, plain: f64, sealed: f64| Row {
        figure: format!("sign and encrypt, added cost, {end}"),
        value: sealed - plain,
        unit: "ns".to_owned(),
        reach: Some("at most half of open62541's 1100 to 2200 ns".to_owned()),
        held: (sealed - plain <= 550.0)
            .then_some(true)
            .or_else(|| (sealed - plain > 1_100.0).then_some(false)),
        why: Some(
            "the other stack's cost was measured before, on a machine of the same kind".to_owned(),
        ),
        samples: rounds * MESSAGES,
        against: Vec::new(),
    };
    vec![
        row("publish", plain.0, sealed.0),
        row("receive", plain.1, sealed.1),
    ]
}
