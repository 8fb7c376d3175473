//! The noise of the host itself: how late each core wakes a real-time thread, and when the machine stalled.
//!
//! A [`NoiseRecorder`] runs during a measurement. It has one pinned `SCHED_FIFO` thread on each core, with a higher
//! priority than the workers. Each thread wakes every 250 µs and records its delay.
//!
//! A delay above a threshold is a [`Stall`]: during it, no thread of lower priority ran on this core. These stalls and
//! those that workers saw make up the [`StallRecord`]. With it, [`crate::verdict`] tells a late frame on a stalled
//! machine from a broken promise.
//!
//! All times are CLOCK_TAI in ns.

mod explain;
mod per_core;
mod record;
mod recorder;
mod steal;

pub use explain::{OwnCall, Stalls};
pub use record::{
    CoreNoise, HistogramBucket, NoiseRecord, Stall, StallRecord, StallSource, StealInterval,
};
pub use recorder::{NoiseError, NoiseOptions, NoiseRecorder};
