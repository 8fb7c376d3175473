//! Builds the report from the followed packets.

use super::follower::{Follower, NodeTrack};
use super::frame::state_name;
use super::model::{
    AsynchronousReport, CycleReport, HistogramBin, JitterReport, Limits, NodeReport, SocReport,
    UtilizationReport, WorstCase, WorstKind,
};
use super::worst::Neighbourhood;
use crate::report::Machine;
use crate::summary::{Summary, ccdf, nearest_rank, over_time};
use crate::units::{duration, rfc3339_utc};

/// Largest number of bins of a histogram.
const MOST_BINS: u64 = 80;

impl Follower {
    /// Returns the report and the packets around the worst cases. `source`, `format` and `command` appear in it
    /// unchanged.
    #[must_use]
    pub fn finish(
        self,
        source: &str,
        format: &str,
        command: &str,
        machine: Machine,
    ) -> (JitterReport, Neighbourhood) {
        let first_ns = self.first_ns.unwrap_or(self.last_ns);
        let duration_ns = self.last_ns - first_ns.min(self.last_ns);
        let cycle = self.cycle();
        let soc = cycle.map(|cycle| self.soc_report(cycle.cycle_ns, duration_ns));
        let utilization = cycle.map(|cycle| self.utilization(cycle.cycle_ns));
        let nodes: Vec<NodeReport> = (0..=255)
            .zip(&self.nodes)
            .filter(|(_, track)| track.polled + track.unasked > 0)
            .map(|(node, track)| node_report(node, track, duration_ns))
            .collect();
        let asynchronous = (0..=255)
            .zip(&self.nodes)
            .filter(|(_, track)| track.asked > 0)
            .map(|(node, track)| AsynchronousReport {
                node,
                asked: track.asked,
                answered: track.async_answered,
                latency_ns: Summary::of(track.async_latencies.clone()),
            })
            .collect();
        let all = self.nodes.iter().flat_map(|track| &track.latencies);
        let latency_ns = Summary::of(all.map(|(_, ns)| *ns).collect());
        let notes = self.notes();
        let frames = self.frames;
        let first_packet_at = self.first_ns.map(|ns| rfc3339_utc(ns / 1_000_000_000));
        let (worst, neighbourhood) = self
            .keeper
            .finish(|case| in_words(case, cycle.map(|cycle| cycle.cycle_ns)));
        let report = JitterReport {
            source: source.to_owned(),
            format: format.to_owned(),
            stamps: None,
            first_packet_at,
            duration_ns,
            frames,
            cycle,
            soc,
            nodes,
            latency_ns,
            utilization,
            asynchronous,
            worst,
            limits: Limits::default(),
            notes,
            command: command.to_owned(),
            machine,
        };
        (report, neighbourhood)
    }

    fn cycle(&self) -> Option<CycleReport> {
        let mut intervals: Vec<u64> = self.intervals.iter().map(|(_, ns)| *ns).collect();
        intervals.sort_unstable();
        let median_ns = nearest_rank(&intervals, 500)?;
        Some(CycleReport {
            cycle_ns: self
                .settings
                .cycle_ns
                .unwrap_or_else(|| round_cycle(median_ns)),
            stated: self.settings.cycle_ns.is_some(),
            median_ns,
        })
    }

    fn soc_report(&self, cycle_ns: u64, duration_ns: u64) -> SocReport {
        let cycle_ns = cycle_ns.max(1);
        let mut intervals: Vec<u64> = self.intervals.iter().map(|(_, ns)| *ns).collect();
        intervals.sort_unstable();
        let timed: Vec<(u64, u64)> = self
            .intervals
            .iter()
            .map(|&(at_ns, ns)| (at_ns, ns.abs_diff(cycle_ns)))
            .collect();
        let mut deviations: Vec<u64> = timed.iter().map(|(_, ns)| *ns).collect();
        deviations.sort_unstable();
        let signed: Vec<i64> = intervals
            .iter()
            .map(|ns| signed(*ns) - signed(cycle_ns))
            .collect();
        SocReport {
            interval_ns: Summary::of_sorted(&intervals).unwrap_or(Summary::EMPTY),
            deviation_ns: Summary::of_sorted(&deviations).unwrap_or(Summary::EMPTY),
            histogram: histogram(&signed),
            ccdf: ccdf(&deviations),
            over_time: over_time(&timed, duration_ns),
            // An interval of n and a half cycles counts as n + 1 cycles.
            missing: intervals
                .iter()
                .map(|ns| ((ns + cycle_ns / 2) / cycle_ns).saturating_sub(1))
                .sum(),
            restarts: self.restarts,
        }
    }

    fn utilization(&self, cycle_ns: u64) -> UtilizationReport {
        let rate = u128::from(self.settings.link_rate_bps.max(1));
        let wire: Vec<u64> = self
            .cycle_octets
            .iter()
            .map(|octets| (u128::from(*octets) * 8_000_000_000 / rate) as u64)
            .collect();
        let percent = |ns: u64| ns as f64 * 100.0 / cycle_ns.max(1) as f64;
        let isochronous_ns = Summary::of(self.isochronous_ns.clone());
        let wire_ns = Summary::of(wire).unwrap_or(Summary::EMPTY);
        UtilizationReport {
            isochronous_ns,
            isochronous_percent_p50: isochronous_ns.map(|s| percent(s.p50)),
            isochronous_percent_max: isochronous_ns.map(|s| percent(s.max)),
            link_rate_bps: self.settings.link_rate_bps,
            wire_ns,
            wire_percent_p50: percent(wire_ns.p50),
            wire_percent_max: percent(wire_ns.max),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: u64, text: &str| {
            if count > 0 {
                notes.push(format!("{count} {text}"));
            }
        };
        let frames = &self.frames;
        note(
            frames.without_time,
            "packets have no time in the capture and were not measured.",
        );
        note(
            frames.backwards,
            "packets have an earlier time than the previous packet: the capture was merged, or its clock was set.",
        );
        note(
            frames.malformed,
            "POWERLINK frames are too short for their kind.",
        );
        if frames.soc > 0 && frames.preq == 0 && frames.pres > 0 {
            notes.push(
                "There are PRes but no PReq: PollResponse chaining is used, or PReq do not pass the place of the capture."
                    .to_owned(),
            );
        }
        notes
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn node_report(node: u8, track: &NodeTrack, duration_ns: u64) -> NodeReport {
    let mut sorted: Vec<u64> = track.latencies.iter().map(|(_, ns)| *ns).collect();
    sorted.sort_unstable();
    let values: Vec<i64> = sorted.iter().map(|ns| signed(*ns)).collect();
    NodeReport {
        node,
        polled: track.polled,
        answered: track.answered,
        late: track.late,
        lost: track.lost,
        unasked: track.unasked,
        latency_ns: Summary::of_sorted(&sorted),
        histogram: histogram(&values),
        ccdf: ccdf(&sorted),
        over_time: over_time(&track.latencies, duration_ns),
        last_state: track.state.map(state_name),
    }
}

/// Returns the roundest number of microseconds within half a percent of a median, in ns.
fn round_cycle(median_ns: u64) -> u64 {
    let mut step = 1_000_000_000_u64;
    while step >= 1_000 {
        for part in [1, 2, 4, 5] {
            let unit = step / part;
            if unit < 1_000 {
                continue;
            }
            let near = (median_ns + unit / 2) / unit * unit;
            if near > 0 && near.abs_diff(median_ns) <= median_ns / 200 {
                return near;
            }
        }
        step /= 10;
    }
    median_ns.max(1)
}

/// Returns a histogram of all values, with bins of a round width.
fn histogram(sorted: &[i64]) -> Vec<HistogramBin> {
    let (Some(&least), Some(&most)) = (sorted.first(), sorted.last()) else {
        return Vec::new();
    };
    let span = most.abs_diff(least).max(1);
    let mut width = 1_u64;
    let mut steps = [2, 5, 10].into_iter().cycle();
    let mut decade = 1_u64;
    while span / width >= MOST_BINS {
        let factor = steps.next().unwrap_or(10);
        width = decade.saturating_mul(factor);
        if factor == 10 {
            decade = width;
        }
    }
    let width = i64::try_from(width).unwrap_or(i64::MAX);
    let mut bins: Vec<HistogramBin> = Vec::new();
    for &value in sorted {
        let from_ns = value.div_euclid(width).saturating_mul(width);
        match bins.last_mut() {
            Some(bin) if bin.from_ns == from_ns => bin.count += 1,
            _ => bins.push(HistogramBin {
                from_ns,
                to_ns: from_ns.saturating_add(width),
                count: 1,
            }),
        }
    }
    bins
}

/// Puts a case into words and its real value; returns `None` if the value is no deviation after all.
fn in_words(case: WorstCase, cycle_ns: Option<u64>) -> Option<WorstCase> {
    let node = case.node.unwrap_or(0);
    let (kind, value_ns, words) = match case.kind {
        WorstKind::Soc => {
            let late_ns = case.value_ns.checked_sub(cycle_ns?).filter(|ns| *ns > 0)?;
            let words = format!("SoC {} late", duration(late_ns));
            (WorstKind::Soc, late_ns, words)
        }
        WorstKind::SocEarly => {
            let interval_ns = u64::MAX - case.value_ns;
            let early_ns = cycle_ns?.checked_sub(interval_ns).filter(|ns| *ns > 0)?;
            let words = format!("SoC {} early", duration(early_ns));
            (WorstKind::Soc, early_ns, words)
        }
        WorstKind::Pres => {
            let words = format!("PRes of node {node} after {}", duration(case.value_ns));
            (WorstKind::Pres, case.value_ns, words)
        }
        WorstKind::NoPres => {
            let words = format!("no PRes of node {node} before this SoC");
            (WorstKind::NoPres, 0, words)
        }
    };
    Some(WorstCase {
        kind,
        value_ns,
        words,
        ..case
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_round() {
        for (median, cycle) in [
            (49_997_312, 50_000_000),
            (1_000_400, 1_000_000),
            (250_900, 250_000),
            (499_100, 500_000),
            (10_020_000, 10_000_000),
            (123_456, 124_000),
            (5_300_000, 5_300_000),
            (900, 900),
            (0, 1),
        ] {
            assert_eq!(round_cycle(median), cycle, "{median}");
        }
    }

    #[test]
    fn a_histogram_has_every_value_once() {
        let values: Vec<i64> = (-1_000..3_000).map(|n| n * 37).collect();
        let bins = histogram(&values);
        assert!(bins.len() <= MOST_BINS as usize + 1, "{}", bins.len());
        assert_eq!(bins.iter().map(|b| b.count).sum::<u64>(), 4_000);
        assert!(bins.windows(2).all(|w| w[0].to_ns <= w[1].from_ns));
        assert_eq!(histogram(&[5]).len(), 1);
        assert!(histogram(&[]).is_empty());
    }
}
