//! Servers and flows: what is analysed, by which method, and what comes out.

use rtwire_describe::ratio::Ratio;

/// A port: serves frames, highest class first, in order of arrival within a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Rate, bit/s.
    pub rate: Ratio,
    /// Largest latency on top of queueing and transmission, seconds.
    pub latency: Ratio,
    /// Least latency, seconds. Zero unless proven.
    pub latency_min: Ratio,
    /// Whether frames may leave faster than `rate` after having been late.
    pub catches_up: bool,
    /// Number of classes; a larger number is more urgent.
    pub classes: u8,
    /// A frame of traffic outside the graph that may be in the way of every class, bits.
    pub foreign_frame: Ratio,
    /// By class: what shapes it here. Those with a credit are above all others.
    pub shapers: [ClassShaper; 8],
}

/// What shapes a class at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassShaper {
    /// Nothing.
    #[default]
    None,
    /// A credit-based shaper (802.1Qav).
    Credit {
        /// Its idle slope, bit/s.
        idle_slope: Ratio,
    },
    /// A regulator for each input link and class before the queue, which makes every flow keep to the contract of its
    /// source again (802.1Qcr, asynchronous traffic shaping).
    Regulated,
}

/// One server on the way of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the server.
    pub server: usize,
    /// The flow's class there.
    pub class: u8,
    /// Index, within the flow, of the hop before; `None` where the flow enters.
    pub before: Option<usize>,
}

/// Frames under one contract, over a path or a tree of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Bits at once.
    pub burst: Ratio,
    /// Bits per second.
    pub rate: Ratio,
    /// Largest frame, bits.
    pub frame_max: Ratio,
    /// Smallest frame, bits.
    pub frame_min: Ratio,
    /// Seconds between frames of `frame_max`, where it sends one in each period.
    pub period: Option<Ratio>,
    /// How late a frame of a periodic flow may enter, seconds (contained in `burst`).
    pub jitter: Ratio,
    /// Its servers; a hop comes behind the hop before it.
    pub hops: Vec<Hop>,
}

/// Servers and flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The ports.
    pub servers: Vec<Server>,
    /// The traffic.
    pub flows: Vec<Flow>,
}

impl Graph {
    /// Servers in an order in which each comes behind those that feed it, and those for which there is none.
    pub(crate) fn order(&self) -> (Vec<usize>, Vec<usize>) {
        let count = self.servers.len();
        let mut follows: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut waits_for = vec![0_usize; count];
        for flow in &self.flows {
            for hop in &flow.hops {
                if let Some(before) = hop.before {
                    follows[flow.hops[before].server].push(hop.server);
                    waits_for[hop.server] += 1;
                }
            }
        }
        let mut order = Vec::new();
        let mut ready: Vec<usize> = (0..count)
            .rev()
            .filter(|server| waits_for[*server] == 0)
            .collect();
        while let Some(server) = ready.pop() {
            order.push(server);
            for &next in &follows[server] {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    ready.push(next);
                }
            }
        }
        let cyclic = (0..count).filter(|server| waits_for[*server] > 0).collect();
        (order, cyclic)
    }
}

/// What the analysis may use. All are sound; fewer give larger bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// No link carries more than its rate allows.
    pub line_shaping: bool,
    /// All flows of a port together leave it no burstier than they came, but for its latency.
    pub aggregates: bool,
    /// A periodic flow sends whole frames, not a fluid.
    pub staircase: bool,
    /// No frame passes a port in less than its own time on the link, so that only the rest adds jitter to flows.
    pub least_delay: bool,
}

impl Method {
    /// Everything.
    pub const FULL: Method = Method {
        line_shaping: true,
        aggregates: true,
        staircase: true,
        least_delay: true,
    };
}

/// The bounds of one class at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassBound {
    /// Largest delay from arrival of a frame's last bit to departure of its last bit, seconds; `None`: unbounded.
    pub delay: Option<Ratio>,
    /// Largest frame of a lower class, bits, that may be in the way.
    pub blocking: Ratio,
}

/// The bounds of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBound {
    /// By class.
    pub classes: Vec<ClassBound>,
    /// Largest backlog of all classes together, bits; `None`: unbounded. Zero where nothing passes.
    pub backlog: Option<Ratio>,
}
