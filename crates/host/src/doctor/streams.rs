//! Each stream of a plan, followed through the queues that are really there: what becomes of its frames. Pure.
//!
//! A queue is judged by what it does, not by its kind. The stream's priority leads to a class; other traffic may share it,
//! gates may close it, and disciplines may be below it.

mod classify;

use std::collections::BTreeMap;

use super::{Area, Examination, Finding, Level};
use crate::HostError;
use crate::apply::{Share, SharedStream};
use crate::netlink::{Discipline, Gate, Netlink, Queue, Tree};

const CLOCK_TAI: u64 = 11;
/// The smallest frame without FCS, bytes.
const SMALLEST_FRAME: u64 = 60;

/// A VLAN link on the interface.
#[derive(Clone, Debug)]
pub struct VlanLink {
    /// Its name.
    pub name: String,
    /// Its VLAN.
    pub id: u16,
    /// The PCP of frames by their socket's priority; 0 where there is no entry.
    pub egress: BTreeMap<u32, u8>,
    /// Its MTU, bytes.
    pub mtu: u32,
    /// True if it is up.
    pub up: bool,
    /// Its own queues.
    pub queues: Tree,
}

/// Returns the VLAN links on an interface.
///
/// # Errors
/// The kernel refuses to tell.
pub fn vlan_links(netlink: &mut Netlink, index: u32) -> Result<Vec<VlanLink>, HostError> {
    let mut found = Vec::new();
    for link in netlink.links()? {
        if link.lower != Some(index) || link.kind.as_deref() != Some("vlan") {
            continue;
        }
        if let Some((id, egress)) = netlink.vlan(&link.name)? {
            found.push(VlanLink {
                id,
                egress,
                mtu: link.mtu,
                up: link.up(),
                queues: netlink.tree(link.index)?,
                name: link.name,
            });
        }
    }
    Ok(found)
}

/// The path of one stream's frames.
#[derive(Debug, Default)]
struct Way {
    /// Its steps in words.
    steps: Vec<String>,
    /// The reasons why its promise does not hold.
    faults: Vec<String>,
    /// The class, as a number that other streams' ways are compared with.
    class: Option<u32>,
}

/// Follows the streams that a host sends, and its other traffic, through the queues of its interface. One finding for each
/// stream, `streams.NAME`: its class, how long that is open, and what is wrong on the way. `mtu` in bytes; `vlans` are the VLAN
/// links on the interface.
#[must_use]
pub fn follow(
    share: &Share,
    interface: &str,
    mtu: u32,
    tree: &Tree,
    vlans: &[VlanLink],
) -> Vec<Finding> {
    let ways: Vec<Way> = share
        .sends
        .iter()
        .map(|one| way(share, one, tree))
        .collect();
    let other = classify::best_effort(tree);
    let all = share.sends.iter().zip(ways);
    let mut with_class: Vec<(&SharedStream, Way)> = all.collect();
    let classes: Vec<(String, u8, Option<u32>)> = with_class
        .iter()
        .map(|(stream, way)| (stream.name.clone(), stream.class, way.class))
        .collect();
    for (stream, way) in &mut with_class {
        let same = |class: Option<u32>| class.is_some() && class == way.class;
        let with = classes
            .iter()
            .find(|(_, planned, class)| *planned != stream.class && same(*class));
        if let Some((name, ..)) = with {
            way.faults.push(format!(
                "it shares the class with stream {name}, which the plan puts into another"
            ));
        }
        if stream.class > 0 && same(other) {
            way.faults
                .push("it shares the class with all other traffic of this host".to_owned());
        }
        // Raw frames are sent on the interface itself and carry their tag already.
        if let Some(vlan) = stream.vlan.filter(|_| stream.udp) {
            tagged(way, stream, interface, vlan, vlans);
        }
        if u64::from(mtu) + 14 < stream.frame_bytes {
            way.faults.push(format!(
                "its frames of {} B do not fit the MTU of {mtu}",
                stream.frame_bytes
            ));
        }
    }
    let findings = with_class.into_iter().map(|(stream, way)| {
        let mut found = format!("stream {}: {}", stream.name, way.steps.join(", "));
        for fault in &way.faults {
            found += &format!("; {fault}");
        }
        let finding = Finding::good(
            Area::Queues,
            &format!("streams.{}", stream.name),
            found,
            "the plan's promise holds only if its frames get the class, the gates and the rate that it counts with",
        );
        if way.faults.is_empty() {
            finding
        } else {
            finding.at(Level::Fault).by_hand(format!(
                "rtwire revert {interface}; rtwire apply PLAN --host {} --interface {interface}",
                share.host
            ))
        }
    });
    findings.collect()
}

impl Examination {
    /// Adds the findings about a plan's streams.
    pub fn followed(&mut self, findings: Vec<Finding>) {
        self.findings
            .retain(|one| one.id != super::queues::UNPLANNED);
        self.findings.extend(findings);
        self.findings.sort_by_key(|finding| finding.area);
        self.ready = !self.findings.iter().any(Finding::endangers);
    }
}

fn way(share: &Share, stream: &SharedStream, tree: &Tree) -> Way {
    let mut way = Way::default();
    let Some(root) = tree.queues.first() else {
        way.steps.push("no class of its own".to_owned());
        if share.classes > 1 {
            way.faults.push(
                "there are no classes: every frame waits behind those of all other traffic"
                    .to_owned(),
            );
        }
        return way;
    };
    match &root.discipline {
        Discipline::Mqprio { classes } | Discipline::Taprio { classes, .. } => {
            let class = classes
                .map
                .get(usize::from(stream.pcp))
                .copied()
                .unwrap_or(0);
            way.class = Some(u32::from(class));
            way.steps.push(format!("class {class}"));
            if let Discipline::Taprio {
                entries, cycle_ns, ..
            } = &root.discipline
            {
                gates(&mut way, share, stream, class, entries, *cycle_ns);
                clock(&mut way, root);
            }
            let (first, number) = classes
                .queues
                .get(usize::from(class))
                .copied()
                .unwrap_or((0, 0));
            for queue in first..first.saturating_add(number) {
                let place = (root.handle & 0xffff_0000) | (u32::from(queue) + 1);
                below(&mut way, stream, tree, place);
            }
        }
        Discipline::Htb { .. } => {
            let (class, known) = classify::class_of(tree, stream);
            way.class = Some(class);
            way.steps
                .push(format!("class {:x}:{:x}", class >> 16, class & 0xffff));
            match &tree.strange {
                _ if known => {}
                Some(strange) => way
                    .faults
                    .push(format!("its filters cannot be read: {strange}")),
                None => way
                    .faults
                    .push("no filter knows its frames: they are in the default class".to_owned()),
            }
            for one in &tree.queues {
                match &one.discipline {
                    Discipline::HtbClass { ceil_bytes, .. } if one.class && one.handle == class => {
                        let ceil_bps = u64::from(*ceil_bytes) * 8;
                        // The kernel's rate is in bytes a second, and the plan's counts the wire.
                        if ceil_bps + 8 < share.link_rate_bps {
                            way.faults.push(format!(
                                "its class is held to {ceil_bps} bit/s of {}",
                                share.link_rate_bps
                            ));
                        }
                    }
                    _ => {}
                }
            }
            below(&mut way, stream, tree, class);
        }
        other => {
            way.steps.push(format!("all in one {}", other.kind()));
            through(&mut way, stream, other);
            inside(&mut way, stream, tree, root.handle);
            if share.classes > 1 && way.faults.is_empty() {
                way.faults.push(format!(
                    "{} has no classes: every frame waits behind those of all other traffic",
                    other.kind()
                ));
            }
        }
    }
    way
}

/// Judges the gates over a class.
fn gates(
    way: &mut Way,
    share: &Share,
    stream: &SharedStream,
    class: u8,
    entries: &[Gate],
    cycle_ns: u64,
) {
    let open = |entry: &&Gate| entry.gates.checked_shr(u32::from(class)).unwrap_or(0) & 1 == 1;
    let sum = |entries: &mut dyn Iterator<Item = &Gate>| -> u64 {
        entries.map(|entry| u64::from(entry.duration_ns)).sum()
    };
    let whole_ns = sum(&mut entries.iter());
    let open_ns = sum(&mut entries.iter().filter(open));
    let closed_permille = (whole_ns - open_ns) * 1000 / whole_ns.max(1);
    way.steps.push(format!(
        "closed {}.{} % of the cycle",
        closed_permille / 10,
        closed_permille % 10
    ));
    if whole_ns != cycle_ns {
        way.faults.push(format!(
            "the gate list lasts {whole_ns} ns and its cycle {cycle_ns} ns"
        ));
    }
    if open_ns == 0 {
        way.faults
            .push("its class never opens: no frame leaves".to_owned());
        return;
    }
    // The list begins anew at its end: twice through it finds a window across that.
    let (mut longest_ns, mut window_ns) = (0, 0);
    for entry in entries.iter().chain(entries) {
        window_ns = match open(&entry) {
            true => window_ns + u64::from(entry.duration_ns),
            false => 0,
        };
        longest_ns = longest_ns.max(window_ns.min(whole_ns));
    }
    let wire_bits = (stream.frame_bytes.max(SMALLEST_FRAME) + share.overhead_bytes) * 8;
    let frame_ns =
        (u128::from(wire_bits) * 1_000_000_000).div_ceil(u128::from(share.link_rate_bps.max(1)));
    if u128::from(longest_ns) < frame_ns {
        way.faults.push(format!(
            "its longest window is {longest_ns} ns, its frame takes {frame_ns} ns"
        ));
    }
}

/// Judges the clock of the gates.
fn clock(way: &mut Way, root: &Queue) {
    const CLOCK: u16 = 5;
    let clock = root.option(CLOCK);
    if let Some(clock) = clock.filter(|clock| *clock != CLOCK_TAI) {
        way.faults.push(format!(
            "the gates follow clock {clock} of this host, not the network's time (CLOCK_TAI, {CLOCK_TAI})"
        ));
    }
}

/// Judges the discipline at a place, and those inside it.
fn below(way: &mut Way, stream: &SharedStream, tree: &Tree, place: u32) {
    let here = |one: &&Queue| !one.class && one.parent == place;
    if let Some(one) = tree.queues.iter().find(here) {
        through(way, stream, &one.discipline);
        inside(way, stream, tree, one.handle);
    }
}

/// Judges the disciplines inside another one, whose handle is given.
fn inside(way: &mut Way, stream: &SharedStream, tree: &Tree, handle: u32) {
    const MAJOR: u32 = 0xffff_0000;
    let within = |one: &&Queue| {
        let other = (one.handle ^ handle) & MAJOR != 0;
        !one.class && other && handle & MAJOR != 0 && one.parent & MAJOR == handle & MAJOR
    };
    // The tree lists each after its parent, so this goes down one level at a time, to the last.
    for one in tree.queues.iter().filter(within) {
        through(way, stream, &one.discipline);
        inside(way, stream, tree, one.handle);
    }
}

/// Judges the VLAN link that a stream of datagrams leaves by.
fn tagged(way: &mut Way, stream: &SharedStream, interface: &str, vlan: u16, vlans: &[VlanLink]) {
    let Some(link) = vlans.iter().find(|link| link.id == vlan) else {
        way.faults.push(format!(
            "no link of VLAN {vlan} is on {interface}: its datagrams leave without a tag"
        ));
        return;
    };
    let name = &link.name;
    way.steps.push(format!("VLAN link {name}"));
    if !link.up {
        way.faults.push(format!("the VLAN link {name} is down"));
    }
    let given = link
        .egress
        .get(&u32::from(stream.pcp))
        .copied()
        .unwrap_or(0);
    if given != stream.pcp {
        way.faults.push(format!(
            "the VLAN link {name} gives its frames priority {given}, not {}: its egress map lacks {1}:{1}",
            stream.pcp, stream.pcp
        ));
    }
    if u64::from(link.mtu) + 18 < stream.frame_bytes {
        way.faults.push(format!(
            "its frames of {} B do not fit the MTU of {} of {name}",
            stream.frame_bytes, link.mtu
        ));
    }
    let disciplines = link.queues.queues.iter().filter(|one| !one.class);
    for one in disciplines {
        through(way, stream, &one.discipline);
    }
}

/// Judges a discipline that the frames pass.
fn through(way: &mut Way, stream: &SharedStream, discipline: &Discipline) {
    match discipline {
        Discipline::Etf {
            delta_ns,
            skip_socket_check,
            ..
        } => {
            way.steps.push(format!("ETF with delta {delta_ns} ns"));
            if *delta_ns == 0 {
                way.faults
                    .push("ETF with delta 0 drops every frame as too late".to_owned());
            }
            if stream.launch.is_none() && !skip_socket_check {
                way.faults
                    .push("ETF drops its frames: the plan gives them no launch time".to_owned());
            }
        }
        Discipline::Tbf { rate_bytes, .. } => {
            let rate_bps = u64::from(*rate_bytes) * 8;
            way.steps.push(format!("limited to {rate_bps} bit/s"));
            if stream.class > 0 {
                way.faults.push(format!("tbf holds it to {rate_bps} bit/s"));
            }
        }
        Discipline::Cbs {
            idle_slope_kbps, ..
        } => way
            .steps
            .push(format!("credit of {idle_slope_kbps} kbit/s")),
        Discipline::Pfifo { .. } => {}
        other => {
            let kind = other.kind();
            way.steps.push(kind.to_owned());
            let harmless = ["pfifo_fast", "bfifo", "mq", "noqueue"].contains(&kind);
            if !harmless {
                way.faults
                    .push(format!("{kind} delays, drops or reorders its frames"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
