//! Any plan that `rtwire plan` accepts yields settings that the kernel accepts and that read back equal: random networks,
//! applied for real, read back with `tc` rather than with rtwire's own eyes. Needs root, and a kernel with mqprio, ETF, TAPRIO
//! and TBF, which few have: runs in the kernel lab.
//!
//! The seed is printed; `LAB_SEED` repeats it. `LAB_PLANS` says how many plans a test applies.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "plans_in_force/describe.rs"]
mod describe;
#[path = "plans_in_force/kernel.rs"]
mod kernel;

use describe::{Drawn, Kind};
use kernel::{Bench, InForce};
use rtwire_sim::random::Random;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Whether the queues are what the plan says; not by how rtwire set them, but by what `tc` shows.
fn judge(drawn: &Drawn, kind: Kind, found: &InForce) -> Result<(), String> {
    let must = |holds: bool, what: &str| {
        holds
            .then_some(())
            .ok_or_else(|| format!("{what}, but {found:?}"))
    };
    let queues = u32::from(drawn.network.queues(&drawn.host));
    must(
        found.classes == queues,
        &format!("{queues} classes were planned"),
    )?;
    for pcp in 0..8_u32 {
        let class = pcp * queues / 8;
        must(
            found.map.get(pcp as usize) == Some(&class),
            &format!("priority {pcp} belongs into class {class}"),
        )?;
    }
    let port = drawn
        .plan
        .ports
        .iter()
        .find(|port| port.node == drawn.host)
        .unwrap();
    if let (Kind::Gates | Kind::Assisted, Some(planned)) = (kind, &port.gates) {
        let sum: u64 = found.gates.iter().map(|(_, ns)| ns).sum();
        must(
            sum == planned.cycle_ns && found.cycle_ns == planned.cycle_ns,
            &format!(
                "the gates must fill {} ns to the nanosecond",
                planned.cycle_ns
            ),
        )?;
        must(
            found.base_ns == planned.base_offset_ns,
            &format!("the list begins at {} ns", planned.base_offset_ns),
        )?;
        let entries: Vec<(u64, u64)> = planned
            .entries
            .iter()
            .map(|entry| (u64::from(entry.gates), entry.duration_ns))
            .collect();
        must(found.gates == entries, &format!("the list is {entries:?}"))?;
    }
    let launched: usize = {
        let streams = drawn.network.streams.iter().filter(|stream| {
            let planned = drawn
                .plan
                .streams
                .iter()
                .find(|one| one.name == stream.name);
            stream.talker == drawn.host && planned.is_some_and(|one| one.launch.is_some())
        });
        let mut classes: Vec<u32> = streams.map(|one| u32::from(one.pcp) * queues / 8).collect();
        classes.sort_unstable();
        classes.dedup();
        classes.len()
    };
    match kind {
        Kind::Assisted => must(found.etf as u32 == queues, "every class has an ETF")?,
        Kind::Launched => must(
            found.etf == launched,
            &format!("{launched} classes have ETF"),
        )?,
        Kind::Gates | Kind::Classes | Kind::Credits => must(found.etf == 0, "no class has ETF")?,
    }
    let credits = drawn.credits();
    must(
        found.credits == credits,
        &format!("classes and slopes of credits are {credits:?}"),
    )?;
    // What is no stream may take its allowance, and what keeps the clocks; where a queue of its own can tell it apart.
    if let Some(rate_bps) = found.best_effort_bps {
        let allowed: u64 = drawn.allowed_bps() + 1_000_000;
        must(
            rate_bps <= allowed && rate_bps + 8 > allowed,
            &format!("best effort may take {allowed} bit/s"),
        )?;
    }
    Ok(())
}

/// A list that is off by a nanosecond at one place, as lines of a shell; none where there is no list.
fn off_by_one(lines: &[String], random: &mut Random) -> Option<Vec<String>> {
    let at = lines.iter().position(|line| line.contains("sched-entry"))?;
    let mut words: Vec<String> = lines[at].split_whitespace().map(str::to_owned).collect();
    let places: Vec<usize> = (0..words.len())
        .filter(|&i| i >= 3 && words[i - 3] == "sched-entry")
        .collect();
    let mut change = |place: usize, by: i64| {
        let ns: i64 = words[place].parse().unwrap();
        words[place] = (ns + by).to_string();
    };
    let chosen = random.below(places.len() as u64) as usize;
    change(places[chosen], 1);
    if places.len() > 1 && random.once_in(2) {
        // The sum stays right: only the list itself tells.
        let other = places[(chosen + 1) % places.len()];
        change(other, -1);
    } else {
        let cycle = words.iter().position(|word| word == "cycle-time")?;
        let ns: u64 = words[cycle + 1].parse().unwrap();
        words[cycle + 1] = (ns + 1).to_string();
    }
    // Software gates are set twice: the later list is the one in force.
    let wrong = words.join(" ");
    let each = lines[at..].iter().map(|line| match *line == lines[at] {
        true => wrong.clone(),
        false => line.clone(),
    });
    Some(each.collect())
}

fn plans_in_force(kind: Kind) {
    let seed = setting("LAB_SEED", 1);
    let mut random = Random::new(seed, kind as u64);
    let plans = setting("LAB_PLANS", 6);
    let mut refused = 0;
    for number in 0..plans {
        let drawn = loop {
            if let Some(drawn) = describe::draw(&mut random, kind) {
                break drawn;
            }
            refused += 1;
            assert!(refused < 1000, "hardly anything that is drawn is accepted");
        };
        let context = |what: &str| {
            format!(
                "{}\nplan {number} of seed {seed}, host {}: {what}",
                drawn.text, drawn.host
            )
        };
        let check = |what: &str, result: Result<(), String>| {
            if let Err(error) = result {
                panic!("{}", context(&format!("{what}: {error}")));
            }
        };
        let bench = Bench::new(&drawn);
        let applied = bench.apply(kind, &[]);
        check("apply", applied.clone().map(|_| ()));
        check(
            "read back",
            bench
                .in_force()
                .and_then(|found| judge(&drawn, kind, &found)),
        );
        check("the same again", bench.differs(kind).and_then(none));
        check("revert", bench.revert());
        // The lines that explain it do the same …
        let lines = bench.apply(kind, &["--explain"]);
        check("explain", lines.clone().map(|_| ()));
        let lines: Vec<String> = lines.unwrap().lines().map(str::to_owned).collect();
        check("the explained lines", bench.shell(&lines));
        check(
            "read back by tc",
            bench
                .in_force()
                .and_then(|found| judge(&drawn, kind, &found)),
        );
        check(
            "after the explained lines",
            bench.differs(kind).and_then(none),
        );
        // … but a nanosecond at one place is seen, by rtwire and by this test.
        if let Some(wrong) = off_by_one(&lines, &mut random) {
            check(
                "take off",
                bench.shell(&[bench.where_it_is("tc qdisc del dev ra root")]),
            );
            check("the wrong lines", bench.shell(&wrong));
            let found = bench.in_force().unwrap();
            assert!(
                judge(&drawn, kind, &found).is_err(),
                "{}",
                context("this test sees no nanosecond")
            );
            let differ = bench.differs(kind).unwrap();
            assert!(
                differ.len() == 1 && differ[0].contains("queues"),
                "{}",
                context(&format!(
                    "{differ:?} instead of the queues alone: {wrong:?}"
                ))
            );
        }
    }
    // The test runner has begun the line.
    println!(
        "\n@@ note seed {seed}: {plans} plans in force, {refused} others refused by the planner"
    );
}

fn none(differ: Vec<String>) -> Result<(), String> {
    differ
        .is_empty()
        .then_some(())
        .ok_or_else(|| format!("differs: {differ:?}"))
}

#[test]
#[ignore = "needs mqprio and TBF: runs in the kernel lab"]
fn queues_of_classes() {
    plans_in_force(Kind::Classes);
}

#[test]
#[ignore = "needs TAPRIO: runs in the kernel lab"]
fn gates() {
    plans_in_force(Kind::Gates);
}

#[test]
#[ignore = "needs TAPRIO and ETF: runs in the kernel lab"]
fn gates_by_launch_times() {
    plans_in_force(Kind::Assisted);
}

#[test]
#[ignore = "needs mqprio and CBS: runs in the kernel lab"]
fn credits() {
    plans_in_force(Kind::Credits);
}

#[test]
#[ignore = "needs mqprio and ETF: runs in the kernel lab"]
fn launch_times() {
    plans_in_force(Kind::Launched);
}
