//! Maps of priorities to queues: the tables as IEEE Std 802.1Q-2022 prints them (by priority, not by number of queues), and the
//! message where a port has too few queues.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rtwire_describe::{Network, read};

/// Table 8-5, rows of priorities 0 to 7, columns of 1 to 8 queues.
const TABLE_8_5: [&str; 8] = [
    "00000111", "00000000", "00011222", "00011233", "01122344", "01122345", "01233456", "01234567",
];
/// Table 34-1, columns of 2 to 8 queues.
const TABLE_34_1: [&str; 8] = [
    "0000001", "0000000", "1123456", "1234567", "0011112", "0011123", "0012234", "0012345",
];

fn described(queues: usize, map: &str, more: &str) -> Result<Network, String> {
    let text = format!(
        "[network]\nname = \"t\"\n[[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\nqueues = {queues}\n{map}\n\
         [[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[link]]\nends = [\"A\", \"s\"]\nrate = \"1 Gbit/s\"\n\
         [[link]]\nends = [\"s\", \"B\"]\nrate = \"1 Gbit/s\"\n{more}"
    );
    read(&text, "t.toml", &[]).map_err(|faults| faults.to_string())
}

fn column(table: &[&str], at: usize) -> Vec<u8> {
    table.iter().map(|row| row.as_bytes()[at] - b'0').collect()
}

fn classes(network: &Network) -> Vec<u8> {
    (0..8).map(|pcp| network.class("s", pcp)).collect()
}

#[test]
fn the_tables_are_those_of_the_standard() {
    for queues in 1..=8 {
        let network = described(queues, "priority-map = \"802.1q\"", "").unwrap();
        assert_eq!(
            classes(&network),
            column(&TABLE_8_5, queues - 1),
            "{queues}"
        );
        let avb = described(queues, "priority-map = \"802.1q-avb\"", "");
        if queues == 1 {
            assert!(avb.unwrap_err().contains("queues = 3 or more at \"s\""));
        } else {
            let avb = avb.unwrap();
            assert_eq!(classes(&avb), column(&TABLE_34_1, queues - 2), "{queues}");
            // Hosts keep their own.
            assert_eq!(avb.class("A", 3), 3);
        }
        let plain = described(queues, "", "").unwrap();
        let named = described(queues, "priority-map = \"default\"", "").unwrap();
        assert_eq!(classes(&plain), classes(&named));
        assert_eq!(plain.switches, named.switches);
    }
}

#[test]
fn a_map_that_needs_more_queues_is_refused_with_one_that_fits() {
    let wide = "priority-map = [0, 0, 6, 7, 1, 2, 3, 4]";
    assert_eq!(
        classes(&described(8, wide, "").unwrap()),
        [0, 0, 6, 7, 1, 2, 3, 4]
    );
    let fault = described(4, wide, "").unwrap_err();
    assert!(
        fault.contains("gives priority 3 queue 7, but its ports have 4 (0 to 3)"),
        "{fault}"
    );
    // What it offers is accepted, and keeps the order of the priorities.
    let offered = fault.split("priority-map = ").last().unwrap();
    let offered = offered.split(" fits").next().unwrap();
    let fits = classes(&described(4, &format!("priority-map = {offered}"), "").unwrap());
    let stated = [0, 0, 6, 7, 1, 2, 3, 4];
    for (one, other) in (0..8).flat_map(|one| (0..8).map(move |other| (one, other))) {
        assert!(
            stated[one] < stated[other] || fits[one] >= fits[other],
            "{fits:?}"
        );
    }
    for (wrong, says) in [
        ("[0, 1]", "has 2 queues, but there are eight priorities"),
        (
            "[0, 0, 0, 0, 0, 0, 0, 8]",
            "has queue 8, but queues are 0 to 7",
        ),
        ("[0, 0, 0, 0, 0, 0, 0, -1]", "queues are 0 to 7"),
        (
            "[0, 0, 0, 0, 0, 0, 0, \"x\"]",
            "expected is a list of whole numbers",
        ),
        ("\"802.1p\"", "did you mean \"802.1q\"?"),
        ("3", "a list of eight queues"),
    ] {
        let fault = described(8, &format!("priority-map = {wrong}"), "").unwrap_err();
        assert!(fault.contains(says), "{wrong}: {fault}");
    }
}

/// Stream class A at priority 3: with the default map priorities 4 to 7 are above it, which a credit may not have.
#[test]
fn a_credit_for_class_a_is_refused_with_the_map_that_fits() {
    let credit = |pcp: u8| {
        format!(
            "[[shaper]]\nnode = \"s\"\npriority = {pcp}\nkind = \"credit\"\nidle-slope = \"200 Mbit/s\"\n"
        )
    };
    let both = format!("{}{}", credit(3), credit(2));
    let fault = described(8, "", &both).unwrap_err();
    assert!(
        fault.contains("priority-map = \"802.1q-avb\" at \"s\""),
        "{fault}"
    );
    described(8, "priority-map = \"802.1q-avb\"", &both).unwrap();
    // Others than A and B get a list.
    let others = format!("{}{}", credit(1), credit(5));
    let fault = described(4, "", &others).unwrap_err();
    let list = fault.split("priority-map = ").last().unwrap();
    let list = list.split(" at ").next().unwrap();
    described(4, &format!("priority-map = {list}"), &others).unwrap();
    let fault = described(2, "", &credit(3)).unwrap_err();
    assert!(
        fault.contains("priority-map = [0, 0, 0, 1, 0, 0, 0, 0] at \"s\""),
        "{fault}"
    );
}
