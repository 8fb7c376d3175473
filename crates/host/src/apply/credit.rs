//! The plan's credits as CBS: idle slope, send slope, and the two limits of the credit. Pure.
//!
//! The kernel's CBS counts at the rate it reads from the interface, so the numbers are for that rate. A size table
//! without entries adds the bytes on the wire beyond header and payload, as the plan does.

use super::configuration::{Configuration, Lack};
use super::present::Present;
use super::share::{Credit, Share};
use crate::netlink::Discipline;

const BYTE: u128 = 8;

/// Returns the shaper of each class that has a credit. Returns none, and notes the lost promises, where the host cannot
/// shape.
pub(super) fn shapers(
    all: &mut Configuration,
    share: &Share,
    present: &Present,
) -> Vec<(u8, Discipline)> {
    if share.credits.is_empty() {
        return Vec::new();
    }
    let mut missing = Vec::new();
    if present.kinds.get("cbs") != Some(&true) {
        missing.push("the discipline cbs".to_owned());
    }
    let rate_bps = present.speed_mbps.unwrap_or(0).saturating_mul(1_000_000);
    let slopes: u64 = share.credits.iter().map(|one| one.idle_slope_bps).sum();
    if rate_bps <= slopes {
        missing.push(match present.speed_mbps {
            None => format!(
                "the speed of `{}`, at which the kernel's CBS counts: its driver reports none",
                present.interface
            ),
            Some(mbps) => format!("a link faster than its credits: this one runs at {mbps} Mbit/s"),
        });
    }
    if !missing.is_empty() {
        lacking(all, share, missing);
        return Vec::new();
    }
    let mut above: Vec<Credit> = Vec::new();
    let mut found = Vec::new();
    for credit in &share.credits {
        found.push((credit.class, shaper(*credit, &above, rate_bps)));
        above.push(*credit);
    }
    found
}

/// Notes the promises that are lost where classes have no credit.
pub(super) fn lacking(all: &mut Configuration, share: &Share, missing: Vec<String>) {
    let shaped = |class: u8| share.credits.iter().any(|credit| credit.class == class);
    let streams = share.sends.iter();
    let names: Vec<&str> = streams
        .filter(|stream| shaped(stream.class))
        .map(|stream| stream.name.as_str())
        .collect();
    all.lacks.push(Lack {
        what: missing.join(", "),
        lost: format!(
            "the limit of {} to their credit: the promises of all classes below, here and in every switch",
            names.join(", ")
        ),
        remedy: "a kernel with sch_cbs (Debian's have it), an interface with a queue for each class and a known speed".to_owned(),
        instead: "the classes keep their order, and only the talkers' own shapers hold them to their contracts".to_owned(),
    });
}

/// Returns the credit's limits after 802.1Q, annex L, and docs/bounds.md. The credit rises while the class waits for a
/// frame of a lower class and for the credits above it. It falls while its own largest frame is sent. Both limits are
/// rounded away from zero: a credit that is cut off sends less than planned.
fn shaper(credit: Credit, above: &[Credit], rate_bps: u64) -> Discipline {
    let rate = u128::from(rate_bps);
    let idle = u128::from(credit.idle_slope_bps);
    let slopes: u128 = above.iter().map(|one| u128::from(one.idle_slope_bps)).sum();
    let frame = u128::from(credit.frame_wire_bytes) * BYTE;
    let lower = u128::from(credit.lower_wire_bytes) * BYTE;
    // Bits that the higher classes hold back: credit saved during a lower frame, and frames that use up their credit.
    let saved = (slopes * lower.max(frame)).div_ceil(rate);
    let fall = |one: &Credit| {
        let bits = u128::from(one.frame_wire_bytes) * BYTE;
        (bits * (rate - u128::from(one.idle_slope_bps))).div_ceil(rate)
    };
    let held = saved + above.iter().map(fall).sum::<u128>();
    let high = (idle * lower).div_ceil(rate) + (idle * held).div_ceil(rate - slopes);
    let low = (frame * (rate - idle)).div_ceil(rate);
    let small = |value: u128| i32::try_from(value).unwrap_or(i32::MAX);
    // The kernel counts in kbit/s. The idle slope is rounded down; the send slope is the rest of the rate.
    let idle_kbps = small(idle / 1_000);
    Discipline::Cbs {
        idle_slope_kbps: idle_kbps,
        send_slope_kbps: idle_kbps - small(rate / 1_000),
        high_credit_bytes: small(high.div_ceil(BYTE)),
        low_credit_bytes: -small(low.div_ceil(BYTE)),
        offload: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credit(class: u8, mbps: u64) -> Credit {
        Credit {
            class,
            idle_slope_bps: mbps * 1_000_000,
            frame_wire_bytes: 500,
            lower_wire_bytes: 1_538,
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_standard() {
        // 20 Mbit/s of 100: hiCredit = 1538 * 0.2, loCredit = -500 * 0.8.
        let Discipline::Cbs {
            idle_slope_kbps,
            send_slope_kbps,
            high_credit_bytes,
            low_credit_bytes,
            ..
        } = shaper(credit(3, 20), &[], 100_000_000)
        else {
            panic!()
        };
        assert_eq!((idle_slope_kbps, send_slope_kbps), (20_000, -80_000));
        assert_eq!((high_credit_bytes, low_credit_bytes), (308, -400));
        // Below a class of 30 Mbit/s: it waits for that one too. wait = 1538/C + (0.3 * 1538 + 500 * 0.7) / 70 Mbit/s.
        let second = shaper(credit(2, 20), &[credit(3, 30)], 100_000_000);
        let Discipline::Cbs {
            high_credit_bytes, ..
        } = second
        else {
            panic!()
        };
        let wanted = 0.2 * 1538.0 + 20.0 / 70.0 * (0.3 * 1538.0 + 350.0);
        assert!(
            (f64::from(high_credit_bytes) - wanted).abs() < 2.0,
            "{high_credit_bytes} {wanted}"
        );
    }
}
