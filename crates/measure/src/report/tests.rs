//! Tests of the report's forms that need no browser.

use super::*;
use crate::verdict::{Rule, Verdict};

fn empty() -> Report {
    Report {
        format: 1,
        title: "nothing".to_owned(),
        verdict: Verdict::Inconclusive,
        reasons: vec!["No stream was measured.".to_owned()],
        streams: vec![],
        ports: vec![],
        hosts: vec![],
        calibration: vec![],
        noise: None,
        machine: Machine::default(),
        command: String::new(),
        started_at: String::new(),
        started_tai_ns: 0,
        duration_s: 0.0,
        plan_hash: String::new(),
        rule: Rule::default(),
        notes: vec![],
        network: Network::default(),
    }
}

fn bare_stream() -> StreamReport {
    StreamReport {
        name: "s".to_owned(),
        talker: "A".to_owned(),
        listener: "B".to_owned(),
        description: String::new(),
        promised_delay_ns: None,
        deadline_ns: None,
        published_max_ns: None,
        network_delay_ns: None,
        app_delay_ns: None,
        frames_planned: 0,
        frames_sent: 0,
        frames_received: 0,
        frames_lost: 0,
        frames_duplicated: 0,
        frames_reordered: 0,
        listener_drops: 0,
        samples_excluded: 0,
        samples_broken: 0,
        stamps_missing: 0,
        samples_exposed: 0,
        verdict: Verdict::Inconclusive,
        reasons: vec![],
        network_ccdf: vec![],
        app_ccdf: vec![],
        over_time: vec![],
    }
}

/// A run that ended before anything arrived still has its report.
#[test]
fn a_report_of_nothing_is_a_report() {
    let mut report = empty();
    report.streams.push(bare_stream());
    assert!(report.to_html().contains("nothing was measured"));
    assert!(report.print_text().starts_with("nothing: INCONCLUSIVE\n"));
    assert_eq!(
        serde_json::from_str::<Report>(&report.to_json().unwrap()).unwrap(),
        report
    );
    assert!(!empty().to_html().contains("NaN"));
}

#[test]
fn no_name_becomes_markup() {
    const EVIL: &str = "<script>alert('x')</script>\"&\u{1b}[31m";
    let mut report = empty();
    for field in [
        &mut report.title,
        &mut report.command,
        &mut report.started_at,
        &mut report.plan_hash,
        &mut report.network.name,
    ] {
        *field = EVIL.to_owned();
    }
    report.reasons = vec![EVIL.to_owned()];
    report.notes = vec![EVIL.to_owned()];
    let m = &mut report.machine;
    for field in [
        &mut m.kernel,
        &mut m.architecture,
        &mut m.model,
        &mut m.preemption,
        &mut m.clocksource,
        &mut m.rtwire_version,
    ] {
        *field = EVIL.to_owned();
    }
    m.settings = vec![EVIL.to_owned()];
    let mut stream = bare_stream();
    for field in [
        &mut stream.name,
        &mut stream.talker,
        &mut stream.listener,
        &mut stream.description,
    ] {
        *field = EVIL.to_owned();
    }
    stream.reasons = vec![EVIL.to_owned()];
    report.streams.push(stream);
    report.ports.push(PortReport {
        switch: EVIL.to_owned(),
        port: EVIL.to_owned(),
        promised_backlog_bytes: Some(1),
        max_backlog_bytes: Some(2),
        buffer_bytes: None,
        frames_dropped: 0,
        utilization_percent: f64::NAN,
        link_rate_bps: 0,
        verdict: Verdict::Broken,
        reasons: vec![EVIL.to_owned()],
        backlog_over_time: vec![BacklogBucket {
            at_ns: 0,
            max_bytes: 2,
        }],
    });
    report.network.nodes = [NodeKind::Host, NodeKind::Switch]
        .map(|kind| DrawnNode {
            name: EVIL.to_owned(),
            kind,
        })
        .to_vec();
    report.network.links = vec![DrawnLink {
        from: EVIL.to_owned(),
        to: EVIL.to_owned(),
        rate_bps: 0,
        utilization_percent: Some(f64::NAN),
    }];
    let html = report.to_html();
    assert!(
        !html.contains("<script"),
        "no script of ours, none of others"
    );
    assert!(!html.contains('\u{1b}'));
    assert!(html.contains("&lt;script&gt;"));
    assert!(
        !html.contains("=\"NaN") && !html.contains("NaN\""),
        "no coordinate that is not a number"
    );
    assert!(
        !report.print_text().contains('\u{1b}'),
        "a terminal obeys no name"
    );
}

/// All that an HTML file could load from elsewhere.
#[test]
fn the_page_loads_nothing() {
    let mut report = empty();
    report.streams.push(bare_stream());
    let html = report.to_html();
    for word in [
        "src=", "href=", "url(", "@import", "<link", "<iframe", "<img",
    ] {
        assert!(!html.contains(word), "{word}");
    }
    let addresses = html.matches("http").count();
    assert_eq!(
        addresses,
        html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count(),
        "only the name of SVG's own namespace"
    );
}

/// The shapes that networks have: a line, a tree, two hosts on one cable, a ring, nothing.
#[test]
fn every_network_is_drawn_without_collision() {
    let network = |hosts: &[&str], switches: &[&str], links: &[(&str, &str)]| Network {
        name: "n".to_owned(),
        nodes: hosts
            .iter()
            .map(|n| (n, NodeKind::Host))
            .chain(switches.iter().map(|n| (n, NodeKind::Switch)))
            .map(|(n, kind)| DrawnNode {
                name: (*n).to_owned(),
                kind,
            })
            .collect(),
        links: links
            .iter()
            .map(|(a, b)| DrawnLink {
                from: (*a).to_owned(),
                to: (*b).to_owned(),
                rate_bps: 1,
                utilization_percent: Some(42.0),
            })
            .collect(),
    };
    for n in [
        network(&["A", "B"], &[], &[("A", "B"), ("B", "A")]),
        network(
            &["A", "B", "C"],
            &["s1", "s2", "s3"],
            &[
                ("A", "s1"),
                ("s1", "s2"),
                ("s2", "s3"),
                ("s3", "B"),
                ("s2", "C"),
            ],
        ),
        network(
            &["A", "B"],
            &["s0", "s1", "s2", "s3"],
            &[
                ("s0", "s1"),
                ("s0", "s2"),
                ("s0", "s3"),
                ("s1", "A"),
                ("s3", "B"),
            ],
        ),
        network(&[], &["a", "b", "c"], &[("a", "b"), ("b", "c"), ("c", "a")]),
        network(&["A"], &[], &[("A", "nobody")]),
        network(
            &["A", "B", "C", "D", "E", "F", "G", "H"],
            &["s"],
            &[
                ("A", "s"),
                ("B", "s"),
                ("C", "s"),
                ("D", "s"),
                ("E", "s"),
                ("F", "s"),
                ("G", "s"),
                ("H", "s"),
            ],
        ),
    ] {
        let svg = drawing::draw(&n);
        let drawn = n
            .links
            .iter()
            .filter(|l| n.nodes.iter().any(|node| node.name == l.to))
            .count();
        assert_eq!(svg.matches("<path class=\"link").count(), drawn);
        assert_eq!(svg.matches("42 %").count(), drawn);
        let mut places: Vec<&str> = svg
            .split("<rect")
            .skip(1)
            .filter_map(|r| r.split("width").next())
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), n.nodes.len(), "no two nodes in one place");
    }
}
