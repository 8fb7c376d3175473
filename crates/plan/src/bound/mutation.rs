//! The terms of a bound by name, so that a test can omit each of them in turn and see a failure.
//!
//! Outside of tests every term counts, and this module costs nothing.

/// One term of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// The frame at the closed end of a window.
    ClosedWindow,
    /// The frame of a lower class that has begun.
    Blocking,
    /// The port's latency.
    Latency,
    /// The time by which the latency before a queue differs between frames.
    LatencyVariation,
    /// The frames that overtake while a frame waits.
    Overtaking,
    /// The jitter that flows gain at a port.
    Jitter,
    /// The absence of latency from the least time through a port.
    LeastLatency,
    /// The frame of the line.
    LineFrame,
    /// The piece of a preemptable frame that cannot be interrupted.
    Piece,
    /// The cost of interruptions.
    Interruptions,
    /// The frame of the line that was interrupted by another one.
    Interrupted,
    /// The data that a late port catches up.
    CatchingUp,
    /// The latency of an aggregate's departure.
    AggregateLatency,
    /// The blocking of an aggregate's departure.
    AggregateBlocking,
    /// The part of a frame that has not come yet when it is forwarded.
    CutThrough,
    /// The largest frame of an aggregate's departure.
    AggregateFrame,
    /// The latency's share of memory.
    MemoryLatency,
    /// The lower frame that keeps a credit waiting.
    CreditBlocking,
    /// The frames of classes above with a credit.
    CreditAbove,
    /// The data that a class with a credit may send at once towards those below it.
    CreditBurst,
    /// The burst of the contracts of a class with a credit towards those below it.
    CreditUsed,
    /// The credit that a class saves while it waits, and sends at once towards the next port.
    CreditSaved,
    /// The time on the link of a frame that a credit let go.
    CreditOwn,
    /// The burst with which a flow leaves its regulator.
    RegulatedBurst,
    /// The wait for whole frames at each port of a segment but the last.
    SegmentFrame,
    /// The bursts of classes above in a segment.
    SegmentUrgent,
    /// The lower frames of a segment.
    SegmentBlocking,
    /// The bursts of flows that do not share all of a segment.
    SegmentOthers,
    /// The own frames of a stream in its lane besides the examined one.
    LastOwn,
    /// The other frames of a lane.
    LastOthers,
    /// The frame of the line of a lane's other frames.
    LastFrame,
    /// The least size of the examined frame, which is behind the others for the shortest time.
    LastSmallest,
    /// The absence of an order behind a port that catches up.
    LastCatchingUp,
    /// The absence of an order behind a port with preemption.
    LastInterrupted,
    /// The absence of periods behind a meter.
    MeterStairs,
    /// The small frames that a meter counts for less than they take of the link.
    MeterWire,
    /// The small frames behind a meter, which take less time through a port.
    MeterSmallest,
    /// The absence of a host's own order on a link that ends at meters.
    MeterAggregate,
    /// The time for which gates are closed at once.
    ClosedBurst,
    /// The time before a closing in which nothing may begin any more.
    ClosedAhead,
    /// The difference between the clock's errors at both ends of a window. Gates follow that clock.
    ClosedWander,
    /// The slow rate of that clock.
    ClosedSpeed,
    /// The time of a scheduled frame on the link before a window.
    WindowSending,
    /// The cable's delay before a window.
    WindowCable,
    /// The latency of the node that has the window.
    WindowLatency,
    /// The latency of the host before it.
    WindowHostLatency,
    /// The clock errors of both nodes.
    WindowClock,
    /// The excess of a window over its frame's time, since the clock may gain on the link.
    WindowGain,
    /// The unscheduled frame that may have begun before a window.
    WindowGuard,
    /// The earliness of a frame by both clocks' errors.
    WindowEarly,
    /// The lateness of a launch.
    LaunchError,
    /// The frames that a talker without gates sends before a launched frame.
    LaunchBlocking,
    /// The part of a scheduled frame's delay from both clocks' errors.
    DelayClock,
    /// The lateness of a launch as a part of the jitter.
    JitterLaunch,
    /// The frames that a talker without gates sends before, as a part of the jitter.
    JitterBlocking,
    /// The part of the jitter from clocks.
    JitterClock,
}

#[cfg(test)]
#[path = "mutation_tests.rs"]
mod tests;

#[cfg(test)]
thread_local! {
    static WITHOUT: std::cell::Cell<Option<Term>> = const { std::cell::Cell::new(None) };
}

/// True: outside of tests every term counts.
#[cfg(not(test))]
pub(crate) const fn keeps(_: Term) -> bool {
    true
}

/// True if a term counts.
#[cfg(test)]
pub(crate) fn keeps(term: Term) -> bool {
    WITHOUT.get() != Some(term)
}

/// Returns `ns`, in nanoseconds, or 0 if the term does not count.
pub(crate) fn counted(term: Term, ns: u64) -> u64 {
    if keeps(term) { ns } else { 0 }
}

/// Runs `work` as if a term did not exist.
#[cfg(test)]
pub(crate) fn without<T>(term: Term, work: impl FnOnce() -> T) -> T {
    WITHOUT.set(Some(term));
    let result = work();
    WITHOUT.set(None);
    result
}
