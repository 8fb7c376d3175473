//! Classes with a credit-based shaper (802.1Qav): their least service, and their largest output.
//!
//! A class may send if its credit is zero or more. While it sends, its credit falls by `C - I`; while it waits, it
//! rises by `I`. Sources: J. A. Ruiz De Azua, M. Boyer, "Complete modelling of AVB in Network Calculus" (RTNS 2014);
//! L. Zhao et al., "Timing analysis of AVB traffic in TSN networks using network calculus" (RTAS 2018).
//! `docs/bounds.md` derives the lines and the wait.

use super::fixed::{Data, Line, Rate, Time, product, quotient_up};
use super::mutation::{Term, keeps};
use rtwire_describe::ratio::Overflow;

/// A class with a credit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    /// The idle slope I.
    pub(super) idle_slope: Rate,
    /// The wait in its least service, I (t - wait).
    pub(super) wait: Time,
    /// The frames of any of its flows that end in any window, without the largest of those frames.
    pub(super) sends: Line,
    /// The most that it sends from an instant on at which its credit is at most zero.
    pub(super) uses: Line,
}

impl Credit {
    /// Returns a class below those of `above`, each as the lines that bound what it sends from an instant on at which
    /// its credit is at most zero. `frame` is its largest frame, `low` the largest frame of those below it.
    ///
    /// # Errors
    /// [`Overflow`], also if the idle slopes are more than the link's rate.
    pub(super) fn new(
        rate: Rate,
        idle_slope: Rate,
        above: &[Vec<Line>],
        frame: Data,
        low: Data,
    ) -> Result<Credit, Overflow> {
        let low = if keeps(Term::CreditBlocking) { low } else { 0 };
        let above = if keeps(Term::CreditAbove) { above } else { &[] };
        let wait = blocked(rate, low, above)?;
        let own = scaled(frame, rate, idle_slope)?;
        Ok(Credit {
            idle_slope,
            wait,
            sends: Line {
                burst: if keeps(Term::CreditSaved) {
                    product(idle_slope, wait)
                } else {
                    0
                },
                rate: idle_slope,
            },
            uses: Line {
                burst: if keeps(Term::CreditBurst) { own } else { 0 },
                rate: idle_slope,
            },
        })
    }
}

/// Returns the least time within which the link sends a lower frame and all that those above may send meanwhile.
fn blocked(rate: Rate, low: Data, above: &[Vec<Line>]) -> Result<Time, Overflow> {
    // The first line of each has the least rate, so that the time ends. Any choice of lines bounds it.
    let mut chosen: Vec<Line> = above
        .iter()
        .map(|lines| lines.first().copied().unwrap_or_default())
        .collect();
    let mut least = Time::MAX;
    loop {
        let (mut bits, mut left) = (low, rate);
        for line in &chosen {
            bits = bits.checked_add(line.burst).ok_or(Overflow)?;
            left = left.checked_sub(line.rate).ok_or(Overflow)?;
        }
        if left <= 0 {
            return Err(Overflow);
        }
        let time = quotient_up(bits, left)?;
        if time >= least {
            return Ok(least);
        }
        least = time;
        for (line, lines) in chosen.iter_mut().zip(above) {
            let best = lines.iter().min_by_key(|line| line.at(least));
            *line = best.copied().unwrap_or_default();
        }
    }
}

/// Returns `frame (C - I) / C`, rounded up: the credit that a frame uses, in data.
fn scaled(frame: Data, rate: Rate, idle_slope: Rate) -> Result<Data, Overflow> {
    let falls = rate.checked_sub(idle_slope).filter(|falls| *falls >= 0);
    let falls = falls.ok_or(Overflow)?;
    // The time that the frame takes is rounded up first: the product is exact.
    Ok(product(falls, quotient_up(frame, rate)?))
}

#[cfg(test)]
mod tests {
    use super::{Line, blocked};
    use crate::bound::fixed::{data_up, rate_up};
    use rtwire_describe::ratio::Ratio;

    fn line(bits: i128, mbit: i128) -> Line {
        Line {
            burst: data_up(Ratio::whole(bits)).unwrap(),
            rate: rate_up(Ratio::whole(mbit * 1_000_000)).unwrap(),
        }
    }

    #[test]
    fn those_above_hold_back_what_they_use() {
        let rate = line(0, 100).rate;
        let low = line(1_000, 0).burst;
        let us = |above: &[Vec<Line>]| blocked(rate, low, above).unwrap() / 1_000_000;
        // Nothing comes: no slope of those above counts.
        assert_eq!(us(&[]), 10);
        assert_eq!(us(&[vec![line(0, 0), line(0, 40)]]), 10);
        // (1000 + 3000) / 80 by what comes; (1000 + 600) / 60 by the credit; (1000 + 600 + 200) / (60 - 10) by both.
        let (comes, held) = (line(3_000, 20), line(600, 40));
        assert_eq!(us(&[vec![comes]]), 50);
        assert_eq!(us(&[vec![comes, held]]), 26);
        assert_eq!(
            us(&[vec![comes, held], vec![line(200, 10), line(900, 20)]]),
            36
        );
    }
}
