//! Measurement: how late, how often, and why.
//!
//! The crate compares measurements with promises. It returns one of three verdicts: **kept**, **broken** or
//! **inconclusive**. It never returns "kept" without evidence.
//!
//! ```text
//!   samples, counters ──┐
//!   promises (plan) ────┼──> verdict::judge ──> Judgement ──┐
//!   noise::NoiseRecord ─┘                                   ├──> report::Report ──> JSON, text, one HTML file
//!   summary (percentiles, distributions) ───────────────────┘
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`noise`] | records, during a measurement, how late each core wakes a thread and when the machine stalled |
//! | [`summary`] | exact percentiles, distributions and thinned time series of the samples |
//! | [`verdict`] | the written rule that turns evidence into a verdict: a pure function |
//! | [`evidence`] | the evidence of one host's end of a run, as a file |
//! | [`capture`] | reads pcap and pcapng, writes pcapng |
//! | [`jitter`] | the jitter of a POWERLINK cycle and the response times of its nodes |
//! | [`stamp_origin`] | place and clock of timestamps |
//! | [`report`] | the report's data model, as JSON, as tables for a terminal and as one self-contained HTML file |
//! | [`mod@bench`] | the table of a benchmark and its JSON form |
//! | [`machine`] | the machine's kernel, processors and clock source |
//! | [`units`] | quantities as text for people |
//!
//! ```
//! use rtwire_measure::summary::Summary;
//! let delays_ns = vec![30, 10, 20];
//! let summary = Summary::of(delays_ns).ok_or("no samples")?;
//! assert_eq!((summary.min, summary.p50, summary.max), (10, 20, 30));
//! # Ok::<(), &str>(())
//! ```
//!
//! Limits: a verdict is about the measured frames on the measured machine. It bounds nothing that the plan did not
//! bound. The delay between applications is shown but not judged.

pub mod bench;
pub mod capture;
pub mod clock_steps;
pub mod evidence;
pub mod jitter;
pub mod machine;
pub mod noise;
pub mod report;
pub mod stamp_origin;
pub mod summary;
pub mod units;
pub mod verdict;
