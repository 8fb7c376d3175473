//! The reports of a publisher and a subscriber, as tables and JSON show them.

use crate::AnswerCounters;
use hdrhistogram::Histogram;
use rtwire_pubsub::publish::WriterCounters;
use rtwire_pubsub::subscribe::{ReaderCounters, ReaderGroupCounters};
use schemars::JsonSchema;
use serde::Serialize;

/// The largest time in a histogram, ns.
const MOST_NS: u64 = 100_000_000_000;

/// A distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Times {
    /// The number of times.
    pub samples: u64,
    /// Half of them are at most this, ns.
    pub p50_ns: u64,
    /// 99 % of them are at most this, ns.
    pub p99_ns: u64,
    /// 99.9 % of them are at most this, ns.
    pub p99_9_ns: u64,
    /// The largest, ns.
    pub max_ns: u64,
}

/// Collects times. Recording allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct Collector(Option<Histogram<u64>>);

impl Collector {
    pub(crate) fn new() -> Self {
        // The bounds are constants that the constructor accepts; without a histogram there would be no times.
        Self(Histogram::new_with_bounds(1, MOST_NS, 3).ok())
    }

    pub(crate) fn record(&mut self, ns: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(ns);
        }
    }

    pub(crate) fn times(&self) -> Times {
        let Some(histogram) = self.0.as_ref().filter(|histogram| !histogram.is_empty()) else {
            return Times::default();
        };
        Times {
            samples: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p99_9_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }
}

/// The report of a publisher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PublishReport {
    /// The interface.
    pub interface: String,
    /// The transmit path.
    pub path: String,
    /// Instants at which something was due.
    pub cycles: u64,
    /// Frames handed over to the interface.
    pub frames: u64,
    /// Frames that the transmit queue refused.
    pub refused: u64,
    /// From the instant to the return of the thread.
    pub late: Times,
    /// From the thread's return to the end of sampling.
    pub sample: Times,
    /// The time to write and seal messages.
    pub encode: Times,
    /// The time to hand frames over.
    pub send: Times,
    /// The deviation of the kernel's transmit stamps from the interval; of the first group, none where the path has none.
    pub interval_deviation: Times,
    /// The groups.
    pub groups: Vec<WriterGroupReport>,
    /// The answers by the driver; none where no group is one.
    pub answers: Option<AnswersReport>,
}

/// The report of the driver that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnswersReport {
    /// The mode of its program: native or generic.
    pub mode: String,
    /// The reason why it is not native, where that was tried.
    pub why_generic: Option<String>,
    /// False where somebody has detached the program: no questions are answered.
    pub attached: bool,
    /// Frames to the questions' addresses that were read.
    pub frames: u64,
    /// Frames that were not: overwritten before they were read, or too long.
    pub missed: u64,
    /// The groups of the questions.
    pub questions: Vec<ReaderGroupReport>,
}

/// The report of a writer group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WriterGroupReport {
    /// The name.
    pub name: String,
    /// The WriterGroupId.
    pub id: u16,
    /// The state in the standard's words.
    pub state: String,
    /// The counters.
    #[serde(flatten)]
    pub counters: WriterCounters,
    /// The reason of the last of them.
    pub last_fault: Option<String>,
    /// The questions of a group that the driver sends as an answer. Its `messages` were prepared, and not sent by the station.
    pub answers: Option<AnswerCounters>,
}

/// The report of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SubscribeReport {
    /// The interface.
    pub interface: String,
    /// Frames or datagrams received.
    pub frames: u64,
    /// Frames of another VLAN.
    pub other_vlans: u64,
    /// Frames lost for lack of room in the kernel.
    pub dropped: u64,
    /// The groups.
    pub groups: Vec<ReaderGroupReport>,
}

/// The report of a reader group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReaderGroupReport {
    /// The name.
    pub name: String,
    /// The WriterGroupId.
    pub id: u16,
    /// The state in the standard's words.
    pub state: String,
    /// The counters.
    #[serde(flatten)]
    pub counters: ReaderGroupCounters,
    /// The reason why messages of other metadata or versions are still passed over, where the publisher was asked for its own.
    pub metadata_fault: Option<String>,
    /// The readers.
    pub readers: Vec<ReaderReport>,
}

/// The report of a data set reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReaderReport {
    /// The data set's name.
    pub name: String,
    /// The DataSetWriterId.
    pub writer: u16,
    /// The state in the standard's words.
    pub state: String,
    /// The counters.
    #[serde(flatten)]
    pub counters: ReaderCounters,
    /// The deviation of the time between two arrivals from the interval, by the kernel's stamps.
    pub interval_deviation: Times,
    /// From the sample at the publisher to the reader's values; needs a field with the value "time", and a common clock.
    pub latency: Times,
    /// The newest values.
    pub values: Vec<FieldReport>,
}

/// A field with its newest value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FieldReport {
    /// The name.
    pub name: String,
    /// The value, as text.
    pub value: String,
}
