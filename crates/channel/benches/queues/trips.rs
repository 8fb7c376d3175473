//! Round trips: each way to receive, each way to wait, each size.

use super::floor::Floor;
use super::peers::{self, Mode, Protocol};
use super::round_trips::{self, SIZES, Threads, Trips};
use super::{compared, quantile};
use rtwire_channel::{Order, ReceivePath, TxPath, WakeUp};
use rtwire_measure::bench::Row;
use rtwire_sys::bpf::XdpMode;
use rtwire_testkit::NetnsPair;
use std::time::Duration;

/// Longer than any undisturbed answer takes.
const BUDGET: Duration = Duration::from_micros(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Spin,
    SpinThenBlock,
    OneCore,
    TwoCores,
}

const WAITS: [Wait; 4] = [
    Wait::Spin,
    Wait::SpinThenBlock,
    Wait::OneCore,
    Wait::TwoCores,
];

impl Wait {
    const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spinning",
            Self::SpinThenBlock => "spinning, then blocking",
            Self::OneCore => "blocking on one core",
            Self::TwoCores => "blocking across cores",
        }
    }

    /// Returns the way to wait of UDP, TCP and the floor, which cannot spin first and then block.
    const fn mode(self) -> Mode {
        match self {
            Self::Spin | Self::SpinThenBlock => Mode::Spin,
            Self::OneCore => Mode::BlockOneCore,
            Self::TwoCores => Mode::BlockTwoCores,
        }
    }

    /// Returns the way to wait with which the others are compared.
    const fn of_others(self) -> Self {
        match self {
            Self::SpinThenBlock => Self::Spin,
            wait => wait,
        }
    }

    const fn wake_up(self) -> WakeUp {
        match self {
            Self::Spin => WakeUp::Spin,
            Self::SpinThenBlock => WakeUp::SpinThenBlock(BUDGET),
            Self::OneCore | Self::TwoCores => WakeUp::Block,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Queue(ReceivePath, TxPath),
    Udp,
    Tcp,
    /// Raw packet sockets in C, below all of them.
    Floor,
    /// The same behind programs of XDP that pass every frame.
    FloorBehind(XdpMode),
}

const PACKET: Kind = Kind::Queue(ReceivePath::Packet, TxPath::Direct);
const NATIVE: Kind = Kind::Queue(ReceivePath::Native, TxPath::Direct);
const GENERIC: Kind = Kind::Queue(ReceivePath::Generic, TxPath::Direct);
const NATIVE_XDP: Kind = Kind::Queue(ReceivePath::Native, TxPath::Xdp);
const KINDS: [Kind; 9] = [
    PACKET,
    NATIVE,
    GENERIC,
    NATIVE_XDP,
    Kind::Udp,
    Kind::Tcp,
    Kind::Floor,
    Kind::FloorBehind(XdpMode::Native),
    Kind::FloorBehind(XdpMode::Generic),
];

impl Kind {
    /// Returns the floor of a reader that the program wakes by passing a frame on, behind a program in the same mode.
    const fn floor_behind(self) -> Option<Self> {
        match self {
            Self::Queue(ReceivePath::Native, _) => Some(Self::FloorBehind(XdpMode::Native)),
            Self::Queue(ReceivePath::Generic, _) => Some(Self::FloorBehind(XdpMode::Generic)),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Queue(ReceivePath::Packet, _) => "queue, packet sockets",
            Self::Queue(ReceivePath::Generic, _) => "queue, receive program, generic",
            Self::Queue(_, TxPath::Xdp) => "queue, receive program, native, sent by xdp",
            Self::Queue(..) => "queue, receive program, native",
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Floor => "floor: packet sockets in C",
            Self::FloorBehind(XdpMode::Generic) => "the floor behind an empty program, generic",
            Self::FloorBehind(_) => "the floor behind an empty program, native",
        }
    }
}

struct Lane {
    kind: Kind,
    wait: Wait,
    trips: Trips,
}

fn open(kind: Kind, wait: Wait) -> Lane {
    let pair = NetnsPair::new();
    let mode = wait.mode();
    let ends = match kind {
        Kind::Queue(receive, send) => {
            let (ways, wait) = ((receive, send), (wait.wake_up(), Order::Arrival));
            Some((
                peers::rtdip(&pair.a, &pair.b, ways, wait, (2000, 2001)),
                peers::rtdip(&pair.b, &pair.a, ways, wait, (2001, 2000)),
            ))
        }
        Kind::Udp => Some(peers::open(&pair, Protocol::Udp, mode)),
        Kind::Tcp => Some(peers::open(&pair, Protocol::Tcp, mode)),
        Kind::Floor | Kind::FloorBehind(_) => None,
    };
    let trips = match ends {
        Some(ends) => Trips::new(pair, Threads::start(ends, mode)),
        None => {
            let behind = match kind {
                Kind::FloorBehind(xdp) => Some(xdp),
                _ => None,
            };
            let floor = Floor::open(&pair, mode, behind);
            Trips::new(pair, floor)
        }
    };
    Lane { kind, wait, trips }
}

pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let (rounds, count) = if quick { (2, 30) } else { (40, 250) };
    let mut lanes: Vec<Lane> = WAITS
        .into_iter()
        .flat_map(|wait| KINDS.map(|kind| (kind, wait)))
        // The others cannot spin first and then block; that way is compared with spinning.
        .filter(|&(kind, wait)| matches!(kind, Kind::Queue(..)) || wait != Wait::SpinThenBlock)
        // A reader that spins is woken by no frame.
        .filter(|&(kind, wait)| !matches!(kind, Kind::FloorBehind(_)) || wait != Wait::Spin)
        .map(|(kind, wait)| open(kind, wait))
        .collect();
    round_trips::measure(&mut lanes, |lane| &mut lane.trips, (rounds, count));
    let mut rows = Vec::new();
    for own in lanes
        .iter()
        .filter(|lane| matches!(lane.kind, Kind::Queue(..)))
    {
        for size in 0..SIZES.len() {
            rows.extend([500, 990].map(|permille| row(&lanes, own, size, permille)));
            rows.extend(over_floor(&lanes, own, size));
        }
    }
    rows
}

/// Returns the figure of one lane in µs.
fn figure(lanes: &[Lane], (kind, wait): (Kind, Wait), size: usize, permille: usize) -> f64 {
    let lane = lanes
        .iter()
        .find(|lane| lane.kind == kind && lane.wait == wait);
    lane.map_or(f64::NAN, |lane| {
        quantile(&lane.trips.samples[size], permille)
    })
}

/// Returns the median as a multiple of the floor's, which says less about the machine than a time does.
fn over_floor(lanes: &[Lane], own: &Lane, size: usize) -> Option<Row> {
    let value = |kind, wait| figure(lanes, (kind, wait), size, 500);
    let compare = own.wait.of_others();
    let floor = value(Kind::Floor, compare);
    let over = value(own.kind, own.wait) / floor;
    // Nothing to divide by where all was lost.
    over.is_finite().then(|| Row {
        figure: format!(
            "round trip, {}, {}, {} B, p50 over the floor",
            own.kind.name(),
            own.wait.name(),
            SIZES[size]
        ),
        value: over,
        unit: "×".to_owned(),
        reach: None,
        held: None,
        why: None,
        samples: own.trips.samples[size].len() as u64,
        against: vec![
            compared("UDP over the floor", value(Kind::Udp, compare) / floor),
            compared("TCP over the floor", value(Kind::Tcp, compare) / floor),
        ],
    })
}

fn row(lanes: &[Lane], own: &Lane, size: usize, permille: usize) -> Row {
    let value = |kind: Kind, wait: Wait| figure(lanes, (kind, wait), size, permille);
    let own_value = value(own.kind, own.wait);
    let compare = own.wait.of_others();
    let (udp, tcp) = (value(Kind::Udp, compare), value(Kind::Tcp, compare));
    let spinning = value(own.kind, Wait::Spin);
    let (reach, held) = match own.wait {
        Wait::Spin => (
            "at most 0.40 of TCP and 0.55 of UDP",
            own_value <= 0.40 * tcp && own_value <= 0.55 * udp,
        ),
        Wait::SpinThenBlock => ("within 10 % of spinning", own_value <= 1.10 * spinning),
        Wait::OneCore => (
            "at most 0.80 of TCP and 0.95 of UDP",
            own_value <= 0.80 * tcp && own_value <= 0.95 * udp,
        ),
        Wait::TwoCores => ("not above UDP", own_value <= udp),
    };
    let judged = permille == 500;
    let mut against = vec![compared("UDP", udp), compared("TCP", tcp)];
    let floor = value(Kind::Floor, compare);
    against.push(compared(Kind::Floor.name(), floor));
    if let Some(behind) = own
        .kind
        .floor_behind()
        .filter(|_| own.wait.wake_up() == WakeUp::Block)
    {
        against.push(compared(behind.name(), value(behind, compare)));
    }
    if own.wait == Wait::SpinThenBlock {
        against.push(compared("the same, spinning", spinning));
    }
    Row {
        figure: format!(
            "round trip, {}, {}, {} B, {}",
            own.kind.name(),
            own.wait.name(),
            SIZES[size],
            if judged { "p50" } else { "p99" }
        ),
        value: own_value,
        unit: "µs".to_owned(),
        reach: judged.then(|| reach.to_owned()),
        held: judged.then_some(held && own.trips.lost == 0),
        why: match (judged, own.trips.lost, held) {
            (_, 1.., _) => Some(format!("{} values were lost", own.trips.lost)),
            (false, ..) => Some("the tail is this machine's own noise: see `noise`".to_owned()),
            (true, 0, false) if own.kind != PACKET && own.wait.wake_up() == WakeUp::Block => {
                Some(
                    "the frame that wakes a sleeper goes two ways, into memory and to Linux: where a reader always \
                     blocks, packet sockets cost less"
                        .to_owned(),
                )
            }
            (true, 0, false) if own.wait == Wait::OneCore => Some(format!(
                "waking and switching to the other process take most of the time, as with UDP; {:.3} of UDP, {:.3} of TCP",
                own_value / udp,
                own_value / tcp
            )),
            (true, 0, false) => Some("not reached in this run".to_owned()),
            (true, 0, true) => None,
        },
        samples: own.trips.samples[size].len() as u64,
        against,
    }
}
