//! Pseudo-random numbers, equal on every machine and in every version, so a seed repeats a result.
//!
//! xoshiro256++ by D. Blackman and S. Vigna (public domain), seeded by SplitMix64. A dependency could change its
//! sequence with a new version; these twenty lines do not.

/// A generator.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Random {
    /// Creates generator number `stream` of `seed`. Generators with different numbers are independent.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut start = seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        Random {
            state: std::array::from_fn(|_| split_mix(&mut start)),
        }
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let out = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let c = c ^ a;
        let d = d ^ b;
        self.state = [a ^ d, b ^ c, c ^ (self.state[1] << 17), d.rotate_left(45)];
        out
    }

    /// Returns a number from 0 to `limit` - 1, uniform to within 2^-64 `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.bits()) * u128::from(limit);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// Returns a number from 0 to `limit`, both included.
    pub fn up_to(&mut self, limit: u64) -> u64 {
        self.below(limit.saturating_add(1))
    }

    /// Returns true with probability 1 / `count`.
    pub fn once_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Returns a number from 0 to `limit`, with every order of magnitude about equally likely.
    pub fn of_any_size(&mut self, limit: u64) -> u64 {
        let bits = u64::from(64 - limit.leading_zeros());
        let shift = self.up_to(bits);
        self.up_to(limit >> shift.min(63))
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_sequence_never_changes() {
        let mut random = Random::new(1, 0);
        let first: Vec<u64> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(first, reference(1, 4));
    }

    /// The same generator, written as by its authors.
    fn reference(seed: u64, count: usize) -> Vec<u64> {
        let mut start = seed;
        let mut s = [0_u64; 4];
        for word in &mut s {
            *word = super::split_mix(&mut start);
        }
        (0..count)
            .map(|_| {
                let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
                let t = s[1] << 17;
                s[2] ^= s[0];
                s[3] ^= s[1];
                s[1] ^= s[2];
                s[0] ^= s[3];
                s[2] ^= t;
                s[3] = s[3].rotate_left(45);
                result
            })
            .collect()
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut random = Random::new(7, 3);
        for limit in [0, 1, 2, 10, u64::MAX] {
            for _ in 0..1000 {
                assert!(random.below(limit) < limit.max(1));
                assert!(random.of_any_size(limit) <= limit);
            }
        }
    }
}
