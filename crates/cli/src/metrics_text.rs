//! Figures in the text form that Prometheus reads (exposition format 0.0.4).

use std::fmt::Write as _;
use std::path::PathBuf;

use rtwire_managerd::Times;

use crate::watched::{Read, Watched};

/// Figures of one name.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// All figures, in the order of their first sample.
#[derive(Default)]
struct Families(Vec<Family>);

impl Families {
    fn add(
        &mut self,
        (name, kind, help): (&'static str, &'static str, &'static str),
        labels: &[(&'static str, &str)],
        value: f64,
    ) {
        let labels = labels.iter().map(|(key, text)| (*key, (*text).to_owned()));
        let sample = (labels.collect(), value);
        match self.0.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push(sample),
            None => self.0.push(Family {
                name,
                kind,
                help,
                samples: vec![sample],
            }),
        }
    }

    /// Adds figures of one kind with the same labels: their names, the help and the values.
    fn figures(
        &mut self,
        kind: &'static str,
        labels: &[(&'static str, &str)],
        figures: &[(&'static str, &'static str, u64)],
    ) {
        for (name, help, value) in figures {
            self.add((name, kind, help), labels, number(*value));
        }
    }

    fn times(
        &mut self,
        (name, help): (&'static str, &'static str),
        labels: &[(&'static str, &str)],
        times: Option<Times>,
    ) {
        let Some(times) = times else {
            return;
        };
        let all = [
            ("0.5", times.p50_ns),
            ("0.99", times.p99_ns),
            ("0.999", times.p999_ns),
            ("1", times.max_ns),
        ];
        for (quantile, ns) in all {
            let labels: Vec<_> = labels
                .iter()
                .copied()
                .chain([("quantile", quantile)])
                .collect();
            self.add((name, "gauge", help), &labels, number(ns) / 1e9);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for family in &self.0 {
            let (name, help, kind) = (family.name, family.help, family.kind);
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in &family.samples {
                let labels: Vec<String> = labels
                    .iter()
                    .map(|(key, text)| format!("{key}=\"{}\"", escaped(text)))
                    .collect();
                let labels = match labels.is_empty() {
                    true => String::new(),
                    false => format!("{{{}}}", labels.join(",")),
                };
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        }
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[allow(clippy::cast_precision_loss)] // the form has no other numbers
fn number(value: u64) -> f64 {
    value as f64
}

/// Returns the figures of all files that can be read, and of each file whether it can.
pub(crate) fn text(files: &[(PathBuf, Read)]) -> String {
    let mut all = Families::default();
    for (path, read) in files {
        let file = path.display().to_string();
        let labels = [("file", file.as_str())];
        let readable = (
            "rtwire_status_readable",
            "gauge",
            "1 if the status file can be read.",
        );
        all.add(readable, &labels, f64::from(u8::from(read.is_ok())));
        let Ok((watched, age)) = read else {
            continue;
        };
        let aged = (
            "rtwire_status_age_seconds",
            "gauge",
            "Time since the program wrote its status. It writes once a second.",
        );
        all.add(aged, &labels, age.as_secs_f64());
        match watched {
            Watched::Manager(status) => manager(&mut all, status),
            Watched::Agent(status) => agent(&mut all, status),
        }
    }
    all.text()
}

fn manager(all: &mut Families, status: &rtwire_managerd::ManagerStatus) {
    all.figures(
        "gauge",
        &[],
        &[
            (
                "rtwire_manager_epoch",
                "The plan's newest epoch.",
                status.epoch,
            ),
            (
                "rtwire_manager_connections",
                "Connections that are admitted now.",
                status.connections,
            ),
        ],
    );
    all.figures(
        "counter",
        &[],
        &[
            (
                "rtwire_manager_connections_granted_total",
                "Connections granted since the start.",
                status.granted,
            ),
            (
                "rtwire_manager_connections_released_total",
                "Connections released since the start.",
                status.released,
            ),
            (
                "rtwire_manager_reservations_granted_total",
                "One-shot reservations granted since the start.",
                status.shares_granted,
            ),
        ],
    );
    for (reason, count) in &status.refused {
        let family = (
            "rtwire_manager_refused_total",
            "counter",
            "Refusals since the start, by reason.",
        );
        all.add(family, &[("reason", reason)], number(*count));
    }
    for (reason, count) in &status.distrusted {
        let family = (
            "rtwire_manager_distrusted_total",
            "counter",
            "Messages that were not believed, by reason.",
        );
        all.add(family, &[("reason", reason)], number(*count));
    }
    all.times(
        (
            "rtwire_manager_answer_seconds",
            "Time from a message to its answer, of the newest 65536.",
        ),
        &[],
        status.answer_times,
    );
    for link in &status.links {
        let labels = [("from", link.from.as_str()), ("to", link.to.as_str())];
        all.figures(
            "gauge",
            &labels,
            &[
                (
                    "rtwire_link_rate_bits_per_second",
                    "The link's rate.",
                    link.rate_bps,
                ),
                (
                    "rtwire_link_promised_bits_per_second",
                    "The rate of streams and connections.",
                    link.promised_bps,
                ),
                (
                    "rtwire_link_reserved_bits_per_second",
                    "The rate of one-shot reservations.",
                    link.shared_bps,
                ),
            ],
        );
    }
}

fn agent(all: &mut Families, status: &rtwire_agentd::AgentStatus) {
    let labels = [("host", status.host.as_str())];
    let channels = (
        "rtwire_agent_channels",
        "gauge",
        "Channels that programs have.",
    );
    all.add(channels, &labels, number(status.channels));
    all.figures(
        "counter",
        &labels,
        &[
            (
                "rtwire_agent_reservations_granted_total",
                "One-shot reservations that the manager granted.",
                status.shares_granted,
            ),
            (
                "rtwire_agent_reservations_refused_total",
                "One-shot reservations that the manager refused.",
                status.shares_refused,
            ),
            (
                "rtwire_agent_reservations_unanswered_total",
                "Questions for one-shot reservations without an answer in time.",
                status.shares_unanswered,
            ),
            (
                "rtwire_agent_frames_unsegmented_total",
                "Frames dropped because the kernel had put several into one.",
                status.unsegmented,
            ),
        ],
    );
    for end in &status.ends {
        let labels = [
            ("host", status.host.as_str()),
            ("stream", end.stream.as_str()),
            ("end", end.end.as_str()),
        ];
        all.figures("counter", &labels, &[
            (
                "rtwire_agent_stream_frames_total",
                "Frames that a program has sent or heard on a stream or a connection, since it has it.",
                end.frames,
            ),
            (
                "rtwire_agent_stream_foreign_total",
                "Frames on it that were not the stream's, dropped.",
                end.foreign,
            ),
            (
                "rtwire_agent_stream_too_much_total",
                "Frames for a listener beyond the contract, dropped.",
                end.too_much,
            ),
        ]);
    }
    all.times(
        (
            "rtwire_agent_reservation_seconds",
            "Time from a need to a usable one-shot reservation, of the newest 65536.",
        ),
        &labels,
        status.share_times,
    );
}
