//! The phases of cyclic talkers whose hosts share this machine's cores. Pure.
//!
//! Real hosts have their own cores, so all of them can send at the same instant. Here only as many can as there are cores; the
//! next one waits for a send call, which does the work of the emulated switches, too. Where the
//! smallest tick error of any cyclic stream is shorter than this wait, groups of as many talkers as there are cores get phases of
//! their own. Each group still sends
//! at once. A stream with launch times keeps them.

use rtwire_plan::{ContractKind, Plan};

/// The time that one send call takes in the lab, as a rule at most, ns.
const CALL_NS: u64 = 100_000;
/// The longest distance of two groups, ns: a talker's spinning and its call.
const APART_NS: u64 = 400_000;

/// Returns the phase of each stream of the plan's network, ns after the instants of its interval; 0 where it has none.
pub(crate) fn of(plan: &Plan, cores: usize) -> Vec<u64> {
    let has_launch = |name: &str| {
        let planned = plan.streams.iter().find(|one| one.name == name);
        planned.is_some_and(|one| one.launch.is_some())
    };
    let interval_of = |stream: &rtwire_plan::Stream| match stream.contract.kind {
        ContractKind::Interval { interval_ns, .. } if stream.shaped => Some(interval_ns),
        _ => None,
    };
    let streams = &plan.network.streams;
    let cycles: Vec<Option<Cycle>> = streams
        .iter()
        .map(|stream| {
            let interval_ns = interval_of(stream).filter(|_| !has_launch(&stream.name))?;
            Some(Cycle {
                interval_ns,
                tick_error_ns: stream.contract.tick_error_ns,
            })
        })
        .collect();
    spread(&cycles, cores)
}

/// The interval and the tick error of a cyclic stream.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    interval_ns: u64,
    tick_error_ns: u64,
}

fn spread(cycles: &[Option<Cycle>], cores: usize) -> Vec<u64> {
    let cyclic = || cycles.iter().flatten();
    let cores = cores.max(1);
    let groups = cyclic().count().div_ceil(cores) as u64;
    let wait_ns = groups.saturating_sub(1).saturating_mul(CALL_NS);
    let (Some(shortest_ns), Some(tick_error_ns)) = (
        cyclic().map(|one| one.interval_ns).min(),
        cyclic().map(|one| one.tick_error_ns).min(),
    ) else {
        return vec![0; cycles.len()];
    };
    if tick_error_ns >= wait_ns {
        return vec![0; cycles.len()];
    }
    let apart_ns = APART_NS.min(shortest_ns / groups);
    let mut nth = 0;
    cycles
        .iter()
        .map(|one| match one {
            None => 0,
            Some(_) => {
                nth += 1;
                ((nth - 1) / cores) as u64 * apart_ns
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(interval_us: u64, tick_error_us: u64) -> Option<Cycle> {
        Some(Cycle {
            interval_ns: interval_us * 1_000,
            tick_error_ns: tick_error_us * 1_000,
        })
    }

    #[test]
    fn talkers_that_may_wait_for_each_other_or_need_not_send_at_once() {
        assert_eq!(spread(&[cycle(1_000, 250); 5], 2), [0; 5], "200 us");
        assert_eq!(
            spread(&[cycle(1_000, 10), None, cycle(1_000, 10)], 2),
            [0; 3]
        );
        assert_eq!(spread(&[None, None], 2), [0; 2]);
        assert_eq!(spread(&[], 0), Vec::<u64>::new());
    }

    #[test]
    fn groups_of_as_many_as_there_are_cores_get_their_own_instants() {
        let ring = [
            cycle(2_000, 50),
            cycle(2_000, 50),
            None,
            cycle(5_000, 50),
            cycle(10_000, 50),
        ];
        assert_eq!(spread(&ring, 2), [0, 0, 0, 400_000, 400_000]);
        let many = spread(&[cycle(1_000, 50); 12], 2);
        assert_eq!(
            many[10..],
            [833_330, 833_330],
            "within the shortest interval"
        );
    }
}
