//! The lab's own latency, measured before the run on the unloaded network.
//!
//! An emulated port releases a frame when a timer of this machine fires, not when a wire is free. For every frame the
//! kernel program records the delay compared with an ideal link.
//!
//! The plan uses the highest delay seen while the machine itself did not stall. It is at least the threshold below
//! which the noise record reports no stall. A delay that is later not recorded as a stall must be part of the promise
//! now. The latency is fixed before the first frame of the run and never changed afterwards.

use std::thread;
use std::time::Duration;

use rtwire_measure::noise::{NoiseOptions, NoiseRecord, NoiseRecorder};
use rtwire_measure::report::Calibration;
use rtwire_sys::clock::{self, Clock};

use rtwire_session::task::{Assignment, Order};

use crate::LabError;
use crate::fabric::{Fabric, PortIndex};
use crate::ports::{Field, LATENESS_STEP_NS};
use crate::processes::Processes;

/// Duration of a slice: a stall invalidates one slice, not the whole calibration.
const SLICE: Duration = Duration::from_millis(50);
/// Latencies are multiples of this, ns.
const ROUND_NS: u64 = 10_000;
/// Largest acceptable latency of a port without a stall of the machine, ns. No promise should be based on a larger
/// one.
const LATENCY_MOST_NS: u64 = 5_000_000;
/// Number of attempts at a calibration.
const ATTEMPTS: u32 = 5;
/// Time from the request for kernel timestamps until they certainly begin, ns.
const SETTLE_NS: u64 = 400_000_000;

/// The measurements of all ports in one slice.
struct Slice {
    from_ns: u64,
    to_ns: u64,
    ports: Vec<PortSlice>,
}

struct PortSlice {
    port: PortIndex,
    max_ns: u64,
    histogram: Vec<u64>,
}

/// The latency of each port that carried a frame of the calibration.
#[derive(Default)]
pub(crate) struct Calibrated {
    pub(crate) ports: Vec<(PortIndex, Calibration)>,
    /// Number of slices left out because the machine stalled, and number of all slices.
    pub(crate) slices_left_out: (usize, usize),
}

/// Runs the calibration. Repeats it if the machine stalled all the time, because stalls can be temporary (for example
/// while another lab starts). `progress` receives a message for each repetition.
///
/// # Errors
/// [`LabError`] if a host's process fails, or every slice had a stall.
pub(crate) fn calibrate(
    fabric: &Fabric,
    assignments: &[Assignment],
    duration: Duration,
    stopped: &dyn Fn() -> bool,
    progress: &dyn Fn(&str),
) -> Result<Calibrated, LabError> {
    for attempt in 2..=ATTEMPTS {
        match once(fabric, assignments, duration, stopped) {
            Err(LabError::NeverQuiet) => progress(&format!(
                "the machine stalled all the time: measuring the unloaded network again ({attempt} of {ATTEMPTS})"
            )),
            other => return other,
        }
    }
    once(fabric, assignments, duration, stopped)
}

fn once(
    fabric: &Fabric,
    assignments: &[Assignment],
    duration: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<Calibrated, LabError> {
    let mut processes = Processes::start(assignments)?;
    let options = NoiseOptions::default();
    let threshold_ns = options.stall_threshold_ns;
    let recorder = NoiseRecorder::start(options)?;
    let start_ns = clock::now_ns(Clock::Tai) + SETTLE_NS;
    let end_ns = start_ns + u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    processes.order(Order::Run { start_ns, end_ns });
    let mut slices = Vec::new();
    while clock::now_ns(Clock::Tai) < end_ns && !stopped() {
        slices.push(slice(fabric));
    }
    processes.order(Order::Stop);
    for (_, result) in processes.finish() {
        let result = result?;
        if let Some(fault) = result.talkers.into_iter().find_map(|talker| talker.fault) {
            return Err(LabError::Plan(format!("calibration: {fault}")));
        }
    }
    let noise = recorder.stop()?;
    if stopped() {
        return Err(LabError::Stopped);
    }
    evaluate(fabric, &slices, &noise, threshold_ns)
}

fn slice(fabric: &Fabric) -> Slice {
    let ports = 2 * fabric.blueprint.cables.len();
    (0..ports).for_each(|port| fabric.records.reset(port));
    let from_ns = clock::now_ns(Clock::Tai);
    thread::sleep(SLICE);
    Slice {
        from_ns,
        to_ns: clock::now_ns(Clock::Tai),
        ports: (0..ports)
            .filter(|&port| fabric.records.get(port, Field::LatenessFrames) > 0)
            .map(|port| PortSlice {
                port,
                max_ns: fabric.records.get(port, Field::LatenessMaxNs),
                histogram: fabric.records.lateness(port),
            })
            .collect(),
    }
}

fn evaluate(
    fabric: &Fabric,
    slices: &[Slice],
    noise: &NoiseRecord,
    threshold_ns: u64,
) -> Result<Calibrated, LabError> {
    let record = noise.stall_record();
    let stalls: Vec<(u64, u64)> = record.possible().collect();
    let quiet: Vec<&Slice> = slices
        .iter()
        .filter(|slice| {
            !stalls
                .iter()
                .any(|&(from, to)| from < slice.to_ns && to > slice.from_ns)
        })
        .collect();
    let mut ports = Vec::new();
    for port in 0..2 * fabric.blueprint.cables.len() {
        let of_port: Vec<&PortSlice> = quiet
            .iter()
            .flat_map(|slice| &slice.ports)
            .filter(|slice| slice.port == port)
            .collect();
        let Some((node, neighbour)) = fabric.blueprint.port_ends(port) else {
            continue;
        };
        let used = slices
            .iter()
            .any(|slice| slice.ports.iter().any(|p| p.port == port));
        if !used {
            continue;
        }
        if of_port.is_empty() {
            return Err(LabError::NeverQuiet);
        }
        let max_ns = of_port.iter().map(|slice| slice.max_ns).max().unwrap_or(0);
        if max_ns > LATENCY_MOST_NS {
            return Err(LabError::NeverQuiet);
        }
        let mut histogram = vec![0; of_port.first().map_or(0, |slice| slice.histogram.len())];
        for slice in &of_port {
            for (sum, count) in histogram.iter_mut().zip(&slice.histogram) {
                *sum += count;
            }
        }
        let name = |node: usize| fabric.blueprint.nodes[node].name.clone();
        ports.push((
            port,
            Calibration {
                node: name(node),
                port: name(neighbour),
                latency_ns: max_ns.max(threshold_ns).next_multiple_of(ROUND_NS),
                samples: histogram.iter().sum(),
                p50_ns: median(&histogram).min(max_ns),
                max_ns,
            },
        ));
    }
    Ok(Calibrated {
        ports,
        slices_left_out: (slices.len() - quiet.len(), slices.len()),
    })
}

/// Returns the upper edge of the bucket that contains the median, ns.
fn median(histogram: &[u64]) -> u64 {
    let half = histogram.iter().sum::<u64>().div_ceil(2);
    let mut seen = 0;
    for (bucket, count) in (1_u64..).zip(histogram) {
        seen += count;
        if seen >= half && half > 0 {
            return bucket * LATENESS_STEP_NS;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_upper_edge_of_its_bucket() {
        assert_eq!(median(&[]), 0);
        assert_eq!(median(&[0, 0]), 0);
        assert_eq!(median(&[1, 0]), LATENESS_STEP_NS);
        assert_eq!(median(&[1, 2]), 2 * LATENESS_STEP_NS);
        assert_eq!(median(&[2, 2]), LATENESS_STEP_NS);
    }
}
