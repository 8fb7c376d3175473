//! Projects as the standard's configuration file, and back. That the file is the standard's is held against another stack, in
//! `tests/pubsub_interoperation.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use rtwire_pubsub_station::exchange::{Body, Choice, Side, export, import, text};
use rtwire_pubsub_station::pubsub::uabinary::{self, UabinaryFault};
use rtwire_pubsub_station::{Project, StationError};
use std::path::Path;

const AXES: &str = include_str!("../../../examples/pubsub-tsn/axes.toml");
const OUT: &str = include_str!("../../../examples/pubsub-tsn/out.toml");

fn parsed(text: &str) -> Project {
    Project::parse(text, Path::new("folder/project.toml"))
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn back(bytes: &[u8], choice: &Choice) -> Result<Project, StationError> {
    import(bytes, Path::new("folder/project.toml"), choice).map(|imported| {
        assert_eq!(imported.notes, [""; 0]);
        imported.project
    })
}

/// A project's text of any settings.
fn projects() -> impl Strategy<Value = String> {
    let connection = prop_oneof![
        Just("address = \"01-00-5E-7F-00-01\"\npublisher-id = 2234\n".to_owned()),
        Just("address = \"01-00-5E-7F-00-01\"\ndiscovery = \"01-00-5E-00-00-01\"\nvlan = 9\npcp = 2\npublisher-id = 2234\n".to_owned()),
        Just("transport = \"udp\"\naddress = \"239.0.0.1:4840\"\ndiscovery = \"224.0.2.14:4840\"\npublisher-id = 2234\n".to_owned()),
        (0_u16..4095, 0_u8..8).prop_map(|(vlan, pcp)| {
            let vlan = if vlan > 0 { format!("vlan = {vlan}\n") } else { String::new() };
            format!("address = \"02:00:00:00:00:0a\"\n{vlan}pcp = {pcp}\npublisher-id = 7\npublisher-id-type = \"UInt64\"\n")
        }),
        (1_u16..).prop_map(|port| format!(
            "interface = \"eth \\\"0\\\"\"\ntransport = \"udp\"\naddress = \"239.0.0.1:{port}\"\npublisher-id = \"pr\\u00e9s\\u0007\"\npublisher-id-type = \"String\"\n"
        )),
    ];
    let real_time = prop_oneof![
        Just(String::new()),
        (0_u8..100, 0_u64..1_000_000, 0_u16..1024).prop_map(|(priority, spin, cpu)| format!(
            "[real-time]\npriority = {priority}\nspin = \"{spin} ns\"\ncpu = {cpu}\nreceive-spin = \"{spin} us\"\npath = \"launch\"\nsocket-priority = 5\n"
        )),
    ];
    let security = prop_oneof![
        3 => Just(String::new()),
        1 => Just("security = \"sign\"\nkey-file = \"a.keys\"\n".to_owned()),
        1 => Just("security = \"sign-and-encrypt\"\nkey-file = \"keys/b.keys\"\nnonce-file = \"c\"\naccept-repeated-nonces = true\n".to_owned()),
    ];
    let times = (10_000_u64..10_000_000_000, any::<u32>(), 1_000_000_u64..1 << 50, any::<u32>()).prop_map(
        |(interval, offset, long, version)| format!(
            "interval = \"{interval} ns\"\noffset = \"{offset} ns\"\nkeep-alive = \"{long} ns\"\nreceive-timeout = \"{} ns\"\nversion = {version}\n",
            long / 2 + 1_000_000
        ),
    );
    let value = prop_oneof![
        Just(("Int32", "\"program\"".to_owned())),
        Just(("Double", "\"sine\"".to_owned())),
        Just(("UInt64", "\"time\"".to_owned())),
        Just(("Boolean", "true".to_owned())),
        Just(("Float", "nan".to_owned())),
        Just(("DateTime", "\"counter\"".to_owned())),
        Just((
            "String\"\nmax-bytes = 5 #\"",
            "\"co\\\"\\u00e9\"".to_owned()
        )),
        Just(("String\"\nmax-bytes = 9 #\"", "\"counter\"".to_owned())),
        Just(("ByteString\"\nmax-bytes = 9 #\"", "\"00fF\"".to_owned())),
        Just(("Int16\"\nmax-elements = 3 #\"", "[-1, 300]".to_owned())),
        Just(("Double\"\nmax-elements = 2 #\"", "[0.5, inf]".to_owned())),
        Just(("Boolean\"\nmax-elements = 2 #\"", "\"program\"".to_owned())),
        Just((
            "UInt64\"\nmax-elements = 2 #\"",
            "\"negative-counter\"".to_owned()
        )),
        any::<i64>().prop_map(|number| ("Int64", number.to_string())),
        any::<f32>()
            .prop_filter("a number", |number| number.is_finite())
            .prop_map(|number| ("Float", format!("{number:?}"))),
        any::<f64>()
            .prop_filter("a number", |number| number.is_finite())
            .prop_map(|number| ("Double", format!("{number:?}"))),
    ];
    let fields = prop::collection::vec(value, 1..5);
    let sets = prop::collection::vec(
        (
            any::<[u32; 2]>(),
            1_u32..9,
            any::<bool>(),
            0..3_usize,
            fields,
        ),
        1..4,
    );
    let group = (any::<bool>(), times, security, sets);
    (connection, real_time, prop::collection::vec(group, 1..4)).prop_map(|(connection, real_time, groups)| {
        let mut text = format!("[connection]\n{connection}{real_time}");
        let mut writer = 0;
        for (at, (fixed, times, security, sets)) in groups.into_iter().enumerate() {
            let profile = if fixed { "fixed" } else { "dynamic" };
            text += &format!("[[writer-group]]\nid = {}\nprofile = \"{profile}\"\n{times}{security}", at + 1);
            for (versions, count, zeros, encoding, fields) in sets {
                if fixed && text.ends_with("#\n") {
                    break;
                }
                writer += 1;
                let encoding = ["raw", "variant", "data-value"][if fixed { 0 } else { encoding }];
                let count = if encoding == "raw" { 1 } else { count };
                text += &format!(
                    "[[writer-group.data-set]]\nwriter = {writer}\nname = \"set\"\nencoding = \"{encoding}\"\nkey-frame-count = {count}\nmajor-version = {}\nminor-version = {}\nzeros-are-data = {zeros}\n",
                    versions[0], versions[1]
                );
                for (nth, (kind, value)) in fields.into_iter().enumerate() {
                    text += &format!("[[writer-group.data-set.field]]\nname = \"f/{nth}\"\ntype = \"{kind}\"\nvalue = {value}\n");
                }
                // One data set is enough for a group of the profile `fixed`.
                text += "#\n";
            }
        }
        text
    })
}

#[test]
fn what_a_publisher_announces_is_its_project() {
    use rtwire_pubsub_station::exchange::{descriptions, discovered};
    use rtwire_pubsub_station::pubsub::discovery::{Description, Learned};
    let text_of_it = "[connection]\naddress = \"01-00-5E-7F-00-01\"\nvlan = 8\npublisher-id = 2234\n\
        [[writer-group]]\nid = 1\ninterval = \"250 us\"\noffset = \"40 us\"\nversion = 9\n\
        [[writer-group.data-set]]\nwriter = 7\nmajor-version = 4\n\
        [[writer-group.data-set.field]]\nname = \"n\"\ntype = \"Int32\"\n\
        [[writer-group.data-set.field]]\nname = \"t\"\ntype = \"String\"\nmax-bytes = 9\n\
        [[writer-group]]\nid = 2\nprofile = \"dynamic\"\ninterval = \"2 ms\"\nkeep-alive = \"3 s\"\n\
        security = \"sign\"\nkey-file = \"group-2.keys\"\n\
        [[writer-group.data-set]]\nwriter = 8\nkey-frame-count = 5\nencoding = \"data-value\"\n\
        [[writer-group.data-set.field]]\nname = \"l\"\ntype = \"Double\"\nmax-elements = 3\n";
    let project = parsed(text_of_it);
    let mut learned = Vec::new();
    for entry in &project.groups {
        for description in descriptions(&project, entry).unwrap() {
            let shown = format!("{description:?}");
            assert!(!shown.contains(".keys"), "a file of keys is told: {shown}");
            learned.push(match description {
                Description::MetaData { writer, meta } => Learned::MetaData { writer, meta },
                Description::Group {
                    writers,
                    configuration,
                    ..
                } => Learned::Group {
                    writers,
                    configuration,
                },
            });
        }
    }
    let publisher = &project.connection.publisher;
    let path = Path::new("folder/project.toml");
    let found = discovered(&learned, publisher, &project.groups[0].transport, path).unwrap();
    assert_eq!(found.project, project);
    assert!(
        found.notes[0].contains("is secured: put the keys"),
        "{:?}",
        found.notes
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_exported_is_imported_the_same(text_of_it in projects()) {
        let project = parsed(&text_of_it);
        prop_assert_eq!(&parsed(&text(&project)), &project);
        for body in [Body::Second, Body::First] {
            let bytes = export(&project, body).unwrap();
            prop_assert_eq!(&back(&bytes, &Choice::default()).unwrap(), &project);
            let tree = uabinary::read(&bytes).unwrap();
            prop_assert_eq!(uabinary::write(&tree).unwrap(), bytes);
        }
    }

    #[test]
    fn changed_octets_are_a_fault_or_a_project(at in any::<prop::sample::Index>(), octet in any::<u8>()) {
        let mut bytes = export(&parsed(AXES), Body::Second).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = octet;
        if let Ok(tree) = uabinary::read(&bytes) {
            prop_assert_eq!(uabinary::read(&uabinary::write(&tree).unwrap()).unwrap(), tree);
        }
        if let Err(error) = import(&bytes, Path::new("x.toml"), &Choice::default()) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn a_file_that_ends_early_is_refused_at_every_length() {
    let bytes = export(&parsed(AXES), Body::Second).unwrap();
    for length in 0..bytes.len() {
        let fault = uabinary::read(&bytes[..length]).unwrap_err();
        assert!(
            matches!(
                fault,
                UabinaryFault::Truncated { .. } | UabinaryFault::Length { .. }
            ),
            "{length}: {fault}"
        );
    }
    let mut longer = bytes;
    longer.push(0);
    let fault = uabinary::read(&longer).unwrap_err().to_string();
    assert!(fault.contains("1 bytes behind the end"), "{fault}");
}

#[test]
fn a_fault_names_the_field_and_its_offset() {
    let mut bytes = export(&parsed(AXES), Body::Second).unwrap();
    let name = b"axes/axis 1";
    let at = bytes
        .windows(name.len())
        .position(|part| part == name)
        .unwrap();
    bytes[at + 2] = 0xff;
    let told = uabinary::read(&bytes).unwrap_err().to_string();
    let wanted = format!(
        "file.Body.PublishedDataSets[0].Name, offset {}: the text is not UTF-8",
        at + 2
    );
    assert_eq!(told, wanted);
}

#[test]
fn readers_are_imported_as_the_subscribers_project() {
    let project = parsed(OUT);
    let bytes = export(&project, Body::First).unwrap();
    let choice = Choice {
        side: Some(Side::Readers),
        ..Choice::default()
    };
    assert_eq!(back(&bytes, &choice).unwrap(), project);
}

#[test]
fn what_a_project_cannot_have_is_named() {
    let refused = |change: &dyn Fn(&mut Vec<u8>), wanted: &str| {
        let mut bytes = export(&parsed(OUT), Body::Second).unwrap();
        change(&mut bytes);
        let told = back(&bytes, &Choice::default()).unwrap_err().to_string();
        assert!(told.contains(wanted), "{told}");
    };
    let replace = |from: &'static [u8], to: &'static [u8]| {
        move |bytes: &mut Vec<u8>| {
            assert_eq!(from.len(), to.len());
            let at = bytes
                .windows(from.len())
                .position(|part| part == from)
                .unwrap();
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    };
    refused(
        &replace(b"pubsub-eth-uadp", b"pubsub-mqt-json"),
        "pubsub-mqt-json` is neither UADP over Ethernet",
    );
    refused(
        &replace(b"01-00-5E-7F-00-01", b"plant.example.com"),
        "opc.eth://plant.example.com` is none of the form",
    );
    // The field `number` of the data set becomes a String.
    refused(
        &replace(&[7, 0, 7, 0xff, 0xff], &[12, 0, 12, 0xff, 0xff]),
        "field `number` has no largest number of bytes",
    );
    refused(
        &replace(&[7, 0, 7, 0xff, 0xff], &[14, 0, 14, 0xff, 0xff]),
        "field `number` is Guid with ValueRank -1",
    );
    // Behind the order of data sets.
    refused(
        &replace(&[2, 0, 0, 0, 0x3f, 0], &[2, 0, 0, 0, 0x67, 0]),
        "NetworkMessageContentMask 0x67",
    );
    let none = Choice {
        connection: Some("other".to_owned()),
        ..Choice::default()
    };
    let bytes = export(&parsed(OUT), Body::Second).unwrap();
    let told = back(&bytes, &none).unwrap_err().to_string();
    assert_eq!(
        told,
        "there is no connection `other`; there are: connection"
    );
}
