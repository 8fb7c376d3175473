use super::*;

/// Numbers that repeat.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A card's clock beside CLOCK_TAI, both known exactly.
struct Simulated {
    card_ns: u64,
    tai_ns: u64,
    /// Gain of the card's clock, in parts per billion.
    gains_ppb: i64,
}

impl Simulated {
    fn after(&self, tai_ns: u64) -> u64 {
        let gained = i128::from(tai_ns) * i128::from(self.gains_ppb) / 1_000_000_000;
        self.card_ns + (i128::from(tai_ns) + gained) as u64
    }

    fn go(&mut self, tai_ns: u64) {
        self.card_ns = self.after(tai_ns);
        self.tai_ns += tai_ns;
    }

    /// Reads both with an error of at most `uncertainty_ns`.
    fn read(&self, numbers: &mut Numbers, uncertainty_ns: u64) -> Moment {
        let wrong = numbers.below(2 * uncertainty_ns + 1);
        Moment {
            card_ns: self.card_ns,
            tai_ns: self.tai_ns + wrong - uncertainty_ns,
            uncertainty_ns,
        }
    }
}

#[test]
fn no_stamp_is_further_off_than_the_error_that_was_measured() {
    for seed in 0..300 {
        let mut numbers = Numbers(seed);
        let mut clocks = Simulated {
            // A card that counts from its start, or the network's time.
            card_ns: if seed % 2 == 0 {
                77
            } else {
                1_700_000_037_000_000_000
            },
            tai_ns: 1_700_000_000_000_000_000,
            gains_ppb: numbers.below(200_001) as i64 - 100_000,
        };
        let uncertainty_ns = 1 + numbers.below(2_000);
        let (mut tracker, time) = (Tracker::default(), CardTime::default());
        let mut worst_ns = 0;
        for look in 0..60 {
            let relation = tracker.take(clocks.read(&mut numbers, uncertainty_ns));
            time.publish(relation, &tracker);
            if look < 3 {
                // The rate is not known yet.
                tracker.error_ns = 0;
                clocks.go(100_000_000);
                continue;
            }
            let every_ns = 100_000_000 + numbers.below(30_000_000);
            for _ in 0..10 {
                let later_ns = numbers.below(every_ns);
                let (card_ns, true_ns) = (clocks.after(later_ns), clocks.tai_ns + later_ns);
                worst_ns = worst_ns.max(time.tai_ns(card_ns).abs_diff(true_ns));
            }
            clocks.go(every_ns);
            // A daemon steers it.
            clocks.gains_ppb += numbers.below(2_001) as i64 - 1_000;
        }
        tracker.take(clocks.read(&mut numbers, uncertainty_ns));
        // Two divisions and the half of a reading are rounded.
        assert!(
            worst_ns <= tracker.error_ns + 3,
            "{seed}: {worst_ns} > {}",
            tracker.error_ns
        );
        // The claim is of use: without noise the rate leaves almost nothing.
        assert!(
            tracker.error_ns <= 6 * uncertainty_ns + 3_000,
            "{seed}: {}",
            tracker.error_ns
        );
        assert_eq!(tracker.set, 0);
    }
}

#[test]
fn a_clock_that_was_set_is_told_and_counts_as_an_error() {
    let mut tracker = Tracker::default();
    let at = |ms: u64, tai_ms: u64| Moment {
        card_ns: ms * 1_000_000,
        tai_ns: (1_000_000 + tai_ms) * 1_000_000,
        uncertainty_ns: 10,
    };
    for ms in [100, 200, 300] {
        tracker.take(at(ms, ms));
    }
    assert_eq!((tracker.set, tracker.error_ns), (0, 10));
    // CLOCK_REALTIME goes back by 50 ms.
    let relation = tracker.take(at(400, 350));
    assert_eq!((tracker.set, tracker.error_ns), (1, 50_000_010));
    // From here on the new relation holds.
    assert_eq!(relation.tai_ns(450_000_000), 1_000_400_000_000);
    assert_eq!(relation.rate, 0);
    // A card that begins again.
    let relation = tracker.take(at(1, 450));
    assert_eq!(relation.tai_ns(2_000_000), 1_000_451_000_000);
    assert_eq!(tracker.set, 2);
}

#[test]
fn readers_never_see_half_a_relation() {
    let time = CardTime::default();
    let relation = |number: u64| Relation {
        card_ns: number * 1_000_000,
        // The same line, told at different moments: what is mixed is off it.
        offset_ns: (number * 1_000) as i64,
        rate: 1_000_000_000,
    };
    time.publish(relation(1), &Tracker::default());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..200_000 {
                let tai_ns = time.tai_ns(5_000_000);
                assert_eq!(tai_ns, 5_005_000);
            }
        });
        let mut number = 2;
        while !reader.is_finished() {
            time.publish(relation(number), &Tracker::default());
            number += 1;
        }
    });
}
