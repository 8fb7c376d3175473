//! Random networks that the planner accepts.

use std::fmt::Write as _;

use rtwire_plan::network::ShaperKind;
use rtwire_plan::{Network, Options, Plan, plan, read};
use rtwire_sim::random::Random;

/// What keeps the classes apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// mqprio, with a limit on best effort.
    Classes,
    /// TAPRIO in the kernel.
    Gates,
    /// TAPRIO by launch times.
    Assisted,
    /// mqprio and ETF.
    Launched,
    /// mqprio and CBS.
    Credits,
}

impl Kind {
    /// `--queues`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Classes | Self::Credits => "mqprio",
            Self::Gates => "taprio",
            Self::Assisted => "taprio-assist",
            Self::Launched => "etf",
        }
    }

    fn timed(self) -> bool {
        !matches!(self, Self::Classes | Self::Credits)
    }
}

/// A network, its plan, and the host whose share is looked at.
pub(crate) struct Drawn {
    pub(crate) text: String,
    pub(crate) network: Network,
    pub(crate) plan: Plan,
    pub(crate) host: String,
    /// Whether the interface gets a network namespace of its own.
    pub(crate) namespace: bool,
}

impl Drawn {
    /// The classes of the host that have a credit, and its idle slope, kbit/s; the least urgent first.
    pub(crate) fn credits(&self) -> Vec<(u32, u64)> {
        let queues = u32::from(self.network.queues(&self.host));
        let own = self
            .network
            .shapers
            .iter()
            .filter(|one| one.node == self.host);
        let mut found: Vec<(u32, u64)> = own
            .filter_map(|one| match one.kind {
                ShaperKind::Credit { idle_slope } => {
                    let bps = u64::try_from(idle_slope.floor()).unwrap();
                    Some((u32::from(one.pcp) * queues / 8, bps / 1_000))
                }
                _ => None,
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// What all else than streams may take at the host, bit/s on the wire.
    pub(crate) fn allowed_bps(&self) -> u64 {
        let own = self
            .network
            .best_effort
            .iter()
            .filter(|one| one.host == self.host);
        own.map(|one| u64::try_from(one.rate.floor()).unwrap())
            .sum()
    }
}

fn pick<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[random.below(list.len() as u64) as usize]
}

/// One network; `None` where the planner refuses it, or gives its first host no schedule.
pub(crate) fn draw(random: &mut Random, kind: Kind) -> Option<Drawn> {
    let text = describe(random, kind);
    // Some rules are about the file as a whole, such as that best effort shares no queue with a time-triggered stream.
    let network = read(&text, "random.toml", &[]).ok()?;
    let plan = plan(&network, &Options::default()).ok()?;
    let host = "h0".to_owned();
    let port = plan.ports.iter().find(|port| port.node == host)?;
    let gated = matches!(kind, Kind::Gates | Kind::Assisted);
    if gated && port.gates.is_none() {
        return None;
    }
    Some(Drawn {
        text,
        network,
        plan,
        host,
        namespace: random.once_in(3),
    })
}

fn describe(random: &mut Random, kind: Kind) -> String {
    let (switches, hosts) = (1 + random.below(3), 2 + random.below(3));
    let mut text = String::from("[network]\nname = \"random\"\n[defaults]\n");
    let rate = pick(random, &["100 Mbit/s", "1 Gbit/s"]);
    let error = random.below(1_500);
    writeln!(text, "link-rate = \"{rate}\"\nclock-error = \"{error} ns\"").unwrap();
    if kind.timed() {
        let share = random.below(60);
        writeln!(text, "[schedule]\nbest-effort-share = {share}").unwrap();
    }
    let gates = if kind.timed() {
        "gates = \"unlimited\"\n"
    } else {
        ""
    };
    for switch in 0..switches {
        let (queues, latency) = (2 + random.below(7), random.below(5_000));
        writeln!(
            text,
            "[[switch]]\nname = \"s{switch}\"\nlatency = \"{latency} ns\"\nqueues = {queues}\nbuffer = \"10 MB\"\n{gates}"
        )
        .unwrap();
        if switch > 0 {
            let (other, cable) = (random.below(switch), random.below(2_000));
            writeln!(
                text,
                "[[link]]\nends = [\"s{switch}\", \"s{other}\"]\ncable-delay = \"{cable} ns\""
            )
            .unwrap();
        }
    }
    for host in 0..hosts {
        let (queues, at) = (2 + random.below(7), random.below(switches));
        writeln!(
            text,
            "[[host]]\nname = \"h{host}\"\nqueues = {queues}\n{gates}[[link]]\nends = [\"h{host}\", \"s{at}\"]"
        )
        .unwrap();
    }
    // Periods whose common cycle is short, and some that are no round numbers.
    let base = pick(random, &[250, 500, 300, 333, 1000]);
    for stream in 0..=random.below(6) {
        // The host that is looked at sends something, and now and then only receives.
        let talker = if stream == 0 { 0 } else { random.below(hosts) };
        let listener = (talker + 1 + random.below(hosts - 1)) % hosts;
        let (priority, payload) = (1 + random.below(7), 1 + random.below(600));
        let interval = base * pick(random, &[1, 2, 4]);
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{talker}\"\nlisteners = [\"h{listener}\"]\n\
             payload = \"{payload} B\"\ninterval = \"{interval} us\"\npriority = {priority}"
        )
        .unwrap();
        if random.once_in(3) {
            writeln!(text, "vlan = {}", 1 + random.below(4_094)).unwrap();
        }
        if random.once_in(4) {
            writeln!(text, "transport = \"udp\"").unwrap();
        }
        if kind.timed() && (stream == 0 || !random.once_in(3)) {
            writeln!(
                text,
                "schedule = \"time-triggered\"\njitter = \"{} ns\"",
                1_000 + random.below(30_000)
            )
            .unwrap();
        }
    }
    if kind == Kind::Credits {
        for _ in 0..=random.below(3) {
            let (priority, slope) = (1 + random.below(7), 5_000 + random.below(40_000));
            writeln!(
                text,
                "[[shaper]]\nnode = \"h0\"\npriority = {priority}\nkind = \"credit\"\nidle-slope = \"{slope} kbit/s\""
            )
            .unwrap();
        }
    }
    if !random.once_in(3) {
        let (rate, burst) = (100 + random.below(9_900), 1_538 + random.below(10_000));
        writeln!(
            text,
            "[[best-effort]]\nhost = \"h0\"\nto = [\"h1\"]\nrate = \"{rate} kbit/s\"\nburst = \"{burst} B\""
        )
        .unwrap();
    }
    text
}
