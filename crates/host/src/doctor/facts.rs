//! The facts that the checks use, gathered once.

use std::collections::BTreeMap;

use super::native::ProgramThere;
use crate::HostError;
use crate::change::{self, Record};
use crate::files::Files;
use crate::netlink::{
    Address, LinkFacts, Napi, Netlink, Offloads, Parameters, Qdisc, Route, TimeStamping, UmanLink,
    VlanFacts, XdpAbilities,
};

/// The known facts of this host.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// `/proc` and `/sys`.
    pub files: Files,
    /// The interface asked for.
    pub interface: Option<InterfaceFacts>,
    /// The processes of this machine.
    pub processes: Vec<Process>,
    /// The kernel's queueing disciplines, and `vlan` links: whether it has each. Kinds that could not be tried have no
    /// entry.
    pub kinds: BTreeMap<&'static str, bool>,
    /// The devices of the kernel module `uman` in this network namespace.
    pub umans: Vec<UmanLink>,
    /// The tables of the packet filter; `None` if the kernel has no such filter or does not tell.
    pub filter_tables: Option<Vec<String>>,
    /// The whole machine's network settings (`net.core`) by their names; those that are not shown are missing.
    pub core: BTreeMap<&'static str, i64>,
    /// True if `rtwire apply` set the interface up: there is a record of it.
    pub applied: bool,
}

/// The facts of one interface.
#[derive(Clone, Debug, Default)]
pub struct InterfaceFacts {
    /// Name, flags, counters.
    pub link: LinkFacts,
    /// The driver's name.
    pub driver: Option<String>,
    /// The names of the links on it, such as VLAN links.
    pub upper: Vec<String>,
    /// The links that depend on it, also by others in between, each with its MTU in bytes. The last ones depend on those
    /// before them.
    pub children: Vec<(String, u32)>,
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// The routes on it.
    pub routes: Vec<Route>,
    /// Its queueing disciplines.
    pub qdiscs: Vec<Qdisc>,
    /// Its offloads.
    pub offloads: Offloads,
    /// Its driver settings: rings, queues, coalescing, pause, energy saving.
    pub parameters: BTreeMap<Parameters, BTreeMap<&'static str, u64>>,
    /// Its timestamps.
    pub time_stamping: TimeStamping,
    /// Its speed, Mbit/s.
    pub speed_mbps: Option<u64>,
    /// True if it is full duplex.
    pub full_duplex: Option<bool>,
    /// Its receive contexts.
    pub napis: Vec<Napi>,
    /// Its driver's XDP abilities.
    pub xdp: Option<XdpAbilities>,
    /// The other end of its cable, if that is a veth and shown here.
    pub partner: Option<LinkFacts>,
    /// Other interfaces of this namespace with its hardware address: index and name. Those that belong to it are left out.
    pub namesakes: Vec<(u32, String)>,
    /// Its neighbours that are known by a hardware address.
    pub neighbours: Vec<(String, Vec<u8>)>,
    /// The VLAN links on it, with the PCP of frames by their socket's priority.
    pub vlans: Vec<(String, VlanFacts)>,
    /// The XDP program that is attached to it.
    pub program: Option<ProgramThere>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// True if it is in our network namespace, or if that is unknown.
    pub same_network: bool,
    /// Its threads under a real-time policy.
    pub real_time: Vec<Task>,
}

/// A thread under a real-time policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The policy: 1 for SCHED_FIFO, 2 for SCHED_RR, 6 for SCHED_DEADLINE.
    pub policy: u32,
    /// The priority, 1 to 99.
    pub priority: u32,
}

/// The kinds of queueing disciplines that a plan may ask for.
pub(crate) const KINDS: [&str; 6] = ["mqprio", "etf", "taprio", "cbs", "htb", "tbf"];

impl Facts {
    /// Gathers the facts of this machine. Facts that need root stay unknown without it.
    ///
    /// # Errors
    /// There is no interface of this name, or the kernel does not answer at all.
    pub fn gather(interface: Option<&str>) -> Result<Self, HostError> {
        let files = Files::default();
        let mut netlink = Netlink::new();
        let interface = match interface {
            Some(name) => Some(InterfaceFacts::gather(&mut netlink, name)?),
            None => None,
        };
        Ok(Self {
            processes: processes(&files),
            kinds: kinds(),
            filter_tables: netlink.filter_tables(),
            umans: netlink.umans().unwrap_or_default(),
            core: core(&files),
            applied: interface
                .as_ref()
                .is_some_and(|one| recorded(&one.link.name)),
            interface,
            files,
        })
    }
}

impl InterfaceFacts {
    fn gather(netlink: &mut Netlink, name: &str) -> Result<Self, HostError> {
        let Some(link) = netlink.link(name)? else {
            let there = netlink.links()?;
            return Err(HostError::NoInterface {
                name: name.to_owned(),
                there: there.into_iter().map(|link| link.name).collect(),
            });
        };
        let mut parameters = BTreeMap::new();
        for group in [
            Parameters::Rings,
            Parameters::Channels,
            Parameters::Coalescing,
            Parameters::Pause,
            Parameters::EnergySaving,
        ] {
            parameters.insert(group, netlink.parameters(group, name).unwrap_or_default());
        }
        let links = netlink.links()?;
        let (speed_mbps, full_duplex) = netlink.link_mode(name).unwrap_or_default();
        Ok(Self {
            driver: rtwire_sys::interface::driver(name).ok().flatten(),
            upper: upper(&links, link.index)
                .map(|one| one.name.clone())
                .collect(),
            children: children(&links, link.index),
            partner: netlink.partner(&link),
            namesakes: namesakes(&links, &link),
            neighbours: netlink.neighbours(link.index).unwrap_or_default(),
            vlans: vlans(netlink, &links, link.index),
            addresses: netlink.addresses(link.index)?,
            routes: netlink.routes(link.index, &[])?,
            qdiscs: netlink.qdiscs(link.index)?,
            offloads: netlink.offloads(name).unwrap_or_default(),
            time_stamping: netlink.time_stamping(name).unwrap_or_default(),
            napis: netlink.napis(link.index).unwrap_or_default(),
            xdp: netlink.xdp_abilities(link.index),
            program: ProgramThere::at(link.index),
            parameters,
            speed_mbps,
            full_duplex,
            link,
        })
    }

    /// Returns a driver setting; `None` where the driver does not have it.
    #[must_use]
    pub fn parameter(&self, group: Parameters, name: &str) -> Option<u64> {
        self.parameters.get(&group)?.get(name).copied()
    }
}

/// Returns the links on an interface. The far end of a veth is none.
fn upper(links: &[LinkFacts], index: u32) -> impl Iterator<Item = &LinkFacts> {
    let own = links.iter().filter(move |one| one.lower == Some(index));
    own.filter(|one| one.kind.as_deref() != Some("veth"))
}

/// Returns the links that depend on an interface, nearest first.
fn children(links: &[LinkFacts], index: u32) -> Vec<(String, u32)> {
    let mut found: Vec<&LinkFacts> = upper(links, index).collect();
    let mut at = 0;
    // Each link is listed once, so this ends even if the kernel reported a ring.
    while let Some(one) = found.get(at) {
        let next: Vec<&LinkFacts> = upper(links, one.index).collect();
        for one in next {
            if !found.iter().any(|other| other.index == one.index) {
                found.push(one);
            }
        }
        at += 1;
    }
    found
        .iter()
        .map(|one| (one.name.clone(), one.mtu))
        .collect()
}

/// Returns other interfaces with a hardware address. Links on it, links below it and ports of one bond share theirs by design.
fn namesakes(links: &[LinkFacts], own: &LinkFacts) -> Vec<(u32, String)> {
    if own.address.iter().all(|byte| *byte == 0) {
        return Vec::new();
    }
    let on_it = children(links, own.index);
    let of_one = |other: &LinkFacts| {
        own.lower == Some(other.index)
            || own.master == Some(other.index)
            || other.master == Some(own.index)
            || (own.master.is_some() && own.master == other.master)
            || on_it.iter().any(|(name, _)| *name == other.name)
    };
    let same = links
        .iter()
        .filter(|other| other.index != own.index && other.address == own.address && !of_one(other));
    same.map(|other| (other.index, other.name.clone()))
        .collect()
}

fn vlans(netlink: &mut Netlink, links: &[LinkFacts], index: u32) -> Vec<(String, VlanFacts)> {
    let own = upper(links, index).filter(|one| one.kind.as_deref() == Some("vlan"));
    let known = own.filter_map(|one| Some((one.name.clone(), netlink.vlan(&one.name).ok()??)));
    known.collect()
}

/// Reads the machine's settings. Network namespaces show a few of them; the first process's namespace shows all.
pub(crate) fn core(files: &Files) -> BTreeMap<&'static str, i64> {
    const NAMES: [&str; 5] = [
        "netdev_max_backlog",
        "rmem_default",
        "rmem_max",
        "wmem_default",
        "wmem_max",
    ];
    let read = || {
        let known = NAMES.into_iter().filter_map(|name| {
            let value = files.number(&format!("/proc/sys/net/core/{name}"))?;
            Some((name, value))
        });
        known.collect::<BTreeMap<_, _>>()
    };
    let own = read();
    if own.len() == NAMES.len() || !files.are_real() {
        return own;
    }
    let first = std::fs::File::open("/proc/1/ns/net");
    first
        .and_then(|first| rtwire_sys::netns::inside(&first, read))
        .unwrap_or(own)
}

/// Returns whether `rtwire apply` has an undo record of an interface, also one made in the namespace that the interface came from.
fn recorded(interface: &str) -> bool {
    let directory = change::default_directory();
    let names = Files::default().list(&directory.to_string_lossy());
    let end = format!("-{interface}.undo");
    Record::name_for(&directory, interface).is_some()
        || names.iter().any(|name| name.ends_with(&end))
}

/// Tries the kinds that the kernel has, in a temporary namespace of its own.
pub(crate) fn kinds() -> BTreeMap<&'static str, bool> {
    let found = rtwire_sys::netns::in_nameless(|| {
        let mut netlink = Netlink::new();
        let mut found = BTreeMap::new();
        for kind in KINDS {
            if let Some(known) = netlink.knows_qdisc(kind) {
                found.insert(kind, known);
            }
        }
        if let Some(known) = netlink.knows_link("vlan") {
            found.insert("vlan", known);
        }
        found
    });
    found.unwrap_or_default()
}

/// Returns the processes of this machine, without those that end meanwhile.
pub(crate) fn processes(files: &Files) -> Vec<Process> {
    let own = files.link("/proc/thread-self/ns/net");
    files
        .list("/proc")
        .into_iter()
        .filter_map(|entry| {
            let pid: u32 = entry.parse().ok()?;
            let name = files.read(&format!("/proc/{pid}/comm"))?;
            let theirs = files.link(&format!("/proc/{pid}/ns/net"));
            Some(Process {
                pid,
                name,
                same_network: own.is_none() || theirs.is_none() || own == theirs,
                real_time: files
                    .list(&format!("/proc/{pid}/task"))
                    .iter()
                    .filter_map(|tid| task(files, pid, tid))
                    .collect(),
            })
        })
        .collect()
}

fn task(files: &Files, pid: u32, tid: &str) -> Option<Task> {
    let stat = files.read(&format!("/proc/{pid}/task/{tid}/stat"))?;
    // The name may contain blanks and parentheses: the next field begins after the last parenthesis.
    let (before, after) = stat.rsplit_once(')')?;
    // Fields 40 and 41 of proc(5); the first field after the name is field 3.
    let fields: Vec<&str> = after.split_whitespace().collect();
    let priority: u32 = fields.get(37)?.parse().ok()?;
    let policy: u32 = fields.get(38)?.parse().ok()?;
    const FIFO: u32 = 1;
    const ROUND_ROBIN: u32 = 2;
    const DEADLINE: u32 = 6;
    [FIFO, ROUND_ROBIN, DEADLINE]
        .contains(&policy)
        .then(|| Task {
            tid: tid.parse().unwrap_or(0),
            name: before.split_once('(').map_or("", |(_, n)| n).to_owned(),
            policy,
            priority,
        })
}
