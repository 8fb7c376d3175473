//! Configurations and device descriptions.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rtwire_powerlink::explain::{explain_cdc, explain_description};
use rtwire_powerlink::od::{Access, DataType, Mappable};
use rtwire_powerlink::{AbortCode, Cdc, Description, Error, ObjectDictionary};

const XDD: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<ISO15745ProfileContainer xmlns="http://www.ethernet-powerlink.org">
  <ISO15745Profile><ProfileBody>
    <DeviceIdentity><vendorName>Vendor</vendorName><productName>Valve</productName></DeviceIdentity>
    <ApplicationProcess><parameterList>
      <parameter uniqueID="UID_pressure" access="readWrite"><UINT/><actualValue value="0x1234"/></parameter>
    </parameterList></ApplicationProcess>
  </ProfileBody></ISO15745Profile>
  <ISO15745Profile><ProfileBody>
    <ApplicationLayers><ObjectList>
      <Object index="1000" name="NMT_DeviceType_U32" objectType="7" dataType="0007" accessType="const" defaultValue="0x000F0191"/>
      <Object index="1006" name="NMT_CycleLen_U32" objectType="7" dataType="0007" accessType="rw" lowLimit="400" defaultValue="1000"/>
      <Object index="1018" name="NMT_IdentityObject_REC" objectType="9">
        <SubObject subIndex="00" name="NumberOfEntries" objectType="7" dataType="0005" accessType="const" defaultValue="4"/>
        <SubObject subIndex="01" name="VendorId_U32" objectType="7" dataType="0007" accessType="const" defaultValue="0x42"/>
      </Object>
      <Object index="1600" name="PDO_RxMappParam_00h_AU64" objectType="8">
        <SubObject subIndex="00" name="n" objectType="7" dataType="0005" accessType="rw" defaultValue="1"/>
        <SubObject subIndex="01" name="m" objectType="7" dataType="001B" accessType="rw" defaultValue="0x0008000000016200"/>
      </Object>
      <Object index="1F82" name="NMT_FeatureFlags_U32" objectType="7" dataType="0007" accessType="const" defaultValue="0x45"/>
      <Object index="1F93" name="NMT_EPLNodeID_REC" objectType="9"/>
      <Object index="1F98" name="NMT_CycleTiming_REC" objectType="9">
        <SubObject subIndex="04" name="PReqActPayloadLimit_U16" objectType="7" dataType="0006" accessType="rw" defaultValue="36"/>
      </Object>
      <Object index="2000" name="signed" objectType="7" dataType="0003" accessType="rw" defaultValue="-5"/>
      <Object index="2001" name="pressure" objectType="7" uniqueIDRef="UID_pressure"/>
      <Object index="6200" name="out" objectType="8" dataType="0005">
        <SubObject subIndex="01" name="o" objectType="7" accessType="rw" PDOmapping="RPDO"/>
      </Object>
    </ObjectList></ApplicationLayers>
    <NetworkManagement><GeneralFeatures DLLFeatureMN="false" NMTCycleTimeMin="400"/></NetworkManagement>
  </ProfileBody></ISO15745Profile>
</ISO15745ProfileContainer>"#;

#[test]
fn a_description_becomes_a_dictionary() {
    let description = Description::parse(XDD).unwrap();
    assert_eq!(
        (description.vendor.as_str(), description.product.as_str()),
        ("Vendor", "Valve")
    );
    assert_eq!(
        (description.managing, description.least_cycle_us),
        (false, Some(400))
    );
    let mut d = description.dictionary();
    assert_eq!(d.number(0x1000, 0), 0x000f_0191);
    assert_eq!(d.entry(0x2000, 0).unwrap().number(), Some(-5));
    assert_eq!(d.entry(0x2001, 0).unwrap().data_type, DataType::Unsigned(2));
    assert_eq!(
        (d.number(0x2001, 0), d.entry(0x2001, 0).unwrap().access),
        (0x1234, Access::ReadWrite)
    );
    assert_eq!(d.entry(0x6200, 1).unwrap().mappable, Mappable::Receive);
    // What the description leaves open is there all the same.
    assert_eq!(d.number(0x1f98, 8), 300);
    assert_eq!(d.number(0x1018, 4), 0);
    assert_eq!(
        d.write(0x1006, 0, &399_u32.to_le_bytes()),
        Err(AbortCode::RANGE_LOW)
    );
    assert_eq!(d.number(0x1006, 0), 1000);
    let explanation = explain_description(&description);
    assert_eq!(explanation.faults, Vec::<String>::new());
    assert_eq!(explanation.pdos[0].mapped, [(0x6200, 1, 0, 1)]);
}

#[test]
fn faults_of_a_description_are_named_with_their_line() {
    let error = Description::parse("<a>\n<b></a>").unwrap_err();
    assert!(matches!(error, Error::Xml { line: 2, .. }), "{error}");
    let error = Description::parse("<a/>").unwrap_err();
    assert!(error.to_string().contains("ObjectList"), "{error}");
    let wrong = XDD.replace("index=\"2000\"", "index=\"20000\"");
    let error = Description::parse(&wrong).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 26: `index` is `20000`: a hexadecimal number up to FFFF is expected"
    );
    let wrong = XDD.replace("0x0008000000016200", "0x0010000000016200");
    let explanation = explain_description(&Description::parse(&wrong).unwrap());
    assert_eq!(explanation.faults.len(), 1, "{:?}", explanation.faults);
    let wrong = XDD.replace("defaultValue=\"-5\"", "defaultValue=\"40000\"");
    let explanation = explain_description(&Description::parse(&wrong).unwrap());
    assert_eq!(
        explanation.faults,
        ["line 26: `40000` is no INTEGER16: the value is ignored"]
    );
}

/// A managing node's description: no node of a network, and objects that are made where they are mapped.
fn managing_xdd() -> String {
    let mapping = |index: &str, value: &str| {
        format!(
            r#"<Object index="{index}" name="m" objectType="8">
<SubObject subIndex="00" name="n" objectType="7" dataType="0005" accessType="rw" defaultValue="0" actualValue="1"/>
<SubObject subIndex="01" name="m" objectType="7" dataType="001B" accessType="rw" defaultValue="0" actualValue="{value}"/>
</Object>"#
        )
    };
    let limits = |index: &str| {
        format!(
            r#"<Object index="{index}" name="l" objectType="8"><SubObject subIndex="01" name="l" objectType="7" dataType="0006" accessType="rw" defaultValue="36"/></Object>"#
        )
    };
    let node = |index: &str| {
        format!(
            r#"<Object index="{index}" name="c" objectType="9"><SubObject subIndex="01" name="c" objectType="7" dataType="0005" accessType="rw" actualValue="1"/></Object>"#
        )
    };
    let objects = [
        node("1400"),
        node("1800"),
        mapping("1600", "0x000800000001A4C0"),
        mapping("1A00", "0x001000000002A100"),
        limits("1F8B"),
        limits("1F8D"),
    ]
    .concat();
    let start = XDD.find("      <Object index=\"1600\"").unwrap();
    let end = XDD.find("      <Object index=\"1F82\"").unwrap();
    let channels = r#"<dynamicChannels>
<dynamicChannel dataType="0005" accessType="readWriteOutput" startIndex="A4C0" endIndex="A4CF" maxNumber="4064" addressOffset="0000" bitAlignment="0"/>
<dynamicChannel dataType="0006" accessType="readOnly" startIndex="A100" endIndex="A107" maxNumber="2032" addressOffset="0000" bitAlignment="0"/>
</dynamicChannels>"#;
    let text = format!("{}{objects}{}", &XDD[..start], &XDD[end..]);
    let text = text.replace("</ObjectList>", &format!("</ObjectList>{channels}"));
    text.replace("DLLFeatureMN=\"false\"", "DLLFeatureMN=\"true\"")
}

#[test]
fn a_description_of_a_managing_node_is_right_without_nodes() {
    let description = Description::parse(&managing_xdd()).unwrap();
    assert!(description.managing);
    assert_eq!(description.dynamic.len(), 2);
    let explanation = explain_description(&description);
    assert_eq!(explanation.faults, Vec::<String>::new());
    assert!(
        explanation
            .summary
            .iter()
            .any(|line| line.contains("1F81h names no"))
    );
    let mapped: Vec<_> = explanation
        .pdos
        .iter()
        .map(|pdo| pdo.mapped.clone())
        .collect();
    assert_eq!(mapped, [vec![(0xa4c0, 1, 0, 1)], vec![(0xa100, 2, 0, 2)]]);
    // Objects outside of the ranges, and of another length, are faults all the same.
    for (right, wrong) in [
        ("000800000001A4C0", "000800000001A4D0"),
        ("001000000002A100", "000800000002A100"),
    ] {
        let text = managing_xdd().replace(right, wrong);
        let explanation = explain_description(&Description::parse(&text).unwrap());
        assert_eq!(
            explanation.faults.len(),
            1,
            "{wrong}: {:?}",
            explanation.faults
        );
    }
    let text = managing_xdd().replace("endIndex=\"A107\"", "endIndex=\"A0FF\"");
    let error = Description::parse(&text).unwrap_err();
    assert!(
        error.to_string().contains("`endIndex` A0FF is less"),
        "{error}"
    );
    // The configuration of a network does name its nodes.
    let mut cdc = Cdc::default();
    cdc.push(0x1006, 0, 1000, 4);
    cdc.push(0x1f81, 240, 0x8000_0001, 4);
    assert!(
        explain_cdc(&cdc)
            .faults
            .iter()
            .any(|fault| fault.contains("1F81h names no"))
    );
}

#[test]
fn a_configuration_is_read_and_written_as_it_was() {
    let mut cdc = Cdc::default();
    cdc.push(0x1006, 0, 50_000, 4);
    cdc.push_data(0x1f22, 1, vec![1, 2, 3]);
    let bytes = cdc.emit();
    let expected = [
        2, 0, 0, 0, 0x06, 0x10, 0, 4, 0, 0, 0, 0x50, 0xc3, 0, 0, 0x22, 0x1f, 1, 3, 0, 0, 0, 1, 2, 3,
    ];
    assert_eq!(bytes, expected);
    assert_eq!(Cdc::parse(&bytes), Ok(cdc));
    let error = Cdc::parse(&bytes[..20]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the configuration ends at octet 20, an entry's size needs 2 more"
    );
    let mut longer = bytes.clone();
    longer.push(0);
    let error = Cdc::parse(&longer).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("1 octets follow the last of the 2 entries"),
        "{error}"
    );
    // Four thousand million entries are announced: no memory is taken for them.
    assert!(Cdc::parse(&[0xff; 8]).is_err());
    let mut d = ObjectDictionary::managing_node();
    Cdc::parse(&bytes).unwrap().apply(&mut d).unwrap();
    assert_eq!(d.number(0x1006, 0), 50_000);
}

#[test]
fn a_network_is_explained() {
    let mut cdc = Cdc::default();
    cdc.push(0x1006, 0, 1000, 4);
    cdc.push(0x1f81, 5, 0x8000_020b, 4);
    cdc.push(0x1f92, 5, 25_000, 4);
    cdc.push(0x1f81, 6, 1, 4);
    cdc.push_data(0x1f22, 5, vec![9]);
    cdc.push(0x1400, 1, 5, 1);
    cdc.push(0x1600, 1, 0x0010_0000_0000_a000, 8);
    cdc.push(0x1600, 2, 0x0010_0008_0000_a001, 8);
    cdc.push(0x1600, 0, 2, 1);
    let explanation = explain_cdc(&cdc);
    assert_eq!(explanation.cycle_us, Some(1000));
    assert_eq!(
        explanation.nodes[0].role,
        ["mandatory", "multiplexed", "started by the application"]
    );
    assert_eq!(explanation.nodes[0].payload_octets, [0, 3]);
    let faults = explanation.faults.join("\n");
    assert!(
        faults.contains("node 6: its assignment 00000001h lacks"),
        "{faults}"
    );
    assert!(
        faults.contains("node 5: in its own configuration: the configuration ends"),
        "{faults}"
    );
    assert!(faults.contains("overlap"), "{faults}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_configuration_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(cdc) = Cdc::parse(&bytes) {
            if !bytes.is_empty() {
                prop_assert_eq!(cdc.emit(), bytes);
            }
            let _ = explain_cdc(&cdc);
        }
    }

    #[test]
    fn a_description_with_anything_in_it_does_not_panic(
        value in "[-0-9a-fx.]{0,20}",
        code in 0..0x30_u16,
        limit in "[-0-9a-f]{0,10}",
    ) {
        let text = XDD.replace(
            "dataType=\"0003\" accessType=\"rw\" defaultValue=\"-5\"",
            &format!("dataType=\"{code:04x}\" accessType=\"rw\" defaultValue=\"{value}\" lowLimit=\"{limit}\""),
        );
        let description = Description::parse(&text).unwrap();
        let _ = explain_description(&description);
    }
}
