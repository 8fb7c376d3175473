//! The queueing disciplines of an interface, as the kernel reports them, and those that a socket's frames pass.
//!
//! This module only reads; it needs no privilege.

use crate::error::Result;
use crate::interface::Interface;
use crate::netlink::{self, Question, attributes};

/// One queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Its handle, major number in the upper half; 0 for one that the kernel created by itself.
    pub handle: u32,
    /// The class above it; [`ROOT`] for the interface's own.
    pub parent: u32,
    /// Its name: `etf`, `mqprio`, `noqueue` …
    pub kind: String,
    /// The settings that decide about launch times.
    pub details: Details,
}

/// The parent of an interface's root discipline.
pub const ROOT: u32 = u32::MAX;

/// The settings of a discipline that decide about launch times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Details {
    /// Earliest time first.
    Etf(Etf),
    /// mqprio or TAPRIO: hardware queues by priority.
    Queues(QueueMap),
    /// Any other discipline.
    Other,
}

/// Settings of ETF (`struct tc_etf_qopt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Etf {
    /// The time before its launch time at which a frame is handed to the driver, ns.
    pub delta_ns: i32,
    /// The clock's number; 11 is CLOCK_TAI.
    pub clock: i32,
    /// Launch times are deadlines.
    pub deadline: bool,
    /// The card keeps the frame until its time.
    pub offload: bool,
    /// ETF does not check the socket that a frame comes from (below TAPRIO).
    pub skip_socket_check: bool,
}

/// The hardware queues of each priority (`struct tc_mqprio_qopt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueMap {
    class_of: [u8; 16],
    count: [u16; 16],
    offset: [u16; 16],
}

impl QueueMap {
    /// Returns the queues for frames of a socket priority, from 0 on. Priorities above 15 count by their lower four
    /// bits.
    #[must_use]
    pub fn queues(&self, priority: u32) -> std::ops::Range<u32> {
        let class = usize::from(self.class_of[(priority & 15) as usize] & 15);
        let first = u32::from(self.offset[class]);
        first..first + u32::from(self.count[class])
    }

    /// Reads `struct tc_mqprio_qopt`; `None` if it is cut short.
    #[must_use]
    pub fn decode(octets: &[u8]) -> Option<Self> {
        // num_tc 1, prio_tc_map 16, hw 1, count 16 × 2, offset 16 × 2.
        let words = |at: usize| -> Option<[u16; 16]> {
            let mut words = [0; 16];
            for (word, pair) in words
                .iter_mut()
                .zip(octets.get(at..at + 32)?.chunks_exact(2))
            {
                *word = u16::from_ne_bytes([pair[0], pair[1]]);
            }
            Some(words)
        };
        Some(Self {
            class_of: octets.get(1..17)?.try_into().ok()?,
            count: words(18)?,
            offset: words(50)?,
        })
    }
}

/// Returns all disciplines of an interface, except those that the kernel itself puts below others.
///
/// # Errors
/// The kernel refuses a netlink socket or the request.
pub fn of(interface: &Interface) -> Result<Vec<Qdisc>> {
    const RTM_NEWQDISC: u16 = 36;
    const RTM_GETQDISC: u16 = 38;
    let question = Question {
        call: "RTM_GETQDISC",
        protocol: libc::NETLINK_ROUTE,
        kind: RTM_GETQDISC,
        dump: true,
        // struct tcmsg; its first byte is the family: none.
        body: &[0; 20],
    };
    let object = format!("queueing disciplines of interface `{}`", interface.name);
    let mut found = Vec::new();
    netlink::ask(&question, &object, |kind, body| {
        if kind == RTM_NEWQDISC {
            found.extend(decode(body, interface.index));
        }
    })?;
    Ok(found)
}

/// Reads one RTM_NEWQDISC; `None` if it is of another interface.
pub(crate) fn decode(body: &[u8], interface: u32) -> Option<Qdisc> {
    const TCA_KIND: u16 = 1;
    const TCA_OPTIONS: u16 = 2;
    let word = |at: usize| {
        let octets = body.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(octets))
    };
    if word(4)? != interface {
        return None;
    }
    let (mut kind, mut options) = (String::new(), [].as_slice());
    for (which, value) in attributes(body.get(20..)?) {
        match which {
            TCA_KIND => {
                let text = value.split(|&octet| octet == 0).next().unwrap_or(&[]);
                kind = String::from_utf8_lossy(text).into_owned();
            }
            TCA_OPTIONS => options = value,
            _ => {}
        }
    }
    let first = |wanted| attributes(options).find_map(|(k, v)| (k == wanted).then_some(v));
    let details = match kind.as_str() {
        "etf" => first(1).and_then(decode_etf).map(Details::Etf),
        "taprio" => first(1).and_then(QueueMap::decode).map(Details::Queues),
        "mqprio" => QueueMap::decode(options).map(Details::Queues),
        _ => None,
    };
    Some(Qdisc {
        handle: word(8)?,
        parent: word(12)?,
        kind,
        details: details.unwrap_or(Details::Other),
    })
}

fn decode_etf(octets: &[u8]) -> Option<Etf> {
    let word = |at: usize| octets.get(at..at + 4)?.try_into().ok();
    let flags = u32::from_ne_bytes(word(8)?);
    Some(Etf {
        delta_ns: i32::from_ne_bytes(word(0)?),
        clock: i32::from_ne_bytes(word(4)?),
        deadline: flags & 1 != 0,
        offload: flags & 2 != 0,
        skip_socket_check: flags & 4 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface;
    use crate::netlink::tests::some_octets;

    #[test]
    fn the_loopback_has_a_root_discipline() {
        let lo = interface::by_name("lo").unwrap();
        let found = of(&lo).unwrap();
        assert!(
            found.iter().any(|q| q.parent == ROOT && !q.kind.is_empty()),
            "{found:?}"
        );
    }

    #[test]
    fn any_octets_end_the_parser() {
        for length in 0..200 {
            let _ = decode(&some_octets(length, length as u64), 0);
        }
    }

    #[test]
    fn priorities_find_their_queues() {
        let mut octets = [0_u8; 82];
        octets[0] = 2;
        octets[1 + 3] = 1;
        octets[18..20].copy_from_slice(&3_u16.to_ne_bytes());
        octets[20..22].copy_from_slice(&1_u16.to_ne_bytes());
        octets[52..54].copy_from_slice(&3_u16.to_ne_bytes());
        let map = QueueMap::decode(&octets).unwrap();
        assert_eq!(map.queues(0), 0..3);
        assert_eq!(map.queues(3), 3..4);
        assert_eq!(map.queues(19), 3..4);
        assert_eq!(QueueMap::decode(&octets[..81]), None);
    }
}
