//! The input of a replay and its result.

/// A frame that entered the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The flow's number: streams in the order of the network, then best effort by receiver in the order of the plan.
    pub flow: usize,
    /// The frame's number within its flow. No two departures of a flow have the same one.
    pub frame: u64,
    /// The time at which it entered the queue of its host's port: its transmit timestamp, ns of CLOCK_TAI.
    pub at_ns: u64,
    /// Its size on the wire in bytes, if it is not the one in the description.
    pub wire_bytes: Option<u32>,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// One entry for each flow and listener: flows in order, and the listeners of a flow in the order of the
    /// description.
    pub listeners: Vec<ListenerReplay>,
    /// Each port of the network.
    pub ports: Vec<PortReplay>,
}

/// One port of the network, with the largest values of all plays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortReplay {
    /// The host or switch that sends.
    pub node: String,
    /// The neighbour that it sends to.
    pub port: String,
    /// Highest backlog, bytes on the wire.
    pub backlog_bytes: u64,
    /// Frames that found no room in the buffer.
    pub dropped: u64,
}

/// The frames of one flow at one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerReplay {
    /// The flow's number, as in [`Departure`].
    pub flow: usize,
    /// The flow's name.
    pub name: String,
    /// The host that receives.
    pub listener: String,
    /// One entry for each departure of the flow, in order of the frame's number.
    pub frames: Vec<FrameReplay>,
}

/// One frame at one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameReplay {
    /// The frame's number within its flow.
    pub frame: u64,
    /// Its departure, ns of CLOCK_TAI.
    pub at_ns: u64,
    /// Its fate in the described network.
    pub fate: Fate,
}

/// The fate of a frame in the described network. Delays count from the departure to the last bit at the listener, in
/// ns rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The frame arrives.
    Arrives {
        /// The least delay among the ways in which ports may use their latency, ns.
        least_ns: u64,
        /// The largest such delay, ns. It equals the least one in a network without latencies.
        most_ns: u64,
    },
    /// The frame arrives, or a full buffer drops it. This depends on how ports use their latency.
    MayArrive {
        /// The least delay with which it arrives, ns.
        least_ns: u64,
        /// The largest such delay, ns.
        most_ns: u64,
    },
    /// A full buffer drops the frame.
    Dropped,
    /// The frame never leaves a port: it fits no window of its gates, or exceeds its regulator's burst, or waits behind
    /// such a frame.
    Stuck,
}

impl Fate {
    /// Returns the largest delay with which the frame arrives, ns; `None` if it never does.
    #[must_use]
    pub fn most_ns(&self) -> Option<u64> {
        match self {
            Fate::Arrives { most_ns, .. } | Fate::MayArrive { most_ns, .. } => Some(*most_ns),
            Fate::Dropped | Fate::Stuck => None,
        }
    }
}

impl ListenerReplay {
    /// Returns the frame with this number.
    #[must_use]
    pub fn frame(&self, number: u64) -> Option<&FrameReplay> {
        let at = self.frames.binary_search_by_key(&number, |it| it.frame);
        at.ok().and_then(|at| self.frames.get(at))
    }

    /// Returns the largest delay of all frames that arrive, ns; `None` if none does.
    #[must_use]
    pub fn worst_ns(&self) -> Option<u64> {
        self.frames.iter().filter_map(|it| it.fate.most_ns()).max()
    }
}

impl Replayed {
    /// Returns the results of a flow at a listener.
    #[must_use]
    pub fn at(&self, flow: usize, listener: &str) -> Option<&ListenerReplay> {
        let mut all = self.listeners.iter();
        all.find(|it| it.flow == flow && it.listener == listener)
    }
}
