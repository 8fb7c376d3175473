//! Joins the frames that talkers sent with those that listeners received.

use rtwire_measure::evidence::{ArrivalRecord, HostAccount, SentRecord, StampKind, StampRecord};
use rtwire_measure::verdict::{
    Sample, StallLine, StreamEvidence, TalkerEvidence, excess_bits, unexplained_excess_bits,
};
use rtwire_plan::{Plan, Stream};

use super::route::{Way, ports, whole};
use super::{File, JudgeError, stalls};
use crate::streams::frames_planned;

/// The time before a listener's end in which frames may still have been on their way, ns.
const DRAIN_NS: u64 = 300_000_000;
/// The time from a send call to its frame's stamp for which no stall need be recorded, ns.
const CALL_NS: u64 = 400_000;
const NS: u128 = 1_000_000_000;

/// One stream at one listener.
pub(super) struct Joined {
    pub(super) evidence: StreamEvidence,
    pub(super) talker: String,
    pub(super) listener: String,
    /// The time that its talker sent before its listener's evidence begins, ns.
    pub(super) missing_before_ns: u64,
    /// The time that its talker sent after its listener's evidence ends, ns.
    pub(super) missing_after_ns: u64,
    /// Arrivals of frames that the talker's evidence, which is whole, does not know.
    pub(super) strangers: u64,
}

/// One end of a stream: the host's evidence, and the stream's place in it.
#[derive(Clone, Copy)]
struct Talking<'a> {
    file: &'a File<'a>,
    evidence: &'a HostAccount,
    at: usize,
}

/// A frame that a talker handed over.
#[derive(Clone, Copy)]
struct Frame {
    called_ns: u64,
    returned_ns: u64,
    /// The instant from which its delay counts, if `is_stamped`.
    from_ns: u64,
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

fn of_host<'a>(files: &'a [File<'a>], host: &str) -> Option<&'a File<'a>> {
    files.iter().find(|file| file.evidence.header.host == host)
}

fn talking<'a>(files: &'a [File<'a>], stream: &Stream) -> Option<Talking<'a>> {
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
    fn frames(&self) -> Result<Vec<Frame>, JudgeError> {
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
        let heard_to_ns = hearing.known_to_ns().saturating_sub(DRAIN_NS);
        let open_ns = hearing.header.open_ns;
        self.missing_before_ns = open_ns.min(sent_to_ns).saturating_sub(sent_from_ns);
        self.missing_after_ns = sent_to_ns.saturating_sub(heard_to_ns.max(sent_from_ns));
        let judged = open_ns..=heard_to_ns;
        let frames = talking.frames()?;
        let (samples, strangers) = samples(&frames, (heard, at), &judged)?;
        self.strangers = if talking.is_whole() { strangers } else { 0 };
        let evidence = &mut self.evidence;
        let sent = frames
            .iter()
            .filter(|frame| judged.contains(&frame.called_ns))
            .count() as u64;
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
        evidence.frames_planned = match paced && heard_whole && talking.is_whole() {
            true => {
                let to_ns = sent_to_ns.min(heard_to_ns);
                let window_ns = to_ns.saturating_sub(sent_from_ns.max(open_ns));
                frames_planned(stream, window_ns)
            }
            false => evidence.frames_sent,
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

/// Returns a sample for each frame that was sent in the time that is judged and arrived, at its first arrival. Also returns
/// the number of arrivals that are of no frame here.
fn samples(
    frames: &[Frame],
    (heard, at): (&File<'_>, usize),
    judged: &std::ops::RangeInclusive<u64>,
) -> Result<(Vec<Sample>, u64), JudgeError> {
    let mut seen = vec![false; frames.len()];
    let mut strangers = 0;
    let mut samples = Vec::with_capacity(frames.len());
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
        if !judged.contains(&frame.called_ns) || std::mem::replace(&mut seen[at], true) {
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
    let taken = heard.records.arrivals(at, &mut take);
    taken.map_err(|error| heard.unreadable(error))?;
    Ok((samples, strangers))
}

/// Returns how each talker kept its contract.
pub(super) fn talkers(plan: &Plan, files: &[File<'_>]) -> Result<Vec<TalkerEvidence>, JudgeError> {
    let mut all = Vec::new();
    for stream in &plan.network.streams {
        let Some(talking) = talking(files, stream) else {
            continue;
        };
        let frames = talking.frames()?;
        let mut stamps: Vec<u64> = frames.iter().filter_map(Frame::stamped_ns).collect();
        drop(frames);
        stamps.sort_unstable();
        let contract = &stream.contract;
        let (num, den) = (whole(contract.rate.num()), whole(contract.rate.den()));
        let bits = stream.wire_bytes * 8;
        let frames = || stamps.iter().map(|&at| (at, bits));
        let burst_bits = contract.burst_bits;
        let excess = match stream.shaped {
            true => excess_bits(frames(), num, den, burst_bits),
            false => 0,
        };
        let unexplained = match excess {
            0 => 0,
            _ => {
                let stalls = stalls::of(files, [&stream.talker, &stream.talker]);
                let stalls = StallLine::new(stalls.possible());
                // One frame more: a stamp can be late by a whole interval, but a talker that sends too much goes on
                // doing so.
                let late_bits = u128::from(num) * u128::from(CALL_NS) / u128::from(den.max(1)) / NS;
                let burst_bits = burst_bits + u64::try_from(late_bits).unwrap_or(u64::MAX) + bits;
                unexplained_excess_bits(frames(), num, den, burst_bits, &stalls, CALL_NS)
            }
        };
        let mut passed: Vec<_> = stream.routes.iter().flat_map(|one| ports(one)).collect();
        passed.sort();
        passed.dedup();
        let totals = talking.evidence.talkers.get(talking.at);
        let late = totals.and_then(|totals| totals.lateness_ns);
        let mut talker = TalkerEvidence {
            stream: stream.name.clone(),
            ports: passed,
            rate_bps: num.div_ceil(den.max(1)),
            tick_error_declared_ns: contract.tick_error_ns,
            tick_overshoot_max_ns: late.map_or(0, |late| late.max),
            shaper_caps_burst: stream.shaped,
            contract_excess_bits: Some(excess),
            unexplained_excess_bits: unexplained,
            frames_off_launch: 0,
            best_effort: false,
            frames_planned: 0,
            frames_sent: totals.map_or(0, |totals| totals.frames_sent),
        };
        if talking.evidence.clock_set().next().is_some() {
            talker.forget_times();
        }
        all.push(talker);
    }
    Ok(all)
}
