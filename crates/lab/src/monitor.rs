//! Records backlog and drops of the ports during a run, millisecond by millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rtwire_measure::verdict::{BacklogSample, DropWindow};
use rtwire_sys::clock::{self, Clock};

use crate::fabric::{Fabric, PortIndex};
use crate::ports::{Field, PortRecords};

/// Largest number of windows for a port; a long run has longer windows.
const WINDOWS_MOST: u64 = 20_000;
const WINDOW_LEAST_NS: u64 = 1_000_000;
/// Priority of the monitor: above ordinary threads, below the hosts.
const PRIORITY: u8 = 50;

/// The recorded data of one port.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortWatch {
    pub(crate) backlog: Vec<BacklogSample>,
    pub(crate) drops: Vec<DropWindow>,
}

/// Records ports until it is stopped.
pub(crate) struct Monitor {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<PortWatch>>,
}

impl Monitor {
    /// Starts to record all ports of a fabric for a run of `duration_ns`.
    pub(crate) fn start(fabric: &Fabric, duration_ns: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let records = fabric.records.clone();
        let ports = 2 * fabric.blueprint.cables.len();
        let window_ns = (duration_ns / WINDOWS_MOST).max(WINDOW_LEAST_NS);
        let thread = thread::spawn({
            let stop = stop.clone();
            move || watch(&records, ports, window_ns, &stop)
        });
        Self { stop, thread }
    }

    /// Stops and returns the recorded data of each port.
    pub(crate) fn finish(self) -> Vec<PortWatch> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(records: &PortRecords, ports: usize, window_ns: u64, stop: &AtomicBool) -> Vec<PortWatch> {
    // Without the priority the windows are longer, but the run is still valid.
    let _ = rtwire_sys::sched::set_fifo(PRIORITY);
    let mut watches = vec![PortWatch::default(); ports];
    let mut dropped: Vec<u64> = (0..ports)
        .map(|port| records.get(port, Field::DroppedFrames))
        .collect();
    let mut from_ns = clock::now_ns(Clock::Tai);
    // The windows follow a clock that nobody can set; the record is by the one that all times are of.
    let mut next_ns = clock::now_ns(Clock::Monotonic) + window_ns;
    while !stop.load(Ordering::Relaxed) {
        let _ = clock::sleep_until(Clock::Monotonic, next_ns);
        let to_ns = clock::now_ns(Clock::Tai);
        for (port, watch) in watches.iter_mut().enumerate() {
            look(records, port, watch, &mut dropped[port], (from_ns, to_ns));
        }
        from_ns = to_ns;
        next_ns = clock::now_ns(Clock::Monotonic).max(next_ns) + window_ns;
    }
    watches
}

fn look(
    records: &PortRecords,
    port: PortIndex,
    watch: &mut PortWatch,
    dropped: &mut u64,
    (from_ns, to_ns): (u64, u64),
) {
    watch.backlog.push(BacklogSample {
        from_ns,
        to_ns,
        max_bytes: records.take_window(port),
    });
    let now_dropped = records.get(port, Field::DroppedFrames);
    if now_dropped > *dropped {
        watch.drops.push(DropWindow {
            from_ns,
            to_ns,
            frames: now_dropped - *dropped,
        });
        *dropped = now_dropped;
    }
}
