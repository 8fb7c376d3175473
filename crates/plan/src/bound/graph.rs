//! Servers and flows: the input of the analysis, its method, and its result.

use rtwire_describe::ratio::{Overflow, Ratio};

/// A port: serves frames, highest class first, in order of arrival within a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Rate, bit/s.
    pub rate: Ratio,
    /// Largest latency of a frame on top of queueing and transmission, seconds.
    pub latency: Ratio,
    /// Least latency of a frame, seconds.
    pub latency_min: Ratio,
    /// True if the latency is behind the queue: frames may leave faster than `rate` after they were late.
    ///
    /// Else it is before the queue, and each frame has its own. Only the frames of one input link and class stay in
    /// order.
    pub catches_up: bool,
    /// Number of classes; a larger number is more urgent.
    pub classes: u8,
    /// Largest frame of traffic outside the graph that can block every class, bits.
    pub foreign_frame: Ratio,
    /// The shaper of each class here. Classes with a credit are above all others.
    pub shapers: [ClassShaper; 8],
    /// Its frame preemption, if it has it.
    pub preemption: Option<Preempting>,
    /// The inputs, where their latencies differ: then each of them. `latency` and `latency_min` contain all of theirs.
    pub inputs: Vec<ServerInput>,
}

/// Frame preemption at a port (802.3br). Express classes interrupt the frames of the classes below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preempting {
    /// The lowest express class.
    pub first_express: u8,
    /// The longest piece of a preemptable frame that cannot be interrupted, with all that it costs on the wire, bits.
    pub piece: Ratio,
    /// The cost of one interruption on the wire, bits: of the fragment's end, and of the beginning of the next one.
    pub interruption: Ratio,
}

/// The latency between one input of a port and its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInput {
    /// The server at the other end of the input's link.
    pub from: usize,
    /// Largest latency of a frame, seconds.
    pub latency: Ratio,
    /// Least latency of a frame, seconds.
    pub latency_min: Ratio,
    /// The part of a frame that must have come before it may be forwarded, bits; `None` if all of it must.
    pub header: Option<Ratio>,
}

/// The shaper of a class at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassShaper {
    /// No shaper.
    #[default]
    None,
    /// A credit-based shaper (802.1Qav).
    Credit {
        /// Its idle slope, bit/s.
        idle_slope: Ratio,
    },
    /// A regulator for each input link and class before the queue (802.1Qcr, asynchronous traffic shaping).
    ///
    /// It restores the contract that every flow had at its source.
    Regulated,
}

/// One server on the path of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the server.
    pub server: usize,
    /// The flow's class there.
    pub class: u8,
    /// Index, within the flow, of the hop before; `None` if the flow enters here.
    pub before: Option<usize>,
}

/// Frames under one contract, over a path or a tree of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its burst, bits.
    pub burst: Ratio,
    /// Its rate, bit/s.
    pub rate: Ratio,
    /// Largest frame, bits.
    pub frame_max: Ratio,
    /// Smallest frame, bits.
    pub frame_min: Ratio,
    /// Seconds between frames of `frame_max`, if it sends one in each period.
    pub period: Option<Ratio>,
    /// The largest lateness of a periodic flow's frame when it enters, seconds (contained in `burst`).
    pub jitter: Ratio,
    /// Its servers; a hop comes after the hop before it.
    pub hops: Vec<Hop>,
    /// The meter that lets through its contract, if it passes one.
    pub meter: Option<Meter>,
}

/// A flow meter where the links of a flow's first servers end. Behind it the flow has no periods any more, but a line
/// that it keeps whatever its talker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// The bits that it counts of the flow's largest frame.
    pub counted: Ratio,
    /// The bits on the wire for each that it counts, at most: those of the smallest frame that there is.
    pub wire: Ratio,
    /// The rate of a fast clock over that of an exact one; its own clock may be fast or slow by as much.
    pub clock: Ratio,
    /// The smallest frame that there is, bits on the wire.
    pub frame_min: Ratio,
    /// For each hop the one at which its frames passed the meter; `None` at the talker, and where there is no meter.
    pub entered_at: Vec<Option<usize>>,
}

impl Meter {
    /// Returns what the meter counts of each bit that a flow takes of its link, at most.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn counted_share(&self, flow: &Flow) -> Result<Ratio, Overflow> {
        self.counted.over(flow.frame_max)
    }

    /// Returns the rate at which the bucket of a flow's meter fills, bit/s as it counts: enough on a slow clock.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn committed_bps(&self, flow: &Flow) -> Result<i128, Overflow> {
        let conforming = flow.rate.times(self.counted_share(flow)?)?;
        // With a drift d of at most 10 % this is (1 + d)^2 >= 1 / (1 - d).
        let slow = self.clock.times(self.clock)?;
        Ok(conforming.times(slow)?.ceil())
    }

    /// Returns the rate on the wire that passes a flow's meter at most, bit/s: on a fast clock, in the smallest frames.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn passing_bps(&self, flow: &Flow) -> Result<Ratio, Overflow> {
        let committed = Ratio::whole(self.committed_bps(flow)?);
        committed.times(self.clock)?.times(self.wire)
    }

    /// True if frames have passed the meter at a hop.
    #[must_use]
    pub fn is_behind(&self, hop: usize) -> bool {
        self.entered_at.get(hop).is_some_and(Option::is_some)
    }
}

/// The servers and the flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The ports.
    pub servers: Vec<Server>,
    /// The traffic.
    pub flows: Vec<Flow>,
}

impl Graph {
    /// Returns the servers in an order in which each comes after those that feed it, and the servers without such an
    /// order.
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

/// The facts that the analysis may use. All are sound; fewer of them mean larger bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// No link carries more than its rate allows.
    pub line_shaping: bool,
    /// The flows of a port together leave it no burstier than they arrived, except for its latency.
    pub aggregates: bool,
    /// A periodic flow sends whole frames, not a fluid.
    pub staircase: bool,
    /// No frame passes a port in less than its own time on the link, so only the rest adds jitter.
    pub least_delay: bool,
    /// In the sum over a route, no frame of its class ends on the examined frame's link while that is on it.
    pub last_on_link: bool,
}

impl Method {
    /// All facts.
    pub const FULL: Method = Method {
        line_shaping: true,
        aggregates: true,
        staircase: true,
        least_delay: true,
        last_on_link: true,
    };
}

/// The bounds of one class at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassBound {
    /// Largest delay from arrival of a frame's last bit to departure of its last bit, seconds; `None`: unbounded.
    pub delay: Option<Ratio>,
    /// Largest frame of a lower class that can block this class, bits.
    pub blocking: Ratio,
}

/// The bounds of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBound {
    /// The bounds of each class.
    pub classes: Vec<ClassBound>,
    /// Largest backlog of all classes together, bits; `None`: unbounded. Zero if nothing passes.
    pub backlog: Option<Ratio>,
}
