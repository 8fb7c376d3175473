//! A reader group: which messages are its own, their security, and the parts for its readers.

use super::announced::Unsuitable;
use super::joint::Added;
use super::reader::{Padding, Reader, Verdict};
use crate::config::{ConfigFault, Group, MOST_DATA_SETS, publisher_number};
use crate::fixed;
use crate::security::{OpenFault, Opener, Source};
use crate::state::{Component, State};
use rtwire_wire::uadp::{Chunk, DataSetMessage, FixedLayout, Header, MessageKind};

/// The longest message that is decrypted.
const MOST_BYTES: usize = 65_536;

/// The counters of a reader group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct ReaderGroupCounters {
    /// Messages of this group that were read.
    pub messages: u64,
    /// Messages of other publishers or groups.
    pub foreign: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages of another kind: discovery.
    pub other_kinds: u64,
    /// Chunks of longer messages.
    pub chunks: u64,
    /// Longer messages of which a chunk was missing.
    pub incomplete: u64,
    /// Messages with a wrong signature, an unknown key, or too little protection.
    pub refused: u64,
    /// Messages whose nonce was used before.
    pub replays: u64,
    /// Messages of another version of the group.
    pub other_versions: u64,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was read; at least one reader took its part.
    Taken,
    /// It was read, and no reader took anything: duplicates, old ones, other versions.
    Passed,
    /// It belongs to another publisher or group.
    Foreign,
    /// It could not be read.
    Malformed,
    /// Its security was refused.
    Refused(OpenFault),
}

/// A reader group with its readers.
#[derive(Debug)]
pub struct ReaderGroup {
    config: Group,
    /// The version of the group that messages have; 0: any.
    version: u32,
    /// That of the last message of another version.
    other: Option<u32>,
    component: Component,
    readers: Vec<Reader>,
    opener: Option<Opener>,
    opened: Vec<u8>,
    /// Of messages without security: what a sealer writes into the header differs from message to message.
    layout: Option<Box<FixedLayout>>,
    counters: ReaderGroupCounters,
}

impl ReaderGroup {
    /// Makes a group with a reader for each data set. `opener` has the keys where messages are secured.
    ///
    /// # Errors
    /// The description is faulty, or secured without an opener.
    pub fn new(config: Group, opener: Option<Opener>) -> Result<Self, ConfigFault> {
        config.check()?;
        let opener = opener.filter(|_| config.security.is_secured());
        if config.security.is_secured() && opener.is_none() {
            return Err(ConfigFault::NoKeys { group: config.name });
        }
        Ok(Self {
            component: Component::new(State::Operational),
            readers: config
                .data_sets
                .iter()
                .map(|set| Reader::new(set.clone(), config.receive_timeout_ns))
                .collect(),
            opened: Vec::with_capacity(MOST_BYTES),
            opener,
            layout: fixed::layout(&config).filter(|_| !config.security.is_secured()),
            version: config.version,
            other: None,
            config,
            counters: ReaderGroupCounters::default(),
        })
    }

    /// The description.
    #[must_use]
    pub const fn config(&self) -> &Group {
        &self.config
    }

    /// The readers, in the order of the data sets.
    #[must_use]
    pub fn readers(&self) -> &[Reader] {
        &self.readers
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.component.state()
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> ReaderGroupCounters {
        self.counters
    }

    /// Returns the messages so far that could not be taken, and perhaps could by another description. Where they become more, the publisher may be
    /// asked for its own: [`adopt`](Self::adopt).
    #[must_use]
    pub fn strange(&self) -> u64 {
        let readers = self.readers.iter().map(Reader::strange);
        self.counters.other_versions + readers.sum::<u64>()
    }

    /// Reads by the description that the publisher has announced of this group, whose fields are found by their names; those that are not in the
    /// reader's own description are passed over. Returns false, and changes nothing, where it is the one in use, or not that of the messages that came.
    /// It allocates.
    ///
    /// # Errors
    /// The group is secured, which announcements are not; a writer or a field is gone, or has another type. Nothing is changed.
    pub fn adopt(&mut self, announced: &Group) -> Result<bool, Unsuitable> {
        if self.config.security.is_secured() {
            let group = self.config.name.clone();
            return Err(Unsuitable::Secured { group });
        }
        let mut found = Vec::new();
        for reader in &self.readers {
            let own = reader.data_set();
            let mut sets = announced.data_sets.iter();
            let set = sets.find(|set| set.writer == own.writer);
            let set = set.ok_or_else(|| Unsuitable::NoWriter {
                data_set: own.name.clone(),
                writer: own.writer,
            })?;
            found.push((set, reader.compare(set)?));
        }
        let fits = self.other.is_none_or(|other| other == announced.version)
            && found.iter().all(|(_, compared)| compared.fits);
        let same =
            announced.version == self.version && found.iter().all(|(_, compared)| compared.same);
        if same || !fits {
            return Ok(false);
        }
        self.layout = fixed::layout(announced).filter(|_| announced.data_sets.len() == 1);
        self.version = announced.version;
        self.other = None;
        for (reader, (set, compared)) in self.readers.iter_mut().zip(found) {
            reader.adopt(set, compared.sent);
        }
        Ok(true)
    }

    /// The keys, to add and to remove some.
    pub fn opener_mut(&mut self) -> Option<&mut Opener> {
        self.opener.as_mut()
    }

    /// Switches the group on or off.
    pub fn switch(&mut self, enabled: bool, above: State, now_ns: u64) {
        self.component.switch(enabled, State::Operational, above);
        self.settle_readers(now_ns);
    }

    /// Switches one reader on or off.
    pub fn switch_reader(&mut self, reader: usize, enabled: bool, now_ns: u64) {
        let above = self.component.state();
        if let Some(reader) = self.readers.get_mut(reader) {
            reader.switch(enabled, above, now_ns);
        }
    }

    pub(super) fn settle(&mut self, above: State, now_ns: u64) {
        self.component.settle(above);
        self.settle_readers(now_ns);
    }

    fn settle_readers(&mut self, now_ns: u64) {
        let state = self.component.state();
        for reader in &mut self.readers {
            reader.settle(state, now_ns);
        }
    }

    /// The first time at which a reader fails unless a message comes, ns.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.readers.iter().filter_map(Reader::deadline_ns).min()
    }

    pub(super) fn look(&mut self, now_ns: u64) {
        let state = self.component.state();
        self.readers
            .iter_mut()
            .for_each(|reader| reader.look(state, now_ns));
    }

    /// Takes a message that has the group's fixed layout, header and all. Any other is for the parser: it may be read all the
    /// same, or its fault is counted.
    fn receive_fixed(&mut self, now_ns: u64, message: &[u8], padding: Padding) -> Option<Outcome> {
        let layout = self.layout.as_deref()?;
        let padding = padding.of_layout(message.len(), layout.octets())?;
        let found = layout.check(message, padding).ok()?;
        let reader = self.readers.first_mut()?;
        let state = self.component.state();
        let verdict = reader.take_fixed(&found, layout.places(0), state, now_ns);
        if verdict == Verdict::Malformed {
            self.counters.malformed += 1;
            return Some(Outcome::Malformed);
        }
        self.counters.messages += 1;
        Some(match verdict {
            Verdict::Taken => Outcome::Taken,
            Verdict::Passed | Verdict::Malformed => Outcome::Passed,
        })
    }

    /// Takes a message.
    pub(super) fn receive(&mut self, now_ns: u64, message: &[u8], padding: Padding) -> Outcome {
        if self.component.state() != State::Operational {
            return Outcome::Foreign;
        }
        if let Some(outcome) = self.receive_fixed(now_ns, message, padding) {
            return outcome;
        }
        let Ok((header, payload)) = Header::parse(message) else {
            self.counters.malformed += 1;
            return Outcome::Malformed;
        };
        let group = header.group.unwrap_or_default();
        let other_group = group.writer_group_id.is_some_and(|id| id != self.config.id);
        if header.publisher_id != Some(self.config.publisher.id()) || other_group {
            self.counters.foreign += 1;
            return Outcome::Foreign;
        }
        if header.kind != MessageKind::Data {
            self.counters.other_kinds += 1;
            return Outcome::Passed;
        }
        let mut writers = [0; MOST_DATA_SETS];
        let mut count = None;
        if let Some(ids) = header.writers {
            if ids.len() > writers.len() {
                self.counters.malformed += 1;
                return Outcome::Malformed;
            }
            writers
                .iter_mut()
                .zip(ids.iter())
                .for_each(|(place, id)| *place = id);
            count = Some(ids.len());
        }
        let writers = count.map(|count| &writers[..count]);
        let source = Source {
            publisher: publisher_number(self.config.publisher.id()),
            writer_group: group.writer_group_id.unwrap_or(0),
        };
        let (parts, padding) = match (&mut self.opener, &header.security) {
            (None, None) if !self.config.security.is_secured() => {
                (message.get(payload..).unwrap_or_default(), padding)
            }
            // Secured, but the group is not: what is signed only could be read, and is not what was agreed on.
            (None, _) | (Some(_), None) => {
                self.counters.refused += 1;
                return Outcome::Refused(OpenFault::TooOpen);
            }
            (Some(opener), Some(security)) => {
                let footer = if security.footer_octets.is_some() {
                    2
                } else {
                    0
                };
                let at = payload - 6 - security.nonce.len() - footer;
                self.opened.clear();
                self.opened
                    .extend_from_slice(message.get(..MOST_BYTES).unwrap_or(message));
                match opener.open(&mut self.opened, at, source) {
                    Ok(opened) => (&self.opened[opened.payload..opened.end], Padding::Never),
                    Err(fault) => {
                        match fault {
                            OpenFault::Replay => self.counters.replays += 1,
                            _ => self.counters.refused += 1,
                        }
                        return Outcome::Refused(fault);
                    }
                }
            }
        };
        let version = self.version;
        if version != 0 && group.group_version.is_some_and(|found| found != version) {
            self.counters.other_versions += 1;
            self.other = group.group_version;
            return Outcome::Passed;
        }
        let state = self.component.state();
        let mut readers = Readers {
            readers: &mut self.readers,
            state,
            now_ns,
            padding,
            sequence: group.sequence,
        };
        let taken = match header.chunk {
            false => readers.split(writers, parts),
            true => {
                self.counters.chunks += 1;
                readers.join(writers, parts, &mut self.counters.incomplete)
            }
        };
        match taken {
            Some(taken) => {
                self.counters.messages += 1;
                match taken {
                    true => Outcome::Taken,
                    false => Outcome::Passed,
                }
            }
            None => {
                self.counters.malformed += 1;
                Outcome::Malformed
            }
        }
    }
}

/// The readers, while they are shown the parts of one message.
struct Readers<'a> {
    readers: &'a mut [Reader],
    state: State,
    now_ns: u64,
    padding: Padding,
    sequence: Option<u16>,
}

impl Readers<'_> {
    /// Adds a chunk to the message that its reader collects, and shows the whole one to the reader. Returns true if it took it;
    /// `None` if the chunk or the whole message cannot be read.
    fn join(&mut self, writers: Option<&[u16]>, part: &[u8], incomplete: &mut u64) -> Option<bool> {
        let (chunk, octets) = Chunk::parse(part).ok()?;
        if !self.padding.permits(part.get(octets..).unwrap_or_default()) {
            return None;
        }
        let writer = *writers?.first()?;
        let mut readers = self.readers.iter_mut();
        let Some(reader) = readers.find(|reader| reader.data_set().writer == writer) else {
            return Some(false);
        };
        let mut joint = core::mem::take(reader.joint_mut());
        let added = joint.add(&chunk);
        *incomplete += u64::from(added == Added::Broken);
        let taken = match added {
            Added::Whole => show(
                reader,
                self.state,
                self.now_ns,
                joint.octets(),
                Padding::Never,
                self.sequence,
            ),
            Added::Part | Added::Broken => Some(false),
        };
        *reader.joint_mut() = joint;
        taken
    }

    /// Shows each part to its reader. Returns true if one took it; `None` if the message cannot be read.
    fn split(&mut self, writers: Option<&[u16]>, parts: &[u8]) -> Option<bool> {
        let Some(writers) = writers else {
            let reader = self.readers.first_mut()?;
            return show(
                reader,
                self.state,
                self.now_ns,
                parts,
                self.padding,
                self.sequence,
            );
        };
        let sizes = if writers.len() > 1 {
            2 * writers.len()
        } else {
            0
        };
        let (table, mut rest) = parts.split_at_checked(sizes)?;
        let mut sizes = table.chunks_exact(2);
        let mut taken = false;
        for writer in writers {
            let (part, padding) = match sizes.next() {
                Some(size) => {
                    let size = usize::from(u16::from_le_bytes([size[0], size[1]]));
                    let (part, behind) = rest.split_at_checked(size)?;
                    rest = behind;
                    (part, Padding::Never)
                }
                None => (rest, self.padding),
            };
            let found = self
                .readers
                .iter_mut()
                .find(|reader| reader.data_set().writer == *writer);
            if let Some(reader) = found {
                taken |= show(
                    reader,
                    self.state,
                    self.now_ns,
                    part,
                    padding,
                    self.sequence,
                )?;
            }
        }
        Some(taken)
    }
}

fn show(
    reader: &mut Reader,
    state: State,
    now_ns: u64,
    part: &[u8],
    padding: Padding,
    sequence: Option<u16>,
) -> Option<bool> {
    let Ok((message, bytes)) = DataSetMessage::parse(part) else {
        reader.count_malformed();
        return None;
    };
    // Behind a message there is nothing, or the padding of a short frame.
    let behind = part.get(bytes..).unwrap_or_default();
    if !padding.permits(behind) {
        reader.count_malformed();
        return None;
    }
    match reader.take(&message, state, now_ns, padding, sequence) {
        Verdict::Taken => Some(true),
        Verdict::Passed => Some(false),
        Verdict::Malformed => None,
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
