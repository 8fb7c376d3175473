//! Tests of the vector recovery algorithm by itself.

use super::{Decision, Recovering, VectorRecovery};

const FAR: u64 = 1_000_000;

fn all(function: &mut VectorRecovery, numbers: &[u16]) -> Vec<Decision> {
    let decide = |number: &u16| function.receive(*number, 0);
    numbers.iter().map(decide).collect()
}

#[test]
fn each_number_of_the_window_passes_once() {
    use Decision::{Discard, Pass, Rogue};
    let mut function = VectorRecovery::new(4, FAR);
    // The first one is taken, whatever it is; older ones of the window have not been seen.
    let numbers = [7, 7, 5, 4, 3, 8, 8, 10, 9, 9, 7, 6, 13, 14, 9];
    let decided = all(&mut function, &numbers);
    assert_eq!(
        decided,
        [
            Pass, Discard, Pass, Pass, Rogue, Pass, Discard, Pass, Pass, Discard, Discard, Rogue,
            Pass, Pass, Rogue
        ]
    );
}

#[test]
fn numbers_go_round() {
    use Decision::{Discard, Pass};
    let mut function = VectorRecovery::new(3, FAR);
    let decided = all(&mut function, &[65_534, 65_535, 0, 65_535, 1, 0]);
    assert_eq!(decided, [Pass, Pass, Pass, Discard, Pass, Discard]);
}

#[test]
fn a_jump_of_the_whole_history_is_out_of_the_window() {
    use Decision::{Pass, Rogue};
    let mut function = VectorRecovery::new(3, FAR);
    assert_eq!(
        all(&mut function, &[0, 3, 2, 5]),
        [Pass, Rogue, Pass, Rogue]
    );
}

#[test]
fn the_timer_starts_it_anew_and_what_it_discards_does_not_hold_the_timer() {
    let mut function = VectorRecovery::new(4, 110);
    let ms = 1_000_000_000;
    assert_eq!(function.receive(1000, 0), Decision::Pass);
    assert_eq!(function.receive(0, 50 * ms), Decision::Rogue);
    assert_eq!(function.receive(1, 99 * ms), Decision::Rogue);
    // A tick of 10 ms early.
    assert_eq!(function.receive(2, 100 * ms), Decision::Pass);
    assert_eq!(function.receive(2, 101 * ms), Decision::Discard);
}

#[test]
fn the_record_counts_what_the_function_does_wrong() {
    // A history of one number: an older one is out of the window, and a repeated one of a new start passes twice.
    let ms = 1_000_000_000;
    let mut recovering = Recovering::new(1, 11, 100 * ms);
    for number in 0..3 {
        recovering.sent(number, 0);
        recovering.sent(number, 0);
    }
    recovering.arrives(0, 0, ms);
    recovering.arrives(1, 0, ms);
    recovering.arrives(0, 0, 3 * ms);
    let seen = recovering.seen();
    assert_eq!(
        (seen.sent, seen.recovered, seen.twice, seen.rogue),
        (3, 1, 1, 1)
    );
    assert_eq!(seen.worst_ps, ms);
}

#[test]
fn what_waits_for_an_earlier_frame_is_counted() {
    let mut recovering = Recovering::new(8, FAR, 10);
    for number in 0..6 {
        recovering.sent(number, u64::from(number));
    }
    recovering.arrives(0, 0, 6);
    // 2 and 3 wait for 1.
    recovering.arrives(2, 2, 7);
    recovering.arrives(3, 3, 8);
    recovering.arrives(1, 1, 9);
    assert_eq!(recovering.seen().waiting, 2);
    // 4 does not come. Behind its time, 5 does not wait for it.
    recovering.arrives(5, 5, 20);
    assert_eq!(
        (recovering.seen().waiting, recovering.seen().out_of_order),
        (2, 1)
    );
}
