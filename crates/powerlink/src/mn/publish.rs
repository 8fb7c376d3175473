//! NMT info services: the managing node publishes which nodes are configured, active, or in a state (DS 301, 7.3.4).

use super::node::{Boot, Cn};
use super::{ManagingNode, number};
use rtwire_wire::powerlink::{NmtCommandId, NmtState, node_list_insert};

impl ManagingNode {
    /// Sends the list of `command` to all nodes. Returns true where `command` has one.
    pub fn publish(&mut self, command: NmtCommandId) -> bool {
        let wanted: fn(&Cn) -> bool = match command {
            NmtCommandId::PUBLISH_CONFIGURED_NODES => |_| true,
            NmtCommandId::PUBLISH_ACTIVE_NODES => |cn| cn.boot > Boot::Search,
            NmtCommandId::PUBLISH_PRE_OPERATIONAL_1 => |cn| cn.state == NmtState::PRE_OPERATIONAL_1,
            NmtCommandId::PUBLISH_PRE_OPERATIONAL_2 => |cn| cn.state == NmtState::PRE_OPERATIONAL_2,
            NmtCommandId::PUBLISH_READY_TO_OPERATE => |cn| cn.state == NmtState::READY_TO_OPERATE,
            NmtCommandId::PUBLISH_OPERATIONAL => |cn| cn.state == NmtState::OPERATIONAL,
            NmtCommandId::PUBLISH_STOPPED => |cn| cn.state == NmtState::STOPPED,
            _ => return false,
        };
        let mut list = [0; 32];
        for cn in self.nodes.iter().filter(|cn| wanted(cn)) {
            node_list_insert(&mut list, cn.number);
        }
        self.queue_command(command, number::BROADCAST, &list);
        true
    }
}
