//! A data set reader: the newest values of one data set, and what was wrong with those that were not taken.

use super::announced::{Sent, Unsuitable};
use super::joint::Joint;
use crate::config::DataSet;
use crate::field::{Scalar, scalar_bytes};
use crate::sequence::{Order, Sequence};
use crate::state::{Component, State};
use crate::values::Values;
use rtwire_wire::uadp::{
    self, Content, DataSetMessage, DateTime, FieldPlace, FixedMessage, Variant,
};

/// The counters of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct ReaderCounters {
    /// Messages with data that were taken.
    pub taken: u64,
    /// Key frames among them.
    pub key_frames: u64,
    /// Delta frames among them.
    pub delta_frames: u64,
    /// Events among them.
    pub events: u64,
    /// Keep-alives and heartbeats.
    pub keep_alives: u64,
    /// Breaks in the sequence numbers.
    pub gaps: u64,
    /// Messages missing in them.
    pub lost: u64,
    /// Messages that came before.
    pub duplicates: u64,
    /// Messages older than the last one.
    pub old: u64,
    /// Times that the publisher began anew.
    pub restarts: u64,
    /// Messages whose fields have another number or other types.
    pub mismatches: u64,
    /// Messages of another version of the metadata.
    pub other_versions: u64,
    /// Times that metadata which the publisher announced took the place of those before.
    pub changes: u64,
    /// Messages that could not be read, such as RawData of a wrong length.
    pub malformed: u64,
    /// Messages that their publisher marked as not valid.
    pub invalid: u64,
    /// Delta frames before the first key frame.
    pub without_key_frame: u64,
    /// Messages of zeros that may be padded heartbeats: signs of life, and not taken.
    pub ambiguous: u64,
    /// Receive timeouts.
    pub timeouts: u64,
    /// Recoveries from them.
    pub recoveries: u64,
}

/// The longest payload of a frame that was padded to the least length; 4 bytes less behind a VLAN tag.
const PADDED_BYTES: usize = 46;
const TAGGED_PADDED_BYTES: usize = 42;

/// The zeros that may follow a message in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Padding {
    /// None: a datagram, a secured message, a long frame, or a part of a stated size.
    Never,
    /// Any: they are seen behind the message.
    Seen,
    /// Any, and the frame has the least length: zeros at the message's own end may be padding, too.
    Hidden,
}

impl Padding {
    /// Returns the padding that a message of this length may have.
    pub(super) const fn of(ethernet: bool, bytes: usize) -> Self {
        if !ethernet || bytes > PADDED_BYTES {
            Self::Never
        } else if bytes == PADDED_BYTES || bytes == TAGGED_PADDED_BYTES {
            Self::Hidden
        } else {
            Self::Seen
        }
    }

    /// Returns the padding that a message of a fixed layout may have; `None` where the layout alone cannot tell zeros from data.
    pub(super) const fn of_layout(self, bytes: usize, layout: usize) -> Option<uadp::Padding> {
        match self {
            Self::Never => Some(uadp::Padding::Refused),
            // Zeros at the message's own end may be padding.
            Self::Hidden if bytes == layout => None,
            Self::Seen | Self::Hidden => Some(uadp::Padding::Ethernet),
        }
    }

    /// Returns true where these bytes may stand behind a message.
    pub(super) fn permits(self, behind: &[u8]) -> bool {
        behind.is_empty() || self != Self::Never && behind.iter().all(|byte| *byte == 0)
    }
}

/// The fate of a DataSetMessage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Taken,
    Passed,
    Malformed,
}

/// The kind of a message with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Key,
    Delta,
    Event,
}

/// A reader of one data set.
#[derive(Debug)]
pub struct Reader {
    data_set: DataSet,
    /// The versions of the metadata that messages have, major and minor; 0: any.
    versions: [u32; 2],
    /// The places of the publisher's fields; `None`: they are those of the description.
    sent: Option<Box<Sent>>,
    /// The versions of the last message of other metadata.
    others: [Option<u32>; 2],
    component: Component,
    timeout_ns: u64,
    deadline_ns: Option<u64>,
    sequence: Sequence,
    values: Values,
    incoming: Values,
    complete: bool,
    arrived_ns: u64,
    time: Option<DateTime>,
    number: u16,
    /// Of a message that comes in chunks.
    joint: Joint,
    counters: ReaderCounters,
}

impl Reader {
    pub(super) fn new(data_set: DataSet, timeout_ns: u64) -> Self {
        let values = Values::new(&data_set.fields);
        Self {
            incoming: values.clone(),
            values,
            versions: [data_set.major_version, data_set.minor_version],
            sent: None,
            others: [None; 2],
            data_set,
            component: Component::new(State::PreOperational),
            timeout_ns,
            deadline_ns: None,
            sequence: Sequence::default(),
            complete: false,
            arrived_ns: 0,
            time: None,
            number: 0,
            joint: Joint::default(),
            counters: ReaderCounters::default(),
        }
    }

    /// The description.
    #[must_use]
    pub const fn data_set(&self) -> &DataSet {
        &self.data_set
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.component.state()
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> ReaderCounters {
        self.counters
    }

    /// The newest values in the order of the fields; `None` before the first key frame. A text or an array has the number of its bytes or
    /// elements here, and its value in [`all`](Self::all).
    #[must_use]
    pub fn values(&self) -> Option<&[Scalar]> {
        self.complete.then_some(self.values.words())
    }

    /// The newest values with texts and arrays; `None` before the first key frame.
    #[must_use]
    pub fn all(&self) -> Option<&Values> {
        self.complete.then_some(&self.values)
    }

    /// The arrival of the newest values, ns.
    #[must_use]
    pub const fn arrived_ns(&self) -> u64 {
        self.arrived_ns
    }

    /// The time of the newest values at their publisher, if it is told.
    #[must_use]
    pub const fn time(&self) -> Option<DateTime> {
        self.time
    }

    /// The sequence number of the newest values.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }

    pub(super) fn switch(&mut self, enabled: bool, above: State, now_ns: u64) {
        self.component.switch(enabled, State::PreOperational, above);
        self.sequence.reset();
        self.watch(now_ns);
    }

    pub(super) fn settle(&mut self, above: State, now_ns: u64) {
        self.component.settle(above);
        self.watch(now_ns);
    }

    fn watch(&mut self, now_ns: u64) {
        // Before its first message a reader waits without end.
        let waits = self.component.state() == State::Operational && self.timeout_ns > 0;
        self.deadline_ns = waits.then(|| now_ns.saturating_add(self.timeout_ns));
    }

    pub(super) const fn deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    pub(super) fn look(&mut self, above: State, now_ns: u64) {
        // Where the clock was set back the silence counts from now on.
        let latest = now_ns.saturating_add(self.timeout_ns);
        self.deadline_ns = self.deadline_ns.map(|deadline| deadline.min(latest));
        if self.deadline_ns.is_some_and(|deadline| now_ns >= deadline) {
            self.deadline_ns = None;
            self.counters.timeouts += 1;
            // A publisher that comes back may begin anew.
            self.sequence.reset();
            self.component.set(State::Error, above);
        }
    }

    pub(super) const fn joint_mut(&mut self) -> &mut Joint {
        &mut self.joint
    }

    pub(super) const fn count_malformed(&mut self) {
        self.counters.malformed += 1;
    }

    /// Notes a sign of life.
    fn lives(&mut self, above: State, now_ns: u64) {
        if self.component.state() == State::Error {
            self.counters.recoveries += 1;
        }
        self.component.set(State::Operational, above);
        self.watch(now_ns);
    }

    pub(super) fn take(
        &mut self,
        message: &DataSetMessage<'_>,
        above: State,
        now_ns: u64,
        padding: Padding,
        group_sequence: Option<u16>,
    ) -> Verdict {
        if matches!(self.component.state(), State::Disabled | State::Paused) {
            return Verdict::Passed;
        }
        if !message.valid {
            self.counters.invalid += 1;
            return Verdict::Passed;
        }
        if self.is_other_version(message) {
            self.counters.other_versions += 1;
            self.others = [message.major_version, message.minor_version];
            return Verdict::Passed;
        }
        let number = message.sequence.or(group_sequence);
        let frame = match &message.content {
            Content::KeepAlive(_) | Content::Heartbeat(_) => {
                self.counters.keep_alives += 1;
                self.beats(number, above, now_ns);
                return Verdict::Passed;
            }
            Content::Event(_) if !self.data_set.event => return Verdict::Passed,
            content if self.is_ambiguous(content, padding) => {
                self.counters.ambiguous += 1;
                self.beats(number, above, now_ns);
                return Verdict::Passed;
            }
            content => self.decode(content, padding),
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(verdict) => return verdict,
        };
        self.accept(frame, number, message.timestamp, above, now_ns)
    }

    /// Takes a message by the group's fixed layout: no parts to be told apart, one load for each field. It belongs to this
    /// reader and is a valid key frame, as the layout says.
    pub(super) fn take_fixed(
        &mut self,
        message: &FixedMessage<'_, '_>,
        places: &[FieldPlace],
        above: State,
        now_ns: u64,
    ) -> Verdict {
        if matches!(self.component.state(), State::Disabled | State::Paused) {
            return Verdict::Passed;
        }
        if let (Some(scalars), None) = (self.incoming.scalars_mut(), &self.sent) {
            for (value, place) in scalars.iter_mut().zip(places) {
                let own = place.of(message.bytes()).unwrap_or_default();
                let mut bits = [0; 8];
                bits.iter_mut().zip(own).for_each(|(to, from)| *to = *from);
                *value = Scalar::from_bits(value.kind(), u64::from_le_bytes(bits));
            }
        } else {
            self.incoming.copy_from(&self.values);
            let mut fields = places.iter().enumerate();
            let valid = fields.all(|(field, place)| {
                let own = place.of(message.bytes()).unwrap_or_default();
                take_raw(&mut self.incoming, self.sent.as_deref_mut(), field, own)
                    == Some(own.len())
            });
            if !valid {
                self.counters.malformed += 1;
                return Verdict::Malformed;
            }
        }
        let number = message.data_set_sequence(0).or(message.sequence());
        self.accept(Frame::Key, number, None, above, now_ns)
    }

    /// Judges the number of a message whose fields are in `incoming`, and takes them if it is newer.
    fn accept(
        &mut self,
        frame: Frame,
        number: Option<u16>,
        time: Option<DateTime>,
        above: State,
        now_ns: u64,
    ) -> Verdict {
        let order = number.map_or(Order::Next, |number| self.sequence.take(number));
        match order {
            Order::Next => {}
            Order::Gap { missing } => {
                self.counters.gaps += 1;
                self.counters.lost += u64::from(missing);
            }
            Order::Duplicate => self.counters.duplicates += 1,
            Order::Old => self.counters.old += 1,
            Order::Restart => self.counters.restarts += 1,
        }
        if !order.is_taken() {
            return Verdict::Passed;
        }
        // Behind a gap a delta frame still tells the fields that it has; the next key frame tells all.
        match frame {
            Frame::Key => self.counters.key_frames += 1,
            Frame::Event => self.counters.events += 1,
            Frame::Delta if self.complete => self.counters.delta_frames += 1,
            Frame::Delta => {
                self.counters.without_key_frame += 1;
                self.lives(above, now_ns);
                return Verdict::Passed;
            }
        }
        self.complete = true;
        self.counters.taken += 1;
        std::mem::swap(&mut self.values, &mut self.incoming);
        self.arrived_ns = now_ns;
        self.time = time;
        self.number = number.unwrap_or(0);
        self.lives(above, now_ns);
        Verdict::Taken
    }

    /// Notes a message without data. Its number is that of the next message with data.
    fn beats(&mut self, number: Option<u16>, above: State, now_ns: u64) {
        if let Some(next) = number {
            let missing = self.sequence.expects(next);
            self.counters.lost += u64::from(missing);
            self.counters.gaps += u64::from(missing > 0);
        }
        self.lives(above, now_ns);
    }

    /// Returns true for a key frame that looks like a padded heartbeat.
    fn is_ambiguous(&self, content: &Content<'_>, padding: Padding) -> bool {
        match content {
            Content::RawData(bytes) => {
                let sent = self.sent.as_ref();
                let whole = sent.map_or_else(|| self.data_set.raw_bytes(), |sent| sent.raw_bytes);
                let data = self.data_set.zeros_are_data;
                let padded = match padding {
                    Padding::Never => false,
                    Padding::Seen => !data && bytes.len() > whole,
                    // Fewer bytes than the fields have are no data in any case.
                    Padding::Hidden => !data || bytes.len() < whole,
                };
                padded && bytes.iter().all(|byte| *byte == 0)
            }
            // The first zeros are read as a number of fields.
            Content::KeyFrame(fields) => padding != Padding::Never && fields.is_empty(),
            _ => false,
        }
    }

    /// Returns true for other metadata than those that are read.
    fn is_other_version(&self, message: &DataSetMessage<'_>) -> bool {
        let [major, minor] = self.versions;
        let differs = |wanted: u32, found: Option<u32>| {
            wanted != 0 && found.is_some_and(|found| found != wanted)
        };
        differs(major, message.major_version) || differs(minor, message.minor_version)
    }

    /// Returns the messages so far that could not be taken, and perhaps could with other metadata.
    pub(super) const fn strange(&self) -> u64 {
        self.counters.other_versions + self.counters.mismatches + self.counters.malformed
    }

    /// Compares announced metadata with those that are read.
    pub(super) fn compare(&self, announced: &DataSet) -> Result<Compared, Unsuitable> {
        let found = [announced.major_version, announced.minor_version];
        let mut both = self.others.iter().zip(found);
        let fits = both.all(|(seen, found)| seen.is_none_or(|seen| seen == found));
        let sent = Sent::of(&self.data_set, announced)?;
        let same = found == self.versions
            && sent.as_ref().map(Sent::places) == self.sent.as_deref().map(Sent::places);
        Ok(Compared { sent, fits, same })
    }

    /// Reads by metadata that were announced from the next key frame on. Behind them the sequence begins anew.
    pub(super) fn adopt(&mut self, announced: &DataSet, sent: Option<Sent>) {
        self.versions = [announced.major_version, announced.minor_version];
        self.sent = sent.map(Box::new);
        self.others = [None; 2];
        self.joint = Joint::default();
        self.sequence.reset();
        self.complete = false;
        self.counters.changes += 1;
    }

    /// Returns the number of fields that a whole message has.
    fn sent_fields(&self) -> usize {
        let sent = self.sent.as_deref();
        sent.map_or(self.values.len(), |sent| sent.places().len())
    }

    /// Reads fields into `incoming`.
    fn decode(&mut self, content: &Content<'_>, padding: Padding) -> Result<Frame, Verdict> {
        self.incoming.copy_from(&self.values);
        let count = self.sent_fields();
        let (values, sent) = (&mut self.incoming, self.sent.as_deref());
        // Of a field that is not described any value is right.
        let mut put = |at: usize, value: Option<Variant<'_>>| match sent {
            None => values.put(at, value),
            Some(sent) if at < count => sent.place(at).is_none_or(|own| values.put(own, value)),
            Some(_) => false,
        };
        let read = match content {
            Content::RawData(bytes) => return self.decode_raw(bytes, padding).map(|()| Frame::Key),
            Content::KeyFrame(fields) | Content::Event(fields) if fields.len() == count => {
                let event = matches!(content, Content::Event(_));
                let mut all = fields.iter().enumerate();
                let fits = all.all(|(at, field)| put(at, field.value()));
                fits.then_some(if event { Frame::Event } else { Frame::Key })
            }
            Content::DeltaFrame(fields) => fields
                .without_fill()
                .all(|(at, field)| put(usize::from(at), field.value()))
                .then_some(Frame::Delta),
            _ => None,
        };
        read.ok_or_else(|| {
            self.counters.mismatches += 1;
            Verdict::Passed
        })
    }

    fn decode_raw(&mut self, bytes: &[u8], padding: Padding) -> Result<(), Verdict> {
        let mut rest = bytes;
        let mut whole = true;
        if let (Some(scalars), None) = (self.incoming.scalars_mut(), &self.sent) {
            for place in scalars {
                let length = scalar_bytes(place.kind()).unwrap_or(0);
                let Some((own, behind)) = rest.split_at_checked(length) else {
                    whole = false;
                    break;
                };
                rest = behind;
                let mut bits = [0; 8];
                bits[..length].copy_from_slice(own);
                *place = Scalar::from_bits(place.kind(), u64::from_le_bytes(bits));
            }
        } else {
            for field in 0..self.sent_fields() {
                let sent = self.sent.as_deref_mut();
                let Some(own) = take_raw(&mut self.incoming, sent, field, rest) else {
                    whole = false;
                    break;
                };
                rest = rest.get(own..).unwrap_or_default();
            }
        }
        // Only the padding of a short frame may follow.
        if whole && padding.permits(rest) {
            return Ok(());
        }
        self.counters.malformed += 1;
        Err(Verdict::Malformed)
    }
}

/// Announced metadata beside those that are read.
pub(super) struct Compared {
    pub(super) sent: Option<Sent>,
    /// They are those of the last message of other metadata, as far as it tells its versions.
    pub(super) fits: bool,
    /// They are those that are read.
    pub(super) same: bool,
}

/// Reads a field of RawData that is sent at this place. Returns its bytes; `None` where there are too few, or it is not valid.
fn take_raw(
    values: &mut Values,
    sent: Option<&mut Sent>,
    field: usize,
    bytes: &[u8],
) -> Option<usize> {
    match sent {
        None => values.take_raw(field, bytes),
        Some(sent) => sent.take_raw(values, field, bytes),
    }
}
