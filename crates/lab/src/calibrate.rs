//! The lab's own latency, measured before the run on the unloaded network.
//!
//! An emulated port releases a frame when a timer of this machine fires, not when a wire is free. The calibration
//! measures that lateness, for each port, with the same records and the same rule as the run.
//!
//! The latency of a port is the highest lateness that no recorded stall explains, plus the threshold below which the
//! noise record reports no stall, and at least four times that threshold. It is no part of a promise: it says up to which lateness a port of the run
//! counts as an exact one. It is fixed before the first frame of the run and never changed afterwards.

use std::time::Duration;

use rtwire_measure::noise::{NoiseOptions, NoiseRecord, NoiseRecorder};
use rtwire_measure::report::Calibration;
use rtwire_measure::verdict::{FrameId, StallLine, lateness};
use rtwire_session::samples;
use rtwire_sys::clock::{self, Clock};

use rtwire_session::task::Order;

use crate::LabError;
use crate::events::{EventReader, Events};
use crate::fabric::{Fabric, PortIndex};
use crate::passages::Passages;
use crate::processes::Processes;
use crate::run_clock::RunClock;
use crate::tasks::Bursts;

/// A latency is at least this many times the threshold below which a stall is not recorded. Several such stalls can hold a
/// port up before its rate limiter has caught up.
const LEAST_STALLS: u64 = 4;
/// Latencies are multiples of this, ns.
const ROUND_NS: u64 = 10_000;
/// Largest acceptable latency of a port without a stall of the machine, ns. No promise should be based on a larger
/// one.
const LATENCY_MOST_NS: u64 = 5_000_000;
/// Number of attempts at a calibration.
const ATTEMPTS: u32 = 5;
/// Time from the request for kernel timestamps until they certainly begin, ns.
const SETTLE_NS: u64 = 400_000_000;

/// The latency of each port that carried a frame of the calibration.
#[derive(Debug, Default)]
pub(crate) struct Calibrated {
    pub(crate) ports: Vec<(PortIndex, Calibration)>,
    /// The highest time from one port to the next, from the talker to its port, or from the last port to the listener,
    /// that no stall explains, ns.
    pub(crate) handover_ns: u64,
}

impl Calibrated {
    /// Returns the latency of a port, ns. A port that no burst passed has the largest one that was measured.
    pub(crate) fn latency_ns(&self, port: PortIndex) -> u64 {
        let own = self.ports.iter().find(|(one, _)| *one == port);
        let all = self.ports.iter().map(|(_, port)| port.latency_ns);
        own.map_or_else(|| all.max().unwrap_or(0), |(_, port)| port.latency_ns)
    }
}

/// Runs the calibration. Repeats it if the machine stalled all the time, because stalls can be temporary (for example
/// while another lab starts). `progress` receives a message for each repetition.
///
/// # Errors
/// [`LabError`] if a host's process fails, or every slice had a stall.
pub(crate) fn calibrate(
    fabric: &Fabric,
    bursts: &Bursts,
    duration: Duration,
    stopped: &dyn Fn() -> bool,
    progress: &dyn Fn(&str),
) -> Result<Calibrated, LabError> {
    for attempt in 2..=ATTEMPTS {
        match once(fabric, bursts, duration, stopped) {
            Err(LabError::NeverQuiet) => progress(&format!(
                "the machine stalled all the time: measuring the unloaded network again ({attempt} of {ATTEMPTS})"
            )),
            other => return other,
        }
    }
    once(fabric, bursts, duration, stopped)
}

fn once(
    fabric: &Fabric,
    bursts: &Bursts,
    duration: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<Calibrated, LabError> {
    let mut processes = Processes::start(&bursts.assignments)?;
    let options = NoiseOptions::beside_a_lab();
    let threshold_ns = options.stall_threshold_ns;
    let recorder = NoiseRecorder::start(options)?;
    let mut time = RunClock::begin();
    let start_ns = clock::now_ns(Clock::Tai) + SETTLE_NS;
    let end_ns = start_ns + u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    processes.order(Order::Run { start_ns, end_ns });
    let reader = EventReader::start(fabric);
    time.wait(end_ns - start_ns + SETTLE_NS, stopped);
    processes.order(Order::Stop);
    for (_, result) in processes.finish() {
        let result = result?;
        if let Some(fault) = result.talkers.into_iter().find_map(|talker| talker.fault) {
            return Err(LabError::Calibration(fault));
        }
    }
    let noise = recorder.stop()?;
    let events = reader.finish();
    if stopped() {
        return Err(LabError::Stopped);
    }
    if let Some(step) = time.step() {
        return Err(LabError::ClockSet(step));
    }
    evaluate(fabric, bursts, &events, &noise, threshold_ns)
}

fn evaluate(
    fabric: &Fabric,
    bursts: &Bursts,
    events: &Events,
    noise: &NoiseRecord,
    threshold_ns: u64,
) -> Result<Calibrated, LabError> {
    let stalls = StallLine::new(noise.stall_record().possible());
    let mut sent = Vec::new();
    for flow in 0..bursts.flows.len() {
        let stamps = samples::read_sent(&samples::sent_path(&bursts.directory, flow))?;
        sent.push(samples::stamps_by_sequence(&stamps));
    }
    let stamp = |id: FrameId| {
        let stamps = sent.get(id.flow as usize)?;
        stamps.get(id.seq as usize).copied().filter(|&ns| ns != 0)
    };
    let ports = 2 * fabric.blueprint.cables.len();
    let passages = Passages::new(&events.all, ports, &bursts.flows, stamp);
    let mut calibrated = Calibrated {
        handover_ns: LEAST_STALLS * threshold_ns,
        ..Calibrated::default()
    };
    for (port, passage) in passages.ports.iter().enumerate() {
        let Some((node, neighbour)) = fabric.blueprint.port_ends(port) else {
            continue;
        };
        if passage.frames.is_empty() {
            continue;
        }
        let rate_bps = fabric.blueprint.cables[port / 2].rate_bps;
        let mut late = lateness(&passage.frames, rate_bps, &stalls);
        late.sort_unstable();
        let max_ns = late.last().copied().unwrap_or(0);
        let handovers = passage.frames.iter().filter_map(|frame| {
            let came_ns = frame.came_ns?;
            let stalled = stalls.stalled_between(came_ns, frame.entered_ns);
            Some(
                frame
                    .entered_ns
                    .saturating_sub(came_ns)
                    .saturating_sub(stalled),
            )
        });
        let handover_ns = handovers.max().unwrap_or(0);
        if max_ns.max(handover_ns) > LATENCY_MOST_NS {
            return Err(LabError::NeverQuiet);
        }
        calibrated.handover_ns = calibrated.handover_ns.max(handover_ns + threshold_ns);
        let name = |node: usize| fabric.blueprint.nodes[node].name.clone();
        calibrated.ports.push((
            port,
            Calibration {
                node: name(node),
                port: name(neighbour),
                latency_ns: (max_ns + threshold_ns)
                    .max(LEAST_STALLS * threshold_ns)
                    .next_multiple_of(ROUND_NS),
                samples: late.len() as u64,
                p50_ns: late.get(late.len() / 2).copied().unwrap_or(0),
                max_ns,
            },
        ));
    }
    calibrated.handover_ns = calibrated.handover_ns.next_multiple_of(ROUND_NS);
    Ok(calibrated)
}
