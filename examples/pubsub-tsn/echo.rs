//! OSADL's experiment: values go out and come back, and eight moments say where the time goes. `ping` publishes in its cycle; `pong` answers
//! each message at once, with the moments that it saw. Each end is a control loop upon the library.
//!
//! All moments are CLOCK_TAI: of one machine here, kept common by PTP between two.

use rtwire_pubsub_station::{
    Goes, Point, Project, PublisherStation, Scalar, StationError, SubscriberStation,
};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::wait::{self, Waited};
use rtwire_wire::uadp::BuiltIn;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The moments, in the order of a round trip.
const MOMENTS: [&str; 8] = [
    "1 sampled",
    "2 written",
    "3 left",
    "4 arrived at pong",
    "5 decoded at pong",
    "6 answer left",
    "7 answer arrived",
    "8 answer decoded",
];
/// The messages whose stamps are kept until somebody looks.
const KEPT: usize = 1 << 12;
/// The number of answers after which one tells when this one left: until then the stamp is there.
const LAG: usize = 32;
/// The longest wait for an answer.
const LAST: Duration = Duration::from_millis(200);

/// Transmit stamps: one thread collects them, and the loop looks without a lock.
struct Left(Vec<AtomicU64>);

impl Left {
    fn new() -> Self {
        Self((0..KEPT).map(|_| AtomicU64::new(0)).collect())
    }

    fn place(&self, frame: u64) -> Option<&AtomicU64> {
        self.0.get(usize::try_from(frame).ok()? % KEPT)
    }

    /// Returns the moment at which a frame left; 0 where that is not known yet.
    fn of(&self, frame: Option<u64>) -> u64 {
        let place = frame.and_then(|frame| self.place(frame));
        place.map_or(0, |place| place.load(Ordering::Relaxed))
    }
}

/// One end, with the thread that collects its stamps.
fn with_stamps<T>(
    publisher: &mut PublisherStation,
    work: impl FnOnce(&mut PublisherStation, &Left) -> T,
) -> Result<T, StationError> {
    let (left, done) = (Left::new(), AtomicBool::new(false));
    let stamps = publisher.take_stamps()?;
    Ok(std::thread::scope(|scope| {
        if let Some(mut stamps) = stamps {
            let (left, done) = (&left, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let collected = stamps.collect(Duration::from_millis(20), |stamp| {
                        if let Some(place) = left.place(stamp.frame) {
                            place.store(stamp.tai_ns, Ordering::Relaxed);
                        }
                    });
                    if collected.is_err() {
                        break;
                    }
                }
            });
        }
        let result = work(publisher, &left);
        done.store(true, Ordering::Relaxed);
        result
    }))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, folder, interface, more @ ..] = &arguments[..] else {
        eprintln!("usage: pubsub_echo ping|pong FOLDER INTERFACE [CYCLE in us [ROUNDS]]");
        return ExitCode::from(2);
    };
    let number = |at: usize, usual| {
        let text: Option<&String> = more.get(at);
        text.map_or(Some(usual), |text| text.parse::<u64>().ok())
    };
    let (Some(cycle_us @ 1..), Some(rounds)) = (number(0, 1_000), number(1, 1_000)) else {
        eprintln!("pubsub_echo: CYCLE and ROUNDS are whole numbers");
        return ExitCode::from(2);
    };
    let done = match role.as_str() {
        "ping" => ping(folder, interface, cycle_us * 1_000, rounds),
        _ => pong(folder, interface),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pubsub_echo: {error}");
            ExitCode::from(3)
        }
    }
}

fn open(
    folder: &str,
    interface: &str,
    own: &str,
    other: &str,
) -> Result<(PublisherStation, SubscriberStation), Box<dyn Error>> {
    let read = |name: &str| Project::read(format!("{folder}/{name}.toml").as_ref());
    let subscriber = SubscriberStation::open(&read(other)?, Some(interface))?;
    let publisher = PublisherStation::open(&read(own)?, Some(interface))?;
    Ok((publisher, subscriber))
}

fn now_ns() -> u64 {
    clock::now_ns(Clock::Tai)
}

const fn time(ns: u64) -> Scalar {
    Scalar::from_bits(BuiltIn::UInt64, ns)
}

/// Answers each message at once, until it is ended.
fn pong(folder: &str, interface: &str) -> Result<(), Box<dyn Error>> {
    let (mut publisher, mut subscriber) = open(folder, interface, "back", "out")?;
    let mut points = Vec::new();
    for name in ["number", "arrived", "decoded", "left number", "left"] {
        points.push(publisher.point("loop", "values", name)?);
    }
    let points: [Point; 5] = points.try_into().map_err(|_| "five fields")?;
    let stop = rtwire_sys::signal::install_stop_flag()?;
    subscriber.become_real_time()?;
    eprintln!("running");
    with_stamps(
        &mut publisher,
        |publisher, left| -> Result<(), StationError> {
            let mut sent = [(Scalar::from_bits(BuiltIn::UInt32, 0), None); LAG];
            let mut at = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut came = None;
                subscriber.receive(Duration::from_millis(20), |update| {
                    let number = update.reader.values().map(|values| values[0]);
                    came = number.map(|number| (number, update.reader.arrived_ns()));
                    Goes::On
                })?;
                let Some((number, arrived_ns)) = came else {
                    continue;
                };
                let decoded_ns = now_ns();
                // The moment at which an answer left is known some time after it: a later one tells it.
                let earlier = sent[at];
                let values = [
                    number,
                    time(arrived_ns),
                    time(decoded_ns),
                    earlier.0,
                    time(left.of(earlier.1)),
                ];
                for (point, value) in points.into_iter().zip(values) {
                    publisher.set(point, value);
                }
                sent[at] = (number, publisher.publish_now()?.frame);
                at = (at + 1) % LAG;
            }
            Ok(())
        },
    )??;
    Ok(())
}

/// An answer, as it came.
#[derive(Clone, Copy, Default)]
struct Answer {
    number: u64,
    at_pong: [u64; 2],
    left_number: u64,
    left_ns: u64,
    here: [u64; 2],
}

/// Sends `rounds` messages, one in each cycle, and prints where the time went.
fn ping(folder: &str, interface: &str, cycle_ns: u64, rounds: u64) -> Result<(), Box<dyn Error>> {
    let (mut publisher, mut subscriber) = open(folder, interface, "out", "back")?;
    let number = publisher.point("loop", "values", "number")?;
    let sampled = publisher.point("loop", "values", "sampled")?;
    let stop = rtwire_sys::signal::install_stop_flag()?;
    let over = AtomicBool::new(false);
    let count = usize::try_from(rounds)?;
    let mut trips = vec![[0_u64; 8]; count];
    let answers = std::thread::scope(|scope| -> Result<Vec<Answer>, Box<dyn Error>> {
        let receiving = scope.spawn(|| -> Result<Vec<Answer>, StationError> {
            subscriber.become_real_time()?;
            let mut answers = Vec::with_capacity(count);
            while !over.load(Ordering::Relaxed) {
                subscriber.receive(Duration::from_millis(20), |update| {
                    let decoded_ns = now_ns();
                    if let Some([number, arrived, decoded, left_number, left]) =
                        update.reader.values()
                    {
                        answers.push(Answer {
                            number: number.bits(),
                            at_pong: [arrived.bits(), decoded.bits()],
                            left_number: left_number.bits(),
                            left_ns: left.bits(),
                            here: [update.reader.arrived_ns(), decoded_ns],
                        });
                    }
                    Goes::On
                })?;
            }
            Ok(answers)
        });
        eprintln!("running");
        publisher.become_real_time()?;
        let sent = with_stamps(
            &mut publisher,
            |publisher, left| -> Result<(), Box<dyn Error>> {
                let mut frames = Vec::with_capacity(count);
                let mut due_ns = (now_ns() / cycle_ns + 10) * cycle_ns;
                for nth in 0..count {
                    let waited = wait::until(due_ns, 20_000, stop);
                    if waited.map_err(|errno| errno.to_string())? == Waited::Stopped {
                        break;
                    }
                    let sampled_ns = now_ns();
                    publisher.set(sampled, time(sampled_ns));
                    publisher.set(number, Scalar::from_bits(BuiltIn::UInt32, nth as u64 + 1));
                    let sent = publisher.publish_now()?;
                    frames.push(sent.frame);
                    trips[nth][..2].copy_from_slice(&[sampled_ns, sent.written_ns]);
                    // Before its place is used again.
                    if let Some(old) = nth.checked_sub(KEPT / 2) {
                        trips[old][2] = left.of(frames[old]);
                    }
                    // Cycles that a stall has taken are not made up for.
                    due_ns += cycle_ns * (now_ns().saturating_sub(due_ns) / cycle_ns + 1);
                }
                std::thread::sleep(LAST);
                for (trip, frame) in trips.iter_mut().zip(frames) {
                    if trip[2] == 0 {
                        trip[2] = left.of(frame);
                    }
                }
                Ok(())
            },
        );
        over.store(true, Ordering::Relaxed);
        let answers = receiving
            .join()
            .map_err(|_| "the receiving thread has ended by a fault")??;
        sent??;
        Ok(answers)
    })?;
    report(trips, &answers, cycle_ns);
    Ok(())
}

/// A distribution of times.
struct Times(Vec<u64>);

impl Times {
    fn of(times: impl Iterator<Item = u64>) -> Self {
        let mut times: Vec<u64> = times.collect();
        times.sort_unstable();
        Self(times)
    }

    /// Returns the time that this share (in thousandths) does not exceed, in us.
    fn at(&self, share: usize) -> String {
        let last = self.0.len().saturating_sub(1);
        match self.0.get((self.0.len() * share / 1_000).min(last)) {
            Some(ns) => format!("{:.1}", *ns as f64 / 1e3),
            None => "-".to_owned(),
        }
    }

    fn row(&self, name: &str) {
        let [p50, p99, p999, max] = [500, 990, 999, 1_000].map(|share| self.at(share));
        println!(
            "{name:<40}{p50:>9}{p99:>9}{p999:>9}{max:>9}{:>8}",
            self.0.len()
        );
    }

    /// Prints how many times there are from one power of two of us to the next.
    fn histogram(&self) {
        let bucket = |ns: u64| (ns / 1_000).max(1).ilog2();
        let Some((first, last)) = self.0.first().zip(self.0.last()) else {
            return;
        };
        for power in bucket(*first)..=bucket(*last) {
            let count = self.0.iter().filter(|ns| bucket(**ns) == power).count();
            let bar = "#".repeat((60 * count).div_ceil(self.0.len()));
            println!("{:>8} us {count:>8}  {bar}", 1_u64 << power);
        }
    }
}

fn report(mut trips: Vec<[u64; 8]>, answers: &[Answer], cycle_ns: u64) {
    let place = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
    for answer in answers {
        if let Some(trip) = place(answer.number).and_then(|at| trips.get_mut(at)) {
            trip[3..5].copy_from_slice(&answer.at_pong);
            trip[6..].copy_from_slice(&answer.here);
        }
        if let Some(trip) = place(answer.left_number).and_then(|at| trips.get_mut(at)) {
            trip[5] = answer.left_ns;
        }
    }
    let sent = trips.iter().filter(|trip| trip[0] > 0).count();
    let between = |from: usize, to: usize| {
        let known = trips
            .iter()
            .filter(move |trip| trip[from] > 0 && trip[to] > 0);
        Times::of(known.map(move |trip| trip[to].saturating_sub(trip[from])))
    };
    let round = between(0, 7);
    let lost = sent.saturating_sub(round.0.len());
    println!(
        "sent {sent}, answered {}, lost {lost}, cycle {} us",
        round.0.len(),
        cycle_ns / 1_000
    );
    println!(
        "round trips {}: p50 {} us, p99 {} us, max {} us",
        round.0.len(),
        round.at(500),
        round.at(990),
        round.at(1_000)
    );
    println!(
        "\n{:<40}{:>9}{:>9}{:>9}{:>9}{:>8}",
        "us", "p50", "p99", "p99.9", "max", "samples"
    );
    for (at, pair) in MOMENTS.windows(2).enumerate() {
        between(at, at + 1).row(&format!("{} - {}", pair[0], pair[1]));
    }
    between(0, 4).row("1 - 5, one way");
    round.row("1 - 8, out and back");
    // Only of messages in cycles that follow each other.
    let pairs = trips
        .windows(2)
        .filter(|pair| pair[0][2] > 0 && pair[1][2] > 0);
    let pairs = pairs.filter(|pair| pair[1][0].saturating_sub(pair[0][0]) < 2 * cycle_ns);
    let jitter = pairs.map(|pair| pair[1][2].saturating_sub(pair[0][2]).abs_diff(cycle_ns));
    Times::of(jitter).row("publishing jitter (3, of the cycle)");
    println!("\nout and back:");
    round.histogram();
}
