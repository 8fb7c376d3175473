//! Evidence whose arrivals have a card's stamps.

use rtwire_measure::stamp_origin::StampOrigin;

use super::*;

/// One kernel, and a card whose clock was known to some µs: what a delay is beyond by less is not settled.
#[test]
fn the_error_of_a_card_s_clock_is_a_term_of_each_delay() {
    let stamped = |delay_ns: u64, error_ns: Option<u64>| {
        let mut files = both(|_| delay_ns, 0);
        for file in &mut files {
            file.evidence.account.header.boot_id = "one".to_owned();
        }
        let account = &mut files[1].evidence.account;
        account.header.stamps = Some(StampOrigin::card(0, 100, Some(-3_000)));
        account.marks.push(Mark {
            at_ns: START,
            card_error_ns: error_ns,
            clock: None,
        });
        files
    };
    assert_eq!(judged(&stamped(US, Some(300))).0, Verdict::Kept);
    is(&stamped(3_400 * US, Some(300)), Verdict::Broken, "PHC 0");
    is(
        &stamped(3_400 * US, Some(5_000 * US)),
        Verdict::Inconclusive,
        "the 5.000 ms by which the clocks",
    );
    is(
        &stamped(US, None),
        Verdict::Inconclusive,
        "Nobody knows how far",
    );
}
