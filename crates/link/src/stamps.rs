//! Transmit timestamps, collected off the hot path.

use crate::card_time::{CardTime, StampClocks};
use crate::error::LinkError;
use rtwire_sys::launch::{LaunchFailure, LaunchFault};
use rtwire_sys::stamps::{self, RawTxStamp, TxStampKind, TxStampReader};
use std::sync::Arc;
use std::time::Duration;

/// Time at which one frame left, or entered its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxStamp {
    /// The number that [`Sender::send`](crate::Sender::send) returned.
    pub frame: u64,
    /// Point at which the timestamp was taken.
    pub kind: TxStampKind,
    /// The time, in ns of CLOCK_TAI.
    pub tai_ns: u64,
}

/// Report on one frame on the transmit path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxReport {
    /// The frame passed a point.
    Stamp(TxStamp),
    /// The frame did not leave at its launch time (path `launch`). The time in the report is that launch time, in
    /// CLOCK_TAI.
    Launch(LaunchFailure),
}

/// Collects the transmit timestamps and launch reports of one sender. Use it on a thread other than the sender's.
#[derive(Debug)]
pub struct TxStamps {
    reader: TxStampReader,
    interface: String,
    clocks: StampClocks,
    newest: u64,
    launch_refused: u64,
    launch_missed: u64,
}

impl TxStamps {
    pub(crate) fn new(reader: TxStampReader, interface: String) -> Result<Self, LinkError> {
        Ok(Self {
            reader,
            interface,
            clocks: StampClocks::new()?,
            newest: 0,
            launch_refused: 0,
            launch_missed: 0,
        })
    }

    /// Converts the card's stamps by this relation. They are dropped before.
    pub fn stamp_by_card(&mut self, card: Arc<CardTime>) {
        self.clocks.by_card(card);
    }

    /// Waits up to `timeout` for timestamps, passes all of them to `show`, and returns their number. A zero
    /// `timeout` does not wait. Launch reports are counted. It reads batches of 64 with one system call each.
    ///
    /// # Errors
    /// The socket's error queue cannot be read.
    pub fn collect(
        &mut self,
        timeout: Duration,
        mut show: impl FnMut(TxStamp),
    ) -> Result<usize, LinkError> {
        let mut shown = 0;
        self.collect_reports(timeout, |report| {
            if let TxReport::Stamp(stamp) = report {
                shown += 1;
                show(stamp);
            }
        })?;
        Ok(shown)
    }

    /// As [`Self::collect`], including the reports of frames that did not leave at their launch time.
    ///
    /// # Errors
    /// The socket's error queue cannot be read.
    pub fn collect_reports(
        &mut self,
        timeout: Duration,
        mut show: impl FnMut(TxReport),
    ) -> Result<usize, LinkError> {
        let fail =
            |interface: &str, errno| LinkError::of("reading stamps", interface, errno, 0, || true);
        if !timeout.is_zero() {
            self.reader
                .wait(timeout)
                .map_err(|errno| fail(&self.interface, errno))?;
        }
        let mut shown = 0;
        let newest = &mut self.newest;
        let (refused, missed) = (&mut self.launch_refused, &mut self.launch_missed);
        loop {
            let taken = self
                .reader
                .read(|raw| {
                    let report = match raw {
                        stamps::TxReport::Stamp(raw) => match unwrap(newest, raw, &self.clocks) {
                            Some(stamp) => TxReport::Stamp(stamp),
                            None => return,
                        },
                        stamps::TxReport::Launch(failure) => {
                            match failure.fault {
                                LaunchFault::Refused => *refused += 1,
                                LaunchFault::Missed => *missed += 1,
                            }
                            TxReport::Launch(failure)
                        }
                    };
                    shown += 1;
                    show(report);
                })
                .map_err(|errno| fail(&self.interface, errno))?;
            if taken == 0 {
                return Ok(shown);
            }
        }
    }

    /// Returns the frames collected so far that the launch queue refused: late, or out of order.
    #[must_use]
    pub fn launch_refused(&self) -> u64 {
        self.launch_refused
    }

    /// Returns the frames collected so far that the launch queue accepted and could not send in time.
    #[must_use]
    pub fn launch_missed(&self) -> u64 {
        self.launch_missed
    }
}

/// Returns the timestamp with its full frame number: of the numbers with `raw`'s low 32 bits the one nearest to the
/// newest seen. `None` for a card's stamp without the card's time.
fn unwrap(newest: &mut u64, raw: RawTxStamp, clocks: &StampClocks) -> Option<TxStamp> {
    let tai_ns = match raw.kind {
        TxStampKind::Card => clocks.tai_ns(None, Some(raw.time_ns)),
        TxStampKind::Queue | TxStampKind::Driver => clocks.host_ns(raw.time_ns),
    }?;
    let ahead = raw.id.wrapping_sub(*newest as u32) as i32;
    let frame = newest.saturating_add_signed(i64::from(ahead));
    *newest = (*newest).max(frame);
    Some(TxStamp {
        frame,
        kind: raw.kind,
        tai_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_over_the_wrap() {
        let clocks = StampClocks::host(37);
        let mut newest = 0;
        let mut frame = |id| {
            let raw = RawTxStamp {
                id,
                kind: TxStampKind::Driver,
                time_ns: 5,
            };
            let stamp = unwrap(&mut newest, raw, &clocks).unwrap();
            assert_eq!(stamp.tai_ns, 42);
            stamp.frame
        };
        assert_eq!(frame(0), 0);
        assert_eq!(frame(0x4000_0000), 0x4000_0000);
        assert_eq!(frame(0x8000_0000), 0x8000_0000);
        assert_eq!(frame(0xffff_fffe), 0xffff_fffe);
        assert_eq!(frame(1), 0x1_0000_0001);
        assert_eq!(frame(0xffff_ffff), 0xffff_ffff);
        assert_eq!(frame(2), 0x1_0000_0002);
    }
}
