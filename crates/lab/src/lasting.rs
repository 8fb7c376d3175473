//! The time that a run needs until it can prove something.

use rtwire_measure::verdict::Rule;
use rtwire_plan::{Network, Stream};
use rtwire_session::streams::frames_planned;

/// The share of a run, in millionths, that the busiest core's stalls may cover. A run is extended until they cover less.
const STALLED_MOST_PPM: u64 = 100_000;
/// A needed time beyond this one is not searched for: no run is that long.
const LONGEST_NS: u64 = 1_000_000_000 * 3_600 * 24 * 365;
/// The frames beyond the least number, in parts of it: the last ones of a run may be missing.
const SPARE: u64 = 100;

/// Returns the least time in which a stream's talker sends enough frames for a verdict, ns. `None` if it never does, or
/// sends without a contract.
pub(crate) fn needed_ns(stream: &Stream, rule: &Rule) -> Option<u64> {
    let frames = rule.min_samples + rule.min_samples / SPARE;
    if frames_planned(stream, LONGEST_NS) < frames {
        return None;
    }
    // The number of frames never falls with the time.
    let (mut less, mut enough) = (0, LONGEST_NS);
    while enough - less > 1 {
        let middle = less.midpoint(enough);
        match frames_planned(stream, middle) < frames {
            true => less = middle,
            false => enough = middle,
        }
    }
    Some(enough)
}

/// Returns the stream that needs the longest time for a verdict, and that time, ns.
pub(crate) fn slowest<'a>(network: &'a Network, rule: &Rule) -> Option<(&'a str, u64)> {
    let streams = network.streams.iter();
    streams
        .filter_map(|stream| Some((stream.name.as_str(), needed_ns(stream, rule)?)))
        .max_by_key(|(_, needed_ns)| *needed_ns)
}

/// Returns true if a run that has lasted for `lasted_ns` can prove something: its slowest stream has enough frames, and the
/// stalls of the busiest core cover little of it.
pub(crate) fn is_enough(lasted_ns: u64, slowest_ns: u64, stalled_ns: u64) -> bool {
    let stalled_ppm = u128::from(stalled_ns) * 1_000_000 / u128::from(lasted_ns.max(1));
    lasted_ns >= slowest_ns && stalled_ppm <= u128::from(STALLED_MOST_PPM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_frames_and_some_more_are_needed() {
        let text = r#"
[network]
name = "two"
[defaults]
link-rate = "100 Mbit/s"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "B"]
[[stream]]
name = "fast"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
[[stream]]
name = "slow"
talker = "A"
listeners = ["B"]
frame = "1230 B"
rate = "100 kbit/s"
"#;
        let network = rtwire_plan::read(text, "two.toml", &[]).unwrap();
        let rule = Rule::default();
        // A frame at 0 and 1 009 intervals.
        let fast = needed_ns(&network.streams[0], &rule).unwrap();
        assert_eq!(fast, 1_009 * 1_000_000 + 1);
        let (name, slow) = slowest(&network, &rule).unwrap();
        assert_eq!(name, "slow");
        // 1 010 frames of 1 230 bytes at 12 500 bytes a second: the description's rate counts no preamble and no gap.
        assert_eq!(slow, 1_010 * 1_230 * 1_000_000_000 / 12_500);
    }

    #[test]
    fn frames_and_quiet_time_are_both_needed() {
        assert!(is_enough(1_000, 1_000, 100));
        assert!(!is_enough(999, 1_000, 0));
        assert!(!is_enough(1_000, 1_000, 101));
    }
}
