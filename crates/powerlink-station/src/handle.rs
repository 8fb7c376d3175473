//! Requests of other threads to a running station: its state, NMT commands, SDO. None of them makes the real-time loop wait.

use crate::snapshot::{Snapshot, Texts};
use crate::status::StationStatus;
use rtwire_powerlink::sdo::{SdoJob, SdoOutcome};
use rtwire_wire::powerlink::NmtCommandId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Requests that may wait for the loop.
const WAITING: usize = 16;

pub(crate) enum Request {
    Nmt(NmtCommandId, u8),
    Sdo(u8, SdoJob),
}

/// The outcome of an SDO job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SdoReply {
    /// The network has answered.
    Outcome(SdoOutcome),
    /// The station cannot ask this node: the node is not in the managing node's project, or is the station itself.
    NoSuchNode,
    /// The answer did not come in time.
    TimedOut,
    /// The station has stopped, or too many requests wait.
    NotRunning,
}

/// Reaches a running station from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    wanted: Arc<AtomicBool>,
    shared: Arc<Mutex<Ends>>,
    requests: SyncSender<Request>,
}

#[derive(Debug)]
struct Ends {
    empty: SyncSender<Box<Snapshot>>,
    filled: Receiver<Box<Snapshot>>,
    texts: Arc<OnceLock<Texts>>,
    outcomes: Receiver<SdoReply>,
    last: Option<StationStatus>,
}

impl Ends {
    /// Takes the snapshot that the loop has filled, if nobody waited for it.
    fn collect(&mut self) {
        if let Ok(snapshot) = self.filled.try_recv() {
            self.keep(snapshot);
        }
    }

    /// Makes the words of a snapshot, and returns its memory to the loop.
    fn keep(&mut self, snapshot: Box<Snapshot>) {
        self.last = self.texts.get().map(|texts| snapshot.status(texts));
        let _ = self.empty.try_send(snapshot);
    }
}

/// The loop's end.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) wanted: Arc<AtomicBool>,
    /// The snapshot to fill.
    pub(crate) empty: Receiver<Box<Snapshot>>,
    pub(crate) filled: SyncSender<Box<Snapshot>>,
    /// Set once, when the loop begins.
    pub(crate) texts: Arc<OnceLock<Texts>>,
    pub(crate) outcomes: SyncSender<SdoReply>,
    pub(crate) requests: Receiver<Request>,
}

pub(crate) fn pair() -> (Handle, Inner) {
    let wanted = Arc::new(AtomicBool::new(false));
    // One snapshot goes to and fro: it is back with the loop before the next question. There is room for it in either direction.
    let (empty, to_fill) = sync_channel(1);
    let (fill, filled) = sync_channel(1);
    let _ = empty.try_send(Box::new(Snapshot::empty()));
    let texts = Arc::new(OnceLock::new());
    let (outcomes, ended) = sync_channel(WAITING);
    let (requests, asked) = sync_channel(WAITING);
    let ends = Ends {
        empty,
        filled,
        texts: Arc::clone(&texts),
        outcomes: ended,
        last: None,
    };
    let handle = Handle {
        wanted: Arc::clone(&wanted),
        shared: Arc::new(Mutex::new(ends)),
        requests,
    };
    let inner = Inner {
        wanted,
        empty: to_fill,
        filled: fill,
        texts,
        outcomes,
        requests: asked,
    };
    (handle, inner)
}

impl Handle {
    /// Asks for the station's state. Returns `None` where it does not answer within `timeout`: it is not running.
    ///
    /// The real-time loop only copies numbers for it, and not between an SoC and the frame behind it.
    #[must_use]
    pub fn status(&self, timeout: Duration) -> Option<StationStatus> {
        let mut ends = self.shared.lock().ok()?;
        ends.collect();
        self.wanted.store(true, Ordering::Release);
        let snapshot = ends.filled.recv_timeout(timeout).ok()?;
        ends.keep(snapshot);
        ends.last.clone()
    }

    /// Returns the last state without asking anew.
    #[must_use]
    pub fn last_status(&self) -> Option<StationStatus> {
        let mut ends = self.shared.lock().ok()?;
        ends.collect();
        ends.last.clone()
    }

    /// Sends an NMT command to a node (255: to all). Returns true where the station has taken it. A controlled node asks its
    /// managing node to send it.
    pub fn nmt(&self, command: NmtCommandId, node: u8) -> bool {
        self.ask(Request::Nmt(command, node))
    }

    fn ask(&self, request: Request) -> bool {
        match self.requests.try_send(request) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// Reads or writes objects of a node. One at a time: others wait.
    #[must_use]
    pub fn sdo(&self, node: u8, job: SdoJob, timeout: Duration) -> SdoReply {
        let Ok(ends) = self.shared.lock() else {
            return SdoReply::NotRunning;
        };
        while ends.outcomes.try_recv().is_ok() {}
        if !self.ask(Request::Sdo(node, job)) {
            return SdoReply::NotRunning;
        }
        let begun = Instant::now();
        match ends
            .outcomes
            .recv_timeout(timeout.saturating_sub(begun.elapsed()))
        {
            Ok(reply) => reply,
            Err(_) => SdoReply::TimedOut,
        }
    }
}
