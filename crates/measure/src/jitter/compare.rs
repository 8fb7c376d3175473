//! Comparison of two captures as one HTML file, for example of two transmit paths, stacks or machines.

use std::fmt::Write;

use super::charts;
use super::html::{open_page, summary_cells, summary_columns};
use super::model::{JitterReport, NodeReport};
use crate::report::Machine;
use crate::report::html_tables::{Table, key, prose};
use crate::report::svg::escape;
use crate::summary::{CcdfPoint, Summary};
use crate::units::duration;

/// One of the two compared sides.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// Its name, for example `driver`.
    pub name: &'a str,
    /// The measured values; `None` if there are none.
    pub report: Option<&'a JitterReport>,
}

/// Two sides under the same conditions.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The conditions, for example `1 CN, 1 ms, idle`.
    pub title: String,
    /// The two sides.
    pub ways: [Way<'a>; 2],
}

/// The line styles of the two sides: the classes of a curve and the style of its mark in the legend.
const STROKES: [(&str, &str); 2] = [
    ("network", "background:var(--net)"),
    ("app", "background:var(--app)"),
];

/// Returns the comparisons as one self-contained HTML file: no network, no script, no font. All texts are escaped.
#[must_use]
pub fn to_html(
    title: &str,
    comparisons: &[Comparison<'_>],
    command: &str,
    machine: &Machine,
) -> String {
    let mut out = String::with_capacity(256 * 1024);
    open_page(&mut out, title, machine);
    let _ = write!(
        out,
        "<div class=\"brand\">rtwire jitter</div><h1>{}</h1><p class=\"lead\">{}</p>",
        escape(title),
        prose(
            "Difference between each SoC–SoC interval and the cycle, and the time from a poll request to its response. \
             A curve further to the left is better; a steep curve means low jitter."
        ),
    );
    for comparison in comparisons {
        comparison.section(&mut out);
    }
    let _ = writeln!(
        out,
        "<h2>Command and machine</h2><pre>{}</pre><dl><dt>Analysed on</dt><dd>{}, {} cores</dd><dt>Kernel</dt><dd>{}</dd>\
         <dt>rtwire</dt><dd>{}</dd></dl></main></body></html>",
        escape(command),
        escape(&machine.model),
        machine.cpus,
        escape(&machine.kernel),
        escape(&machine.rtwire_version),
    );
    out
}

impl Comparison<'_> {
    fn section(&self, out: &mut String) {
        let _ = write!(out, "<h2>{}</h2>", escape(&self.title));
        let mut table = Table::open(out, summary_columns("<what"));
        for (what, summary) in [
            ("PReq–PRes", latency as fn(&JitterReport) -> Option<Summary>),
            ("SoC deviation", deviation),
            ("isochronous phase", phase),
        ] {
            for way in &self.ways {
                table.row();
                table.cell("", &format!("{what}, {}", way.name));
                summary_cells(&mut table, way.report.and_then(summary));
            }
        }
        table.close();
        for way in &self.ways {
            let noted = way.report.filter(|report| !report.notes.is_empty());
            if let Some(report) = noted {
                let _ = write!(out, "<h3>{}</h3>", escape(way.name));
                report.notes_list(out);
            }
        }
        let responses = self.ways.map(|way| way.report.map(responses));
        let socs = self
            .ways
            .map(|way| way.report.and_then(|report| report.soc.as_ref()));
        let _ = write!(
            out,
            "<div class=\"pair\">{}{}",
            self.distributions(
                "Distribution of PReq–PRes times",
                "PRes that took at least this long",
                responses.each_ref().map(|points| points.as_deref()),
            ),
            self.distributions(
                "Distribution of SoC deviations",
                "SoC that deviated at least this much",
                socs.map(|soc| soc.map(|soc| soc.ccdf.as_slice())),
            ),
        );
        for (way, soc) in self.ways.iter().zip(socs) {
            let Some(report) = way.report else { continue };
            // Bins of several nodes do not align.
            if let [node] = report.nodes.as_slice() {
                let title = format!("Histogram of PReq–PRes times, {}", way.name);
                let axis = format!("PRes by the time they took, {}", way.name);
                figure(out, &charts::histogram(&title, &axis, &node.histogram));
            }
            if let Some(soc) = soc {
                let title = format!("Histogram of SoC deviations, {}", way.name);
                let axis = format!("SoC by their deviation, {}", way.name);
                figure(out, &charts::histogram(&title, &axis, &soc.histogram));
            }
        }
        out.push_str("</div>");
    }

    /// Draws both curves in one chart with a legend.
    fn distributions(&self, title: &str, axis: &str, points: [Option<&[CcdfPoint]>; 2]) -> String {
        let mut curves = Vec::new();
        let mut legend = String::new();
        for (((classes, style), points), way) in STROKES.iter().zip(points).zip(&self.ways) {
            let points = points.unwrap_or_default();
            let most = points.last().map_or_else(
                || "nothing was measured".to_owned(),
                |last| format!("at most {}", duration(last.at_ns)),
            );
            legend += &key(style, &format!("{}, {most}", way.name));
            curves.push((*classes, points));
        }
        format!(
            "<figure>{}<figcaption>{legend}</figcaption></figure>",
            charts::distribution(title, axis, &curves)
        )
    }
}

fn latency(report: &JitterReport) -> Option<Summary> {
    report.latency_ns
}

fn deviation(report: &JitterReport) -> Option<Summary> {
    report.soc.as_ref().map(|soc| soc.deviation_ns)
}

fn phase(report: &JitterReport) -> Option<Summary> {
    report.utilization.as_ref()?.isochronous_ns
}

/// Returns the distribution of the response times of all nodes, merged from those of each node.
fn responses(report: &JitterReport) -> Vec<CcdfPoint> {
    let samples = |node: &NodeReport| node.latency_ns.map_or(0, |latency| latency.samples);
    let all: u64 = report.nodes.iter().map(samples).sum();
    let mut times: Vec<u64> = report
        .nodes
        .iter()
        .flat_map(|node| node.ccdf.iter().map(|point| point.at_ns))
        .collect();
    times.sort_unstable();
    times.dedup();
    let share = |at_ns| {
        let slower = report.nodes.iter().map(|node| {
            let point = node.ccdf.iter().find(|point| point.at_ns >= at_ns);
            point.map_or(0.0, |point| point.share) * samples(node) as f64
        });
        slower.sum::<f64>() / all.max(1) as f64
    };
    let point = |at_ns| CcdfPoint {
        at_ns,
        share: share(at_ns),
    };
    times.into_iter().map(point).collect()
}

fn figure(out: &mut String, svg: &str) {
    let _ = write!(out, "<figure>{svg}</figure>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::ccdf;

    fn node(node: u8, sorted: &[u64]) -> NodeReport {
        NodeReport {
            node,
            polled: 0,
            answered: 0,
            late: 0,
            lost: 0,
            unasked: 0,
            latency_ns: Summary::of_sorted(sorted),
            histogram: Vec::new(),
            ccdf: ccdf(sorted),
            over_time: Vec::new(),
            last_state: None,
        }
    }

    /// Up to about ten samples nothing is thinned, so the merged distribution is exact.
    #[test]
    fn several_nodes_make_one_distribution() {
        let machine = Machine::this("0");
        let (mut report, _) = crate::jitter::Follower::new(crate::jitter::Settings::default())
            .finish("", "", "", machine);
        report.nodes = vec![node(1, &[10, 20, 20, 90]), node(2, &[20, 30])];
        let mut all = vec![10, 20, 20, 90, 20, 30];
        all.sort_unstable();
        let expected = ccdf(&all);
        let found = responses(&report);
        for point in &found {
            let at_least = all.iter().filter(|ns| **ns >= point.at_ns).count();
            assert!(
                (point.share - at_least as f64 / 6.0).abs() < 1e-9,
                "{point:?}"
            );
        }
        let times = |points: &[CcdfPoint]| {
            let mut times: Vec<u64> = points.iter().map(|point| point.at_ns).collect();
            times.dedup();
            times
        };
        assert_eq!(times(&found), times(&expected));
        report.nodes.clear();
        assert!(responses(&report).is_empty());
    }
}
