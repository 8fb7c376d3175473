//! A control loop on OPC UA PubSub: `pubsub_program publish|subscribe FILE INTERFACE CYCLES` with a file such as `program.toml`.
//!
//! The publisher sets its fields at each instant: `image.set`. The subscriber's loop reads the newest values while another
//! thread receives: `image.newest`.

use rtwire::pubsub::{Goes, Limit, Project, PublisherStation, Scalar, SubscriberStation, uadp};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn main() -> Result<(), rtwire::Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, file, interface, cycles] = &arguments[..] else {
        eprintln!("usage: pubsub_program publish|subscribe FILE INTERFACE CYCLES");
        std::process::exit(2);
    };
    let project = Project::read(file.as_ref())?;
    let cycles: u32 = cycles.parse().unwrap_or(1000);
    match role.as_str() {
        "publish" => publish(&project, interface, cycles),
        _ => subscribe(&project, interface, cycles),
    }
}

fn publish(project: &Project, interface: &str, cycles: u32) -> Result<(), rtwire::Error> {
    let mut publisher = PublisherStation::open(project, Some(interface))?;
    let position = publisher.point("axes", "axis 1", "position")?;
    let cycle = publisher.point("axes", "axis 1", "cycle")?;
    let limit = Limit {
        cycles: Some(u64::from(cycles)),
        duration_ns: None,
    };
    let report = publisher.run(&AtomicBool::new(false), limit, |image| {
        let angle = image.cycle as f64 / 100.0;
        image.set(
            position,
            Scalar::of_float(uadp::BuiltIn::Double, angle.sin()),
        );
        image.set(
            cycle,
            Scalar::of_number(uadp::BuiltIn::UInt32, image.cycle as i64),
        );
    })?;
    println!("sent {}", report.frames);
    Ok(())
}

fn subscribe(project: &Project, interface: &str, cycles: u32) -> Result<(), rtwire::Error> {
    let mut subscriber = SubscriberStation::open(project, Some(interface))?;
    let mut axis = subscriber.image("axes", "axis 1")?;
    let stop = AtomicBool::new(false);
    println!("open");
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let result = subscriber.run(&stop, None, |_| Goes::On);
            stop.store(true, Ordering::Relaxed);
            result
        });
        // The loop of the program: it has the newest values whenever it looks, without a system call.
        let mut seen = 0;
        while seen < cycles && !stop.load(Ordering::Relaxed) {
            if let Some(stamp) = axis.newest() {
                let number = u32::try_from(axis.values()[1].number()).unwrap_or(u32::MAX);
                if number > seen || seen == 0 {
                    seen = number + 1;
                    let position = axis.values()[0].float();
                    println!(
                        "cycle {number}: position {position:.4} at {} ns",
                        stamp.time_ns
                    );
                }
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        stop.store(true, Ordering::Relaxed);
        let report = receiving
            .join()
            .unwrap_or(Err(rtwire::pubsub::StationError::Ended))?;
        println!("taken {}", report.groups[0].readers[0].counters.taken);
        Ok(())
    })
}
