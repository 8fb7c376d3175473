//! Omits each term of a schedule in turn.
//!
//! Either the check by other means finds a missed window, or a promise is below a delay that frames can reach.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::check::faults;
use crate::bound::mutation::{Term, without};
use crate::{Network, Options, Plan, plan, read};

/// The terms without which a window is in the wrong place.
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

/// Returns all terms that are tried here.
pub(crate) fn tried() -> impl Iterator<Item = Term> {
    let promises = promises().into_iter().map(|case| case.term);
    WINDOWS.into_iter().chain(promises)
}

/// Returns the head of a description: clocks with this error, links of 100 Mbit/s.
fn head(clock_error: &str) -> String {
    format!(
        "[network]\nname = \"cell\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\nclock-error = \"{clock_error}\"\n\
         [schedule]\nbest-effort-share = 10\n"
    )
}

/// Returns a gated switch with a latency of up to 2 us.
fn switch(name: &str) -> String {
    format!(
        "[[switch]]\nname = \"{name}\"\nlatency = \"2 us\"\nbuffer = \"256 KiB\"\nqueues = 8\ngates = \"unlimited\"\n"
    )
}

fn host(name: &str, more: &str) -> String {
    format!("[[host]]\nname = \"{name}\"\n{more}\n")
}

fn link(a: &str, b: &str, cable: &str) -> String {
    format!("[[link]]\nends = [\"{a}\", \"{b}\"]\ncable-delay = \"{cable}\"\n")
}

/// Best-effort traffic from A to C.
const BEST_EFFORT: &str = "[[best-effort]]\nhost = \"A\"\nto = [\"C\"]\n";

/// Returns talkers A and B, which send through two gated switches to C, over cables of 250 ns. Host A sends 3 us late
/// at worst.
fn cell(clock_error: &str) -> String {
    let cable = "250 ns";
    [
        head(clock_error),
        switch("s1"),
        switch("s2"),
        host("A", "latency = \"3 us\""),
        host("B", ""),
        host("C", ""),
        link("A", "s1", cable),
        link("B", "s1", cable),
        link("s1", "s2", cable),
        link("s2", "C", cable),
    ]
    .concat()
}

fn stream(name: &str, talker: &str, interval: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [\"C\"]\nframe = \"200 B\"\n\
         interval = \"{interval}\"\npriority = 7\nschedule = \"time-triggered\"\ntick-error = \"400 ns\"\n"
    )
}

/// Returns two networks.
///
/// In the first, one stream meets best effort at its talker. In the second, frames of two talkers follow each other in
/// one queue. Poor clocks make the time of their arrival uncertain by more than the window that is there first.
fn cells() -> [Network; 2] {
    let one = stream("one", "A", "2 ms");
    let lone = [
        cell("500 ns"),
        format!("{BEST_EFFORT}rate = \"5 Mbit/s\"\n"),
        one.clone(),
    ];
    let poor = [cell("20 us"), one, stream("two", "B", "2 ms")];
    [network(&lone.concat()), network(&poor.concat())]
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

/// A lower limit for a stream's promise at its listener.
struct Promised {
    term: Term,
    network: Network,
    /// Returns the promised delay or jitter.
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
    let gated = || {
        let text = [
            head("500 ns"),
            switch("s1"),
            host("A", "gates = \"i225\""),
            host("C", ""),
            link("A", "s1", "0 ns"),
            link("s1", "C", "0 ns"),
            stream("one", "A", "2 ms"),
        ];
        network(&text.concat())
    };
    // From host to host, where nothing is scheduled but the launch.
    let direct = || {
        let text = [
            head("500 ns"),
            host("A", ""),
            host("C", ""),
            link("A", "C", "0 ns"),
            format!("{BEST_EFFORT}frame = \"1514 B\"\nrate = \"1 Mbit/s\"\n"),
            stream("one", "A", "2 ms"),
        ];
        network(&text.concat())
    };
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
