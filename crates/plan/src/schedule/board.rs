//! Requests for time, and the circles on which they are entered.

use super::circle::{Circle, gcd};

/// One port on the way of a frame. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The hop before it, an earlier one of the request; none at the talker.
    pub before: Option<usize>,
    /// The circle of the link that it sends on.
    pub link: usize,
    /// The circle of the queue that it waits in, where frames of others could.
    pub queue: Option<usize>,
    /// From the start of the window before (at the talker: from the launch) to the earliest arrival; negative where
    /// clocks may be so far apart.
    pub early_ns: i64,
    /// From the start of the window before (at the talker: from the launch) to the earliest start of its own window.
    pub late_ns: u64,
    /// For how long the link is taken from the start of the window on.
    pub length_ns: u64,
    /// For how long after the start of the window nobody else may wait in the queue.
    pub hold_ns: u64,
    /// Latest start of the window after the launch; none where any is good.
    pub latest_ns: Option<u64>,
}

/// No window begins later than a year after its launch: sums of such times stay in range.
const LATEST_NS: u64 = 31_536_000_000_000_000;

/// A stream that asks for a place in the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Nanoseconds between launches, at least 1.
    pub period_ns: u64,
    /// Every port on its way, those of one branch in order.
    pub hops: Vec<Hop>,
    /// Whether frames may wait for a window on purpose.
    pub waits: bool,
}

/// A place in the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The launch, nanoseconds after the start of a period.
    pub launch_ns: u64,
    /// By hop: start of the window, nanoseconds after the start of the launch's period.
    pub starts_ns: Vec<u64>,
}

impl Request {
    /// The windows of a launch where nothing waits on purpose; none beyond 64 bits.
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

    /// Whether each window begins when its frame is there for certain, and in time for what is behind it.
    ///
    /// What is placed here always does. A placement from elsewhere may be of a network that was faster, or of none.
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

    /// What a placement takes of which circle: start (modulo the period) and length.
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

/// Time taken of one circle.
#[derive(Clone, Copy, Debug)]
struct Piece {
    circle: usize,
    /// Below the request's period.
    offset: u64,
    length: u64,
    /// A frame that passes a queue without waiting: it meets only those that wait there.
    point: bool,
}

/// What a placed request takes of a circle.
#[derive(Clone, Copy, Debug)]
struct Entry {
    class: usize,
    start: u64,
    length: u64,
}

#[derive(Clone, Debug, Default)]
struct Resource {
    entries: Vec<Entry>,
    /// By period: the entries folded upon it, where somebody asked.
    folded: Vec<Option<Circle>>,
    /// Whether any entry is more than a point.
    waits: bool,
}

/// The circles, and what has been placed on them.
#[derive(Clone, Debug)]
pub(crate) struct Board<'a> {
    requests: &'a [Request],
    /// All periods, ascending.
    periods: Vec<u64>,
    /// By request: the place of its period.
    classes: Vec<usize>,
    resources: Vec<Resource>,
    placements: Vec<Option<Placement>>,
    /// What each request takes when launched at 0 without waiting; none where that would be late or too long.
    pieces: Vec<Option<Vec<Piece>>>,
    /// Kept from one question to the next: those of the pieces that anything can meet.
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

    /// Begin anew.
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

    /// Make sure that a circle is folded upon a period.
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

    /// The first launch at or after `from`, below the period, at which nothing waits and nothing meets.
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

    /// Whether a placement meets nothing.
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

    /// Enter a request.
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

    /// Nobody of this period is to come any more: its circles need not be kept up.
    pub(crate) fn forget(&mut self, class: usize) {
        for resource in &mut self.resources {
            resource.folded[class] = None;
        }
    }

    /// A placement with frames that wait in switches, found by trying windows hop by hop.
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
