//! The noise of the host itself: how late each core wakes a real-time thread, and when the machine stood still.
//!
//! A [`NoiseRecorder`] runs beside a measurement: one pinned `SCHED_FIFO` thread on each core, above the workers,
//! wakes every quarter of a millisecond and notes how much too late that was. What is later than a threshold is a
//! [`Stall`]: in that time no thread of lower priority ran on this core. Together with the stalls that workers saw
//! themselves they make the [`StallRecord`] by which [`crate::verdict`] tells a late frame on a stalled machine from a
//! broken promise.
//!
//! All moments are nanoseconds of CLOCK_TAI.

mod explain;
mod per_core;
mod record;
mod recorder;
mod steal;

pub use explain::Stalls;
pub use record::{
    CoreNoise, HistogramBucket, NoiseRecord, Stall, StallRecord, StallSource, StealInterval,
};
pub use recorder::{NoiseError, NoiseOptions, NoiseRecorder};
