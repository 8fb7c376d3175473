//! Native XDP: what the driver's present settings take from the receive program, and the program that is there.

use super::{Area, Facts, Finding, InterfaceFacts, Level};
use rtwire_sys::bpf::attached;
use rtwire_sys::netdev;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bit of a driver's features for XDP programs in native mode.
const NATIVE: u64 = 1;
/// Bytes of a frame beside its MTU: header, one VLAN tag.
const BESIDE_MTU: u32 = 18;
/// The folder of the names that hold a receive program (`rtwire attach`).
const HELD: &str = "/sys/fs/bpf/rtwire";

/// Largest MTU for a program in native mode that takes frames of one buffer, by driver, in bytes: where it was tried.
const LONGEST: [(&str, u32); 1] = [("veth", 3506)];
/// An upper bound for other drivers: a page without the room that programs and the kernel have in it. A driver may accept
/// less.
const LONGEST_ELSEWHERE: u32 = 4096 - 256 - 320 - BESIDE_MTU;

/// The program at an interface, as far as this process may see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramThere {
    /// Name, number and mode.
    pub told: String,
    /// True if `rtwire attach` holds one there.
    pub held: bool,
}

impl ProgramThere {
    /// Looks at the interface with this index, in the calling thread's network namespace.
    pub(super) fn at(index: u32) -> Option<Self> {
        attached::program_at(index).ok().flatten()?;
        let namespace = rtwire_sys::netns::own().and_then(|file| file.metadata());
        let namespace = namespace.map_or(0, |metadata| metadata.ino());
        let name = format!("receive-{namespace}-{index}");
        Some(Self {
            told: attached::describe(index),
            held: Path::new(HELD).join(name).exists(),
        })
    }
}

fn is_native(interface: &InterfaceFacts) -> bool {
    interface
        .xdp
        .is_some_and(|abilities| abilities.features & NATIVE != 0)
}

fn driver(interface: &InterfaceFacts) -> &str {
    interface.driver.as_deref().unwrap_or_default()
}

/// Checks for VLAN tags that the card takes out of a frame before the program sees it.
pub(super) fn hidden_tags(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = facts.interface.as_ref().filter(|it| is_native(it)) else {
        return Vec::new();
    };
    let id = "driver.hidden_tags";
    let why = "an answer from the driver has the VLAN and the priority of its question only if the program sees its tag";
    // The kernel's name of `rx-vlan-offload`.
    if !interface.offloads.active.contains("rx-vlan-hw-parse") {
        let found = "VLAN tags stay in received frames";
        return vec![Finding::good(Area::Driver, id, found, why)];
    }
    let tells = interface
        .xdp
        .is_some_and(|abilities| abilities.rx_metadata & netdev::RECEIVE_TAGS != 0);
    if tells {
        let found = "the driver takes VLAN tags out of frames, and tells them to the program";
        return vec![Finding::good(Area::Driver, id, found, why)];
    }
    let name = driver(interface);
    if name == "veth" {
        let found = "before Linux 6.8, the program does not see a tag that a VLAN link of the other end adds";
        return vec![Finding::good(Area::Driver, id, found, why).at(Level::Note)];
    }
    vec![
        Finding::good(
            Area::Driver,
            id,
            format!(
                "`{name}` takes VLAN tags out of frames and does not tell them: `rtwire respond` answers with a packet socket"
            ),
            why,
        )
        .at(Level::Note)
        .by_hand(format!(
            "ethtool -K {} rx-vlan-offload off (some drivers take the link down for that)",
            interface.link.name
        )),
    ]
}

/// Checks for an MTU that keeps the program out of the driver.
pub(super) fn long_frames(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = facts.interface.as_ref().filter(|it| is_native(it)) else {
        return Vec::new();
    };
    let name = driver(interface);
    let known = LONGEST.iter().find(|(one, _)| *one == name);
    let longest = known.map_or(LONGEST_ELSEWHERE, |(_, longest)| *longest);
    let mtu = interface.link.mtu;
    if mtu <= longest {
        return Vec::new();
    }
    vec![
        Finding::good(
            Area::Driver,
            "driver.native_mtu",
            format!(
                "an MTU of {mtu}: the receive program runs in `{name}` up to {longest} at most"
            ),
            "beyond that the program is generic: it runs behind the driver, and costs more",
        )
        .at(Level::Note)
        .by_hand(format!("ip link set {} mtu {longest}", interface.link.name)),
    ]
}

/// Checks for the program that is attached.
pub(super) fn program(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = facts.interface.as_ref() else {
        return Vec::new();
    };
    let link = &interface.link;
    let mode = match link.xdp_attached {
        0 => return Vec::new(),
        1 => "in the driver",
        2 => "as generic XDP",
        3 => "in hardware",
        _ => "in several places",
    };
    let id = "interface.program";
    let Some(there) = &interface.program else {
        return vec![told(
            id,
            format!("an XDP program is attached {mode}"),
            &link.name,
        )];
    };
    if there.held {
        return vec![Finding::good(
            Area::Interface,
            id,
            format!("`rtwire attach` keeps the receive program {mode}"),
            "listeners and responders share it, and change nothing at the link when they start and stop",
        )];
    }
    if there.told.contains("`xdp_dispatcher`") {
        return vec![
            Finding::good(
                Area::Interface,
                id,
                format!("the dispatcher of libxdp is attached {mode}: {}", there.told),
                "its programs see every frame first; the receive program is not loaded into a dispatcher, and packet sockets serve instead",
            )
            .at(Level::Weak)
            .by_hand(format!("xdp-loader unload {} --all", link.name)),
        ];
    }
    let found = format!("an XDP program is attached {mode}: {}", there.told);
    vec![told(id, found, &link.name)]
}

fn told(id: &str, found: String, name: &str) -> Finding {
    Finding::good(
        Area::Interface,
        id,
        found,
        "it sees every frame first and may drop it; the receive program cannot be attached beside another one",
    )
    .at(Level::Weak)
    .by_hand(format!(
        "find its owner: bpftool net show dev {name}; remove it: ip link set {name} xdp off"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{LinkFacts, Offloads, XdpAbilities};

    fn facts(driver: &str, mtu: u32, metadata: u64, active: &[&str]) -> Facts {
        let interface = InterfaceFacts {
            link: LinkFacts {
                name: "eth0".to_owned(),
                mtu,
                ..LinkFacts::default()
            },
            driver: Some(driver.to_owned()),
            offloads: Offloads {
                active: active.iter().map(|&name| name.to_owned()).collect(),
                ..Offloads::default()
            },
            xdp: Some(XdpAbilities {
                features: NATIVE,
                rx_metadata: metadata,
                ..XdpAbilities::default()
            }),
            ..InterfaceFacts::default()
        };
        Facts {
            files: crate::files::Files::default(),
            processes: Vec::new(),
            kinds: std::collections::BTreeMap::new(),
            umans: Vec::new(),
            filter_tables: None,
            core: std::collections::BTreeMap::new(),
            applied: false,
            interface: Some(interface),
        }
    }

    #[test]
    fn tags_that_a_driver_hides_are_named_unless_it_tells_them() {
        let offload = "rx-vlan-hw-parse";
        for (driver, metadata, active, level) in [
            ("igb", 0, &[offload][..], Level::Note),
            ("igb", 0, &[], Level::Good),
            ("mlx5_core", 4, &[offload], Level::Good),
            ("igc", 3, &[offload], Level::Note),
        ] {
            let found = hidden_tags(&facts(driver, 1500, metadata, active)).remove(0);
            assert_eq!(found.level, level, "{driver}: {}", found.found);
            let remedy = found.remedy.map_or(String::new(), |remedy| remedy.command);
            let says = remedy.starts_with("ethtool -K eth0 rx-vlan-offload off");
            assert_eq!(says, level == Level::Note, "{remedy}");
        }
        // A driver without native mode hides nothing from a generic program's answer.
        let mut generic = facts("e1000e", 1500, 0, &[offload]);
        if let Some(interface) = &mut generic.interface {
            interface.xdp = Some(XdpAbilities::default());
        }
        assert!(hidden_tags(&generic).is_empty());
    }

    #[test]
    fn an_mtu_beyond_native_mode_is_named() {
        for (driver, longest) in LONGEST
            .into_iter()
            .chain([("mlx5_core", LONGEST_ELSEWHERE)])
        {
            assert!(long_frames(&facts(driver, longest, 0, &[])).is_empty());
            let found = long_frames(&facts(driver, longest + 1, 0, &[])).remove(0);
            assert!(found.found.contains(driver), "{}", found.found);
            assert_eq!(found.level, Level::Note);
        }
    }

    #[test]
    fn the_program_that_is_there_is_named() {
        let of = |told: &str, held| {
            let mut facts = facts("igb", 1500, 0, &[]);
            if let Some(interface) = &mut facts.interface {
                interface.link.xdp_attached = 1;
                interface.program = Some(ProgramThere {
                    told: told.to_owned(),
                    held,
                });
            }
            let found = program(&facts).remove(0);
            (found.level, found.found)
        };
        assert_eq!(
            of("`receive`, number 3, in native mode", true).0,
            Level::Good
        );
        let (level, found) = of("`guard`, number 3, in native mode", false);
        assert!(
            level == Level::Weak && found.contains("`guard`, number 3"),
            "{found}"
        );
        let (level, found) = of("`xdp_dispatcher`, number 3, in native mode", false);
        assert!(level == Level::Weak && found.contains("libxdp"), "{found}");
    }
}
