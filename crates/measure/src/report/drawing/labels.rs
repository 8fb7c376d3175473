//! Places the labels of links: each on a plate on its own line, clear of nodes, other lines and other plates.
//!
//! One plate serves both directions of a link. Candidates are tried in a fixed order, so the same network always looks
//! the same. The first candidate that touches nothing is taken, else the one that touches least.

/// An upright rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn around(centre: (f64, f64), width: f64, height: f64) -> Area {
        Area {
            x: centre.0 - width / 2.0,
            y: centre.1 - height / 2.0,
            width,
            height,
        }
    }

    /// Returns true if the distance between the two is less than `air`.
    pub(super) fn touches(&self, other: &Area, air: f64) -> bool {
        self.x < other.x + other.width + air
            && other.x < self.x + self.width + air
            && self.y < other.y + other.height + air
            && other.y < self.y + self.height + air
    }

    fn holds(&self, point: (f64, f64), air: f64) -> bool {
        let (right, low) = (self.x + self.width, self.y + self.height);
        (self.x - air..right + air).contains(&point.0)
            && (self.y - air..low + air).contains(&point.1)
    }
}

/// The line of a link: straight, or bowed over the row of switches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve {
    pub(super) from: (f64, f64),
    pub(super) control: (f64, f64),
    pub(super) to: (f64, f64),
}

impl Curve {
    pub(super) fn at(&self, part: f64) -> (f64, f64) {
        let rest = 1.0 - part;
        let mix = |from: f64, control: f64, to: f64| {
            rest * rest * from + 2.0 * part * rest * control + part * part * to
        };
        (
            mix(self.from.0, self.control.0, self.to.0),
            mix(self.from.1, self.control.1, self.to.1),
        )
    }

    fn crosses(&self, area: &Area, air: f64) -> bool {
        (0..=64).any(|step| area.holds(self.at(f64::from(step) / 64.0), air))
    }
}

/// A plate to place: the index of its own line, its size, and the suitable parts of the line, best first.
pub(super) struct Wanted<'a> {
    pub(super) own: usize,
    pub(super) size: (f64, f64),
    pub(super) parts: &'a [f64],
}

/// Sideways distances to try if nothing on the line itself is free.
const ASIDE: [f64; 5] = [0.0, -24.0, 24.0, -44.0, 44.0];

/// Returns a box for each plate, in the same order.
pub(super) fn place(wanted: &[Wanted<'_>], lines: &[Curve], nodes: &[Area]) -> Vec<Area> {
    let mut placed: Vec<Area> = Vec::new();
    for plate in wanted {
        let Some(own) = lines.get(plate.own) else {
            continue;
        };
        let (dx, dy) = (own.to.0 - own.from.0, own.to.1 - own.from.1);
        let length = dx.hypot(dy).max(1.0);
        let candidates = ASIDE
            .iter()
            .flat_map(|aside| plate.parts.iter().map(move |part| (*aside, *part)));
        let mut best: Option<(usize, Area)> = None;
        for (aside, part) in candidates {
            let on_line = own.at(part);
            let centre = (
                on_line.0 - dy / length * aside,
                on_line.1 + dx / length * aside,
            );
            let area = Area::around(centre, plate.size.0, plate.size.1);
            let plates = placed.iter().filter(|other| area.touches(other, 3.0));
            let covered = nodes.iter().filter(|node| area.touches(node, 3.0));
            let others = lines
                .iter()
                .enumerate()
                .filter(|(index, line)| *index != plate.own && line.crosses(&area, 4.0));
            let trouble = 100 * plates.count() + 20 * covered.count() + others.count();
            if best.is_none_or(|(least, _)| trouble < least) {
                best = Some((trouble, area));
            }
            if trouble == 0 {
                break;
            }
        }
        placed.extend(best.map(|(_, area)| area));
    }
    placed
}
