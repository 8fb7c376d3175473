//! Transmit stamps, collected off the hot path.

use crate::error::LinkError;
use rtwire_sys::clock;
use rtwire_sys::launch::{LaunchFailure, LaunchFault};
use rtwire_sys::stamps::{self, RawTxStamp, TxStampKind, TxStampReader};
use std::time::Duration;

/// When one frame left, or entered its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxStamp {
    /// The number that [`Sender::send`](crate::Sender::send) gave.
    pub frame: u64,
    /// Where it was taken.
    pub kind: TxStampKind,
    /// When, ns of CLOCK_TAI.
    pub tai_ns: u64,
}

/// What became of one frame on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxReport {
    /// It passed a point.
    Stamp(TxStamp),
    /// It did not leave at its launch time (path `launch`); the time tells which it was, in CLOCK_TAI.
    Launch(LaunchFailure),
}

/// Collects the transmit stamps and launch reports of one sender. Belongs on a thread other than the sender's.
#[derive(Debug)]
pub struct TxStamps {
    reader: TxStampReader,
    interface: String,
    tai_offset_ns: i64,
    newest: u64,
    launch_refused: u64,
    launch_missed: u64,
}

impl TxStamps {
    pub(crate) fn new(reader: TxStampReader, interface: String) -> Result<Self, LinkError> {
        Ok(Self {
            reader,
            interface,
            tai_offset_ns: clock::tai_offset_ns()?,
            newest: 0,
            launch_refused: 0,
            launch_missed: 0,
        })
    }

    /// Waits up to `timeout` for stamps and shows all that are there; gives how many. A zero `timeout` does not wait.
    /// Launch reports are counted. Batches of 64 with one system call each.
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

    /// As [`Self::collect`], with the reports of frames that did not leave at their launch time.
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
                    shown += 1;
                    show(match raw {
                        stamps::TxReport::Stamp(raw) => {
                            TxReport::Stamp(unwrap(newest, raw, self.tai_offset_ns))
                        }
                        stamps::TxReport::Launch(failure) => {
                            match failure.fault {
                                LaunchFault::Refused => *refused += 1,
                                LaunchFault::Missed => *missed += 1,
                            }
                            TxReport::Launch(failure)
                        }
                    });
                })
                .map_err(|errno| fail(&self.interface, errno))?;
            if taken == 0 {
                return Ok(shown);
            }
        }
    }

    /// Frames collected so far that the launch queue did not take: late, or out of order.
    #[must_use]
    pub fn launch_refused(&self) -> u64 {
        self.launch_refused
    }

    /// Frames collected so far that the launch queue had and could not send in time.
    #[must_use]
    pub fn launch_missed(&self) -> u64 {
        self.launch_missed
    }
}

/// The full number that `raw`'s 32 bits stand for: the one nearest to the newest seen.
fn unwrap(newest: &mut u64, raw: RawTxStamp, tai_offset_ns: i64) -> TxStamp {
    let ahead = raw.id.wrapping_sub(*newest as u32) as i32;
    let frame = newest.saturating_add_signed(i64::from(ahead));
    *newest = (*newest).max(frame);
    TxStamp {
        frame,
        kind: raw.kind,
        tai_ns: raw.realtime_ns.saturating_add_signed(tai_offset_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_over_the_wrap() {
        let mut newest = 0;
        let mut frame = |id| {
            let raw = RawTxStamp {
                id,
                kind: TxStampKind::Driver,
                realtime_ns: 5,
            };
            let stamp = unwrap(&mut newest, raw, 37);
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
