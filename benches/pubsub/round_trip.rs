//! Round trips with an immediate answer, ours beside open62541's: a message each millisecond goes out, and the other end answers it at
//! once. From before it is written to behind the values of its answer.
//!
//! Both ends are SCHED_FIFO threads, in two namespaces at the ends of a virtual cable, one on each of the first two cores. Where the
//! driver answers, the answering program only renews its answer.
//!
//! Between two messages an asker sleeps, so the next one finds cold caches. An asker that stays awake shows what the answer itself takes.

use super::peers::{Ends, Times, peer, spawn};
use rtwire_link::program::ReceiveProgram;
use rtwire_measure::bench::{Compared, Row};
use rtwire_pubsub_station::{
    Goes, Limit, NewestImage, Point, Project, PublishImage, PublisherStation, Scalar,
    SubscriberStation,
};
use rtwire_testkit::{NetnsPair, Side};
use rtwire_wire::uadp::BuiltIn;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const OUT: &str = "01-00-5E-7F-00-01";
const BACK: &str = "01-00-5E-7F-00-02";
const OTHER: &str = "open62541 1.5.10";
/// An answer that takes longer is lost.
const LOST: Duration = Duration::from_millis(100);

fn project(address: &str, cpu: usize, spin: &str) -> Project {
    Project::parse(&text(address, cpu, spin), Path::new("project.toml")).unwrap()
}

fn text(address: &str, cpu: usize, spin: &str) -> String {
    format!(
        "[connection]\naddress = \"{address}\"\npublisher-id = 2234\n[real-time]\npriority = 80\ncpu = {cpu}\n\
         receive-spin = \"{spin}\"\n[[writer-group]]\nname = \"g\"\nid = 100\ninterval = \"1 ms\"\n\
         [[writer-group.data-set]]\nname = \"d\"\nwriter = 7\n\
         [[writer-group.data-set.field]]\nname = \"up\"\ntype = \"Int32\"\n\
         [[writer-group.data-set.field]]\nname = \"down\"\ntype = \"Int64\"\n\
         [[writer-group.data-set.field]]\nname = \"same\"\ntype = \"Double\"\nvalue = 2.5\n"
    )
}

/// One end: a publisher, a subscriber, and a field that says which message it is.
struct End {
    publisher: PublisherStation,
    subscriber: SubscriberStation,
    number: Point,
    newest: NewestImage,
}

impl End {
    fn open(side: &Side, to: &str, from: &str, cpu: usize, spin: &str) -> Self {
        let own = project(to, cpu, spin);
        let publisher = PublisherStation::open(&own, Some(&side.interface)).unwrap();
        let other = project(from, cpu, spin);
        let subscriber = SubscriberStation::open(&other, Some(&side.interface)).unwrap();
        Self {
            number: publisher.point("g", "d", "up").unwrap(),
            newest: subscriber.image("g", "d").unwrap(),
            publisher,
            subscriber,
        }
    }

    fn send(&mut self, number: i64) {
        let value = Scalar::of_number(BuiltIn::Int32, number);
        assert!(self.publisher.set(self.number, value));
        self.publisher.publish_now().unwrap();
    }
}

/// Answers until `stop` is set.
fn pong(side: &Side, spin: &str, stop: &AtomicBool, open: &AtomicBool) {
    side.run(|| {
        let mut end = End::open(side, BACK, OUT, 1, spin);
        end.subscriber.become_real_time().unwrap();
        open.store(true, Ordering::Release);
        while !stop.load(Ordering::Relaxed) {
            let mut came = None;
            let taken = end.subscriber.receive(Duration::from_millis(20), |update| {
                came = update.reader.values().map(|values| values[0].number());
                Goes::On
            });
            taken.unwrap();
            if let Some(number) = came {
                end.send(number);
            }
        }
    });
}

/// Returns the times of `samples` round trips.
fn ping(side: &Side, spin: &str, awake: bool, samples: usize) -> Vec<u64> {
    side.run(|| {
        let mut end = End::open(side, OUT, BACK, 0, spin);
        end.subscriber.become_real_time().unwrap();
        let mut times = Vec::with_capacity(samples);
        let mut number = 0;
        // The first ones are its start.
        while times.len() < samples + 100 {
            number += 1;
            let begun = std::time::Instant::now();
            end.send(number);
            let mut back = false;
            while !back && begun.elapsed() < LOST {
                end.subscriber.receive(LOST, |_| Goes::On).unwrap();
                back = end.newest.newest().is_some() && end.newest.values()[0].number() == number;
            }
            if back {
                times.push(begun.elapsed().as_nanos() as u64);
            }
            while awake && begun.elapsed() < Duration::from_millis(1) {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_millis(1).saturating_sub(begun.elapsed()));
        }
        times.split_off(100)
    })
}

fn ours(pair: &NetnsPair, spin: &str, samples: usize) -> Vec<u64> {
    let (stop, open) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| pong(&pair.b, spin, &stop, &open));
        while !open.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let times = ping(&pair.a, spin, false, samples);
        stop.store(true, Ordering::Relaxed);
        times
    })
}

/// Answers by the driver, with the number of the question, until `stop` is set.
fn driven(side: &Side, folder: &Path, stop: &AtomicBool, open: &AtomicBool) {
    std::fs::write(folder.join("out.toml"), text(OUT, 0, "0 us")).unwrap();
    let own = text(BACK, 1, "0 us")
        .replace(
            "id = 100",
            "id = 100\nanswers = \"out.toml\"\nanswers-lease = \"1 s\"",
        )
        .replacen("\"Int32\"", "\"Int32\"\ncopy = \"up\"", 1);
    let own = Project::parse(&own, &folder.join("back.toml")).unwrap();
    side.run(|| {
        let mut station = PublisherStation::open(&own, Some(&side.interface)).unwrap();
        let begun = |image: &mut PublishImage<'_>| {
            if image.cycle > 0 {
                open.store(true, Ordering::Release);
            }
        };
        let report = station.run(stop, Limit::default(), begun).unwrap();
        let answers = report.answers.unwrap();
        assert_eq!(answers.mode, "native", "{:?}", answers.why_generic);
    });
}

/// Returns the times of `samples` round trips that the driver answers.
fn by_driver(pair: &NetnsPair, awake: bool, samples: usize) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    // A veth takes what its peer's driver sends only if it has a program itself.
    let program = pair.a.run(|| ReceiveProgram::attach(&pair.a.interface));
    let _program = program.unwrap();
    let (stop, open) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| driven(&pair.b, folder.path(), &stop, &open));
        while !open.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let times = ping(&pair.a, "500 us", awake, samples);
        stop.store(true, Ordering::Relaxed);
        times
    })
}

/// Returns p50 and p99 in ns.
fn theirs(pair: &NetnsPair, peer: &Path, role: &str, samples: usize) -> [u64; 2] {
    let [out, back] = [OUT, BACK].map(|address| format!("opc.eth://{address}"));
    let count = samples.to_string();
    let start = |side: &Side, cpu: &str, words: [&str; 7]| {
        let mut arguments = vec!["-f", "80", "taskset", "-c", cpu, peer.to_str().unwrap()];
        arguments.extend(words);
        spawn(side, Path::new("chrt"), &arguments)
    };
    let a = &pair.a.interface;
    let b = &pair.b.interface;
    let mut pong = Ends(start(
        &pair.b,
        "1",
        ["pong", &back, b, "fixed", "none", "0", &out],
    ));
    let mut lines = BufReader::new(pong.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "running"));
    // Its log must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    let mut ping = Ends(start(
        &pair.a,
        "0",
        [role, &out, a, "fixed", "none", &count, &back],
    ));
    let lines = BufReader::new(ping.0.stdout.take().unwrap()).lines();
    let found = lines.map_while(Result::ok).find_map(|line| {
        let (p50, p99) = line.strip_prefix("latency ")?.split_once(' ')?;
        Some([p50.parse().ok()?, p99.parse().ok()?])
    });
    found.unwrap()
}

/// Measures both stacks in one run.
pub(crate) fn rows(quick: bool) -> Vec<Row> {
    let (rounds, samples) = if quick { (1, 1_000) } else { (5, 3_000) };
    let pair = NetnsPair::new();
    let peer = peer();
    let [mut own, mut spun, mut driven, mut driven_awake] = [(); 4].map(|()| Times::default());
    let [mut other, mut other_awake] = [(); 2].map(|()| [Times::default(), Times::default()]);
    for _ in 0..rounds {
        own.0.extend(ours(&pair, "0 us", samples));
        spun.0.extend(ours(&pair, "500 us", samples));
        driven.0.extend(by_driver(&pair, false, samples));
        driven_awake.0.extend(by_driver(&pair, true, samples));
        for (role, other) in [("ping", &mut other), ("ping-awake", &mut other_awake)] {
            let found = theirs(&pair, &peer, role, samples);
            for (times, ns) in other.iter_mut().zip(found) {
                times.0.push(ns);
            }
        }
    }
    let mut rows = Vec::new();
    let all = [
        (&mut own, "", 0.5, false),
        (&mut spun, ", receive-spin", 0.5, false),
        (&mut driven, ", by the driver", 0.1, false),
        (
            &mut driven_awake,
            ", by the driver, askers awake",
            0.1,
            true,
        ),
    ];
    for (times, how, reach, awake) in all {
        let other = match awake {
            true => &mut other_awake,
            false => &mut other,
        };
        for (at, percent) in [50, 99].into_iter().enumerate() {
            let value = times.at_us(percent).unwrap_or(0.0);
            // The middle of the rounds.
            let theirs = other[at].at_us(50).unwrap_or(0.0);
            let share = (percent == 50).then_some(reach);
            rows.push(Row {
                figure: format!("round trip with immediate answer{how}, p{percent}"),
                value,
                unit: "us".to_owned(),
                reach: share.map(|share| format!("at most {share} of {OTHER}")),
                held: share.map(|share| value <= theirs * share),
                why: None,
                samples: (rounds * samples) as u64,
                against: vec![Compared {
                    name: OTHER.to_owned(),
                    value: theirs,
                }],
            });
        }
    }
    rows
}
