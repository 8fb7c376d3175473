//! The evidence on talkers: their contracts, the launch times that they missed, and the load of best effort.

use rtwire_measure::evidence::StampKind;
use rtwire_measure::verdict::{
    PortId, StallLine, TalkerEvidence, excess_bits, unexplained_excess_bits,
};
use rtwire_plan::{BestEffort, Plan, Stream};

use super::join::{Frame, Talking, of_host, talking};
use super::route::{ports, whole};
use super::{File, JudgeError, stalls};
use crate::streams::frames_in;

/// The time from a send call to its frame's stamp for which no stall need be recorded, ns.
const CALL_NS: u64 = 400_000;

/// Returns how each talker kept its contract, those of best effort last.
pub(super) fn of(plan: &Plan, files: &[File<'_>]) -> Result<Vec<TalkerEvidence>, JudgeError> {
    let mut all = Vec::new();
    for stream in &plan.network.streams {
        if let Some(talking) = talking(files, stream) {
            all.push(of_stream(plan, files, stream, talking)?);
        }
    }
    for flow in flows(plan) {
        if let Some(talking) = flow.talking(files) {
            all.push(of_flow(plan, files, &flow, talking)?);
        }
    }
    Ok(all)
}

/// Returns the best effort of the plan that no run was asked to send, each as `name from A to B`.
pub(super) fn unsent(plan: &Plan, files: &[File<'_>]) -> Vec<String> {
    let unsent = flows(plan).filter(|flow| flow.talking(files).is_none());
    let named = unsent.map(|flow| {
        let allowance = flow.allowance;
        format!("{} from {} to {}", allowance.name, allowance.host, flow.to)
    });
    named.collect()
}

/// The terms of a contract on the wire.
struct Terms {
    /// bit/s, as a ratio.
    rate: (u64, u64),
    burst_bits: u64,
    /// The time by which a frame may be late without a recorded stall, ns.
    late_ns: u64,
    frame_bits: u64,
}

impl Terms {
    /// Returns the number of bits by which frames exceed the contract, and the number of these that no stall explains.
    /// `departures` are sorted.
    fn excess(&self, departures: &[u64], stalls: &StallLine) -> (u64, u64) {
        let (num, den) = self.rate;
        let frames = || departures.iter().map(|&at_ns| (at_ns, self.frame_bits));
        let excess = excess_bits(frames(), num, den, self.burst_bits);
        if excess == 0 {
            return (0, 0);
        }
        // One frame more: a stamp can be late by a whole interval, but a talker that sends too much goes on doing so.
        let late_bits =
            u128::from(num) * u128::from(self.late_ns) / (u128::from(den.max(1)) * 1_000_000_000);
        let late_bits = u64::try_from(late_bits).unwrap_or(u64::MAX);
        let burst_bits = self.burst_bits.saturating_add(late_bits);
        let burst_bits = burst_bits.saturating_add(self.frame_bits);
        let unexplained = unexplained_excess_bits(frames(), num, den, burst_bits, stalls, CALL_NS);
        (excess, unexplained)
    }
}

/// Returns the instants at which frames departed, sorted. One without a stamp was sent all the same: it counts from its call.
fn departures(frames: &[Frame]) -> Vec<u64> {
    let mut departures: Vec<u64> = frames.iter().map(|frame| frame.from_ns).collect();
    departures.sort_unstable();
    departures
}

fn of_stream(
    plan: &Plan,
    files: &[File<'_>],
    stream: &Stream,
    talking: Talking<'_>,
) -> Result<TalkerEvidence, JudgeError> {
    let contract = &stream.contract;
    let terms = Terms {
        rate: (whole(contract.rate.num()), whole(contract.rate.den())),
        burst_bits: contract.burst_bits,
        late_ns: CALL_NS,
        frame_bits: stream.wire_bytes.saturating_mul(8),
    };
    let stalls = StallLine::new(stalls::trusted(files, &stream.talker).possible());
    let frames = talking.frames()?;
    let off_launch = off_launch(plan, stream, &talking, &frames, &stalls);
    let departures = departures(&frames);
    drop(frames);
    // A talker whose shaper is off has no contract.
    let (excess, unexplained) = match stream.shaped {
        true => terms.excess(&departures, &stalls),
        false => (0, 0),
    };
    let mut passed: Vec<_> = stream.routes.iter().flat_map(|one| ports(one)).collect();
    passed.sort();
    passed.dedup();
    let evidence = TalkerEvidence {
        tick_error_declared_ns: contract.tick_error_ns,
        shaper_caps_burst: stream.shaped,
        contract_excess_bits: Some(excess),
        unexplained_excess_bits: unexplained,
        frames_off_launch: off_launch,
        ..blank(stream.name.clone(), passed, &terms, &talking)
    };
    Ok(by_its_clock(evidence, &talking))
}

/// Returns the number of frames that missed their launch time because of a recorded stall.
///
/// Such a frame may wait for a window of a later cycle, and others meet it where the plan lets none meet. One that is late without a
/// stall is the talker's own fault, and excuses nothing.
fn off_launch(
    plan: &Plan,
    stream: &Stream,
    talking: &Talking<'_>,
    frames: &[Frame],
    stalls: &StallLine,
) -> u64 {
    let mut planned = plan.streams.iter();
    let planned = planned.find(|one| one.name == stream.name);
    let launch = planned.and_then(|one| one.launch.as_ref());
    let error_ns = plan.network.schedule.clock_error_ns;
    let kept_by_queue = talking.evidence.header.talkers[talking.at].stamps == StampKind::Launch;
    let missed = |frame: &&Frame| {
        let (due_ns, departed_ns) = match (kept_by_queue, launch) {
            // The queue launches what it has in time.
            (true, _) => (frame.from_ns, frame.called_ns),
            (false, Some(launch)) => {
                let period_ns = launch.period_ns.max(1);
                let phase_ns = launch.offset_ns % period_ns;
                let after_ns = frame.from_ns.saturating_sub(phase_ns) % period_ns;
                let due_ns = frame.from_ns.saturating_sub(after_ns);
                (due_ns.saturating_add(error_ns), frame.from_ns)
            }
            (false, None) => return false,
        };
        departed_ns > due_ns && stalls.began_before(departed_ns, CALL_NS) <= due_ns
    };
    frames.iter().filter(missed).count() as u64
}

/// Best effort from one host to one receiver.
struct Flow<'a> {
    allowance: &'a BestEffort,
    to: &'a str,
    route: &'a [String],
    /// Its place among the flows of its allowance.
    place: usize,
}

/// Returns the best effort of a plan. Where a manager divides what is free, there is none: a host's allowance changes from
/// moment to moment.
fn flows(plan: &Plan) -> impl Iterator<Item = Flow<'_>> {
    let network = &plan.network;
    let planned = &plan.best_effort;
    let managed = network.manager_host.is_some();
    let flow = move |(at, flow): (usize, &'_ rtwire_plan::identity::BestEffortPlan)| {
        let mut allowances = network.best_effort.iter();
        let allowance = allowances.find(|one| one.name == flow.name)?;
        let way = allowance.to.iter().position(|to| *to == flow.to)?;
        let before = planned[..at].iter();
        Some(Flow {
            allowance,
            to: &allowance.to[way],
            route: allowance.routes.get(way)?,
            place: before.filter(|other| other.name == flow.name).count(),
        })
    };
    let planned = planned.iter().enumerate().filter(move |_| !managed);
    planned.filter_map(flow)
}

impl Flow<'_> {
    /// Returns its sending end. The header names the flows of an allowance alike, in the plan's order.
    fn talking<'a>(&self, files: &'a [File<'a>]) -> Option<Talking<'a>> {
        let file = of_host(files, &self.allowance.host)?;
        let entries = file.evidence.header.talkers.iter().enumerate();
        let mut own = entries.filter(|(_, entry)| entry.stream == self.allowance.name);
        let (at, _) = own.nth(self.place)?;
        let evidence = file.evidence;
        Some(Talking { file, evidence, at })
    }
}

fn of_flow(
    plan: &Plan,
    files: &[File<'_>],
    flow: &Flow<'_>,
    talking: Talking<'_>,
) -> Result<TalkerEvidence, JudgeError> {
    let allowance = flow.allowance;
    let share = allowance.to.len().max(1) as u64;
    let (num, den) = (whole(allowance.rate.num()), whole(allowance.rate.den()));
    let tick_error_ns = plan.network.defaults.tick_error_ns;
    let terms = Terms {
        rate: (num, den.saturating_mul(share)),
        // The allowance is for all receivers together, which take turns.
        burst_bits: whole(allowance.burst.ceil()),
        late_ns: tick_error_ns.saturating_add(CALL_NS),
        frame_bits: allowance.wire_bytes.saturating_mul(8),
    };
    let stalls = StallLine::new(stalls::trusted(files, &allowance.host).possible());
    let departures = departures(&talking.frames()?);
    let (excess, unexplained) = terms.excess(&departures, &stalls);
    let header = &talking.evidence.header;
    // A truncated file has no totals: it is inconclusive for that.
    let sending_ns =
        (talking.evidence.end).map_or(0, |end| end.sent_to_ns.saturating_sub(header.start_ns));
    let evidence = TalkerEvidence {
        tick_error_declared_ns: tick_error_ns,
        shaper_caps_burst: true,
        contract_excess_bits: Some(excess),
        unexplained_excess_bits: unexplained,
        best_effort: true,
        frames_planned: frames_in(allowance.rate, allowance.wire_bytes, sending_ns) / share,
        ..blank(
            format!("{} to {}", allowance.name, flow.to),
            ports(flow.route),
            &terms,
            &talking,
        )
    };
    Ok(by_its_clock(evidence, &talking))
}

/// Returns the evidence on a talker of which nothing was found yet.
fn blank(
    stream: String,
    ports: Vec<PortId>,
    terms: &Terms,
    talking: &Talking<'_>,
) -> TalkerEvidence {
    let totals = talking.evidence.talkers.get(talking.at);
    let late = totals.and_then(|totals| totals.lateness_ns);
    TalkerEvidence {
        stream,
        ports,
        rate_bps: terms.rate.0.div_ceil(terms.rate.1.max(1)),
        tick_error_declared_ns: 0,
        tick_overshoot_max_ns: late.map_or(0, |late| late.max),
        shaper_caps_burst: true,
        contract_excess_bits: None,
        unexplained_excess_bits: 0,
        frames_off_launch: 0,
        best_effort: false,
        frames_planned: 0,
        frames_sent: totals.map_or(0, |totals| totals.frames_sent),
    }
}

/// Returns the evidence without what compares two times, if the clock of its host was set.
fn by_its_clock(mut evidence: TalkerEvidence, talking: &Talking<'_>) -> TalkerEvidence {
    if talking.evidence.clock_set().next().is_some() {
        evidence.forget_times();
    }
    evidence
}
