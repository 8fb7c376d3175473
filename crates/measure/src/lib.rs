//! How late, how often, why?
//!
//! The crate lays what happened beside what was promised and says one of three words: **kept**, **broken** or
//! **inconclusive**. It never says kept without evidence.
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
//! | [`noise`] | records while a measurement runs how late the machine itself wakes a thread on each core, and when it stalled |
//! | [`summary`] | exact percentiles, distributions and thinned time series of what was measured |
//! | [`verdict`] | the written rule that turns evidence into a verdict: a pure function |
//! | [`capture`] | pcap and pcapng, read and written |
//! | [`jitter`] | how even a POWERLINK cycle is, and how fast its nodes answer |
//! | [`report`] | the report's data model, as JSON, as tables for a terminal and as one self-contained HTML file |
//! | [`mod@bench`] | the table of a benchmark and its JSON form |
//! | [`machine`] | what machine this is: kernel, processors, clock source |
//! | [`units`] | quantities as people read them |
//!
//! ```
//! use rtwire_measure::summary::Summary;
//! let delays_ns = vec![30, 10, 20];
//! let summary = Summary::of(delays_ns).ok_or("no samples")?;
//! assert_eq!((summary.min, summary.p50, summary.max), (10, 20, 30));
//! # Ok::<(), &str>(())
//! ```
//!
//! Limits: a verdict is about the frames that were measured, on the machine they were measured on. It bounds nothing
//! that the plan did not bound; the application-to-application delay is shown but not judged.

pub mod bench;
pub mod capture;
pub mod jitter;
pub mod machine;
pub mod noise;
pub mod report;
pub mod summary;
pub mod units;
pub mod verdict;
