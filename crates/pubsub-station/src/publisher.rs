//! A publisher on a real interface: sample, write, send, at each instant.

use crate::answering::Answering;
use crate::common::{become_real_time, find, generate, image_path, prefix, stamping};
use crate::discovery::Answers;
use crate::keeper::Keeper;
use crate::memory::ValueMemory;
use crate::outgoing::Out;
use crate::project::{FieldSource, Project, RealTime, Transport};
use crate::report::{Collector, PublishReport, Times, WriterGroupReport};
use crate::watched::NewestImage;
use crate::{AnswerCounters, StationError};
use rtwire_link::{LinkError, Sender, SenderConfig, TxStamps};
use rtwire_pubsub::publish::{PublisherNode, WriterGroup};
use rtwire_pubsub::security::Sealer;
use rtwire_pubsub::{FieldValue, Scalar, Values};
use rtwire_sys::wait::{self, Waited};
use rtwire_sys::{clock, interface};
use rtwire_wire::MacAddress;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The time from opening to the first instant, ns.
const SETTLE_NS: u64 = 2_000_000;
/// The time in ns by which a frame is handed over before its launch time, beyond the queue's own.
const HAND_OVER_NS: u64 = 200_000;

/// A place in a publisher's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    group: usize,
    data_set: usize,
    field: usize,
}

/// The values that the next messages carry.
#[derive(Debug)]
pub struct PublishImage<'a> {
    groups: &'a mut [WriterGroup],
    /// The number of the cycle, from 0.
    pub cycle: u64,
    /// The instant, ns of CLOCK_TAI.
    pub instant_ns: u64,
}

impl PublishImage<'_> {
    /// Sets a field. Returns false, and changes nothing, where the value is of another type.
    pub fn set(&mut self, point: Point, value: Scalar) -> bool {
        let group = self.groups.get_mut(point.group);
        group.is_some_and(|group| group.set(point.data_set, point.field, value))
    }

    /// Sets a field of any type: also texts, bytes and arrays. Returns false, and changes nothing, where the value is of another type, or longer
    /// than the field.
    pub fn set_value(&mut self, point: Point, value: FieldValue<'_>) -> bool {
        let group = self.groups.get_mut(point.group);
        group.is_some_and(|group| group.set_value(point.data_set, point.field, value))
    }

    /// Raises the event of a field's data set: its values are sent once. Returns false where the data set is no event.
    pub fn raise(&mut self, point: Point) -> bool {
        let group = self.groups.get_mut(point.group);
        group.is_some_and(|group| group.raise(point.data_set))
    }

    /// Returns the value of a field that is a scalar.
    #[must_use]
    pub fn get(&self, point: Point) -> Option<Scalar> {
        self.groups
            .get(point.group)?
            .get(point.data_set, point.field)
    }
}

/// The end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Ends after this number of instants.
    pub cycles: Option<u64>,
    /// Ends after this time, ns.
    pub duration_ns: Option<u64>,
}

/// The outcome of a message that was sent at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames handed over to the interface.
    pub frames: u64,
    /// Frames that the transmit queue refused.
    pub refused: u64,
    /// The number of the last frame in the transmit stamps.
    pub frame: Option<u64>,
    /// The moment at which the last message was written and sealed, ns of CLOCK_TAI.
    pub written_ns: u64,
    /// The moment at which the kernel had taken its frame, ns of CLOCK_TAI.
    pub handed_over_ns: u64,
}

/// A publisher.
#[derive(Debug)]
pub struct PublisherStation {
    node: PublisherNode,
    sender: Sender,
    keepers: Vec<Keeper>,
    sources: Vec<(Point, FieldSource)>,
    images: Vec<Mapped>,
    real_time: RealTime,
    interface: String,
    lead_ns: u64,
    /// Messages that were published at once.
    at_once: u64,
    /// The groups that the driver sends as answers.
    answering: Option<Answering>,
    /// Answers probes beside the loop.
    _answers: Option<Answers>,
}

/// The memory-mapped values of one data set.
#[derive(Debug)]
struct Mapped {
    group: usize,
    data_set: usize,
    memory: ValueMemory,
    words: Vec<u64>,
    /// The updates seen: a new one raises an event.
    updates: u64,
}

/// Tells the thread that collects stamps, when it is dropped, that the loop is over.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl PublisherStation {
    /// Opens the publisher of a project on `interface`, or on the project's own.
    ///
    /// # Errors
    /// The interface is missing; a capability is; a key file cannot be used.
    pub fn open(project: &Project, interface: Option<&str>) -> Result<Self, StationError> {
        let name = interface.or(project.connection.interface.as_deref());
        let name = name.ok_or(StationError::NoInterface)?;
        let own = interface::by_name(name)?;
        let answering = Answering::open(project, &own)?;
        let real_time = project.real_time;
        let mut config = SenderConfig::new(name);
        config.path = real_time.path;
        let first = project.groups.first().ok_or(StationError::Ended)?;
        let pcp = u32::from(first.pcp);
        config.priority = real_time.socket_priority.unwrap_or(pcp);
        config.stamping = stamping(&config);
        let sender = match first.transport {
            Transport::Ethernet { .. } => Sender::frames(&config)?,
            Transport::Udp { address } => Sender::datagrams(&config, address)?,
        };
        let utc_behind_ns = clock::tai_offset_ns()?;
        let mut files: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut sealers: Vec<Sealer> = Vec::new();
        let mut keepers = Vec::new();
        let mut groups = Vec::new();
        let mut sources = Vec::new();
        for (at, entry) in project.groups.iter().enumerate() {
            let mut sealer = None;
            if let Some(security) = &entry.security {
                // Groups of one key file share its nonces.
                let known = files.iter().position(|(keys, _)| *keys == security.keys);
                sealer = Some(match known {
                    Some(known) => known,
                    None => {
                        let (sealer, keeper) = Keeper::start(&security.keys, &security.nonces)?;
                        sealers.push(sealer);
                        keepers.push(keeper);
                        files.push((security.keys.clone(), security.nonces.clone()));
                        files.len() - 1
                    }
                });
            }
            for (set, own) in entry.sources.iter().enumerate() {
                for (field, source) in own.iter().enumerate() {
                    let point = Point {
                        group: at,
                        data_set: set,
                        field,
                    };
                    if !matches!(source, FieldSource::Program | FieldSource::Question(_)) {
                        sources.push((point, source.clone()));
                    }
                }
            }
            // The driver writes the header of an answer.
            let prefix = match entry.answer {
                Some(_) => Vec::new(),
                None => prefix(&entry.transport, MacAddress(own.mac)),
            };
            groups.push(WriterGroup::new(
                entry.group.clone(),
                &prefix,
                sealer,
                utc_behind_ns,
            )?);
        }
        let launch = real_time.path.has_launch_times();
        let lead_ns = sender
            .launch_queue()
            .map_or(0, |queue| queue.delta_ns + HAND_OVER_NS);
        Ok(Self {
            node: PublisherNode::new(groups, sealers, launch),
            sender,
            keepers,
            sources,
            images: Vec::new(),
            real_time,
            interface: name.to_owned(),
            lead_ns,
            at_once: 0,
            answering,
            _answers: Answers::start(project, name)?,
        })
    }

    /// Makes the calling thread real-time as the project says. [`run`](Self::run) does it by itself; a loop that calls
    /// [`publish_now`](Self::publish_now) does it once before.
    ///
    /// # Errors
    /// A capability is missing.
    pub fn become_real_time(&self) -> Result<(), StationError> {
        become_real_time(&self.real_time)
    }

    /// Returns the kernel's transmit stamps, for one taker; `None` where the path has none. [`run`](Self::run) takes them, too.
    ///
    /// # Errors
    /// The socket does not give them.
    pub fn take_stamps(&mut self) -> Result<Option<TxStamps>, StationError> {
        Ok(self.sender.take_stamps()?)
    }

    /// Sets a field, for [`publish_now`](Self::publish_now). Returns false, and changes nothing, where the value is of another type.
    pub fn set(&mut self, point: Point, value: Scalar) -> bool {
        let group = self.node.groups_mut().get_mut(point.group);
        group.is_some_and(|group| group.set(point.data_set, point.field, value))
    }

    /// Sets a field of any type, as [`set`](Self::set): also texts, bytes and arrays. Returns false, and changes nothing, where the value is of
    /// another type, or longer than the field.
    pub fn set_value(&mut self, point: Point, value: FieldValue<'_>) -> bool {
        let group = self.node.groups_mut().get_mut(point.group);
        group.is_some_and(|group| group.set_value(point.data_set, point.field, value))
    }

    /// Raises the event of a field's data set, for [`publish_now`](Self::publish_now). Returns false where the data set is no event.
    pub fn raise(&mut self, point: Point) -> bool {
        let group = self.node.groups_mut().get_mut(point.group);
        group.is_some_and(|group| group.raise(point.data_set))
    }

    /// Publishes a message of each group at once, with the values as they are: an answer within a control loop, which does not wait
    /// for an instant. Generators and memory-mapped images are sampled before. One system call for each frame, no allocation.
    ///
    /// # Errors
    /// The interface is gone or down.
    pub fn publish_now(&mut self) -> Result<Sent, StationError> {
        if self.at_once == 0 {
            self.begin();
        }
        let now_ns = wait::now_ns();
        if let Some(answering) = &mut self.answering {
            answering.look(now_ns);
        }
        if !self.sources.is_empty() || !self.images.is_empty() {
            self.sample(self.at_once, now_ns, now_ns, &mut |_| {});
        }
        self.at_once += 1;
        let mut out = Out::new(&mut self.sender, false);
        let answering = self.answering.as_ref();
        self.node
            .publish_now(now_ns, &mut |made| out.take(made, answering));
        let sent = Sent {
            frames: out.sent,
            refused: out.refused,
            frame: out.frame,
            written_ns: out.began_ns,
            handed_over_ns: out.ended_ns,
        };
        if let Some(error) = out.error {
            return Err(error.into());
        }
        for (keeper, sealer) in self.keepers.iter().zip(self.node.sealers_mut()) {
            keeper.exchange(sealer);
        }
        Ok(sent)
    }

    /// Takes the values of each data set from a memory-mapped file `GROUP.DATASET.image` in `folder`. Puts those of questions that the
    /// driver answers into files there, too.
    ///
    /// # Errors
    /// A file cannot be mapped.
    pub fn map_images(&mut self, folder: &Path) -> Result<(), StationError> {
        for (at, group) in self.node.groups().iter().enumerate() {
            for (set, data_set) in group.config().data_sets.iter().enumerate() {
                let path = image_path(folder, &group.config().name, &data_set.name);
                let words = group.values(set).map_or(0, Values::image_words);
                let memory = ValueMemory::file(&path, words)
                    .map_err(|source| StationError::Image { path, source })?;
                self.images.push(Mapped {
                    group: at,
                    data_set: set,
                    memory,
                    words: vec![0; words],
                    updates: 0,
                });
            }
        }
        if let Some(answering) = &mut self.answering {
            let groups = self.node.groups().iter().map(WriterGroup::config);
            answering.map_images(folder, groups)?;
        }
        Ok(())
    }

    /// Finds a field by the names of its group, data set and field.
    ///
    /// # Errors
    /// There is none; the message lists those that there are.
    pub fn point(&self, group: &str, data_set: &str, field: &str) -> Result<Point, StationError> {
        let groups = self.node.groups();
        let at = find(
            "writer group",
            group,
            groups.iter().map(|group| &group.config().name[..]),
        )?;
        let sets = &groups[at].config().data_sets;
        let set = find("data set", data_set, sets.iter().map(|set| &set.name[..]))?;
        let fields = sets[set].fields.iter().map(|field| &field.name[..]);
        let field = find("field", field, fields)?;
        Ok(Point {
            group: at,
            data_set: set,
            field,
        })
    }

    /// Publishes until `stop` is set or the limit is reached, on the calling thread, which becomes real-time as the project
    /// says. `sample` is called at each instant, and sets what is to be sent; it must not block.
    ///
    /// # Errors
    /// The interface is gone or down; a capability is missing.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        limit: Limit,
        mut sample: impl FnMut(&mut PublishImage<'_>),
    ) -> Result<PublishReport, StationError> {
        let done = AtomicBool::new(false);
        let stamps = self.sender.take_stamps()?;
        let interval_ns = self
            .node
            .groups()
            .first()
            .map_or(1, |group| group.config().interval_ns);
        let one = self.node.groups().len() == 1;
        std::thread::scope(|scope| {
            let watched = stamps.filter(|_| one).map(|stamps| {
                scope.spawn(|| crate::stamps::deviations(stamps, interval_ns, &done))
            });
            // The loop's own thread ends the one that collects, also by an error or a panic of `sample`.
            let report = {
                let _done = Done(&done);
                self.work(stop, limit, &mut sample)
            };
            let times = watched
                .and_then(|thread| thread.join().ok())
                .unwrap_or_default();
            report.map(|mut report| {
                report.interval_deviation = times;
                report
            })
        })
    }

    fn work(
        &mut self,
        stop: &AtomicBool,
        limit: Limit,
        sample: &mut impl FnMut(&mut PublishImage<'_>),
    ) -> Result<PublishReport, StationError> {
        become_real_time(&self.real_time)?;
        let [mut late, mut sampling, mut encode, mut send] = [(); 4].map(|()| Collector::new());
        let (mut cycle, mut frames, mut refused) = (0, 0, 0);
        // By the clock that nobody can set.
        let begun = wait::monotonic_ns();
        let end_ns = limit
            .duration_ns
            .map(|duration| begun.saturating_add(duration));
        self.begin();
        loop {
            self.begin_anew_if_set_back();
            let Some(due_ns) = self.node.due_ns() else {
                break;
            };
            let left_ns = due_ns.saturating_sub(wait::now_ns());
            let due_monotonic_ns = wait::monotonic_ns().saturating_add(left_ns);
            if limit.cycles.is_some_and(|most| cycle >= most)
                || end_ns.is_some_and(|end| due_monotonic_ns > end)
            {
                break;
            }
            let wake_ns = due_ns.saturating_sub(self.lead_ns);
            let waited = wait::until(wake_ns, self.real_time.spin_ns, stop);
            match waited.map_err(LinkError::Clock)? {
                Waited::Reached => {}
                Waited::Stopped => break,
                // By little: the same instant again. By more: a new beginning.
                Waited::SetBack => continue,
            }
            let woke = wait::now_ns();
            if let Some(answering) = &mut self.answering {
                answering.look(woke);
            }
            self.sample(cycle, due_ns, woke, sample);
            let sampled = wait::now_ns();
            let mut out = Out::new(&mut self.sender, self.lead_ns > 0);
            let answering = self.answering.as_ref();
            self.node
                .publish(woke + self.lead_ns, &mut |made| out.take(made, answering));
            let sent = wait::now_ns();
            late.record(woke.saturating_sub(wake_ns));
            sampling.record(sampled.saturating_sub(woke));
            encode.record(sent.saturating_sub(sampled).saturating_sub(out.took_ns));
            send.record(out.took_ns);
            frames += out.sent;
            refused += out.refused;
            if let Some(error) = out.error {
                return Err(error.into());
            }
            for (keeper, sealer) in self.keepers.iter().zip(self.node.sealers_mut()) {
                keeper.exchange(sealer);
            }
            cycle += 1;
        }
        if let Some(answering) = &mut self.answering {
            answering.end();
            answering.look(wait::now_ns());
        }
        Ok(PublishReport {
            interface: self.interface.clone(),
            path: self.real_time.path.name().to_owned(),
            cycles: cycle,
            frames,
            refused,
            late: late.times(),
            sample: sampling.times(),
            encode: encode.times(),
            send: send.times(),
            interval_deviation: Times::default(),
            groups: self.group_reports(),
            answers: self.answering.as_ref().map(Answering::report),
        })
    }

    /// Moves all groups to their first instants from now on.
    fn begin(&mut self) {
        let now_ns = wait::now_ns();
        self.node.begin_at(now_ns + SETTLE_NS + self.lead_ns);
        if let Some(answering) = &mut self.answering {
            answering.begin(now_ns);
        }
    }

    fn group_reports(&self) -> Vec<WriterGroupReport> {
        let groups = self.node.groups().iter().enumerate();
        let answering = self.answering.as_ref();
        let answers = |place| answering.and_then(|answering| answering.counters(place));
        groups
            .map(|(place, group)| group_report(group, answers(place)))
            .collect()
    }

    /// Returns the newest values of a question that the driver answers, for any thread. They are read at each instant, and by
    /// [`publish_now`](Self::publish_now).
    ///
    /// # Errors
    /// There is none of these names; the message lists those that there are.
    pub fn question(&self, group: &str, data_set: &str) -> Result<NewestImage, StationError> {
        let answering = self.answering.as_ref();
        let answering = answering.ok_or_else(|| StationError::NoSuch {
            what: "question",
            name: group.to_owned(),
            there: "none: no group has `answers`".to_owned(),
        })?;
        answering.image(group, data_set)
    }

    /// Returns what the driver has made of the questions of a writer group; `None` where there is no such group, or it is no answer.
    #[must_use]
    pub fn answers(&self, group: &str) -> Option<AnswerCounters> {
        let mut groups = self.node.groups().iter();
        let place = groups.position(|one| one.config().name == group)?;
        self.answering.as_ref()?.counters(place)
    }

    /// Begins anew where the clock was set back: an instant is farther away then than its group's interval.
    fn begin_anew_if_set_back(&mut self) {
        let now = wait::now_ns() + SETTLE_NS + self.lead_ns;
        let groups = self.node.groups().iter();
        let mut far = groups.map(|group| {
            let latest = now.saturating_add(group.config().interval_ns);
            group.due_ns() > latest
        });
        if far.any(|far| far) {
            self.begin();
        }
    }

    fn sample(
        &mut self,
        cycle: u64,
        instant_ns: u64,
        now_ns: u64,
        sample: &mut impl FnMut(&mut PublishImage<'_>),
    ) {
        for mapped in &mut self.images {
            let Some(stamp) = mapped.memory.read(&mut mapped.words) else {
                continue;
            };
            let Some(group) = self.node.groups_mut().get_mut(mapped.group) else {
                continue;
            };
            if let Some(values) = group.values_mut(mapped.data_set) {
                values.take_image(&mapped.words);
            }
            if stamp.updates != mapped.updates {
                mapped.updates = stamp.updates;
                group.raise(mapped.data_set);
            }
        }
        let groups = self.node.groups_mut();
        for (point, source) in &self.sources {
            let group = groups.get_mut(point.group);
            if let Some(values) = group.and_then(|group| group.values_mut(point.data_set)) {
                generate(values, point.field, source, cycle, now_ns);
            }
        }
        sample(&mut PublishImage {
            groups,
            cycle,
            instant_ns,
        });
    }
}

fn group_report(group: &WriterGroup, answers: Option<AnswerCounters>) -> WriterGroupReport {
    WriterGroupReport {
        name: group.config().name.clone(),
        id: group.config().id,
        state: group.state().name().to_owned(),
        counters: group.counters(),
        last_fault: group.last_fault().map(|fault| fault.to_string()),
        answers,
    }
}
