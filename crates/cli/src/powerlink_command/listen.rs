//! Whether a managing node is active, as far as an interface can tell.

use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::{Asnd, Message, multicast};

/// How long to listen before asking anybody, ns.
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

/// Whether a frame shows that a managing node is active. One that runs on this very interface (in a program of its own,
/// without a control socket) is not heard here, but the nodes that it asks are: they speak only when they are asked.
/// `asked`: whether this command itself has asked already.
pub(super) fn shows_managing_node(message: &Message<'_>, asked: bool) -> bool {
    match message {
        Message::Soc(_) | Message::Soa(_) | Message::PReq(_) | Message::PRes(_) => true,
        Message::Asnd(Asnd::Ident(_) | Asnd::Status(_)) => !asked,
        _ => false,
    }
}
