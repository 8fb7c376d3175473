//! Tests of the sequence tracker: cases, and laws against a simple model.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn observe(numbers: &[u32]) -> SequenceCounts {
    let mut tracker = SequenceTracker::new();
    for &number in numbers {
        tracker.observe(number, None);
    }
    tracker.counts()
}

#[test]
fn a_gap_is_lost_until_it_comes() {
    let mut tracker = SequenceTracker::new();
    assert_eq!(tracker.observe(10, None), Seen::New { skipped: 0 });
    assert_eq!(tracker.observe(13, None), Seen::New { skipped: 2 });
    assert_eq!(tracker.counts().lost, 2);
    assert_eq!(tracker.observe(11, None), Seen::Late);
    assert_eq!(tracker.observe(11, None), Seen::Duplicate);
    let counts = tracker.counts();
    assert_eq!(
        (counts.lost, counts.reordered, counts.duplicated),
        (1, 1, 1)
    );
}

#[test]
fn numbers_before_the_first_are_not_taken_for_lost_ones() {
    let counts = observe(&[10, 9]);
    assert_eq!(
        (counts.lost, counts.reordered, counts.duplicated),
        (0, 0, 1)
    );
}

#[test]
fn the_wrap_is_no_gap() {
    let counts = observe(&[u32::MAX - 1, u32::MAX, 0, 1]);
    assert_eq!((counts.lost, counts.restarted, counts.seen), (0, 0, 4));
}

#[test]
fn a_restart_is_told_by_time() {
    let mut tracker = SequenceTracker::new();
    for number in 0..5 {
        tracker.observe(number, Some(1000 + u64::from(number)));
    }
    assert_eq!(tracker.observe(2, Some(1002)), Seen::Duplicate);
    assert_eq!(tracker.observe(0, Some(2000)), Seen::Restart);
    assert_eq!(tracker.observe(1, Some(2001)), Seen::New { skipped: 0 });
    let counts = tracker.counts();
    assert_eq!(
        (counts.lost, counts.restarted, counts.duplicated),
        (0, 1, 1)
    );
}

#[test]
fn a_restart_without_times_is_told_by_its_second_number() {
    let mut tracker = SequenceTracker::new();
    tracker.observe(100_000, None);
    assert_eq!(tracker.observe(0, None), Seen::Duplicate);
    assert_eq!(tracker.observe(1, None), Seen::Restart);
    assert_eq!(tracker.observe(2, None), Seen::New { skipped: 0 });
}

proptest! {
    /// Any order of numbers that stays within the window counts as a set would.
    #[test]
    fn counts_are_those_of_a_set(start: u32, offsets in prop::collection::vec(0u32..900, 1..400)) {
        let mut tracker = SequenceTracker::new();
        tracker.observe(start, None);
        let (mut there, mut newest, mut duplicated, mut reordered) = (HashSet::from([0]), 0, 0, 0);
        for &offset in &offsets {
            tracker.observe(start.wrapping_add(offset), None);
            if !there.insert(offset) {
                duplicated += 1;
            } else if offset < newest {
                reordered += 1;
            }
            newest = newest.max(offset);
        }
        let counts = tracker.counts();
        prop_assert_eq!(counts.duplicated, duplicated);
        prop_assert_eq!(counts.reordered, reordered);
        prop_assert_eq!(counts.lost, u64::from(newest) + 1 - there.len() as u64);
        prop_assert_eq!(counts.seen, offsets.len() as u64 + 1);
        prop_assert_eq!(counts.restarted, 0);
    }

    /// Long sequences count as a set would: numbers advance in steps, with late ones and duplicates among them.
    #[test]
    fn counts_stay_right_on_a_long_way(start: u32, steps in prop::collection::vec((1u32..700, prop::collection::vec(0u32..300, 0..6)), 1..200)) {
        let mut tracker = SequenceTracker::new();
        tracker.observe(start, None);
        let (mut there, mut newest, mut duplicated, mut reordered) = (HashSet::from([0_u64]), 0_u64, 0, 0);
        for (step, behind) in steps {
            newest += u64::from(step);
            there.insert(newest);
            tracker.observe(start.wrapping_add(newest as u32), None);
            for behind in behind {
                let Some(number) = newest.checked_sub(u64::from(behind)) else { continue };
                if there.insert(number) { reordered += 1 } else { duplicated += 1 }
                tracker.observe(start.wrapping_add(number as u32), None);
            }
        }
        let counts = tracker.counts();
        prop_assert_eq!(counts.duplicated, duplicated);
        prop_assert_eq!(counts.reordered, reordered);
        prop_assert_eq!(counts.lost, newest + 1 - there.len() as u64);
    }

    /// Any input: every observed number counts as seen, and nothing panics.
    #[test]
    fn nothing_panics(numbers: Vec<(u32, Option<u64>)>) {
        let mut tracker = SequenceTracker::new();
        for (number, time) in &numbers {
            tracker.observe(*number, *time);
        }
        prop_assert_eq!(tracker.counts().seen, numbers.len() as u64);
    }
}
