//! Tests of the recovery of redundant streams: the second simulator moves the frames, and two recovery functions of the tests
//! judge what comes, one with the planned window, one that remembers everything.

mod networks;

use std::collections::BTreeSet;

use rtwire_plan::{Network, Options, Plan, Recovery, plan, read};

use networks::{random_ring, ring};

use crate::simulator::{Arrival, Behaviour, Broken, Dice, Outcome, simulate_broken};

const HORIZON_PS: u128 = 25_000_000_000;
const MS: u128 = 1_000_000_000;

/// The window of a recovery function, on numbers without an end (IEEE Std 802.1CB-2017, 7.4.3.4).
struct Window {
    length: i64,
    reset_ps: u128,
    highest: Option<i64>,
    taken: BTreeSet<i64>,
    last_ps: u128,
}

impl Window {
    fn new(length: u32, reset_ms: u64) -> Window {
        Window {
            length: i64::from(length),
            // The timer counts ticks of up to 10 ms and may begin with a part of one.
            reset_ps: (u128::from(reset_ms) - 10) * MS,
            highest: None,
            taken: BTreeSet::new(),
            last_ps: 0,
        }
    }

    fn passes(&mut self, number: usize, at_ps: u128) -> bool {
        let number = i64::try_from(number).unwrap();
        if at_ps - self.last_ps >= self.reset_ps {
            self.highest = None;
            self.taken.clear();
        }
        let passes = match self.highest {
            None => true,
            Some(highest) if (number - highest).abs() >= self.length => false,
            Some(_) => !self.taken.contains(&number),
        };
        if passes {
            self.highest = self.highest.max(Some(number));
            self.taken.insert(number);
            self.last_ps = at_ps;
        }
        passes
    }
}

/// The outcome of a stream behind a recovery function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Judged {
    lost: usize,
    twice: usize,
    /// The largest delay of the first copy to come, ps.
    worst_ps: u128,
    /// The longest jump of numbers against the highest one before.
    apart: i64,
    /// The longest time from the first copy of a frame to its second one, ps.
    between_ps: u128,
    /// The most frames that waited for an earlier one that came.
    waiting: usize,
    /// True if the match algorithm, too, passes each frame once.
    matched: bool,
}

/// Judges what comes of one redundant stream. `None` if a frame came by neither way.
fn judge(outcome: &Outcome, copies: [usize; 2], history: u32, reset_ms: u64) -> Option<Judged> {
    let sent = &outcome.sent_ps[copies[0]];
    let own = outcome.arrivals.iter();
    let own: Vec<Arrival> = own
        .filter(|one| copies.contains(&one.flow))
        .copied()
        .collect();
    let mut first: Vec<Option<u128>> = vec![None; sent.len()];
    let mut passed = vec![0_usize; sent.len()];
    let mut matched = vec![0_usize; sent.len()];
    let mut window = Window::new(history, reset_ms);
    let (mut judged, mut highest, mut last) = (Judged::default(), None::<i64>, None);
    for one in &own {
        let number = i64::try_from(one.number).unwrap();
        match first[one.number] {
            None => first[one.number] = Some(one.at_ps),
            Some(before) => judged.between_ps = judged.between_ps.max(one.at_ps - before),
        }
        if let Some(highest) = highest {
            judged.apart = judged.apart.max((number - highest).abs());
        }
        highest = highest.max(Some(number));
        passed[one.number] += usize::from(window.passes(one.number, one.at_ps));
        matched[one.number] += usize::from(last.replace(one.number) != Some(one.number));
    }
    let first: Option<Vec<u128>> = first.into_iter().collect();
    let first = first?;
    for (number, count) in passed.iter().enumerate() {
        judged.lost += usize::from(*count == 0);
        judged.twice += count.saturating_sub(1);
        judged.worst_ps = judged.worst_ps.max(first[number] - sent[number]);
    }
    judged.matched = matched.iter().all(|count| *count == 1);
    // Whoever comes before a frame with a lower number waits for it.
    for (number, came) in first.iter().enumerate() {
        let missing = first[..number]
            .iter()
            .filter(|before| *before > came)
            .count();
        if missing > 0 {
            let lowest = first.iter().position(|at| at > came).unwrap();
            let waits = first[lowest + 1..].iter().filter(|at| *at <= came).count();
            judged.waiting = judged.waiting.max(waits);
        }
    }
    Some(judged)
}

fn planned(network: &Network) -> Plan {
    let options = Options {
        ignore_limits: true,
        ..Options::default()
    };
    plan(network, &options).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// The flows of a redundant stream, and its recovery.
fn recoveries(plan: &Plan) -> Vec<([usize; 2], Recovery)> {
    let at = |name: &str| plan.streams.iter().position(|it| it.name == name).unwrap();
    let all = plan.streams.iter().filter_map(|it| it.recovery.clone());
    all.map(|it| ([at(&it.ways[0].stream), at(&it.ways[1].stream)], it))
        .collect()
}

/// Breaks both directions of a random link between switches on a way.
fn broken(plan: &Plan, flow: usize, from_ps: u128, until_ps: u128, dice: &mut Dice) -> Vec<Broken> {
    let route = &plan.streams[flow].promises[0].route;
    let at = 1 + usize::try_from(dice.below(route.len() as u64 - 3)).unwrap();
    let (one, other) = (route[at].clone(), route[at + 1].clone());
    let both = [(one.clone(), other.clone()), (other, one)];
    both.map(|ends| Broken {
        ends,
        from_ps,
        until_ps,
    })
    .to_vec()
}

/// Returns the breaks of each case: none, either way for ever, and one way that is repaired long before the other breaks.
fn cases(
    plan: &Plan,
    copies: [usize; 2],
    recovery: &Recovery,
    dice: &mut Dice,
) -> Vec<Vec<Broken>> {
    let [one, other] = copies;
    let moment = |dice: &mut Dice| u128::from(dice.below(8_000_000_000));
    let mut list = vec![Vec::new()];
    for way in [one, other] {
        let from = moment(dice);
        list.push(broken(plan, way, from, u128::MAX, dice));
    }
    for [early, late] in [[one, other], [other, one]] {
        let (from, length) = (moment(dice), moment(dice) / 2);
        let repaired = from + length;
        // What was lost on one way has come by the other when that breaks.
        let then = repaired + u128::from(recovery.delay_ns) * 1_000 + moment(dice) / 4;
        let mut both = broken(plan, early, from, repaired, dice);
        both.extend(broken(plan, late, then, u128::MAX, dice));
        list.push(both);
    }
    list
}

/// Each frame comes once and within its promise, whichever way is broken. The planned figures are near what is needed.
#[test]
fn redundant_streams_are_recovered_in_random_networks() {
    let seeds = std::env::var("RTWIRE_SIMULATIONS").map_or(250, |count| count.parse().unwrap());
    let (mut judged, mut skipped, mut delays, mut shorter_fails, mut exact) = (0, 0, 0, 0, 0);
    let (mut full, mut matches, mut no_match, mut buffers) = (0, 0, 0, 0);
    let (mut needed, mut streams) = (Vec::new(), 0);
    for seed in 0..seeds {
        let mut dice = Dice::new(seed + 1);
        let text = random_ring(&mut dice);
        let network = read(&text, "ring.toml", &[]).unwrap_or_else(|it| panic!("{it}\n{text}"));
        let plan = planned(&network);
        for (copies, recovery) in recoveries(&plan) {
            streams += 1;
            let (history, reset) = (recovery.history_length, recovery.reset_ms);
            let (mut used, mut shorter, mut apart, mut waiting) = (0, false, 0, 0);
            let mut matched = true;
            for behaviour in [Behaviour::Greedy, Behaviour::Random, Behaviour::Random] {
                for breaks in cases(&plan, copies, &recovery, &mut dice) {
                    let outcome =
                        simulate_broken(&network, behaviour, HORIZON_PS, &mut dice, &breaks);
                    let Some(found) = judge(&outcome, copies, history, reset) else {
                        skipped += 1;
                        continue;
                    };
                    judged += 1;
                    let told = format!(
                        "seed {seed}, {behaviour:?}: {found:?}\n{recovery:?}\n{breaks:?}\n{text}"
                    );
                    assert_eq!((found.lost, found.twice), (0, 0), "{told}");
                    let promised = u128::from(recovery.delay_ns) * 1_000;
                    assert!(found.worst_ps <= promised, "{told}");
                    assert!(
                        found.between_ps <= u128::from(recovery.lag_ns) * 1_000,
                        "{told}"
                    );
                    assert!(
                        found.waiting as u64 <= recovery.resequencing_frames,
                        "{told}"
                    );
                    assert!(found.matched || !recovery.match_suffices, "{told}");
                    arrivals_are_within(&outcome, copies, &recovery, &told);
                    used = used.max(found.worst_ps * 100 / promised.max(1));
                    apart = apart.max(found.apart);
                    waiting = waiting.max(found.waiting as u64);
                    matched &= found.matched;
                    let less = judge(&outcome, copies, history - 1, reset).unwrap();
                    shorter |= (less.lost, less.twice) != (0, 0);
                }
            }
            delays += usize::from(used >= 80);
            shorter_fails += usize::from(shorter);
            exact += usize::from(apart + 1 == i64::from(history));
            full += usize::from(waiting == recovery.resequencing_frames && waiting > 0);
            buffers += usize::from(recovery.resequencing_frames > 0);
            matches += usize::from(recovery.match_suffices);
            no_match += usize::from(!matched);
            needed.push((apart + 1) as f64 / f64::from(history));
        }
    }
    needed.sort_by(f64::total_cmp);
    println!(
        "{streams} redundant streams, {judged} simulations, {skipped} without a way; \
         {delays} used 80 % of their promise; history needed / planned: median {:.2}, {exact} all of it; \
         one less fails for {shorter_fails}; buffer full for {full} of {buffers}; \
         match suffices for {matches}, fails for {no_match}",
        needed[needed.len() / 2]
    );
    assert!(judged > 10 * skipped.max(100), "{judged}, {skipped}");
    assert!(delays * 4 >= streams, "{delays} of {streams}");
    assert!(
        exact * 10 >= streams && shorter_fails * 20 >= streams,
        "{exact}, {shorter_fails}"
    );
    assert!(full * 10 >= buffers, "{full} of {buffers}");
    assert!(
        matches * 10 >= streams && no_match * 10 >= streams,
        "{matches}, {no_match}"
    );
}

/// The delays by each way are within what the plan states, the least one too.
fn arrivals_are_within(outcome: &Outcome, copies: [usize; 2], recovery: &Recovery, told: &str) {
    for one in &outcome.arrivals {
        let Some(at) = copies.iter().position(|copy| *copy == one.flow) else {
            continue;
        };
        let (way, delay) = (
            &recovery.ways[at],
            one.at_ps - outcome.sent_ps[one.flow][one.number],
        );
        assert!(
            u128::from(way.least_delay_ns) * 1_000 <= delay
                && delay <= u128::from(way.delay_ns) * 1_000,
            "{} ps by {way:?}: {told}",
            delay
        );
    }
}

/// Figures by hand. One frame is alone on its way, but for its copy on the shared links at both ends.
#[test]
fn the_figures_of_a_ring_follow_by_hand() {
    let network = ring(1_000, 3_000, "");
    let plan = planned(&network);
    let [(_, recovery)] = &recoveries(&plan)[..] else {
        panic!("{plan:?}")
    };
    // 84 bytes on the wire take 6.72 us. By the near way: three links, two switches of 5 us; by the far way five links, four
    // switches and the cable. At most one frame of the other copy comes before at the talker, and at the last switch.
    let least = [3 * 6_720 + 2 * 5_000, 5 * 6_720 + 4 * 5_000 + 3_000_000];
    for (way, least) in recovery.ways.iter().zip(least) {
        assert_eq!(way.least_delay_ns, least);
        assert!(
            way.delay_ns >= least && way.delay_ns <= least + 2 * 6_720,
            "{way:?}"
        );
    }
    assert_eq!(recovery.delay_ns, recovery.ways[1].delay_ns);
    assert_eq!(recovery.lag_ns, recovery.ways[1].delay_ns - least[0]);
    // 3.0 ms and a little: four frames, one at each end.
    assert_eq!(
        (recovery.history_length, recovery.resequencing_frames),
        (5, 3)
    );
    assert_eq!(recovery.resequencing_bytes, 180);
    assert_eq!(recovery.reset_ms, 4 + 10);
    assert!(!recovery.match_suffices);
    // With one frame in 4 ms the copies of one do not meet those of the next.
    let (_, slow) = recoveries(&planned(&ring(4_000, 3_000, ""))).remove(0);
    assert!(slow.match_suffices);
    assert_eq!((slow.history_length, slow.resequencing_frames), (2, 0));
}

/// The near way breaks and is repaired; then the far way breaks. A history of one number less discards all frames of the
/// repaired way as too far ahead, and nothing is left when the other one breaks.
#[test]
fn a_history_one_shorter_loses_the_way_that_was_repaired() {
    let network = ring(1_000, 3_000, "");
    let plan = planned(&network);
    let (copies, recovery) = recoveries(&plan).remove(0);
    let breaks: Vec<Broken> = [
        ("s0", "s1", 5 * MS + MS / 2, 10 * MS + MS / 2),
        ("s3", "s0", 18 * MS, u128::MAX),
    ]
    .into_iter()
    .flat_map(|(a, b, from_ps, until_ps)| {
        [(a, b), (b, a)].map(|(a, b)| Broken {
            ends: (a.to_owned(), b.to_owned()),
            from_ps,
            until_ps,
        })
    })
    .collect();
    let outcome = simulate_broken(
        &network,
        Behaviour::Greedy,
        HORIZON_PS,
        &mut Dice::new(1),
        &breaks,
    );
    let of = |history: u32| judge(&outcome, copies, history, recovery.reset_ms).unwrap();
    let good = of(recovery.history_length);
    assert_eq!((good.lost, good.twice), (0, 0), "{good:?}");
    let bad = of(recovery.history_length - 1);
    assert!(bad.lost > 0, "{bad:?}");
}

/// A listener whose timer is too short takes the late copy for a new frame.
#[test]
fn a_reset_within_the_lag_passes_frames_twice() {
    let network = ring(20_000, 12_000, "");
    let plan = planned(&network);
    let (copies, recovery) = recoveries(&plan).remove(0);
    assert_eq!(recovery.reset_ms, 13 + 10);
    let outcome = simulate_broken(
        &network,
        Behaviour::Greedy,
        100 * MS,
        &mut Dice::new(1),
        &[],
    );
    let of = |reset_ms: u64| judge(&outcome, copies, recovery.history_length, reset_ms).unwrap();
    assert_eq!((of(23).lost, of(23).twice), (0, 0));
    assert_eq!((of(22).lost, of(22).twice), (0, 6), "{:?}", of(22));
}

/// Time-triggered copies are launched apart. The promise counts from the first launch, and the limits hold for it.
#[test]
fn copies_that_are_launched_apart_count_from_the_first_launch() {
    let timed = |more: &str| {
        ring(
            1_000,
            100,
            &format!("priority = 7\nschedule = \"time-triggered\"\n{more}"),
        )
    };
    let plan_of = |more: &str| plan(&timed(more), &Options::default());
    let plan = plan_of("").unwrap();
    let [(copies, recovery)] = &recoveries(&plan)[..] else {
        panic!("{plan:?}")
    };
    let launches = copies.map(|copy| plan.streams[copy].launch.as_ref().unwrap().offset_ns);
    let first = launches.into_iter().min().unwrap();
    for (copy, (launch, way)) in copies.iter().zip(launches.into_iter().zip(&recovery.ways)) {
        let own = plan.streams[*copy].promises[0].delay_ns.unwrap();
        let clocks = 2 * plan.network.schedule.clock_error_ns
            + plan.network.streams[*copy].contract.tick_error_ns;
        let apart = launch - first;
        assert!(way.delay_ns >= own + apart, "{way:?}");
        assert!(way.delay_ns <= own + apart + clocks, "{way:?}");
    }
    assert_ne!(launches[0], launches[1]);
    assert_eq!(recovery.history_length, 2);
    // Each copy keeps 30 us of jitter, both together do not: the far way is 100 us longer.
    let jitter = plan.streams[copies[0]].promises[0].jitter_ns.unwrap();
    let refusal = plan_of(&format!("jitter = \"{jitter} ns\""))
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("when a way breaks"), "{refusal}");
    assert!(plan_of(&format!("jitter = \"{} ns\"", recovery.jitter_ns)).is_ok());
}

/// Frames so close together, and ways so far apart, that numbers of 16 bits come round within the lag.
#[test]
fn numbers_that_come_round_within_the_lag_are_refused() {
    let network = ring(20, 700_000, "");
    let refusal = plan(&network, &Options::default()).unwrap_err().to_string();
    assert!(
        refusal.contains("tell at most 32\u{a0}767 apart"),
        "{refusal}"
    );
    assert!(plan(&ring(20, 600_000, ""), &Options::default()).is_ok());
}
