//! Builds the report's parts from evidence and judgement.

use super::model::{BacklogBucket, PortReport, Report, StreamReport, TalkerReport};
use crate::summary::{Summary, ccdf, over_time};
use crate::verdict::{
    BacklogSample, PortEvidence, PortJudgement, Sample, StreamEvidence, StreamJudgement,
    TalkerEvidence, TalkerJudgement,
};

impl Report {
    /// Returns the report as indented JSON.
    ///
    /// # Errors
    /// The serializer's error if a floating-point field is not a number.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

impl StreamReport {
    /// Returns the report on one stream. `talker` and `description` are only shown. The run began at `started_tai_ns`
    /// and lasted `duration_ns`.
    #[must_use]
    pub fn new(
        evidence: &StreamEvidence,
        judgement: &StreamJudgement,
        talker: &str,
        description: &str,
        started_tai_ns: u64,
        duration_ns: u64,
    ) -> Self {
        let mut network: Vec<u64> = evidence
            .samples
            .iter()
            .filter_map(Sample::network_delay_ns)
            .collect();
        let app = evidence.samples.iter().filter_map(Sample::app_delay_ns);
        let mut app: Vec<u64> = app.collect();
        let replayed = evidence.emulated.iter().flat_map(|it| &it.frames);
        let mut exact: Vec<u64> = replayed.filter_map(|frame| frame.exact_ns).collect();
        exact.sort_unstable();
        network.sort_unstable();
        app.sort_unstable();
        let timed: Vec<(u64, u64)> = evidence
            .samples
            .iter()
            .filter_map(|s| {
                Some((
                    s.tx_ns?.saturating_sub(started_tai_ns),
                    s.network_delay_ns()?,
                ))
            })
            .collect();
        Self {
            name: evidence.name.clone(),
            talker: talker.to_owned(),
            listener: evidence.listener.clone(),
            description: description.to_owned(),
            receive_path: None,
            transmit_path: None,
            promised_delay_ns: evidence.promise_ns,
            deadline_ns: evidence.deadline_ns,
            published_max_ns: evidence.published_max_ns,
            exact_delay_ns: Summary::of_sorted(&exact),
            network_delay_ns: Summary::of_sorted(&network),
            app_delay_ns: Summary::of_sorted(&app),
            frames_planned: evidence.frames_planned,
            frames_sent: evidence.frames_sent,
            frames_received: evidence.frames_received,
            frames_lost: judgement.frames_lost,
            frames_duplicated: evidence.frames_duplicated,
            frames_reordered: evidence.frames_reordered,
            listener_drops: evidence.listener_drops,
            frames_explained: judgement.explained,
            frames_unexplained: judgement.unexplained + judgement.port_errors,
            coverage_percent: f64::from(judgement.coverage_ppm / 100) / 100.0,
            stamps_missing: judgement.stamps_missing,
            verdict: judgement.verdict,
            reasons: judgement.reasons.clone(),
            exact_ccdf: ccdf(&exact),
            network_ccdf: ccdf(&network),
            app_ccdf: ccdf(&app),
            over_time: over_time(&timed, duration_ns),
        }
    }
}

impl TalkerReport {
    /// Returns the report on one talker.
    #[must_use]
    pub fn new(evidence: &TalkerEvidence, judgement: &TalkerJudgement) -> Self {
        Self {
            name: judgement.name.clone(),
            best_effort: judgement.best_effort,
            frames_planned: evidence.frames_planned,
            frames_sent: evidence.frames_sent,
            contract_excess_bits: evidence.contract_excess_bits,
            unexplained_excess_bits: evidence.unexplained_excess_bits,
            verdict: judgement.verdict,
            reasons: judgement.reasons.clone(),
        }
    }
}

impl PortReport {
    /// Returns the report on one port. `utilization_percent` is the measured share of the link's rate.
    #[must_use]
    pub fn new(
        evidence: &PortEvidence,
        judgement: &PortJudgement,
        started_tai_ns: u64,
        duration_ns: u64,
    ) -> Self {
        Self {
            switch: evidence.id.node.clone(),
            port: evidence.id.port.clone(),
            promised_backlog_bytes: evidence.promised_backlog_bytes,
            max_backlog_bytes: evidence.max_backlog_bytes,
            exact_backlog_bytes: evidence
                .emulated
                .as_ref()
                .and_then(|it| it.exact_backlog_bytes),
            frames_explained: judgement.explained,
            frames_unexplained: judgement.unexplained,
            worst_error_ns: judgement.worst_error_ns,
            buffer_bytes: evidence.buffer_bytes,
            frames_dropped: evidence.frames_dropped,
            utilization_percent: evidence.utilization_percent,
            link_rate_bps: evidence.link_rate_bps,
            verdict: judgement.verdict,
            reasons: judgement.reasons.clone(),
            backlog_over_time: backlog_over_time(&evidence.backlog, started_tai_ns, duration_ns),
        }
    }
}

fn backlog_over_time(
    samples: &[BacklogSample],
    started_tai_ns: u64,
    duration_ns: u64,
) -> Vec<BacklogBucket> {
    let timed: Vec<(u64, u64)> = samples
        .iter()
        .map(|s| (s.from_ns.saturating_sub(started_tai_ns), s.max_bytes))
        .collect();
    over_time(&timed, duration_ns)
        .iter()
        .map(|b| BacklogBucket {
            at_ns: b.at_ns,
            max_bytes: b.max,
        })
        .collect()
}
