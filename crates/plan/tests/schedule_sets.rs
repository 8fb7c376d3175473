//! The sets of the public generator. Each set that another solver solves is solved, and so are the hard ones that none
//! solves.

use crate::sets;

use rtwire_plan::schedule::solve::{Effort, Solution, solve};
use sets::{Instance, Kind, Topology, instance};

fn solved(set: &Instance) -> Solution {
    let mut effort = Effort {
        rounds: 200,
        seed: 1,
        keep_going: &mut || true,
    };
    solve(&set.requests, set.circles, &[], &mut effort)
}

const TOPOLOGIES: [Topology; 3] = [Topology::Line, Topology::Ring, Topology::Tree];

#[test]
fn every_easy_instance_is_solved() {
    for size in [10, 50, 100, 200, 1000] {
        for topology in TOPOLOGIES {
            for seed in 0..4 {
                let set = instance(topology, Kind::Easy, 8, size, seed);
                let missing = solved(&set).missing();
                let load = set.load_permille;
                assert!(
                    missing.is_empty(),
                    "{topology:?} {size} seed {seed}, load {load} permille: {missing:?}"
                );
            }
        }
    }
}

#[test]
fn every_hard_instance_of_80_and_nine_of_ten_of_120_are_solved() {
    for (size, least) in [(20, 12), (40, 12), (60, 12), (80, 12), (120, 11)] {
        let mut count = 0;
        for topology in TOPOLOGIES {
            for seed in 0..4 {
                let set = instance(topology, Kind::Hard, 8, size, seed);
                count += u32::from(solved(&set).missing().is_empty());
            }
        }
        assert!(count >= least, "{count} of 12 with {size} streams");
    }
}

/// Tests by pairs that no two windows overlap, and that no window precedes its frame.
#[test]
fn solutions_hold() {
    for topology in TOPOLOGIES {
        for kind in [Kind::Easy, Kind::Hard] {
            let set = instance(topology, kind, 8, 120, 7);
            let solution = solved(&set);
            let gcd = |mut a: u64, mut b: u64| {
                while b != 0 {
                    (a, b) = (b, a % b);
                }
                a
            };
            let mut all = Vec::new();
            for (request, placement) in set.requests.iter().zip(&solution.placements) {
                let placement = placement.as_ref().unwrap();
                for (hop, start) in request.hops.iter().zip(&placement.starts_ns) {
                    let from = hop
                        .before
                        .map_or(placement.launch_ns, |before| placement.starts_ns[before]);
                    assert!(*start >= from + hop.late_ns);
                    assert!(
                        hop.latest_ns
                            .is_none_or(|latest| *start <= placement.launch_ns + latest)
                    );
                    all.push((hop.link, *start, hop.length_ns, request.period_ns));
                }
            }
            for (at, one) in all.iter().enumerate() {
                for other in all[at + 1..].iter().filter(|other| other.0 == one.0) {
                    let common = gcd(one.3, other.3);
                    let behind = (one.1 % common + common - other.1 % common) % common;
                    assert!(
                        behind >= other.2 && common - behind >= one.2,
                        "{one:?} {other:?}"
                    );
                }
            }
        }
    }
}
