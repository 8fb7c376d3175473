//! The plots of streams and ports. All plots over time share one time axis, so they can be compared vertically.

use super::model::{PortReport, StreamReport};
use super::scale::{Scale, linear_ticks};
use super::svg::{Anchor, Path, Svg};
use crate::summary::CcdfPoint;
use crate::units::{duration, grouped, short_duration, trimmed};

/// Size of every plot's view box, and the plotted area within it.
pub(crate) const WIDTH: f64 = 520.0;
pub(crate) const HEIGHT: f64 = 254.0;
pub(crate) const LEFT: f64 = 92.0;
pub(crate) const RIGHT: f64 = 506.0;
pub(crate) const TOP: f64 = 26.0;
pub(crate) const BOTTOM: f64 = 206.0;

/// The frame of a plot over time: grid, time axis and the caller's y axis.
pub(crate) struct TimeFrame {
    pub(crate) svg: Svg,
    pub(crate) x: Scale,
}

impl TimeFrame {
    pub(crate) fn new(title: &str, duration_ns: u64, top: f64, bottom: f64, height: f64) -> Self {
        let mut svg = Svg::new(WIDTH, height, "plot", title);
        let x = Scale::linear(0.0, duration_ns as f64, LEFT, RIGHT);
        for t in linear_ticks(0.0, duration_ns as f64 / 1e9, 6) {
            let at = x.at(t * 1e9);
            svg.line("grid", (at, top), (at, bottom));
            svg.text("tick", (at, bottom + 18.0), Anchor::Middle, &trimmed(t));
        }
        svg.text(
            "axis",
            (RIGHT, bottom + 40.0),
            Anchor::End,
            "seconds since the run began",
        );
        svg.line("edge", (LEFT, bottom), (RIGHT, bottom));
        Self { svg, x }
    }
}

/// Returns the two curves of a stream: the delay that is judged, and the one beside it. In an emulated network these are
/// the exact and the delivered delay, on a real one the network's and the applications'.
fn curves_of(stream: &StreamReport) -> [&[CcdfPoint]; 2] {
    if stream.exact_ccdf.is_empty() {
        [&stream.network_ccdf, &stream.app_ccdf]
    } else {
        [&stream.exact_ccdf, &stream.network_ccdf]
    }
}

/// Draws the distribution of the delay: the share of the frames that took at least as long. Both axes are logarithmic.
pub(crate) fn distribution(stream: &StreamReport) -> String {
    let title = format!(
        "Delay distribution of {} at {}",
        stream.name, stream.listener
    );
    let mut svg = Svg::new(WIDTH, HEIGHT, "plot", &title);
    let lines = [
        stream.promised_delay_ns,
        stream.published_max_ns,
        stream.deadline_ns,
    ];
    let [judged, other] = curves_of(stream);
    let curves = [judged, other];
    let values = || {
        curves
            .iter()
            .flat_map(|c| c.iter().map(|p| p.at_ns))
            .chain(lines.into_iter().flatten())
    };
    let (Some(low), Some(high)) = (values().filter(|v| *v > 0).min(), values().max()) else {
        svg.text(
            "none",
            ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0),
            Anchor::Middle,
            "nothing was measured",
        );
        return svg.finish();
    };
    let least = curves
        .iter()
        .flat_map(|c| c.last())
        .map(|p| p.share)
        .fold(0.1, f64::min);
    let x = Scale::log(low as f64 / 1.15, high as f64 * 1.25, LEFT, RIGHT);
    let y = Scale::log(least, 1.0, BOTTOM, TOP);
    if let Some(promise) = stream.promised_delay_ns {
        let at = x.at(promise as f64);
        svg.rect("beyond", at, TOP, RIGHT - at, BOTTOM - TOP);
    }
    for t in x.ticks(7) {
        let at = x.at(t);
        svg.line("grid", (at, TOP), (at, BOTTOM));
        svg.text(
            "tick",
            (at, BOTTOM + 18.0),
            Anchor::Middle,
            &short_duration(t.round() as u64),
        );
    }
    let mut share = 1.0;
    while share >= least * 0.999 {
        svg.line("grid", (LEFT, y.at(share)), (RIGHT, y.at(share)));
        svg.text(
            "tick",
            (LEFT - 8.0, y.at(share) + 4.0),
            Anchor::End,
            &one_in(share),
        );
        share /= 10.0;
    }
    svg.line("edge", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    svg.text(
        "axis",
        (RIGHT, BOTTOM + 40.0),
        Anchor::End,
        "across: delay; up: frames that took at least as long",
    );
    svg.path("curve app", &steps(other, &x, &y));
    svg.path("curve network", &steps(judged, &x, &y));
    if let Some(slowest) = judged.last() {
        svg.circle(
            "dot network",
            (x.at(slowest.at_ns as f64), y.at(slowest.share)),
            3.5,
        );
    }
    // The published value is in the caption, because its line is often close to the promise.
    if let Some(published) = stream.published_max_ns {
        svg.line(
            "published",
            (x.at(published as f64), TOP),
            (x.at(published as f64), BOTTOM),
        );
    }
    if let Some(label) = bound_label(stream) {
        let at = x.at(stream.promised_delay_ns.or(stream.deadline_ns).unwrap_or(0) as f64);
        svg.line("promise", (at, TOP - 6.0), (at, BOTTOM));
        let (anchor, label_x) = match at {
            at if at > RIGHT - 90.0 => (Anchor::End, RIGHT),
            at if at < LEFT + 90.0 => (Anchor::Start, LEFT),
            at => (Anchor::Middle, at),
        };
        svg.text("label promise-label", (label_x, TOP - 10.0), anchor, &label);
    }
    svg.finish()
}

/// Returns the limit of the stream in words: its promise or deadline.
fn bound_label(stream: &StreamReport) -> Option<String> {
    match (stream.promised_delay_ns, stream.deadline_ns) {
        (Some(promise), _) => Some(format!("promised {}", duration(promise))),
        (None, Some(deadline)) => Some(format!("deadline {}", duration(deadline))),
        (None, None) => None,
    }
}

pub(crate) fn one_in(share: f64) -> String {
    if share > 0.99 {
        "all".to_owned()
    } else {
        format!("1 in {}", grouped((1.0 / share).round() as u64))
    }
}

/// Returns a distribution as a step curve.
pub(crate) fn steps(points: &[CcdfPoint], x: &Scale, y: &Scale) -> Path {
    let mut path = Path::default();
    let mut before = None;
    for p in points {
        let (px, py) = (x.at(p.at_ns as f64), y.at(p.share));
        if let Some(previous_x) = before {
            path.go(previous_x, py);
        }
        path.go(px, py);
        before = Some(px);
    }
    path
}

/// Draws the network delay over time: a band from smallest to largest, the median and the promise as lines.
pub(crate) fn delay_over_time(
    stream: &StreamReport,
    duration_ns: u64,
    stalls: &[(u64, u64)],
) -> String {
    let title = format!("Delay over time of {} at {}", stream.name, stream.listener);
    let mut frame = TimeFrame::new(&title, duration_ns, TOP, BOTTOM, HEIGHT);
    let bound = stream.promised_delay_ns.or(stream.deadline_ns);
    let highest = stream
        .over_time
        .iter()
        .map(|b| b.max)
        .chain(bound)
        .max()
        .unwrap_or(1);
    let y = Scale::linear(0.0, highest as f64 * 1.08, BOTTOM, TOP);
    stall_marks(&mut frame, stalls);
    for t in y.ticks(5) {
        frame.svg.line("grid", (LEFT, y.at(t)), (RIGHT, y.at(t)));
        frame.svg.text(
            "tick",
            (LEFT - 8.0, y.at(t) + 4.0),
            Anchor::End,
            &short_duration(t.round() as u64),
        );
    }
    if let Some(promise) = stream.promised_delay_ns {
        frame.svg.rect(
            "beyond",
            LEFT,
            TOP,
            RIGHT - LEFT,
            y.at(promise as f64) - TOP,
        );
    }
    let (mut band, mut median) = (Path::default(), Path::default());
    for b in &stream.over_time {
        band.go(frame.x.at(b.at_ns as f64), y.at(b.max as f64));
        median.go(frame.x.at(b.at_ns as f64), y.at(b.p50 as f64));
    }
    for b in stream.over_time.iter().rev() {
        band.go(frame.x.at(b.at_ns as f64), y.at(b.min as f64));
    }
    band.close();
    frame.svg.path("band", &band);
    frame.svg.path("curve median", &median);
    if let Some((bound, label)) = bound.zip(bound_label(stream)) {
        horizontal_mark(&mut frame.svg, "promise", y.at(bound as f64), &label);
    }
    frame.svg.finish()
}

/// Draws a port's backlog over time, with the promised backlog and the buffer's size.
pub(crate) fn backlog_over_time(
    port: &PortReport,
    duration_ns: u64,
    stalls: &[(u64, u64)],
) -> String {
    let title = format!("Backlog over time at {} towards {}", port.switch, port.port);
    let mut frame = TimeFrame::new(&title, duration_ns, TOP, BOTTOM, HEIGHT);
    let measured = port
        .backlog_over_time
        .iter()
        .map(|b| b.max_bytes)
        .chain(port.max_backlog_bytes);
    let needed = measured
        .chain(port.promised_backlog_bytes)
        .max()
        .unwrap_or(1)
        .max(1);
    // A buffer far above all other values would flatten the curve. Its line is then at the top edge.
    let far_buffer = port
        .buffer_bytes
        .is_some_and(|buffer| buffer > needed.saturating_mul(5) / 2);
    let highest = if far_buffer {
        needed * 3 / 2
    } else {
        needed.max(port.buffer_bytes.unwrap_or(0))
    };
    let y = Scale::linear(0.0, highest as f64 * 1.1, BOTTOM, TOP);
    stall_marks(&mut frame, stalls);
    for t in y.ticks(5) {
        frame.svg.line("grid", (LEFT, y.at(t)), (RIGHT, y.at(t)));
        let label = if highest < 10_000 {
            format!("{} B", grouped(t as u64))
        } else {
            format!("{} kB", trimmed(t / 1e3))
        };
        frame
            .svg
            .text("tick", (LEFT - 8.0, y.at(t) + 4.0), Anchor::End, &label);
    }
    let (mut area, mut edge) = (Path::default(), Path::default());
    for b in &port.backlog_over_time {
        let (bx, by) = (frame.x.at(b.at_ns as f64), y.at(b.max_bytes as f64));
        if edge.is_empty() {
            area.go(bx, BOTTOM);
        }
        area.go(bx, by);
        edge.go(bx, by);
    }
    if let Some(last) = port.backlog_over_time.last() {
        area.go(frame.x.at(last.at_ns as f64), BOTTOM);
        area.close();
    }
    frame.svg.path("band", &area);
    frame.svg.path("curve median", &edge);
    if let Some(buffer) = port.buffer_bytes {
        let beyond = if far_buffer {
            ", above this scale ↑"
        } else {
            ""
        };
        horizontal_mark(
            &mut frame.svg,
            "buffer",
            y.at(buffer as f64),
            &format!("buffer {} B{beyond}", grouped(buffer)),
        );
    }
    if let Some(promise) = port.promised_backlog_bytes {
        horizontal_mark(
            &mut frame.svg,
            "promise",
            y.at(promise as f64),
            &format!("promised {} B", grouped(promise)),
        );
    }
    frame.svg.finish()
}

/// Draws a labelled horizontal line. The buffer's label is on the left, so that the labels of two close lines do not
/// overlap.
fn horizontal_mark(svg: &mut Svg, class: &str, at: f64, label: &str) {
    svg.line(class, (LEFT, at), (RIGHT, at));
    let (x, anchor) = if class == "promise" {
        (RIGHT - 4.0, Anchor::End)
    } else {
        (LEFT + 4.0, Anchor::Start)
    };
    svg.text(
        &format!("label {class}-label"),
        (x, at - 5.0),
        anchor,
        label,
    );
}

/// Draws the machine's stalls behind the plot: bands as wide as the stall, with a least width.
fn stall_marks(frame: &mut TimeFrame, stalls: &[(u64, u64)]) {
    for &(from_ns, to_ns) in stalls {
        let (a, b) = (frame.x.at(from_ns as f64), frame.x.at(to_ns as f64));
        frame
            .svg
            .rect("stalled", a, TOP, (b - a).max(0.7), BOTTOM - TOP);
    }
}
