//! Launch times: finds the queue that observes them before the first frame is sent.
//!
//! A queue without launch times ignores them silently, and the frame leaves at once. So the interface's queues are
//! read first. The queue that the socket's priority leads to must be ETF, on CLOCK_TAI, in the sender's mode.

mod card;

pub use card::card_queue;

use crate::error::LinkError;
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::qdisc::{self, Details, Etf, Qdisc};

/// Meaning of a launch time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LaunchMode {
    /// The frame leaves at this time, not before.
    #[default]
    Strict,
    /// The frame leaves as soon as possible, at the latest at this time. Until then frames leave in the order of
    /// their times.
    Deadline,
}

/// The queue that holds the frames of one sender until their launch time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchQueue {
    /// Time before the launch time at which a frame is handed to the driver, in ns. Frames must be sent earlier than
    /// that. Software ETF lets them leave this much early.
    pub delta_ns: u64,
    /// `true` if the card itself holds the frame until its time.
    pub hardware: bool,
    /// `true` if ETF is below TAPRIO, which refuses a launch time outside the priority's gate windows.
    pub gated: bool,
}

const CLOCK_TAI: i32 = 11;

/// Finds the queue that frames of `priority` reach, and checks that it observes launch times in `mode`.
///
/// # Errors
/// [`LinkError::NoLaunch`], which names the queue found and the remedy.
pub fn queue(
    interface: &Interface,
    priority: u32,
    mode: LaunchMode,
) -> Result<LaunchQueue, LinkError> {
    // A VLAN has no queue of its own: its frames pass the queues of the interface below.
    let below = match interface::vlan_below(&interface.name)? {
        Some(name) => Some(interface::by_name(&name)?),
        None => None,
    };
    let interface = below.as_ref().unwrap_or(interface);
    let all = qdisc::of(interface)?;
    let wanted = Wanted {
        mode,
        offload: false,
    };
    judge(&all, priority, wanted).map_err(|refusal| refused(interface, priority, refusal))
}

fn refused(interface: &Interface, priority: u32, (found, remedy): Refusal) -> LinkError {
    LinkError::NoLaunch {
        interface: interface.name.clone(),
        priority,
        found,
        remedy: remedy.replace("IF", &interface.name),
    }
}

/// Requirements on an ETF.
#[derive(Clone, Copy)]
struct Wanted {
    mode: LaunchMode,
    /// `true` if the card itself has to observe the times.
    offload: bool,
}

impl Wanted {
    /// Returns the options of `tc` other than clock and delta.
    fn options(self) -> &'static str {
        match (self.mode, self.offload) {
            (LaunchMode::Deadline, _) => " deadline_mode",
            (LaunchMode::Strict, true) => " offload",
            (LaunchMode::Strict, false) => "",
        }
    }
}

type Refusal = (String, String);

fn judge(all: &[Qdisc], priority: u32, wanted: Wanted) -> Result<LaunchQueue, Refusal> {
    let at = |parent: u32| all.iter().find(|one| one.parent == parent);
    let install = |place: &str| {
        format!(
            "`tc qdisc replace dev IF {place} etf clockid CLOCK_TAI delta 200000{}`, with a kernel that has sch_etf",
            wanted.options()
        )
    };
    // A priority may be the class of a classful queue, such as HTB.
    if let Some(Details::Etf(etf)) = at(priority).map(|leaf| &leaf.details) {
        let place = format!("parent {:x}:{:x}", priority >> 16, priority & 0xffff);
        return accept(*etf, wanted, &place, false);
    }
    let Some(root) = at(qdisc::ROOT) else {
        return Err(("it shows no queue at all".to_owned(), install("root")));
    };
    let map = match root.details {
        Details::Etf(etf) => return accept(etf, wanted, "root", false),
        Details::Queues(map) => map,
        Details::Other => {
            let found = format!("its queue is `{}`, which ignores launch times", root.kind);
            return Err((found, install("root")));
        }
    };
    let mut kept = None;
    for number in map.queues(priority) {
        let parent = root.handle | (number + 1);
        let place = format!("parent {:x}:{:x}", root.handle >> 16, number + 1);
        match at(parent).map(|leaf| (&leaf.kind, &leaf.details)) {
            Some((_, &Details::Etf(etf))) => {
                kept = Some(accept(etf, wanted, &place, root.kind == "taprio")?);
            }
            other => {
                let kind = other.map_or("the kernel's default", |(kind, _)| kind.as_str());
                let found = format!(
                    "of its {} queues, number {number} is `{kind}`, which ignores launch times",
                    root.kind
                );
                return Err((found, install(&place)));
            }
        }
    }
    kept.ok_or_else(|| {
        let found = format!("its {} gives this priority no queue", root.kind);
        (found, "give the priority's class a queue".to_owned())
    })
}

fn accept(etf: Etf, wanted: Wanted, place: &str, gated: bool) -> Result<LaunchQueue, Refusal> {
    let mode = wanted.mode;
    if etf.clock != CLOCK_TAI {
        let found = format!("its ETF uses clock {} instead of CLOCK_TAI", etf.clock);
        return Err((found, format!("ETF at {place} with `clockid CLOCK_TAI`")));
    }
    if etf.deadline != (mode == LaunchMode::Deadline) && !etf.skip_socket_check {
        let name = |deadline| {
            if deadline {
                "deadlines"
            } else {
                "instants, not deadlines"
            }
        };
        let found = format!(
            "its ETF takes launch times as {}, the sender means {}",
            name(etf.deadline),
            name(!etf.deadline)
        );
        return Err((
            found,
            format!("the same mode at both (`deadline_mode` of the ETF at {place})"),
        ));
    }
    if wanted.offload && !etf.offload {
        let found = "its ETF keeps launch times in software, and AF_XDP bypasses it".to_owned();
        return Err((
            found,
            format!("the card's own: `offload` of the ETF at {place}"),
        ));
    }
    Ok(LaunchQueue {
        delta_ns: u64::try_from(etf.delta_ns).unwrap_or(0),
        hardware: etf.offload,
        gated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Wanted = Wanted {
        mode: LaunchMode::Strict,
        offload: false,
    };

    fn etf(clock: i32, deadline: bool) -> Details {
        Details::Etf(Etf {
            delta_ns: 5_000,
            clock,
            deadline,
            offload: false,
            skip_socket_check: false,
        })
    }

    fn root(kind: &str, details: Details) -> Vec<Qdisc> {
        vec![Qdisc {
            handle: 0x64_0000,
            parent: qdisc::ROOT,
            kind: kind.to_owned(),
            details,
        }]
    }

    #[test]
    fn a_class_may_lead_to_an_etf_of_its_own() {
        let mut all = root("htb", Details::Other);
        all.push(Qdisc {
            handle: 0x80_0000,
            parent: 0x1_0011,
            kind: "etf".to_owned(),
            details: etf(CLOCK_TAI, false),
        });
        assert!(judge(&all, 0x1_0011, STRICT).is_ok());
        assert!(judge(&all, 0x1_0010, STRICT).is_err());
    }

    #[test]
    fn only_an_etf_of_the_same_clock_and_mode_will_do() {
        let queue = judge(&root("etf", etf(CLOCK_TAI, false)), 3, STRICT).unwrap();
        assert_eq!(queue.delta_ns, 5_000);
        assert!(!queue.gated && !queue.hardware);
        for (all, mode, text) in [
            (vec![], LaunchMode::Strict, "no queue at all"),
            (
                root("noqueue", Details::Other),
                LaunchMode::Strict,
                "`noqueue`",
            ),
            (
                root("etf", etf(1, false)),
                LaunchMode::Strict,
                "instead of CLOCK_TAI",
            ),
            (
                root("etf", etf(CLOCK_TAI, true)),
                LaunchMode::Strict,
                "as deadlines",
            ),
            (
                root("etf", etf(CLOCK_TAI, false)),
                LaunchMode::Deadline,
                "not deadlines, the sender",
            ),
        ] {
            let wanted = Wanted {
                mode,
                offload: false,
            };
            let (found, remedy) = judge(&all, 3, wanted).unwrap_err();
            assert!(found.contains(text), "{found}");
            assert!(!remedy.is_empty());
        }
    }
}
