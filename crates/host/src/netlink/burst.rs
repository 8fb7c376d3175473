//! Bursts: the bytes that a person names, and the kernel's ticks of 64 ns.
//!
//! For TBF the kernel turns bytes into time (`psched_l2t_ns`). For HTB `tc` does, in whole microseconds (since iproute2
//! 6.15 to the tick). Neither can be reversed uniquely, so only bursts that read back as written are chosen. The lines
//! of `rtwire apply --explain` set the same bursts.

/// Nanoseconds in one tick of the packet scheduler's user interface (PSCHED_SHIFT 6).
const TICK_NS: u64 = 64;
/// The shortest whole number of microseconds that is a whole number of ticks (125).
const WHOLE_US: u64 = 8;
const US_PER_S: u64 = 1_000_000;

fn small(number: u128) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The kernel's time of one byte, ns: a factor, and the right shift of its product.
fn byte_time(rate: u32) -> (u64, u32) {
    let (mut factor, mut shift) = (1_000_000_000_u64, 0);
    loop {
        let multiplier = factor / u64::from(rate.max(1));
        if multiplier & 1 << 31 != 0 || factor & 1 << 63 != 0 {
            return (multiplier, shift);
        }
        factor <<= 1;
        shift += 1;
    }
}

fn tbf_ns(bytes: u32, rate: u32, overhead: u8) -> u64 {
    let (multiplier, shift) = byte_time(rate);
    let product = (u128::from(bytes) + u128::from(overhead)) * u128::from(multiplier);
    u64::try_from(product >> shift).unwrap_or(u64::MAX)
}

/// Returns the ticks that TBF reports for a burst of `bytes` at `rate` bytes a second.
pub(super) fn tbf_ticks(bytes: u32, rate: u32, overhead: u8) -> u32 {
    small(u128::from(tbf_ns(bytes, rate, overhead) / TICK_NS))
}

/// Returns the smallest burst for which TBF reports this number of ticks.
pub(super) fn tbf_bytes(ticks: u32, rate: u32, overhead: u8) -> u32 {
    let (multiplier, shift) = byte_time(rate);
    let shifted = (u128::from(ticks) * u128::from(TICK_NS)) << shift;
    small(shifted.div_ceil(u128::from(multiplier))).saturating_sub(u32::from(overhead))
}

/// Returns the smallest burst of TBF, bytes, that is at least `bytes` and reads back as written.
pub(crate) fn tbf_whole(bytes: u32, rate: u32, overhead: u8) -> u32 {
    if tbf_bytes(tbf_ticks(bytes, rate, overhead), rate, overhead) == bytes {
        return bytes;
    }
    let ticks = tbf_ns(bytes, rate, overhead).div_ceil(TICK_NS);
    tbf_bytes(small(u128::from(ticks)), rate, overhead).max(bytes)
}

/// Returns the ticks into which `tc` converts a burst of HTB.
pub(super) fn htb_ticks(bytes: u32, rate: u32) -> u32 {
    let us = u128::from(US_PER_S) * u128::from(bytes) / u128::from(rate.max(1));
    small(us * 125 / u128::from(WHOLE_US))
}

/// Returns the smallest burst of HTB that `tc` converts into this number of ticks: at least one byte, since `tc` takes 0 for a
/// burst of its own choice. So no ticks, which are no burst beyond a frame, read back as one byte.
pub(super) fn htb_bytes(ticks: u32, rate: u32) -> u32 {
    let us = (u128::from(ticks) * u128::from(WHOLE_US)).div_ceil(125);
    small((us * u128::from(rate)).div_ceil(u128::from(US_PER_S))).max(1)
}

/// Returns the largest burst of HTB, bytes, that is at most `bytes` (but at least one byte) and reads back as written.
/// Prefers one of whole ticks and whole microseconds, which every `tc` keeps; otherwise uses one that `tc` versions
/// with microseconds keep.
pub fn htb_whole(bytes: u32, rate: u32) -> u32 {
    let (mut one, mut other) = (u64::from(rate.max(1)), US_PER_S / WHOLE_US);
    while other > 0 {
        (one, other) = (other, one % other);
    }
    let whole = u32::try_from(u64::from(rate.max(1)) / one).unwrap_or(u32::MAX);
    if whole <= bytes {
        return bytes - bytes % whole;
    }
    htb_bytes(htb_ticks(bytes, rate), rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_burst_comes_back_as_it_went(bytes in 1..1_000_000_u32, rate in 1..u32::MAX, overhead: u8) {
            let whole = tbf_whole(bytes, rate, overhead);
            prop_assert!(whole >= bytes);
            let ticks = tbf_ticks(whole, rate, overhead);
            // Ticks have 32 bits: at a few bytes a second they overflow.
            if ticks < u32::MAX {
                prop_assert_eq!(tbf_bytes(ticks, rate, overhead).max(bytes), whole);
            }
            let whole = htb_whole(bytes, rate);
            prop_assert!(whole <= bytes.max(1));
            let ticks = htb_ticks(whole, rate);
            if ticks < u32::MAX {
                prop_assert_eq!(htb_bytes(ticks, rate), whole);
            }
        }
    }

    #[test]
    fn the_bursts_of_usual_rates_are_exact() {
        // 1600 bytes at 100 Mbit/s are 128 µs, 2000 at 1 Gbit/s are 16 µs; one byte a second takes whole seconds.
        assert_eq!(htb_whole(1_699, 12_500_000), 1_600);
        assert_eq!(htb_ticks(1_600, 12_500_000), 2_000);
        assert_eq!(htb_whole(2_999, 125_000_000), 2_000);
        assert_eq!((htb_whole(1, 1), htb_ticks(1, 1)), (1, 15_625_000));
        // A byte at 10 Mbit/s lasts 800 ns.
        assert_eq!(tbf_ticks(100, 1_250_000, 28), 128 * 800 / 64);
    }
}
