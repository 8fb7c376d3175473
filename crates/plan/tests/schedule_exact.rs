//! The schedule search against an exact solver. It solves no impossible instance, and misses few possible ones.
//!
//! A small instance is a formula with a variable for each stream and launch. One of them is true for each stream, and
//! no two whose frames collide. BatSat, MiniSat in Rust, decides it.

use batsat::{BasicSolver, Lit, SolverInterface, Var, lbool};
use rtwire_plan::schedule::board::{Hop, Request};
use rtwire_plan::schedule::solve::{Effort, solve};

const LINKS: usize = 4;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns true for each difference of two launches at which frames collide on some link. Differences are modulo the
/// common divisor of the intervals.
fn meetings(a: &Request, b: &Request) -> Vec<bool> {
    let common = gcd(a.period_ns, b.period_ns);
    let one = a.without_waiting(0).unwrap();
    let other = b.without_waiting(0).unwrap();
    let meet = |difference: u64| {
        a.hops.iter().zip(&one.starts_ns).any(|(hop, start)| {
            b.hops.iter().zip(&other.starts_ns).any(|(theirs, begin)| {
                let behind = (start + difference + common - begin % common) % common;
                hop.link == theirs.link
                    && (behind < theirs.length_ns || common - behind < hop.length_ns)
            })
        })
    };
    (0..common).map(meet).collect()
}

/// True if any schedule exists.
fn is_possible(requests: &[Request]) -> bool {
    let mut solver = BasicSolver::default();
    let mut variables: Vec<Vec<Var>> = Vec::new();
    for request in requests {
        let launches = (0..request.period_ns).map(|_| solver.new_var_default());
        let launches: Vec<Var> = launches.collect();
        let mut some: Vec<Lit> = launches
            .iter()
            .map(|launch| Lit::new(*launch, true))
            .collect();
        solver.add_clause_reuse(&mut some);
        variables.push(launches);
    }
    // More than one launch of a stream is no contradiction: any of them will do.
    for (at, one) in requests.iter().enumerate() {
        for (before, other) in requests.iter().enumerate().take(at) {
            let table = meetings(one, other);
            let common = table.len() as u64;
            for launch in 0..one.period_ns {
                for its in 0..other.period_ns {
                    let difference = (launch + common - its % common) % common;
                    if table[usize::try_from(difference).unwrap()] {
                        let never = |of: usize, at: u64| {
                            Lit::new(variables[of][usize::try_from(at).unwrap()], false)
                        };
                        solver.add_clause_reuse(&mut vec![never(at, launch), never(before, its)]);
                    }
                }
            }
        }
    }
    solver.solve_limited(&[]) == lbool::TRUE
}

struct Chance(u64);

impl Chance {
    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        list[usize::try_from(self.0 >> 33).unwrap() % list.len()]
    }
}

fn random(chance: &mut Chance) -> Vec<Request> {
    let count = chance.of(&[6, 8, 10, 12]);
    let periods = chance.of(&[[12, 24, 36, 48], [10, 20, 30, 40], [12, 18, 24, 36]]);
    let requests = (0..count).map(|_| {
        let sending = chance.of(&[1, 2, 3, 4]);
        let first = chance.of(&[0, 1, 2, 3]);
        let hops = (0..chance.of(&[1_usize, 2, 3])).map(|at| Hop {
            before: at.checked_sub(1),
            link: (first + at) % LINKS,
            queue: None,
            early_ns: 0,
            late_ns: if at == 0 { 0 } else { sending },
            length_ns: sending,
            hold_ns: 0,
            latest_ns: None,
        });
        Request {
            hops: hops.collect(),
            period_ns: chance.of(&periods),
            waits: false,
        }
    });
    requests.collect()
}

#[test]
fn the_search_agrees_with_an_exact_solver() {
    let mut chance = Chance(2027);
    let (mut feasible, mut found, mut impossible) = (0, 0, 0);
    for _ in 0..100 {
        let requests = random(&mut chance);
        let possible = is_possible(&requests);
        let mut effort = Effort {
            rounds: 400,
            seed: 1,
            keep_going: &mut || true,
        };
        let solution = solve(&requests, LINKS, &[], &mut effort);
        let solved = solution.missing().is_empty();
        assert!(possible || !solved, "solved, and impossible: {requests:?}");
        if solved {
            for (at, one) in requests.iter().enumerate() {
                for (before, other) in requests.iter().enumerate().take(at) {
                    let launch = |of: usize| solution.placements[of].as_ref().unwrap().launch_ns;
                    let table = meetings(one, other);
                    let common = table.len() as u64;
                    let difference = (launch(at) + common - launch(before) % common) % common;
                    assert!(!table[usize::try_from(difference).unwrap()], "{requests:?}");
                }
            }
        }
        feasible += u32::from(possible);
        found += u32::from(solved);
        impossible += u32::from(!possible);
    }
    println!("{found} of {feasible} possible instances solved, {impossible} impossible");
    assert!(feasible > 30 && impossible > 20, "{feasible} {impossible}");
    assert!(found * 20 >= feasible * 19, "{found} of {feasible}");
}
