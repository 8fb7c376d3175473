//! The data in a file of evidence. All times are ns of the host's own CLOCK_TAI.

use serde::{Deserialize, Serialize};

use crate::noise::{NoiseRecord, Stall};
use crate::report::Machine;
use crate::stamp_origin::StampOrigin;
use crate::summary::Summary;

/// The version of the form.
pub const FORMAT: u32 = 1;

/// The beginning of the file: who recorded what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// The name of this run: another one for each run of any host.
    pub run: String,
    /// The network's name.
    pub network: String,
    /// The plan's fingerprint.
    pub plan_id: String,
    /// The plan's epoch.
    pub epoch: u64,
    /// The host's name in the plan.
    pub host: String,
    /// The host's interface.
    pub interface: String,
    /// The instant from which all its listeners took frames.
    pub open_ns: u64,
    /// The instant at which its talkers began.
    pub start_ns: u64,
    /// The duration that was asked for; absent if it was to run until stopped.
    pub planned_ns: Option<u64>,
    /// The streams that it sends.
    pub talkers: Vec<TalkerEntry>,
    /// The streams that it receives.
    pub listeners: Vec<ListenerEntry>,
    /// The reason to believe that its clock is the network's.
    pub clock: ClockBasis,
    /// Place and clock of the stamps of arrivals, if a card took them; absent: the kernel or the receive program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamps: Option<StampOrigin>,
    /// The kernel's id of this boot: equal for hosts that share one kernel, and so one clock.
    pub boot_id: String,
    /// The machine.
    pub machine: Machine,
}

/// One stream that the host sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TalkerEntry {
    /// The stream's name.
    pub stream: String,
    /// The transmit path, as `rtwire run --path` names it.
    pub path: String,
    /// The instant from which a frame's delay counts.
    pub stamps: StampKind,
    /// True if it sends by itself in each cycle or at its rate; false if a program decides when there is a value.
    pub paced: bool,
}

/// The instant from which a frame's delay counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StampKind {
    /// The kernel's stamp where the frame enters the transmit queue.
    Kernel,
    /// The begin of the send call: the kernel stamps nothing on this path.
    Call,
    /// The launch time that the frame was given.
    Launch,
}

/// One stream that the host receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerEntry {
    /// The stream's name.
    pub stream: String,
    /// The receive path.
    pub path: String,
}

/// The reason to believe that a host's clock is the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "basis", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClockBasis {
    /// None: nobody knows how far it is from the others.
    Unknown,
    /// The user said so.
    Stated {
        /// The largest difference from the network's time.
        uncertainty_ns: u64,
    },
    /// ptp4l follows, and was asked once a second.
    Ptp {
        /// The largest difference that is accepted.
        uncertainty_ns: u64,
    },
}

/// One look at the clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockLook {
    /// The clock's offset from its master; absent if unknown.
    pub offset_ns: Option<i64>,
    /// The largest difference from the network's time, as far as this look shows; absent if it is not synchronised.
    pub uncertainty_ns: Option<u64>,
    /// The state in words: empty if all is well, else the reasons.
    pub state: String,
    /// The steps of the clock since the last look, in words; empty if nobody set it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
}

/// A mark in time: all that was noted well before it is in the file or counted as missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The instant.
    pub at_ns: u64,
    /// The clock, where it is watched.
    pub clock: Option<ClockLook>,
    /// The largest error so far of a stamp that was converted from a card's clock, ns; absent without such stamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_error_ns: Option<u64>,
}

/// A frame that a talker handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRecord {
    /// The sequence number.
    pub sequence: u32,
    /// The lateness of its cycle; 0 if it belongs to none.
    pub late_ns: u32,
    /// The begin of the send call.
    pub called_ns: u64,
    /// The end of the send call.
    pub returned_ns: u64,
    /// The launch time; 0: none.
    pub launch_ns: u64,
}

/// A kernel transmit stamp of a frame. A frame may have several: the earliest is the host's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampRecord {
    /// The sequence number.
    pub sequence: u32,
    /// The stamp.
    pub stamp_ns: u64,
}

/// A frame at a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalRecord {
    /// The sequence number.
    pub sequence: u32,
    /// The kernel's receive stamp; 0: none.
    pub stamp_ns: u64,
    /// The talker's own time in the frame; 0: none.
    pub sender_ns: u64,
    /// The instant at which the listener had it.
    pub read_ns: u64,
}

/// Records that are not in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unkept {
    /// Those for which there was no room while the run went on: the writer was held up.
    pub overrun: u64,
    /// Those beyond the file's largest size.
    pub beyond_limit: u64,
}

impl Unkept {
    /// Returns the number of all of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.overrun.saturating_add(self.beyond_limit)
    }
}

/// One talker after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TalkerTotals {
    /// The stream's name.
    pub stream: String,
    /// Frames sent.
    pub frames_sent: u64,
    /// Cycles in which nothing was sent.
    pub cycles_skipped: u64,
    /// Frames for which the interface's own queue had no room.
    pub frames_refused: u64,
    /// The lateness of its cycles.
    pub lateness_ns: Option<Summary>,
    /// Cycles that were later than declared: due time, and the time at which the thread woke.
    pub late: Vec<(u64, u64)>,
    /// The reason for an early end.
    pub fault: Option<String>,
    /// Frames and stamps that are not in the file.
    pub unkept: Unkept,
}

/// One listener after the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerTotals {
    /// The stream's name.
    pub stream: String,
    /// Different frames received.
    pub frames_received: u64,
    /// Sequence numbers that did not arrive.
    pub frames_lost: u64,
    /// Frames that arrived twice.
    pub frames_duplicated: u64,
    /// Frames that arrived behind a later one.
    pub frames_reordered: u64,
    /// Values that were overtaken by newer ones before they were read. Their arrivals are noted, too.
    pub frames_overtaken: u64,
    /// Arrivals of newest values that were not noted.
    pub arrivals_missed: u64,
    /// Frames with an altered payload.
    pub frames_corrupted: u64,
    /// Frames that the listener's own socket dropped.
    pub socket_drops: u64,
    /// Frames beyond the contract that were dropped here.
    pub frames_policed: u64,
    /// Frames of another plan.
    pub frames_foreign: u64,
    /// Frames with more user data than the contract allows.
    pub frames_too_long: u64,
    /// Frames beyond the contract's rate and burst.
    pub frames_too_frequent: u64,
    /// The number of times that its talker began again.
    pub talker_restarts: u64,
    /// The reason for an early end.
    pub fault: Option<String>,
    /// Arrivals that are not in the file.
    pub unkept: Unkept,
}

/// The end of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The instant at which its talkers ended.
    pub sent_to_ns: u64,
    /// The instant at which its listeners ended.
    pub heard_to_ns: u64,
    /// True if it was stopped before the duration that was asked for.
    pub interrupted: bool,
    /// Frames sent, stamps and arrivals in the file.
    pub records: [u64; 3],
}

/// A host's account of its run, beside the records of single frames.
#[derive(Clone, Debug, PartialEq)]
pub struct HostAccount {
    /// The header.
    pub header: Header,
    /// The marks.
    pub marks: Vec<Mark>,
    /// The talkers after the run, in the header's order; empty if truncated.
    pub talkers: Vec<TalkerTotals>,
    /// The listeners after the run, in the header's order; empty if truncated.
    pub listeners: Vec<ListenerTotals>,
    /// The machine's noise with its stalls; absent if it was not recorded, or truncated.
    pub noise: Option<NoiseRecord>,
    /// The end; absent if truncated.
    pub end: Option<End>,
}

impl HostAccount {
    /// Returns an account that has a header and nothing else.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self {
            header,
            marks: Vec::new(),
            talkers: Vec::new(),
            listeners: Vec::new(),
            noise: None,
            end: None,
        }
    }

    /// Returns true if the file ends before its end block: the run was cut off, or the file was.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.end.is_none()
    }

    /// Returns the largest difference of the host's clock from the network's time; `None` if it is not known.
    ///
    /// A clock that ptp4l keeps is known only if every look found it synchronised.
    #[must_use]
    pub fn clock_uncertainty_ns(&self) -> Option<u64> {
        match self.header.clock {
            ClockBasis::Unknown => None,
            ClockBasis::Stated { uncertainty_ns } => Some(uncertainty_ns),
            ClockBasis::Ptp { uncertainty_ns } => {
                let looks: Vec<&ClockLook> = self
                    .marks
                    .iter()
                    .filter_map(|mark| mark.clock.as_ref())
                    .collect();
                if looks.is_empty() {
                    return None;
                }
                looks.iter().try_fold(uncertainty_ns, |most, look| {
                    look.uncertainty_ns.map(|ns| ns.max(most))
                })
            }
        }
    }

    /// Returns the largest error of a stamp that was converted from a card's clock, ns; 0 without such stamps. `None` if
    /// no mark tells it.
    #[must_use]
    pub fn card_error_ns(&self) -> Option<u64> {
        match &self.header.stamps {
            None => Some(0),
            Some(_) => self
                .marks
                .iter()
                .filter_map(|mark| mark.card_error_ns)
                .max(),
        }
    }

    /// Returns the steps of the host's clock during the run, in words; empty if nobody set it.
    pub fn clock_set(&self) -> impl Iterator<Item = &String> {
        let looks = self.marks.iter().filter_map(|mark| mark.clock.as_ref());
        looks.flat_map(|look| &look.set)
    }

    /// Returns the instant up to which the file knows all that was sent and received here.
    #[must_use]
    pub fn known_to_ns(&self) -> u64 {
        match (&self.end, self.marks.last()) {
            (Some(end), _) => end.heard_to_ns,
            (None, Some(mark)) => mark.at_ns,
            (None, None) => self.header.open_ns,
        }
    }

    /// Returns the stalls of the noise record.
    #[must_use]
    pub fn stalls(&self) -> &[Stall] {
        self.noise.as_ref().map_or(&[], |noise| &noise.stalls)
    }
}

/// All that a file of evidence holds.
#[derive(Clone, Debug, PartialEq)]
pub struct HostEvidence {
    /// The host's account of its run.
    pub account: HostAccount,
    /// The frames sent, for each talker of the header.
    pub sent: Vec<Vec<SentRecord>>,
    /// The kernel's transmit stamps, for each talker of the header.
    pub stamps: Vec<Vec<StampRecord>>,
    /// The arrivals, for each listener of the header.
    pub arrivals: Vec<Vec<ArrivalRecord>>,
}

impl HostEvidence {
    /// Returns evidence that has a header and nothing else.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self {
            sent: vec![Vec::new(); header.talkers.len()],
            stamps: vec![Vec::new(); header.talkers.len()],
            arrivals: vec![Vec::new(); header.listeners.len()],
            account: HostAccount::new(header),
        }
    }
}
