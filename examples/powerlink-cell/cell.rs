//! The stations of the cell, each with its control loop: started with the station's file.
//!
//! The level sensor (1) tells a level that rises and falls; the managing node opens the valve (2) above half and shut it
//! below; the panel (3) is shown both.

use rtwire_powerlink_station::{Project, Station};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
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
            let mut station = Station::controlled(&project)?;
            let level = station.input(0, 0x6200, 1)?;
            let valve = station.input(0, 0x6200, 2)?;
            // Printing is none of a real-time loop's business: this thread looks at the newest cycle now and then.
            let mut panel = station.start()?;
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(500));
                if let Some(io) = panel.wait(Duration::ZERO)? {
                    let word = if io.get(valve) == 1 { "open" } else { "shut" };
                    println!("level {}, valve {word}", io.get(level));
                }
            }
        }
    }
    Ok(())
}
