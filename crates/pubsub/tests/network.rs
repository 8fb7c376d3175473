//! Both nodes in virtual time: keep-alive, delta frames, several data sets, timeouts, restarts, losses, faults in messages.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Sent, field};
use proptest::prelude::*;
use rtwire_pubsub::publish::{PublisherNode, WriterGroup};
use rtwire_pubsub::security::{
    Algorithm, Key, KeyMaterial, NonceCounter, OpenFault, Opener, Sealer, SecurityMode,
};
use rtwire_pubsub::subscribe::{Outcome, Reader, ReaderGroup, SubscriberNode};
use rtwire_pubsub::{
    ConfigFault, DataSet, Extent, Field, Group, Profile, Publisher, Scalar, State,
};
use rtwire_wire::Node;
use rtwire_wire::uadp::{BuiltIn, FieldEncoding};

const MS: u64 = 1_000_000;

fn data_set(writer: u16, encoding: FieldEncoding, key_frame_count: u32) -> DataSet {
    let field = |name: &str, kind| field(name, kind, Extent::Scalar);
    DataSet {
        writer,
        name: format!("set {writer}"),
        encoding,
        key_frame_count,
        major_version: 1,
        minor_version: 1,
        event: false,
        zeros_are_data: false,
        fields: vec![
            field("a", BuiltIn::Int32),
            field("b", BuiltIn::Double),
            field("c", BuiltIn::Boolean),
        ],
    }
}

fn group(profile: Profile, data_sets: Vec<DataSet>) -> Group {
    Group {
        name: "g".to_owned(),
        publisher: Publisher::UInt16(2234),
        id: 100,
        version: 1,
        profile,
        interval_ns: MS,
        offset_ns: 0,
        keep_alive_ns: 10 * MS,
        receive_timeout_ns: 50 * MS,
        security: Default::default(),
        data_sets,
    }
}

/// A publisher and a subscriber, and the time.
struct Network {
    publisher: PublisherNode,
    subscriber: SubscriberNode,
    now_ns: u64,
}

fn publisher(group: &Group) -> PublisherNode {
    let groups = vec![WriterGroup::new(group.clone(), &[], None, 0).unwrap()];
    PublisherNode::new(groups, Vec::new(), false)
}

impl Network {
    fn new(group: &Group) -> Self {
        Self::of(group, group)
    }

    fn of(published: &Group, subscribed: &Group) -> Self {
        let readers = vec![ReaderGroup::new(subscribed.clone(), None).unwrap()];
        let mut this = Self {
            publisher: publisher(published),
            subscriber: SubscriberNode::new(readers, 0),
            now_ns: 0,
        };
        this.publisher.start(0, &mut Sent::default());
        this.subscriber.start(0, &mut Sent::default());
        this
    }

    fn set(&mut self, set: usize, field: usize, value: i64) {
        let group = &mut self.publisher.groups_mut()[0];
        let kind = group.get(set, field).unwrap().kind();
        assert!(group.set(set, field, Scalar::of_number(kind, value)));
    }

    /// Returns the frames of the next instant.
    fn step(&mut self) -> Vec<Vec<u8>> {
        let mut sent = Sent::default();
        self.now_ns = self.publisher.wake_at_ns().unwrap();
        self.publisher.moment(self.now_ns, &mut sent);
        self.subscriber.moment(self.now_ns, &mut sent);
        sent.0
    }

    fn deliver(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            self.subscriber
                .frame(self.now_ns, frame, &mut Sent::default());
        }
    }

    fn turn(&mut self) -> usize {
        let frames = self.step();
        self.deliver(&frames);
        frames.len()
    }

    fn reader(&self, nth: usize) -> &Reader {
        &self.subscriber.groups()[0].readers()[nth]
    }

    fn number(&self, set: usize, field: usize) -> i64 {
        self.reader(set).values().unwrap()[field].number()
    }
}

#[test]
fn several_data_sets_travel_in_one_message() {
    let sets = vec![
        data_set(1, FieldEncoding::Variant, 1),
        data_set(2, FieldEncoding::RawData, 1),
        data_set(3, FieldEncoding::DataValue, 1),
    ];
    let mut network = Network::new(&group(Profile::Dynamic, sets));
    for value in 1..50 {
        (0..3).for_each(|set| network.set(set, 0, value * (set as i64 + 1)));
        assert_eq!(network.turn(), 1);
        for set in 0..3 {
            assert_eq!(network.number(set, 0), value * (set as i64 + 1));
            assert_eq!(network.reader(set).state(), State::Operational);
        }
    }
    // A reader that knows only one of them takes that one.
    let one = group(
        Profile::Dynamic,
        vec![data_set(2, FieldEncoding::RawData, 1)],
    );
    let all = network.publisher.groups()[0].config().clone();
    let mut network = Network::of(&all, &one);
    network.set(1, 0, 7);
    network.turn();
    assert_eq!(network.number(0, 0), 7);
}

#[test]
fn only_changes_are_sent_between_key_frames_and_keep_alives_in_silence() {
    let set = data_set(1, FieldEncoding::Variant, 40);
    let mut network = Network::new(&group(Profile::Dynamic, vec![set]));
    network.set(0, 0, 5);
    assert_eq!(network.turn(), 1, "the key frame");
    for _ in 0..9 {
        assert_eq!(network.turn(), 0, "nothing has changed");
    }
    assert_eq!(network.turn(), 1, "10 ms are over: a keep-alive");
    assert_eq!(network.reader(0).counters().keep_alives, 1);
    network.set(0, 1, 3);
    assert_eq!(network.turn(), 1, "a delta frame");
    let counters = network.reader(0).counters();
    assert_eq!(
        (counters.key_frames, counters.delta_frames, counters.lost),
        (1, 1, 0)
    );
    assert_eq!((network.number(0, 0), network.number(0, 1)), (5, 3));
    for _ in 0..29 {
        network.turn();
    }
    assert_eq!(
        network.reader(0).counters().key_frames,
        2,
        "the 41st instant has a key frame"
    );
    assert_eq!(network.reader(0).counters().timeouts, 0);
}

#[test]
fn a_delta_frame_before_the_first_key_frame_is_no_value() {
    let set = data_set(1, FieldEncoding::Variant, 40);
    let mut network = Network::new(&group(Profile::Dynamic, vec![set]));
    network.step();
    network.set(0, 0, 9);
    network.turn();
    assert_eq!(network.reader(0).values(), None);
    assert_eq!(network.reader(0).counters().without_key_frame, 1);
}

#[test]
fn a_timeout_is_an_error_that_goes_away_by_itself() {
    let config = group(Profile::Fixed, vec![data_set(1, FieldEncoding::RawData, 1)]);
    let mut network = Network::new(&config);
    assert_eq!(network.reader(0).state(), State::PreOperational);
    for _ in 0..100 {
        network.step();
    }
    assert_eq!(
        network.reader(0).state(),
        State::PreOperational,
        "it waits for its first message"
    );
    network.turn();
    assert_eq!(network.reader(0).state(), State::Operational);
    assert_eq!(
        network.subscriber.wake_at_ns(),
        Some(network.now_ns + 50 * MS)
    );
    for _ in 0..50 {
        network.step();
    }
    assert_eq!(network.reader(0).state(), State::Error);
    // The publisher began anew: it is taken at once.
    let mut again = publisher(&config);
    again.start(network.now_ns, &mut Sent::default());
    network.publisher = again;
    network.set(0, 0, 4);
    network.turn();
    assert_eq!(
        (network.reader(0).state(), network.number(0, 0)),
        (State::Operational, 4)
    );
    let counters = network.reader(0).counters();
    assert_eq!(
        (counters.timeouts, counters.recoveries, counters.old),
        (1, 1, 0)
    );
}

#[test]
fn losses_duplicates_and_old_messages_are_counted() {
    let mut network = Network::new(&group(
        Profile::Fixed,
        vec![data_set(1, FieldEncoding::RawData, 1)],
    ));
    network.turn();
    let lost: Vec<_> = (0..3).flat_map(|_| network.step()).collect();
    let frames = network.step();
    network.deliver(&frames);
    network.deliver(&frames);
    network.deliver(&lost[..1]);
    let counters = network.reader(0).counters();
    assert_eq!((counters.gaps, counters.lost), (1, 3));
    assert_eq!(
        (counters.duplicates, counters.old, counters.taken),
        (1, 1, 2)
    );
}

#[test]
fn a_late_publisher_skips_and_never_sends_a_burst() {
    let mut network = Network::new(&group(
        Profile::Fixed,
        vec![data_set(1, FieldEncoding::RawData, 1)],
    ));
    let mut sent = Sent::default();
    network.publisher.moment(0, &mut sent);
    network.publisher.moment(7 * MS + 5, &mut sent);
    assert_eq!(sent.0.len(), 2);
    assert_eq!(network.publisher.wake_at_ns(), Some(8 * MS));
    assert_eq!(network.publisher.groups()[0].counters().skipped, 6);
}

#[test]
fn other_fields_and_versions_are_counted_and_change_nothing() {
    let good = group(
        Profile::Dynamic,
        vec![data_set(1, FieldEncoding::Variant, 1)],
    );
    let mut other_types = good.clone();
    other_types.data_sets[0].fields[1].kind = BuiltIn::Float;
    let mut fewer = good.clone();
    fewer.data_sets[0].fields.pop();
    let mut other_version = good.clone();
    other_version.data_sets[0].minor_version = 2;
    for (published, mismatches, versions) in
        [(other_types, 1, 0), (fewer, 1, 0), (other_version, 0, 1)]
    {
        let mut network = Network::of(&published, &good);
        network.turn();
        let counters = network.reader(0).counters();
        assert_eq!(
            (counters.mismatches, counters.other_versions),
            (mismatches, versions)
        );
        assert_eq!(network.reader(0).values(), None);
    }
    let mut raw = group(Profile::Fixed, vec![data_set(1, FieldEncoding::RawData, 1)]);
    let before = raw.clone();
    raw.version = 2;
    let mut network = Network::of(&raw, &before);
    network.turn();
    assert_eq!(network.subscriber.groups()[0].counters().other_versions, 1);
    assert_eq!(network.reader(0).values(), None);
}

#[test]
fn components_can_be_switched_off_and_on() {
    let mut network = Network::new(&group(
        Profile::Fixed,
        vec![data_set(1, FieldEncoding::RawData, 1)],
    ));
    network.turn();
    network.publisher.groups_mut()[0].switch_writer(0, false);
    assert_eq!(network.turn(), 0);
    network.publisher.groups_mut()[0].switch_writer(0, true);
    network.publisher.switch(false);
    assert_eq!(network.publisher.groups()[0].state(), State::Paused);
    assert_eq!(
        network.publisher.groups()[0].writer_state(0),
        Some(State::Paused)
    );
    assert_eq!(network.turn(), 0);
    network.publisher.switch(true);
    network.subscriber.switch(false, network.now_ns);
    assert_eq!(network.turn(), 1);
    assert_eq!(network.reader(0).state(), State::Paused);
    assert_eq!(network.reader(0).counters().taken, 1);
    assert_eq!(network.subscriber.wake_at_ns(), None);
    network.subscriber.switch(true, network.now_ns);
    network.turn();
    assert_eq!(network.reader(0).counters().taken, 2);
}

#[test]
fn a_truncated_or_padded_raw_message_never_becomes_zeros() {
    let mut network = Network::new(&group(
        Profile::Fixed,
        vec![data_set(1, FieldEncoding::RawData, 1)],
    ));
    for field in 0..3 {
        network.set(0, field, 1);
    }
    let whole = network.step().remove(0);
    for length in 0..whole.len() {
        let outcome = network.subscriber.receive(network.now_ns, &whole[..length]);
        assert!(!matches!(outcome, Outcome::Taken), "{length}");
    }
    let mut padded = whole.clone();
    padded.push(0);
    // A datagram has no padding.
    assert_ne!(
        network.subscriber.receive(network.now_ns, &padded),
        Outcome::Taken
    );
    assert_eq!(network.reader(0).values(), None);
    assert_eq!(
        network.subscriber.receive(network.now_ns, &whole),
        Outcome::Taken
    );
}

#[test]
fn short_ethernet_frames_may_be_padded_with_zeros_only() {
    let config = group(Profile::Fixed, vec![data_set(1, FieldEncoding::RawData, 1)]);
    let frame = ethernet_frame(&config, 1);
    assert!(frame.len() < 60);
    let mut subscriber = ethernet_subscriber(config);
    let mut padded = frame.clone();
    padded.resize(60, 0);
    let mut dirty = padded.clone();
    dirty[59] = 1;
    let mut long = frame;
    long.resize(80, 0);
    assert_eq!(subscriber.receive(1, &dirty), Outcome::Malformed);
    assert_eq!(subscriber.receive(1, &long), Outcome::Malformed);
    assert_eq!(subscriber.receive(1, &padded), Outcome::Taken);
}

/// Returns the first frame of a publisher on Ethernet whose fields all have this value.
fn ethernet_frame(config: &Group, value: i64) -> Vec<u8> {
    let groups = vec![WriterGroup::new(config.clone(), &[0xaa; 14], None, 0).unwrap()];
    let mut publisher = PublisherNode::new(groups, Vec::new(), false);
    let mut sent = Sent::default();
    publisher.start(0, &mut sent);
    for field in 0..config.data_sets[0].fields.len() {
        let group = &mut publisher.groups_mut()[0];
        let kind = group.get(0, field).unwrap().kind();
        assert!(group.set(0, field, Scalar::of_number(kind, value)));
    }
    publisher.moment(0, &mut sent);
    sent.0.remove(0)
}

fn ethernet_subscriber(config: Group) -> SubscriberNode {
    let mut subscriber = SubscriberNode::new(vec![ReaderGroup::new(config, None).unwrap()], 14);
    subscriber.start(0, &mut Sent::default());
    subscriber
}

/// All messages have the number 0: a sign of life does not take it from the data that follow.
#[test]
fn a_padded_heartbeat_is_a_sign_of_life_and_never_data() {
    let mut raw = group(Profile::Fixed, vec![data_set(1, FieldEncoding::RawData, 1)]);
    let mut long = raw.clone();
    // More fields than the padding has bytes.
    let field = long.data_sets[0].fields[1].clone();
    long.data_sets[0].fields.resize(8, field);
    let variants = group(
        Profile::Dynamic,
        vec![data_set(1, FieldEncoding::Variant, 1)],
    );
    for config in [&raw, &long, &variants] {
        let data = ethernet_frame(config, 1);
        // A heartbeat ends with its header; the fields of the fixed layout are the last bytes.
        let header = match config.profile {
            Profile::Fixed => data.len() - config.data_sets[0].raw_bytes(),
            // Behind it: a count of 2 bytes, and each field with a byte for its type.
            Profile::Dynamic => data.len() - 2 - 3 - config.data_sets[0].raw_bytes(),
        };
        let heartbeat = &data[..header];
        let mut padded = heartbeat.to_vec();
        padded.resize(60, 0);
        let mut subscriber = ethernet_subscriber(config.clone());
        for (now_ns, frame) in [(1, heartbeat), (2, &padded[..])] {
            assert_eq!(subscriber.receive(now_ns, frame), Outcome::Passed);
            let reader = &subscriber.groups()[0].readers()[0];
            assert_eq!(reader.state(), State::Operational);
            assert_eq!(reader.values(), None);
        }
        let counters = subscriber.groups()[0].readers()[0].counters();
        assert_eq!((counters.keep_alives, counters.ambiguous), (1, 1));
        assert_eq!(subscriber.receive(3, &data), Outcome::Taken);
        let counters = subscriber.groups()[0].readers()[0].counters();
        assert_eq!((counters.taken, counters.lost, counters.gaps), (1, 0, 0));
    }
    // Zeros that are sent look the same, where there is padding; the reader's description tells.
    let zeros = ethernet_frame(&raw, 0);
    let mut padded = zeros.clone();
    padded.resize(60, 0);
    let mut subscriber = ethernet_subscriber(raw.clone());
    assert_eq!(subscriber.receive(1, &padded), Outcome::Passed);
    assert_eq!(subscriber.receive(2, &zeros), Outcome::Taken);
    raw.data_sets[0].zeros_are_data = true;
    assert_eq!(ethernet_subscriber(raw).receive(1, &padded), Outcome::Taken);
    // A message of the least length has no padding to be seen.
    let mut least = group(Profile::Fixed, vec![data_set(1, FieldEncoding::RawData, 1)]);
    let byte = Field {
        name: "byte".to_owned(),
        kind: BuiltIn::Byte,
        extent: Extent::Scalar,
    };
    let more = 60 - zeros.len();
    least.data_sets[0].fields.extend(vec![byte; more]);
    let frame = ethernet_frame(&least, 0);
    assert_eq!(frame.len(), 60);
    let mut subscriber = ethernet_subscriber(least);
    assert_eq!(subscriber.receive(1, &frame), Outcome::Passed);
    let counters = subscriber.groups()[0].readers()[0].counters();
    assert_eq!((counters.ambiguous, counters.taken), (1, 0));
}

#[test]
fn a_clock_that_is_set_back_ends_no_timeout_and_no_keep_alive() {
    const HOUR: u64 = 3_600_000 * MS;
    let set = data_set(1, FieldEncoding::Variant, 1_000_000);
    let mut network = Network::new(&group(Profile::Dynamic, vec![set]));
    network.publisher.begin_at(2 * HOUR);
    assert_eq!(network.turn(), 1, "the key frame");
    network.publisher.begin_at(HOUR);
    let sent: usize = (0..20).map(|_| network.turn()).sum();
    assert!(sent >= 1, "no keep-alive");
    assert_eq!(network.reader(0).counters().timeouts, 0);
    for _ in 0..100 {
        network.step();
    }
    assert_eq!(network.reader(0).state(), State::Error);
    assert_eq!(network.reader(0).counters().timeouts, 1);
}

fn secured(mut config: Group) -> (Group, Sealer, Opener) {
    config.security = SecurityMode::SignAndEncrypt;
    let material = KeyMaterial::new(Algorithm::Aes128Ctr, 7, &[3; 32], &[4; 16], &[5; 4]).unwrap();
    let key = Key::new(&material).unwrap();
    let mut opener = Opener::new(config.security);
    opener.add_key(key.clone());
    let sealer = Sealer::new(key, [1, 2, 3, 4], NonceCounter::starting_at(1));
    (config, sealer, opener)
}

#[test]
fn a_secured_group_without_keys_is_refused() {
    let plain = group(Profile::Fixed, vec![data_set(1, FieldEncoding::RawData, 1)]);
    let open = Network::new(&plain).step().remove(0);
    let (config, _, opener) = secured(plain);
    let no_keys = Err(ConfigFault::NoKeys {
        group: "g".to_owned(),
    });
    let made = WriterGroup::new(config.clone(), &[], None, 0);
    assert_eq!(made.map(|_| ()), no_keys);
    let made = ReaderGroup::new(config.clone(), None);
    assert_eq!(made.map(|_| ()), no_keys);
    // A place without a sealer sends nothing.
    let groups = vec![WriterGroup::new(config.clone(), &[], Some(1), 0).unwrap()];
    let mut publisher = PublisherNode::new(groups, Vec::new(), false);
    let mut sent = Sent::default();
    publisher.start(0, &mut sent);
    publisher.moment(0, &mut sent);
    assert!(sent.0.is_empty());
    assert_eq!(publisher.groups()[0].counters().faults, 1);
    let readers = vec![ReaderGroup::new(config, Some(opener)).unwrap()];
    let mut subscriber = SubscriberNode::new(readers, 0);
    subscriber.start(0, &mut sent);
    assert_eq!(
        subscriber.receive(1, &open),
        Outcome::Refused(OpenFault::TooOpen)
    );
}

#[test]
fn what_was_not_sealed_is_sent_by_the_next_message() {
    for profile in [Profile::Dynamic, Profile::Fixed] {
        let set = match profile {
            Profile::Dynamic => data_set(1, FieldEncoding::Variant, 1_000),
            Profile::Fixed => data_set(1, FieldEncoding::RawData, 1),
        };
        let (config, mut sealer, opener) = secured(group(profile, vec![set]));
        sealer.reserve_until(2);
        let mut network = Network::new(&group(
            Profile::Fixed,
            vec![data_set(9, FieldEncoding::RawData, 1)],
        ));
        let groups = vec![WriterGroup::new(config.clone(), &[], Some(0), 0).unwrap()];
        network.publisher = PublisherNode::new(groups, vec![sealer], false);
        network.publisher.start(0, &mut Sent::default());
        let readers = vec![ReaderGroup::new(config, Some(opener)).unwrap()];
        network.subscriber = SubscriberNode::new(readers, 0);
        network.subscriber.start(0, &mut Sent::default());
        assert_eq!(network.turn(), 1, "the key frame has the only nonce");
        network.set(0, 0, 5);
        assert_eq!(network.turn(), 0, "there is no nonce");
        network.publisher.sealers_mut()[0].reserve_until(100);
        assert_eq!(network.turn(), 1);
        assert_eq!(network.number(0, 0), 5);
        let counters = network.reader(0).counters();
        assert_eq!((counters.taken, counters.lost), (2, 0), "{profile:?}");
        let counters = network.publisher.groups()[0].counters();
        assert_eq!(counters.faults, 1);
        assert_eq!(counters.key_frames + counters.delta_frames, 2);
    }
}

#[test]
fn groups_that_cannot_work_are_refused() {
    let good = group(Profile::Fixed, vec![data_set(1, FieldEncoding::RawData, 1)]);
    let refused = |change: fn(&mut Group)| {
        let mut group = good.clone();
        change(&mut group);
        WriterGroup::new(group, &[], None, 0).unwrap_err()
    };
    assert!(matches!(
        refused(|g| g.data_sets.clear()),
        ConfigFault::Empty { .. }
    ));
    assert!(matches!(
        refused(|g| g.interval_ns = 0),
        ConfigFault::Zero { .. }
    ));
    assert!(matches!(
        refused(|g| g.data_sets[0].key_frame_count = 2),
        ConfigFault::NotFixed { .. }
    ));
    assert!(matches!(
        refused(|g| g.data_sets[0].fields[0].kind = BuiltIn::String),
        ConfigFault::OtherExtent { .. }
    ));
    assert!(matches!(
        refused(|g| {
            let field = g.data_sets[0].fields[1].clone();
            g.data_sets[0].fields.resize(200, field);
        }),
        ConfigFault::TooLong { .. }
    ));
}

proptest! {
    /// With messages lost, doubled or late on the way the reader's value is one that was sent, never an older one than before,
    /// and every message is accounted for.
    #[test]
    fn a_reader_never_goes_back(fate in prop::collection::vec(0_u8..5, 1..200)) {
        let mut network = Network::new(&group(Profile::Fixed, vec![data_set(1, FieldEncoding::RawData, 1)]));
        let mut waiting: Vec<Vec<u8>> = Vec::new();
        let mut last = 0;
        for (nth, fate) in fate.iter().enumerate() {
            network.set(0, 0, nth as i64 + 1);
            let frames = network.step();
            match fate {
                0 => {}
                1 => waiting.extend(frames),
                2 => {
                    network.deliver(&frames);
                    network.deliver(&frames);
                }
                3 => {
                    network.deliver(&frames);
                    // One old message at most in a row: three would be a publisher that began anew.
                    if let Some(frame) = waiting.pop() {
                        network.deliver(&[frame]);
                    }
                    waiting.clear();
                }
                _ => network.deliver(&frames),
            }
            if let Some(values) = network.reader(0).values() {
                prop_assert!(values[0].number() >= last);
                last = values[0].number();
            }
        }
        let counters = network.reader(0).counters();
        prop_assert_eq!(counters.malformed + counters.mismatches, 0);
        prop_assert!(counters.taken + counters.lost <= fate.len() as u64);
    }

    /// No bytes make the subscriber panic, and none of them become values.
    #[test]
    fn arbitrary_bytes_are_no_values(bytes in prop::collection::vec(any::<u8>(), 0..200), flip in any::<prop::sample::Index>()) {
        let mut network = Network::new(&group(Profile::Dynamic, vec![data_set(1, FieldEncoding::Variant, 1)]));
        network.subscriber.receive(1, &bytes);
        prop_assert_eq!(network.reader(0).values(), None);
        let mut changed = network.step().remove(0);
        let at = flip.index(changed.len() * 8);
        changed[at / 8] ^= 1 << (at % 8);
        network.subscriber.receive(2, &changed);
    }
}

/// A data set of `count` Doubles.
fn wide(writer: u16, count: usize) -> DataSet {
    let field = |at: usize| Field {
        name: format!("f{at}"),
        kind: BuiltIn::Double,
        extent: Extent::Scalar,
    };
    DataSet {
        fields: (0..count).map(field).collect(),
        ..data_set(writer, FieldEncoding::Variant, 1)
    }
}

#[test]
fn a_data_set_longer_than_a_frame_comes_in_chunks() {
    let sets = vec![wide(1, 700), data_set(2, FieldEncoding::Variant, 1)];
    let mut network = Network::new(&group(Profile::Dynamic, sets));
    let counters = |network: &Network| network.subscriber.groups()[0].counters();
    for turn in 1..20_i64 {
        (0..700).for_each(|field| network.set(0, field, turn * 1_000 + field as i64));
        network.set(1, 0, turn);
        let frames = network.step();
        // 700 Variants of 9 bytes, in frames of 1500 at most, and the other data set.
        assert_eq!(frames.len(), 5 + 1);
        assert!(frames.iter().all(|frame| frame.len() <= 1500));
        network.deliver(&frames);
        for field in [0, 1, 350, 699] {
            assert_eq!(network.number(0, field), turn * 1_000 + field as i64);
        }
        assert_eq!(network.number(1, 0), turn);
    }
    let sent = network.publisher.groups()[0].counters();
    assert_eq!((sent.chunks, sent.messages), (19 * 5, 19 * 6));
    let seen = counters(&network);
    assert_eq!(
        (seen.chunks, seen.incomplete, seen.malformed),
        (19 * 5, 0, 0)
    );
    // A message of which any chunk is missing is no value, and the next one is whole again.
    for missing in 0..5 {
        network.set(0, 699, 1);
        let mut frames = network.step();
        frames.remove(missing);
        network.deliver(&frames);
        assert_ne!(network.number(0, 699), 1);
        network.set(0, 699, 2);
        network.turn();
        assert_eq!(network.number(0, 699), 2);
        network.set(0, 699, 3);
        network.turn();
    }
    // One without its first chunk was never begun.
    assert_eq!(counters(&network).incomplete, 4);
    assert_eq!(network.reader(0).counters().lost, 5);
    assert_eq!(network.reader(1).counters().lost, 0);
}

#[test]
fn chunks_are_secured_each_by_itself() {
    let plain = group(Profile::Dynamic, vec![wide(1, 300)]);
    let (config, mut sealer, opener) = secured(plain);
    sealer.reserve_until(100);
    let groups = vec![WriterGroup::new(config.clone(), &[], Some(0), 0).unwrap()];
    let mut publisher = PublisherNode::new(groups, vec![sealer], false);
    let readers = vec![ReaderGroup::new(config, Some(opener)).unwrap()];
    let mut subscriber = SubscriberNode::new(readers, 0);
    let mut sent = Sent::default();
    publisher.start(0, &mut sent);
    subscriber.start(0, &mut sent);
    publisher.groups_mut()[0].set(0, 299, Scalar::of_number(BuiltIn::Double, 5));
    publisher.moment(0, &mut sent);
    assert_eq!(sent.0.len(), 2);
    assert!(sent.0.iter().all(|frame| frame.len() <= 1500));
    // The second of them changed by one bit: nothing is taken.
    let mut changed = sent.0.clone();
    changed[1][700] ^= 1;
    for frame in &changed {
        subscriber.receive(0, frame);
    }
    let reader = |node: &SubscriberNode| node.groups()[0].readers()[0].values().map(<[_]>::to_vec);
    assert_eq!(reader(&subscriber), None);
    assert_eq!(subscriber.groups()[0].counters().refused, 1);
    // The nonce of a refused message is not used up.
    assert_eq!(subscriber.receive(0, &sent.0[1]), Outcome::Taken);
    assert_eq!(reader(&subscriber).unwrap()[299].number(), 5);
}

#[test]
fn the_last_chunk_of_an_ethernet_frame_may_be_padded() {
    let config = group(Profile::Dynamic, vec![wide(1, 200)]);
    let groups = vec![WriterGroup::new(config.clone(), &[0; 14], None, 0).unwrap()];
    let mut publisher = PublisherNode::new(groups, Vec::new(), false);
    let mut subscriber = ethernet_subscriber(config);
    let mut sent = Sent::default();
    publisher.start(0, &mut sent);
    publisher.moment(0, &mut sent);
    for mut frame in sent.0 {
        frame.resize(frame.len().max(60), 0);
        subscriber.receive(0, &frame);
    }
    assert!(subscriber.groups()[0].readers()[0].values().is_some());
}

#[test]
fn an_event_is_sent_once_when_it_is_raised() {
    let event = DataSet {
        event: true,
        ..data_set(1, FieldEncoding::Variant, 1)
    };
    let mut network = Network::new(&group(Profile::Dynamic, vec![event.clone()]));
    for _ in 0..9 {
        assert_eq!(network.turn(), 0, "nothing was raised");
    }
    network.set(0, 0, 7);
    assert!(network.publisher.groups_mut()[0].raise(0));
    assert_eq!(network.turn(), 1);
    assert_eq!(network.number(0, 0), 7);
    for _ in 0..9 {
        assert_eq!(network.turn(), 0, "it was sent");
    }
    assert_eq!(network.turn(), 1, "10 ms are over: a keep-alive");
    let counters = network.reader(0).counters();
    assert_eq!(
        (
            counters.events,
            counters.taken,
            counters.keep_alives,
            counters.lost
        ),
        (1, 1, 1, 0)
    );
    // A reader of ordinary data does not take it.
    let ordinary = DataSet {
        event: false,
        ..event.clone()
    };
    let sent = group(Profile::Dynamic, vec![event.clone()]);
    let mut network = Network::of(&sent, &group(Profile::Dynamic, vec![ordinary]));
    assert!(network.publisher.groups_mut()[0].raise(0));
    assert_eq!(network.turn(), 1);
    assert_eq!(network.reader(0).values(), None);
    // What is no event is not raised.
    let set = data_set(1, FieldEncoding::Variant, 1);
    let mut network = Network::new(&group(Profile::Dynamic, vec![set]));
    assert!(!network.publisher.groups_mut()[0].raise(0));
    let fixed = group(Profile::Fixed, vec![event]);
    assert!(matches!(fixed.check(), Err(ConfigFault::NoEvent { .. })));
}
