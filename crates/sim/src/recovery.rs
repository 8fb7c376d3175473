//! The recovery of redundant streams: the vector recovery algorithm of IEEE Std 802.1CB-2017, 7.4.3.4, and a record of all
//! numbers that it passed.
//!
//! ```text
//! copy by one way ──┐
//!                   ├── VectorRecovery: a window of numbers ── passed ── Record: passed before? delay?
//! copy by the other ┘                                      └── discarded
//! ```

use std::collections::VecDeque;

/// Number of the latest sequence numbers that a record keeps.
const KEPT: u32 = 1 << 20;
/// The longest tick of the timer, ps. The timer may end that much early.
const TICK_PS: u64 = 10_000_000_000;

/// The decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The frame is passed on: its number is new.
    Pass,
    /// The frame is discarded: its number has been passed.
    Discard,
    /// The frame is discarded: its number is out of the window.
    Rogue,
}

/// The vector recovery algorithm of one listener.
#[derive(Clone, Debug)]
pub(crate) struct VectorRecovery {
    /// The flag of each number of the window, from the highest down: true if it was passed. Its length is the history's.
    history: VecDeque<bool>,
    /// The highest number that was passed.
    highest: u16,
    /// True if any number is taken next.
    take_any: bool,
    /// The earliest time after the last passed frame at which the function starts anew, ps.
    reset_ps: u64,
    passed_ps: u64,
}

impl VectorRecovery {
    /// Creates the function as it is after a reset. `reset_ms` is its timer's time.
    pub(crate) fn new(history_length: u32, reset_ms: u64) -> VectorRecovery {
        let length = usize::try_from(history_length.max(1)).unwrap_or(usize::MAX);
        VectorRecovery {
            history: VecDeque::from(vec![false; length]),
            highest: u16::MAX,
            take_any: true,
            reset_ps: reset_ms
                .saturating_mul(1_000_000_000)
                .saturating_sub(TICK_PS),
            passed_ps: 0,
        }
    }

    /// Starts the function anew.
    fn reset(&mut self) {
        self.history.iter_mut().for_each(|flag| *flag = false);
        self.highest = u16::MAX;
        self.take_any = true;
    }

    /// Decides about a frame that arrives at `now_ps`.
    pub(crate) fn receive(&mut self, number: u16, now_ps: u64) -> Decision {
        if !self.take_any && now_ps.saturating_sub(self.passed_ps) >= self.reset_ps {
            self.reset();
        }
        let length = i32::try_from(self.history.len()).unwrap_or(i32::MAX);
        // The shorter way around the circle of numbers: from -2^15 to 2^15 - 1.
        let ahead = i32::from(signed(number.wrapping_sub(self.highest)));
        if self.take_any {
            self.take_any = false;
            self.highest = number;
            self.history[0] = true;
        } else if ahead.abs() >= length {
            return Decision::Rogue;
        } else if ahead > 0 {
            for _ in 0..ahead {
                self.history.pop_back();
                self.history.push_front(false);
            }
            self.history[0] = true;
            self.highest = number;
        } else {
            // Within the window, as checked above.
            let flag = &mut self.history[ahead.unsigned_abs() as usize];
            if std::mem::replace(flag, true) {
                return Decision::Discard;
            }
        }
        self.passed_ps = now_ps;
        Decision::Pass
    }
}

/// Returns a difference of numbers as what it is the shorter way around.
const fn signed(difference: u16) -> i16 {
    i16::from_ne_bytes(difference.to_ne_bytes())
}

/// The results of a redundant stream at its listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverySeen {
    /// Frames that the talker sent, each counted once.
    pub sent: u64,
    /// Frames that the recovery function passed, each counted once.
    pub recovered: u64,
    /// Frames that it passed although it had passed them before.
    pub twice: u64,
    /// Frames that it passed out of their order.
    pub out_of_order: u64,
    /// Frames that it discarded because their number was out of its window.
    pub rogue: u64,
    /// Largest delay of a passed frame, from the instant at which the first of its copies was sent, ps.
    pub worst_ps: u64,
    /// Most frames that waited at once for an earlier one, if they were handed over in order. None waits for a frame whose
    /// promised time is over.
    pub waiting: u64,
}

/// One frame in a record.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    born_ps: u64,
    passed: bool,
}

/// The recovery function of a stream in a simulation, and the record of its frames.
#[derive(Clone, Debug)]
pub(crate) struct Recovering {
    function: VectorRecovery,
    /// The latest frames, from the number `first` on. The function does not see it.
    noted: VecDeque<Noted>,
    first: u32,
    /// The next number to hand over in order, and the number of passed frames that wait for it.
    next: u32,
    waiting: u64,
    /// The time after which a frame is not waited for, ps.
    delay_ps: u64,
    last: Option<u32>,
    seen: RecoverySeen,
}

impl Recovering {
    /// Creates the function, and an empty record. A frame is waited for until `delay_ps` after it was sent.
    pub(crate) fn new(history_length: u32, reset_ms: u64, delay_ps: u64) -> Recovering {
        Recovering {
            function: VectorRecovery::new(history_length, reset_ms),
            noted: VecDeque::new(),
            first: 0,
            next: 0,
            waiting: 0,
            delay_ps,
            last: None,
            seen: RecoverySeen::default(),
        }
    }

    pub(crate) fn seen(&self) -> &RecoverySeen {
        &self.seen
    }

    fn noted(&mut self, number: u32) -> Option<&mut Noted> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.noted.get_mut(at)
    }

    /// Notes that a copy of a frame is sent.
    pub(crate) fn sent(&mut self, number: u32, now_ps: u64) {
        // The copies of a stream have the same numbers in the same order, so a new one is the next one.
        if number == self.first.saturating_add(self.noted.len() as u32) {
            self.seen.sent += 1;
            self.noted.push_back(Noted {
                born_ps: now_ps,
                passed: false,
            });
            if self.noted.len() > KEPT as usize {
                self.noted.pop_front();
                self.first += 1;
            }
        }
    }

    /// Lets a copy arrive.
    pub(crate) fn arrives(&mut self, number: u32, born_ps: u64, now_ps: u64) {
        // Numbers on the wire have 16 bits.
        match self.function.receive((number & 0xffff) as u16, now_ps) {
            Decision::Pass => {}
            Decision::Discard => return,
            Decision::Rogue => {
                self.seen.rogue += 1;
                return;
            }
        }
        self.hand_over(now_ps);
        let next = self.next;
        let Some(noted) = self.noted(number) else {
            // So late that it is not known any more.
            self.seen.twice += 1;
            return;
        };
        let born_ps = born_ps.min(noted.born_ps);
        if std::mem::replace(&mut noted.passed, true) {
            self.seen.twice += 1;
            return;
        }
        self.seen.recovered += 1;
        self.seen.worst_ps = self.seen.worst_ps.max(now_ps - born_ps);
        self.seen.out_of_order += u64::from(self.last.is_some_and(|last| number < last));
        self.last = self.last.max(Some(number));
        if number >= next {
            self.waiting += 1;
            self.hand_over(now_ps);
        }
        self.seen.waiting = self.seen.waiting.max(self.waiting);
    }

    /// Hands over all frames in order up to the first one that may still come.
    fn hand_over(&mut self, now_ps: u64) {
        self.next = self.next.max(self.first);
        let delay_ps = self.delay_ps;
        let mut next = self.next;
        while let Some(noted) = self.noted(next).copied() {
            if noted.passed {
                self.waiting = self.waiting.saturating_sub(1);
            } else if now_ps <= noted.born_ps.saturating_add(delay_ps) {
                break;
            }
            next += 1;
        }
        self.next = next;
    }
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
