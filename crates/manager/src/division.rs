//! The division of what is free: max-min fair over the links of all routes.
//!
//! All demands grow alike. A demand stops at what it wants, or where one of its links is full. No demand can then have
//! more without another, which has no more than it, having less.

/// A demand: its wish, and the numbers of its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The wish, bytes per millisecond.
    pub wanted: u64,
    /// The links of its route, as indices of the capacities.
    pub links: Vec<usize>,
}

/// Divides the links' free capacities, bytes per millisecond. Returns a rate for each demand, rounded down.
#[must_use]
pub fn max_min(capacities: &[u64], demands: &[Demand]) -> Vec<u64> {
    let mut free = capacities.to_vec();
    let mut rates = vec![0_u64; demands.len()];
    let mut open: Vec<usize> = (0..demands.len()).collect();
    while !open.is_empty() {
        let mut users = vec![0_u64; free.len()];
        for &at in &open {
            for &link in &demands[at].links {
                users[link] += 1;
            }
        }
        // The step by which all may grow.
        let of_links = (0..free.len()).filter(|link| users[*link] > 0);
        let by_links = of_links.map(|link| free[link] / users[link]).min();
        let by_wishes = open.iter().map(|at| demands[*at].wanted - rates[*at]).min();
        let step = by_wishes.unwrap_or(0).min(by_links.unwrap_or(u64::MAX));
        for &at in &open {
            rates[at] += step;
            for &link in &demands[at].links {
                free[link] -= step;
            }
        }
        let before = open.len();
        open.retain(|at| {
            let demand = &demands[*at];
            let full = demand.links.iter().any(|link| free[*link] < users[*link]);
            rates[*at] < demand.wanted && !full
        });
        if open.len() == before {
            break;
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::{Demand, max_min};
    use proptest::prelude::*;

    fn demand(wanted: u64, links: &[usize]) -> Demand {
        Demand {
            wanted,
            links: links.to_vec(),
        }
    }

    #[test]
    fn a_textbook_case_is_divided_as_in_the_textbook() {
        // Two links of 10 and 4; one demand over both, one over each.
        let demands = [demand(99, &[0, 1]), demand(99, &[0]), demand(99, &[1])];
        assert_eq!(max_min(&[10, 4], &demands), [2, 8, 2]);
        // A small wish leaves its part to the others.
        let demands = [demand(1, &[0]), demand(99, &[0]), demand(99, &[0])];
        assert_eq!(max_min(&[11], &demands), [1, 5, 5]);
        assert_eq!(max_min(&[0], &[demand(5, &[0])]), [0]);
        assert_eq!(max_min(&[], &[demand(5, &[])]), [5]);
    }

    proptest! {
        #[test]
        fn every_demand_is_content_or_stands_at_a_full_link_where_it_is_among_the_largest(
            capacities in prop::collection::vec(0_u64..1_000, 1..6),
            wishes in prop::collection::vec((0_u64..500, prop::collection::btree_set(0_usize..6, 1..4)), 0..8),
        ) {
            let demands: Vec<Demand> = wishes.iter().map(|(wanted, links)| {
                let links = links.iter().map(|link| link % capacities.len());
                let links: std::collections::BTreeSet<usize> = links.collect();
                Demand { wanted: *wanted, links: links.into_iter().collect() }
            }).collect();
            let rates = max_min(&capacities, &demands);
            let on = |link: usize| demands.iter().zip(&rates).filter(move |(one, _)| one.links.contains(&link));
            for (link, capacity) in capacities.iter().enumerate() {
                prop_assert!(on(link).map(|(_, rate)| rate).sum::<u64>() <= *capacity);
            }
            for (demand, rate) in demands.iter().zip(&rates) {
                prop_assert!(*rate <= demand.wanted);
                let held_up = demand.links.iter().any(|link| {
                    let used: u64 = on(*link).map(|(_, rate)| rate).sum();
                    let count = on(*link).count() as u64;
                    // Rounding leaves less than one unit for each.
                    capacities[*link] - used < count && on(*link).all(|(_, other)| *other <= rate + 1)
                });
                prop_assert!(*rate == demand.wanted || held_up, "{demands:?} {rates:?}");
            }
        }
    }
}
