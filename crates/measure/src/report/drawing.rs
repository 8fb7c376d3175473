//! The drawing of the network. Switches are in a row, with their hosts above and below. Each direction of a link has
//! the colour and label of its utilization.

mod labels;

use super::model::{DrawnLink, Network, NodeKind};
use super::svg::{Anchor, Path, Svg};
use crate::units::trimmed;
use labels::{Area, Curve, Wanted, place};

const COLUMN: f64 = 140.0;
const MARGIN: f64 = 70.0;
const HOST_AT: [f64; 2] = [48.0, 312.0];
const SWITCH_AT: f64 = 180.0;
const HEIGHT: f64 = 360.0;

/// The nodes' places, in the order of [`Network::nodes`].
struct Layout {
    width: f64,
    at: Vec<(f64, f64)>,
}

/// Draws the network as SVG.
pub(super) fn draw(network: &Network) -> String {
    let layout = arrange(network);
    let title = format!(
        "The network {} with the utilization of its links",
        network.name
    );
    // The drawing is never enlarged. It shrinks to a phone's width as far as it stays readable, else it scrolls.
    let style = format!(
        "max-width:{:.0}px;min-width:{:.0}px",
        layout.width,
        layout.width * 0.62
    );
    let mut svg = Svg::styled(layout.width, HEIGHT, "network", &style, &title);
    let position = |name: &str| network.nodes.iter().position(|n| n.name == name);
    let mut cables: Vec<Cable> = Vec::new();
    for link in &network.links {
        let (Some(from), Some(to)) = (position(&link.from), position(&link.to)) else {
            continue;
        };
        let both_switches = [from, to].map(|i| network.nodes[i].kind) == [NodeKind::Switch; 2];
        let far = both_switches
            && (layout.at[from].0 - layout.at[to].0).abs() > layout.gap(network, from, to);
        direction(&mut svg, link, layout.at[from], layout.at[to], far);
        let Some(text) = label(link, layout.at[from], layout.at[to]) else {
            continue;
        };
        let ends = (from.min(to), from.max(to));
        match cables.iter_mut().find(|cable| cable.ends == ends) {
            Some(cable) => cable.labels.push(text),
            None => cables.push(Cable {
                ends,
                far,
                labels: vec![text],
            }),
        }
    }
    let mut nodes = Vec::new();
    for (node, at) in network.nodes.iter().zip(&layout.at) {
        let half = (24.0 + node.name.chars().count() as f64 * 4.4).min(COLUMN / 2.0 - 8.0);
        let class = match node.kind {
            NodeKind::Host => "node host",
            NodeKind::Switch => "node switch",
        };
        let radius = if node.kind == NodeKind::Host {
            17.0
        } else {
            4.0
        };
        svg.rounded(class, at.0 - half, at.1 - 17.0, half * 2.0, 34.0, radius);
        nodes.push(Area::around(*at, half * 2.0, 34.0));
        let shown: String = match node.name.chars().count() {
            0..=14 => node.name.clone(),
            _ => node.name.chars().take(13).chain(['…']).collect(),
        };
        let class = if node.kind == NodeKind::Switch {
            "node-name switch-name"
        } else {
            "node-name"
        };
        svg.text(class, (at.0, at.1 + 5.0), Anchor::Middle, &shown);
    }
    // Labels are drawn last, so nothing covers them.
    label_cables(&mut svg, &mut cables, &layout, network, &nodes);
    svg.finish()
}

/// A link with the labels of its directions.
struct Cable {
    /// Indices of its nodes, the lower first.
    ends: (usize, usize),
    far: bool,
    labels: Vec<String>,
}

/// Size of a letter as shown on a phone.
const LETTER: f64 = 9.6;
const ROW: f64 = 16.0;

/// Draws one plate for each cable on its line. If one end is a host the plate is near it, because the links meet at
/// the switch.
fn label_cables(
    svg: &mut Svg,
    cables: &mut [Cable],
    layout: &Layout,
    network: &Network,
    nodes: &[Area],
) {
    let is_host = |i: usize| network.nodes[i].kind == NodeKind::Host;
    let mut lines = Vec::new();
    for cable in cables.iter_mut() {
        // Down comes before up and right before left, whatever the order of the directions.
        cable
            .labels
            .sort_by_key(|label| !label.starts_with(['↓', '→']));
        let (low, high) = cable.ends;
        let (from, to) = if is_host(high) && !is_host(low) {
            (high, low)
        } else {
            (low, high)
        };
        lines.push(curve(layout.at[from], layout.at[to], cable.far));
    }
    let wanted: Vec<Wanted<'_>> = cables
        .iter()
        .enumerate()
        .map(|(own, cable)| {
            let letters = cable.labels.iter().map(|text| text.chars().count()).max();
            let between_alike = is_host(cable.ends.0) == is_host(cable.ends.1);
            Wanted {
                own,
                size: (
                    letters.unwrap_or(0) as f64 * LETTER + 6.0,
                    cable.labels.len() as f64 * ROW + 4.0,
                ),
                parts: if between_alike {
                    &[0.5, 0.42, 0.58, 0.34, 0.66]
                } else {
                    &[0.34, 0.38, 0.42, 0.3, 0.46, 0.5, 0.55]
                },
            }
        })
        .collect();
    let plates = place(&wanted, &lines, nodes);
    for (plate, cable) in plates.iter().zip(cables) {
        svg.rounded("plate", plate.x, plate.y, plate.width, plate.height, 5.0);
        for (row, text) in cable.labels.iter().enumerate() {
            let at = (
                plate.x + plate.width / 2.0,
                plate.y + 2.0 + ROW * (row as f64 + 0.5) + 4.7,
            );
            svg.text("link-label", at, Anchor::Middle, text);
        }
    }
}

/// Returns the line between two places. It is bowed around switches in between.
fn curve(from: (f64, f64), to: (f64, f64), far: bool) -> Curve {
    let bow = if far {
        96.0 + (to.0 - from.0).abs() * 0.04
    } else {
        0.0
    };
    Curve {
        from,
        control: ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0 - bow),
        to,
    }
}

/// Draws one direction as a line beside the middle of the link.
fn direction(svg: &mut Svg, link: &DrawnLink, a: (f64, f64), b: (f64, f64), far: bool) {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx.hypot(dy).max(1.0);
    // Each direction is on the right-hand side, as road traffic is.
    let aside = (-dy / length * 3.5, dx / length * 3.5);
    let line = curve(
        (a.0 + aside.0, a.1 + aside.1),
        (b.0 + aside.0, b.1 + aside.1),
        far,
    );
    let mut path = Path::default();
    path.go(line.from.0, line.from.1);
    path.bend(line.control, line.to);
    svg.path(
        &format!("link load-{}", load_class(link.utilization_percent)),
        &path,
    );
}

/// Returns the label of one direction; `None` if nothing was sent.
fn label(link: &DrawnLink, a: (f64, f64), b: (f64, f64)) -> Option<String> {
    let percent = link.utilization_percent.filter(|p| *p >= 0.05)?;
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let arrow = match (dy.abs() < 1.0, dx > 0.0, dy > 0.0) {
        (true, true, _) => "→",
        (true, false, _) => "←",
        (false, _, true) => "↓",
        (false, _, false) => "↑",
    };
    Some(format!(
        "{arrow} {} %",
        trimmed((percent * 10.0).round() / 10.0)
    ))
}

/// Returns one of six steps of load; the page's style colours them.
fn load_class(percent: Option<f64>) -> &'static str {
    match percent {
        None => "unknown",
        Some(p) if p < 0.05 => "0",
        Some(p) if p < 25.0 => "1",
        Some(p) if p < 50.0 => "2",
        Some(p) if p < 75.0 => "3",
        Some(p) if p < 90.0 => "4",
        Some(_) => "5",
    }
}

impl Layout {
    /// Returns infinity for two neighbouring switches in the row and 0 for others, whose straight line would cross the
    /// switches in between.
    fn gap(&self, network: &Network, a: usize, b: usize) -> f64 {
        let (low, high) = (
            self.at[a].0.min(self.at[b].0),
            self.at[a].0.max(self.at[b].0),
        );
        let between = network.nodes.iter().zip(&self.at).any(|(node, at)| {
            node.kind == NodeKind::Switch && at.0 > low + 1.0 && at.0 < high - 1.0
        });
        if between { 0.0 } else { f64::INFINITY }
    }
}

fn arrange(network: &Network) -> Layout {
    let nodes = &network.nodes;
    let position = |name: &str| nodes.iter().position(|n| n.name == name);
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for link in &network.links {
        if let (Some(a), Some(b)) = (position(&link.from), position(&link.to)) {
            for (from, to) in [(a, b), (b, a)] {
                if !neighbours[from].contains(&to) {
                    neighbours[from].push(to);
                }
            }
        }
    }
    let is_switch = |i: usize| nodes[i].kind == NodeKind::Switch;
    let mut at = vec![(0.0, 0.0); nodes.len()];
    let mut placed = vec![false; nodes.len()];
    let mut x = MARGIN;
    for switch in row_of_switches(nodes.len(), &neighbours, is_switch) {
        let hosts: Vec<usize> = neighbours[switch]
            .iter()
            .copied()
            .filter(|n| !is_switch(*n) && !placed[*n])
            .collect();
        let columns = hosts.len().div_ceil(2).max(1);
        let width = columns as f64 * COLUMN;
        at[switch] = (x + width / 2.0, SWITCH_AT);
        placed[switch] = true;
        let above = hosts.len().div_ceil(2);
        for (k, &host) in hosts.iter().enumerate() {
            let (row, index, count) = if k < above {
                (0, k, above)
            } else {
                (1, k - above, hosts.len() - above)
            };
            let step = width / count as f64;
            at[host] = (x + step * (index as f64 + 0.5), HOST_AT[row]);
            placed[host] = true;
        }
        x += width + 40.0;
    }
    // Hosts without a switch (two hosts on one cable) follow in the row.
    for i in 0..nodes.len() {
        if !placed[i] {
            at[i] = (x + COLUMN / 2.0, SWITCH_AT);
            x += COLUMN + 60.0;
        }
    }
    let used = x - 40.0 + MARGIN;
    let width = used.max(520.0);
    for p in &mut at {
        p.0 += (width - used) / 2.0;
    }
    Layout { width, at }
}

/// Returns the switches in the order of a walk from an end of the network, so that a line of switches stays a line.
fn row_of_switches(
    count: usize,
    neighbours: &[Vec<usize>],
    is_switch: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let degree = |i: usize| neighbours[i].iter().filter(|n| is_switch(**n)).count();
    let mut starts: Vec<usize> = (0..count).filter(|i| is_switch(*i)).collect();
    starts.sort_by_key(|i| (degree(*i), *i));
    let mut row = Vec::new();
    for start in starts {
        let mut open = vec![start];
        while let Some(switch) = open.pop() {
            if row.contains(&switch) {
                continue;
            }
            row.push(switch);
            let mut next: Vec<usize> = neighbours[switch]
                .iter()
                .copied()
                .filter(|n| is_switch(*n))
                .collect();
            next.sort_by_key(|n| std::cmp::Reverse(*n));
            open.extend(next);
        }
    }
    row
}
