//! Sequence numbers of 16 bits: gaps, duplicates, old ones, and a sender that began anew.

/// Numbers behind the expected one that count as old; further ones count as ahead (Part 14, 7.2.3).
const OLD: u16 = 0xc000;
/// Consecutive numbers behind the expected one after which the sender counts as started anew.
const RESTART: u8 = 3;

/// The verdict on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first number, or the next one.
    Next,
    /// Numbers are missing before it.
    Gap {
        /// Their number.
        missing: u16,
    },
    /// The number came before.
    Duplicate,
    /// An older number.
    Old,
    /// The sender began anew with this number.
    Restart,
}

impl Order {
    /// Returns true where the message is to be taken.
    #[must_use]
    pub const fn is_taken(self) -> bool {
        matches!(self, Self::Next | Self::Gap { .. } | Self::Restart)
    }
}

/// The numbers that came so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    last: Option<u16>,
    /// The last old number, and how many of them came in a row.
    old: Option<(u16, u8)>,
}

impl Sequence {
    /// Judges a number of a message that carries data.
    pub fn take(&mut self, number: u16) -> Order {
        let Some(last) = self.last else {
            self.last = Some(number);
            return Order::Next;
        };
        let ahead = number.wrapping_sub(last);
        match ahead {
            0 => Order::Duplicate,
            1..OLD => {
                self.last = Some(number);
                self.old = None;
                match ahead - 1 {
                    0 => Order::Next,
                    missing => Order::Gap { missing },
                }
            }
            _ => self.behind(number),
        }
    }

    fn behind(&mut self, number: u16) -> Order {
        let row = match self.old {
            Some((before, row)) if before.wrapping_add(1) == number => row + 1,
            _ => 1,
        };
        if row < RESTART {
            self.old = Some((number, row));
            return Order::Old;
        }
        self.last = Some(number);
        self.old = None;
        Order::Restart
    }

    /// Notes the number of a keep-alive, which is that of the next message. Returns the numbers missing before it.
    pub fn expects(&mut self, next: u16) -> u16 {
        let last = next.wrapping_sub(1);
        let missing = self.last.map_or(0, |known| last.wrapping_sub(known));
        if missing >= OLD {
            return 0;
        }
        self.last = Some(last);
        missing
    }

    /// Forgets all: the next number is the first.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Sequence};

    #[test]
    fn each_order_is_told() {
        let mut sequence = Sequence::default();
        for (number, order) in [
            (65_534, Order::Next),
            (65_535, Order::Next),
            (0, Order::Next),
            (0, Order::Duplicate),
            (65_535, Order::Old),
            (3, Order::Gap { missing: 2 }),
            (2, Order::Old),
            (4, Order::Next),
        ] {
            assert_eq!(sequence.take(number), order, "{number}");
        }
    }

    #[test]
    fn a_sender_that_began_anew_is_taken_after_three() {
        let mut sequence = Sequence::default();
        sequence.take(5_000);
        let orders = [0, 1, 2, 3].map(|number| sequence.take(number));
        assert_eq!(
            orders,
            [Order::Old, Order::Old, Order::Restart, Order::Next]
        );
    }

    #[test]
    fn a_keep_alive_tells_what_was_lost() {
        let mut sequence = Sequence::default();
        sequence.take(7);
        assert_eq!(sequence.expects(8), 0);
        assert_eq!(sequence.expects(10), 2);
        assert_eq!(sequence.take(10), Order::Next);
        assert_eq!(sequence.expects(4), 0, "an old keep-alive tells nothing");
        assert_eq!(sequence.take(11), Order::Next);
    }
}
