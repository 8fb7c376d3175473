//! The report: what was promised beside what was measured.
//!
//! [`Report`] is plain data with a JSON form ([`Report::to_json`], described by [`json_schema`]). The same data is
//! shown as tables for a terminal of 100 columns ([`Report::print_text`]) and as one HTML file that needs nothing
//! else: no network, no script ([`Report::to_html`]).

mod build;
pub(crate) mod chart;
mod drawing;
pub(crate) mod html;
pub(crate) mod html_tables;
mod model;
mod noise_plot;
pub(crate) mod scale;
pub(crate) mod svg;
#[cfg(test)]
mod tests;
mod text;

pub use model::{
    BacklogBucket, Calibration, DrawnLink, DrawnNode, HostReport, Machine, Network, NodeKind,
    PortReport, Report, StreamReport,
};

/// The JSON Schema of a report, as it is committed in `schema/report.schema.json`.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}
