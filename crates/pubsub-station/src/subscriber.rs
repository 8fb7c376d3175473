//! A subscriber on a real interface: frames in, newest values out.

use crate::common::become_real_time;
use crate::key_watch::{self, KeyWatch, NewKeys};
use crate::metadata_watch::{Announced, Listener, MetadataNews, MetadataWatch};
use crate::project::{Project, RealTime, Transport};
use crate::report::SubscribeReport;
use crate::watched::{self, NewestImage, Watched};
use crate::{KeyFile, StationError};
use rtwire_link::{Receiver, ReceiverConfig, WakeUp};
use rtwire_pubsub::Group;
use rtwire_pubsub::security::Opener;
use rtwire_pubsub::subscribe::{Reader, ReaderGroup, SubscriberNode};
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::interface;
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::wait;
use rtwire_wire::{EtherType, MacAddress, VlanTag};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest wait in ns without a look at the stop flag and at new keys.
const LOOK_NS: u64 = 50_000_000;
/// Frames that may wait in the kernel.
const QUEUE: usize = 1024;

/// The destination of a group's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) address: MacAddress,
    /// The VLAN; `None`: any.
    pub(crate) vid: Option<u16>,
}

impl Wanted {
    fn is(&self, frame: &[u8], vid: u16) -> bool {
        frame.starts_with(&self.address.0) && self.vid.is_none_or(|own| own == vid)
    }
}

/// The state of a group's metadata.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The messages that could not be taken, up to the last question or answer.
    strange: u64,
    asked: bool,
    /// The reason why the last answer was of no use.
    fault: Option<String>,
}

/// A subscriber.
#[derive(Debug)]
pub struct SubscriberStation {
    node: SubscriberNode,
    receiver: Receiver,
    /// Keeps the group's address in the interface's filter.
    _joined: Option<PacketSocket>,
    /// The frames of the groups; empty for datagrams.
    wanted: Vec<Wanted>,
    watched: Vec<Watched>,
    keys: KeyWatch,
    metadata: MetadataWatch,
    /// The state of each group's metadata.
    known: Vec<Known>,
    listener: Listener,
    real_time: RealTime,
    interface: String,
    frames: u64,
    other_vlans: u64,
    /// The readers are on.
    begun: bool,
    /// The next look at new keys and metadata, ns of CLOCK_MONOTONIC.
    look_ns: u64,
}

/// The wish of a program about the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// It goes on.
    On,
    /// It ends.
    Out,
}

/// A message that was taken, as a program sees it.
#[derive(Debug)]
pub struct Update<'a> {
    /// The group.
    pub group: &'a Group,
    /// The reader, with its values.
    pub reader: &'a Reader,
}

/// Returns a filter for UADP frames to some addresses.
pub(crate) fn only_ours(wanted: &[Wanted]) -> Result<Filter, StationError> {
    let jump = |test, yes, no| Instruction::Jump { test, yes, no };
    // The EtherType is that behind a tag: the kernel takes the tag out before a filter runs.
    let mut program = vec![
        Instruction::LoadHalf(12),
        jump(Test::Equal(u32::from(EtherType::UADP.0)), 1, 0),
        Instruction::Reject,
    ];
    for Wanted { address, .. } in wanted {
        let [a, b, c, d, e, f] = address.0;
        program.extend([
            Instruction::LoadWord(0),
            jump(Test::Equal(u32::from_be_bytes([a, b, c, d])), 0, 3),
            Instruction::LoadHalf(4),
            jump(Test::Equal(u32::from(u16::from_be_bytes([e, f]))), 0, 1),
            Instruction::Accept,
        ]);
    }
    program.push(Instruction::Reject);
    Ok(Filter::new(&program)?)
}

impl SubscriberStation {
    /// Opens the subscriber of a project on `interface`, or on the project's own.
    ///
    /// # Errors
    /// The interface is missing; a capability is; a key file cannot be used.
    pub fn open(project: &Project, interface: Option<&str>) -> Result<Self, StationError> {
        let name = interface.or(project.connection.interface.as_deref());
        let name = name.ok_or(StationError::NoInterface)?;
        let own = interface::by_name(name)?;
        let config = ReceiverConfig {
            interface: name.to_owned(),
            wake_up: match project.real_time.receive_spin_ns {
                0 => WakeUp::Block,
                ns => WakeUp::SpinThenBlock(Duration::from_nanos(ns)),
            },
            queue_frames: QUEUE,
            stamps: true,
            one_by_one: false,
        };
        let mut joined = None;
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut datagrams = None;
        for entry in &project.groups {
            match entry.transport {
                Transport::Udp { address } => datagrams = Some(address),
                Transport::Ethernet { address, vlan } => {
                    let one = Wanted {
                        address,
                        vid: vlan.map(|tag| tag.vid),
                    };
                    if !wanted.contains(&one) {
                        wanted.push(one);
                    }
                }
            }
        }
        let (receiver, header) = match datagrams {
            Some(address) => (Receiver::datagrams(&config, address)?, 0),
            None => {
                for Wanted { address, .. } in wanted.iter().filter(|one| one.address.is_group()) {
                    let socket = match &mut joined {
                        Some(socket) => socket,
                        None => joined.insert(PacketSocket::sender(&own)?),
                    };
                    socket.join_group(address.0)?;
                }
                let filter = only_ours(&wanted)?;
                let receiver = match wanted.iter().any(|one| one.vid.is_some()) {
                    true => Receiver::frames_with_tags(&config, &filter)?,
                    false => Receiver::frames(&config, EtherType::UADP.0, &filter)?,
                };
                (receiver, 14)
            }
        };
        let mut groups = Vec::new();
        let mut watched = Vec::new();
        let mut keys = Vec::new();
        for (at, entry) in project.groups.iter().enumerate() {
            let mut opener = None;
            if let Some(security) = &entry.security {
                let known = KeyFile::read(&security.keys)?;
                let mut own = Opener::new(entry.group.security)
                    .accepting_repeated_nonces(security.accept_repeated_nonces);
                known
                    .all(&security.keys)?
                    .into_iter()
                    .for_each(|key| own.add_key(key));
                opener = Some(own);
                keys.push(key_watch::Watched {
                    group: at,
                    path: security.keys.clone(),
                    seen: known.changed,
                });
            }
            for (reader, set) in entry.group.data_sets.iter().enumerate() {
                watched.push(Watched::new((at, reader), entry, set));
            }
            groups.push(ReaderGroup::new(entry.group.clone(), opener)?);
        }
        Ok(Self {
            node: SubscriberNode::new(groups, header),
            receiver,
            _joined: joined,
            wanted,
            watched,
            keys: KeyWatch::start(keys)?,
            metadata: MetadataWatch::start(project, name)?,
            known: vec![Known::default(); project.groups.len()],
            listener: Listener::default(),
            real_time: project.real_time,
            interface: name.to_owned(),
            frames: 0,
            other_vlans: 0,
            begun: false,
            look_ns: 0,
        })
    }

    /// Puts the values of each data set into a memory-mapped file `GROUP.DATASET.image` in `folder`.
    ///
    /// # Errors
    /// A file cannot be mapped.
    pub fn map_images(&mut self, folder: &Path) -> Result<(), StationError> {
        watched::map_images(&self.node, &mut self.watched, folder)
    }

    /// Returns the newest values of a data set, for any thread.
    ///
    /// # Errors
    /// There is none of these names; the message lists those that there are.
    pub fn image(&self, group: &str, data_set: &str) -> Result<NewestImage, StationError> {
        watched::image(&self.node, &self.watched, group, data_set)
    }

    /// Calls `told` on the receiving thread when the publisher has been asked for its metadata, and they were taken or not.
    pub fn tell_metadata(&mut self, told: impl FnMut(MetadataNews<'_>) + Send + 'static) {
        self.listener = Listener::new(told);
    }

    /// Receives until `stop` is set or `duration` is over, on the calling thread, which becomes real-time as the project
    /// says. `taken` is called for each message that a reader took, and says whether the run goes on.
    ///
    /// # Errors
    /// The interface is gone or down; a capability is missing.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        duration: Option<Duration>,
        mut taken: impl FnMut(Update<'_>) -> Goes,
    ) -> Result<SubscribeReport, StationError> {
        self.become_real_time()?;
        // By the clock that nobody can set.
        let begun = wait::monotonic_ns();
        let end_ns = duration
            .map(|time| begun.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
        self.begun = false;
        self.begin();
        let mut goes = Goes::On;
        while goes == Goes::On && !stop.load(Ordering::Relaxed) {
            let monotonic = wait::monotonic_ns();
            if end_ns.is_some_and(|end| monotonic >= end) {
                break;
            }
            let next = end_ns.map_or(LOOK_NS, |end| LOOK_NS.min(end - monotonic));
            goes = self.turn(monotonic, next, &mut taken)?;
        }
        // What had arrived before the end is counted, too.
        for _ in 0..QUEUE {
            if goes == Goes::Out || !self.receiver.look()? {
                break;
            }
            goes = self.take(wait::now_ns(), &mut taken);
        }
        self.report()
    }

    /// Makes the calling thread real-time as the project says. [`run`](Self::run) does it by itself; a loop that calls
    /// [`poll`](Self::poll) or [`receive`](Self::receive) does it once before.
    ///
    /// # Errors
    /// A capability is missing.
    pub fn become_real_time(&self) -> Result<(), StationError> {
        become_real_time(&self.real_time)
    }

    /// Takes what has arrived, without waiting: a turn of a control loop. `taken` is called as by [`run`](Self::run). At most one
    /// system call for all frames that wait.
    ///
    /// # Errors
    /// The interface is gone or down.
    pub fn poll(
        &mut self,
        mut taken: impl FnMut(Update<'_>) -> Goes,
    ) -> Result<Goes, StationError> {
        let now = self.begin_turn(wait::monotonic_ns());
        self.receiver.look()?;
        Ok(self.take_all(now, &mut taken))
    }

    /// Waits for a frame, for at most `timeout`, and takes what has arrived: a turn of a control loop. With `receive-spin` of the
    /// project the thread polls before it sleeps. `taken` is called as by [`run`](Self::run), and may answer at once.
    ///
    /// # Errors
    /// The interface is gone or down.
    pub fn receive(
        &mut self,
        timeout: Duration,
        mut taken: impl FnMut(Update<'_>) -> Goes,
    ) -> Result<Goes, StationError> {
        let most_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        self.turn(wait::monotonic_ns(), most_ns, &mut taken)
    }

    /// Switches the readers on, if they are not.
    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.node.switch(true, wait::now_ns());
        }
    }

    /// Looks at timeouts, and now and then at new keys and metadata. Returns the time, ns of CLOCK_TAI.
    fn begin_turn(&mut self, monotonic_ns: u64) -> u64 {
        self.begin();
        if monotonic_ns >= self.look_ns {
            self.look_ns = monotonic_ns.saturating_add(LOOK_NS);
            self.take_keys();
            self.follow_metadata();
        }
        let now = wait::now_ns();
        self.node.look(now);
        now
    }

    fn turn(
        &mut self,
        monotonic_ns: u64,
        most_ns: u64,
        taken: &mut impl FnMut(Update<'_>) -> Goes,
    ) -> Result<Goes, StationError> {
        let now = self.begin_turn(monotonic_ns);
        let deadline = rtwire_wire::Node::wake_at_ns(&self.node);
        let left = deadline.map_or(u64::MAX, |at| at.saturating_sub(now));
        let left = left
            .min(most_ns)
            .min(self.look_ns.saturating_sub(monotonic_ns));
        if !self
            .receiver
            .wait(Some(Duration::from_nanos(left.max(1))))?
        {
            return Ok(Goes::On);
        }
        Ok(self.take_all(now, taken))
    }

    fn take_all(&mut self, now_ns: u64, taken: &mut impl FnMut(Update<'_>) -> Goes) -> Goes {
        let mut goes = Goes::On;
        while goes == Goes::On && self.receiver.available(0) {
            goes = self.take(now_ns, taken);
        }
        goes
    }

    /// Takes the oldest frame that was fetched.
    fn take(&mut self, now_ns: u64, taken: &mut impl FnMut(Update<'_>) -> Goes) -> Goes {
        let Some(frame) = self.receiver.peek() else {
            return Goes::On;
        };
        self.frames += 1;
        let tag = frame.tag.map(VlanTag::from_bits);
        let vid = tag.map_or(0, |tag| tag.vid);
        let mut wanted = self.wanted.iter();
        let right = self.wanted.is_empty() || wanted.any(|one| one.is(frame.data, vid));
        let arrived = frame.stamp_tai_ns.unwrap_or(now_ns);
        if right && !frame.truncated {
            self.node.receive(arrived, frame.data);
        } else {
            self.other_vlans += 1;
        }
        self.receiver.release();
        let mut goes = Goes::On;
        for watched in &mut self.watched {
            if watched.note(&self.node, taken) == Goes::Out {
                goes = Goes::Out;
            }
        }
        goes
    }

    /// Takes the keys of files that have changed. No system call.
    fn take_keys(&mut self) {
        while let Some(NewKeys { group, keys }) = self.keys.changed() {
            let group = self.node.groups_mut().get_mut(group);
            let Some(opener) = group.and_then(ReaderGroup::opener_mut) else {
                continue;
            };
            let tokens: Vec<u32> = keys
                .iter()
                .map(rtwire_pubsub::security::Key::token)
                .collect();
            // First room, then the new ones: else they push out keys that stay, with what was seen under them.
            opener.keep_keys(&tokens);
            keys.into_iter().for_each(|key| opener.add_key(key));
        }
    }

    /// Takes metadata that the publisher has announced, which allocates, and has it asked where messages of others have come. No system call without news.
    fn follow_metadata(&mut self) {
        while let Some(Announced { group, found }) = self.metadata.answered() {
            let node = self.node.groups_mut().get_mut(group);
            let (Some(node), Some(known)) = (node, self.known.get_mut(group)) else {
                continue;
            };
            known.asked = false;
            let adopted = found.and_then(|found| node.adopt(&found).map_err(|why| why.to_string()));
            // What came in the meantime was of the old metadata.
            known.strange = node.strange();
            let group = node.config();
            match &adopted {
                Ok(true) => self.listener.tell(MetadataNews::Taken { group }),
                Ok(false) => {}
                Err(why) => self.listener.tell(MetadataNews::Refused { group, why }),
            }
            known.fault = adopted.err();
        }
        for (at, (group, known)) in self.node.groups().iter().zip(&mut self.known).enumerate() {
            let strange = group.strange();
            if strange > known.strange && !known.asked && self.metadata.ask(at) {
                known.asked = true;
                known.strange = strange;
            }
        }
    }

    /// Returns the report so far.
    ///
    /// # Errors
    /// The kernel does not tell how many frames it lost.
    pub fn report(&mut self) -> Result<SubscribeReport, StationError> {
        let dropped = self.receiver.dropped()?;
        let mut groups = watched::reports(&self.node, &self.watched);
        for (group, known) in groups.iter_mut().zip(&self.known) {
            group.metadata_fault.clone_from(&known.fault);
        }
        Ok(SubscribeReport {
            interface: self.interface.clone(),
            frames: self.frames,
            other_vlans: self.other_vlans,
            dropped,
            groups,
        })
    }
}
