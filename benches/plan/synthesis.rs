//! Synthesis: the time to a least cost, and the number of networks planned for it.

use rtwire_measure::bench::Row;
use rtwire_plan::synthesize::{Certainty, Synthesizing, synthesize};
use rtwire_plan::{Options, read};

use crate::tools::{at_most, timed};

pub(crate) fn rows(_quick: bool) -> Vec<Row> {
    let text = include_str!("../../examples/five-nodes.toml");
    let set = [("shaping-interval".to_owned(), "100 ms".to_owned())];
    let network = read(text, "five-nodes.toml", &set).unwrap();
    let mut keep_going = |_: &_| true;
    let wanted = Synthesizing::new(&mut keep_going);
    let (seconds, found) = timed(|| synthesize(&network, &Options::default(), wanted));
    let report = found.unwrap().report;
    let planned = report.planned;
    let figure = format!("synthesis, five nodes shaped at 100 ms, {planned} networks planned");
    let mut row = at_most(&figure, seconds * 1e3, "ms", 10_000.0, 1);
    if report.certainty != Certainty::Least {
        row.held = Some(false);
        row.why = Some(format!(
            "the cost is not proved least: {:?}",
            report.certainty
        ));
    }
    vec![row]
}
