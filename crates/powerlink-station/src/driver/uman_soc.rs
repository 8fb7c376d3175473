//! A managing node's SoC in the kernel module `uman`: a cyclic frame that leaves at its instant by the module's timer.
//!
//! ```text
//!  loop, ahead of the instant:  publish the SoC, renew ──► module ── at the instant ──► SoC
//!  loop, late or stopped:       nothing renewed        ──► module: lease over, nothing leaves
//! ```
//!
//! The lease is one instant. So a SoC leaves only if the loop has handed it over, and never twice.

use rtwire_link::LinkError;
use rtwire_link::run::LaunchWindow;
use rtwire_sys::uman::{Outgoing, UmanDevice};
use std::sync::Arc;

/// The slot of the SoC among the module's cyclic frames.
pub(super) const SLOT: u32 = 0;
/// The latest time before its instant at which a SoC may be handed over: the module's thread must not have woken for it.
pub(crate) const LATEST_NS: u64 = 20_000;
/// The periods that the module takes.
pub(crate) const PERIODS_NS: std::ops::RangeInclusive<u64> = 50_000..=1_000_000_000;

/// The SoC as the module keeps it.
#[derive(Debug)]
pub(super) struct Soc {
    device: Arc<UmanDevice>,
    outgoing: Outgoing,
    period_ns: u64,
    window: LaunchWindow,
    /// An instant of the grid on which the module sends; `None` before the first.
    grid_ns: Option<u64>,
    handed_over: u64,
    lost: u64,
}

/// Returns true if an instant lies on the grid of another one.
fn is_on_grid(grid_ns: u64, at_ns: u64, period_ns: u64) -> bool {
    at_ns
        .checked_sub(grid_ns)
        .and_then(|since| since.checked_rem(period_ns))
        == Some(0)
}

impl Soc {
    /// Returns the SoC's place; `None` if the attachment has no cyclic frame.
    pub(super) fn new(
        device: Arc<UmanDevice>,
        period_ns: u64,
        window: LaunchWindow,
    ) -> Option<Self> {
        Some(Self {
            outgoing: Outgoing::cyclic(Arc::clone(&device), SLOT)?,
            device,
            period_ns,
            window,
            grid_ns: None,
            handed_over: 0,
            lost: 0,
        })
    }

    pub(super) const fn window(&self) -> LaunchWindow {
        self.window
    }

    /// Returns the SoC that were handed over and have not left.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Hands over the SoC for `launch_ns` of CLOCK_MONOTONIC. No system call, unless the module does not send on this grid:
    /// at the first one, and where one was left out.
    pub(super) fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        // Those before have had their instants.
        self.lost = self.handed_over.saturating_sub(self.outgoing.counts().0);
        let refused = LinkError::LaunchRefused { launch_ns };
        let goes_on = self.outgoing.is_on()
            && self
                .grid_ns
                .is_some_and(|grid_ns| is_on_grid(grid_ns, launch_ns, self.period_ns));
        self.outgoing.publish(frame);
        if goes_on {
            self.outgoing.renew();
            if !self.outgoing.is_on() {
                return Err(refused);
            }
        } else {
            let grid = (launch_ns, self.period_ns);
            if self.device.set_cyclic(SLOT, grid, 1).is_err() {
                return Err(refused);
            }
            self.grid_ns = Some(launch_ns);
        }
        self.handed_over += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_on_the_grid_or_not() {
        assert!(is_on_grid(1_000, 1_000, 500));
        assert!(is_on_grid(1_000, 6_500, 500));
        assert!(!is_on_grid(1_000, 6_501, 500));
        assert!(!is_on_grid(1_000, 500, 500));
        assert!(!is_on_grid(1_000, 1_000, 0));
    }
}
