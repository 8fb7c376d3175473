//! Detects an active managing node by listening on an interface.

use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::{Asnd, Message, multicast};

/// The time to listen before the first question, ns.
pub(super) const LISTEN_NS: u64 = 700_000_000;

/// The groups to listen to.
pub(super) fn groups() -> Vec<MacAddress> {
    vec![
        multicast::SOC,
        multicast::PRES,
        multicast::SOA,
        multicast::ASND,
    ]
}

/// Returns whether a frame shows an active managing node. A managing node on this very interface (in a program of its
/// own, without a control socket) is not heard here. The nodes that it asks are: they send only when asked. `asked`:
/// whether this command has asked already.
pub(super) fn shows_managing_node(message: &Message<'_>, asked: bool) -> bool {
    match message {
        Message::Soc(_) | Message::Soa(_) | Message::PReq(_) | Message::PRes(_) => true,
        Message::Asnd(Asnd::Ident(_) | Asnd::Status(_)) => !asked,
        _ => false,
    }
}
