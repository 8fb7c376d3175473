//! Tests that no promise behind credits is broken, against one port played by the letter of 802.1Q, 8.6.8.2.
//!
//! It shares nothing with the planner. Schedules are drawn, and then changed as long as one stream's delay grows.

use crate::simulator::Dice;

use std::collections::VecDeque;
use std::fmt::Write as _;

use rtwire_plan::{Options, plan, read};

const CLASSES: usize = 4;
const LINK_BPS: u64 = 100_000_000;
const INPUT_BPS: u64 = 1_000_000_000;
const PS: u64 = 1_000_000_000_000;
/// Before the first arrival.
const BASE_PS: u64 = 10 * PS / 1_000;

struct Stream {
    class: usize,
    bits: u64,
    /// Bits at once, and the time after which each further one may follow.
    burst_frames: u64,
    gap_ps: u64,
}

/// One switch with a link to the listener. Each stream comes from a host of its own.
struct Case {
    text: String,
    streams: Vec<Stream>,
    slopes: [Option<u64>; CLASSES],
}

fn pick<T: Copy>(dice: &mut Dice, list: &[T]) -> T {
    list[usize::try_from(dice.below(list.len() as u64)).unwrap()]
}

fn case(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let mut text = format!(
        "[network]\nname = \"credits\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
         [[switch]]\nname = \"s\"\nbuffer = \"100 MB\"\nqueues = {CLASSES}\n[[host]]\nname = \"l\"\n[[link]]\nends = [\"s\", \"l\"]\n"
    );
    let credits = 1 + dice.below(3);
    let mut streams = Vec::new();
    let mut rates = [0; CLASSES];
    for number in 0..3 + dice.below(5) {
        let class = pick(&mut dice, &[0, 0, 1, 2, 3, 3]);
        let frame = pick(&mut dice, &[64, 100, 200, 500, 1000, 1514]);
        let bits = (frame + 24) * 8;
        let gap_us = (bits / (1 + dice.below(8))).max(60) + dice.below(50);
        let burst_frames = 1 + dice.below(2) * dice.below(5);
        writeln!(
            text,
            "[[host]]\nname = \"h{number}\"\n[[link]]\nends = [\"h{number}\", \"s\"]\nrate = \"1 Gbit/s\"\n\
             [[stream]]\nname = \"f{number}\"\ntalker = \"h{number}\"\nlisteners = [\"l\"]\nframe = \"{frame} B\"\npriority = {}",
            2 * class
        )
        .unwrap();
        if burst_frames == 1 {
            writeln!(text, "interval = \"{gap_us} us\"").unwrap();
        } else {
            let rate_bps = frame * 8 * 1_000_000 / gap_us + 1;
            writeln!(
                text,
                "rate = \"{rate_bps} bit/s\"\nburst = \"{} B\"",
                burst_frames * (frame + 24)
            )
            .unwrap();
        }
        rates[class] += bits * 1_000_000 / gap_us + 2;
        streams.push(Stream {
            class,
            bits,
            burst_frames,
            gap_ps: gap_us * 1_000_000,
        });
    }
    let mut left = (LINK_BPS - 1_000_000).saturating_sub(rates.iter().sum());
    let mut slopes = [None; CLASSES];
    for class in (0..CLASSES).rev().take(usize::try_from(credits).unwrap()) {
        let more = (rates[class] * pick(&mut dice, &[1, 4, 15, 80]) / 20)
            .max(500_000)
            .min(left / 2);
        left -= more;
        let slope = rates[class] + more;
        slopes[class] = Some(slope);
        writeln!(
            text,
            "[[shaper]]\nnode = \"s\"\nto = \"l\"\npriority = {}\nkind = \"credit\"\nidle-slope = \"{slope} bit/s\"",
            2 * class
        )
        .unwrap();
    }
    Case {
        text,
        streams,
        slopes,
    }
}

/// The behaviour of one stream: its first frame, a pause before one of its frames, and its place at equal times.
#[derive(Clone, Copy)]
struct Talk {
    starts_ps: u64,
    pauses: (u64, u64),
    rank: u64,
}

/// Returns arrivals at the port as (time, rank, stream, release), in order.
fn arrivals(case: &Case, talks: &[Talk]) -> Vec<(u64, u64, usize, u64)> {
    let mut list = Vec::new();
    for (number, (stream, talk)) in case.streams.iter().zip(talks).enumerate() {
        // A full bucket, in time: a frame takes `gap`, and it holds `burst` of them.
        let full = stream.burst_frames * stream.gap_ps;
        let (mut tokens, mut now, mut link_free) = (full, talk.starts_ps, 0);
        for frame in 0..12 {
            let mut next = now;
            if frame == talk.pauses.0 {
                next += talk.pauses.1;
            }
            next = next.max(now + stream.gap_ps.saturating_sub(tokens));
            tokens = (tokens + next - now).min(full) - stream.gap_ps;
            now = next;
            link_free = link_free.max(now) + stream.bits * (PS / INPUT_BPS);
            list.push((link_free, talk.rank, number, now));
        }
    }
    list.sort_unstable();
    list
}

/// Returns the largest delay of each stream, ps. `hasty`: a frame that comes as another ends is too late to be chosen.
fn play(case: &Case, arrivals: &[(u64, u64, usize, u64)], hasty: bool) -> Vec<u64> {
    let mut worst = vec![0; case.streams.len()];
    let mut queues: [VecDeque<(usize, u64)>; CLASSES] = Default::default();
    let mut credit = [0_i128; CLASSES];
    let mut sending: Option<(usize, u64, usize, u64)> = None;
    let mut coming = arrivals.iter().peekable();
    let mut now = 0;
    loop {
        // The next of: an arrival, an end, a credit that comes back to zero.
        let mut next = coming.peek().map_or(u64::MAX, |arrival| arrival.0);
        if let Some((_, end, ..)) = sending {
            next = next.min(end);
        } else {
            for class in 0..CLASSES {
                if let (Some(slope), false) = (case.slopes[class], queues[class].is_empty()) {
                    let missing = u64::try_from(-credit[class].min(0)).unwrap();
                    next = next.min(now + missing.div_ceil(slope));
                }
            }
        }
        if next == u64::MAX {
            return worst;
        }
        let passed = i128::from(next - now);
        for class in 0..CLASSES {
            let Some(slope) = case.slopes[class] else {
                continue;
            };
            if sending.is_some_and(|sending| sending.0 == class) {
                credit[class] -= i128::from(LINK_BPS - slope) * passed;
            } else if !queues[class].is_empty() {
                credit[class] += i128::from(slope) * passed;
            } else if credit[class] < 0 {
                credit[class] = (credit[class] + i128::from(slope) * passed).min(0);
            }
        }
        now = next;
        let ended = sending.filter(|sending| sending.1 == now);
        if let Some((_, _, stream, released)) = ended {
            worst[stream] = worst[stream].max(now - released);
            sending = None;
            for class in 0..CLASSES {
                if case.slopes[class].is_some() && queues[class].is_empty() {
                    credit[class] = credit[class].min(0);
                }
            }
        }
        if ended.is_none() || !hasty {
            if let Some(&(_, _, stream, released)) = coming.next_if(|arrival| arrival.0 == now) {
                queues[case.streams[stream].class].push_back((stream, released));
            }
        }
        if sending.is_none() {
            let ready = (0..CLASSES).rev().find(|class| {
                let allowed = case.slopes[*class].is_none() || credit[*class] >= 0;
                allowed && !queues[*class].is_empty()
            });
            if let Some((class, frame)) =
                ready.and_then(|class| Some((class, queues[class].pop_front()?)))
            {
                let took = case.streams[frame.0].bits * (PS / LINK_BPS);
                sending = Some((class, now + took, frame.0, frame.1));
            }
        }
    }
}

/// Returns the largest delay that was found for each stream.
fn search(case: &Case, tries: u64, dice: &mut Dice) -> Vec<u64> {
    let count = case.streams.len();
    let mut worst = vec![0; count];
    for victim in 0..count {
        let (mut best, mut reached, mut stale) = (Vec::new(), 0, 0);
        for _ in 0..tries {
            let mut talks: Vec<Talk>;
            if best.is_empty() || stale > 60 {
                (reached, stale) = (0, 0);
                talks = (0..count)
                    .map(|number| Talk {
                        starts_ps: BASE_PS,
                        pauses: (0, 0),
                        // At once, lower frames first, the examined stream last.
                        rank: case.streams[number].class as u64
                            + if number == victim { 10 } else { dice.below(2) },
                    })
                    .collect();
            } else {
                talks = best.clone();
                for _ in 0..=dice.below(3) {
                    let one = usize::try_from(dice.below(count as u64)).unwrap();
                    let far = 10_u64.pow(u32::try_from(5 + dice.below(5)).unwrap());
                    let by = dice.below(far);
                    let talk = &mut talks[one];
                    match dice.below(8) {
                        0..=2 => talk.starts_ps += by,
                        3 | 4 => talk.starts_ps = talk.starts_ps.saturating_sub(by),
                        5 => talk.pauses = (dice.below(12), by),
                        6 => talk.pauses = (0, 0),
                        _ => talk.rank = dice.below(12),
                    }
                }
            }
            let seen = play(case, &arrivals(case, &talks), dice.below(2) == 0);
            for (worst, seen) in worst.iter_mut().zip(&seen) {
                *worst = (*worst).max(*seen);
            }
            stale += 1;
            if seen[victim] >= reached {
                if seen[victim] > reached {
                    stale = 0;
                }
                (best, reached) = (talks, seen[victim]);
            }
        }
    }
    worst
}

#[test]
fn no_promise_behind_credits_is_broken_by_the_letter_of_the_standard() {
    let options = Options {
        ignore_limits: true,
        ..Options::default()
    };
    let cases: u64 =
        std::env::var("RTWIRE_CREDIT_PORTS").map_or(100, |cases| cases.parse().unwrap());
    let mut used = Vec::new();
    for seed in 1..=cases {
        let case = case(seed);
        let network = read(&case.text, "credits.toml", &[]).unwrap();
        let plan = plan(&network, &options).unwrap();
        let worst = search(&case, 300, &mut Dice::new(seed + 1_000_000));
        for (stream, worst) in plan.streams.iter().zip(worst) {
            let Some(promise_ns) = stream.promises[0].delay_ns else {
                continue;
            };
            // The instant at which a credit is zero is rounded up to a picosecond for each frame.
            assert!(
                worst <= promise_ns * 1_000 + 50,
                "seed {seed}, {}: {worst} ps, promised {promise_ns} ns\n{}",
                stream.name,
                case.text
            );
            used.push(worst as f64 / (promise_ns * 1_000) as f64);
        }
    }
    used.sort_by(f64::total_cmp);
    let (median, near) = (
        used[used.len() / 2],
        used.iter().filter(|used| **used > 0.95).count(),
    );
    println!(
        "{} promises, {median:.3} of them in the median, {near} above 0.95",
        used.len()
    );
    assert!(
        near * 2 > used.len(),
        "only {near} of {} came near",
        used.len()
    );
}
