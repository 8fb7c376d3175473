//! The class that HTB's filters find for a stream's frames: the filters' words held against the frame's bytes.

use crate::apply::SharedStream;
use crate::netlink::{Discipline, Filter, Tree};

const VLAN: u16 = 0x8100;
const IPV4: u16 = 0x0800;
const RTDIP: u16 = 0x88b5;
const UDP: u8 = 17;

/// Returns the EtherType of a stream's frames and the bytes behind their Ethernet header, as far as filters look at them.
fn frame(stream: &SharedStream) -> (u16, [u8; 40]) {
    let mut bytes = [0; 40];
    if let Some(vlan) = stream.vlan {
        let tag = u16::from(stream.pcp & 7) << 13 | vlan;
        bytes[..2].copy_from_slice(&tag.to_be_bytes());
        return (VLAN, bytes);
    }
    if stream.udp {
        bytes[0] = 0x45;
        bytes[9] = UDP;
        bytes[22..24].copy_from_slice(&stream.port.to_be_bytes());
        return (IPV4, bytes);
    }
    bytes[1] = stream.pcp;
    (RTDIP, bytes)
}

fn matches(filter: &Filter, protocol: u16, bytes: &[u8]) -> bool {
    let word = |offset: i32| {
        let at = usize::try_from(offset).ok()?;
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_be_bytes(word.try_into().ok()?))
    };
    filter.protocol == protocol
        && filter
            .words
            .iter()
            .all(|(mask, value, offset)| word(*offset).is_some_and(|word| word & mask == *value))
}

/// Returns the class of a stream's frames, and true if a filter knows them.
pub(super) fn class_of(tree: &Tree, stream: &SharedStream) -> (u32, bool) {
    let (protocol, bytes) = frame(stream);
    let mut filters: Vec<&Filter> = tree.filters.iter().collect();
    filters.sort_by_key(|filter| filter.priority);
    let found = filters
        .into_iter()
        .find(|filter| matches(filter, protocol, &bytes));
    match found {
        Some(filter) => (filter.class, true),
        None => (default_class(tree), false),
    }
}

fn default_class(tree: &Tree) -> u32 {
    match tree
        .queues
        .first()
        .map(|root| (root.handle, &root.discipline))
    {
        Some((handle, Discipline::Htb { default_class })) => (handle & 0xffff_0000) | default_class,
        _ => 0,
    }
}

/// Returns the class of traffic that the plan does not know: of priority 0, and matched by no filter.
pub(super) fn best_effort(tree: &Tree) -> Option<u32> {
    match &tree.queues.first()?.discipline {
        Discipline::Mqprio { classes } | Discipline::Taprio { classes, .. } => {
            classes.map.first().map(|class| u32::from(*class))
        }
        Discipline::Htb { .. } => Some(default_class(tree)),
        _ => None,
    }
}
