//! The readers of a station, while they are watched: their newest values for other threads, and what is measured of them.

use crate::StationError;
use crate::common::{find, image_path};
use crate::memory::{Stamp, ValueMemory};
use crate::project::{FieldSource, GroupEntry};
use crate::report::{Collector, FieldReport, ReaderGroupReport, ReaderReport};
use crate::subscriber::{Goes, Update};
use rtwire_pubsub::subscribe::{Reader, ReaderGroup, SubscriberNode};
use rtwire_pubsub::{DataSet, FieldValue, Scalar, Values};
use rtwire_sys::wait;
use std::path::Path;

/// One reader's place in the node, and what is measured of it.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) group: usize,
    reader: usize,
    interval_ns: u64,
    /// The field with the publisher's time.
    time_field: Option<usize>,
    memory: ValueMemory,
    taken: u64,
    last_ns: Option<(u64, u16)>,
    deviation: Collector,
    latency: Collector,
}

/// The newest values of one data set, readable from any thread without a system call.
#[derive(Clone, Debug)]
pub struct NewestImage {
    memory: ValueMemory,
    values: Values,
    words: Vec<u64>,
}

impl NewestImage {
    /// Reads the newest values into this image. Returns their time and number; `None` before the first.
    pub fn newest(&mut self) -> Option<Stamp> {
        let stamp = self.memory.read(&mut self.words)?;
        self.values.take_image(&self.words);
        Some(stamp)
    }

    /// The values that [`newest`](Self::newest) has read, in the order of the fields. A text or an array has the number of its bytes or
    /// elements here, and its value in [`value`](Self::value).
    #[must_use]
    pub fn values(&self) -> &[Scalar] {
        self.values.words()
    }

    /// Returns a field's value that [`newest`](Self::newest) has read: also a text, bytes or an array; `None` where there is no such field.
    #[must_use]
    pub fn value(&self, field: usize) -> Option<FieldValue<'_>> {
        self.values.get(field)
    }
}

impl Watched {
    /// Watches the reader of a data set, at its place: group and reader.
    pub(crate) fn new((group, reader): (usize, usize), entry: &GroupEntry, set: &DataSet) -> Self {
        let sources = entry.sources.get(reader);
        Self {
            group,
            reader,
            interval_ns: entry.group.interval_ns,
            time_field: sources
                .and_then(|all| all.iter().position(|one| *one == FieldSource::Time)),
            memory: ValueMemory::own(Values::new(&set.fields).image_words()),
            taken: 0,
            last_ns: None,
            deviation: Collector::new(),
            latency: Collector::new(),
        }
    }

    /// Notes a message that the reader has taken since the last call.
    pub(crate) fn note(
        &mut self,
        node: &SubscriberNode,
        taken: &mut impl FnMut(Update<'_>) -> Goes,
    ) -> Goes {
        let Some(group) = node.groups().get(self.group) else {
            return Goes::On;
        };
        let Some(reader) = group.readers().get(self.reader) else {
            return Goes::On;
        };
        let count = reader.counters().taken;
        let Some(all) = reader.all().filter(|_| count != self.taken) else {
            return Goes::On;
        };
        self.taken = count;
        let arrived = reader.arrived_ns();
        self.memory.write(arrived, all.image());
        let words = all.words();
        if let Some(value) = self.time_field.and_then(|field| words.get(field)) {
            // Up to the moment at which the values can be read.
            let late = wait::now_ns().checked_sub(value.number() as u64);
            if let Some(late) = late {
                self.latency.record(late);
            }
        }
        if let Some((last, number)) = self.last_ns {
            if reader.number() == number.wrapping_add(1) {
                let took = arrived.saturating_sub(last);
                self.deviation.record(took.abs_diff(self.interval_ns));
            }
        }
        self.last_ns = Some((arrived, reader.number()));
        taken(Update {
            group: group.config(),
            reader,
        })
    }

    fn report(&self, reader: &Reader) -> ReaderReport {
        let set = reader.data_set();
        let values = reader.all();
        let value = |field| values.and_then(|values| values.get(field));
        ReaderReport {
            name: set.name.clone(),
            writer: set.writer,
            state: reader.state().name().to_owned(),
            counters: reader.counters(),
            interval_deviation: self.deviation.times(),
            latency: self.latency.times(),
            values: set
                .fields
                .iter()
                .enumerate()
                .filter_map(|(at, field)| {
                    Some(FieldReport {
                        name: field.name.clone(),
                        value: value(at)?.to_string(),
                    })
                })
                .collect(),
        }
    }
}

/// Returns the newest values of a data set, for any thread.
pub(crate) fn image(
    node: &SubscriberNode,
    watched: &[Watched],
    group: &str,
    data_set: &str,
) -> Result<NewestImage, StationError> {
    let groups = node.groups();
    let at = find(
        "writer group",
        group,
        groups.iter().map(|group| &group.config().name[..]),
    )?;
    let readers = groups[at].readers();
    let names = readers.iter().map(|reader| &reader.data_set().name[..]);
    let reader = find("data set", data_set, names)?;
    let watched = watched
        .iter()
        .find(|one| (one.group, one.reader) == (at, reader));
    let values = Values::new(&readers[reader].data_set().fields);
    Ok(NewestImage {
        memory: watched.ok_or(StationError::Ended)?.memory.clone(),
        words: vec![0; values.image_words()],
        values,
    })
}

/// Puts the values of each data set into a memory-mapped file in `folder`.
pub(crate) fn map_images(
    node: &SubscriberNode,
    watched: &mut [Watched],
    folder: &Path,
) -> Result<(), StationError> {
    for watched in watched {
        let group = &node.groups()[watched.group];
        let set = group.readers()[watched.reader].data_set();
        let path = image_path(folder, &group.config().name, &set.name);
        watched.memory = ValueMemory::file(&path, Values::new(&set.fields).image_words())
            .map_err(|source| StationError::Image { path, source })?;
    }
    Ok(())
}

/// Returns the reports of all groups, with their readers.
pub(crate) fn reports(node: &SubscriberNode, watched: &[Watched]) -> Vec<ReaderGroupReport> {
    let mut groups: Vec<ReaderGroupReport> = node.groups().iter().map(group_report).collect();
    for watched in watched {
        let reader = &node.groups()[watched.group].readers()[watched.reader];
        groups[watched.group].readers.push(watched.report(reader));
    }
    groups
}

fn group_report(group: &ReaderGroup) -> ReaderGroupReport {
    ReaderGroupReport {
        name: group.config().name.clone(),
        id: group.config().id,
        state: group.state().name().to_owned(),
        counters: group.counters(),
        metadata_fault: None,
        readers: Vec::new(),
    }
}
