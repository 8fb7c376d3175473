//! A writer group: when it publishes, what its writers send, and the frame that leaves.

mod chunks;

use super::message::{self, Kind, Part, PublishFault, Scratch};
use crate::config::{ConfigFault, DataSet, Group, MOST_DATA_SETS, Profile};
use crate::field::Scalar;
use crate::fixed;
use crate::security::{SECURITY_HEADER_BYTES, Sealer};
use crate::state::{Component, State};
use crate::values::{FieldValue, Values};
use rtwire_wire::uadp::{DateTime, FixedLayout};

/// The longest message behind the Ethernet header.
const MOST_BYTES: usize = 1500;

/// The longest DataSetMessage that is sent in chunks.
const MOST_IN_CHUNKS: usize = 1 << 16;

/// The counters of a writer group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct WriterCounters {
    /// NetworkMessages made.
    pub messages: u64,
    /// Key frames among their DataSetMessages.
    pub key_frames: u64,
    /// Delta frames among their DataSetMessages.
    pub delta_frames: u64,
    /// Events among their DataSetMessages.
    pub events: u64,
    /// Chunks among the NetworkMessages.
    pub chunks: u64,
    /// Keep-alives among their DataSetMessages.
    pub keep_alives: u64,
    /// Instants passed over because their time had passed.
    pub skipped: u64,
    /// Messages that were not sent for lack of a nonce or room.
    pub faults: u64,
}

#[derive(Debug)]
struct Writer {
    component: Component,
    values: Values,
    sent: Values,
    changed: Vec<bool>,
    sequence: u16,
    /// Messages until the next key frame.
    until_key: u32,
    /// An event was raised and is not sent yet.
    raised: bool,
    sent_ns: u64,
}

/// Returns the bytes of a group's longest message, without the Ethernet header: all key frames, or all fields as changes.
///
/// # Errors
/// The description is faulty, or a message would not fit into a frame.
pub fn longest_message_bytes(group: &Group) -> Result<usize, ConfigFault> {
    // It seals nothing.
    let mut group = WriterGroup::new(group.clone(), &[], Some(0), 0)?;
    let mut longest = 0;
    for kind in [Kind::Key, Kind::Delta] {
        let sets = group.config.data_sets.iter();
        let kinds = sets.map(|set| match set.key_frame_count {
            _ if set.event => Some(Kind::Event),
            1 => Some(Kind::Key),
            _ => Some(kind),
        });
        let kinds: Vec<Option<Kind>> = kinds.collect();
        for writer in &mut group.writers {
            writer.changed.fill(true);
            writer.values.fill(true);
        }
        let bytes = group.write(&kinds, 0).map_or(MOST_BYTES, |(_, end)| end);
        longest = longest.max(bytes);
    }
    Ok(longest)
}

/// A writer group with its data sets.
#[derive(Debug)]
pub struct WriterGroup {
    config: Group,
    component: Component,
    writers: Vec<Writer>,
    buffer: Vec<u8>,
    prefix: usize,
    scratch: Scratch,
    /// Room for one DataSetMessage that may need chunks; empty where all fit into one message.
    whole: Vec<u8>,
    ids: Vec<u16>,
    layout: Option<Box<FixedLayout>>,
    sealer: Option<usize>,
    sequence: u16,
    next_ns: u64,
    utc_behind_ns: i64,
    counters: WriterCounters,
    last_fault: Option<PublishFault>,
}

impl WriterGroup {
    /// Makes a group whose messages follow `prefix`: an Ethernet header, or nothing for UDP.
    ///
    /// `sealer` is the place of the group's sealer at its [`PublisherNode`](super::PublisherNode). Times of messages are
    /// UTC: `utc_behind_ns` is the time by which it is behind the node's clock.
    ///
    /// # Errors
    /// The description is faulty, secured without a sealer, or a message would not fit into a frame.
    pub fn new(
        config: Group,
        prefix: &[u8],
        sealer: Option<usize>,
        utc_behind_ns: i64,
    ) -> Result<Self, ConfigFault> {
        config.check()?;
        if config.security.is_secured() && sealer.is_none() {
            return Err(ConfigFault::NoKeys { group: config.name });
        }
        let fields = config.data_sets.iter().map(|set| set.fields.len()).max();
        let raw_bytes = config.data_sets.iter().map(DataSet::raw_bytes).max();
        let mut buffer = vec![0; prefix.len() + MOST_BYTES];
        buffer[..prefix.len()].copy_from_slice(prefix);
        let writers = config.data_sets.iter().map(Writer::new).collect();
        let mut this = Self {
            ids: Vec::with_capacity(config.data_sets.len()),
            scratch: Scratch::with_room(fields.unwrap_or(0), raw_bytes.unwrap_or(0)),
            component: Component::new(State::Operational),
            writers,
            buffer,
            prefix: prefix.len(),
            whole: Vec::new(),
            layout: fixed::layout(&config),
            sealer,
            sequence: 0,
            next_ns: 0,
            utc_behind_ns,
            counters: WriterCounters::default(),
            last_fault: None,
            config,
        };
        // The longest message is one of all writers' key frames, with each text and array as long as it can be.
        let kinds = this.first_kinds();
        this.fill(true);
        let Err(_) = this.write(&kinds[..this.writers.len()], 0) else {
            this.fill(false);
            return Ok(this);
        };
        let most = match this.config.profile {
            Profile::Fixed => MOST_BYTES,
            Profile::Dynamic => MOST_IN_CHUNKS,
        };
        if this.config.profile == Profile::Dynamic {
            this.whole = vec![0; MOST_IN_CHUNKS];
            let all = 0..this.writers.len();
            if all
                .into_iter()
                .all(|nth| this.write_whole(nth, kinds[nth], 0).is_ok())
            {
                this.fill(false);
                return Ok(this);
            }
        }
        Err(ConfigFault::TooLong {
            bytes: this
                .config
                .data_sets
                .iter()
                .map(|set| 16 + 12 * set.fields.len() + set.raw_bytes())
                .sum(),
            group: this.config.name,
            most,
        })
    }

    /// True where a message may be longer than a frame, and is then sent in chunks.
    #[must_use]
    pub fn has_chunks(&self) -> bool {
        !self.whole.is_empty()
    }

    /// Makes each text and array as long as it can be, or empty.
    fn fill(&mut self, full: bool) {
        let writers = self.writers.iter_mut();
        writers.for_each(|writer| writer.values.fill(full));
    }

    fn first_kinds(&self) -> [Option<Kind>; MOST_DATA_SETS] {
        let mut kinds = [None; MOST_DATA_SETS];
        for (kind, set) in kinds.iter_mut().zip(&self.config.data_sets) {
            *kind = Some(if set.event { Kind::Event } else { Kind::Key });
        }
        kinds
    }

    /// The description.
    #[must_use]
    pub const fn config(&self) -> &Group {
        &self.config
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.component.state()
    }

    /// The state of a writer; `None` if there is no such place.
    #[must_use]
    pub fn writer_state(&self, writer: usize) -> Option<State> {
        self.writers
            .get(writer)
            .map(|writer| writer.component.state())
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> WriterCounters {
        self.counters
    }

    /// The reason why the last message was not sent, if one was not.
    #[must_use]
    pub const fn last_fault(&self) -> Option<PublishFault> {
        self.last_fault
    }

    /// Switches the group on or off.
    pub fn switch(&mut self, enabled: bool, above: State) {
        self.component.switch(enabled, State::Operational, above);
        self.settle_writers();
    }

    /// Switches one writer on or off.
    pub fn switch_writer(&mut self, writer: usize, enabled: bool) {
        let above = self.component.state();
        if let Some(writer) = self.writers.get_mut(writer) {
            writer.component.switch(enabled, State::Operational, above);
            writer.until_key = 0;
        }
    }

    pub(super) fn settle(&mut self, above: State) {
        self.component.settle(above);
        self.settle_writers();
    }

    fn settle_writers(&mut self) {
        let state = self.component.state();
        for writer in &mut self.writers {
            writer.component.settle(state);
        }
    }

    /// Sets a scalar. A value of another type, or of no field, changes nothing and returns false.
    #[inline]
    pub fn set(&mut self, writer: usize, field: usize, value: Scalar) -> bool {
        let writer = self.writers.get_mut(writer);
        writer.is_some_and(|writer| writer.values.set_scalar(field, value))
    }

    /// Sets a field of any type. A value of another type, of no field, or longer than its field, changes nothing and returns false.
    pub fn set_value(&mut self, writer: usize, field: usize, value: FieldValue<'_>) -> bool {
        let writer = self.writers.get_mut(writer);
        writer.is_some_and(|writer| writer.values.set(field, value))
    }

    /// Raises the event of a data set: its values are sent once, with the next message. Returns false where it is no event.
    pub fn raise(&mut self, writer: usize) -> bool {
        let is_event = self
            .config
            .data_sets
            .get(writer)
            .is_some_and(|set| set.event);
        match self.writers.get_mut(writer).filter(|_| is_event) {
            Some(writer) => {
                writer.raised = true;
                true
            }
            None => false,
        }
    }

    /// Returns the value of a field that is a scalar.
    #[must_use]
    pub fn get(&self, writer: usize, field: usize) -> Option<Scalar> {
        self.writers.get(writer)?.values.get(field)?.scalar()
    }

    /// Returns a writer's values.
    #[must_use]
    pub fn values(&self, writer: usize) -> Option<&Values> {
        self.writers.get(writer).map(|writer| &writer.values)
    }

    /// Returns a writer's values, to be set.
    pub fn values_mut(&mut self, writer: usize) -> Option<&mut Values> {
        self.writers
            .get_mut(writer)
            .map(|writer| &mut writer.values)
    }

    pub(super) fn begin_at(&mut self, now_ns: u64) {
        let Group {
            interval_ns,
            offset_ns,
            ..
        } = self.config;
        let since = now_ns.saturating_sub(offset_ns);
        self.next_ns = offset_ns + since.div_ceil(interval_ns) * interval_ns;
        // Where the clock was set back a silence counts from now on.
        for writer in &mut self.writers {
            writer.sent_ns = writer.sent_ns.min(now_ns);
        }
    }

    /// The next instant, ns.
    #[must_use]
    pub const fn due_ns(&self) -> u64 {
        self.next_ns
    }

    /// Makes the message of the instant that is due, and moves on to the next that is still to come. `send` takes its frame, or
    /// those of its chunks; none where no writer has anything to send. No allocation.
    pub(super) fn publish(
        &mut self,
        now_ns: u64,
        sealers: &mut [Sealer],
        send: &mut dyn FnMut(&[u8]),
    ) {
        let passed = now_ns.saturating_sub(self.next_ns) / self.config.interval_ns;
        self.counters.skipped += passed;
        self.next_ns += (passed + 1) * self.config.interval_ns;
        self.publish_now(now_ns, sealers, send);
    }

    /// Makes a message at once, beside the instants, as [`publish`](Self::publish).
    pub(super) fn publish_now(
        &mut self,
        now_ns: u64,
        sealers: &mut [Sealer],
        send: &mut dyn FnMut(&[u8]),
    ) {
        if self.component.state() != State::Operational {
            return;
        }
        let made = match self.has_chunks() {
            false => self.message(now_ns, sealers, send),
            true => self.parts(now_ns, sealers, send),
        };
        if let Err(fault) = made {
            self.counters.faults += 1;
            self.last_fault = Some(fault);
        }
    }

    /// Seals the message at the front of the buffer, and hands it over.
    fn hand_over(
        &mut self,
        (at, end): (usize, usize),
        sealers: &mut [Sealer],
        send: &mut dyn FnMut(&[u8]),
    ) -> Result<(), PublishFault> {
        if self.config.security.is_secured() {
            let sealer = self.sealer.and_then(|place| sealers.get_mut(place));
            let sealer = sealer.ok_or(PublishFault::NoSealer)?;
            let message = self.buffer.get_mut(self.prefix..end).unwrap_or_default();
            sealer.seal(self.config.security, message, at)?;
        }
        self.counters.messages += 1;
        self.sequence = self.sequence.wrapping_add(1);
        send(self.buffer.get(..end).unwrap_or_default());
        Ok(())
    }

    /// Decides what each writer sends. Returns false where none has anything to send.
    fn decide(&mut self, now_ns: u64, kinds: &mut [Option<Kind>]) -> bool {
        let mut any = false;
        let keep_alive_ns = self.config.keep_alive_ns;
        let sets = self.config.data_sets.iter();
        for ((writer, set), kind) in self.writers.iter_mut().zip(sets).zip(kinds) {
            *kind = writer.kind(set, now_ns, keep_alive_ns);
            any |= kind.is_some();
        }
        any
    }

    /// Notes what a writer has sent.
    fn sent(&mut self, nth: usize, kind: Kind, now_ns: u64) {
        match kind {
            Kind::Key => self.counters.key_frames += 1,
            Kind::Delta => self.counters.delta_frames += 1,
            Kind::Event => self.counters.events += 1,
            Kind::KeepAlive => self.counters.keep_alives += 1,
        }
        let set = self.config.data_sets.get(nth);
        if let Some((writer, set)) = self.writers.get_mut(nth).zip(set) {
            writer.sent(kind, set, now_ns);
        }
    }

    fn message(
        &mut self,
        now_ns: u64,
        sealers: &mut [Sealer],
        send: &mut dyn FnMut(&[u8]),
    ) -> Result<(), PublishFault> {
        let mut kinds = [None; MOST_DATA_SETS];
        let operational = |writer: &Writer| writer.component.state() == State::Operational;
        if self.layout.is_some() && !self.writers.iter().all(operational) {
            return Ok(());
        }
        let places = if let Some(places) = self.patch() {
            kinds[0] = Some(Kind::Key);
            places
        } else {
            if !self.decide(now_ns, &mut kinds) {
                return Ok(());
            }
            let count = self.writers.len().min(kinds.len());
            self.write(&kinds[..count], now_ns)?
        };
        self.hand_over(places, sealers, send)?;
        // Only now: what was not sealed is not sent, and its changes are sent by the next message.
        for (nth, kind) in kinds.into_iter().enumerate() {
            if let Some(kind) = kind {
                self.sent(nth, kind, now_ns);
            }
        }
        Ok(())
    }

    /// Returns the time that a message of this instant carries.
    fn time(&self, now_ns: u64) -> DateTime {
        DateTime::from_unix_ns((now_ns as i64).saturating_sub(self.utc_behind_ns))
    }

    /// Writes a message. Returns the security header's place in it, and the frame's end.
    fn write(
        &mut self,
        kinds: &[Option<Kind>],
        now_ns: u64,
    ) -> Result<(usize, usize), PublishFault> {
        let time = self.time(now_ns);
        self.ids.clear();
        let sets = self.config.data_sets.iter().zip(kinds);
        let present = sets.filter(|(_, kind)| kind.is_some());
        self.ids.extend(present.map(|(set, _)| set.writer));
        let room = self.buffer.len() - message::trailer(&self.config);
        let out = self.buffer.get_mut(self.prefix..room).unwrap_or_default();
        let (at, payload) = message::header(&self.config, self.sequence, &self.ids, false, out)?;
        let sizes = match (self.config.profile, self.ids.len()) {
            (Profile::Dynamic, count @ 2..) => 2 * count,
            _ => 0,
        };
        let mut end = payload + sizes;
        let mut size_at = payload;
        for (nth, kind) in kinds.iter().enumerate() {
            let Some(kind) = *kind else { continue };
            let part = self.writers[nth].part(&self.config.data_sets[nth], kind);
            let place = out.get_mut(end..).unwrap_or_default();
            let bytes = message::data_set(&self.config, &part, time, &mut self.scratch, place)?;
            if sizes > 0 {
                let size = u16::try_from(bytes).unwrap_or(u16::MAX);
                out[size_at..size_at + 2].copy_from_slice(&size.to_le_bytes());
                size_at += 2;
            }
            end += bytes;
        }
        Ok((at, self.prefix + end + message::trailer(&self.config)))
    }

    /// Writes numbers and values into the message of the layout. Returns the security header's place and the frame's end;
    /// `None` without a layout.
    fn patch(&mut self) -> Option<(usize, usize)> {
        let layout = self.layout.as_deref()?;
        let (writer, values) = self.writers.first().map(|one| (one, &one.values))?;
        let end = self.prefix + layout.octets();
        let message = self.buffer.get_mut(self.prefix..end)?;
        // Whole, since the last message may have been encrypted in its place.
        layout.start(message).ok()?;
        layout.set_sequence(message, self.sequence);
        layout.set_data_set_sequence(message, 0, writer.sequence);
        for (field, (place, value)) in layout.places(0).iter().zip(values.words()).enumerate() {
            let own = place.of_mut(message)?;
            if place.scalar {
                let bits = value.bits().to_le_bytes();
                let bytes = own.len();
                own.copy_from_slice(bits.get(..bytes)?);
            } else {
                values.emit_raw(field, own).ok()?;
            }
        }
        let security = match self.config.security.is_secured() {
            true => SECURITY_HEADER_BYTES,
            false => 0,
        };
        Some((
            layout.payload_at() - security,
            end + message::trailer(&self.config),
        ))
    }
}

impl Writer {
    /// Returns what this writer puts into a message.
    fn part<'a>(&'a self, data_set: &'a DataSet, kind: Kind) -> Part<'a> {
        Part {
            data_set,
            kind,
            sequence: self.sequence,
            values: &self.values,
            changed: &self.changed,
        }
    }

    fn new(set: &DataSet) -> Self {
        let values = Values::new(&set.fields);
        Self {
            component: Component::new(State::Operational),
            sent: values.clone(),
            changed: vec![false; values.len()],
            values,
            sequence: 0,
            until_key: 0,
            raised: false,
            sent_ns: 0,
        }
    }

    /// Decides what is to be sent, and marks the fields that changed since the last message.
    fn kind(&mut self, set: &DataSet, now_ns: u64, keep_alive_ns: u64) -> Option<Kind> {
        if self.component.state() != State::Operational {
            return None;
        }
        let silent = now_ns.saturating_sub(self.sent_ns) >= keep_alive_ns;
        if set.event {
            return match self.raised {
                true => Some(Kind::Event),
                false => silent.then_some(Kind::KeepAlive),
            };
        }
        if set.key_frame_count == 1 || self.until_key == 0 {
            return Some(Kind::Key);
        }
        let mut any = false;
        for (field, changed) in self.changed.iter_mut().enumerate() {
            *changed = self.values.differs(&self.sent, field);
            any |= *changed;
        }
        self.until_key -= 1;
        if any {
            return Some(Kind::Delta);
        }
        silent.then_some(Kind::KeepAlive)
    }

    /// Notes that a message was made. A keep-alive has the number of the next message.
    fn sent(&mut self, kind: Kind, set: &DataSet, now_ns: u64) {
        self.sent_ns = now_ns;
        if kind != Kind::KeepAlive {
            self.sequence = self.sequence.wrapping_add(1);
            self.sent.copy_from(&self.values);
        }
        if kind == Kind::Event {
            self.raised = false;
        }
        if kind == Kind::Key {
            self.until_key = set.key_frame_count.saturating_sub(1);
        }
    }
}
