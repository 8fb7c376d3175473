//! Other talkers and listeners on the interface.

use super::{Area, Certainty, Facts, Finding, InterfaceFacts, Level};
use crate::change::{Subject, Value, Wanted};

const AREA: Area = Area::Talkers;

/// Programs that send on every interface by themselves, and the way to keep them off one.
const PROGRAMS: [(&str, &str); 12] = [
    ("NetworkManager", "nmcli device set {} managed no"),
    (
        "systemd-network",
        "networkctl down {}; or `Unmanaged=yes` in /etc/systemd/network",
    ),
    (
        "avahi-daemon",
        "deny-interfaces={} in /etc/avahi/avahi-daemon.conf",
    ),
    (
        "lldpd",
        "lldpcli configure system interface pattern '*,!{}'",
    ),
    ("lldpad", "systemctl disable --now lldpad"),
    ("dhclient", "dhclient -r {}"),
    ("dhcpcd", "denyinterfaces {} in /etc/dhcpcd.conf"),
    (
        "connmand",
        "NetworkInterfaceBlacklist={} in /etc/connman/main.conf",
    ),
    ("ModemManager", "systemctl disable --now ModemManager"),
    ("wsdd", "systemctl disable --now wsdd"),
    ("snmpd", "systemctl disable --now snmpd"),
    ("smbd", "systemctl disable --now smbd nmbd"),
];

fn setting(path: String, to: &str) -> Wanted {
    Wanted {
        subject: Subject::Setting { path },
        to: Value::Text(to.to_owned()),
    }
}

pub(super) fn addresses(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let name = &interface.link.name;
    let mut findings = Vec::new();
    let path = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
    // If the machine is reached by this interface, `--fix` must not cut it off.
    let reached = interface.routes.iter().any(|route| route.default)
        || interface.addresses.iter().any(|address| !address.automatic);
    if facts.files.number(&path) == Some(0) {
        let by_six = interface.routes.iter().any(|route| route.default)
            || interface
                .addresses
                .iter()
                .any(|address| address.address.is_ipv6() && !address.automatic);
        let wanted = setting(path, "1");
        let finding =
            Finding::good(
                AREA,
                "talkers.ipv6",
                "IPv6 is on",
                "router solicitations, neighbour discovery and multicast reports leave at any time, and in bursts after \
                 the link comes up",
            )
            .at(Level::Weak);
        findings.push(if by_six {
            finding.by_hand(wanted.command())
        } else {
            finding.fixed_by(vec![wanted])
        });
    }
    if interface.routes.iter().any(|route| route.default) {
        findings.push(
            Finding::good(
                AREA,
                "talkers.default_route",
                "this machine's default route uses this interface",
                "every program's traffic shares the real-time link",
            )
            .at(Level::Fault)
            .by_hand(format!(
                "use another interface, or: ip route del default dev {name}"
            )),
        );
    }
    let shown: Vec<String> = interface
        .addresses
        .iter()
        .filter(|address| address.address.is_ipv4())
        .map(|address| format!("{}/{}", address.address, address.prefix))
        .collect();
    if !shown.is_empty() {
        findings.push(
            Finding::good(
                AREA,
                "talkers.addresses",
                format!("addresses {}", shown.join(", ")),
                "any program may send from it; raw streams need no address, UDP streams need one",
            )
            .at(Level::Weak)
            .sure(Certainty::Concluded)
            .by_hand(format!(
                "ip address flush dev {name} (rtwire apply does, and undoes)"
            )),
        );
    }
    if interface.link.arp() && interface.link.up() {
        let wanted = Wanted {
            subject: Subject::Arp {
                interface: name.clone(),
            },
            to: Value::Flag(false),
        };
        let finding = Finding::good(
            AREA,
            "talkers.arp",
            "the interface resolves addresses (ARP)",
            "it answers requests of other hosts at any moment, and its first frame to a host waits for an answer",
        )
        .at(if shown.is_empty() {
            Level::Note
        } else {
            Level::Weak
        });
        findings.push(if reached {
            finding.by_hand(wanted.command())
        } else {
            finding.fixed_by(vec![wanted])
        });
    }
    findings
}

pub(super) fn listeners(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let name = &interface.link.name;
    let mut findings = Vec::new();
    let groups = groups(facts, interface);
    if !groups.is_empty() {
        findings.push(
            Finding::good(
                AREA,
                "talkers.multicast",
                format!("programs joined {}", groups.join(", ")),
                "a program that joins a group also reports it to the network, and usually sends to it (mDNS, SSDP, PTP)",
            )
            .at(Level::Weak)
            .by_hand(format!("find the programs: ip maddress show dev {name}; ss -uapn")),
        );
    }
    let programs: Vec<&(&str, &str)> = PROGRAMS
        .iter()
        .filter(|(program, _)| {
            facts
                .processes
                .iter()
                .any(|process| process.same_network && process.name == *program)
        })
        .collect();
    for (program, remedy) in programs {
        findings.push(
            Finding::good(
                AREA,
                &format!("talkers.{}", program.to_lowercase()),
                format!("{program} is running"),
                "it sends on every interface, or changes its settings, unless told to leave it alone",
            )
            .at(Level::Weak)
            .sure(Certainty::Concluded)
            .by_hand(remedy.replace("{}", name)),
        );
    }
    let all = captures(facts, interface);
    if all > 0 {
        findings.push(
            Finding::good(
                AREA,
                "talkers.capture",
                format!(
                    "{all} socket(s) take a copy of every frame (a capture, or a discovery daemon)"
                ),
                "each frame is copied for it first",
            )
            .at(Level::Weak)
            .by_hand("find its owner: ss -0 -p"),
        );
    }
    findings
}

/// Returns the IPv4 groups that programs joined on the interface, without the group of all hosts.
fn groups(facts: &Facts, interface: &InterfaceFacts) -> Vec<String> {
    const ALL_HOSTS: u32 = 0xe000_0001;
    let Some(table) = facts.files.read("/proc/thread-self/net/igmp") else {
        return Vec::new();
    };
    let mut inside = false;
    let mut found = Vec::new();
    for line in table.lines().skip(1) {
        if line.starts_with(char::is_whitespace) {
            let group = line.split_whitespace().next().unwrap_or_default();
            if let (true, Ok(group)) = (inside, u32::from_str_radix(group, 16)) {
                // The table shows the bytes as this machine stores them.
                let group = u32::from_be_bytes(group.to_ne_bytes());
                if group != ALL_HOSTS {
                    found.push(std::net::Ipv4Addr::from(group).to_string());
                }
            }
        } else {
            let index = line.split_whitespace().next().unwrap_or_default();
            inside = index.parse() == Ok(interface.link.index);
        }
    }
    found
}

/// Returns the packet sockets for all protocols, on this interface or on all.
fn captures(facts: &Facts, interface: &InterfaceFacts) -> usize {
    let table = facts.files.read("/proc/thread-self/net/packet");
    table
        .unwrap_or_default()
        .lines()
        .skip(1)
        .filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let all = fields.get(3) == Some(&"0003");
            let index: Option<u32> = fields.get(4).and_then(|text| text.parse().ok());
            all && index.is_some_and(|index| index == 0 || index == interface.link.index)
        })
        .count()
}

pub(super) fn firewall(facts: &Facts) -> Vec<Finding> {
    if facts.interface.is_none() {
        return Vec::new();
    }
    let id = "talkers.firewall";
    let why = "UDP streams and PTP over UDP pass it: its rules are compared with each frame and may drop it; raw frames \
    pass only tables of `netdev` and `bridge`";
    let mut found = facts.filter_tables.clone().unwrap_or_default();
    // The older filter lists its tables only once a rule was loaded.
    if let Some(names) = facts.files.said("/proc/thread-self/net/ip_tables_names") {
        found.extend(names.lines().map(|name| format!("iptables {name}")));
    }
    if found.is_empty() {
        return vec![Finding::good(AREA, id, "no packet filter", why)];
    }
    vec![
        Finding::good(
            AREA,
            id,
            format!("packet filter tables: {}", found.join(", ")),
            why,
        )
        .at(Level::Weak)
        .by_hand("nft list ruleset; allow the streams' ports, and UDP 319 and 320 for PTP"),
    ]
}
