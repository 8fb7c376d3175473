//! Classes with a credit-based shaper (802.1Qav): their least service, and their largest output.
//!
//! A class may send if its credit is zero or more. While it sends, its credit falls by `C - I`; while it waits, it
//! rises by `I`. Sources: J. A. Ruiz De Azua, M. Boyer, "Complete modelling of AVB in Network Calculus" (RTNS 2014);
//! L. Zhao et al., "Timing analysis of AVB traffic in TSN networks using network calculus" (RTAS 2018).
//! `docs/bounds.md` derives both lines.

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
    /// The most that it sends in any window, in whole frames or parts.
    pub(super) sends: Line,
}

/// Sums over the classes with a credit that are above one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Above {
    slopes: Rate,
    /// Time on the link: the sum of L_j (C - I_j), 10^-18 bit times 10^-6 bit/s, over C.
    frames: Data,
}

impl Credit {
    /// Returns a class below `above`. `frame` is its largest frame, `low` the largest frame of those below it.
    pub(super) fn new(
        rate: Rate,
        idle_slope: Rate,
        above: &Above,
        frame: Data,
        low: Data,
    ) -> Result<Credit, Overflow> {
        let low = if keeps(Term::CreditBlocking) { low } else { 0 };
        let left = rate.checked_sub(above.slopes).filter(|left| *left > 0);
        let left = left.ok_or(Overflow)?;
        // What those above hold back: their frames that run their credit down, and what they saved up behind a lower
        // frame. Behind a frame of this class its own credit is less by more than theirs rises, as long as all slopes
        // fit into the link.
        let behind = if idle_slope <= left {
            low
        } else {
            low.max(frame)
        };
        let saved = quotient_up(behind, rate)?;
        let mut held = product(above.slopes, saved);
        if keeps(Term::CreditAbove) {
            held = held.checked_add(above.frames).ok_or(Overflow)?;
        } else {
            held = 0;
        }
        let wait = quotient_up(low, rate)?
            .checked_add(quotient_up(held, left)?)
            .ok_or(Overflow)?;
        let own = scaled(frame, rate, idle_slope)?;
        let burst = product(idle_slope, wait).checked_add(own).ok_or(Overflow)?;
        Ok(Credit {
            idle_slope,
            wait,
            sends: Line {
                burst,
                rate: idle_slope,
            },
        })
    }
}

impl Above {
    /// Returns the sums with one more class.
    pub(super) fn and(self, rate: Rate, idle_slope: Rate, frame: Data) -> Result<Above, Overflow> {
        Ok(Above {
            slopes: super::fixed::plus(self.slopes, idle_slope)?,
            frames: self
                .frames
                .checked_add(scaled(frame, rate, idle_slope)?)
                .ok_or(Overflow)?,
        })
    }
}

/// Returns `frame (C - I) / C`, rounded up: the credit that a frame uses, in data.
fn scaled(frame: Data, rate: Rate, idle_slope: Rate) -> Result<Data, Overflow> {
    let falls = rate.checked_sub(idle_slope).filter(|falls| *falls >= 0);
    let falls = falls.ok_or(Overflow)?;
    // The time that the frame takes is rounded up first: the product is exact.
    Ok(product(falls, quotient_up(frame, rate)?))
}
