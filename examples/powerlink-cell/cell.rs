//! The stations of the cell, each with its control loop: started with the station's file.
//!
//! The level sensor (1) tells a level that rises and falls; the managing node opens the valve (2) above half and shut it
//! below; the panel (3) is shown both.

use rtwire_station::{Project, Station};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const HALF: u64 = 500;

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: powerlink_cell FILE");
        return ExitCode::from(2);
    };
    match run(Path::new(&file)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("powerlink_cell: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let stop = rtwire_sys::signal::install_stop_flag()?;
    let project = Project::read(file)?;
    match project.node {
        240 => {
            let mut cell = Station::managing(&project)?;
            let level = cell.input(1, 0x6000, 1)?;
            let is_open = cell.input(2, 0x6000, 1)?;
            let valve = cell.output(2, 0x6200, 1)?;
            let shown = (cell.output(3, 0x6200, 1)?, cell.output(3, 0x6200, 2)?);
            cell.run(stop, |io| {
                let level = io.get(level);
                io.set(valve, u64::from(level > HALF));
                io.set(shown.0, level);
                io.set(shown.1, io.get(is_open));
            })?;
        }
        1 => {
            let mut sensor = Station::controlled(&project)?;
            let level = sensor.output(0, 0x6000, 1)?;
            sensor.run(stop, |io| {
                let wave = io.cycle % (4 * HALF);
                io.set(level, wave.min(4 * HALF - wave));
            })?;
        }
        2 => {
            let mut actuator = Station::controlled(&project)?;
            let wanted = actuator.input(0, 0x6200, 1)?;
            let is_open = actuator.output(0, 0x6000, 1)?;
            actuator.run(stop, |io| io.set(is_open, io.get(wanted)))?;
        }
        _ => {
            let mut panel = Station::controlled(&project)?;
            let level = panel.input(0, 0x6200, 1)?;
            let valve = panel.input(0, 0x6200, 2)?;
            // Printing is none of a real-time loop's business: another thread does it.
            let (seen, ended) = (AtomicU64::new(0), AtomicU64::new(0));
            thread::scope(|scope| {
                scope.spawn(|| {
                    while ended.load(Ordering::Relaxed) == 0 {
                        thread::sleep(Duration::from_millis(500));
                        let seen = seen.load(Ordering::Relaxed);
                        let word = if seen & 1 == 1 { "open" } else { "shut" };
                        println!("level {}, valve {word}", seen >> 1);
                    }
                });
                let result = panel.run(stop, |io| {
                    seen.store(io.get(level) << 1 | io.get(valve) & 1, Ordering::Relaxed);
                });
                ended.store(1, Ordering::Relaxed);
                result
            })?;
        }
    }
    Ok(())
}
