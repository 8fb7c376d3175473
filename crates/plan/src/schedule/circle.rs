//! Time that repeats: the used time of a resource, folded onto one period.
//!
//! Two frames that repeat every `a` and every `b` collide unless they keep apart modulo gcd(a, b). So a frame of
//! period `a` is entered on a circle of circumference `b` at `b / gcd(a, b)` places. A frame of period `b` may begin
//! wherever that circle is free.

/// The used time on a circle: disjoint, sorted, no piece across its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Circle {
    taken: Vec<(u64, u64)>,
}

impl Circle {
    /// Takes `length` from `start` on, which is below `around`. Overlaps are merged.
    pub(crate) fn take(&mut self, start: u64, length: u64, around: u64) {
        let end = start + length;
        if end <= around {
            self.unite(start, end);
        } else {
            self.unite(start, around);
            self.unite(0, (end - around).min(around));
        }
    }

    fn unite(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let taken = &mut self.taken;
        // Most frames come behind the last: look there first.
        let from = match taken.last() {
            Some(last) if last.1 < start => taken.len(),
            _ => taken.partition_point(|(_, to)| *to < start),
        };
        let Some(first) = taken.get_mut(from) else {
            taken.push((start, end));
            return;
        };
        if first.0 > end {
            taken.insert(from, (start, end));
            return;
        }
        first.0 = first.0.min(start);
        let mut reach = first.1.max(end);
        let mut to = from + 1;
        while let Some(next) = taken.get(to).filter(|next| next.0 <= reach) {
            reach = reach.max(next.1);
            to += 1;
        }
        taken[from].1 = reach;
        taken.drain(from + 1..to);
    }

    /// Takes many pieces at once, in any order.
    pub(crate) fn fill(&mut self, mut pieces: Vec<(u64, u64)>) {
        pieces.append(&mut self.taken);
        pieces.sort_unstable();
        for (start, end) in pieces {
            match self.taken.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ if start < end => self.taken.push((start, end)),
                _ => {}
            }
        }
    }

    /// Returns the distance to move ahead past the first obstacle to `length` from `at` on; 0 if all of it is free.
    ///
    /// Behind that obstacle there may be another one.
    ///
    /// `cursor` is the place of the previous question. It only makes the next one faster.
    #[inline]
    pub(crate) fn obstacle(&self, at: u64, length: u64, around: u64, cursor: &mut usize) -> u64 {
        let taken = self.taken.as_slice();
        let Some(first) = taken.first() else {
            return 0;
        };
        let mut index = *cursor;
        if index > 0 && taken.get(index - 1).is_none_or(|before| before.1 > at) {
            index = taken.partition_point(|(_, to)| *to <= at);
        } else {
            let mut steps = 0;
            while let Some(next) = taken.get(index).filter(|next| next.1 <= at) {
                let _ = next;
                index += 1;
                steps += 1;
                if steps == 8 {
                    index += taken[index..].partition_point(|(_, to)| *to <= at);
                    break;
                }
            }
        }
        *cursor = index;
        let end = at + length;
        match taken.get(index) {
            Some((from, to)) if *from < end => to - at,
            // Beyond the origin.
            _ if end > around && first.0 < end - around => first.1 + around - at,
            _ => 0,
        }
    }

    /// Returns the used pieces.
    pub(crate) fn taken(&self) -> &[(u64, u64)] {
        &self.taken
    }
}

/// Returns the greatest common divisor.
pub(crate) const fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the least common multiple, if 64 bits hold it.
pub(crate) fn lcm(a: u64, b: u64) -> Option<u64> {
    match gcd(a, b) {
        0 => Some(0),
        common => (a / common).checked_mul(b),
    }
}

#[cfg(test)]
mod tests {
    use super::{Circle, gcd, lcm};

    /// True if the time is free on a map of every nanosecond.
    fn free(map: &[bool], at: u64, length: u64) -> bool {
        let around = map.len() as u64;
        (at..at + length).all(|ns| !map[(ns % around) as usize])
    }

    #[test]
    fn it_agrees_with_a_map_of_every_nanosecond() {
        let mut state = 12345_u64;
        let mut below = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for _ in 0..300 {
            let around = 20 + below(60);
            let mut map = vec![false; around as usize];
            let mut circle = Circle::default();
            let mut all = Vec::new();
            for _ in 0..below(12) {
                let (start, length) = (below(around), below(9));
                circle.take(start, length, around);
                for ns in start..start + length {
                    map[(ns % around) as usize] = true;
                }
                all.push((start, (start + length).min(around)));
                if start + length > around {
                    all.push((0, start + length - around));
                }
                let mut filled = Circle::default();
                filled.fill(all.clone());
                assert_eq!(
                    filled.taken().iter().map(|(a, b)| b - a).sum::<u64>(),
                    map.iter().filter(|taken| **taken).count() as u64
                );
                assert_eq!(
                    circle.taken().iter().map(|(a, b)| b - a).sum::<u64>(),
                    map.iter().filter(|taken| **taken).count() as u64
                );
            }
            let mut cursor = 0;
            for _ in 0..40 {
                let (at, length) = (below(around), 1 + below(8));
                let ahead = circle.obstacle(at, length, around, &mut cursor);
                assert_eq!(ahead == 0, free(&map, at, length));
                // Nothing that would do is jumped over.
                for skipped in at..at + ahead {
                    assert!(!free(&map, skipped % around, length));
                }
            }
        }
    }

    #[test]
    fn divisors_and_multiples() {
        assert_eq!((gcd(12, 18), gcd(0, 5), gcd(7, 1)), (6, 5, 1));
        assert_eq!((lcm(4, 6), lcm(0, 3)), (Some(12), Some(0)));
        assert_eq!(lcm(u64::MAX, u64::MAX - 1), None);
    }
}
