//! The disciplines of a share: their choice, order and numbers. Pure.

use super::choices::{Choices, Mechanism};
use super::configuration::{Configuration, Lack};
use super::credit;
use super::present::Present;
use super::share::Share;
use crate::change::{Subject, Value, Wanted};
use crate::netlink::{
    Classes, Discipline, Filter, Gate, OWN_RATE, Queue, Tree, htb_whole, tbf_whole,
};

const ROOT: u32 = u32::MAX;
const MAJOR: u32 = 0x1_0000;
const FIRST_CHILD: u32 = 0x10_0000;
const RTDIP: u16 = 0x88b5;
const PTP: u16 = 0x88f7;
const VLAN: u16 = 0x8100;
const IPV4: u16 = 0x0800;
/// The rate limit of PTP, bit/s: a few hundred small frames a second.
const PTP_RATE_BPS: u64 = 1_000_000;
const LEAF_FRAMES: u32 = 1_000;

pub(super) fn queues(all: &mut Configuration, share: &Share, present: &Present, choices: &Choices) {
    all.mechanism = choose(all, share, present, choices);
    let by_class = matches!(all.mechanism, Mechanism::Mqprio | Mechanism::Etf);
    if !share.credits.is_empty() && !by_class {
        let missing = "a transmit queue for each class, which CBS needs (mqprio)".to_owned();
        credit::lacking(all, share, vec![missing]);
    }
    let tree = match all.mechanism {
        Mechanism::None | Mechanism::Auto => return,
        Mechanism::Htb => htb(all, share),
        Mechanism::Mqprio | Mechanism::Etf => mqprio(all, share, present, choices),
        Mechanism::Taprio | Mechanism::TaprioAssist | Mechanism::TaprioHardware => {
            taprio(all, share, present, choices)
        }
    };
    all.wanted.push(Wanted {
        subject: Subject::Queues {
            interface: present.interface.clone(),
        },
        to: Value::Queues(tree),
    });
}

fn has(present: &Present, kind: &str) -> bool {
    present.kinds.get(kind) == Some(&true)
}

/// Returns the names of the streams whose promise depends on their launch time.
fn timed(share: &Share) -> Vec<&str> {
    let streams = share.sends.iter().filter(|stream| stream.launch.is_some());
    streams.map(|stream| stream.name.as_str()).collect()
}

fn choose(
    all: &mut Configuration,
    share: &Share,
    present: &Present,
    choices: &Choices,
) -> Mechanism {
    let timed = timed(share);
    let asked = match choices.mechanism {
        Mechanism::Auto if share.gates.is_some() => Mechanism::Taprio,
        Mechanism::Auto if !timed.is_empty() => Mechanism::Etf,
        Mechanism::Auto if enough_queues(share, present) && has(present, "mqprio") => {
            if share.classes > 1 {
                Mechanism::Mqprio
            } else {
                Mechanism::Htb
            }
        }
        Mechanism::Auto => Mechanism::Htb,
        other => other,
    };
    let needs: &[&str] = match asked {
        Mechanism::Taprio | Mechanism::TaprioHardware => &["taprio"],
        Mechanism::TaprioAssist => &["taprio", "etf"],
        Mechanism::Etf if share.classes > 1 => &["mqprio", "etf"],
        Mechanism::Etf => &["etf"],
        Mechanism::Mqprio => &["mqprio"],
        Mechanism::Htb => &["htb"],
        Mechanism::None | Mechanism::Auto => &[],
    };
    let mut missing: Vec<String> = needs
        .iter()
        .filter(|kind| !has(present, kind))
        .map(|kind| format!("the discipline {kind}"))
        .collect();
    let several = !matches!(asked, Mechanism::Htb | Mechanism::None | Mechanism::Auto);
    if several && !enough_queues(share, present) {
        missing.push(format!(
            "{} transmit queues (`{}` has {})",
            share.classes, present.interface, present.tx_queues
        ));
    }
    let gated = matches!(
        asked,
        Mechanism::Taprio | Mechanism::TaprioAssist | Mechanism::TaprioHardware
    );
    if gated && share.gates.is_none() {
        missing.push("gates in the plan".to_owned());
    }
    if missing.is_empty() {
        return asked;
    }
    let next = if has(present, "htb") {
        Mechanism::Htb
    } else {
        Mechanism::None
    };
    let lost = if asked == Mechanism::Htb {
        "the order of classes, and the limit on best effort: every promise of this host's streams"
            .to_owned()
    } else if timed.is_empty() {
        "the order of classes in the interface's own queues".to_owned()
    } else {
        format!("the windows, delay and jitter of {}", timed.join(", "))
    };
    all.lacks.push(Lack {
        what: missing.join(", "),
        lost,
        remedy: "a kernel with these disciplines (Debian's have them), an interface with enough queues, or another `--queues`"
            .to_owned(),
        instead: match next {
            Mechanism::Htb => "classes and limits by HTB, without launch times and gates".to_owned(),
            _ => "no discipline is set".to_owned(),
        },
    });
    next
}

/// Returns whether each class needs a transmit queue of its own and can have one.
fn enough_queues(share: &Share, present: &Present) -> bool {
    present.tx_queues >= u32::from(share.classes.max(1))
        && (share.classes > 1 || !timed(share).is_empty())
}

/// Maps class k to traffic class k and queue k. The kernel wants the queues in the order of the classes (6.1 refuses
/// others as overlapping). It serves the highest class first (from 6.3 on).
fn classes(share: &Share) -> Classes {
    let number = share.classes.max(1);
    let mut map = [0; 16];
    for pcp in 0..8_u8 {
        map[usize::from(pcp)] = share.class(pcp).min(number - 1);
    }
    Classes {
        map,
        queues: (0..number)
            .map(|class| (queue_of(number, class), 1))
            .collect(),
    }
}

fn queue_of(number: u8, class: u8) -> u16 {
    u16::from(class.min(number - 1))
}

/// Returns the place below a discipline with one child for each transmit queue.
fn place(number: u8, class: u8) -> u32 {
    MAJOR | (u32::from(queue_of(number, class)) + 1)
}

fn child(number: u8, class: u8, discipline: Discipline) -> Queue {
    Queue {
        handle: FIRST_CHILD + (u32::from(class) << 16),
        parent: place(number, class),
        class: false,
        discipline,
        overhead_bytes: 0,
        raw: None,
    }
}

fn root(discipline: Discipline) -> Queue {
    Queue {
        handle: MAJOR,
        parent: ROOT,
        class: false,
        discipline,
        overhead_bytes: 0,
        raw: None,
    }
}

fn bytes_a_second(bps: u64) -> u32 {
    u32::try_from(bps / 8).unwrap_or(u32::MAX)
}

fn bytes(bits: u64) -> u32 {
    u32::try_from(bits / 8).unwrap_or(u32::MAX)
}

fn overhead(share: &Share) -> u8 {
    u8::try_from(share.overhead_bytes).unwrap_or(u8::MAX)
}

/// Adds the shaper that keeps best effort within its allowance, as a child of its class.
fn limit(all: &mut Configuration, share: &Share) -> Option<Discipline> {
    let shared = share
        .sends
        .iter()
        .any(|stream| stream.class == share.class(0));
    if shared {
        all.notes.push(
            "a stream shares its class with best effort, which is therefore not limited by the queue"
                .to_owned(),
        );
        return None;
    }
    // Without an allowance, only the clocks' traffic passes: a plan that silences ptp4l is no plan.
    let (rate_bps, bits, frame) = match share.best_effort {
        Some(limit) => (
            limit.rate_bps + PTP_RATE_BPS,
            limit.burst_bits,
            limit.frame_bytes,
        ),
        None => {
            all.notes.push(no_allowance());
            (PTP_RATE_BPS, 0, 0)
        }
    };
    let frame_bits = (frame.max(128) + share.overhead_bytes) * 8;
    let (rate_bytes, overhead_bytes) = (bytes_a_second(rate_bps), overhead(share));
    let burst_bytes = bytes(bits.max(frame_bits)).saturating_sub(overhead_bytes.into());
    Some(Discipline::Tbf {
        rate_bytes,
        burst_bytes: tbf_whole(burst_bytes, rate_bytes, overhead_bytes),
        limit_bytes: 65_536,
        overhead_bytes,
    })
}

fn no_allowance() -> String {
    format!(
        "the plan allows no traffic of this host besides its streams: other traffic is limited to {} kbit/s, enough for \
         PTP",
        PTP_RATE_BPS / 1_000
    )
}

fn launch_classes(share: &Share) -> Vec<u8> {
    let streams = share.sends.iter().filter(|stream| stream.launch.is_some());
    let mut found: Vec<u8> = streams.map(|stream| stream.class).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn etf(choices: &Choices, skip_socket_check: bool) -> Discipline {
    Discipline::Etf {
        delta_ns: choices.etf_delta_ns,
        deadline: false,
        offload: choices.etf_offload,
        skip_socket_check,
    }
}

fn mqprio(all: &mut Configuration, share: &Share, present: &Present, choices: &Choices) -> Tree {
    let number = share.classes;
    let mut queues = vec![root(Discipline::Mqprio {
        classes: classes(share),
    })];
    if all.mechanism == Mechanism::Etf {
        for class in launch_classes(share) {
            // ETF drops frames without a launch time: best effort must not be in its class.
            if class == share.class(0) {
                all.notes.push(
                    "a stream with a launch time is in the class of best effort: frames without one are dropped there".to_owned(),
                );
            }
            queues.push(child(number, class, etf(choices, false)));
        }
    }
    for (class, shaper) in credit::shapers(all, share, present) {
        let taken = |queue: &Queue| queue.parent == place(number, class);
        if queues.iter().any(taken) {
            all.notes.push(format!(
                "class {class} has launch times: its credit is not set beside them"
            ));
            continue;
        }
        let mut queue = child(number, class, shaper);
        queue.overhead_bytes = share.overhead_bytes.try_into().unwrap_or(0);
        queues.push(queue);
    }
    if has(present, "tbf")
        && !queues
            .iter()
            .any(|queue| queue.parent == place(number, share.class(0)))
    {
        if let Some(limit) = limit(all, share) {
            queues.push(child(number, share.class(0), limit));
        }
    }
    sorted(queues)
}

fn taprio(all: &mut Configuration, share: &Share, present: &Present, choices: &Choices) -> Tree {
    let number = share.classes;
    let Some(gates) = &share.gates else {
        return Tree::default();
    };
    let flags = match all.mechanism {
        Mechanism::TaprioAssist => 1,
        Mechanism::TaprioHardware => 2,
        _ => 0,
    };
    let entries = gates
        .entries
        .iter()
        .flat_map(|entry| split(u32::from(entry.gates), entry.duration_ns))
        .collect();
    let assist = all.mechanism == Mechanism::TaprioAssist;
    let mut queues = vec![root(Discipline::Taprio {
        classes: classes(share),
        base_time_ns: i64::try_from(gates.base_offset_ns).unwrap_or(0),
        cycle_ns: gates.cycle_ns,
        entries,
        flags,
        // Twice ETF's own delta: a frame must reach ETF before ETF would call it late.
        txtime_delay_ns: if assist {
            choices.etf_delta_ns.saturating_mul(2)
        } else {
            0
        },
    })];
    if assist {
        for class in 0..number {
            queues.push(child(number, class, etf(choices, true)));
        }
    } else if has(present, "tbf") && flags == 0 {
        if let Some(limit) = limit(all, share) {
            queues.push(child(number, share.class(0), limit));
        }
    }
    sorted(queues)
}

/// Splits one entry of the plan into entries that fit the kernel's 32-bit durations.
fn split(gates: u32, duration_ns: u64) -> Vec<Gate> {
    const LONGEST: u64 = 4_000_000_000;
    let mut left = duration_ns;
    let mut found = Vec::new();
    while left > 0 {
        let part = left.min(LONGEST);
        found.push(Gate {
            gates,
            duration_ns: u32::try_from(part).unwrap_or(u32::MAX),
        });
        left -= part;
    }
    found
}

/// Sorts the queues as the kernel lists them.
fn sorted(mut queues: Vec<Queue>) -> Tree {
    if let Some(children) = queues.get_mut(1..) {
        children.sort_by_key(|queue| {
            let at_root = queue.parent == ROOT;
            (!queue.class, !at_root, queue.parent, queue.handle)
        });
    }
    Tree {
        queues,
        ..Tree::default()
    }
}

/// Returns HTB's priority of a class, 0 the most urgent; 7 is that of best effort and of what the plan does not know.
///
/// HTB has one priority less than eight classes above best effort would need. So class 0 gets the place of class 1 where that
/// is not used. Else the classes up to the first that is not used are one place more urgent. If all eight are used, class 0
/// is beside best effort.
fn urgency(class: u8, number: u8, used: &[u8]) -> u32 {
    let place = u32::from((number - 1).saturating_sub(class));
    if number < 8 || !used.contains(&0) {
        return place;
    }
    match (1..number).find(|one| !used.contains(one)) {
        Some(free) if class < free => place - 1,
        _ => place,
    }
}

/// Builds classes on one queue. HTB lends the link's rate to the most urgent class first, and limits best effort. A
/// frame's bytes on the wire decide its class.
fn htb(all: &mut Configuration, share: &Share) -> Tree {
    const LINK: u32 = MAJOR | 1;
    const BEST_EFFORT: u32 = MAJOR | 2;
    const CONTROL: u32 = MAJOR | 3;
    const FIRST: u32 = MAJOR | 0x10;
    let link_bytes = bytes_a_second(share.link_rate_bps);
    let mut queues = vec![root(Discipline::Htb { default_class: 2 })];
    let class = |handle, parent, rate_bytes, ceil_bps: u64, priority, bits| Queue {
        handle,
        parent,
        class: true,
        discipline: Discipline::HtbClass {
            rate_bytes,
            ceil_bytes: bytes_a_second(ceil_bps),
            priority,
            burst_bytes: 1,
            ceil_burst_bytes: htb_whole(bytes(bits), bytes_a_second(ceil_bps)),
            overhead_bytes: overhead(share),
        },
        overhead_bytes: 0,
        raw: None,
    };
    // One full frame at a time, so that HTB chooses anew before each.
    let frame_bits = (1514 + share.overhead_bytes) * 8;
    let mut link = class(LINK, ROOT, link_bytes, share.link_rate_bps, 0, frame_bits);
    if let Discipline::HtbClass {
        burst_bytes: own,
        ceil_burst_bytes,
        ..
    } = &mut link.discipline
    {
        *own = *ceil_burst_bytes;
    }
    queues.push(link);
    let number = share.classes.max(1);
    let mut used: Vec<u8> = share.sends.iter().map(|stream| stream.class).collect();
    used.sort_unstable();
    used.dedup();
    for each in &used {
        queues.push(class(
            FIRST + u32::from(*each),
            LINK,
            OWN_RATE,
            share.link_rate_bps,
            urgency(*each, number, &used),
            frame_bits,
        ));
    }
    let allowed = share.best_effort;
    if allowed.is_none() {
        all.notes.push(no_allowance());
    }
    queues.push(class(CONTROL, LINK, OWN_RATE, PTP_RATE_BPS, 7, frame_bits));
    if let Some(limit) = allowed {
        // HTB lets a class send while its credit is not negative: one frame more than its burst.
        let frame_bits = (limit.frame_bytes + share.overhead_bytes) * 8;
        queues.push(class(
            BEST_EFFORT,
            LINK,
            OWN_RATE,
            limit.rate_bps,
            7,
            limit.burst_bits.saturating_sub(frame_bits).max(8),
        ));
    } else {
        queues.push(class(
            BEST_EFFORT,
            LINK,
            OWN_RATE,
            PTP_RATE_BPS,
            7,
            frame_bits,
        ));
    }
    let leaves: Vec<Queue> = queues
        .iter()
        .filter(|queue| queue.class && queue.handle != LINK)
        .map(|queue| Queue {
            handle: (queue.handle & 0xffff) << 16 | FIRST_CHILD << 4,
            parent: queue.handle,
            class: false,
            discipline: Discipline::Pfifo {
                frames: LEAF_FRAMES,
            },
            overhead_bytes: 0,
            raw: None,
        })
        .collect();
    queues.extend(leaves);
    let mut tree = sorted(queues);
    tree.filters = filters(share, FIRST, CONTROL);
    tree
}

/// Builds the filters. A frame's bytes on the wire decide its class: PTP, the tag's PCP, the RTDiP header's priority,
/// or the UDP port.
fn filters(share: &Share, first: u32, control: u32) -> Vec<Filter> {
    let mut found = vec![Filter {
        priority: 1,
        protocol: PTP,
        words: vec![(0, 0, 0)],
        class: control,
    }];
    for stream in &share.sends {
        let class = first + u32::from(stream.class);
        let pcp = u32::from(stream.pcp);
        if stream.vlan.is_some() {
            found.push(Filter {
                priority: 2,
                protocol: VLAN,
                words: vec![(0xe000_0000, pcp << 29, 0)],
                class,
            });
        } else if stream.udp {
            found.push(Filter {
                priority: 3,
                protocol: IPV4,
                words: vec![
                    (0x00ff_0000, 17 << 16, 8),
                    (0x0000_ffff, u32::from(stream.port), 20),
                ],
                class,
            });
        } else {
            found.push(Filter {
                priority: 4,
                protocol: RTDIP,
                words: vec![(0x00ff_0000, pcp << 16, 0)],
                class,
            });
        }
    }
    found.sort();
    found.dedup();
    found
}
