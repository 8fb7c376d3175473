//! The managing node's view of each controlled node.

use crate::ObjectDictionary;
use crate::counter::Counter;
use crate::sdo::{SdoClient, SdoServer, is_held};
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::{Ident, NmtState, SendRequest};

const START: u64 = 0x4;
const MANDATORY: u64 = 0x8;
const ASYNC_ONLY: u64 = 0x100;
const MULTIPLEXED: u64 = 0x200;
/// The bit of the managing node's own entry with which it sends a PRes itself.
pub(super) const MN_RESPONDS: u64 = 0x1000;
const CHAINED: u64 = 0x4000;

/// The progress of a node's boot (DS 301, 7.4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Boot {
    /// Is asked for its identity.
    Search,
    /// Begins its error signalling anew.
    Clear,
    /// Gets its settings of PollResponse chaining.
    Sync,
    /// Gets its configuration.
    Configure,
    /// Has its configuration, and is to reach PreOperational2.
    Identified,
    /// Has the command to become ready.
    Enabled,
    /// Is ready, and waits for the managing node.
    Ready,
    /// Has the command to start.
    Started,
    /// Is operational.
    Running,
    /// Was stopped by the application or by a command.
    Stopped,
}

/// The status of a controlled node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node number.
    pub node: u8,
    /// True where the network does not start without it.
    pub mandatory: bool,
    /// The MAC address, once it is known.
    pub address: Option<MacAddress>,
    /// The last state that it has reported.
    pub state: NmtState,
    /// True once it takes part as configured.
    pub operational: bool,
    /// The number of responses.
    pub responses: u64,
    /// Responses that are missing.
    pub lost: Counter,
    /// Responses that came too late.
    pub late: Counter,
    /// The time from the last request to its response, ns.
    pub latency_ns: u64,
    /// The identity that it has reported.
    pub ident: Option<Ident>,
}

#[derive(Clone, Debug)]
pub(super) struct Cn {
    pub(super) number: u8,
    pub(super) start: bool,
    pub(super) mandatory: bool,
    pub(super) async_only: bool,
    pub(super) chained: bool,
    /// The multiplexed cycle in which it is polled; 0: every cycle.
    pub(super) slot: u8,
    pub(super) timeout_ns: u64,
    pub(super) boot: Boot,
    pub(super) state: NmtState,
    pub(super) address: Option<MacAddress>,
    pub(super) ident: Option<Ident>,
    pub(super) receive_channel: Option<usize>,
    pub(super) transmit_channel: Option<usize>,
    pub(super) client: SdoClient,
    pub(super) lost: Counter,
    pub(super) late: Counter,
    pub(super) status_lost: Counter,
    pub(super) responses: u64,
    pub(super) latency_ns: u64,
    pub(super) request: SendRequest,
    /// The last EN that was read; it is sent back as EA.
    pub(super) acknowledged: bool,
    pub(super) status_wanted: bool,
    pub(super) status_due_ns: u64,
    /// True where its status was requested, and the answer is still missing.
    pub(super) status_asked: bool,
    /// The number of StatusResponses without EC while its error signalling is to begin anew.
    pub(super) clear_tries: u32,
    /// The time at which a state command without effect is sent again.
    pub(super) repeat_ns: u64,
    pub(super) ident_due_ns: u64,
    pub(super) ident_tries: u32,
    pub(super) deadline_ns: Option<u64>,
    pub(super) polled: bool,
    pub(super) responded: bool,
    pub(super) wrong_state: u32,
    pub(super) configured: bool,
    /// The jobs of the configuration: number, index, sub-index, and true where a refusal is tolerated.
    pub(super) configuring: Vec<(u32, u16, u8, bool)>,
    /// The time in ns from the managing node's PRes to its own in PollResponse chaining.
    pub(super) chain_ns: u64,
    pub(super) requested_ns: u64,
    pub(super) complained: bool,
    /// True where an error about it was reported, and it is not well again.
    pub(super) in_error: bool,
}

impl Cn {
    pub(super) fn new(d: &ObjectDictionary, number: u8, assignment: u64, mtu: usize) -> Self {
        let counter =
            |cumulative, threshold| Counter::of(d, (cumulative, number), (threshold, number));
        let cycles = d.number(0x1f98, 7);
        let slot = d.number(0x1f9b, number) as u8;
        let multiplexed = assignment & MULTIPLEXED != 0 && cycles > 0;
        Self {
            number,
            start: assignment & START != 0,
            mandatory: assignment & MANDATORY != 0,
            async_only: assignment & ASYNC_ONLY != 0,
            chained: assignment & CHAINED != 0,
            slot: if multiplexed {
                slot.clamp(1, cycles.min(255) as u8)
            } else {
                0
            },
            timeout_ns: d.number(0x1f92, number).max(1000),
            boot: Boot::Search,
            state: NmtState::NOT_ACTIVE,
            address: None,
            ident: None,
            receive_channel: None,
            transmit_channel: None,
            client: SdoClient::new(mtu, (d.number(0x1300, 0) * 1_000_000).max(1_000_000)),
            lost: counter(0x1c07, 0x1c09),
            late: counter(0x1c04, 0x1c06),
            status_lost: counter(0x1c15, 0x1c17),
            responses: 0,
            latency_ns: 0,
            request: SendRequest::NONE,
            acknowledged: false,
            status_wanted: false,
            status_due_ns: 0,
            status_asked: false,
            clear_tries: 0,
            repeat_ns: 0,
            ident_due_ns: 0,
            ident_tries: 0,
            deadline_ns: None,
            polled: false,
            responded: false,
            wrong_state: 0,
            configured: false,
            configuring: Vec::new(),
            chain_ns: 0,
            requested_ns: 0,
            complained: false,
            in_error: false,
        }
    }

    /// Returns true where service data to it wait, and may be sent.
    pub(super) fn asks(&self, server: &SdoServer) -> bool {
        self.client.frames_waiting() > 0 && !is_held(&self.client, server, self.number)
    }

    pub(super) fn status(&self) -> NodeStatus {
        NodeStatus {
            node: self.number,
            mandatory: self.mandatory,
            address: self.address,
            state: self.state,
            operational: self.boot == Boot::Running,
            responses: self.responses,
            lost: self.lost,
            late: self.late,
            latency_ns: self.latency_ns,
            ident: self.ident,
        }
    }

    /// Returns true where its status is requested at the long interval.
    pub(super) fn is_slow(&self) -> bool {
        self.async_only && self.boot >= Boot::Running && self.client.is_idle()
    }

    /// Returns true where it is polled in the isochronous phase.
    pub(super) const fn isochronous(&self) -> bool {
        self.polled && !self.async_only && !self.chained
    }
}
