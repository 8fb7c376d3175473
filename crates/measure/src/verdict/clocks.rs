//! The rule for hosts whose clocks may differ: a delay is judged only as far as it exceeds their difference.

use super::evidence::{Sample, StreamEvidence};
use super::stream::{Findings, StreamJudgement};
use super::word::{Verdict, counted};
use crate::units::duration;

/// One sample, as far as the difference of the clocks lets it be judged.
pub(super) enum Seen {
    /// It is in time or late, whatever the clocks show.
    Decided,
    /// It may be either.
    Undecided,
    /// It arrived before it was sent, by more than the clocks may differ.
    BeforeSent,
}

/// Returns what clocks that differ by up to `clocks_ns` leave of a sample. With one clock, everything is decided.
pub(super) fn seen(sample: &Sample, limit: Option<u64>, clocks_ns: u64) -> Seen {
    if clocks_ns == 0 {
        return Seen::Decided;
    }
    if sample.before_sent_ns() > clocks_ns {
        return Seen::BeforeSent;
    }
    let (Some(limit), Some(tx), Some(rx)) = (limit, sample.tx_ns, sample.rx_ns) else {
        return Seen::Decided;
    };
    let latest = latest_ns(tx, rx, clocks_ns).unwrap_or(0);
    let soonest = sample
        .network_delay_ns()
        .unwrap_or(0)
        .saturating_sub(clocks_ns);
    if soonest <= limit && latest > limit {
        return Seen::Undecided;
    }
    Seen::Decided
}

/// Returns the longest time that can lie between two instants of clocks that differ by up to `clocks_ns`, ns. `None` if not even that
/// puts them in order.
pub(super) fn latest_ns(from_ns: u64, to_ns: u64, clocks_ns: u64) -> Option<u64> {
    match to_ns.checked_sub(from_ns) {
        Some(between_ns) => Some(between_ns.saturating_add(clocks_ns)),
        None => clocks_ns.checked_sub(from_ns - to_ns),
    }
}

/// Returns the delay by the kernel stamps, ns; 0 where the clocks' difference makes a frame seem to come before it was
/// sent. `None` if a stamp is missing, or belongs to something else.
pub(super) fn delay_ns(sample: &Sample, clocks_ns: u64) -> Option<u64> {
    match sample.before_sent_ns() {
        0 => sample.network_delay_ns(),
        before => (clocks_ns > 0 && before <= clocks_ns).then_some(0),
    }
}

/// Adds findings on samples that the clocks do not let judge.
pub(super) fn findings(
    stream: &StreamEvidence,
    j: &StreamJudgement,
    limit: &str,
    found: &mut Findings,
) {
    let Some(clocks_ns) = stream.clock_uncertainty_ns else {
        let text = "Nobody knows how far the clocks of talker and listener differ, so no delay can be judged: run ptp4l on \
                    both, or state it with `rtwire run --clock-uncertainty`.";
        return found.add(Verdict::Inconclusive, text.to_owned());
    };
    if j.before_sent > 0 {
        let most = stream.samples.iter().map(Sample::before_sent_ns).max();
        let text = format!(
            "{} arrived before they were sent, by up to {}: the clocks differ by more than the {} that they claim.",
            counted(j.before_sent, "frame"),
            duration(most.unwrap_or(0)),
            duration(clocks_ns)
        );
        found.add(Verdict::Inconclusive, text);
    }
    if j.undecided > 0 {
        let text = format!(
            "{} took {limit} to within the {} by which the clocks of talker and listener may differ: in time or late, nobody \
             knows.",
            counted(j.undecided, "frame"),
            duration(clocks_ns)
        );
        found.add(Verdict::Inconclusive, text + &remedy(stream, clocks_ns));
    }
}

/// Returns the remedy for clocks that decide nothing, as a sentence; empty if they decide some frames.
fn remedy(stream: &StreamEvidence, clocks_ns: u64) -> String {
    let limit = stream.promise_ns.or(stream.deadline_ns);
    // A frame is in time only if its delay and the difference of the clocks are, together.
    let Some(limit) = limit.filter(|limit| clocks_ns >= *limit) else {
        return String::new();
    };
    format!(
        " No frame can be found in time like this: the clocks must agree to within less than {}, minus the frames' delay. What the \
         two hosts claim adds up: run ptp4l on both, or set `--clock-limit` or `--clock-uncertainty` to less than half of it.",
        duration(limit)
    )
}
