//! The account of a ping: the fate of every serial number. No I/O; constant memory for any duration.

use std::cmp::Ordering;

use hdrhistogram::Histogram;
use rtwire_measure::noise::OwnCall;

/// The most numbers that are followed at a time.
pub(crate) const WINDOW: u64 = 1 << 16;
/// The longest round trip in the histogram, ns; longer ones count as this long there (not in `max`).
const LONGEST_NS: u64 = 60_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unused,
    Waiting,
    Answered,
    Lost,
}

/// A number that is followed.
#[derive(Clone, Copy, Debug)]
struct Entry {
    sent_ns: u64,
    state: State,
    /// The core that sent it.
    core: u32,
    /// The duration of the send call, ns.
    call_ns: u64,
}

/// A question that was answered after the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    pub(crate) number: u64,
    pub(crate) sent_ns: u64,
    pub(crate) core: u32,
    /// Its send call.
    pub(crate) call: OwnCall,
}

/// Counts; `sent = answered + late + lost + waiting` at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    /// Numbers answered in time.
    pub(crate) answered: u64,
    /// Numbers answered after they were given up.
    pub(crate) late: u64,
    /// Numbers given up and not answered since.
    pub(crate) lost: u64,
    /// Numbers neither answered nor given up yet.
    pub(crate) waiting: u64,
    /// Answers to numbers that were answered before.
    pub(crate) duplicate: u64,
    /// Answers that arrived after the answer to a later number.
    pub(crate) reordered: u64,
    /// Answers to numbers that are not followed, or no longer.
    pub(crate) unknown: u64,
    /// Answers (in time or late) after the deadline.
    pub(crate) over_deadline: u64,
}

/// Follows numbers from 0 on. On the wire they have 32 bits.
pub(crate) struct Account {
    states: Vec<Entry>,
    counts: Counts,
    /// The number before which all are answered or given up.
    settled: u64,
    /// The highest number answered, plus one.
    highest: u64,
    timeout_ns: u64,
    deadline_ns: Option<u64>,
    round_trips: Histogram<u64>,
    max_ns: u64,
    /// The duration that nine of ten send calls do not exceed, ns, as it runs; 0 before the first.
    usual_call_ns: u64,
}

impl Account {
    pub(crate) fn new(timeout_ns: u64, deadline_ns: Option<u64>) -> Self {
        // Three digits, so at most 0.1 % wrong. These bounds are valid, so the histogram can always be made.
        let round_trips = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .unwrap_or_else(|error| unreachable!("fixed bounds: {error}"));
        Self {
            states: vec![
                Entry {
                    sent_ns: 0,
                    state: State::Unused,
                    core: 0,
                    call_ns: 0,
                };
                WINDOW as usize
            ],
            counts: Counts::default(),
            settled: 0,
            highest: 0,
            timeout_ns,
            deadline_ns,
            round_trips,
            max_ns: 0,
            usual_call_ns: 0,
        }
    }

    fn entry(&mut self, number: u64) -> &mut Entry {
        &mut self.states[(number % WINDOW) as usize]
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of the next question.
    pub(crate) fn next(&self) -> u64 {
        self.counts.sent
    }

    /// Notes that the next question is sent now, by this core.
    pub(crate) fn sent(&mut self, now_ns: u64, core: u32) {
        let number = self.counts.sent;
        // The window wraps: a number still waiting then is given up, whatever the timeout.
        while self.settled + WINDOW <= number {
            self.give_up_oldest();
        }
        *self.entry(number) = Entry {
            sent_ns: now_ns,
            state: State::Waiting,
            core,
            call_ns: 0,
        };
        self.counts.sent += 1;
        self.counts.waiting += 1;
    }

    /// Notes that the send call of the last question has returned.
    pub(crate) fn handed_over(&mut self, now_ns: u64) {
        let Some(number) = self.counts.sent.checked_sub(1) else {
            return;
        };
        let entry = self.entry(number);
        entry.call_ns = now_ns.saturating_sub(entry.sent_ns);
        let call_ns = entry.call_ns;
        let usual_ns = &mut self.usual_call_ns;
        // Nine steps up for each one down: where a tenth is longer, it stays. It halves within some hundred calls.
        let step_ns = *usual_ns / 512 + 1;
        *usual_ns = match call_ns.cmp(usual_ns) {
            _ if *usual_ns == 0 => call_ns,
            Ordering::Greater => *usual_ns + 9 * step_ns,
            Ordering::Less => *usual_ns - step_ns.min(*usual_ns - 1),
            Ordering::Equal => *usual_ns,
        };
    }

    fn give_up_oldest(&mut self) {
        let number = self.settled;
        self.settled += 1;
        let entry = self.entry(number);
        if entry.state == State::Waiting {
            entry.state = State::Lost;
            self.counts.waiting -= 1;
            self.counts.lost += 1;
        }
    }

    /// Counts numbers as lost that waited longer than the timeout.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        while self.settled < self.counts.sent {
            let Entry { sent_ns, state, .. } = *self.entry(self.settled);
            if state == State::Waiting && now_ns.saturating_sub(sent_ns) <= self.timeout_ns {
                break;
            }
            self.give_up_oldest();
        }
    }

    /// Notes an answer with the low 32 bits of its number. Returns the question if the answer came after the
    /// deadline.
    pub(crate) fn answered(&mut self, sequence: u32, now_ns: u64) -> Option<Overdue> {
        let next = self.counts.sent;
        let behind = u64::from((next as u32).wrapping_sub(sequence));
        if behind == 0 || behind > next || behind > WINDOW {
            self.counts.unknown += 1;
            return None;
        }
        let number = next - behind;
        let Entry {
            sent_ns,
            state,
            core,
            call_ns,
        } = *self.entry(number);
        match state {
            State::Unused => {
                self.counts.unknown += 1;
                return None;
            }
            State::Answered => {
                self.counts.duplicate += 1;
                return None;
            }
            State::Waiting => {
                self.counts.waiting -= 1;
                if now_ns.saturating_sub(sent_ns) <= self.timeout_ns {
                    self.counts.answered += 1;
                } else {
                    self.counts.late += 1;
                }
            }
            State::Lost => {
                self.counts.lost -= 1;
                self.counts.late += 1;
            }
        }
        self.entry(number).state = State::Answered;
        if number + 1 < self.highest {
            self.counts.reordered += 1;
        }
        self.highest = self.highest.max(number + 1);
        let round_trip = now_ns.saturating_sub(sent_ns);
        self.max_ns = self.max_ns.max(round_trip);
        self.round_trips
            .saturating_record(round_trip.clamp(1, LONGEST_NS));
        let late = self
            .deadline_ns
            .is_some_and(|deadline| round_trip > deadline);
        self.counts.over_deadline += u64::from(late);
        late.then_some(Overdue {
            number,
            sent_ns,
            core,
            call: OwnCall {
                took_ns: call_ns,
                usual_ns: self.usual_call_ns,
            },
        })
    }

    /// Returns minimum, p50, p99, p99.9 and maximum of all round trips, ns; `None` before the first.
    pub(crate) fn round_trips(&self) -> Option<[u64; 5]> {
        let histogram = &self.round_trips;
        if histogram.is_empty() {
            return None;
        }
        // The histogram rounds up within a step; no round trip exceeds the exact maximum.
        let at = |quantile| histogram.value_at_quantile(quantile).min(self.max_ns);
        Some([histogram.min(), at(0.5), at(0.99), at(0.999), self.max_ns])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums_up(account: &Account) {
        let counts = account.counts();
        assert_eq!(
            counts.sent,
            counts.answered + counts.late + counts.lost + counts.waiting,
            "{counts:?}"
        );
    }

    #[test]
    fn every_number_becomes_one_thing() {
        let mut account = Account::new(1000, Some(50));
        for number in 0..6 {
            account.sent(number * 100, 0);
        }
        account.answered(0, 10); // in time
        account.answered(0, 20); // again
        account.answered(2, 260); // in time, over the deadline
        account.answered(1, 270); // behind 2, over the deadline
        account.answered(6, 600); // never asked
        account.answered(u32::MAX, 600); // before the first
        account.expire(1400); // 3 has waited 1100, 4 only 1000: that is in time
        sums_up(&account);
        assert_eq!((account.counts().lost, account.counts().waiting), (1, 2));
        account.answered(3, 1500); // late
        account.expire(5000);
        sums_up(&account);
        let expected = Counts {
            sent: 6,
            answered: 3,
            late: 1,
            lost: 2,
            waiting: 0,
            duplicate: 1,
            reordered: 1,
            unknown: 2,
            over_deadline: 3,
        };
        assert_eq!(account.counts(), expected);
        assert_eq!(
            account.round_trips().map(|all| (all[0], all[4])),
            Some((10, 1200))
        );
    }

    #[test]
    fn the_usual_send_call_is_what_nine_of_ten_do_not_exceed() {
        let mut account = Account::new(1_000_000, Some(0));
        let mut now_ns = 0;
        for (short_ns, tenths_long, usual_ns) in [
            (60_000, 0, 60_000),
            (20_000, 3, 80_000),
            (400_000, 2, 1_600_000),
            (10_000, 0, 10_000),
        ] {
            let mut last = OwnCall::default();
            for number in 0..4000 {
                let long = number * 7 % 10 < tenths_long;
                let call_ns = if long { 4 } else { 1 } * short_ns;
                account.sent(now_ns, 0);
                account.handed_over(now_ns + call_ns);
                now_ns += 10_000_000;
                let sequence = account.next() as u32 - 1;
                last = account.answered(sequence, now_ns).unwrap().call;
                assert_eq!(last.took_ns, call_ns);
            }
            let near = usual_ns - usual_ns / 8..=usual_ns + usual_ns / 8;
            assert!(near.contains(&last.usual_ns), "{usual_ns}: {last:?}");
        }
    }

    #[test]
    fn a_window_that_comes_around_gives_the_oldest_up() {
        let mut account = Account::new(u64::MAX, None);
        for now in 0..WINDOW + 10 {
            account.sent(now, 0);
        }
        assert_eq!(account.counts().lost, 10);
        account.answered(9, WINDOW + 10);
        assert_eq!(account.counts().unknown, 1, "its place is another's");
        account.answered(10, WINDOW + 10);
        sums_up(&account);
        assert_eq!(account.counts().answered, 1);
    }

    #[test]
    fn numbers_go_on_over_the_wrap() {
        let mut account = Account::new(1000, None);
        account.counts.sent = (1 << 32) - 2;
        account.counts.answered = (1 << 32) - 2;
        account.settled = (1 << 32) - 2;
        for now in 0..4 {
            account.sent(now, 0);
        }
        for sequence in [u32::MAX - 1, u32::MAX, 0, 1] {
            account.answered(sequence, 10);
        }
        sums_up(&account);
        assert_eq!((account.counts().waiting, account.counts().unknown), (0, 0));
    }
}
