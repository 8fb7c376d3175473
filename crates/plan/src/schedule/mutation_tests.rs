//! Each term of a schedule by turn is left out, and the check by other means finds a window that is missed, or a promise is
//! less than what frames can do.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::check::faults;
use crate::bound::mutation::{Term, without};
use crate::{Network, Options, Plan, plan, read};

/// Terms without which a window is in the wrong place.
const WINDOWS: [Term; 10] = [
    Term::WindowSending,
    Term::WindowCable,
    Term::WindowLatency,
    Term::WindowHostLatency,
    Term::WindowClock,
    Term::WindowGain,
    Term::WindowGuard,
    Term::WindowEarly,
    Term::LaunchError,
    Term::LaunchBlocking,
];

/// All that is tried here.
pub(crate) fn tried() -> impl Iterator<Item = Term> {
    let promises = promises().into_iter().map(|case| case.term);
    WINDOWS.into_iter().chain(promises)
}

/// Talkers A, whose host sends 3 us late at worst, and B, through two gated switches to C; 100 Mbit/s, cables of 250 ns, clocks that are off by 500 ns,
/// best effort everywhere.
const CELL: &str = r#"
[network]
name = "cell"
[defaults]
link-rate = "100 Mbit/s"
clock-error = "500 ns"
[schedule]
best-effort-share = 10
[[switch]]
name = "s1"
latency = "2 us"
buffer = "256 KiB"
queues = 8
gates = "unlimited"
[[switch]]
name = "s2"
latency = "2 us"
buffer = "256 KiB"
queues = 8
gates = "unlimited"
[[host]]
name = "A"
latency = "3 us"
[[host]]
name = "B"
[[host]]
name = "C"
[[link]]
ends = ["A", "s1"]
cable-delay = "250 ns"
[[link]]
ends = ["B", "s1"]
cable-delay = "250 ns"
[[link]]
ends = ["s1", "s2"]
cable-delay = "250 ns"
[[link]]
ends = ["s2", "C"]
cable-delay = "250 ns"
[[best-effort]]
host = "A"
to = ["C"]
rate = "5 Mbit/s"
"#;

fn stream(name: &str, talker: &str, interval: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [\"C\"]\nframe = \"200 B\"\n\
         interval = \"{interval}\"\npriority = 7\nschedule = \"time-triggered\"\ntick-error = \"400 ns\"\n"
    )
}

/// One stream that meets best effort at its talker, and two talkers whose frames come to one queue one behind the other, where
/// poor clocks make it uncertain for longer than a window which is there first.
fn cells() -> [Network; 2] {
    let lone = network(&format!("{CELL}{}", stream("one", "A", "2 ms")));
    let streams = [stream("one", "A", "2 ms"), stream("two", "B", "2 ms")];
    let (quiet, _) = CELL.split_once("[[best-effort]]").unwrap();
    let poor = quiet.replace("clock-error = \"500 ns\"", "clock-error = \"20 us\"");
    [lone, network(&format!("{poor}{}", streams.concat()))]
}

fn network(text: &str) -> Network {
    read(text, "cell.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

fn planned(network: &Network) -> Plan {
    plan(network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[test]
fn without_any_term_of_a_window_some_frame_misses_it_or_another_is_in_its_way() {
    let cells = cells();
    for network in &cells {
        assert_eq!(faults(network, &planned(network)), Vec::<String>::new());
    }
    for term in WINDOWS {
        let found = cells
            .iter()
            .any(|network| !faults(network, &without(term, || planned(network))).is_empty());
        assert!(found, "{term:?}: left out, and nothing is found");
    }
}

/// What a promise of a stream at its listener is at least.
struct Promised {
    term: Term,
    network: Network,
    /// Of the delay or of the jitter.
    of: fn(&Plan) -> u64,
    reached_ns: u64,
    how: &'static str,
}

fn delay(plan: &Plan) -> u64 {
    plan.streams[0].promises[0].delay_ns.unwrap()
}

fn jitter(plan: &Plan) -> u64 {
    plan.streams[0].promises[0].jitter_ns.unwrap()
}

fn promises() -> Vec<Promised> {
    // A gated talker, one switch; a frame of 200 B is 17.92 us on the wire.
    let gated = r#"
[network]
name = "gated"
[defaults]
link-rate = "100 Mbit/s"
clock-error = "500 ns"
[[switch]]
name = "s1"
latency = "2 us"
buffer = "256 KiB"
queues = 8
gates = "unlimited"
[[host]]
name = "A"
gates = "i225"
[[host]]
name = "C"
[[link]]
ends = ["A", "s1"]
[[link]]
ends = ["s1", "C"]
"#;
    // From host to host, where nothing is scheduled but the launch.
    let direct = r#"
[network]
name = "direct"
[defaults]
link-rate = "100 Mbit/s"
clock-error = "500 ns"
[[host]]
name = "A"
[[host]]
name = "C"
[[link]]
ends = ["A", "C"]
[[best-effort]]
host = "A"
to = ["C"]
frame = "1514 B"
rate = "1 Mbit/s"
"#;
    let gated = || network(&format!("{gated}{}", stream("one", "A", "2 ms")));
    let direct = || network(&format!("{direct}{}", stream("one", "A", "2 ms")));
    vec![
        Promised {
            term: Term::DelayClock,
            network: gated(),
            of: delay,
            reached_ns: 400 + 2 * 17_920 + 1_000 + 2_000 + 1_000,
            how: "a late launch; sending twice; the window is 3 us behind the arrival; a talker's clock that is ahead, a switch's behind",
        },
        Promised {
            term: Term::JitterLaunch,
            network: gated(),
            of: jitter,
            reached_ns: 400 + 2 * 1_000,
            how: "a launch in time and a late one; the clocks of both ends, each way",
        },
        Promised {
            term: Term::JitterClock,
            network: gated(),
            of: jitter,
            reached_ns: 400 + 2 * 1_000,
            how: "the same",
        },
        Promised {
            term: Term::JitterBlocking,
            network: direct(),
            of: jitter,
            reached_ns: 400 + 123_040,
            how: "a late launch behind a full frame of best effort, and one with nothing before it",
        },
    ]
}

#[test]
fn without_any_term_of_a_scheduled_promise_frames_do_worse_than_it() {
    for case in promises() {
        let whole = (case.of)(&planned(&case.network));
        assert!(
            whole >= case.reached_ns,
            "{:?}: {whole} of {}, {}",
            case.term,
            case.reached_ns,
            case.how
        );
        let less = without(case.term, || (case.of)(&planned(&case.network)));
        assert!(
            less < case.reached_ns,
            "{:?}: left out, the promise is {less} ns, and {} ({}) does not show it",
            case.term,
            case.reached_ns,
            case.how
        );
    }
}
