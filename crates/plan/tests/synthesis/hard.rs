//! Ten of the public generator's hard sets as networks: gates alone may change.

use super::*;
use crate::sets::{Instance, Kind, Topology, instance};

const SWITCHES: usize = 8;

/// The cables of a topology, in the order of the generator's links. Nodes from 8 on are hosts.
fn cables(topology: Topology) -> Vec<(usize, usize)> {
    if topology == Topology::Tree {
        return (0..SWITCHES)
            .flat_map(|node| [(node, 2 * node + 1), (node, 2 * node + 2)])
            .collect();
    }
    let mut all: Vec<(usize, usize)> = (1..SWITCHES).map(|node| (node - 1, node)).collect();
    if topology == Topology::Ring {
        all.push((SWITCHES - 1, 0));
    }
    all.extend((0..SWITCHES).map(|node| (node, node + SWITCHES)));
    all
}

fn name(node: usize) -> String {
    let kind = if node < SWITCHES { "w" } else { "h" };
    format!("{kind}{node}")
}

/// Writes a set as a description with gates everywhere and exact clocks.
fn described(topology: Topology, set: &Instance, scheduled: bool) -> String {
    let cables = cables(topology);
    let mut text =
        "[network]\nname = \"t\"\n[defaults]\ntick-error = \"0 us\"\nlink-rate = \"1 Gbit/s\"\n\
        frame-overhead = \"0 B\"\n[schedule]\nbest-effort-share = 0\n"
            .to_owned();
    let nodes = cables.iter().map(|(a, b)| a.max(b) + 1).max().unwrap();
    for node in 0..nodes {
        text += &match node < SWITCHES {
            true => format!(
                "[[switch]]\nname = \"{}\"\nlatency = \"2 us\"\nbuffer = \"1 MB\"\nqueues = 8\ngates = \"unlimited\"\n",
                name(node)
            ),
            false => format!(
                "[[host]]\nname = \"{}\"\ngates = \"unlimited\"\n",
                name(node)
            ),
        };
    }
    for (a, b) in &cables {
        text += &format!("[[link]]\nends = [\"{}\", \"{}\"]\n", name(*a), name(*b));
    }
    for (number, request) in set.requests.iter().enumerate() {
        let ends = |link: usize| {
            let (a, b) = cables[link / 2];
            if link % 2 == 0 { (a, b) } else { (b, a) }
        };
        let mut route = vec![name(ends(request.hops[0].link).0)];
        route.extend(request.hops.iter().map(|hop| name(ends(hop.link).1)));
        let last = request.hops.last().unwrap();
        let deadline_ns = last.latest_ns.unwrap() + last.length_ns + 2_000;
        text += &format!(
            "[[stream]]\nname = \"x{number}\"\ntalker = \"{}\"\nlisteners = [\"{}\"]\nroute = {route:?}\n\
             frame = \"{} B\"\ninterval = \"{} us\"\npriority = {}\ndeadline = \"{deadline_ns} ns\"\n",
            route[0],
            route[route.len() - 1],
            last.length_ns / 8,
            request.period_ns / 1_000,
            number % 8
        );
        if scheduled {
            text += "schedule = \"time-triggered\"\n";
        }
    }
    text
}

#[test]
fn ten_hard_sets_are_no_worse_with_gates_alone() {
    let only = MayChange {
        gates: true,
        ..MayChange::NOTHING
    };
    let (mut fit, mut refused) = (0, 0);
    for case in 0..10 {
        let topology = [Topology::Line, Topology::Ring, Topology::Tree][case % 3];
        let set = instance(topology, Kind::Hard, SWITCHES, 20, case as u64 / 3);
        let all = described(topology, &set, true);
        // As they are, with every stream time-triggered: not changed if the planner finds a schedule.
        let planned = plan(&network(&all), &Options::default()).is_ok();
        fit += u32::from(planned);
        // None of them stated so: found again, and with no more streams than need be known.
        let text = described(topology, &set, false);
        refused += u32::from(plan(&network(&text), &Options::default()).is_err());
        let (found, changed) = synthesized_within(&text, only, Objective::Changes, Some(400));
        assert!(
            !planned || found.report.certainty.fits(),
            "{topology:?} {case}: {:?}",
            found.report
        );
        let scheduled = changed.matches("schedule = ").count();
        assert_eq!(scheduled, found.report.changes.len());
        if planned {
            let (found, _) = synthesized(&all, only, Objective::Changes);
            assert_eq!(found.report.certainty, Certainty::AsStated);
        }
    }
    assert_eq!(fit, 10, "the planner itself");
    assert!(refused > 0, "all fit without a schedule");
}
