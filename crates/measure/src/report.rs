//! The report: promises beside measurements.
//!
//! [`Report`] is plain data with a JSON form ([`Report::to_json`], described by [`json_schema`]).
//! [`Report::print_text`] returns the same data as tables for a terminal of 100 columns. [`Report::to_html`] returns
//! it as one self-contained HTML file: no network, no script.

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
    BacklogBucket, Calibration, DrawnLink, DrawnNode, HostReport, LinkShare, Machine, Network,
    NodeKind, PortReport, Report, ReservationReport, SharingReport, StreamReport, TalkerReport,
    TransferReport,
};

/// Returns the JSON Schema of a report, as committed in `schema/report.schema.json`.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}
