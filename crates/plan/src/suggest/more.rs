//! Changes of idle slopes, regulators, best effort's frames, links on a late stream's route, and several priorities.

use super::{LINK_RATES, Search};
use crate::network::{Network, PortShaper, ShaperKind};
use crate::refusal::Reason;
use crate::suggestion::{ChangeKind, Suggestion};
use rtwire_describe::ratio::Ratio;

/// The steps from the least idle slope to the largest one that the link allows, thousandths.
const SLOPE_STEPS: [u64; 7] = [0, 50, 100, 200, 400, 700, 950];
/// The smallest frame: header and payload without FCS, bytes.
const SMALLEST_FRAME_BYTES: u64 = 60;
/// The most links that are tried one by one.
const MOST_LINKS: usize = 12;
/// The most shapers for which missing regulators are looked for.
const MOST_SHAPERS: usize = 2_000;

/// Returns a rate as it is written in a description.
fn shown_rate(bps: u64) -> String {
    match bps {
        _ if bps % 1_000_000_000 == 0 => format!("{} Gbit/s", bps / 1_000_000_000),
        _ if bps % 1_000_000 == 0 => format!("{} Mbit/s", bps / 1_000_000),
        _ => format!("{} kbit/s", bps.div_ceil(1_000)),
    }
}

/// Returns the routes of the streams that are too late or vary too much.
fn late_routes(search: &Search<'_>) -> Vec<Vec<String>> {
    let late = search.reasons.iter().filter_map(|reason| match reason {
        Reason::Deadline {
            stream, listener, ..
        } => Some((stream, listener)),
        _ => None,
    });
    let mut routes = Vec::new();
    for (name, listener) in late {
        let mut streams = search.base.streams.iter();
        let Some(stream) = streams.find(|stream| stream.name == *name) else {
            continue;
        };
        let ends = stream.listeners.iter().zip(&stream.routes);
        routes.extend(
            ends.filter(|(end, _)| *end == listener)
                .map(|(_, route)| route.clone()),
        );
    }
    routes
}

/// Tries larger idle slopes: at the classes whose rates reach theirs, else at all credits on the routes of late streams.
pub(super) fn idle_slope(search: &mut Search<'_>) -> Option<Suggestion> {
    // The shaper, by its number, and the least slope, bit/s.
    let mut wanted: Vec<(usize, u64)> = Vec::new();
    let mut want = |search: &Search<'_>, node: &str, to: &str, class: Option<u8>, least: u64| {
        let network = &search.base;
        for (at, shaper) in network.shapers.iter().enumerate() {
            let ShaperKind::Credit { idle_slope } = shaper.kind else {
                continue;
            };
            let here = shaper.node == node && shaper.to.as_deref().is_none_or(|only| only == to);
            let own = network.class(node, shaper.pcp);
            if here && class.is_none_or(|class| class == own) {
                let now = u64::try_from(idle_slope.ceil()).unwrap_or(u64::MAX);
                match wanted.iter_mut().find(|(known, _)| *known == at) {
                    Some((_, known)) => *known = least.max(*known),
                    None => wanted.push((at, least.max(now))),
                }
            }
        }
    };
    for reason in search.reasons {
        if let Reason::Credit {
            node,
            port,
            class,
            rate_bps,
            ..
        } = reason
        {
            // Rates that reach the slope are too large, too.
            want(
                search,
                node,
                port,
                Some(*class),
                (rate_bps / 1_000 + 1) * 1_000,
            );
        }
    }
    if !search
        .reasons
        .iter()
        .any(|reason| matches!(reason, Reason::Credit { .. }))
    {
        for route in late_routes(search) {
            for pair in route.windows(2) {
                want(search, &pair[0], &pair[1], None, 0);
            }
        }
    }
    for step in SLOPE_STEPS {
        let mut trial = search.base.clone();
        let mut changed = Vec::new();
        for (at, least) in &wanted {
            let most = room(&search.base, *at)?;
            let bps = least + most.checked_sub(*least)? / 1_000 * step;
            let bps = bps.div_ceil(1_000) * 1_000;
            let ShaperKind::Credit { idle_slope } = &mut trial.shapers[*at].kind else {
                continue;
            };
            if *idle_slope != Ratio::whole(bps.into()) {
                *idle_slope = Ratio::whole(bps.into());
                changed.push((*at, bps));
            }
        }
        if changed.is_empty() || !slopes_fit(&trial) || !search.fits(&trial) {
            continue;
        }
        let parts = changed.iter().map(|(at, bps)| {
            let shaper = &search.base.shapers[*at];
            let to = shaper
                .to
                .as_ref()
                .map_or_else(String::new, |to| format!(" towards \"{to}\""));
            format!(
                "idle-slope = \"{}\" for priority {} of \"{}\"{to}",
                shown_rate(*bps),
                shaper.pcp,
                shaper.node
            )
        });
        let parts = parts.collect();
        let of = changed
            .iter()
            .map(|(at, _)| search.base.shapers[*at].node.clone())
            .collect();
        return Some(search.suggestion(ChangeKind::IdleSlope, of, parts));
    }
    None
}

/// Returns the rates of the links behind the ports that a shaper is for.
fn links_of(network: &Network, at: usize) -> impl Iterator<Item = (&str, u64)> {
    let shaper = &network.shapers[at];
    network.links.iter().filter_map(move |link| {
        let [a, b] = &link.ends;
        let to = if *a == shaper.node {
            b
        } else if *b == shaper.node {
            a
        } else {
            return None;
        };
        let here = shaper.to.as_ref().is_none_or(|only| only == to);
        here.then_some((to.as_str(), link.rate_bps))
    })
}

/// Returns the sum of the idle slopes at the port of `node` towards `to`.
fn slopes(network: &Network, node: &str, to: &str) -> Option<Ratio> {
    let shapers = network.shapers.iter();
    let here =
        shapers.filter(|one| one.node == node && one.to.as_deref().is_none_or(|only| only == to));
    let credits = here.filter_map(|one| match one.kind {
        ShaperKind::Credit { idle_slope } => Some(idle_slope),
        ShaperKind::Asynchronous => None,
    });
    let mut credits = credits;
    credits.try_fold(Ratio::ZERO, Ratio::plus).ok()
}

/// Returns the largest slope of a shaper that the others at its ports leave, bit/s.
fn room(network: &Network, at: usize) -> Option<u64> {
    let shaper = &network.shapers[at];
    let ShaperKind::Credit { idle_slope } = shaper.kind else {
        return None;
    };
    let mut least = u64::MAX;
    for (to, rate_bps) in links_of(network, at) {
        let others = slopes(network, &shaper.node, to)?.minus(idle_slope).ok()?;
        let others = u64::try_from(others.ceil()).ok()?;
        least = least.min(rate_bps.saturating_sub(others));
    }
    Some(least)
}

/// True if the slopes at each port are below its link's rate, as descriptions demand.
fn slopes_fit(network: &Network) -> bool {
    (0..network.shapers.len()).all(|at| {
        let node = &network.shapers[at].node;
        links_of(network, at).all(|(to, rate_bps)| {
            slopes(network, node, to).is_some_and(|sum| sum < Ratio::whole(rate_bps.into()))
        })
    })
}

/// Tries one largest frame for all best effort, the longest that fits.
pub(super) fn best_effort_frame(search: &mut Search<'_>) -> Option<Suggestion> {
    let now = search
        .base
        .best_effort
        .iter()
        .map(|one| one.frame_bytes)
        .max()?;
    let most = now.checked_sub(SMALLEST_FRAME_BYTES)?;
    let found = search.largest(most, |network, more| {
        let bytes = SMALLEST_FRAME_BYTES - 1 + more;
        for one in network
            .best_effort
            .iter_mut()
            .filter(|one| one.frame_bytes > bytes)
        {
            let overhead = one.wire_bytes - one.frame_bytes;
            let of_frame = one.burst == Ratio::whole(i128::from(one.wire_bytes) * 8);
            one.frame_bytes = bytes;
            one.wire_bytes = bytes + overhead;
            // Smaller frames of the same rate cost more on the wire.
            let scale = Ratio::new(i128::from(one.wire_bytes), i128::from(bytes))?;
            one.rate = one.rate_bps.times(scale)?;
            if of_frame {
                one.burst = Ratio::whole(i128::from(one.wire_bytes) * 8);
            }
        }
        Ok(())
    })?;
    let bytes = SMALLEST_FRAME_BYTES - 1 + found;
    let longer = search
        .base
        .best_effort
        .iter()
        .filter(|one| one.frame_bytes > bytes);
    let of: Vec<String> = longer.map(|one| one.name.clone()).collect();
    let parts = of
        .iter()
        .map(|name| format!("frame = \"{bytes} B\" for best-effort \"{name}\""));
    let parts = parts.collect();
    Some(search.suggestion(ChangeKind::BestEffortFrame, of, parts))
}

/// Tries faster links: the overloaded ones, or one on the route of a late stream, or all on these routes. Where the next link is
/// overloaded then, it becomes faster, too.
pub(super) fn link_rate(search: &mut Search<'_>) -> Option<Suggestion> {
    let of_reasons = |reasons: &[Reason]| {
        let rates = reasons.iter().filter_map(|reason| match reason {
            Reason::Rate {
                node,
                port,
                rate_bps,
                ..
            } => Some((node.clone(), port.clone(), *rate_bps)),
            _ => None,
        });
        rates.collect::<Vec<_>>()
    };
    let overloaded = of_reasons(search.reasons);
    let routes = late_routes(search);
    let mut on_routes: Vec<(String, String, u64)> = Vec::new();
    for pair in routes.iter().flat_map(|route| route.windows(2)) {
        let known = |(a, b, _): &(String, String, u64)| {
            (*a == pair[0] && *b == pair[1]) || (*a == pair[1] && *b == pair[0])
        };
        if !on_routes.iter().any(known) {
            on_routes.push((pair[0].clone(), pair[1].clone(), 0));
        }
    }
    let mut choices: Vec<Vec<(String, String, u64)>> = Vec::new();
    if overloaded.is_empty() {
        // Towards the listener more streams meet.
        let single = on_routes.iter().rev().take(MOST_LINKS);
        choices.extend(single.map(|one| vec![one.clone()]));
        choices.push(on_routes);
    } else {
        choices.push(overloaded);
    }
    for choice in choices {
        let mut trial = search.base.clone();
        let mut next = choice;
        // Each round makes a link faster; there are as many rates.
        for _ in 0..LINK_RATES.len() {
            let faster = next
                .iter()
                .all(|(node, port, least)| faster(&mut trial, node, port, *least));
            if next.is_empty() || !faster {
                break;
            }
            let (_, reasons) = search.plan(&trial)?;
            if reasons.is_empty() {
                let (of, parts) = changed_links(&search.base, &trial);
                return Some(search.suggestion(ChangeKind::LinkRate, of, parts));
            }
            next = of_reasons(&reasons);
        }
    }
    None
}

/// Sets a link to the next rate above its own and above `least`. Returns false if there is none.
fn faster(network: &mut Network, node: &str, port: &str, least: u64) -> bool {
    let joins = |ends: &[String; 2]| {
        ends.iter().any(|end| end == node) && ends.iter().any(|end| end == port)
    };
    let Some(link) = network.links.iter_mut().find(|link| joins(&link.ends)) else {
        return false;
    };
    if least > 0 && link.rate_bps > least {
        return true;
    }
    let rate = LINK_RATES
        .into_iter()
        .find(|rate| *rate > least && *rate > link.rate_bps);
    rate.inspect(|rate| link.rate_bps = *rate).is_some()
}

fn changed_links(before: &Network, after: &Network) -> (Vec<String>, Vec<String>) {
    let pairs = before.links.iter().zip(&after.links);
    let changed = pairs.filter(|(old, new)| old.rate_bps != new.rate_bps);
    let changed = changed.map(|(_, link)| {
        let [a, b] = &link.ends;
        let words = format!(
            "rate = \"{}\" for the link between \"{a}\" and \"{b}\"",
            shown_rate(link.rate_bps)
        );
        (format!("{a}-{b}"), words)
    });
    changed.unzip()
}

/// Tries higher priorities for all late streams at once, each as many steps.
pub(super) fn priorities(search: &mut Search<'_>) -> Option<Suggestion> {
    let mut late: Vec<String> = Vec::new();
    for reason in search.reasons {
        if let Reason::Deadline { stream, .. } = reason {
            let name = search.stated(stream);
            if !late.contains(&name) {
                late.push(name);
            }
        }
    }
    if late.len() < 2 {
        return None;
    }
    for steps in 1..=7 {
        let mut trial = search.base.clone();
        let mut parts = Vec::new();
        for stream in &mut trial.streams {
            if stream.time_triggered || !late.iter().any(|name| name == stream.stated_name()) {
                continue;
            }
            let pcp = (stream.pcp + steps).min(7);
            if pcp != stream.pcp && stream.copy_of.is_none() {
                parts.push(format!(
                    "priority = {pcp} for \"{}\", in place of {}",
                    stream.name, stream.pcp
                ));
            }
            stream.pcp = pcp;
        }
        if !parts.is_empty() && search.fits(&trial) {
            return Some(search.suggestion(ChangeKind::Priority, late, parts));
        }
    }
    None
}

/// Tries regulators at the ports before those that have one. Streams that come to a regulator with more jitter than at their
/// talkers wait for each other, and nothing bounds that wait.
pub(super) fn regulators(search: &mut Search<'_>) -> Option<Suggestion> {
    let unbounded = |reason: &Reason| matches!(reason, Reason::Unbounded { .. });
    let shapers = search.base.shapers.len();
    if !search.reasons.iter().any(unbounded) || shapers > MOST_SHAPERS {
        return None;
    }
    let mut trial = search.base.clone();
    let mut parts = Vec::new();
    let mut of = Vec::new();
    // Towards the talkers, until each port before a regulator has one. Each round adds one at least.
    loop {
        let mut missing: Vec<PortShaper> = Vec::new();
        let routers = search.base.routers();
        for stream in &trial.streams {
            let routes = stream.routes.iter();
            let ways = routes.flat_map(|route| {
                let hops: Vec<_> = routers.hops(route, stream.marks()).collect();
                let pairs = hops.windows(2).skip(1).map(|pair| (pair[0], pair[1]));
                pairs.collect::<Vec<_>>()
            });
            for ((before, node, pcp), (_, to, next)) in ways {
                let regulated = |node: &str, to: &str| {
                    trial.shaper(node, to, trial.class(node, next))
                        == Some(ShaperKind::Asynchronous)
                };
                let known = |one: &PortShaper| {
                    one.node == before
                        && one.to.as_deref() == Some(node)
                        && trial.class(before, one.pcp) == trial.class(before, pcp)
                };
                // A class with a credit there can have no regulator as well.
                let free = || {
                    let class = trial.class(before, pcp);
                    trial.shaper(before, node, class).is_none()
                };
                if regulated(node, to) && free() && !missing.iter().any(known) {
                    missing.push(PortShaper {
                        node: before.to_owned(),
                        to: Some(node.to_owned()),
                        pcp,
                        kind: ShaperKind::Asynchronous,
                    });
                }
            }
        }
        if missing.is_empty() {
            break;
        }
        for one in missing {
            let to = one.to.as_deref().unwrap_or_default();
            parts.push(format!(
                "[[shaper]] node = \"{}\", to = \"{to}\", priority = {}, kind = \"asynchronous\"",
                one.node, one.pcp
            ));
            of.push(one.node.clone());
            trial.shapers.push(one);
        }
    }
    let fits = !parts.is_empty() && search.fits(&trial);
    fits.then(|| search.suggestion(ChangeKind::Regulators, of, parts))
}
