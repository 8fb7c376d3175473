//! Transmit timestamps: requested on a socket, read from its error queue.

use crate::error::{Errno, Error, Result};
use crate::launch::{self, LaunchFailure};
use crate::messages::{Batch, Wait, stamps_of};
use crate::socket::{self, Ready};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// The place in the kernel where a transmit timestamp was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxStampKind {
    /// On entering the queueing discipline. Frames that bypass it have none.
    Queue,
    /// On leaving: the driver hands the frame to its interface.
    Driver,
    /// On the wire: the card's own stamp, by the card's clock.
    Card,
}

/// One transmit timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawTxStamp {
    /// The kernel's running number of the frame on this socket (32 bits, wraps).
    pub id: u32,
    /// The place where it was taken.
    pub kind: TxStampKind,
    /// The time, ns of CLOCK_REALTIME, or of the card's clock ([`TxStampKind::Card`]).
    pub time_ns: u64,
}

/// A report about one frame from a sender's error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxReport {
    /// The frame passed a point on its transmit path.
    Stamp(RawTxStamp),
    /// The frame did not leave at its launch time.
    Launch(LaunchFailure),
}

const OPTIONS: u32 = libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// The place that stamps frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum StampSource {
    /// The kernel, by CLOCK_REALTIME: on every interface.
    #[default]
    Software,
    /// The card, by its own clock, where [`crate::card_stamps::CardStamps`] are held.
    Hardware,
}

/// The timestamps that a socket takes of the frames it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TxStamping {
    /// On entering the queueing discipline.
    pub queue: bool,
    /// On leaving through the driver.
    pub driver: bool,
    /// On the wire, by the card. Then a frame that the card stamps has no stamp of the driver.
    pub card: bool,
}

/// Turns transmit timestamps on and starts their numbers at 0.
pub(crate) fn enable_tx(socket: &OwnedFd, object: &str, which: TxStamping) -> Result<()> {
    let mut flags = OPTIONS;
    if which.queue {
        flags |= libc::SOF_TIMESTAMPING_TX_SCHED;
    }
    if which.driver {
        flags |= libc::SOF_TIMESTAMPING_TX_SOFTWARE;
    }
    if which.card {
        flags |= libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    }
    let fail = |errno| Error::new("setsockopt(SO_TIMESTAMPING)", object, errno, None);
    // The numbers start again only if OPT_ID was off before.
    socket::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0_u32).map_err(fail)?;
    socket::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags).map_err(fail)
}

/// Turns receive timestamps on. The kernel takes some time to begin: the first packets may have none.
pub(crate) fn enable_rx(socket: &OwnedFd, object: &str, source: StampSource) -> Result<()> {
    let flags = match source {
        StampSource::Software => {
            libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE
        }
        StampSource::Hardware => {
            libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE
        }
    };
    socket::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
        .map_err(|errno| Error::new("setsockopt(SO_TIMESTAMPING)", object, errno, None))
}

/// A reader of one socket's transmit timestamps and launch reports, for use on any thread.
#[derive(Debug)]
pub struct TxStampReader {
    socket: Arc<OwnedFd>,
    batch: Batch,
}

impl TxStampReader {
    pub(crate) fn new(socket: Arc<OwnedFd>) -> Self {
        Self {
            socket,
            batch: Batch::new(64, 64),
        }
    }

    /// Waits until there are timestamps to read (or another error of the socket), at most for `timeout`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&self, timeout: Duration) -> std::result::Result<bool, Errno> {
        Ok(socket::wait(&self.socket, false, Some(timeout))? != Ready::Nothing)
    }

    /// Reads up to 64 waiting reports with one system call and calls `show` with each. Returns the number of messages
    /// taken from the queue.
    ///
    /// Other messages (ICMP errors of a UDP socket) are taken and not shown.
    ///
    /// # Errors
    /// The kernel's error; an empty queue is no error.
    pub fn read(&mut self, mut show: impl FnMut(TxReport)) -> std::result::Result<usize, Errno> {
        let count = match self.batch.receive(&self.socket, Wait::ErrorQueue, 64) {
            Ok(count) => count,
            Err(errno) if errno.would_block() || errno.interrupted() => return Ok(0),
            Err(errno) => return Err(errno),
        };
        for index in 0..count {
            if let Some(report) = self.decode(index) {
                show(report);
            }
        }
        Ok(count)
    }

    fn decode(&self, index: usize) -> Option<TxReport> {
        let mut times = (None, None);
        let mut report = None;
        let mut failure = None;
        self.batch
            .each_control(index, |level, kind, payload| match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => times = stamps_of(payload),
                (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP)
                | (libc::SOL_IP, libc::IP_RECVERR) => {
                    report = extended_error(payload);
                    failure = launch::report(payload);
                }
                _ => {}
            });
        if let Some(failure) = failure {
            return Some(TxReport::Launch(failure));
        }
        let (kind, id) = report?;
        // The kernel reports the card's stamp as the driver's, in another place.
        let (kind, time_ns) = match (kind, times) {
            (TxStampKind::Driver, (_, Some(card_ns))) => (TxStampKind::Card, card_ns),
            (kind, (software_ns, _)) => (kind, software_ns?),
        };
        Some(TxReport::Stamp(RawTxStamp { id, kind, time_ns }))
    }
}

/// Reads kind and number from a `sock_extended_err`; `None` if it reports no timestamp.
pub(crate) fn extended_error(payload: &[u8]) -> Option<(TxStampKind, u32)> {
    // struct sock_extended_err: errno 4, origin 1, type 1, code 1, pad 1, info 4, data 4.
    let word = |at: usize| {
        Some(u32::from_ne_bytes(
            payload.get(at..at + 4)?.try_into().ok()?,
        ))
    };
    if word(0)? != libc::ENOMSG as u32 || *payload.get(4)? != libc::SO_EE_ORIGIN_TIMESTAMPING {
        return None;
    }
    // SCM_TSTAMP_SND is 0, SCM_TSTAMP_SCHED 1.
    let kind = match word(8)? {
        0 => TxStampKind::Driver,
        1 => TxStampKind::Queue,
        _ => return None,
    };
    Some((kind, word(12)?))
}
