//! Tests of numbers out of range, and of rounding.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;

#[test]
fn out_of_range_is_never_below_anything() {
    let over = Num::from(i128::MAX) + Num::from(1);
    for other in [Num::ZERO, over, Num::from(i128::MAX)] {
        assert_eq!((over.partial_cmp(&other), other.partial_cmp(&over)), (None, None));
    }
    assert_eq!(Num::from(1).over_up(Num::ZERO), Num(None));
}

#[test]
fn fractions_round_up_and_only_where_needed() {
    let third = Fraction::parse("1/3").unwrap();
    assert_eq!(third.units_up(1_000, 1, 1), Num::from(334));
    assert_eq!(third.units_up(3_000, 1, 1), Num::from(1_000));
    assert_eq!(third.units_up(3, 10, 4), Num::from(3));
    let large = Fraction::parse("23070000000000/757").unwrap();
    // 23070000000000/757 * 10^6 = 30475561426684280.05...
    assert_eq!(large.units_up(BPS, 1, 1), Num::from(30_475_561_426_684_281));
    assert!(Fraction::parse("-1").is_none() && Fraction::parse("1/0").is_none());
}
