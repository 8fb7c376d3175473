//! Launch times that the card itself observes, for frames that bypass the queueing discipline (AF_XDP).
//!
//! The kernel only passes such a time on. The driver reports whether it observes launch times (Linux 6.15: igc,
//! stmmac). A card observes them only on transmit queues where ETF has enabled that.

use super::{LaunchMode, LaunchQueue, Refusal, Wanted, judge, refused};
use crate::error::LinkError;
use rtwire_sys::interface::Interface;
use rtwire_sys::netdev;
use rtwire_sys::qdisc::{self, Details, Qdisc};

/// The first kernel with launch times for AF_XDP.
const FIRST_KERNEL: (u32, u32) = (6, 15);

/// Finds the transmit queue of `priority` on which the card holds frames until their launch time. Returns the queue's
/// number and its properties.
///
/// # Errors
/// [`LinkError::NoLaunch`], which names the queue found and the remedy.
pub fn card_queue(interface: &Interface, priority: u32) -> Result<(u32, LaunchQueue), LinkError> {
    let refuse = |refusal| refused(interface, priority, refusal);
    able(netdev::xsk_features(interface)?, &kernel_release()).map_err(refuse)?;
    numbered(&qdisc::of(interface)?, priority).map_err(refuse)
}

fn kernel_release() -> String {
    // Without /proc the release stays unknown; the driver's answer decides all the same.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

/// Returns `Ok` if the driver reports launch times; otherwise the error names the kernel or the driver.
fn able(features: Option<u64>, release: &str) -> Result<(), Refusal> {
    // A distribution may have ported them to an earlier kernel, so the driver's report comes first.
    if features.unwrap_or(0) & netdev::LAUNCH_TIME != 0 {
        return Ok(());
    }
    let (major, minor) = FIRST_KERNEL;
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|part| part.parse::<u32>().ok());
    let older = match (numbers.next(), numbers.next()) {
        (Some(first), Some(second)) => (first, second) < FIRST_KERNEL,
        _ => features.is_none(),
    };
    let found = if older {
        format!("Linux {release} has none for frames that go past the queue (AF_XDP)")
    } else {
        "its driver does not say that it keeps those of frames that go past the queue (AF_XDP)"
            .to_owned()
    };
    let remedy = format!(
        "a card whose driver does (igc, stmmac) with Linux {major}.{minor} or later, or ETF and the path `launch`"
    );
    Err((found, remedy))
}

/// Returns the transmit queue of the priority if its ETF has the card observe the times.
fn numbered(all: &[Qdisc], priority: u32) -> Result<(u32, LaunchQueue), Refusal> {
    let wanted = Wanted {
        mode: LaunchMode::Strict,
        offload: true,
    };
    let queue = judge(all, priority, wanted)?;
    let remedy = || "ETF at the root or below mqprio, with `offload`".to_owned();
    if queue.gated {
        let found = "its ETF is below TAPRIO, whose gates AF_XDP bypasses".to_owned();
        return Err((found, remedy()));
    }
    let root = all.iter().find(|one| one.parent == qdisc::ROOT);
    let number = match root.map(|root| &root.details) {
        // An ETF at the root belongs to the first queue.
        Some(Details::Etf(_)) => Some(0),
        Some(Details::Queues(map)) => map.queues(priority).next(),
        _ => None,
    };
    match number {
        Some(number) => Ok((number, queue)),
        None => {
            let found = "its ETF is that of a class, not of a transmit queue".to_owned();
            Err((found, remedy()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtwire_sys::qdisc::{Etf, QueueMap};

    fn one(handle: u32, parent: u32, kind: &str, details: Details) -> Qdisc {
        Qdisc {
            handle,
            parent,
            kind: kind.to_owned(),
            details,
        }
    }

    fn etf(offload: bool) -> Details {
        Details::Etf(Etf {
            delta_ns: 150_000,
            clock: 11,
            deadline: false,
            offload,
            skip_socket_check: false,
        })
    }

    /// Priority 3 uses queue 1, all others queue 0; ETF is at queue 1.
    fn below(kind: &str, offload: bool) -> Vec<Qdisc> {
        let mut octets = [0_u8; 82];
        octets[0] = 2;
        octets[1 + 3] = 1;
        for (at, value) in [(18, 1_u16), (20, 1), (50, 0), (52, 1)] {
            octets[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        let map = QueueMap::decode(&octets).unwrap();
        vec![
            one(0x64_0000, qdisc::ROOT, kind, Details::Queues(map)),
            one(0x65_0000, 0x64_0002, "etf", etf(offload)),
        ]
    }

    #[test]
    fn the_driver_decides_and_an_old_kernel_is_named() {
        assert!(able(Some(netdev::LAUNCH_TIME | 3), "6.18.1").is_ok());
        assert!(able(Some(netdev::LAUNCH_TIME), "5.14.0-570.el9").is_ok());
        for (features, release, named) in [
            (
                None,
                "6.1.0-50-rt-amd64",
                "Linux 6.1.0-50-rt-amd64 has none",
            ),
            (Some(0), "6.12.74+deb12-rt-amd64", "Linux 6.12.74+deb12"),
            (Some(3), "6.14.9", "Linux 6.14.9 has none"),
            (Some(0), "6.15.0", "its driver does not say"),
            (Some(3), "6.18.44-fc", "its driver does not say"),
            (Some(0), "10.0.1", "its driver does not say"),
            (Some(0), "", "its driver does not say"),
            (None, "weird", "Linux weird has none"),
        ] {
            let (found, remedy) = able(features, release).unwrap_err();
            assert!(found.starts_with(named), "{release}: {found}");
            assert!(remedy.contains("igc, stmmac") && remedy.contains("6.15"));
        }
    }

    #[test]
    fn only_a_queue_whose_etf_is_the_cards_own_will_do() {
        let alone = |offload| vec![one(0x64_0000, qdisc::ROOT, "etf", etf(offload))];
        let (number, queue) = numbered(&alone(true), 5).unwrap();
        assert_eq!((number, queue.delta_ns, queue.hardware), (0, 150_000, true));
        assert_eq!(numbered(&below("mqprio", true), 3).unwrap().0, 1);
        let mut class = vec![one(0x1_0000, qdisc::ROOT, "htb", Details::Other)];
        class.push(one(0x2_0000, 0x1_0011, "etf", etf(true)));
        for (all, priority, named) in [
            (alone(false), 5, "keeps launch times in software"),
            (below("mqprio", false), 3, "keeps launch times in software"),
            (below("mqprio", true), 0, "of its mqprio queues, number 0"),
            (below("taprio", true), 3, "below TAPRIO"),
            (class, 0x1_0011, "that of a class"),
            (Vec::new(), 0, "no queue at all"),
        ] {
            let (found, remedy) = numbered(&all, priority).unwrap_err();
            assert!(found.contains(named), "{found}");
            assert!(remedy.contains("offload"), "{remedy}");
        }
    }
}
