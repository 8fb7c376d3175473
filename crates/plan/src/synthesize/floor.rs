//! Deadlines that no choice can keep: a frame alone in the network is later.

use super::space::Space;
use crate::network::{Network, Stream};
use rtwire_describe::ratio::Ratio;

/// Returns the time of a frame that meets nothing, nanoseconds, rounded down: all of it on each link, and the cables.
/// `None` where a switch cuts through, or for numbers out of range.
fn alone_ns(network: &Network, stream: &Stream, route: &[String]) -> Option<u64> {
    let bits = Ratio::whole(i128::from(stream.frame_bytes) * 8);
    let mut total_ns = 0_u64;
    for pair in route.windows(2) {
        let cuts = network.switch(&pair[0]).is_some_and(|it| it.cuts_through());
        let link = network.link(&pair[0], &pair[1])?;
        if cuts {
            return None;
        }
        let sending = bits.over(Ratio::whole(i128::from(link.rate_bps))).ok()?;
        let ns = sending.times(Ratio::whole(1_000_000_000)).ok()?.floor();
        total_ns = total_ns.checked_add(u64::try_from(ns).ok()?)?;
        total_ns = total_ns.checked_add(link.cable_delay_ns)?;
    }
    Some(total_ns)
}

fn late(network: &Network, stream: &Stream, route: &[String]) -> bool {
    let alone_ns = alone_ns(network, stream, route);
    stream
        .deadline_ns
        .zip(alone_ns)
        .is_some_and(|(deadline_ns, alone_ns)| alone_ns > deadline_ns)
}

/// Removes the routes on which a frame is late even alone. The stated one stays. Returns false if some stream has no other.
pub(super) fn prune(network: &Network, space: &mut Space) -> bool {
    let mut possible = true;
    for entry in &mut space.entries {
        let stream = &network.streams[entry.members[0]];
        let stated = entry.routes.first().cloned();
        entry
            .routes
            .retain(|route| Some(route) == stated.as_ref() || !late(network, stream, route));
        let other = entry.routes.len() > 1;
        let members = entry.members.iter();
        let mut routes = members.flat_map(|index| &network.streams[*index].routes);
        possible &= other || !routes.any(|route| late(network, stream, route));
    }
    possible
}
