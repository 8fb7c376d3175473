//! Synthesis against an enumeration of its own: every network within the options, each decided by `plan` from text.

mod brute;
mod examples;
mod hard;

use rtwire_plan::synthesize::{Certainty, MayChange, Objective, Synthesis, Synthesizing};
use rtwire_plan::{Network, Options, Refusal, edit, plan, read};

fn network(text: &str) -> Network {
    read(text, "t.toml", &[]).unwrap_or_else(|faults| panic!("{faults}\n{text}"))
}

/// Synthesizes with the usual effort.
fn synthesized(text: &str, may_change: MayChange, objective: Objective) -> (Synthesis, String) {
    synthesized_within(text, may_change, objective, None)
}

/// Synthesizes from a text. The changed text is planned from scratch, and its outcome is the report's.
fn synthesized_within(
    text: &str,
    may_change: MayChange,
    objective: Objective,
    most_plans: Option<u64>,
) -> (Synthesis, String) {
    let stated = network(text);
    let mut keep_going = |_: &_| true;
    let wanted = Synthesizing {
        may_change,
        objective,
        most_plans,
        stated_tick_errors: edit::streams_with(text, "tick-error"),
        ..Synthesizing::new(&mut keep_going)
    };
    let found = rtwire_plan::synthesize::synthesize(&stated, &Options::default(), wanted).unwrap();
    let settings: Vec<_> = found
        .report
        .changes
        .iter()
        .map(|one| one.setting())
        .collect();
    let changed = edit::set(text, &settings).unwrap();
    let mut again = network(&changed);
    let outcome = plan(&again, &Options::default());
    assert_eq!(
        outcome.is_ok(),
        found.report.certainty.fits(),
        "{:?}\n{changed}",
        found.report
    );
    // What the text says is what was planned in the search.
    again.input_hash.clone_from(&found.network.input_hash);
    assert_eq!(again, found.network, "{changed}");
    if found.report.certainty == Certainty::AsStated {
        assert_eq!(found.network, stated);
        assert_eq!(changed, text);
    }
    (found, changed)
}

fn refusal(text: &str) -> Refusal {
    plan(&network(text), &Options::default()).unwrap_err()
}
