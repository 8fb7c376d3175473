//! Another managing node in the network. Two of them must not go on side by side: their requests collide, and the nodes get
//! process data of both.
//!
//! This node listens before it starts, and waits as long as it hears another one (NMT_MT2). Both may have started, for instance
//! since two networks were joined. Then the one with the higher MAC address yields as soon as it is sure. The other one goes on.
//! It yields, too, if the rival is still there after a second: another make of managing node may never yield. To yield is
//! to go back to NotActive. The node then sends nothing. It starts again once it has heard no other one for the time in object
//! 1F89h/1.

use super::ManagingNode;
use super::cycle::Phase;
use crate::ErrorCode;
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::{Message, NmtState, node};

/// The frames of other managing nodes that make sure of them. A single one may be a stray.
const SURE: u32 = 3;
/// The longest time between two of them, ns; longer, and the rival is taken for gone.
const TOGETHER_NS: u64 = 500_000_000;
/// The time for which the node with the lower address waits for the other one to yield, ns.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Other managing nodes that are heard. Each may be heard so seldom that only all of them together make sure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    /// The lowest of their addresses.
    lowest: MacAddress,
    first_ns: u64,
    last_ns: u64,
    frames: u32,
}

impl ManagingNode {
    /// Takes a frame of node 240 that this node has not sent.
    pub(super) fn other_managing_node(
        &mut self,
        now_ns: u64,
        from: MacAddress,
        message: &Message<'_>,
    ) {
        if !matches!(message, Message::Soc(_) | Message::Soa(_)) {
            return;
        }
        if let Phase::Listen { .. } = self.phase {
            // It may go away: listen on.
            let wait_ns = self.dictionary.number(0x1f89, 1) * 1000;
            self.phase = Phase::Listen {
                until_ns: now_ns + wait_ns,
            };
            self.warn(ErrorCode::OTHER_MN);
            return;
        }
        self.statistics.foreign_requests += 1;
        self.warn(ErrorCode::MULTIPLE_MN);
        let known = self
            .rival
            .filter(|rival| now_ns.saturating_sub(rival.last_ns) <= TOGETHER_NS);
        let mut rival = known.unwrap_or(Rival {
            lowest: from,
            first_ns: now_ns,
            last_ns: now_ns,
            frames: 0,
        });
        rival.lowest = rival.lowest.min(from);
        rival.last_ns = now_ns;
        rival.frames = rival.frames.saturating_add(1);
        self.rival = Some(rival);
        let passed_ns = now_ns.saturating_sub(rival.first_ns);
        let stays =
            rival.frames < SURE || rival.lowest > self.config.address && passed_ns < PATIENCE_NS;
        if !stays {
            self.yield_to_rival(now_ns);
        }
    }

    /// Goes back to NotActive, and listens. The nodes are the other one's from here on: their states and data are not known.
    fn yield_to_rival(&mut self, now_ns: u64) {
        self.rival = None;
        self.fault(node::MN, ErrorCode::YIELDED);
        self.enter(now_ns, NmtState::NOT_ACTIVE);
        self.image.forget_inputs();
        for at in 0..self.nodes.len() {
            let number = self.nodes.get(at).map_or(node::INVALID, |cn| cn.number);
            self.search_again(now_ns, number);
        }
        self.listen(now_ns);
    }

    /// Reports an error of this state once.
    fn warn(&mut self, code: ErrorCode) {
        if !core::mem::replace(&mut self.warned, true) {
            self.fault(node::MN, code);
        }
    }
}
