//! Searches for a schedule that breaks a promise: all kinds of networks and mechanisms, the promises of every method.
//!
//! Each test run searches a few networks. `RTWIRE_SEARCH_SECONDS=7200` continues for that time with networks of no
//! other test; `RTWIRE_FIRST_SEED` selects them. Each violation is printed at once with its seed and description.
//! Reduce it and keep it in `tests/counterexamples`.

use crate::common;

use std::time::{Duration, Instant};

use common::gated::random_gated;
use common::networks::{
    random_description, random_line, random_ring, random_shaped_ways, random_shapers,
};
use common::referee::{all_methods, check};
use rtwire_sim::random::Random;

/// A kind of network and the function that creates it.
type Kind = (&'static str, fn(&mut Random) -> String);

const KINDS: [Kind; 6] = [
    ("tree", random_description),
    ("ring", random_ring),
    ("line of bursts", random_line),
    ("tree with shapers", random_shapers),
    ("ring or line with shapers", random_shaped_ways),
    ("gates", random_gated),
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[derive(Default)]
struct Total {
    networks: u64,
    promised: u64,
    frame_hops: u64,
    comparisons: u64,
    /// Number of networks in which 99 % of a promise were used.
    reached: u64,
}

#[test]
fn no_search_breaks_a_promise() {
    let first = number("RTWIRE_FIRST_SEED").unwrap_or(1_000_001);
    let duration = number("RTWIRE_SEARCH_SECONDS").map(Duration::from_secs);
    let (start, mut told) = (Instant::now(), Duration::ZERO);
    let mut totals = KINDS.map(|_| Total::default());
    let mut broken = Vec::new();
    for round in 0.. {
        let over = match duration {
            Some(duration) => start.elapsed() >= duration,
            None => round >= 5,
        };
        if over {
            break;
        }
        for ((kind, describe), total) in KINDS.iter().zip(&mut totals) {
            let seed = first + round;
            let text = describe(&mut Random::new(seed, 9));
            total.networks += 1;
            // A switch with few queues may be unable to separate scheduled streams. Then the plan is refused with a
            // reason.
            let network = match rtwire_plan::read(&text, "random.toml", &[]) {
                Ok(network) => network,
                Err(_) if *kind == "gates" => continue,
                Err(faults) => panic!("{kind}, seed {seed}: {faults}\n{text}"),
            };
            let plans = all_methods(&network);
            if *kind == "gates" && !plans[0].1.warnings.is_empty() {
                // Some streams found no place, so there is no schedule to simulate.
                continue;
            }
            total.promised += 1;
            // Most networks get a short search, a few a long one.
            let simulations = match round % 8 {
                0 => 4_000,
                1 | 2 => 800,
                _ => 150,
            };
            match check(&network, &plans, seed, simulations) {
                Ok(played) => {
                    total.frame_hops += played.frame_hops;
                    total.comparisons += played.promises;
                    total.reached += u64::from(played.used_permille >= 990);
                }
                Err(message) => {
                    println!("{kind}, seed {seed}: {message}\n{text}");
                    broken.push(format!("{kind}, seed {seed}: {message}"));
                }
            }
        }
        if duration.is_some() && start.elapsed() >= told + Duration::from_secs(60) {
            told = start.elapsed();
            print(&totals, told);
        }
    }
    print(&totals, start.elapsed());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    for ((kind, _), total) in KINDS.iter().zip(&totals) {
        assert!(
            total.promised * 4 >= total.networks,
            "{kind}: only {} of {} networks could be played",
            total.promised,
            total.networks
        );
    }
}

fn print(totals: &[Total], elapsed: Duration) {
    println!("after {} s:", elapsed.as_secs());
    for ((kind, _), total) in KINDS.iter().zip(totals) {
        println!(
            "  {kind}: {} networks played, in {} 99 % of a promise were used, {} frame-hops, {} comparisons with promises",
            total.promised, total.reached, total.frame_hops, total.comparisons
        );
    }
}
