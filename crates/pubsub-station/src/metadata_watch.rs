//! The thread beside a subscriber's loop that asks a publisher for its metadata, when messages of others have come: the loop itself asks nobody.

use crate::StationError;
use crate::discovery::{REPEAT_NS, Way, ask, knows_all};
use crate::exchange::{descriptions, discovered};
use crate::project::{Project, Transport};
use rtwire_pubsub::Group;
use rtwire_pubsub::discovery::{Description, Learned};
use rtwire_pubsub::uabinary::{Item, Record};
use rtwire_wire::uadp::{Information, WriterIds};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The longest pause without a look at the end.
const LOOK: Duration = Duration::from_millis(50);
/// The longest time for one answer: some probes may be lost.
const LONGEST: Duration = Duration::from_secs(3);
/// The time between two questions: at first, and at most. It doubles as long as questions follow each other.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Questions that wait, at most: the loop has one for each group at a time.
const QUESTIONS: usize = 64;

/// The fate of a publisher's description, which was asked for because messages of other metadata came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataNews<'a> {
    /// Messages are read by it from now on.
    Taken {
        /// The group.
        group: &'a Group,
    },
    /// It is of no use, or did not come: such messages are passed over as before.
    Refused {
        /// The group.
        group: &'a Group,
        /// The reason.
        why: &'a str,
    },
}

/// A program's function that hears of them.
type Told = dyn FnMut(MetadataNews<'_>) + Send;

/// A program's wish to hear of them.
#[derive(Default)]
pub(crate) struct Listener(Option<Box<Told>>);

impl Listener {
    pub(crate) fn new(told: impl FnMut(MetadataNews<'_>) + Send + 'static) -> Self {
        Self(Some(Box::new(told)))
    }

    pub(crate) fn tell(&mut self, news: MetadataNews<'_>) {
        if let Some(told) = &mut self.0 {
            told(news);
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.0.is_some()).finish()
    }
}

/// The publisher's present description of a group.
#[derive(Debug)]
pub(crate) struct Announced {
    /// The group's place.
    pub(crate) group: usize,
    /// The description, or the reason why there is none.
    pub(crate) found: Result<Box<Group>, String>,
}

/// The loop's end.
#[derive(Debug)]
pub(crate) struct MetadataWatch {
    /// `None`: nobody is asked.
    questions: Option<SyncSender<usize>>,
    answers: Receiver<Announced>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetadataWatch {
    /// Starts the thread, if the project tells where to ask.
    ///
    /// # Errors
    /// Discovery messages cannot be sent and received here: what is missing is told.
    pub(crate) fn start(project: &Project, interface: &str) -> Result<Self, StationError> {
        let (questions, wanted) = sync_channel(QUESTIONS);
        let (sender, answers) = sync_channel(QUESTIONS);
        let stop = Arc::new(AtomicBool::new(false));
        // Announcements to a publisher's own address do not come here.
        let Some(address) = project.connection.discovery.filter(Transport::is_group) else {
            return Ok(Self {
                questions: None,
                answers,
                stop,
                thread: None,
            });
        };
        // Opened again for each question: a socket that nobody reads would only fill up.
        drop(Way::open(interface, address)?);
        let asker = Asker {
            project: project.clone(),
            interface: interface.to_owned(),
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new().name("rtw-metadata".to_owned());
        let thread = thread.spawn(move || asker.work(&wanted, &sender));
        Ok(Self {
            questions: Some(questions),
            answers,
            stop,
            thread: Some(thread.map_err(|source| StationError::Thread { source })?),
        })
    }

    /// Asks for a group. Returns false where it cannot be asked for.
    pub(crate) fn ask(&self, group: usize) -> bool {
        let questions = self.questions.as_ref();
        questions.is_some_and(|questions| questions.try_send(group).is_ok())
    }

    /// Returns what has been answered. No system call.
    pub(crate) fn answered(&self) -> Option<Announced> {
        self.answers.try_recv().ok()
    }
}

impl Drop for MetadataWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so; there is nothing to add while dropping.
            let _ = thread.join();
        }
    }
}

/// The thread's end.
struct Asker {
    project: Project,
    interface: String,
    stop: Arc<AtomicBool>,
}

impl Asker {
    fn work(&self, wanted: &Receiver<usize>, answers: &SyncSender<Announced>) {
        let mut pause = FIRST_PAUSE;
        let mut last: Option<Instant> = None;
        // The loop's end, when it goes, wakes it.
        while let Ok(group) = wanted.recv() {
            if let Some(last) = last {
                if last.elapsed() > LONGEST_PAUSE {
                    pause = FIRST_PAUSE;
                }
                while last.elapsed() < pause && !self.stopped() {
                    thread::sleep(LOOK.min(pause.saturating_sub(last.elapsed())));
                }
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            if self.stopped() {
                return;
            }
            let found = self.description(group).map(Box::new);
            last = Some(Instant::now());
            let _ = answers.try_send(Announced { group, found });
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks for the metadata of a group's writers and for its configuration.
    fn description(&self, group: usize) -> Result<Group, String> {
        let entry = self.project.groups.get(group);
        let address = self.project.connection.discovery;
        let (entry, address) = entry.zip(address).ok_or("there is no such group")?;
        let own = &entry.group;
        let writers: Vec<u16> = own.data_sets.iter().map(|set| set.writer).collect();
        let questions = [
            Information::WriterConfiguration(WriterIds::of(&writers)),
            Information::MetaData(WriterIds::of(&writers)),
        ];
        let failed = |error: StationError| error.to_string();
        let mut way = Way::open(&self.interface, address).map_err(failed)?;
        let is_own = |one: &Learned| match one {
            Learned::Group { configuration, .. } => {
                configuration.number("WriterGroupId") == u64::from(own.id)
            }
            Learned::MetaData { .. } | Learned::Refused { .. } => false,
        };
        let enough = |learned: &[Learned], quiet_ns: u64| {
            // A publisher that describes no groups describes data sets all the same.
            knows_all(learned, &writers) && (learned.iter().any(is_own) || quiet_ns >= REPEAT_NS)
        };
        let (publisher, stop) = (&own.publisher, &self.stop);
        let learned = ask(&mut way, publisher, &questions, LONGEST, stop, enough);
        let mut learned = learned.map_err(failed)?;
        if !knows_all(&learned, &writers) {
            return Err("the publisher has not answered a probe for its metadata".to_owned());
        }
        if !learned.iter().any(is_own) {
            let all = descriptions(&self.project, entry).map_err(failed)?;
            learned.extend(all.into_iter().filter_map(configuration));
        }
        // What others have asked for is passed over.
        let learned: Vec<Learned> = learned
            .into_iter()
            .filter_map(|one| match one {
                Learned::MetaData { writer, .. } => writers.contains(&writer).then_some(one),
                Learned::Group { .. } if !is_own(&one) => None,
                Learned::Group {
                    writers: all,
                    configuration,
                } => Some(Learned::Group {
                    writers: all,
                    configuration: with_writers(configuration, &writers),
                }),
                Learned::Refused { .. } => None,
            })
            .collect();
        let path = &self.project.path;
        let found = discovered(&learned, &own.publisher, &entry.transport, path).map_err(failed)?;
        let mut groups = found.project.groups.into_iter().map(|entry| entry.group);
        groups
            .find(|group| group.id == own.id)
            .ok_or_else(|| format!("the publisher announces no writer group {}", own.id))
    }
}

/// Returns the configuration of a group as it would have been announced.
fn configuration(own: Description) -> Option<Learned> {
    match own {
        Description::Group {
            writers,
            configuration,
            ..
        } => Some(Learned::Group {
            writers,
            configuration,
        }),
        Description::MetaData { .. } => None,
    }
}

/// Returns the configuration of a group with these writers only: there may be more than are subscribed to.
fn with_writers(group: Record, writers: &[u16]) -> Record {
    let is_one = |writer: &&Record| {
        let mut ids = writers.iter().map(|id| u64::from(*id));
        ids.any(|id| id == writer.number("DataSetWriterId"))
    };
    let some = group.records("DataSetWriters").filter(is_one).cloned();
    let some = Item::records(some.collect());
    group.with("DataSetWriters", some)
}
