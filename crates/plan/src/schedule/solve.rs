//! Finds a place for every request: first fit in a good order, then search.

use super::board::{Board, Placement, Request};

/// The effort of a search.
pub struct Effort<'a> {
    /// The largest number of rounds of search after the first.
    pub rounds: u32,
    /// The seed of the random numbers. The same seed leads to the same schedule.
    pub seed: u64,
    /// Called between rounds. If it returns false, the search ends with the best result so far.
    pub keep_going: &'a mut dyn FnMut() -> bool,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The placement of each request. `None` if no place was found.
    pub placements: Vec<Option<Placement>>,
    /// The number of rounds of search after the first.
    pub rounds: u32,
}

impl Solution {
    /// Returns the requests without a place.
    #[must_use]
    pub fn missing(&self) -> Vec<usize> {
        let list = self.placements.iter().enumerate();
        list.filter(|(_, placement)| placement.is_none())
            .map(|(index, _)| index)
            .collect()
    }
}

/// The largest number of trials of [`Board::wait_fit`] for one request.
const WAIT_TRIALS: u32 = 2_000;

/// The random numbers of a search (SplitMix64). A round must not depend on a library's version.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// Returns a number below `limit`; 0 for a limit of 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // Both are far below 64 bits.
        (z % (limit.max(1) as u64)) as usize
    }
}

/// Places requests on `circles` circles. The placements of `kept` stay where they are, and come first.
///
/// A kept placement is not used if it collides with another one or is late.
#[must_use]
pub fn solve(
    requests: &[Request],
    circles: usize,
    kept: &[Option<Placement>],
    effort: &mut Effort<'_>,
) -> Solution {
    let mut board = Board::new(requests, circles);
    let (mut movable, mut stays) = (Vec::new(), Vec::new());
    for index in 0..requests.len() {
        if keep(&mut board, index, kept) {
            stays.push(index);
        } else {
            movable.push(index);
        }
    }
    // Short periods first: a frame that comes often leaves few gaps that a rare one cannot use, not the other way round.
    // Long ways before short ones, large frames before small ones.
    movable.sort_by_key(|index| {
        let request = &requests[*index];
        let longest = request.hops.iter().map(|hop| hop.length_ns).max();
        (
            board.class(*index),
            core::cmp::Reverse(request.hops.len()),
            core::cmp::Reverse(longest),
            *index,
        )
    });
    let mut failed = round(&mut board, &movable, true);
    let mut best = board.placements().to_vec();
    let mut fewest = failed.len();
    let mut chance = Chance(effort.seed);
    let mut rounds = 0;
    let mut order = movable.clone();
    let mut stale = 0;
    while fewest > 0 && rounds < effort.rounds && (effort.keep_going)() {
        rounds += 1;
        // Those that found no place go to the front, by about half of the way that is left.
        for request in &failed {
            if let Some(at) = order.iter().position(|other| other == request) {
                let to = at.saturating_sub(1 + chance.below(at.max(1)));
                let moved = order.remove(at);
                order.insert(to, moved);
            }
        }
        if stale > 0 && stale % 20 == 0 {
            // Shake: what looked good has led nowhere for long.
            for _ in 0..1 + order.len() / 8 {
                let (a, b) = (chance.below(order.len()), chance.below(order.len()));
                order.swap(a, b);
            }
        }
        if stale >= 100 {
            order.clone_from(&movable);
            for _ in 0..order.len() / 4 {
                let at = chance.below(order.len().saturating_sub(1));
                order.swap(at, at + 1);
            }
            stale = 0;
        }
        board.clear();
        for &index in &stays {
            keep(&mut board, index, kept);
        }
        failed = round(&mut board, &order, false);
        if failed.len() < fewest {
            fewest = failed.len();
            best = board.placements().to_vec();
            stale = 0;
        } else {
            stale += 1;
        }
    }
    Solution {
        placements: best,
        rounds,
    }
}

fn keep(board: &mut Board<'_>, index: usize, kept: &[Option<Placement>]) -> bool {
    let Some(Some(placement)) = kept.get(index) else {
        return false;
    };
    let fits = board.fits(index, placement);
    if fits {
        board.place(index, placement.clone());
    }
    fits
}

/// Places all requests in this order. Returns those without a place.
fn round(board: &mut Board<'_>, order: &[usize], ascending: bool) -> Vec<usize> {
    let mut failed = Vec::new();
    let mut class = None;
    for &request in order {
        if ascending && class != Some(board.class(request)) {
            if let Some(done) = class.replace(board.class(request)) {
                board.forget(done);
            }
        }
        let found = board
            .first_fit(request, 0)
            .or_else(|| board.wait_fit(request, WAIT_TRIALS));
        match found {
            Some(placement) => board.place(request, placement),
            None => failed.push(request),
        }
    }
    failed
}
