//! A plan as comma-separated values, for spreadsheets (RFC 4180: lines end with CR LF, names are quoted if needed).

use crate::plan::{Plan, TermKind};

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn line(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|text| field(text)).collect();
    fields.join(",") + "\r\n"
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

const KINDS: [TermKind; 7] = [
    TermKind::Latency,
    TermKind::Blocking,
    TermKind::Queueing,
    TermKind::Transmission,
    TermKind::Cable,
    TermKind::Window,
    TermKind::Clock,
];

impl Plan {
    /// Returns one line for each promise: stream, listener, route, promise, deadline, the terms, and the priority, where
    /// routers are on the route that at each of its ports. Times are in nanoseconds; a missing one is empty.
    #[must_use]
    pub fn streams_csv(&self) -> String {
        let mut head: Vec<String> = ["stream", "listener", "route", "promise_ns", "deadline_ns"]
            .map(str::to_owned)
            .to_vec();
        head.extend(KINDS.iter().map(|kind| format!("{}_ns", kind.word())));
        head.push("priorities".to_owned());
        let mut text = line(&head);
        for stream in &self.streams {
            for promise in &stream.promises {
                let mut fields = vec![
                    stream.name.clone(),
                    promise.listener.clone(),
                    promise.route.join(">"),
                    number(promise.delay_ns),
                    number(promise.deadline_ns),
                ];
                fields.extend(KINDS.iter().map(|kind| {
                    let of_kind = promise.terms.iter().filter(|term| term.what == *kind);
                    let sum = of_kind.map(|term| term.ns).sum();
                    number(promise.delay_ns.map(|_| sum))
                }));
                let priorities = promise.priorities_on_the_way(stream.identity.pcp);
                let words: Vec<String> = priorities.iter().map(u8::to_string).collect();
                fields.push(words.join(">"));
                text += &line(&fields);
            }
        }
        text
    }

    /// Returns one line for each redundant stream: its listener, the promise of the recovered stream, and what the recovery
    /// function needs (IEEE 802.1CB). Times are in the units of the names.
    #[must_use]
    pub fn recoveries_csv(&self) -> String {
        let head = [
            "stream",
            "listener",
            "promise_ns",
            "deadline_ns",
            "jitter_ns",
            "least_first_ns",
            "largest_first_ns",
            "least_second_ns",
            "largest_second_ns",
            "lag_ns",
            "history_length",
            "reset_ms",
            "restart_silence_ns",
            "match_suffices",
            "resequencing_frames",
            "resequencing_bytes",
        ];
        let mut text = line(&head.map(str::to_owned));
        for stream in &self.streams {
            let Some(recovery) = &stream.recovery else {
                continue;
            };
            let [first, second] = &recovery.ways;
            text += &line(&[
                stream.name.clone(),
                recovery.listener.clone(),
                recovery.delay_ns.to_string(),
                number(recovery.deadline_ns),
                recovery.jitter_ns.to_string(),
                first.least_delay_ns.to_string(),
                first.delay_ns.to_string(),
                second.least_delay_ns.to_string(),
                second.delay_ns.to_string(),
                recovery.lag_ns.to_string(),
                recovery.history_length.to_string(),
                recovery.reset_ms.to_string(),
                recovery.restart_silence_ns.to_string(),
                recovery.match_suffices.to_string(),
                recovery.resequencing_frames.to_string(),
                recovery.resequencing_bytes.to_string(),
            ]);
        }
        text
    }

    /// Returns one line for each port: node, neighbour, link, load, the memory that it needs and has.
    #[must_use]
    pub fn ports_csv(&self) -> String {
        let head = [
            "node",
            "port",
            "link_rate_bps",
            "utilization_permille",
            "backlog_bytes",
            "backlog_frames",
            "buffer_bytes",
            "buffer_frames",
            "shared",
        ];
        let mut text = line(&head.map(str::to_owned));
        for port in &self.ports {
            text += &line(&[
                port.node.clone(),
                port.port.clone(),
                port.link_rate_bps.to_string(),
                port.utilization_permille.to_string(),
                number(port.backlog_bytes),
                number(port.backlog_frames),
                number(port.buffer_bytes),
                number(port.buffer_frames),
                port.shared.to_string(),
            ]);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use crate::{Options, plan, read};

    #[test]
    fn every_promise_and_every_port_has_its_line() {
        let text = include_str!("../../../examples/line.toml");
        let network = read(text, "line.toml", &[]).unwrap();
        let plan = plan(&network, &Options::default()).unwrap();
        let streams = plan.streams_csv();
        let promises: usize = plan
            .streams
            .iter()
            .map(|stream| stream.promises.len())
            .sum();
        assert_eq!(streams.lines().count(), 1 + promises);
        let head: Vec<&str> = streams.lines().next().unwrap().split(',').collect();
        assert_eq!(head[..4], ["stream", "listener", "route", "promise_ns"]);
        for row in streams.lines().skip(1) {
            let fields: Vec<&str> = row.split(',').collect();
            assert_eq!(fields.len(), head.len());
            let terms: u64 = fields[5..fields.len() - 1]
                .iter()
                .map(|ns| ns.parse::<u64>().unwrap())
                .sum();
            assert_eq!(terms, fields[3].parse::<u64>().unwrap(), "{row}");
        }
        assert_eq!(plan.ports_csv().lines().count(), 1 + plan.ports.len());
    }

    #[test]
    fn what_would_break_a_line_is_quoted() {
        assert_eq!(super::field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(super::field("plain"), "plain");
    }
}
