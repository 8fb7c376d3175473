//! The charts of the jitter report: histograms as usual for POWERLINK, distributions, values over time.

use super::model::HistogramBin;
use crate::report::chart::{BOTTOM, HEIGHT, LEFT, RIGHT, TOP, TimeFrame, WIDTH, one_in, steps};
use crate::report::scale::Scale;
use crate::report::svg::{Anchor, Path, Svg};
use crate::summary::{CcdfPoint, TimeBucket};
use crate::units::{duration, grouped, short_duration};

/// Returns a signed duration as a tick label.
fn tick(ns: f64) -> String {
    let text = short_duration(ns.abs().round() as u64);
    if ns < 0.0 { format!("−{text}") } else { text }
}

fn empty(mut svg: Svg) -> String {
    let at = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
    svg.text("none", at, Anchor::Middle, "nothing was measured");
    svg.finish()
}

/// Draws a histogram: values on a linear axis, counts on a logarithmic one.
pub(super) fn histogram(title: &str, axis: &str, bins: &[HistogramBin]) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, "plot", title);
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return empty(svg);
    };
    let most = bins.iter().map(|b| b.count).max().unwrap_or(1).max(10);
    let x = Scale::linear(first.from_ns as f64, last.to_ns as f64, LEFT, RIGHT);
    let y = Scale::log(0.5, most as f64 * 1.5, BOTTOM, TOP);
    let mut count = 1;
    while count <= most {
        let at = y.at(count as f64);
        svg.line("grid", (LEFT, at), (RIGHT, at));
        svg.text("tick", (LEFT - 8.0, at + 4.0), Anchor::End, &grouped(count));
        count *= 10;
    }
    for t in x.ticks(6) {
        svg.text("tick", (x.at(t), BOTTOM + 18.0), Anchor::Middle, &tick(t));
    }
    for bin in bins.iter().filter(|bin| bin.count > 0) {
        let (from, to) = (x.at(bin.from_ns as f64), x.at(bin.to_ns as f64));
        let top = y.at(bin.count as f64);
        svg.rect("bar", from, top, (to - from - 0.6).max(0.8), BOTTOM - top);
    }
    svg.line("edge", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    svg.text("axis", (RIGHT, BOTTOM + 40.0), Anchor::End, axis);
    svg.finish()
}

/// Draws complementary distributions: the share of the samples that lasted at least as long. Both axes are
/// logarithmic. Each curve comes with the style classes of its line.
pub(super) fn distribution(title: &str, axis: &str, curves: &[(&str, &[CcdfPoint])]) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, "plot", title);
    let points = || curves.iter().flat_map(|(_, points)| points.iter());
    let above_zero = points().map(|p| p.at_ns).filter(|ns| *ns > 0);
    let (Some(first_ns), Some(last_ns)) = (above_zero.min(), points().map(|p| p.at_ns).max())
    else {
        return empty(svg);
    };
    let least = points().map(|p| p.share).fold(0.1, f64::min);
    let x = Scale::log(
        first_ns as f64 / 1.15,
        last_ns.max(1) as f64 * 1.25,
        LEFT,
        RIGHT,
    );
    let y = Scale::log(least, 1.0, BOTTOM, TOP);
    for t in x.ticks(7) {
        let at = x.at(t);
        svg.line("grid", (at, TOP), (at, BOTTOM));
        let label = short_duration(t.round() as u64);
        svg.text("tick", (at, BOTTOM + 18.0), Anchor::Middle, &label);
    }
    let mut share = 1.0;
    while share >= least * 0.999 {
        let at = y.at(share);
        svg.line("grid", (LEFT, at), (RIGHT, at));
        svg.text("tick", (LEFT - 8.0, at + 4.0), Anchor::End, &one_in(share));
        share /= 10.0;
    }
    svg.line("edge", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    svg.text("axis", (RIGHT, BOTTOM + 40.0), Anchor::End, axis);
    for (classes, points) in curves {
        svg.path(&format!("curve {classes}"), &steps(points, &x, &y));
        if let Some(last) = points.last() {
            let at = (x.at(last.at_ns as f64), y.at(last.share));
            svg.circle(&format!("dot {classes}"), at, 3.5);
        }
    }
    svg.finish()
}

/// Draws smallest, median and largest value over time, with `limit` as a horizontal line.
pub(super) fn over_time(
    title: &str,
    buckets: &[TimeBucket],
    duration_ns: u64,
    limit: Option<u64>,
) -> String {
    let mut frame = TimeFrame::new(title, duration_ns, TOP, BOTTOM, HEIGHT);
    let highest = buckets.iter().map(|b| b.max).chain(limit).max();
    let y = Scale::linear(0.0, highest.unwrap_or(1).max(1) as f64 * 1.08, BOTTOM, TOP);
    for t in y.ticks(5) {
        let at = y.at(t);
        frame.svg.line("grid", (LEFT, at), (RIGHT, at));
        let label = short_duration(t.round() as u64);
        frame
            .svg
            .text("tick", (LEFT - 8.0, at + 4.0), Anchor::End, &label);
    }
    let (mut band, mut median) = (Path::default(), Path::default());
    for b in buckets {
        band.go(frame.x.at(b.at_ns as f64), y.at(b.max as f64));
        median.go(frame.x.at(b.at_ns as f64), y.at(b.p50 as f64));
    }
    for b in buckets.iter().rev() {
        band.go(frame.x.at(b.at_ns as f64), y.at(b.min as f64));
    }
    band.close();
    frame.svg.path("band", &band);
    frame.svg.path("curve median", &median);
    if let Some(limit) = limit {
        let at = y.at(limit as f64);
        frame.svg.line("promise", (LEFT, at), (RIGHT, at));
        let label = format!("limit {}", duration(limit));
        frame.svg.text(
            "label promise-label",
            (RIGHT - 4.0, at - 5.0),
            Anchor::End,
            &label,
        );
    }
    frame.svg.finish()
}
