//! Tests of the report's forms that need no browser.

use super::*;
use crate::verdict::{Rule, Verdict};

fn empty() -> Report {
    Report {
        format: 2,
        title: "nothing".to_owned(),
        verdict: Verdict::Inconclusive,
        reasons: vec!["No stream was measured.".to_owned()],
        streams: vec![],
        ports: vec![],
        talkers: vec![],
        hosts: vec![],
        sharing: None,
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
        receive_path: None,
        transmit_path: None,
        promised_delay_ns: None,
        deadline_ns: None,
        published_max_ns: None,
        exact_delay_ns: None,
        network_delay_ns: None,
        app_delay_ns: None,
        frames_planned: 0,
        frames_sent: 0,
        frames_received: 0,
        frames_lost: 0,
        frames_duplicated: 0,
        frames_reordered: 0,
        listener_drops: 0,
        frames_explained: 0,
        frames_unexplained: 0,
        coverage_percent: 0.0,
        stamps_missing: 0,
        verdict: Verdict::Inconclusive,
        reasons: vec![],
        exact_ccdf: vec![],
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
        exact_backlog_bytes: None,
        frames_explained: 0,
        frames_unexplained: 0,
        worst_error_ns: None,
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

/// Strings by which an HTML file could load something from elsewhere.
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

/// Returns the rectangles of a class as x, y, width and height, from left to right.
fn areas(svg: &str, class: &str) -> Vec<[f64; 4]> {
    let marker = format!("<rect class=\"{class}");
    let number = |rect: &str, name: &str| -> f64 {
        let value = rect.split(&format!(" {name}=\"")).nth(1).unwrap();
        value.split('"').next().unwrap().parse().unwrap()
    };
    let mut areas: Vec<[f64; 4]> = svg
        .split(&marker)
        .skip(1)
        .map(|rect| ["x", "y", "width", "height"].map(|name| number(rect, name)))
        .collect();
    areas.sort_by(|a, b| a.partial_cmp(b).unwrap());
    areas
}

fn no_label_touches_anything(svg: &str) {
    let touch = |a: &[f64; 4], b: &[f64; 4]| {
        a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] < b[1] + b[3] && b[1] < a[1] + a[3]
    };
    let plates = areas(svg, "plate");
    for (index, plate) in plates.iter().enumerate() {
        for other in plates[index + 1..].iter().chain(&areas(svg, "node")) {
            assert!(!touch(plate, other), "{plate:?} covers {other:?}");
        }
    }
}

/// A network with both directions of each link at the widest figures.
fn loaded(hosts: &[&str], switches: &[&str], links: &[(&str, &str)]) -> Network {
    let node = |kind| {
        move |name: &&str| DrawnNode {
            name: (*name).to_owned(),
            kind,
        }
    };
    let nodes = hosts.iter().map(node(NodeKind::Host));
    let directions = links.iter().flat_map(|(a, b)| [(a, b), (b, a)]);
    Network {
        name: "n".to_owned(),
        nodes: nodes
            .chain(switches.iter().map(node(NodeKind::Switch)))
            .collect(),
        links: directions
            .map(|(from, to)| DrawnLink {
                from: (*from).to_owned(),
                to: (*to).to_owned(),
                rate_bps: 1,
                utilization_percent: Some(95.6),
            })
            .collect(),
    }
}

/// Each label is on its own line and on no other's.
#[test]
fn labels_stand_upon_their_own_lines() {
    let star: Vec<(&str, &str)> = ["A", "B", "C", "D", "E"].map(|host| (host, "s1")).to_vec();
    let mut line = vec![("s1", "s2"), ("s2", "s3")];
    line.extend([
        ("A", "s1"),
        ("B", "s1"),
        ("C", "s2"),
        ("D", "s3"),
        ("E", "s3"),
    ]);
    let hosts = ["A", "B", "C", "D", "E"];
    for network in [
        loaded(&hosts, &["s1"], &star),
        loaded(&hosts, &["s1", "s2", "s3"], &line),
    ] {
        let svg = drawing::draw(&network);
        assert_eq!(svg, drawing::draw(&network), "the same each time");
        no_label_touches_anything(&svg);
        let plates = areas(&svg, "plate");
        assert_eq!(plates.len() * 2, network.links.len());
        let lines: Vec<Vec<f64>> = svg
            .split("<path class=\"link")
            .skip(1)
            .map(|path| {
                let d = path
                    .split("d=\"")
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap();
                d.split(['M', 'Q', ' '])
                    .filter(|word| !word.is_empty())
                    .map(|word| word.parse().unwrap())
                    .collect()
            })
            .collect();
        for plate in &plates {
            // Straight lines here: from the first point to the last.
            let through = |line: &&Vec<f64>| {
                (0..=200).any(|step| {
                    let part = f64::from(step) / 200.0;
                    let x = line[0] + (line[4] - line[0]) * part - plate[0];
                    let y = line[1] + (line[5] - line[1]) * part - plate[1];
                    (0.0..plate[2]).contains(&x) && (0.0..plate[3]).contains(&y)
                })
            };
            assert_eq!(lines.iter().filter(through).count(), 2, "{plate:?}");
        }
    }
}

/// A reader on a phone sees the most important columns first.
#[test]
fn the_verdict_comes_before_the_percentiles() {
    let mut report = empty();
    report.streams.push(bare_stream());
    let html = report.to_html();
    let columns: Vec<&str> = html
        .split(" data-column=\"")
        .skip(1)
        .take(9)
        .filter_map(|cell| cell.split('"').next())
        .collect();
    assert_eq!(
        columns[1..],
        [
            "Verdict",
            "Deadline",
            "Promised",
            "Slowest",
            "Promise used",
            "p50",
            "p99",
            "Judged on"
        ]
    );
}

/// The usual shapes of networks: a line, a tree, two hosts on one cable, a ring, nothing.
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
        let mut places = areas(&svg, "node");
        places.dedup();
        assert_eq!(places.len(), n.nodes.len(), "no two nodes in one place");
        no_label_touches_anything(&svg);
    }
}
