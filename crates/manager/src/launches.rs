//! Launch offsets: when in its interval does a cyclic connection send, so that it meets no other of its host?

/// The most offsets that are looked at. Each is the end of a slot in use, so some thousand are many hosts' worth.
const MOST_LOOKS: u32 = 10_000;

/// The part of the talker's own link that a cyclic connection uses: `[offset + n interval, offset + n interval + length)` for
/// all whole `n`, in TAI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Time between two frames, ns; above 0.
    pub(crate) interval_ns: u64,
    /// The launch of a frame behind a multiple of the interval, ns; below the interval.
    pub(crate) offset_ns: u64,
    /// The time of a frame on the wire, and how late its launch may be, ns; above 0.
    pub(crate) length_ns: u64,
}

/// The reason why no offset is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoOffset {
    /// The intervals of the two have so small a common divisor, ns, that their slots meet at some time, whatever the offset.
    Never {
        /// The place of the other among the slots.
        with: usize,
        /// The common divisor.
        common_ns: u64,
    },
    /// Every offset meets another slot.
    Full,
    /// None was found within 10 000 looks.
    NotFound,
}

/// Returns the lowest launch offset with which a slot of this interval and length meets none of `taken`.
///
/// Two slots meet at some time exactly if they do modulo the greatest common divisor of their intervals: the differences of two
/// launches are all that are congruent to the difference of the offsets (Bézout). So each slot in use forbids a range of
/// offsets that comes back with that divisor, and the end of the range is the next offset worth a look.
pub(crate) fn lowest_free(
    taken: &[Slot],
    interval_ns: u64,
    length_ns: u64,
) -> Result<u64, NoOffset> {
    for (with, slot) in taken.iter().enumerate() {
        let common_ns = gcd(slot.interval_ns, interval_ns);
        if slot.length_ns.saturating_add(length_ns) > common_ns {
            return Err(NoOffset::Never { with, common_ns });
        }
    }
    if length_ns > interval_ns {
        return Err(NoOffset::Full);
    }
    let mut offset_ns = 0;
    for _ in 0..MOST_LOOKS {
        let past = taken
            .iter()
            .filter_map(|slot| wait_ns(slot, interval_ns, length_ns, offset_ns))
            .max();
        match past {
            None => return Ok(offset_ns),
            Some(wait_ns) => offset_ns += wait_ns,
        }
        if offset_ns >= interval_ns {
            return Err(NoOffset::Full);
        }
    }
    Err(NoOffset::NotFound)
}

/// Returns how much later the launch must be not to meet this slot, ns; `None` if it does not.
fn wait_ns(slot: &Slot, interval_ns: u64, length_ns: u64, offset_ns: u64) -> Option<u64> {
    let common_ns = gcd(slot.interval_ns, interval_ns);
    // How far the launch is behind the other's, on the circle of their common divisor.
    let behind_ns = (offset_ns % common_ns + common_ns - slot.offset_ns % common_ns) % common_ns;
    if behind_ns < slot.length_ns {
        return Some(slot.length_ns - behind_ns);
    }
    (behind_ns + length_ns > common_ns).then(|| common_ns - behind_ns + slot.length_ns)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns true if the slots meet, by looking at every launch of both until all repeats.
    fn meet(a: &Slot, b: &Slot) -> bool {
        let all = a.interval_ns / gcd(a.interval_ns, b.interval_ns) * b.interval_ns;
        // One round more on both sides: a slot may reach into the next one.
        let launches = |slot: &Slot| -> Vec<(u64, u64)> {
            let firsts =
                (0..3 * all / slot.interval_ns).map(|n| slot.offset_ns + n * slot.interval_ns);
            firsts.map(|from| (from, from + slot.length_ns)).collect()
        };
        let (of_a, of_b) = (launches(a), launches(b));
        of_a.iter()
            .any(|(from, to)| of_b.iter().any(|(since, until)| from < until && since < to))
    }

    fn a_slot() -> impl Strategy<Value = Slot> {
        (
            prop::sample::select(vec![12_u64, 18, 24, 30, 36]),
            0_u64..36,
            1_u64..5,
        )
            .prop_map(|(interval_ns, offset_ns, length_ns)| Slot {
                interval_ns,
                offset_ns: offset_ns % interval_ns,
                length_ns,
            })
    }

    proptest! {
        /// The referee tries every offset and looks at every launch.
        #[test]
        fn the_lowest_offset_of_all_that_meet_nobody(
            taken in prop::collection::vec(a_slot(), 0..6), new in a_slot(),
        ) {
            let at = |offset_ns| Slot { offset_ns, ..new };
            let free = |offset_ns: &u64| taken.iter().all(|slot| !meet(slot, &at(*offset_ns)));
            let lowest = (0..new.interval_ns).find(free);
            let found = lowest_free(&taken, new.interval_ns, new.length_ns);
            prop_assert_eq!(found.ok(), lowest);
            if let Err(NoOffset::Never { with, .. }) = found {
                let other = taken[with];
                let always = (0..new.interval_ns).all(|offset_ns| meet(&other, &at(offset_ns)));
                prop_assert!(always, "{:?}", other);
            }
        }
    }

    #[test]
    fn a_slot_longer_than_its_interval_has_no_offset() {
        assert_eq!(lowest_free(&[], 10, 10), Ok(0));
        assert_eq!(lowest_free(&[], 10, 11), Err(NoOffset::Full));
    }

    #[test]
    fn looks_are_limited() {
        let slot = |offset_ns| Slot {
            interval_ns: 4,
            offset_ns,
            length_ns: 1,
        };
        // All four places are in use, so that each look goes on by one in an interval of 40 000.
        let taken: Vec<Slot> = (0..4).map(slot).collect();
        assert_eq!(lowest_free(&taken, 40_000, 1), Err(NoOffset::NotFound));
        assert_eq!(lowest_free(&taken, 4, 1), Err(NoOffset::Full));
        assert_eq!(lowest_free(&taken[..3], 4_000_000_000, 1), Ok(3));
    }
}
