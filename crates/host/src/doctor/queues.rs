//! Queueing disciplines: those of the kernel, and the installed one.

use super::facts::KINDS;
use super::{Area, Certainty, Facts, Finding, Level};

const AREA: Area = Area::Queues;
const ROOT: u32 = u32::MAX;
/// Queues of kinds that a plan uses, without a plan. Left out where the streams of a plan are followed through them.
pub(super) const UNPLANNED: &str = "queues.unplanned";
const INGRESS: u32 = 0xffff_fff1;

/// The loss without each kind, and the kernel option that brings it.
const MEANING: [(&str, &str, &str); 7] = [
    (
        "mqprio",
        "classes have no transmit queues of their own",
        "CONFIG_NET_SCH_MQPRIO",
    ),
    (
        "etf",
        "no launch time is kept (SO_TXTIME is ignored silently)",
        "CONFIG_NET_SCH_ETF",
    ),
    (
        "taprio",
        "there are no time-aware gates (802.1Qbv)",
        "CONFIG_NET_SCH_TAPRIO",
    ),
    (
        "cbs",
        "there is no credit-based shaping (802.1Qav)",
        "CONFIG_NET_SCH_CBS",
    ),
    (
        "htb",
        "classes on one queue cannot be limited",
        "CONFIG_NET_SCH_HTB",
    ),
    (
        "tbf",
        "best effort in a queue of its own cannot be limited",
        "CONFIG_NET_SCH_TBF",
    ),
    (
        "vlan",
        "there are no VLAN links, whose frames carry priorities",
        "CONFIG_VLAN_8021Q",
    ),
];

pub(super) fn abilities(facts: &Facts) -> Vec<Finding> {
    if facts.kinds.is_empty() {
        return vec![
            Finding::good(
                AREA,
                "queues.abilities",
                "not tried: only root may make the namespace for the trial",
                "a plan with launch times or gates needs them",
            )
            .at(Level::Unknown)
            .by_hand("run rtwire doctor as root"),
        ];
    }
    let has = |kind: &str| facts.kinds.get(kind) == Some(&true);
    let there: Vec<&str> = KINDS
        .into_iter()
        .chain(["vlan"])
        .filter(|kind| has(kind))
        .collect();
    let mut findings = vec![
        Finding::good(
            AREA,
            "queues.abilities",
            format!("the kernel has: {}", there.join(", ")),
            "these disciplines limit the mechanisms that a plan can use on this host",
        )
        .sure(Certainty::Tried),
    ];
    for (kind, then, option) in MEANING {
        if facts.kinds.get(kind) == Some(&false) {
            findings.push(
                Finding::good(
                    AREA,
                    &format!("queues.no_{kind}"),
                    format!("the kernel has no {kind}"),
                    &format!("without it {then}"),
                )
                .at(Level::Note)
                .sure(Certainty::Tried)
                .by_hand(format!("a kernel with {option}; Debian's have it")),
            );
        }
    }
    findings
}

pub(super) fn in_force(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let name = &interface.link.name;
    let mut findings = Vec::new();
    let id = "queues.in_force";
    let why = "senders do not see the frames that the discipline delays or drops";
    match interface.qdiscs.iter().find(|qdisc| qdisc.parent == ROOT) {
        None => {}
        Some(root) => {
            let usual = [
                "noqueue",
                "pfifo_fast",
                "mq",
                "fq_codel",
                "fq",
                "noop",
                "pfifo",
            ];
            let ours = ["mqprio", "taprio", "etf", "htb", "cbs"];
            let kind = root.kind.as_str();
            let finding = Finding::good(AREA, id, format!("root discipline {kind}"), why);
            if ours.contains(&kind) && !facts.applied {
                findings.push(
                    Finding::good(
                        AREA,
                        UNPLANNED,
                        format!("root discipline {kind}, which `rtwire apply` did not set"),
                        "its classes, gates or launch times may close or drop what a plan counts with",
                    )
                    .at(Level::Weak)
                    .by_hand(format!(
                        "see what it does to a plan's streams: rtwire doctor {name} --plan FILE --host NAME; remove it: tc qdisc \
                         del dev {name} root"
                    )),
                );
            }
            findings.push(if usual.contains(&kind) {
                finding
            } else if ours.contains(&kind) {
                finding.at(Level::Note)
            } else {
                finding
                    .at(Level::Weak)
                    .by_hand(format!("tc qdisc del dev {name} root"))
            });
        }
    }
    if let Some(entry) = interface
        .qdiscs
        .iter()
        .find(|qdisc| qdisc.parent == INGRESS)
    {
        findings.push(
            Finding::good(
                AREA,
                "queues.ingress",
                format!("an {} discipline sees every received frame first", entry.kind),
                "its filters may drop, redirect or delay frames before a channel sees them",
            )
            .at(Level::Weak)
            .by_hand(format!(
                "see its filters: tc filter show dev {name} ingress; remove it: tc qdisc del dev {name} {}",
                entry.kind
            )),
        );
    }
    findings
}
