//! The verdict on one stream at one listener.

use std::cmp::Reverse;

use super::allowance::{Allowance, StallLine};
use super::clocks::{self, Seen};
use super::evidence::{Rule, Sample, StreamEvidence};
use super::word::{Verdict, counted};
use crate::units::{duration, grouped, share};

/// The verdict on one stream at one listener, with its reasons and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamJudgement {
    /// The stream's name.
    pub name: String,
    /// The listener's host.
    pub listener: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons, in plain sentences, the decisive ones first; never empty.
    pub reasons: Vec<String>,
    /// Number of reasons that led to the verdict by themselves. Milder findings follow them.
    pub decisive: usize,
    /// Number of samples later than the promise (without one: than the deadline).
    pub late: u64,
    /// Late samples that the certain part of stalls explains.
    pub excused: u64,
    /// Late samples that stalls explain only at their longest possible length.
    pub doubtful: u64,
    /// Late samples that are explained only together with what talkers sent beyond their contracts.
    pub beyond_contract: u64,
    /// Late samples that nothing explains.
    pub unexplained: u64,
    /// Frames whose error in the emulation a recorded stall explains. On a real network: late samples that stalls
    /// explain.
    pub explained: u64,
    /// Frames that an emulated network delivered too late, and no recorded stall explains it.
    pub port_errors: u64,
    /// The share of the frames that arrived whose delivery needed no explanation, in millionths. On a real network: the
    /// share that no stall could have excused.
    pub coverage_ppm: u32,
    /// Samples that the clocks of talker and listener, which may differ, leave undecided.
    pub undecided: u64,
    /// Samples that arrived before they were sent, by more than the clocks may differ.
    pub before_sent: u64,
    /// Samples without a usable pair of kernel stamps.
    pub stamps_missing: u64,
    /// Samples without stamps whose delay between the applications also exceeds the promise. Their network delay is
    /// unknown.
    pub unjudged: u64,
    /// Samples that stalls could have excused, late or not.
    pub exposed: u64,
    /// Number of frames sent and never received.
    pub frames_lost: u64,
}

impl StreamJudgement {
    /// Creates a judgement with nothing found yet.
    pub(super) fn new(stream: &StreamEvidence) -> Self {
        Self {
            undecided: 0,
            before_sent: 0,
            name: stream.name.clone(),
            listener: stream.listener.clone(),
            verdict: Verdict::Inconclusive,
            reasons: Vec::new(),
            decisive: 0,
            late: 0,
            excused: 0,
            doubtful: 0,
            beyond_contract: 0,
            unexplained: 0,
            explained: 0,
            port_errors: 0,
            coverage_ppm: 0,
            stamps_missing: 0,
            unjudged: 0,
            exposed: 0,
            frames_lost: stream.frames_sent.saturating_sub(stream.frames_received),
        }
    }

    /// Returns the number of late samples that do not count as broken: excused, doubtful or beyond the contract.
    #[must_use]
    pub fn samples_excluded(&self) -> u64 {
        self.excused + self.doubtful + self.beyond_contract
    }
}

/// Returns the time that a link of `rate_bps` needs for `bits`, ns, rounded up.
fn time_for_bits(bits: u64, rate_bps: u64) -> u64 {
    let ns = (u128::from(bits) * 1_000_000_000).div_ceil(u128::from(rate_bps.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Judges one stream at one listener. `beyond_bits` is the number of bits that talkers may have sent beyond their
/// contracts. `drops_explained` is the number of frames that ports on the route dropped for a recorded reason.
pub(super) fn judge_stream(
    stream: &StreamEvidence,
    rule: &Rule,
    certain: &StallLine,
    possible: &StallLine,
    beyond_bits: u64,
    drops_explained: u64,
) -> StreamJudgement {
    let mut j = classify(
        stream,
        certain,
        possible,
        time_for_bits(beyond_bits, stream.link_rate_bps),
    );
    let mut found = Findings::default();
    delays(stream, rule, &j, &mut found);
    frames(stream, &j, drops_explained, &mut found);
    limits_of_the_measurement(stream, &mut found);
    sufficiency(stream, rule, &j, &mut found);
    found.conclude(&mut j, kept_reason(stream));
    j
}

/// Counts each sample in its class.
fn classify(
    stream: &StreamEvidence,
    certain: &StallLine,
    possible: &StallLine,
    beyond_ns: u64,
) -> StreamJudgement {
    let mut j = StreamJudgement::new(stream);
    let limit = stream.promise_ns.or(stream.deadline_ns);
    let certain = Allowance::new(certain, stream.utilization_ppm, stream.hold_ns);
    let possible = Allowance::new(possible, stream.utilization_ppm, stream.hold_ns);
    let clocks_ns = stream.clock_uncertainty_ns.unwrap_or(u64::MAX);
    for sample in &stream.samples {
        match clocks::seen(sample, limit, clocks_ns) {
            Seen::BeforeSent => {
                j.before_sent += 1;
                continue;
            }
            Seen::Undecided => {
                j.undecided += 1;
                continue;
            }
            Seen::Decided => {}
        }
        let delay = clocks::delay_ns(sample, clocks_ns);
        let (Some(tx), Some(rx), Some(delay)) = (sample.tx_ns, sample.rx_ns, delay) else {
            j.stamps_missing += 1;
            // The delay in the network is a part of the delay between the applications, by the same two clocks.
            let app = clocks::latest_ns(sample.app_tx_ns, sample.app_rx_ns, clocks_ns);
            let app = app.filter(|_| sample.app_rx_ns != 0);
            if limit.is_some_and(|limit| app.is_none_or(|app| app > limit)) {
                j.unjudged += 1;
            }
            continue;
        };
        let allowed = certain.ns(tx, rx);
        j.exposed += u64::from(allowed > 0);
        let Some(excess) = limit
            .and_then(|limit| delay.checked_sub(limit.saturating_add(clocks_ns)))
            .filter(|excess| *excess > 0)
        else {
            continue;
        };
        j.late += 1;
        let possibly = possible.ns(tx, rx);
        if excess <= allowed {
            j.excused += 1;
        } else if excess <= possibly {
            j.doubtful += 1;
        } else if excess <= possibly.saturating_add(beyond_ns) {
            j.beyond_contract += 1;
        } else {
            j.unexplained += 1;
        }
    }
    j.explained = j.excused + j.doubtful;
    j.coverage_ppm = share_ppm(
        (stream.samples.len() as u64).saturating_sub(j.exposed),
        stream.samples.len() as u64,
    );
    j
}

/// Returns a part of a whole in millionths, rounded down; 0 of nothing.
pub(super) fn share_ppm(part: u64, whole: u64) -> u32 {
    let ppm = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u32::try_from(ppm).unwrap_or(u32::MAX)
}

/// The findings, each with the verdict that it leads to. The worst one decides.
#[derive(Default)]
pub(super) struct Findings(Vec<(Verdict, String)>);

impl Findings {
    pub(super) fn add(&mut self, verdict: Verdict, reason: String) {
        self.0.push((verdict, reason));
    }

    /// Writes the verdict and its reasons, the decisive ones first. `kept` is the first reason of a kept promise.
    pub(super) fn conclude(mut self, j: &mut StreamJudgement, kept: String) {
        if self.worst() == Verdict::Kept {
            self.0.insert(0, (Verdict::Kept, kept));
        }
        j.verdict = self.worst();
        self.0.sort_by_key(|(verdict, _)| Reverse(*verdict));
        let decisive = self.0.iter().filter(|(verdict, _)| *verdict == j.verdict);
        j.decisive = decisive.count();
        j.reasons = self.0.into_iter().map(|(_, reason)| reason).collect();
    }

    fn worst(&self) -> Verdict {
        self.0
            .iter()
            .map(|(verdict, _)| *verdict)
            .max()
            .unwrap_or(Verdict::Kept)
    }
}

fn delays(stream: &StreamEvidence, rule: &Rule, j: &StreamJudgement, found: &mut Findings) {
    use Verdict::{Broken, Inconclusive, Kept};
    let n = stream.samples.len() as u64;
    let limit = match (stream.promise_ns, stream.deadline_ns) {
        (Some(promise), _) => format!("the promised {}", duration(promise)),
        (None, Some(deadline)) => format!("the deadline of {}", duration(deadline)),
        (None, None) => String::new(),
    };
    if stream.promise_ns.is_none() {
        found.add(
            Inconclusive,
            "The plan has no delay bound for this stream, so there is nothing to judge.".to_owned(),
        );
    }
    if j.unexplained > 0 {
        let slowest = stream
            .samples
            .iter()
            .filter_map(Sample::network_delay_ns)
            .max()
            .unwrap_or(0);
        found.add(Broken, format!(
            "{} of {} frames took longer than {limit} and no recorded stall of the machine explains it; the slowest took {}.",
            grouped(j.unexplained), grouped(n), duration(slowest)
        ));
    }
    if j.beyond_contract > 0 {
        found.add(Inconclusive, format!(
            "{} took longer than {limit}, which frames that a talker sent beyond its contract would explain.",
            counted(j.beyond_contract, "frame")
        ));
    }
    if j.doubtful > 0 {
        found.add(Inconclusive, format!(
            "{} took longer than {limit} near a stall that would explain it only if the stall began before it was noticed.",
            counted(j.doubtful, "frame")
        ));
    }
    if j.excused > 0 {
        let text = format!(
            "{} ({}) took longer than {limit} while the machine stalled long enough to explain it: excluded",
            counted(j.excused, "frame"),
            share(j.excused, n)
        );
        if exceeds(j.excused, n, rule.max_excluded_ppm) {
            found.add(
                Inconclusive,
                format!(
                    "{text}; more than {} % is too much to judge.",
                    percent(rule.max_excluded_ppm)
                ),
            );
        } else {
            found.add(Kept, format!("{text}."));
        }
        if exceeds(j.exposed, n, rule.max_exposed_ppm) {
            found.add(Inconclusive, format!(
                "Stalls could have excused {} of the frames, late or not; above {} % an excuse proves nothing.",
                share(j.exposed, n), percent(rule.max_exposed_ppm)
            ));
        }
    }
    clocks::findings(stream, j, &limit, found);
    if j.unjudged > 0 {
        found.add(Inconclusive, format!(
            "{} without kernel time stamps {} longer than {limit} between the applications, so the network delay is unknown.",
            counted(j.unjudged, "frame"),
            match stream.clock_uncertainty_ns {
                Some(0) => "took",
                _ => "may have taken",
            }
        ));
    }
}

/// Adds findings on what is within the promise but not within the deadline.
fn limits_of_the_measurement(stream: &StreamEvidence, found: &mut Findings) {
    let Some(promise) = stream.promise_ns else {
        return;
    };
    if let Some(deadline) = stream.deadline_ns.filter(|deadline| *deadline < promise) {
        // Where nobody knows the clocks, nothing of the delays is judged.
        let Some(clocks_ns) = stream.clock_uncertainty_ns else {
            return;
        };
        let missed = |sample: &&Sample| {
            let (Some(tx), Some(rx)) = (sample.tx_ns, sample.rx_ns) else {
                return false;
            };
            let latest = clocks::latest_ns(tx, rx, clocks_ns);
            latest.is_some_and(|latest| latest > deadline)
                && sample.network_delay_ns().unwrap_or(0) <= promise
        };
        let missed = stream.samples.iter().filter(missed).count() as u64;
        if missed > 0 {
            found.add(
                Verdict::Inconclusive,
                format!(
                    "{} {} longer than the deadline of {}, though not longer than the promised {}.",
                    counted(missed, "frame"),
                    match clocks_ns {
                        0 => "took",
                        _ => "may have taken",
                    },
                    duration(deadline),
                    duration(promise)
                ),
            );
        }
    }
}

pub(super) fn frames(
    stream: &StreamEvidence,
    j: &StreamJudgement,
    drops_explained: u64,
    found: &mut Findings,
) {
    use Verdict::{Broken, Inconclusive};
    let explained = stream.listener_drops.saturating_add(drops_explained);
    if j.frames_lost > explained {
        let unexplained = j.frames_lost - explained;
        found.add(
            Broken,
            format!(
                "Lost in the network: {} of {} frames.",
                grouped(unexplained),
                grouped(stream.frames_sent)
            ),
        );
    } else if j.frames_lost > 0 {
        let (what, whose) = if j.frames_lost <= stream.listener_drops {
            (
                j.frames_lost,
                "the listener's own socket, because it did not read in time",
            )
        } else {
            (
                j.frames_lost,
                "the listener's own socket or by ports while the machine stalled",
            )
        };
        found.add(
            Inconclusive,
            format!(
                "Dropped by {whose}: {} of {} frames.",
                grouped(what),
                grouped(stream.frames_sent)
            ),
        );
    }
    if stream.frames_duplicated > 0 {
        found.add(
            Broken,
            format!(
                "{} arrived twice.",
                counted(stream.frames_duplicated, "frame")
            ),
        );
    }
    if stream.frames_corrupted > 0 {
        found.add(
            Broken,
            format!(
                "{} arrived with an altered payload: the checksum is wrong.",
                counted(stream.frames_corrupted, "frame")
            ),
        );
    }
    if stream.frames_reordered > 0 {
        found.add(
            Broken,
            format!(
                "{} arrived after one that was sent later.",
                counted(stream.frames_reordered, "frame")
            ),
        );
    }
    if stream.frames_received > stream.frames_sent {
        found.add(
            Inconclusive,
            format!(
                "{} frames arrived although only {} were sent: the record contradicts itself.",
                grouped(stream.frames_received),
                grouped(stream.frames_sent)
            ),
        );
    }
}

pub(super) fn sufficiency(
    stream: &StreamEvidence,
    rule: &Rule,
    j: &StreamJudgement,
    found: &mut Findings,
) {
    use Verdict::Inconclusive;
    let n = stream.samples.len() as u64;
    overtaken(stream, n, found);
    let mut numbers: Vec<u32> = stream.samples.iter().map(|s| s.seq).collect();
    numbers.sort_unstable();
    if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
        found.add(
            Inconclusive,
            "A frame appears twice among the samples: the record contradicts itself.".to_owned(),
        );
    }
    if n < rule.min_samples {
        found.add(
            Inconclusive,
            format!(
                "Only {} measured; a verdict needs {}.",
                counted(n, "frame"),
                grouped(rule.min_samples)
            ),
        );
    }
    if exceeds(j.stamps_missing, n, rule.max_missing_ppm) {
        found.add(
            Inconclusive,
            format!(
                "{} of the frames have no kernel time stamps, more than {} %.",
                share(j.stamps_missing, n),
                percent(rule.max_missing_ppm)
            ),
        );
    }
    if !offered_enough(stream.frames_sent, stream.frames_planned, rule) {
        found.add(
            Inconclusive,
            format!(
                "The talker sent {} of {} planned frames: the load was not offered.",
                grouped(stream.frames_sent),
                grouped(stream.frames_planned)
            ),
        );
    }
}

/// Adds findings on frames that nobody read: they are judged by their arrival stamps, and none may lack one.
fn overtaken(stream: &StreamEvidence, n: u64, found: &mut Findings) {
    if stream.frames_overtaken > 0 {
        let text = format!(
            "Overtaken by newer ones before they were read: {}; their arrival stamps are judged, too.",
            counted(stream.frames_overtaken, "frame")
        );
        found.add(Verdict::Kept, text);
    }
    let received = stream.frames_received;
    if n != received {
        let text = format!(
            "{} frames arrived but {} were recorded: {} not judged.",
            grouped(received),
            grouped(n),
            counted(received.saturating_sub(n), "frame")
        );
        found.add(Verdict::Inconclusive, text);
    }
}

fn kept_reason(stream: &StreamEvidence) -> String {
    let slowest = stream.samples.iter().filter_map(Sample::network_delay_ns);
    let in_time = slowest
        .filter(|d| stream.promise_ns.is_some_and(|p| *d <= p))
        .max();
    match (stream.promise_ns, in_time) {
        (Some(promise), Some(slowest)) => format!(
            "{} frames arrived, none lost; promised {}, slowest {}.",
            grouped(stream.frames_received),
            duration(promise),
            duration(slowest)
        ),
        _ => format!(
            "{} frames arrived, none lost.",
            grouped(stream.frames_received)
        ),
    }
}

/// Returns true if a talker sent enough of the planned frames.
pub(super) fn offered_enough(sent: u64, planned: u64, rule: &Rule) -> bool {
    u128::from(sent) * 1_000_000 >= u128::from(planned) * u128::from(rule.min_offered_ppm)
}

pub(super) fn exceeds(part: u64, whole: u64, max_ppm: u32) -> bool {
    u128::from(part) * 1_000_000 > u128::from(whole) * u128::from(max_ppm)
}

pub(super) fn percent(ppm: u32) -> String {
    crate::units::trimmed(f64::from(ppm) / 10_000.0)
}
