//! Every table of a description, with every key.

use super::{Key, Kind, Table};
use crate::units::Dimension;

const TIME: Kind = Kind::Quantity {
    dimension: Dimension::Time,
    zero: false,
};
const TIME_OR_ZERO: Kind = Kind::Quantity {
    dimension: Dimension::Time,
    zero: true,
};
const RATE: Kind = Kind::Quantity {
    dimension: Dimension::Rate,
    zero: false,
};
const RATE_OR_ZERO: Kind = Kind::Quantity {
    dimension: Dimension::Rate,
    zero: true,
};
const DATA: Kind = Kind::Quantity {
    dimension: Dimension::Data,
    zero: false,
};
const DATA_OR_ZERO: Kind = Kind::Quantity {
    dimension: Dimension::Data,
    zero: true,
};
const SHARE: Kind = Kind::Quantity {
    dimension: Dimension::Share,
    zero: true,
};
const CUT_THROUGH: &[&str] = &["off", "possible", "on"];
const QUEUES: Kind = Kind::Integer { min: 1, max: 8 };

const fn must(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        required: true,
        default: None,
        doc,
    }
}

const fn may(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        required: false,
        default: None,
        doc,
    }
}

const fn with_default(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> Key {
    Key {
        name,
        kind,
        required: false,
        default: Some(default),
        doc,
    }
}

const PRIORITY_MAP: &str = "The queue of each priority 0 to 7, as a list of eight, or the name of a table. `default`: floor(priority n / 8) with n queues. `802.1q`: the recommended table of IEEE 802.1Q (8-5). `802.1q-avb`: the one with stream classes (34-1), where priority 3 is class A, above class B of priority 2.";

const PREEMPTABLE: &str = "Frame preemption (802.1Qbu, 802.3br): the priorities whose frames may be interrupted; all others are express. `[]`: interrupts nothing, but takes fragments. A link has preemption if both ends state it, else each frame is sent whole. Express queues are above all others.";
const ADDITIONAL: &str = "addFragSize: each fragment that it receives, but for a frame's last one, has at least 64 (1 + n) bytes.";
const ADDITIONAL_KIND: Kind = Kind::Integer { min: 0, max: 3 };

/// Every table of a description.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "network",
        many: false,
        required: true,
        doc: "What this network is.",
        one_of: &[],
        keys: &[
            must("name", Kind::Text, "Its name, shown in reports."),
            may("description", Kind::Text, "What it is for."),
        ],
    },
    Table {
        name: "defaults",
        many: false,
        required: false,
        doc: "Values for what states none. Each may be overridden by `--set KEY=VALUE`.",
        one_of: &[],
        keys: &[
            with_default(
                "shaping-interval",
                TIME,
                "1 ms",
                "T_s: how often a sender's shaper hands out frames.",
            ),
            with_default(
                "tick-error",
                TIME_OR_ZERO,
                "100 us",
                "J: how late the sender's timer may release a tick.",
            ),
            with_default(
                "frame-overhead",
                DATA_OR_ZERO,
                "24 B",
                "What a frame costs on the wire beyond header and payload: preamble 8, FCS 4, gap 12.",
            ),
            may("link-rate", RATE, "Rate of links that state none."),
            with_default(
                "clock-drift",
                SHARE,
                "0 ppm",
                "By how much a talker's clock may run faster than a switch's: contracts are taken as so much faster. 100 ppm covers two free clocks of 50 ppm each.",
            ),
            with_default(
                "clock-error",
                TIME_OR_ZERO,
                "1 us",
                "How far the clock of any gated switch, or of any host that launches, may ever be from the network's time.",
            ),
        ],
    },
    Table {
        name: "schedule",
        many: false,
        required: false,
        doc: "How time-triggered and cyclic streams are scheduled.",
        one_of: &[],
        keys: &[
            with_default(
                "best-effort-share",
                Kind::Integer { min: 0, max: 100 },
                "10",
                "Per cent of each gated port's time that stays open for unscheduled traffic, at least.",
            ),
            with_default(
                "largest-frame",
                DATA,
                "1518 B",
                "Largest unscheduled frame, header and payload without FCS, that a guard band must keep out.",
            ),
            with_default(
                "queueing",
                Kind::Choice(&["on", "off"]),
                "on",
                "`off`: no frame waits in a switch for its window on purpose (no-wait).",
            ),
            with_default(
                "isolation",
                Kind::Choice(&["frames", "streams"]),
                "streams",
                "`streams`: no frame is in a queue while the window of another is open, so that one which is lost or never sent lets no other through early. `frames`: frames wait in the order of their windows; denser where switches vary and clocks are exact, but the promises hold only as long as every talker sends in each interval and nothing is lost.",
            ),
            may(
                "cycle",
                TIME,
                "The cycle of cyclic queueing and forwarding (802.1Qch), for streams with `schedule = \"cyclic\"`: what a switch has received in one cycle it sends in the next.",
            ),
        ],
    },
    Table {
        name: "gate-profile",
        many: true,
        required: false,
        doc: "What the gates of a family of switches or interfaces can do. Built in: `unlimited`, `i225`, `vsc9959`.",
        one_of: &[],
        keys: &[
            must(
                "name",
                Kind::Name,
                "Its name, for `gates` of a switch or host.",
            ),
            may(
                "entries",
                Kind::Integer {
                    min: 2,
                    max: 1_000_000,
                },
                "Most entries of a port's list; no limit where absent.",
            ),
            with_default("minimum-window", TIME, "1 ns", "Shortest entry of a list."),
            with_default("longest-cycle", TIME, "1 s", "Longest cycle of a list."),
            may(
                "openings",
                Kind::Integer {
                    min: 1,
                    max: 1_000_000,
                },
                "How often a queue may open in one cycle; no limit where absent.",
            ),
            with_default(
                "guard-band",
                Kind::Choice(&["needed", "built-in"]),
                "needed",
                "`built-in`: a frame that would not end before its gate closes is held back. `needed`: the list closes all gates ahead of a window.",
            ),
        ],
    },
    Table {
        name: "switch",
        many: true,
        required: false,
        doc: "A store-and-forward switch.",
        one_of: &[&["buffer", "shared-buffer"]],
        keys: &[
            must(
                "name",
                Kind::Name,
                "Its name; hosts and switches share one set of names.",
            ),
            with_default(
                "latency",
                Kind::Latency,
                "0 us",
                "t_mux: the time of each frame from its last bit on the input to its queue. A single value is the largest, and the least is 0: each frame may differ. `{ min = \"5 us\", max = \"5 us\" }` is constant.",
            ),
            may(
                "buffer",
                Kind::Buffer,
                "Memory of each port. `86 x 1514 B` also means: at most 86 frames, however small.",
            ),
            may(
                "shared-buffer",
                Kind::Buffer,
                "One pool of memory for all ports.",
            ),
            with_default(
                "buffer-release",
                Kind::Choice(&["frame", "bit"]),
                "frame",
                "When memory is free again: `frame`: all of a frame's memory with its last bit. `bit`: each bit as it leaves.",
            ),
            with_default(
                "queues",
                QUEUES,
                "1",
                "Queues of each port: 1 is FIFO, n is strict priority.",
            ),
            with_default("priority-map", Kind::PriorityMap, "default", PRIORITY_MAP),
            may(
                "gates",
                Kind::Name,
                "Its ports have time-aware gates (802.1Qbv): the name of their profile.",
            ),
            with_default(
                "cut-through",
                Kind::Choice(CUT_THROUGH),
                "off",
                "Whether a frame is forwarded before its end has come: once preamble and destination address are there, after the latency, if both links have the same rate, the port is idle and nothing waits there. `possible`: the switch may do either with each frame. The promises of `on` and `possible` hold for both.",
            ),
            may("preemptable", Kind::Priorities, PREEMPTABLE),
            with_default("additional-fragment-size", ADDITIONAL_KIND, "0", ADDITIONAL),
            with_default(
                "flow-meters",
                Kind::Choice(&["off", "on"]),
                "off",
                "`on`: each stream and allowance of a host at one of its ports passes a meter (802.1Q, per-stream filtering and policing) that lets through its contract. What exceeds it, and every frame without a meter, is discarded. So the promises hold whatever other hosts send.",
            ),
            with_default(
                "meter-overhead",
                DATA_OR_ZERO,
                "4 B",
                "What a meter counts of each frame beyond header and payload: `4 B` is the FCS, the `frame-overhead` all that it takes of the link. The more, the less a talker with small frames can take beyond its contract.",
            ),
        ],
    },
    Table {
        name: "router",
        many: true,
        required: false,
        doc: "An IP router: it forwards UDP/IPv4 and best effort, stores each frame, and reads the priority from the type of service. Layer-2, redundant and time-triggered streams pass none.",
        one_of: &[&["buffer", "shared-buffer"]],
        keys: &[
            must(
                "name",
                Kind::Name,
                "Its name; hosts, switches and routers share one set of names.",
            ),
            with_default(
                "latency",
                Kind::Latency,
                "0 us",
                "The time of each frame from its last bit on the input to its queue, as at [[switch]].",
            ),
            may(
                "buffer",
                Kind::Buffer,
                "Memory of each port, as at [[switch]].",
            ),
            may(
                "shared-buffer",
                Kind::Buffer,
                "One pool of memory for all ports.",
            ),
            with_default(
                "buffer-release",
                Kind::Choice(&["frame", "bit"]),
                "frame",
                "When memory is free again, as at [[switch]].",
            ),
            with_default(
                "queues",
                QUEUES,
                "1",
                "Queues of each port: 1 is FIFO, n is strict priority.",
            ),
            with_default("priority-map", Kind::PriorityMap, "default", PRIORITY_MAP),
            may(
                "dscp-priority",
                Kind::Codes { most: 7 },
                "The priority of frames by the DSCP with which they come: `{ 46 = 6, 34 = 5 }`. Frames with another DSCP have that of their class selector, its upper three bits. Each later port of switches has the frame with this priority, until the next router.",
            ),
            may(
                "remark",
                Kind::Codes { most: 63 },
                "The DSCP with which frames go on, by the one with which they come: `{ 46 = 34 }`. The next router reads the new one. All others keep theirs.",
            ),
            with_default(
                "cut-through",
                Kind::Choice(CUT_THROUGH),
                "off",
                "A router stores each frame: all but `off` is refused.",
            ),
            may("preemptable", Kind::Priorities, PREEMPTABLE),
            with_default("additional-fragment-size", ADDITIONAL_KIND, "0", ADDITIONAL),
        ],
    },
    Table {
        name: "port",
        many: true,
        required: false,
        doc: "Values of one port of a switch or router (`to`), of one input (`from`), or of the way from that input to that port (both). Both come before `to` alone, `to` before `from`, and all before the switch's own values.",
        one_of: &[],
        keys: &[
            must("switch", Kind::Name, "The switch or router."),
            may(
                "to",
                Kind::Name,
                "The neighbour to which the port sends; every port where absent.",
            ),
            may(
                "from",
                Kind::Name,
                "The neighbour over whose link the frames come; every input where absent.",
            ),
            may(
                "latency",
                Kind::Latency,
                "Latency of the frames there, as at [[switch]]. Frames of inputs with different latencies are bounded each with its own.",
            ),
            may(
                "cut-through",
                Kind::Choice(CUT_THROUGH),
                "Whether frames are forwarded there before their end has come, as at [[switch]].",
            ),
            may(
                "preemptable",
                Kind::Priorities,
                "The priorities whose frames this port (`to`, without `from`) may interrupt, as at [[switch]].",
            ),
        ],
    },
    Table {
        name: "host",
        many: true,
        required: true,
        doc: "An end point; it forwards nothing. With several links it sends each stream over the first link of its route.",
        one_of: &[],
        keys: &[
            must("name", Kind::Name, "Its name."),
            with_default(
                "queues",
                QUEUES,
                "8",
                "Queues of its interface, strict priority.",
            ),
            with_default("priority-map", Kind::PriorityMap, "default", PRIORITY_MAP),
            with_default(
                "latency",
                TIME_OR_ZERO,
                "0 us",
                "How late its sending may be beyond queueing and transmission.",
            ),
            may(
                "gates",
                Kind::Name,
                "Its interface has time-aware gates: the name of their profile.",
            ),
            may("preemptable", Kind::Priorities, PREEMPTABLE),
            with_default("additional-fragment-size", ADDITIONAL_KIND, "0", ADDITIONAL),
        ],
    },
    Table {
        name: "link",
        many: true,
        required: true,
        doc: "A full-duplex cable.",
        one_of: &[],
        keys: &[
            must("ends", Kind::Ends, "The two nodes that it joins."),
            may(
                "rate",
                RATE,
                "Its rate in each direction; `link-rate` of [defaults] where absent.",
            ),
            with_default("cable-delay", TIME_OR_ZERO, "0 ns", "Propagation delay."),
        ],
    },
    Table {
        name: "shaper",
        many: true,
        required: false,
        doc: "A shaper of one class at the ports of a node.",
        one_of: &[],
        keys: &[
            must(
                "node",
                Kind::Name,
                "The switch, router or host whose ports it is for.",
            ),
            may(
                "to",
                Kind::Name,
                "Only the port to this neighbour; all ports where absent.",
            ),
            must(
                "priority",
                Kind::Integer { min: 0, max: 7 },
                "A priority of the class: all that share its queue share the shaper.",
            ),
            must(
                "kind",
                Kind::Choice(&["credit", "asynchronous"]),
                "`credit`: credit-based shaper (802.1Qav), for the highest classes. `asynchronous`: a regulator for each input and class holds every stream to its contract again (802.1Qcr); the ports before, but for those of talkers, need it, too.",
            ),
            may(
                "idle-slope",
                RATE,
                "Of a credit: the rate that the class may take, on the wire.",
            ),
        ],
    },
    Table {
        name: "stream",
        many: true,
        required: false,
        doc: "Traffic with a contract and a promise.",
        one_of: &[&["frame", "payload"], &["rate", "interval"]],
        keys: &[
            must("name", Kind::Name, "Its name."),
            must("talker", Kind::Name, "The host that sends."),
            must("listeners", Kind::Names, "The hosts that receive."),
            may(
                "frame",
                DATA,
                "Header and payload without FCS, 60 B to 1514 B (64 B to 1518 B with a VLAN tag).",
            ),
            may(
                "smallest-frame",
                DATA,
                "Its smallest frame, where not all are as large as `frame` or `payload` say.",
            ),
            may(
                "payload",
                DATA,
                "User data of a frame, in place of `frame`.",
            ),
            may(
                "rate",
                RATE_OR_ZERO,
                "Rate of frame bytes, in its largest frames: the contract is r (t + T_s + J) + M on the wire, which smaller frames share. Zero only with `burst`: a one-shot grant.",
            ),
            may(
                "interval",
                TIME,
                "One frame in each interval, in place of `rate`: the contract is M + r (t + J) at r = M / interval.",
            ),
            with_default(
                "frames-per-interval",
                Kind::Integer { min: 1, max: 1000 },
                "1",
                "n frames in each `interval`, handed over together: the contract is n M + r (t + J) at r = n M / interval.",
            ),
            may(
                "burst",
                DATA,
                "With `rate`: states the burst itself, counted on the wire, in place of r (T_s + J) + M.",
            ),
            may("shaping-interval", TIME, "T_s of this stream."),
            may("tick-error", TIME_OR_ZERO, "J of this stream."),
            with_default(
                "shaper",
                Kind::Choice(&["on", "off"]),
                "on",
                "`off`: the sender does not shape, so that nothing can be promised.",
            ),
            with_default(
                "priority",
                Kind::Integer { min: 0, max: 7 },
                "0",
                "Priority code point, 7 most urgent. A router on the way gives another one by its tables.",
            ),
            may(
                "dscp",
                Kind::Integer { min: 0, max: 63 },
                "The differentiated services code point with which its talker sends, for routers: with `transport = \"udp\"` only. `priority` times 8, its class selector, where absent.",
            ),
            may(
                "deadline",
                TIME,
                "Latest delay that is of use; a larger promise is refused.",
            ),
            may(
                "published-delay",
                TIME,
                "Highest delay that others measured in this experiment, shown beside ours; left out where `--set` changes the experiment.",
            ),
            with_default(
                "semantics",
                Kind::Choice(&["queue", "newest"]),
                "queue",
                "Listeners take every frame in order, or the newest value.",
            ),
            with_default(
                "transport",
                Kind::Choice(&["rtdip", "udp"]),
                "rtdip",
                "RTDiP upon Ethernet, or within UDP.",
            ),
            may(
                "port",
                Kind::Integer { min: 1, max: 65535 },
                "Destination port; the planner assigns one where absent.",
            ),
            may(
                "vlan",
                Kind::Integer { min: 0, max: 4094 },
                "VLAN id: frames carry an 802.1Q tag (4 B more).",
            ),
            with_default(
                "schedule",
                Kind::Choice(&["unscheduled", "time-triggered", "cyclic"]),
                "unscheduled",
                "`time-triggered`: launched at an offset of its own in each `interval`, through windows that only it uses. Its `tick-error` is then how late a launch may be, none where absent. `cyclic`: each switch sends in one `cycle` what it received in the one before (cyclic queueing and forwarding); the talker sends when it likes.",
            ),
            may(
                "jitter",
                TIME_OR_ZERO,
                "Of a time-triggered or cyclic stream: largest difference between the delays of its frames that is of use.",
            ),
            may(
                "route",
                Kind::Names,
                "The nodes from talker to the one listener. Where absent: the fewest links; of equally short ways the one without the link that comes later in the file.",
            ),
            with_default(
                "redundancy",
                Kind::Choice(&["none", "disjoint"]),
                "none",
                "`disjoint`: every frame is sent twice, over two ways that share no link between switches (802.1CB); each copy has its promise, and so have the frames that the listener recovers from both. The second is planned as the stream `NAME~2`.",
            ),
        ],
    },
    Table {
        name: "best-effort",
        many: true,
        required: false,
        doc: "An allowance for traffic without a promise. It has priority 0.",
        one_of: &[],
        keys: &[
            may(
                "name",
                Kind::Name,
                "Its name; `best-effort-HOST` where absent.",
            ),
            must("host", Kind::Name, "The host that sends."),
            must("to", Kind::Names, "The hosts that receive."),
            must(
                "rate",
                RATE,
                "Rate of frame bytes that it may not exceed, in its largest frames. Smaller ones may take as much of the wire as those.",
            ),
            may("burst", DATA, "Burst on the wire; one frame where absent."),
            with_default(
                "frame",
                DATA,
                "1514 B",
                "Its largest frame, header and payload without FCS.",
            ),
        ],
    },
    Table {
        name: "manager",
        many: false,
        required: false,
        doc: "A manager that admits connections while the network runs (docs/manager.md), and an agent on each host. `rtwire lab` runs them.",
        one_of: &[],
        keys: &[must(
            "host",
            Kind::Name,
            "The host on which the manager runs.",
        )],
    },
    Table {
        name: "transfer",
        many: true,
        required: false,
        doc: "A long transfer by TCP, to which nothing is promised. It needs a manager. `rtwire lab` runs it, and reports its share of what is free.",
        one_of: &[],
        keys: &[
            must("from", Kind::Name, "The host that sends."),
            must("to", Kind::Name, "The host that receives."),
        ],
    },
];
