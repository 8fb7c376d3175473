//! Switches beside the hosts, over NETCONF: in a deployment, and in a proof.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

use rtwire_testkit::require;

use crate::yang_common::netconfd::{Netconfd, Session};
use crate::{HOSTS, PORT, Room, cable, code, said, until};

/// A switch that is named is one of them, with a NETCONF server of another make.
#[test]
fn a_switch_has_the_plan_with_the_hosts_or_not_at_all() {
    const INTERFACES: &str = "urn:ietf:params:xml:ns:yang:ietf-interfaces";
    require!(root, program "ip", program "tc", program "nsenter");
    let Some(server) = Netconfd::start(&[]) else {
        return;
    };
    let interfaces = HOSTS.map(|name| {
        format!(
            "<interface><name>{name}</name><type xmlns:x=\"urn:ietf:params:xml:ns:yang:iana-if-type\">x:ethernetCsmacd</type></interface>"
        )
    });
    Session::open(&server.via()).edit(&format!(
        "<interfaces xmlns=\"{INTERFACES}\">{}</interfaces>",
        interfaces.concat()
    ));
    let room = Room::new();
    let _doors = room.doors();
    let before = room.queues();
    let via = format!("s1={}", server.via());
    let has_share = || server.running().contains("traffic-class-table");
    let unknown = room.asked("deploy", "plan.json", &["--switch", "x=true"]);
    code(&unknown, 2);
    assert!(
        said(&unknown).contains("the plan has no such switch; it has s1"),
        "{}",
        said(&unknown)
    );
    let dry = room.asked("deploy", "plan.json", &["--switch", &via, "--dry-run"]);
    code(&dry, 0);
    assert!(
        said(&dry).contains("s1: /interfaces/interface[b]/bridge-port: planned, not there"),
        "{}",
        said(&dry)
    );
    assert!(!has_share());

    // A host is lost when all have applied the plan: the switch goes back with the others.
    let (port, _happened) = cable(&room, 2, true);
    let lost = room
        .verb(
            "deploy",
            "plan.json",
            port,
            &["--switch", &via, "--confirm-within", "3s"],
        )
        .output()
        .unwrap();
    code(&lost, 1);
    for words in [
        "s1: in force, read back as planned",
        "c did not apply; each of them puts its settings back within 3 s",
    ] {
        assert!(said(&lost).contains(words), "{words}\n{}", said(&lost));
    }
    assert!(!has_share(), "{}", server.running());
    room.until_queues_are(&before);
    // The switch refuses: the hosts go back.
    let mut other = Session::open(&server.via());
    let locked = other.ask("<lock><target><candidate/></target></lock>");
    assert!(locked.contains("<ok/>"), "{locked}");
    let refused = room.asked(
        "deploy",
        "plan.json",
        &["--switch", &via, "--confirm-within", "2s"],
    );
    code(&refused, 1);
    assert!(
        said(&refused).contains("s1 did not apply"),
        "{}",
        said(&refused)
    );
    drop(other);
    room.until_queues_are(&before);

    let done = room.asked("deploy", "plan.json", &["--switch", &via]);
    code(&done, 0);
    assert!(
        said(&done).contains("deployed on 3 hosts and 1 switch"),
        "{}",
        said(&done)
    );
    assert!(has_share());
    code(&room.asked("check", "plan.json", &["--switch", &via]), 0);
    // It has no counters of its own.
    let counted = ["--for", "1s", "--evidence", "seen", "--switch", &via];
    let counted = room.asked("prove", "plan.json", &counted);
    assert!(
        said(&counted).contains("switch s1, port b: it shows no counters"),
        "{}",
        said(&counted)
    );
    Session::open(&server.via()).edit(&format!(
        "<interfaces xmlns=\"{INTERFACES}\"><interface><name>b</name><bridge-port \
         xmlns=\"urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge\"><pvid>99</pvid></bridge-port></interface></interfaces>"
    ));
    let drift = room.asked("check", "plan.json", &["--switch", &via]);
    code(&drift, 1);
    for words in [
        "s1: /interfaces/interface[b]/bridge-port/pvid: planned 1, found 99",
        "not as planned: s1",
    ] {
        assert!(said(&drift).contains(words), "{words}\n{}", said(&drift));
    }
}

/// A switch's side of NETCONF for its counters: those of the kernel, in the form of RFC 8343.
const COUNTING_SWITCH: &str = r#"
import re, sys

def message():
    text = ""
    while not text.endswith("]]>]]>"):
        read = sys.stdin.read(1)
        if not read:
            sys.exit()
        text += read
    return text

def say(text):
    sys.stdout.write(text + "]]>]]>")
    sys.stdout.flush()

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
say(f'<hello xmlns="{BASE}"><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability></capabilities><session-id>1</session-id></hello>')
message()
while True:
    request = message()
    head = f'<rpc-reply xmlns="{BASE}" message-id="{re.search("message-id=.([0-9]+)", request)[1]}">'
    if "close-session" in request:
        say(head + "<ok/></rpc-reply>")
        break
    ports = ""
    for line in open("/proc/net/dev").readlines()[2:]:
        name, numbers = line.split(":")
        rx_bytes, rx, rx_errs, rx_drop, _, _, _, _, tx_bytes, tx, tx_errs, tx_drop = [int(one) for one in numbers.split()[:12]]
        ports += f"""<interface><name>{name.strip()}</name><statistics>
            <discontinuity-time>2026-01-01T00:00:00+00:00</discontinuity-time><in-octets>{rx_bytes}</in-octets>
            <in-discards>{rx_drop}</in-discards><in-errors>{rx_errs}</in-errors>
            <out-discards>{tx_drop % 2**32}</out-discards><out-errors>{tx_errs}</out-errors></statistics></interface>"""
    say(head + f'<data><interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces">{ports}</interfaces></data></rpc-reply>')
"#;

/// Frames that a port of the switch discards meanwhile are named beside the verdict, and nothing else is.
#[test]
fn a_proof_names_the_ports_at_which_the_switch_discarded_frames() {
    require!(root, program "ip", program "nsenter", program "python3");
    let room = Room::new();
    let _doors = room.doors();
    fs::write(room.path("switch.py"), COUNTING_SWITCH).unwrap();
    let [a, b, c] = [0, 1, 2].map(|at| &room.star.ports[at]);
    let via = format!(
        "s1=nsenter --net=/run/netns/{} python3 {}",
        b.namespace,
        room.path("switch.py").display()
    );
    let ports =
        [("a", a), ("b", b), ("c", c)].map(|(host, port)| format!("s1>{host}={}", port.interface));
    let mut more = vec!["--for", "3s", "--evidence", "seen", "--switch", &via];
    for port in &ports {
        more.extend(["--port", port]);
    }
    // What `b` takes is shorter from now on than what the switch has for it.
    let shorter = Command::new("ip")
        .args([
            "-n",
            &room.star.stations[1].namespace,
            "link",
            "set",
            "rtws",
            "mtu",
            "1000",
        ])
        .status();
    assert!(shorter.unwrap().success());
    let proving = room
        .verb("prove", "plan.json", PORT, &more)
        .spawn()
        .unwrap();
    // Behind the first counters, and while the streams run.
    until("the folder of the evidence", || room.path("seen").exists());
    room.star.stations[0].run(|| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        for _ in 0..7 {
            let sent = socket.send_to(&[7; 1_300], (room.address("b"), 9));
            assert_eq!(sent.unwrap(), 1_300);
        }
    });
    let ended = proving.wait_with_output().unwrap();
    assert!(
        matches!(ended.status.code(), Some(0 | 4)),
        "{}",
        said(&ended)
    );
    for words in [
        format!("switch s1, port {}: out-discards 7\n", b.interface),
        "switch s1: no frame discarded and none faulty at 2 ports\n".to_owned(),
    ] {
        assert!(said(&ended).contains(&words), "{words}{}", said(&ended));
    }
    let kept = fs::read_to_string(room.path("seen/s1.ports.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["ports"][&b.interface]["out-discards"], 7);

    // A switch that cannot be asked is named, and nobody runs anything.
    let none = room.asked(
        "prove",
        "plan.json",
        &["--evidence", "none", "--switch", "s1=false"],
    );
    code(&none, 3);
    assert!(said(&none).contains("switch s1: "), "{}", said(&none));
    assert!(!room.path("none/a.evidence").exists());
}
