//! Requests for time, and the circles on which they are entered.

use super::circle::{Circle, gcd};

/// One port on the route of a frame. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The hop before it, an earlier one of the request. `None` at the talker.
    pub before: Option<usize>,
    /// The circle of the link that it sends on.
    pub link: usize,
    /// The circle of the queue that it waits in, if frames of others could wait there.
    pub queue: Option<usize>,
    /// From the start of the window before (at the talker: from the launch) to the earliest arrival. Negative if the
    /// clocks' difference is larger.
    pub early_ns: i64,
    /// From the start of the window before (at the talker: from the launch) to the earliest start of its own window.
    pub late_ns: u64,
    /// The time for which the link is taken, from the start of the window.
    pub length_ns: u64,
    /// The time for which no other frame may wait in the queue, from the start of the window.
    pub hold_ns: u64,
    /// The latest start of the window after the launch. `None` for no limit.
    pub latest_ns: Option<u64>,
}

/// The largest time from a launch to the start of a window: a year. So sums of such times stay in range.
const LATEST_NS: u64 = 31_536_000_000_000_000;

/// A stream that requests a place in the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Nanoseconds between launches, at least 1.
    pub period_ns: u64,
    /// Every port on its route; the ports of one branch are in order.
    pub hops: Vec<Hop>,
    /// True if frames may wait for a window on purpose.
    pub waits: bool,
}

/// A place in the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The launch, nanoseconds after the start of a period.
    pub launch_ns: u64,
    /// The start of each hop's window, nanoseconds after the start of the launch's period.
    pub starts_ns: Vec<u64>,
}

impl Request {
    /// Returns the windows of a launch without waiting on purpose. `None` beyond 64 bits.
    #[must_use]
    pub fn without_waiting(&self, launch_ns: u64) -> Option<Placement> {
        let mut starts: Vec<u64> = Vec::with_capacity(self.hops.len());
        for hop in &self.hops {
            let from = match hop.before {
                Some(before) => *starts.get(before)?,
                None => launch_ns,
            };
            starts.push(from.checked_add(hop.late_ns)?);
        }
        Some(Placement {
            launch_ns,
            starts_ns: starts,
        })
    }

    /// True if each window begins when its frame is certainly there, and in time for the windows behind it.
    ///
    /// Every placement made here does. A placement from elsewhere may be from a faster network, or from none.
    fn in_time(&self, placement: &Placement) -> bool {
        placement.launch_ns < self.period_ns
            && self.hops.iter().enumerate().all(|(at, hop)| {
                let start = placement.starts_ns[at];
                let from = match hop.before {
                    Some(before) => placement.starts_ns[before],
                    None => placement.launch_ns,
                };
                let Some(earliest) = from.checked_add(hop.late_ns) else {
                    return false;
                };
                // Without gates nothing holds a frame until its window.
                let prompt = !self.waits || (hop.before.is_none() && hop.queue.is_none());
                let after = start >= earliest && (start == earliest || !prompt);
                let before = hop
                    .latest_ns
                    .is_none_or(|latest| start <= placement.launch_ns.saturating_add(latest));
                after && before && start <= LATEST_NS
            })
    }

    /// Returns the pieces of circles that a placement takes: start (modulo the period) and length.
    fn pieces(&self, placement: &Placement) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(self.hops.len() * 2);
        let around = i128::from(self.period_ns.max(1));
        // Below the period, which has 64 bits.
        let folded = |at: i128| u64::try_from(at.rem_euclid(around)).unwrap_or(0);
        for (hop, start) in self.hops.iter().zip(&placement.starts_ns) {
            pieces.push(Piece {
                circle: hop.link,
                offset: folded(i128::from(*start)),
                length: hop.length_ns,
                point: false,
            });
            let from = match hop.before {
                Some(before) => placement.starts_ns.get(before).copied().unwrap_or(0),
                None => placement.launch_ns,
            };
            let arrival = i128::from(from) + i128::from(hop.early_ns);
            let waiting = i128::from(*start) + i128::from(hop.hold_ns) - arrival;
            if let Some(circle) = hop.queue {
                let length = u64::try_from(waiting).unwrap_or(0);
                pieces.push(Piece {
                    circle,
                    offset: folded(arrival),
                    length: length.max(1),
                    point: length == 0,
                });
            }
        }
        pieces
    }
}

/// A piece of time on one circle.
#[derive(Clone, Copy, Debug)]
struct Piece {
    circle: usize,
    /// The start, below the request's period.
    offset: u64,
    length: u64,
    /// True for a frame that passes a queue without waiting. It collides only with frames that wait there.
    point: bool,
}

/// The time that a placed request takes on a circle.
#[derive(Clone, Copy, Debug)]
struct Entry {
    class: usize,
    start: u64,
    length: u64,
}

#[derive(Clone, Debug, Default)]
struct Resource {
    entries: Vec<Entry>,
    /// The entries folded onto each period, if requested.
    folded: Vec<Option<Circle>>,
    /// True if any entry is more than a point.
    waits: bool,
}

/// The circles, and the requests placed on them.
#[derive(Clone, Debug)]
pub(crate) struct Board<'a> {
    requests: &'a [Request],
    /// All periods, ascending.
    periods: Vec<u64>,
    /// The place of each request's period.
    classes: Vec<usize>,
    resources: Vec<Resource>,
    placements: Vec<Option<Placement>>,
    /// The pieces of each request if launched at 0 without waiting. `None` if that would be late or too long.
    pieces: Vec<Option<Vec<Piece>>>,
    /// The pieces that can collide with anything. The memory is kept between questions.
    asked: Vec<Piece>,
}

impl<'a> Board<'a> {
    pub(crate) fn new(requests: &'a [Request], circles: usize) -> Board<'a> {
        let mut periods: Vec<u64> = requests.iter().map(|request| request.period_ns).collect();
        periods.sort_unstable();
        periods.dedup();
        let classes = requests
            .iter()
            .map(|request| periods.partition_point(|period| *period < request.period_ns))
            .collect();
        let pieces = requests
            .iter()
            .map(|request| {
                let placement = request.without_waiting(0)?;
                let pieces = request.pieces(&placement);
                let fits = pieces.iter().all(|piece| piece.length <= request.period_ns);
                (fits && request.in_time(&placement)).then_some(pieces)
            })
            .collect();
        let resource = Resource {
            entries: Vec::new(),
            folded: vec![None; periods.len()],
            waits: false,
        };
        Board {
            requests,
            periods,
            classes,
            resources: vec![resource; circles],
            placements: vec![None; requests.len()],
            pieces,
            asked: Vec::new(),
        }
    }

    /// Removes all placements.
    pub(crate) fn clear(&mut self) {
        for resource in &mut self.resources {
            resource.entries.clear();
            resource.folded.fill(None);
            resource.waits = false;
        }
        self.placements.fill(None);
    }

    pub(crate) fn placements(&self) -> &[Option<Placement>] {
        &self.placements
    }

    pub(crate) fn class(&self, request: usize) -> usize {
        self.classes[request]
    }

    fn copies(&self, class: usize, upon: usize) -> (u64, u64) {
        let around = self.periods[upon];
        let step = gcd(self.periods[class], around).max(1);
        (around / step, step)
    }

    /// Makes sure that a circle is folded onto a period.
    fn fold(&mut self, circle: usize, class: usize) {
        if self.resources[circle].folded[class].is_some() {
            return;
        }
        let around = self.periods[class];
        let mut pieces = Vec::with_capacity(self.resources[circle].entries.len());
        for entry in &self.resources[circle].entries {
            let (count, step) = self.copies(entry.class, class);
            for copy in 0..count {
                let start = entry.start % step + copy * step;
                let end = start + entry.length;
                pieces.push((start, end.min(around)));
                if end > around {
                    pieces.push((0, (end - around).min(around)));
                }
            }
        }
        let mut folded = Circle::default();
        folded.fill(pieces);
        self.resources[circle].folded[class] = Some(folded);
    }

    fn free(&self, circle: usize, class: usize, at: u64, length: u64, cursor: &mut usize) -> u64 {
        match &self.resources[circle].folded[class] {
            Some(folded) => folded.obstacle(at, length, self.periods[class], cursor),
            None => 0,
        }
    }

    /// Returns the first launch at or after `from`, below the period, without waiting and without a collision.
    pub(crate) fn first_fit(&mut self, request: usize, from: u64) -> Option<Placement> {
        let class = self.classes[request];
        let around = self.periods[class];
        let pieces = self.pieces[request].take()?;
        let mut asked = core::mem::take(&mut self.asked);
        asked.clear();
        asked.extend(
            pieces
                .iter()
                .filter(|piece| !piece.point || self.resources[piece.circle].waits),
        );
        for piece in &asked {
            self.fold(piece.circle, class);
        }
        let found = self.scan(&asked, class, around, from);
        self.asked = asked;
        self.pieces[request] = Some(pieces);
        self.requests[request].without_waiting(found?)
    }

    fn scan(&self, pieces: &[Piece], class: usize, around: u64, from: u64) -> Option<u64> {
        const FEW: usize = 32;
        let (mut few, mut many) = ([0_usize; FEW], Vec::new());
        let cursors = if pieces.len() <= FEW {
            &mut few[..pieces.len()]
        } else {
            many.resize(pieces.len(), 0);
            &mut many[..]
        };
        let (mut launch, mut good, mut next) = (from, 0, 0);
        while launch < around {
            let piece = pieces[next];
            let at = launch + piece.offset;
            let at = if at >= around { at - around } else { at };
            let ahead = self.free(piece.circle, class, at, piece.length, &mut cursors[next]);
            if ahead == 0 {
                good += 1;
                if good == pieces.len() {
                    return Some(launch);
                }
                next = if next + 1 == pieces.len() {
                    0
                } else {
                    next + 1
                };
            } else {
                launch += ahead;
                good = 0;
            }
        }
        None
    }

    /// True if a placement collides with nothing.
    pub(crate) fn fits(&mut self, request: usize, placement: &Placement) -> bool {
        let class = self.classes[request];
        let around = self.periods[class];
        let asked = &self.requests[request];
        if placement.starts_ns.len() != asked.hops.len() || !asked.in_time(placement) {
            return false;
        }
        let pieces = asked.pieces(placement);
        for piece in &pieces {
            self.fold(piece.circle, class);
        }
        pieces.iter().all(|piece| {
            piece.length <= around
                && self.free(piece.circle, class, piece.offset, piece.length, &mut 0) == 0
        })
    }

    /// Enters a request.
    pub(crate) fn place(&mut self, request: usize, placement: Placement) {
        let class = self.classes[request];
        for piece in self.requests[request].pieces(&placement) {
            self.resources[piece.circle].waits |= !piece.point;
            self.resources[piece.circle].entries.push(Entry {
                class,
                start: piece.offset,
                length: piece.length,
            });
            for upon in 0..self.periods.len() {
                let around = self.periods[upon];
                let (count, step) = self.copies(class, upon);
                let Some(folded) = &mut self.resources[piece.circle].folded[upon] else {
                    continue;
                };
                for copy in 0..count {
                    let start = piece.offset % step + copy * step;
                    folded.take(start, piece.length.min(around), around);
                }
            }
        }
        self.placements[request] = Some(placement);
    }

    /// Ends the upkeep of a period's circles, once all requests of that period are placed.
    pub(crate) fn forget(&mut self, class: usize) {
        for resource in &mut self.resources {
            resource.folded[class] = None;
        }
    }

    /// Returns a placement with frames that wait in switches. It is found by trying windows hop by hop.
    pub(crate) fn wait_fit(&mut self, request: usize, trials: u32) -> Option<Placement> {
        let asked = &self.requests[request];
        let class = self.classes[request];
        let around = self.periods[class];
        let root = asked.hops.first()?;
        if !asked.waits {
            return None;
        }
        for hop in &asked.hops {
            self.fold(hop.link, class);
            if let Some(queue) = hop.queue {
                self.fold(queue, class);
            }
        }
        let mut left = trials;
        let mut launch = 0;
        let mut cursor = 0;
        while launch < around && left > 0 {
            // The talker's own window, where it is free; then a little later, as long as it is.
            let at = (launch + root.late_ns) % around;
            let ahead = self.free(root.link, class, at, root.length_ns, &mut cursor);
            if ahead > 0 {
                launch += ahead;
                continue;
            }
            let mut placement = Placement {
                launch_ns: launch,
                starts_ns: Vec::with_capacity(asked.hops.len()),
            };
            if self.wait_from(request, &mut placement, &mut left) {
                return Some(placement);
            }
            left = left.saturating_sub(1);
            launch += (root.length_ns / 2).max(around / 512).max(1);
        }
        None
    }

    fn wait_from(&self, request: usize, placement: &mut Placement, left: &mut u32) -> bool {
        const WINDOWS: usize = 4;
        let asked = &self.requests[request];
        let class = self.classes[request];
        let around = self.periods[class];
        let Some(hop) = asked.hops.get(placement.starts_ns.len()) else {
            return true;
        };
        let from = match hop.before {
            Some(before) => placement.starts_ns[before],
            None => placement.launch_ns,
        };
        let latest = hop
            .latest_ns
            .map_or(u64::MAX / 2, |latest| {
                placement.launch_ns.saturating_add(latest)
            })
            // Nobody waits longer than a period on purpose.
            .min(from + hop.late_ns + around);
        let mut start = from + hop.late_ns;
        let mut cursor = 0;
        for _ in 0..WINDOWS {
            loop {
                let ahead = self.free(hop.link, class, start % around, hop.length_ns, &mut cursor);
                if ahead == 0 || start > latest {
                    break;
                }
                start += ahead;
            }
            if start > latest || *left == 0 {
                return false;
            }
            *left -= 1;
            let arrival = i128::from(from) + i128::from(hop.early_ns);
            let waiting = i128::from(start) + i128::from(hop.hold_ns) - arrival;
            if let Some(queue) = hop.queue {
                let length = u64::try_from(waiting).unwrap_or(0).max(1);
                // Below the period.
                let at = u64::try_from(arrival.rem_euclid(i128::from(around))).unwrap_or(0);
                if length > around || self.free(queue, class, at, length, &mut 0) > 0 {
                    // Waiting longer only takes more of the queue.
                    return false;
                }
            }
            placement.starts_ns.push(start);
            if self.wait_from(request, placement, left) {
                return true;
            }
            placement.starts_ns.pop();
            // At the talker the launch itself moves.
            if hop.before.is_none() {
                return false;
            }
            start += hop.length_ns.max(1);
        }
        false
    }
}
