//! Discovery at a station: a thread that answers probes beside the publisher, and questions to a publisher (OPC 10000-14, 7.2.4.6).

use crate::StationError;
use crate::common::prefix;
use crate::exchange;
use crate::project::{Project, Transport};
use crate::subscriber::{Wanted, only_ours};
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, WakeUp};
use rtwire_pubsub::Publisher;
use rtwire_pubsub::discovery::{Announcer, Description, Learned, learn, probe};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{interface, wait};
use rtwire_wire::uadp::{Information, WriterIds};
use rtwire_wire::{EtherType, MacAddress, Node as _, Outbox};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest wait without a look at the end.
const LOOK: Duration = Duration::from_millis(50);
/// The time in ns after which a question is repeated: publishers wait half a second at most.
pub(crate) const REPEAT_NS: u64 = 700_000_000;
/// Frames that may wait in the kernel.
const QUEUE: usize = 64;

/// A way to send and receive discovery messages.
pub(crate) struct Way {
    receiver: Receiver,
    sender: Sender,
    /// Keeps the group's address in the interface's filter.
    _joined: Option<PacketSocket>,
    /// The Ethernet header of what is sent; empty for datagrams.
    prefix: Vec<u8>,
    header_bytes: usize,
}

impl Way {
    pub(crate) fn open(interface: &str, transport: Transport) -> Result<Self, StationError> {
        let own = interface::by_name(interface)?;
        let config = ReceiverConfig {
            interface: interface.to_owned(),
            wake_up: WakeUp::Block,
            queue_frames: QUEUE,
            stamps: false,
            one_by_one: false,
        };
        // Best effort: without priority, behind everything that is planned.
        let sending = SenderConfig::new(interface);
        let prefix = prefix(&transport, MacAddress(own.mac));
        let mut joined = None;
        let (receiver, sender) = match transport {
            Transport::Udp { address } => (
                Receiver::datagrams(&config, address)?,
                Sender::datagrams(&sending, address)?,
            ),
            Transport::Ethernet { address, vlan } => {
                if address.is_group() {
                    let socket = joined.insert(PacketSocket::sender(&own)?);
                    socket.join_group(address.0)?;
                }
                let filter = only_ours(&[Wanted { address, vid: None }])?;
                let receiver = match vlan {
                    Some(_) => Receiver::frames_with_tags(&config, &filter)?,
                    None => Receiver::frames(&config, EtherType::UADP.0, &filter)?,
                };
                (receiver, Sender::frames(&sending)?)
            }
        };
        Ok(Self {
            receiver,
            sender,
            _joined: joined,
            header_bytes: if prefix.is_empty() { 0 } else { 14 },
            prefix,
        })
    }
}

/// Sends what an announcer hands over. What the queue refuses is asked for again.
struct Out<'a>(&'a mut Sender);

impl Outbox for Out<'_> {
    fn send(&mut self, frame: &[u8], _launch_ns: Option<u64>) {
        let _ = self.0.send(frame);
    }
}

/// A thread that answers probes until this value is dropped.
#[derive(Debug)]
pub(crate) struct Answers {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    /// Starts the thread, if the project has discovery.
    pub(crate) fn start(project: &Project, interface: &str) -> Result<Option<Self>, StationError> {
        let Some(transport) = project.connection.discovery else {
            return Ok(None);
        };
        let mut descriptions: Vec<Description> = Vec::new();
        for entry in &project.groups {
            descriptions.extend(exchange::descriptions(project, entry)?);
        }
        let way = Way::open(interface, transport)?;
        let announcer = Announcer::new(
            project.connection.publisher.clone(),
            &way.prefix,
            way.header_bytes,
            &descriptions,
            wait::now_ns(),
        )?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("rtw-discovery".to_owned())
            .spawn(move || answer(way, announcer, &seen))
            .map_err(|source| StationError::Thread { source })?;
        Ok(Some(Self {
            stop,
            thread: Some(thread),
        }))
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut way: Way, mut announcer: Announcer, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let now = wait::monotonic_ns();
        let left = announcer.wake_at_ns().map_or(LOOK, |at| {
            LOOK.min(Duration::from_nanos(at.saturating_sub(now).max(1)))
        });
        // Without an interface nobody asks.
        let Ok(_) = way.receiver.wait(Some(left)) else {
            return;
        };
        let now = wait::monotonic_ns();
        let mut out = Out(&mut way.sender);
        while let Some(frame) = way.receiver.peek() {
            if !frame.truncated {
                announcer.frame(now, frame.data, &mut out);
            }
            way.receiver.release();
        }
        announcer.moment(now, &mut out);
    }
}

/// Asks a publisher for its writer groups and the metadata of its data sets. It ends when all metadata of all groups that answered have come and
/// no more answers follow, or after `longest`.
///
/// # Errors
/// The interface is missing or gone; a capability is; an announcement cannot be read.
pub fn discover(
    interface: &str,
    address: Transport,
    publisher: &Publisher,
    longest: Duration,
) -> Result<Vec<Learned>, StationError> {
    let mut way = Way::open(interface, address)?;
    let questions = [
        Information::WriterConfiguration(WriterIds::of(&[])),
        Information::MetaData(WriterIds::of(&[])),
    ];
    let enough = |learned: &[Learned], quiet_ns| is_whole(learned) && quiet_ns >= REPEAT_NS;
    let never = AtomicBool::new(false);
    ask(&mut way, publisher, &questions, longest, &never, enough)
}

/// Asks a publisher, and repeats the questions until `enough` is true of what it has told and of the ns since its last news, until `stop` is set, or for
/// `longest`. Of several descriptions of one part the last one stays.
pub(crate) fn ask(
    way: &mut Way,
    publisher: &Publisher,
    questions: &[Information<'_>],
    longest: Duration,
    stop: &AtomicBool,
    enough: impl Fn(&[Learned], u64) -> bool,
) -> Result<Vec<Learned>, StationError> {
    let mut learned: Vec<Learned> = Vec::new();
    let begun = wait::monotonic_ns();
    let end_ns = begun.saturating_add(u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX));
    let (mut ask_ns, mut news_ns) = (begun, begun);
    loop {
        let now = wait::monotonic_ns();
        let quiet_ns = now.saturating_sub(news_ns);
        if now >= end_ns || enough(&learned, quiet_ns) || stop.load(Ordering::Relaxed) {
            return Ok(learned);
        }
        if now >= ask_ns {
            ask_ns = now + REPEAT_NS;
            for question in questions {
                let mut frame = way.prefix.clone();
                frame.extend(
                    probe(publisher, *question)
                        .map_err(rtwire_pubsub::discovery::DiscoveryFault::from)?,
                );
                way.sender.send(&frame)?;
            }
        }
        way.receiver.wait(Some(LOOK))?;
        while let Some(frame) = way.receiver.peek() {
            let message = frame.data.get(way.header_bytes..).unwrap_or_default();
            let found = learn(publisher, message);
            way.receiver.release();
            if let Some(found) = found? {
                if !learned.contains(&found) {
                    learned.retain(|one| !one.is_about_the_same(&found));
                    learned.push(found);
                    news_ns = now;
                }
            }
        }
    }
}

/// Returns true where a group is known, and the metadata of all writers of all known groups.
fn is_whole(learned: &[Learned]) -> bool {
    let mut groups = learned.iter().filter_map(|one| match one {
        Learned::Group { writers, .. } => Some(writers),
        _ => None,
    });
    let any = groups.clone().next().is_some();
    any && groups.all(|writers| knows_all(learned, writers))
}

/// Returns true where the metadata of these writers are known, or were refused.
pub(crate) fn knows_all(learned: &[Learned], writers: &[u16]) -> bool {
    let known = |id: &u16| {
        learned.iter().any(|one| match one {
            Learned::MetaData { writer, .. } => writer == id,
            Learned::Refused { writers, .. } => writers.contains(id),
            Learned::Group { .. } => false,
        })
    };
    writers.iter().all(known)
}
