//! The newest arrival notes of a packet socket or UDP socket: a ring in this process, of fixed memory.

use super::ArrivalNote;
use rtwire_link::program::MOST_NOTES;

/// Keeps the newest notes; counts those that were overwritten before they were shown.
#[derive(Debug)]
pub(super) struct NoteRing {
    notes: Box<[Option<ArrivalNote>]>,
    /// Notes written so far.
    noted: u64,
    /// Number of the next note to show.
    next: u64,
    missed: u64,
}

impl NoteRing {
    /// Creates a ring of `places` places, rounded up to a power of two; 0: it takes no notes.
    pub(super) fn new(places: usize) -> Self {
        let places = match places {
            0 => 0,
            places => places.min(MOST_NOTES).next_power_of_two(),
        };
        Self {
            notes: vec![None; places].into_boxed_slice(),
            noted: 0,
            next: 0,
            missed: 0,
        }
    }

    /// Adds a note, over the oldest one if the ring is full.
    #[inline]
    pub(super) fn push(&mut self, note: ArrivalNote) {
        let places = self.notes.len();
        if places == 0 {
            return;
        }
        self.notes[self.noted as usize & (places - 1)] = Some(note);
        self.noted += 1;
        if self.noted - self.next > places as u64 {
            self.next += 1;
            self.missed += 1;
        }
    }

    /// Shows the notes since the last call, oldest first; returns their number.
    pub(super) fn drain(&mut self, mut show: impl FnMut(ArrivalNote)) -> u64 {
        let mut shown = 0;
        while self.next < self.noted {
            let place = self.next as usize & (self.notes.len() - 1);
            self.next += 1;
            if let Some(note) = self.notes[place] {
                show(note);
                shown += 1;
            }
        }
        shown
    }

    pub(super) const fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::SourceAddress;
    use crate::stamp::StampPlace;
    use proptest::prelude::*;
    use rtwire_wire::MacAddress;

    fn note(sequence: u32) -> ArrivalNote {
        ArrivalNote {
            sequence,
            arrival_ns: u64::from(sequence) * 3,
            stamp: StampPlace::Kernel,
            sender_time_ns: None,
            source: SourceAddress::Mac(MacAddress([2; 6])),
            source_port: 7,
        }
    }

    proptest! {
        #[test]
        fn every_note_is_shown_once_in_order_or_counted(
            places in 0_usize..40,
            bursts in prop::collection::vec(0_u32..60, 1..30),
        ) {
            let mut ring = NoteRing::new(places);
            let room = match places {
                0 => 0,
                places => places.next_power_of_two() as u32,
            };
            let (mut pushed, mut missed) = (0, 0);
            for burst in bursts {
                let lost = if room == 0 { 0 } else { burst.saturating_sub(room) };
                let mut expected = (pushed + lost..pushed + burst).map(note);
                for sequence in pushed..pushed + burst {
                    ring.push(note(sequence));
                }
                pushed += burst;
                missed += u64::from(lost);
                let mut wrong = false;
                let shown = ring.drain(|note| wrong |= expected.next() != Some(note));
                prop_assert!(!wrong);
                prop_assert_eq!(shown, u64::from(burst.min(room)));
                prop_assert_eq!(ring.missed(), missed);
            }
        }
    }
}
