//! OSADL's experiment: values go out and come back. `ping` publishes the time of its sample and a number, `pong` answers with
//! both in its own cycle, and `ping` reads how old they are when they are back. Each end is a control loop upon the library.

use rtwire_pubsub_station::{Goes, Limit, Project, PublisherStation, Scalar, SubscriberStation};
use rtwire_sys::clock::{self, Clock};
use rtwire_wire::uadp::BuiltIn;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cycles that the ping runs for.
const ROUNDS: u64 = 1_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, folder, interface] = &arguments[..] else {
        eprintln!("usage: pubsub_echo ping|pong FOLDER INTERFACE");
        return ExitCode::from(2);
    };
    match run(role == "ping", folder, interface) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pubsub_echo: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(ping: bool, folder: &str, interface: &str) -> Result<(), Box<dyn Error>> {
    let (own, other) = if ping {
        ("out", "back")
    } else {
        ("back", "out")
    };
    let own = Project::read(format!("{folder}/{own}.toml").as_ref())?;
    let other = Project::read(format!("{folder}/{other}.toml").as_ref())?;
    let signalled = rtwire_sys::signal::install_stop_flag()?;
    let stop = AtomicBool::new(false);

    let mut subscriber = SubscriberStation::open(&other, Some(interface))?;
    let mut heard = subscriber.image("loop", "values")?;
    let mut publisher = PublisherStation::open(&own, Some(interface))?;
    let sampled = publisher.point("loop", "values", "sampled")?;
    let number = publisher.point("loop", "values", "number")?;

    let limit = Limit {
        cycles: ping.then_some(ROUNDS),
        duration_ns: None,
    };
    let mut ages_ns = Vec::with_capacity(ROUNDS as usize);
    let mut last = 0;
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let receiving = scope.spawn(|| subscriber.run(&stop, None, |_| Goes::On));
        eprintln!("running");
        let published = publisher.run(signalled, limit, |image| {
            let now = clock::now_ns(Clock::Tai);
            let newest = heard.newest().is_some();
            let (came_at, came) = (heard.values()[0], heard.values()[1]);
            if !ping {
                // The answer carries what came last.
                image.set(sampled, came_at);
                image.set(number, came);
                return;
            }
            if newest && came.number() != last {
                last = came.number();
                ages_ns.push(now.saturating_sub(came_at.bits()));
            }
            let cycle = image.cycle as i64 + 1;
            image.set(sampled, Scalar::from_bits(BuiltIn::UInt64, now));
            image.set(number, Scalar::of_number(BuiltIn::UInt32, cycle));
        });
        stop.store(true, Ordering::Relaxed);
        let received = receiving
            .join()
            .map_err(|_| "the receiving thread has ended by a fault")?;
        let (published, received) = (published?, received?);
        let reader = &received.groups[0].readers[0];
        println!(
            "sent {}, received {}, lost {}",
            published.frames, reader.counters.taken, reader.counters.lost
        );
        Ok(())
    })?;
    if ping {
        ages_ns.sort_unstable();
        let at = |share: f64| {
            ages_ns
                .get((ages_ns.len() as f64 * share) as usize)
                .copied()
        };
        let us =
            |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
        println!(
            "round trips {}: p50 {} us, p99 {} us, max {} us",
            ages_ns.len(),
            us(at(0.5)),
            us(at(0.99)),
            us(ages_ns.last().copied())
        );
    }
    Ok(())
}
