//! What goes wrong on real interfaces, each made to happen: answers that are late or corrupt, SoC that get lost, one by one and
//! all of them, cables pulled in each state, numbers given twice, wrong devices. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod powerlink_common;

use std::thread;
use std::time::Duration;

use powerlink_common::{Cell, asked, description, last_state, number, operational, told, until};
use rtwire_link::{Sender, SenderConfig, TxPath};
use rtwire_powerlink::Cdc;
use rtwire_sys::bpf::Direction;
use rtwire_sys::interface;
use rtwire_testkit::{foreign_bpf, ip, require};
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::{
    MINIMUM_OCTETS, Message, NmtState, Packet, Poll, Response, SendRequest, multicast,
};

#[test]
fn late_and_missing_responses_are_counted_and_the_node_comes_back() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let (cell, states) = Cell::telling(path);
        let before = last_state(&states)["nodes"][1]["responses"].as_u64();
        // Its program stands still, again and again: what it answers then is late, or nothing.
        let node = cell.running[1].as_ref().unwrap();
        until("counted", || {
            node.signal("-STOP");
            thread::sleep(Duration::from_millis(12));
            node.signal("-CONT");
            thread::sleep(Duration::from_millis(60));
            let now = last_state(&states);
            let one = &now["nodes"][1];
            // The driver answers for a program that stands still: there nothing is late.
            let answered = one["responses"].as_u64() > before.map(|before| before + 20);
            if path == "driver" {
                answered
            } else {
                number(one, "lost") + number(one, "late") > 0
            }
        });
        cell.wait("and back", operational);
    }
}

#[test]
fn corrupt_responses_are_dropped_and_counted() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let (cell, states) = Cell::telling(path);
        // As if from node 2: a size that cannot be, a state of no meaning, a frame cut short. On the managing node's cable.
        let response = Packet {
            destination_address: multicast::PRES,
            source_address: MacAddress(cell.star.stations[2].mac),
            destination: 255,
            source: 2,
            message: Message::PRes(Response {
                state: NmtState::OPERATIONAL,
                exception_new: false,
                request: SendRequest::NONE,
                poll: Poll {
                    multiplexed: false,
                    ready: true,
                    pdo_version: 0,
                    payload: &[7],
                },
            }),
        };
        let mut right = [0; MINIMUM_OCTETS];
        response.emit(&mut right).unwrap();
        let (mut size, mut state) = (right, right);
        size[22..24].copy_from_slice(&[0xff, 0xff]);
        state[17] = 0x77;
        let port = &cell.star.ports[0];
        port.run(|| {
            let mut sender = Sender::frames(&SenderConfig {
                path: TxPath::Direct,
                ..SenderConfig::new(&port.interface)
            })
            .unwrap();
            for _ in 0..20 {
                for frame in [&size[..], &state, &right[..18]] {
                    sender.send(frame).unwrap();
                    thread::sleep(Duration::from_millis(7));
                }
            }
        });
        until("counted", || {
            number(&last_state(&states), "frames_invalid") >= 20
        });
        cell.wait("all go on", operational);
    }
}

/// Drops the SoC of one cycle of 20 ms out of so many, on the way out of the bridge to node 2: as long as the program that it
/// gives is there.
fn drop_soc(cell: &Cell, one_of: u32) {
    let source = format!(
        r#"
static unsigned long long (*const now_ns)(void) = (void *)5;
static long (*const load)(void *, unsigned, void *, unsigned) = (void *)26;
__attribute__((section("tc"), used)) int drop_soc(void *frame) {{
    unsigned char what[3];
    if (load(frame, 12, what, 3) || what[0] != 0x88 || what[1] != 0xab || (what[2] & 0x7f) != 1)
        return 0;
    return now_ns() / 20000000 % {one_of} ? 0 : 2;
}}
char LICENSE[] __attribute__((section("license"), used)) = "GPL";
"#
    );
    let program = foreign_bpf(&source);
    let port = &cell.star.ports[2];
    port.run(|| {
        let index = interface::by_name(&port.interface).unwrap().index;
        program.attach_tc("drop_soc", index, Direction::Egress)
    })
    .unwrap();
}

#[test]
fn soc_lost_one_by_one_are_counted_and_borne_until_they_are_too_many() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let (cell, own) = Cell::node_2_telling(path);
        // One of 20: 8 are counted for it, and 1 less for each of the 19 that come.
        drop_soc(&cell, 20);
        let mut since = last_state(&own);
        until("five lost ones are counted and borne", || {
            let now = last_state(&own);
            // A stall of the machine may add to them: then from anew.
            if now["left_operational"] != since["left_operational"] {
                since = now.clone();
            }
            number(&now, "soc_lost") >= number(&since, "soc_lost") + 5
        });
        // One of 3: 8, 6, then 14, 12, then it is too much.
        drop_soc(&cell, 3);
        until("too many", || told(&own, "SoC was lost too often"));
        drop_soc(&cell, u32::MAX);
        cell.wait("and back", operational);
    }
}

#[test]
fn without_soc_a_node_goes_back_and_comes_again() {
    require!(root);
    require!(program "ip");
    for path in ["user", "driver"] {
        let (cell, own) = Cell::node_2_telling(path);
        // Its port of the bridge lets no group frames pass: no SoC, no SoA, but its own requests.
        let port = &cell.star.ports[2];
        let flood = |how: &str| {
            let set = format!("link set rtwp3 type bridge_slave mcast_flood {how}");
            ip(&port.namespace, &set);
        };
        flood("off");
        until("it has noticed", || {
            last_state(&own)["state"] == "PreOperational1"
        });
        assert!(told(&own, "SoC was lost too often"), "{path}");
        flood("on");
        cell.wait("and back", operational);
    }
}

#[test]
fn a_cable_is_pulled_in_each_state() {
    require!(root);
    require!(program "ip");
    // How the managing node is kept from going on (object 1F80h), and where node 2 is then.
    for (start_up, state) in [
        (0x80, "PreOperational1"),
        (0x100, "ReadyToOperate"),
        (0, "PreOperational2"),
        (0, "Operational"),
    ] {
        let mut cell = Cell::files("user");
        let mut cdc = Cdc::default();
        cdc.push(0x1f80, 0, start_up, 4);
        if state == "PreOperational2" {
            // So many objects that it takes a while to write them, while the cycle runs without this node.
            let mut long = Cdc::default();
            for _ in 0..400 {
                long.push(0x1006, 0, 20_000, 4);
            }
            cdc.push_data(0x1f22, 2, long.emit());
            cell.change("mn.toml", |text| {
                let (before, behind) = text.split_once("number = 2").unwrap();
                let behind = behind.replacen("mandatory = true", "configure = false", 1);
                format!("{before}number = 2{behind}")
            });
        }
        cell.configure("mn.toml", &cdc);
        cell.begin();
        cell.wait(state, |states| states[1] == state);
        ip(&cell.star.ports[2].namespace, "link set rtwp3 down");
        cell.wait("pulled", |states| states[1] == "NotActive");
        ip(&cell.star.ports[2].namespace, "link set rtwp3 up");
        cell.wait("put back", |states| states[1] == state);
    }
}

#[test]
fn a_lost_link_is_counted_where_it_is_lost() {
    require!(root);
    require!(program "ip");
    let (cell, own) = Cell::node_2_telling("user");
    let pull = |port: usize, how: &str| {
        let (namespace, cable) = (&cell.star.ports[port].namespace, port + 1);
        ip(namespace, &format!("link set rtwp{cable} {how}"));
    };
    let read = |from: usize, node: &str, object: &str| {
        let read = ["sdo", "read", "rtws", node, object, "--type", "u32"];
        let (code, text) = asked(&cell.star.stations[from], &read);
        if code == 0 {
            text.trim().parse().unwrap_or(0)
        } else {
            0
        }
    };
    assert_eq!(last_state(&own)["link_losses"], 0);
    until("the node's object tells", || {
        let before = number(&last_state(&own), "link_losses");
        pull(2, "down");
        until("lost", || number(&last_state(&own), "link_losses") > before);
        assert!(told(&own, "the link is down"));
        pull(2, "up");
        cell.wait("and back", operational);
        // It is configured anew, and has kept the count; a stall of the machine may have brought a reset, which does not.
        read(0, "2", "1C10h") > 0u32
    });
    // The managing node's own cable.
    pull(0, "down");
    until("noticed", || last_state(&own)["state"] != "Operational");
    pull(0, "up");
    cell.wait("and back", operational);
    until("its object tells", || read(2, "240", "1C03h") == 1);
    // As does its register, which is clear again.
    until("clear again", || {
        let read = ["sdo", "read", "rtws", "240", "1001h", "--type", "u8"];
        asked(&cell.star.stations[2], &read) == (0, "0\n".to_owned())
    });
}

#[test]
fn a_number_given_twice_is_told() {
    require!(root);
    require!(program "ip");
    let mut cell = Cell::files("user");
    cell.change("cn3.toml", |text| text.replace("node = 3", "node = 1"));
    let states = cell.begin();
    until("told", || told(&states, "node 1: answers twice"));
    // One of them goes, and the other takes part.
    cell.running[2] = None;
    cell.wait("one is left", |states| {
        states[..2].iter().all(|state| state == "Operational")
    });
}

#[test]
fn a_wrong_device_is_told_and_left_out() {
    require!(root);
    require!(program "ip");
    let mut cell = Cell::files("user");
    let xdd = description(0x42);
    std::fs::write(cell.folder.path().join("panel.xdd"), &xdd).unwrap();
    cell.change("mn.toml", |text| {
        text.replace(
            "name = \"panel\"",
            "name = \"panel\"\ndescription = \"panel.xdd\"",
        )
    });
    let states = cell.begin();
    until("told", || {
        told(&states, "node 3: the node is of another device type")
    });
    cell.wait("the others run without it", |states| {
        states[..2].iter().all(|state| state == "Operational") && states[2] != "Operational"
    });
    // The right device: the same description.
    cell.change("cn3.toml", |text| {
        text.replace("node = 3", "node = 3\ndescription = \"panel.xdd\"")
    });
    cell.running[2] = None;
    cell.running[2] = Some(cell.station(3));
    cell.wait("the right one is taken", operational);
}
