//! Schedules of whole networks: the plan's values, refusals with reasons, and moves when streams are added.

use std::collections::BTreeMap;

use rtwire_plan::schedule::Scheduling;
use rtwire_plan::schedule::check::faults;
use rtwire_plan::{Launch, Network, Options, Plan, Refusal, plan, plan_with, read};

const CELL: &str = include_str!("../../../examples/scheduled-cell.toml");

fn network(text: &str) -> Network {
    read(text, "test.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

fn planned(network: &Network) -> Plan {
    plan(network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn launches(plan: &Plan) -> BTreeMap<String, Launch> {
    let streams = plan.streams.iter();
    streams
        .filter_map(|stream| Some((stream.name.clone(), stream.launch.clone()?)))
        .collect()
}

#[test]
fn the_example_is_scheduled() {
    let network = network(CELL);
    let plan = planned(&network);
    assert_eq!(faults(&network, &plan), Vec::<String>::new());
    for port in &plan.ports {
        if let Some(list) = &port.gates {
            let sum: u64 = list.entries.iter().map(|entry| entry.duration_ns).sum();
            assert_eq!(sum, list.cycle_ns);
            assert!(list.unscheduled_open_ns * 100 >= list.cycle_ns * 40);
        }
    }
    // Set-points: two hops of 2 us and 1 us of clocks, three times 1008 ns, 250 ns of cable, 1 us of clocks at the end.
    let promise = &plan.streams[0].promises[0];
    assert_eq!(promise.delay_ns, Some(2 * 3_000 + 3 * 1_008 + 250 + 1_000));
    assert_eq!(promise.jitter_ns, Some(2_000));
}

fn with_stream(text: &str, name: &str, interval: &str) -> String {
    format!(
        "{text}\n[[stream]]\nname = \"{name}\"\ntalker = \"drive-2\"\nlisteners = [\"controller\", \"drive-1\"]\n\
         payload = \"300 B\"\ninterval = \"{interval}\"\npriority = 7\nschedule = \"time-triggered\"\n"
    )
}

#[test]
fn adding_a_stream_moves_no_other() {
    let mut text = CELL.replace("entries = 64", "entries = 512");
    let mut before = planned(&network(&text));
    for (at, interval) in ["2 ms", "500 us", "1 ms", "250 us", "4 ms"]
        .into_iter()
        .enumerate()
    {
        text = with_stream(&text, &format!("new-{at}"), interval);
        let network = network(&text);
        let mut go_on = || true;
        let mut scheduling = Scheduling::new(&mut go_on).keeping(&before);
        let after = plan_with(&network, &Options::default(), &mut scheduling)
            .unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(faults(&network, &after), Vec::<String>::new());
        let now = launches(&after);
        for (name, launch) in launches(&before) {
            assert_eq!(now.get(&name), Some(&launch), "{name} moved");
        }
        assert_eq!(now.len(), launches(&before).len() + 1);
        assert_eq!(after.warnings, Vec::<String>::new());
        before = after;
    }
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let network = network(CELL);
    assert_eq!(planned(&network), planned(&network));
}

/// Returns two switches at 100 Mbit/s; `{}` is replaced by streams.
fn small(top: &str, gates: &str, streams: &str) -> Network {
    network(&format!(
        "[network]\nname = \"small\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\nclock-error = \"0 ns\"\n{top}\n\
         [[switch]]\nname = \"s1\"\nbuffer = \"64 KiB\"\nqueues = 8\ngates = \"{gates}\"\n\
         [[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[host]]\nname = \"C\"\n\
         [[link]]\nends = [\"A\", \"s1\"]\n[[link]]\nends = [\"B\", \"s1\"]\n[[link]]\nends = [\"s1\", \"C\"]\n{streams}"
    ))
}

fn stream(name: &str, talker: &str, frame: u64, interval: &str, more: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [\"C\"]\nframe = \"{frame} B\"\n\
         interval = \"{interval}\"\npriority = 7\nschedule = \"time-triggered\"\n{more}\n"
    )
}

fn refusal(network: &Network) -> Refusal {
    match plan(network, &Options::default()) {
        Ok(_) => panic!("it is planned"),
        Err(refusal) => refusal,
    }
}

#[track_caller]
fn says(refusal: &Refusal, parts: &[&str]) {
    let text = refusal.to_string();
    for part in parts {
        assert!(text.contains(part), "\"{part}\" is missing in:\n{text}");
    }
}

#[test]
fn an_overfull_link_is_named_with_what_is_too_much() {
    let streams = stream("one", "A", 1514, "200 us", "") + &stream("two", "B", 1514, "200 us", "");
    let network = small("[schedule]\nbest-effort-share = 0", "unlimited", &streams);
    let refusal = refusal(&network);
    // Twice 123.04 us in 200 us.
    says(
        &refusal,
        &[
            "port s1>C: time-triggered frames (one, two) need 246.08 µs of each cycle of 200 µs, but only 200 µs is available: 46.08 µs too much",
            "rate = \"1 Gbit/s\" for the link between \"s1\" and \"C\"",
        ],
    );
}

#[test]
fn intervals_that_never_keep_apart_are_named() {
    let streams = stream("one", "A", 1514, "300 us", "") + &stream("two", "B", 1514, "400 us", "");
    let network = small("[schedule]\nbest-effort-share = 0", "unlimited", &streams);
    says(
        &refusal(&network),
        &[
            "port s1>C: \"one\" and \"two\" collide at any offset: the common divisor of their intervals is 100 µs, but both frames need 246.08 µs: 146.08 µs too little",
            "interval = \"400 µs\" for \"one\"",
        ],
    );
}

#[test]
fn a_cycle_that_is_too_long_is_named() {
    let streams = stream("one", "A", 60, "999999937 ns", "") + &stream("two", "B", 60, "1 s", "");
    let network = small("", "unlimited", &streams);
    says(
        &refusal(&network),
        &["port s1>C: the least common multiple of all intervals is "],
    );
    let streams = stream("one", "A", 60, "700 ms", "") + &stream("two", "B", 60, "500 ms", "");
    let network = small("", "unlimited", &streams);
    says(
        &refusal(&network),
        &[
            "port s1>C: the least common multiple of all intervals is 3.5 s with 12 windows, but the longest cycle is 1 s: 2.5 s too long",
            "interval = \"700 ms\" for \"two\"",
        ],
    );
}

#[test]
fn entries_beyond_the_hardware_are_counted() {
    let profile =
        "[[gate-profile]]\nname = \"few\"\nentries = 5\n[schedule]\nbest-effort-share = 97";
    let streams = stream("one", "A", 60, "1 ms", "") + &stream("two", "B", 60, "500 us", "");
    let network = small(profile, "few", &streams);
    says(&refusal(&network), &["port s1>C: "]);
    let profile =
        "[[gate-profile]]\nname = \"two\"\nentries = 2\n[schedule]\nbest-effort-share = 0";
    let network = small(profile, "two", &streams);
    says(
        &refusal(&network),
        &[
            "port s1>C: its gate list needs ",
            " entries but holds 2: ",
            "gates with ",
        ],
    );
}

/// Tests that windows are not kept if they come too early now: their network had better clocks or faster switches.
#[test]
fn places_of_another_network_are_not_kept() {
    let before = planned(&network(CELL));
    let worse_clocks = CELL.replace("clock-error = \"500 ns\"", "clock-error = \"700 ns\"");
    let slower = CELL.replace("latency = \"2 us\"", "latency = \"3 us\"");
    for text in [worse_clocks, slower] {
        assert_ne!(text, CELL);
        let network = network(&text);
        let mut go_on = || true;
        let mut scheduling = Scheduling::new(&mut go_on).keeping(&before);
        let after = plan_with(&network, &Options::default(), &mut scheduling)
            .unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(faults(&network, &after), Vec::<String>::new());
        assert!(after.warnings.iter().any(|text| text.contains("has moved")));
    }
}

/// Tests that nothing is promised from arbitrary numbers in a kept plan, and that nothing panics.
#[test]
fn absurd_places_are_not_kept() {
    let network = network(CELL);
    let good = planned(&network);
    let numbers = [
        0,
        1,
        999,
        1_000_000_000,
        u64::MAX / 2,
        u64::MAX - 1,
        u64::MAX,
    ];
    for number in numbers {
        for what in 0..4 {
            let mut kept = good.clone();
            let launches = kept.streams.iter_mut().filter_map(|it| it.launch.as_mut());
            for launch in launches {
                match what {
                    0 => launch.offset_ns = number,
                    1 => launch.windows[0].start_ns = number,
                    2 => launch.windows.last_mut().unwrap().start_ns = number,
                    _ => launch
                        .windows
                        .iter_mut()
                        .for_each(|window| window.start_ns = number),
                }
            }
            let mut go_on = || true;
            let mut scheduling = Scheduling::new(&mut go_on).keeping(&kept);
            let after = plan_with(&network, &Options::default(), &mut scheduling)
                .unwrap_or_else(|refusal| panic!("{refusal}"));
            assert_eq!(
                faults(&network, &after),
                Vec::<String>::new(),
                "{what} {number}"
            );
        }
    }
}

/// Tests one more stream, whose windows do not fit the hardware beside those that stay.
#[test]
fn what_stays_keeps_to_the_hardware_or_moves_when_it_may() {
    let profile = "[[gate-profile]]\nname = \"few\"\nentries = 2\nguard-band = \"built-in\"\n\
         [schedule]\nbest-effort-share = 60";
    let one = stream("one", "A", 60, "1 ms", "");
    let before = planned(&small(profile, "few", &one));
    // In the middle, where the place of a second one leaves two gaps.
    let mut kept = before.clone();
    let launch = kept.streams[0].launch.as_mut().unwrap();
    launch.offset_ns += 500_000;
    for window in &mut launch.windows {
        window.start_ns += 500_000;
    }
    let other = "[[stream]]\nname = \"other\"\ntalker = \"B\"\nlisteners = [\"C\"]\nframe = \"60 B\"\n\
         interval = \"1 ms\"\npriority = 0\n";
    let two = one.clone() + &stream("two", "B", 60, "1 ms", "") + other;
    let network = small(profile, "few", &two);
    let try_with = |moves: bool| {
        let mut go_on = || true;
        let mut scheduling = Scheduling::new(&mut go_on).keeping(&kept);
        scheduling.moves = moves;
        plan_with(&network, &Options::default(), &mut scheduling)
    };
    let refused = try_with(false).unwrap_err();
    says(&refused, &["port s1>C: its gate list needs ", "holds 2"]);
    let moved = try_with(true).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(faults(&network, &moved), Vec::<String>::new());
    assert!(
        moved.warnings.iter().any(|text| text.contains("has moved")),
        "{:?}",
        moved.warnings
    );
}

#[test]
fn a_share_for_others_that_windows_do_not_leave_is_named() {
    let streams = stream("one", "A", 1514, "200 us", "");
    let network = small("[schedule]\nbest-effort-share = 35", "unlimited", &streams);
    // 123.04 us and a guard band of 123.36 us would be more than all: nothing is left open.
    says(
        &refusal(&network),
        &[
            "port s1>C: scheduled frames and guard bands leave other traffic 0 ns of each cycle of 200 µs, but its share is 70 µs: 70 µs too little",
            "best-effort-share = 0, in place of 35",
        ],
    );
}

#[test]
fn a_deadline_and_a_jitter_beyond_reach_are_named_with_what_would_do() {
    let streams = stream("one", "A", 1514, "1 ms", "deadline = \"100 us\"");
    let network = small("", "unlimited", &streams);
    says(
        &refusal(&network),
        &[
            "stream \"one\" to C: worst-case delay 246.08 µs exceeds the deadline 100 µs by 146.08 µs",
            "deadline = \"246.08 µs\" for \"one\"",
        ],
    );
    let streams = stream("one", "A", 60, "1 ms", "jitter = \"1 us\"");
    let mut network = small("", "unlimited", &streams);
    network.schedule.clock_error_ns = 500;
    says(
        &refusal(&network),
        &[
            "stream \"one\" to C: its frames' delays differ by up to 2 µs, but the `jitter` limit is 1 µs: 1 µs too much",
            "jitter = \"2 µs\" for \"one\"",
        ],
    );
}

/// Tries all schedules of small networks of whole nanoseconds. The heuristic never claims an impossible schedule, and
/// finds nearly all possible ones.
#[test]
fn small_instances_agree_with_trying_everything() {
    use rtwire_plan::schedule::board::{Hop, Request};
    use rtwire_plan::schedule::solve::{Effort, solve};

    fn gcd(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    fn meet(a: &Request, at: u64, b: &Request, bt: u64) -> bool {
        let common = gcd(a.period_ns, b.period_ns);
        let (one, other) = (
            a.without_waiting(at).unwrap(),
            b.without_waiting(bt).unwrap(),
        );
        a.hops.iter().zip(&one.starts_ns).any(|(hop, start)| {
            b.hops.iter().zip(&other.starts_ns).any(|(theirs, begin)| {
                let behind = (start % common + common - begin % common) % common;
                hop.link == theirs.link
                    && (behind < theirs.length_ns || common - behind < hop.length_ns)
            })
        })
    }
    fn possible(requests: &[Request], placed: &mut Vec<u64>) -> bool {
        let Some(next) = requests.get(placed.len()) else {
            return true;
        };
        for launch in 0..next.period_ns {
            if (0..placed.len()).all(|at| !meet(next, launch, &requests[at], placed[at])) {
                placed.push(launch);
                if possible(requests, placed) {
                    return true;
                }
                placed.pop();
            }
        }
        false
    }
    let mut state = 99_u64;
    let mut below = |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let (mut feasible, mut found) = (0, 0);
    for _ in 0..400 {
        let count = 3 + below(4);
        let requests: Vec<Request> = (0..count)
            .map(|_| {
                let period_ns = [4, 6, 8, 12][below(4) as usize];
                let sending = 1 + below(2);
                let first = below(3) as usize;
                let hops = (0..2 + below(2) as usize)
                    .map(|at| Hop {
                        before: at.checked_sub(1),
                        link: (first + at) % 4,
                        queue: None,
                        early_ns: 0,
                        late_ns: if at == 0 { 0 } else { sending },
                        length_ns: sending,
                        hold_ns: 0,
                        latest_ns: None,
                    })
                    .collect();
                Request {
                    period_ns,
                    hops,
                    waits: false,
                }
            })
            .collect();
        let is_possible = possible(&requests, &mut Vec::new());
        let mut effort = Effort {
            rounds: 200,
            seed: 1,
            keep_going: &mut || true,
        };
        let solution = solve(&requests, 4, &[], &mut effort);
        let solved = solution.missing().is_empty();
        assert!(is_possible || !solved, "{requests:?}");
        if solved {
            for (at, one) in solution.placements.iter().enumerate() {
                for (other, two) in solution.placements.iter().enumerate().take(at) {
                    let (one, two) = (
                        one.as_ref().unwrap().launch_ns,
                        two.as_ref().unwrap().launch_ns,
                    );
                    assert!(!meet(&requests[at], one, &requests[other], two));
                }
            }
        }
        feasible += u32::from(is_possible);
        found += u32::from(solved);
    }
    println!("{found} of {feasible} possible instances solved");
    assert!(feasible > 50 && feasible < 400);
    assert!(found * 20 >= feasible * 19, "{found} of {feasible}");
}
