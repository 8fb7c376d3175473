//! Flow meters: where they are, and that plans' files are held to the same rules as descriptions.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rtwire_describe::network::FlowMeters;
use rtwire_describe::{CutThrough, Network, read};

/// Two switches, A at the first and B at the second, with the given keys.
fn described(switches: [&str; 2]) -> Result<Network, String> {
    let [one, other] = switches;
    let text = format!(
        "[network]\nname = \"t\"\n[defaults]\nlink-rate = \"1 Gbit/s\"\nclock-drift = \"0 ppm\"\n\
         [[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\n{one}\n[[switch]]\nname = \"t\"\nbuffer = \"1 MB\"\n{other}\n\
         [[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[link]]\nends = [\"A\", \"s\"]\n[[link]]\nends = [\"s\", \"t\"]\n\
         [[link]]\nends = [\"t\", \"B\"]\n"
    );
    read(&text, "t.toml", &[]).map_err(|faults| faults.to_string())
}

#[test]
fn frames_of_a_host_pass_meters_where_its_link_ends() {
    let network = described(["flow-meters = \"on\"", ""]).unwrap();
    let usual = FlowMeters { overhead_bytes: 4 };
    assert_eq!(network.flow_meters("A", "s"), Some(usual));
    assert_eq!(network.flow_meters("B", "t"), None, "t has none");
    assert_eq!(network.flow_meters("t", "s"), None, "t is no host");
    assert_eq!(network.flow_meters("s", "A"), None, "A is no switch");
    assert!(network.has_flow_meters());
    let told = network.without_flow_meters("this has none").unwrap_err();
    assert!(told.contains("switch \"s\"") && told.contains("this has none"));
    let off = described(["flow-meters = \"off\"", ""]).unwrap();
    assert_eq!(
        (off.has_flow_meters(), off.without_flow_meters("")),
        (false, Ok(()))
    );
    // Files of networks without meters have the same bytes as before there were any.
    assert!(!serde_json::to_string(&off).unwrap().contains("flow_meters"));
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(serde_json::from_str::<Network>(&text).unwrap(), network);
}

#[test]
fn all_switches_count_alike() {
    let both = |one: &str, other: &str| {
        let keys =
            [one, other].map(|size| format!("flow-meters = \"on\"\nmeter-overhead = \"{size}\""));
        described([&keys[0], &keys[1]])
    };
    assert!(both("24 B", "24 B").is_ok());
    let told = both("24 B", "4 B").unwrap_err();
    assert!(told.contains("its meters count 24 B"), "{told}");
}

/// A network that no description was read for.
#[test]
fn a_network_from_elsewhere_is_checked() {
    let good = described(["flow-meters = \"on\"", ""]).unwrap();
    assert_eq!(good.check(), Ok(()));
    let mut network = good.clone();
    network.switches[0].cut_through = CutThrough::Possible;
    let told = network.check().unwrap_err();
    assert!(told.contains("together with cut-through"), "{told}");
    let mut network = good;
    network.switches[0].flow_meters = Some(FlowMeters { overhead_bytes: 25 });
    let told = network.check().unwrap_err();
    assert!(told.contains("`meter-overhead` of 25 B"), "{told}");
}
