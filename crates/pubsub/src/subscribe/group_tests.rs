//! The fixed layout takes nothing that the parser would not take, and the same values.

use super::*;
use crate::{DataSet, Extent, Field, Publisher};
use proptest::prelude::*;
use rtwire_wire::uadp::{BuiltIn, FieldEncoding};

fn config(fields: usize, zeros_are_data: bool) -> Group {
    let field = |at: usize| Field {
        name: format!("f{at}"),
        kind: [BuiltIn::Int32, BuiltIn::Boolean, BuiltIn::Double][at % 3],
        extent: Extent::Scalar,
    };
    Group {
        name: "g".to_owned(),
        publisher: Publisher::UInt16(2234),
        id: 100,
        version: 1,
        profile: crate::Profile::Fixed,
        interval_ns: 1_000_000,
        offset_ns: 0,
        keep_alive_ns: 1_000_000,
        receive_timeout_ns: 1_000_000_000,
        security: Default::default(),
        data_sets: vec![DataSet {
            writer: 1,
            name: "s".to_owned(),
            encoding: FieldEncoding::RawData,
            key_frame_count: 1,
            major_version: 1,
            minor_version: 1,
            event: false,
            zeros_are_data,
            fields: (0..fields).map(field).collect(),
        }],
    }
}

fn open(config: &Group, fixed: bool) -> ReaderGroup {
    let mut group = ReaderGroup::new(config.clone(), None).unwrap();
    assert!(group.layout.is_some());
    group.layout = group.layout.filter(|_| fixed);
    group.settle(State::Operational, 0);
    group
}

proptest! {
    #[test]
    fn the_layout_takes_what_the_parser_takes(
        fields in 1_usize..9,
        zeros: bool,
        ethernet: bool,
        bytes in proptest::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 64),
        numbers in proptest::collection::vec(0_u16..4, 1..6),
        change in proptest::option::weighted(0.4, (0_usize..40, any::<u8>())),
        length in prop_oneof![
            Just(None), Just(Some(42_usize)), Just(Some(46)), (0_usize..70).prop_map(Some)
        ],
    ) {
        let config = config(fields, zeros);
        let layout = fixed::layout(&config).unwrap();
        let (mut by_layout, mut by_parser) = (open(&config, true), open(&config, false));
        for number in numbers {
            let mut message = layout.template().to_vec();
            let data = layout.data(0).unwrap();
            message[data.clone()].copy_from_slice(&bytes[..data.len()]);
            layout.set_data_set_sequence(&mut message, 0, number);
            if let Some((at, byte)) = change {
                if at < message.len() {
                    message[at] = byte;
                }
            }
            message.resize(length.unwrap_or(message.len()), 0);
            let padding = Padding::of(ethernet, message.len());
            let taken = by_layout.receive(5, &message, padding);
            prop_assert_eq!(taken, by_parser.receive(5, &message, padding));
            prop_assert_eq!(by_layout.counters(), by_parser.counters());
            let (one, other) = (&by_layout.readers()[0], &by_parser.readers()[0]);
            prop_assert_eq!(one.counters(), other.counters());
            prop_assert_eq!(one.values(), other.values());
            prop_assert_eq!(one.number(), other.number());
            prop_assert_eq!(one.state(), other.state());
        }
    }
}
