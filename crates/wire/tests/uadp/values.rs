//! Octets of single values, as OPC 10000-6 (1.05) has them. A value that is written and read with one wrong bit on both sides keeps the laws
//! of `laws.rs`; it does not keep these.

use rtwire_wire::uadp::*;

/// Checks that a Variant of this value is `octets` behind the byte that tells its type.
fn is(built_in: u8, value: Value<'_>, octets: &[u8]) {
    let variant = Variant::Scalar(value);
    let mut bytes = [0xaa; 64];
    let length = variant.emit(&mut bytes).unwrap();
    assert_eq!(bytes[0], built_in, "{variant:?}");
    assert_eq!(&bytes[1..length], octets, "{variant:?}");
    assert_eq!(Variant::parse(&bytes[..length]), Ok((variant, length)));
}

/// 5.2.2.9: each form of an identifier, with the table's own examples.
#[test]
fn node_ids() {
    let is = |id, octets: &[u8]| is(17, Value::NodeId(id), octets);
    is(NodeId::TwoByte(72), &[0x00, 0x48]);
    let id = 1025;
    is(
        NodeId::FourByte { namespace: 5, id },
        &[0x01, 0x05, 0x01, 0x04],
    );
    let (namespace, id) = (0x0201, 0x0807_0605);
    is(
        NodeId::Numeric { namespace, id },
        &[0x02, 0x01, 0x02, 0x05, 0x06, 0x07, 0x08],
    );
    let id = Some("Hot水");
    let text = b"\x03\x01\x00\x06\x00\x00\x00Hot\xe6\xb0\xb4";
    is(NodeId::String { namespace: 1, id }, text);
    let id = Guid(*b"0123456789abcdef");
    let octets = [&[0x04, 2, 0], &id.0[..]].concat();
    is(NodeId::Guid { namespace: 2, id }, &octets);
    let id: Option<&[u8]> = Some(&[7, 8]);
    is(
        NodeId::Opaque { namespace: 3, id },
        &[0x05, 3, 0, 2, 0, 0, 0, 7, 8],
    );
}

/// 5.2.2.10: 0x80 tells a namespace's URI, 0x40 a server, in this order behind the identifier.
#[test]
fn expanded_node_ids() {
    let of = |namespace_uri, server| {
        let node = NodeId::TwoByte(9);
        Value::ExpandedNodeId(ExpandedNodeId {
            node,
            namespace_uri,
            server,
        })
    };
    is(18, of(None, None), &[0x00, 9]);
    is(18, of(Some(Some("u")), None), &[0x80, 9, 1, 0, 0, 0, b'u']);
    is(18, of(None, Some(3)), &[0x40, 9, 3, 0, 0, 0]);
    is(
        18,
        of(Some(Some("u")), Some(3)),
        &[0xc0, 9, 1, 0, 0, 0, b'u', 3, 0, 0, 0],
    );
}

/// 5.2.2.14: 0x01 tells a locale, 0x02 a text.
#[test]
fn localized_texts() {
    let is = |locale, text, octets: &[u8]| {
        is(
            21,
            Value::LocalizedText(LocalizedText { locale, text }),
            octets,
        );
    };
    is(None, None, &[0x00]);
    is(Some(Some("en")), None, &[0x01, 2, 0, 0, 0, b'e', b'n']);
    is(None, Some(Some("x")), &[0x02, 1, 0, 0, 0, b'x']);
    let both = [0x03, 2, 0, 0, 0, b'e', b'n', 1, 0, 0, 0, b'x'];
    is(Some(Some("en")), Some(Some("x")), &both);
}

/// 5.2.2.13 and 5.2.2.15.
#[test]
fn qualified_names_and_extension_objects() {
    let (namespace, name) = (0x0302, Some("q"));
    is(
        20,
        Value::QualifiedName(QualifiedName { namespace, name }),
        &[2, 3, 1, 0, 0, 0, b'q'],
    );
    let is = |body, octets: &[u8]| {
        let type_id = NodeId::TwoByte(1);
        is(
            22,
            Value::ExtensionObject(ExtensionObject { type_id, body }),
            octets,
        );
    };
    is(ExtensionBody::None, &[0, 1, 0]);
    is(ExtensionBody::Binary(Some(&[5])), &[0, 1, 1, 1, 0, 0, 0, 5]);
    is(ExtensionBody::Xml(Some(b"<")), &[0, 1, 2, 1, 0, 0, 0, b'<']);
}

/// 5.2.2.17: value, status, source time, source picoseconds, server time, server picoseconds; the mask's bits are in another order.
#[test]
fn data_values() {
    let all = DataValue {
        value: Some(Variant::from(1_u8)),
        status: Some(0x8001_0002),
        source_time: Some(DateTime(3)),
        source_picoseconds: Some(4),
        server_time: Some(DateTime(5)),
        server_picoseconds: Some(6),
    };
    let octets = [
        &[0x3f][..],
        &[3, 1],
        &[2, 0, 1, 0x80],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[4, 0],
        &[5, 0, 0, 0, 0, 0, 0, 0],
        &[6, 0],
    ]
    .concat();
    let mut bytes = [0; 64];
    let length = all.emit(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], octets);
    assert_eq!(DataValue::parse(&octets), Ok((all, length)));
    let none = DataValue::default();
    for (mask, one) in [
        (
            0x01,
            DataValue {
                value: all.value,
                ..none
            },
        ),
        (
            0x02,
            DataValue {
                status: all.status,
                ..none
            },
        ),
        (
            0x04,
            DataValue {
                source_time: all.source_time,
                ..none
            },
        ),
        (
            0x08,
            DataValue {
                server_time: all.server_time,
                ..none
            },
        ),
    ] {
        one.emit(&mut bytes).unwrap();
        assert_eq!(bytes[0], mask, "{one:?}");
    }
}
