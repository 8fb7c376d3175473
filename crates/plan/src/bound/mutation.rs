//! The terms of a bound by name, so that a test can leave each out by turn and see that something notices.
//!
//! Outside of tests every term counts, and nothing here costs anything.

/// What a bound is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// The frame at the closed end of a window.
    ClosedWindow,
    /// A lower frame that has begun.
    Blocking,
    /// The port's latency.
    Latency,
    /// What overtakes while a frame waits.
    Overtaking,
    /// The jitter that a port adds to its flows.
    Jitter,
    /// That the least time through a port contains no latency.
    LeastLatency,
    /// The frame of the line.
    LineFrame,
    /// What a late port catches up.
    CatchingUp,
    /// The latency of an aggregate's departure.
    AggregateLatency,
    /// Its blocking.
    AggregateBlocking,
    /// Its largest frame.
    AggregateFrame,
    /// The latency's share of memory.
    MemoryLatency,
    /// The lower frame that keeps a credit waiting.
    CreditBlocking,
    /// The frames of classes above with a credit.
    CreditAbove,
    /// What a class with a credit may send at once towards those below it.
    CreditBurst,
    /// The burst with which a flow leaves its regulator.
    RegulatedBurst,
    /// That each port of a segment but the last waits for whole frames.
    SegmentFrame,
    /// The bursts of classes above in a segment.
    SegmentUrgent,
    /// The lower frames of a segment.
    SegmentBlocking,
    /// The bursts of those who do not share all of a segment.
    SegmentOthers,
    /// What gates are closed for at once.
    ClosedBurst,
    /// The time before a closing in which nothing may begin any more.
    ClosedAhead,
    /// That the clock which gates follow is off by more at one end of a window than at the other.
    ClosedWander,
    /// That this clock runs slower than true.
    ClosedSpeed,
    /// What a scheduled frame takes on the link before a window.
    WindowSending,
    /// The cable there.
    WindowCable,
    /// The latency of the node that has the window.
    WindowLatency,
    /// The latency of the host before it.
    WindowHostLatency,
    /// That both nodes' clocks are off.
    WindowClock,
    /// That a window is longer than its frame, since the clock may gain on the link.
    WindowGain,
    /// That an unscheduled frame may have begun before a window.
    WindowGuard,
    /// That a frame may be there earlier by both clocks' errors.
    WindowEarly,
    /// How late a launch may be.
    LaunchError,
    /// What a talker without gates sends before a launched frame.
    LaunchBlocking,
    /// What both clocks' errors add to a scheduled frame's delay.
    DelayClock,
    /// How late a launch may be, as a part of the jitter.
    JitterLaunch,
    /// What a talker without gates sends before, as a part of the jitter.
    JitterBlocking,
    /// What clocks add to the jitter.
    JitterClock,
}

#[cfg(test)]
#[path = "mutation_tests.rs"]
mod tests;

#[cfg(test)]
thread_local! {
    static WITHOUT: std::cell::Cell<Option<Term>> = const { std::cell::Cell::new(None) };
}

/// Whether a term counts.
#[cfg(not(test))]
pub(crate) const fn keeps(_: Term) -> bool {
    true
}

/// Whether a term counts.
#[cfg(test)]
pub(crate) fn keeps(term: Term) -> bool {
    WITHOUT.get() != Some(term)
}

/// What a term adds, in nanoseconds: `ns`, or nothing where it does not count.
pub(crate) fn counted(term: Term, ns: u64) -> u64 {
    if keeps(term) { ns } else { 0 }
}

/// Do some work as if a term did not exist.
#[cfg(test)]
pub(crate) fn without<T>(term: Term, work: impl FnOnce() -> T) -> T {
    WITHOUT.set(Some(term));
    let result = work();
    WITHOUT.set(None);
    result
}
