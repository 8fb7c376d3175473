//! The plots of the host's noise: the wake-up delays of each core, and the stalls.

use std::collections::BTreeMap;

use super::chart::{BOTTOM, HEIGHT, LEFT, RIGHT, TOP, TimeFrame, WIDTH};
use super::scale::Scale;
use super::svg::{Anchor, Path, Svg};
use crate::noise::{CoreNoise, NoiseRecord, StallSource};
use crate::units::{grouped, short_duration};

/// Draws the wake-up delays of one core: counts in doubling steps, both axes logarithmic.
pub(super) fn overshoot_histogram(core: &CoreNoise, threshold_ns: u64) -> String {
    let mut svg = Svg::new(
        WIDTH,
        HEIGHT,
        "plot",
        &format!("Wake-up overshoot on core {}", core.core),
    );
    let (Some(first), Some(last)) = (core.histogram.first(), core.histogram.last()) else {
        svg.text(
            "none",
            ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0),
            Anchor::Middle,
            "nothing was recorded",
        );
        return svg.finish();
    };
    let most = core
        .histogram
        .iter()
        .map(|b| b.count)
        .max()
        .unwrap_or(1)
        .max(10);
    // The lowest bucket begins at 0, which a logarithmic axis cannot show. It is drawn as wide as a doubling.
    let low = |from_ns: u64, to_ns: u64| {
        if from_ns == 0 {
            to_ns as f64 / 2.0
        } else {
            from_ns as f64
        }
    };
    let highest = (last.to_ns as f64).max(threshold_ns as f64 * 2.0);
    let x = Scale::log(low(first.from_ns, first.to_ns), highest, LEFT, RIGHT);
    let y = Scale::log(0.5, most as f64 * 1.5, BOTTOM, TOP);
    let powers = std::iter::successors(Some(1_u64), |count| count.checked_mul(10));
    for count in powers.take_while(|count| *count <= most) {
        svg.line(
            "grid",
            (LEFT, y.at(count as f64)),
            (RIGHT, y.at(count as f64)),
        );
        svg.text(
            "tick",
            (LEFT - 8.0, y.at(count as f64) + 4.0),
            Anchor::End,
            &grouped(count),
        );
    }
    for t in x.ticks(7) {
        svg.text(
            "tick",
            (x.at(t), BOTTOM + 18.0),
            Anchor::Middle,
            &short_duration(t.round() as u64),
        );
    }
    for b in core.histogram.iter().filter(|b| b.count > 0) {
        let (a, e) = (x.at(low(b.from_ns, b.to_ns)), x.at(b.to_ns as f64));
        let class = if b.from_ns >= threshold_ns {
            "bar stall-bar"
        } else {
            "bar"
        };
        svg.rect(
            class,
            a + 0.8,
            y.at(b.count as f64),
            e - a - 1.6,
            BOTTOM - y.at(b.count as f64),
        );
    }
    svg.line("edge", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    let at = x.at(threshold_ns as f64);
    svg.line("published", (at, TOP - 6.0), (at, BOTTOM));
    let (label_x, anchor) = if at > (LEFT + RIGHT) / 2.0 {
        (at - 5.0, Anchor::End)
    } else {
        (at + 5.0, Anchor::Start)
    };
    svg.text(
        "label published-label",
        (label_x, TOP + 2.0),
        anchor,
        "a stall from here on",
    );
    svg.text(
        "axis",
        (RIGHT, BOTTOM + 40.0),
        Anchor::End,
        "wake-ups by how late they were",
    );
    svg.finish()
}

/// Draws one lane for each source of stalls on the common time axis. A longer stall has a higher mark.
pub(super) fn stall_strip(noise: &NoiseRecord, started_tai_ns: u64, duration_ns: u64) -> String {
    const LANE: f64 = 46.0;
    let mut lanes: Vec<StallSource> = noise
        .cores
        .iter()
        .map(|c| StallSource::Core(c.core))
        .collect();
    for stall in &noise.stalls {
        if !lanes.contains(&stall.source) {
            lanes.push(stall.source.clone());
        }
    }
    lanes.sort();
    lanes.truncate(12);
    let bottom = TOP + LANE * lanes.len().max(1) as f64;
    let mut frame = TimeFrame::new(
        "Stalls of the machine over time",
        duration_ns,
        TOP,
        bottom,
        bottom + 48.0,
    );
    // The height is logarithmic, from the threshold (a low mark) to 100 ms (the lane's full height).
    let height = Scale::log(
        noise.stall_threshold_ns.max(1_000) as f64 / 2.0,
        1e8,
        3.0,
        LANE - 10.0,
    );
    for (i, source) in lanes.iter().enumerate() {
        let base = TOP + LANE * (i + 1) as f64;
        frame.svg.line("grid", (LEFT, base), (RIGHT, base));
        let short = short_name(source);
        frame.svg.text(
            "tick",
            (LEFT - 8.0, base - LANE / 2.0 + 4.0),
            Anchor::End,
            &short,
        );
        let mut marks = Path::default();
        for (due_ns, length_ns) in longest_per_column(noise, source, started_tai_ns, duration_ns) {
            let from = frame.x.at(due_ns as f64);
            let to = frame
                .x
                .at(due_ns.saturating_add(length_ns) as f64)
                .max(from + 1.0);
            let top = base - height.at(length_ns as f64);
            marks.jump(from, base);
            marks.go(from, top);
            marks.go(to, top);
            marks.go(to, base);
            marks.close();
        }
        frame.svg.path(
            if source.delays_network() {
                "stall-mark"
            } else {
                "stall-mark other"
            },
            &marks,
        );
        for s in noise
            .steal
            .iter()
            .filter(|s| StallSource::Core(s.core) == *source)
        {
            let from = frame.x.at(s.from_ns.saturating_sub(started_tai_ns) as f64);
            let to = frame.x.at(s.to_ns.saturating_sub(started_tai_ns) as f64);
            frame
                .svg
                .rect("steal", from, base - 2.5, (to - from).max(1.0), 2.5);
        }
    }
    frame.svg.finish()
}

/// Returns the longest stall of each half unit of width, as (start since the run began, length) in ns. A finer
/// resolution would not be visible.
fn longest_per_column(
    noise: &NoiseRecord,
    source: &StallSource,
    started_tai_ns: u64,
    duration_ns: u64,
) -> Vec<(u64, u64)> {
    let column_ns = (duration_ns / ((RIGHT - LEFT) as u64 * 2)).max(1);
    let mut longest: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for stall in noise.stalls.iter().filter(|s| s.source == *source) {
        let (due_ns, length_ns) = (
            stall.due_ns.saturating_sub(started_tai_ns),
            stall.length_ns(),
        );
        if due_ns > duration_ns {
            continue;
        }
        let slot = longest
            .entry(due_ns / column_ns)
            .or_insert((due_ns, length_ns));
        if length_ns > slot.1 {
            *slot = (due_ns, length_ns);
        }
    }
    longest.into_values().collect()
}

/// Returns a source's name for the margin: at most 12 characters.
fn short_name(source: &StallSource) -> String {
    let (name, suffix) = match source {
        StallSource::Core(core) => return format!("core {core}"),
        StallSource::Switch(name) => (name, ""),
        StallSource::Talker(name) => (name, " tx"),
        StallSource::Listener(name) => (name, " rx"),
    };
    let room = 12 - suffix.len();
    if name.chars().count() <= room {
        return format!("{name}{suffix}");
    }
    let cut: String = name.chars().take(room - 1).collect();
    format!("{cut}…{suffix}")
}
