//! Joins the frames that talkers sent with those that listeners received.

use std::ops::RangeInclusive;

use rtwire_measure::evidence::{ArrivalRecord, HostAccount, SentRecord, StampKind, StampRecord};
use rtwire_measure::verdict::{Sample, StreamEvidence};
use rtwire_plan::{Plan, Stream};

use super::route::Way;
use super::{File, JudgeError};
use crate::streams::frames_planned;

/// The time before a listener's end in which frames may still have been on their way, ns.
const DRAIN_NS: u64 = 300_000_000;

/// One stream at one listener.
pub(super) struct Joined {
    pub(super) evidence: StreamEvidence,
    pub(super) talker: String,
    pub(super) listener: String,
    /// The time that its talker sent before its listener's evidence accounts for it, ns.
    pub(super) missing_before_ns: u64,
    /// The time that its talker sent after that, ns.
    pub(super) missing_after_ns: u64,
    /// True if the clocks tell the time by the talker's clock in which the listener listened.
    pub(super) times_known: bool,
    /// Arrivals of frames that the talker's evidence, which is whole, does not know.
    pub(super) strangers: u64,
}

/// The sending end of a stream: the host's evidence, and the stream's place in it.
#[derive(Clone, Copy)]
pub(super) struct Talking<'a> {
    pub(super) file: &'a File<'a>,
    pub(super) evidence: &'a HostAccount,
    pub(super) at: usize,
}

/// A frame that a talker handed over.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) called_ns: u64,
    returned_ns: u64,
    /// The instant from which its delay counts, if `is_stamped`; else the begin of its send call.
    pub(super) from_ns: u64,
    sequence: u32,
    is_stamped: bool,
}

impl Frame {
    fn of(record: &SentRecord, kind: StampKind) -> Self {
        let from_ns = match kind {
            StampKind::Launch if record.launch_ns > 0 => record.launch_ns,
            _ => record.called_ns,
        };
        Self {
            called_ns: record.called_ns,
            returned_ns: record.returned_ns,
            from_ns,
            sequence: record.sequence,
            is_stamped: kind != StampKind::Kernel,
        }
    }

    fn stamped_ns(&self) -> Option<u64> {
        self.is_stamped.then_some(self.from_ns)
    }

    /// Takes a kernel's stamp. Those behind the send call are of ports on the route, in the same kernel.
    fn stamp(&mut self, stamp_ns: u64) {
        if stamp_ns <= self.returned_ns {
            self.from_ns = self.stamped_ns().map_or(stamp_ns, |ns| ns.min(stamp_ns));
            self.is_stamped = true;
        }
    }
}

pub(super) fn of_host<'a>(files: &'a [File<'a>], host: &str) -> Option<&'a File<'a>> {
    files.iter().find(|file| file.evidence.header.host == host)
}

pub(super) fn talking<'a>(files: &'a [File<'a>], stream: &Stream) -> Option<Talking<'a>> {
    let file = of_host(files, &stream.talker)?;
    let mut entries = file.evidence.header.talkers.iter();
    let at = entries.position(|entry| entry.stream == stream.name)?;
    let evidence = file.evidence;
    Some(Talking { file, evidence, at })
}

impl Talking<'_> {
    fn is_whole(&self) -> bool {
        let totals = self.evidence.talkers.get(self.at);
        !self.evidence.is_truncated() && totals.is_some_and(|totals| totals.unkept.all() == 0)
    }

    /// Returns the frames in the order of their numbers.
    pub(super) fn frames(&self) -> Result<Vec<Frame>, JudgeError> {
        let kind = self.evidence.header.talkers[self.at].stamps;
        let records = self.file.records;
        let unreadable = |error| self.file.unreadable(error);
        let mut frames: Vec<Frame> = Vec::new();
        records
            .sent(self.at, &mut |record| frames.push(Frame::of(record, kind)))
            .map_err(unreadable)?;
        if !frames.is_sorted_by_key(|frame| frame.sequence) {
            frames.sort_by_key(|frame| frame.sequence);
        }
        frames.dedup_by_key(|frame| frame.sequence);
        if kind == StampKind::Kernel {
            let mut stamp = |stamp: &StampRecord| {
                if let Some(at) = find(&frames, stamp.sequence) {
                    frames[at].stamp(stamp.stamp_ns);
                }
            };
            records.stamps(self.at, &mut stamp).map_err(unreadable)?;
        }
        Ok(frames)
    }
}

fn find(frames: &[Frame], sequence: u32) -> Option<usize> {
    frames
        .binary_search_by_key(&sequence, |frame| frame.sequence)
        .ok()
}

/// Returns every stream of the plan with the place of each of its listeners.
pub(super) fn ends(plan: &Plan) -> impl Iterator<Item = (&Stream, usize)> {
    let streams = plan.network.streams.iter();
    streams.flat_map(|stream| (0..stream.listeners.len()).map(move |at| (stream, at)))
}

/// Joins a stream at one of its listeners; without evidence of both ends it has no samples.
pub(super) fn joined(
    plan: &Plan,
    files: &[File<'_>],
    stream: &Stream,
    at: usize,
) -> Result<Joined, JudgeError> {
    let listener = &stream.listeners[at];
    let way = Way::of(plan, &stream.routes[at]);
    let mut joined = empty(plan, stream, listener, way);
    if let (Some(talking), Some(hearing)) = (talking(files, stream), of_host(files, listener)) {
        joined.fill(stream, talking, hearing)?;
    }
    Ok(joined)
}

fn empty(plan: &Plan, stream: &Stream, listener: &str, way: Way) -> Joined {
    let planned = plan.streams.iter().find(|one| one.name == stream.name);
    let promises = planned.map_or(&[][..], |planned| &planned.promises);
    let promise = promises.iter().find(|one| one.listener == listener);
    Joined {
        evidence: StreamEvidence {
            name: stream.name.clone(),
            listener: listener.to_owned(),
            promise_ns: promise.and_then(|promise| promise.delay_ns),
            deadline_ns: stream.deadline_ns,
            published_max_ns: stream.published_delay_ns,
            samples: Vec::new(),
            frames_planned: 0,
            frames_sent: 0,
            frames_received: 0,
            frames_overtaken: 0,
            frames_duplicated: 0,
            frames_reordered: 0,
            listener_drops: 0,
            route: way.ports,
            link_rate_bps: way.link_rate_bps,
            utilization_ppm: way.utilization_ppm,
            hold_ns: way.hold_ns,
            frames_corrupted: 0,
            // What is measured is the real network.
            emulated: None,
            clock_uncertainty_ns: Some(0),
        },
        talker: stream.talker.clone(),
        listener: listener.to_owned(),
        missing_before_ns: 0,
        missing_after_ns: 0,
        times_known: true,
        strangers: 0,
    }
}

impl Joined {
    fn fill(
        &mut self,
        stream: &Stream,
        talking: Talking<'_>,
        heard: &File<'_>,
    ) -> Result<(), JudgeError> {
        let hearing = heard.evidence;
        let Some(at) = hearing
            .header
            .listeners
            .iter()
            .position(|entry| entry.stream == stream.name)
        else {
            return Ok(());
        };
        let said = talking.evidence;
        let totals = hearing.listeners.get(at).cloned().unwrap_or_default();
        let heard_whole = !hearing.is_truncated() && totals.unkept.all() == 0;
        let sent_from_ns = said.header.start_ns;
        let sent_to_ns = said.end.map_or(said.known_to_ns(), |end| end.sent_to_ns);
        let heard = Heard {
            file: heard,
            at,
            judged: judged_times(said, hearing),
        };
        let frames = talking.frames()?;
        let Matched {
            samples,
            strangers,
            range,
        } = heard.matched(&frames)?;
        self.strangers = if talking.is_whole() { strangers } else { 0 };
        self.times_known = heard.judged.is_some();
        let evidence = &mut self.evidence;
        let sent = match &heard.judged {
            Some(judged) => {
                self.missing_before_ns =
                    (judged.start().min(&sent_to_ns)).saturating_sub(sent_from_ns);
                self.missing_after_ns = sent_to_ns.saturating_sub(sent_from_ns.max(*judged.end()));
                let within = |frame: &&Frame| judged.contains(&frame.called_ns);
                frames.iter().filter(within).count() as u64
            }
            // Nobody knows whether the listener listened when the others were sent.
            None => {
                (self.missing_before_ns, self.missing_after_ns) =
                    missing(&frames, range, (sent_from_ns, sent_to_ns));
                range.map_or(0, |(first, last)| (last - first + 1) as u64)
            }
        };
        drop(frames);
        let matched = samples.len() as u64;
        evidence.samples = samples;
        evidence.frames_overtaken = totals.frames_overtaken;
        evidence.frames_duplicated = totals.frames_duplicated;
        evidence.frames_reordered = totals.frames_reordered;
        // What was policed did not get lost in the network; it is a finding of its own.
        evidence.listener_drops = totals.socket_drops.saturating_add(totals.frames_policed);
        evidence.frames_received = matched.saturating_add(totals.arrivals_missed);
        evidence.frames_corrupted = totals.frames_corrupted;
        evidence.frames_sent = sent;
        let unheard = sent.saturating_sub(evidence.frames_received);
        evidence.frames_sent -= match heard_whole {
            // An arrival that is of no frame here may have been one of them.
            true => unheard.min(self.strangers),
            // Nobody knows what else arrived: only what did is judged.
            false => unheard,
        };
        let paced = said.header.talkers[talking.at].paced;
        let whole = paced && heard_whole && talking.is_whole();
        evidence.frames_planned = match heard.judged.filter(|_| whole) {
            Some(judged) => {
                let to_ns = sent_to_ns.min(*judged.end());
                let window_ns = to_ns.saturating_sub(sent_from_ns.max(*judged.start()));
                frames_planned(stream, window_ns)
            }
            None => evidence.frames_sent,
        };
        evidence.clock_uncertainty_ns = clocks_ns(said, hearing);
        Ok(())
    }
}

/// Returns the largest difference of the clocks of a talker's and a listener's stamps, ns. `None` if it is not known.
///
/// A talker's stamps are of the host's clock. A listener's may be a card's: the error of converting them counts, too.
fn clocks_ns(talker: &HostAccount, listener: &HostAccount) -> Option<u64> {
    let hosts = hosts_clocks_ns(talker, listener)?;
    Some(hosts.saturating_add(listener.card_error_ns()?))
}

/// Returns the largest difference of two hosts' clocks, ns; 0 if they share one. `None` if it is not known.
fn hosts_clocks_ns(one: &HostAccount, other: &HostAccount) -> Option<u64> {
    if one.header.boot_id == other.header.boot_id && !one.header.boot_id.is_empty() {
        return Some(0);
    }
    let (one, other) = (one.clock_uncertainty_ns()?, other.clock_uncertainty_ns()?);
    Some(one.saturating_add(other))
}

/// Returns the time by the talker's clock in which each frame that was handed over and did not arrive was lost. `None` if the
/// clocks do not tell it.
///
/// The listener's evidence begins and ends by its own clock. So by the talker's it may begin later and end earlier, by as much as the
/// clocks may differ. A clock that was set tells nothing of the time before.
fn judged_times(talker: &HostAccount, listener: &HostAccount) -> Option<RangeInclusive<u64>> {
    let set = |host: &HostAccount| host.clock_set().next().is_some();
    if set(talker) || set(listener) {
        return None;
    }
    let clocks_ns = hosts_clocks_ns(talker, listener)?;
    let heard_to_ns = listener.known_to_ns().saturating_sub(DRAIN_NS);
    let from_ns = listener.header.open_ns.saturating_add(clocks_ns);
    Some(from_ns..=heard_to_ns.saturating_sub(clocks_ns))
}

/// Returns the time in which a talker sent before the first frame that arrived, and behind the last one, ns. `range` has the places of
/// these two among the frames.
fn missing(
    frames: &[Frame],
    range: Option<(usize, usize)>,
    (sent_from_ns, sent_to_ns): (u64, u64),
) -> (u64, u64) {
    let Some((first, last)) = range else {
        return (sent_to_ns.saturating_sub(sent_from_ns), 0);
    };
    let before_ns = match first {
        0 => 0,
        first => frames[first].called_ns.saturating_sub(sent_from_ns),
    };
    let after_ns = match last + 1 == frames.len() {
        true => 0,
        false => sent_to_ns.saturating_sub(frames[last].called_ns),
    };
    (before_ns, after_ns)
}

/// The receiving end of a stream.
struct Heard<'a> {
    file: &'a File<'a>,
    at: usize,
    /// As of [`judged_times`].
    judged: Option<RangeInclusive<u64>>,
}

/// The frames of a talker that arrived.
struct Matched {
    /// One for each frame that arrived and is judged, at its first arrival.
    samples: Vec<Sample>,
    /// The number of arrivals that are of no frame here.
    strangers: u64,
    /// The places of the first and the last of these frames, by their numbers.
    range: Option<(usize, usize)>,
}

impl Heard<'_> {
    fn matched(&self, frames: &[Frame]) -> Result<Matched, JudgeError> {
        let mut seen = vec![false; frames.len()];
        let mut strangers = 0;
        let mut samples = Vec::with_capacity(frames.len());
        let judged = |frame: &Frame| {
            let times = self.judged.as_ref();
            times.is_none_or(|times| times.contains(&frame.called_ns))
        };
        let mut take = |arrival: &ArrivalRecord| {
            // The sender's time is read within its send call: the number alone may be of another run.
            let own = |frame: &Frame| {
                let call = frame.called_ns..=frame.returned_ns;
                arrival.sender_ns == 0 || call.contains(&arrival.sender_ns)
            };
            let found = find(frames, arrival.sequence).filter(|&at| own(&frames[at]));
            let Some(at) = found else {
                strangers += 1;
                return;
            };
            let frame = &frames[at];
            if !judged(frame) || std::mem::replace(&mut seen[at], true) {
                return;
            }
            samples.push(Sample {
                seq: frame.sequence,
                tx_ns: frame.stamped_ns(),
                rx_ns: Some(arrival.stamp_ns).filter(|stamp| *stamp != 0),
                app_tx_ns: frame.called_ns,
                app_rx_ns: arrival.read_ns,
            });
        };
        let taken = self.file.records.arrivals(self.at, &mut take);
        taken.map_err(|error| self.file.unreadable(error))?;
        let ends = seen.iter().position(|seen| *seen);
        Ok(Matched {
            samples,
            strangers,
            range: ends.zip(seen.iter().rposition(|seen| *seen)),
        })
    }
}
