//! The part of a publisher whose messages the driver sends as answers: the pairs, and the readers of their questions.

use crate::StationError;
use crate::common::image_path;
use crate::driver::{ANSWERED, Copied, Driver, DriverFault, MOST_PAIRS, Pair};
use crate::project::{AnswerEntry, FieldSource, GroupEntry, Project, Transport};
use crate::report::{AnswersReport, ReaderGroupReport};
use crate::subscriber::Goes;
use crate::watched::{self, NewestImage, Watched};
use rtwire_link::frame_ring::FrameRing;
use rtwire_pubsub::subscribe::{ReaderGroup, SubscriberNode};
use rtwire_pubsub::{Group, Profile, fixed_layout};
use rtwire_sys::interface::Interface;
use rtwire_sys::packet::PacketSocket;
use rtwire_wire::MacAddress;
use rtwire_wire::uadp::FixedLayout;
use std::io;
use std::path::{Path, PathBuf};

/// The bytes of an Ethernet header, and of a VLAN tag.
const HEADER: usize = 14;
const TAG: usize = 4;

/// A question with its layout and destination, and its answer's.
struct Known {
    entry: GroupEntry,
    question: Box<FixedLayout>,
    answer: Box<FixedLayout>,
    destination: MacAddress,
    vlan: Option<u16>,
    answer_to: MacAddress,
    copies: Vec<Copied>,
    lease_ns: u64,
}

/// The driver's pairs, and the readers of their questions.
#[derive(Debug)]
pub(crate) struct Answering {
    driver: Driver,
    ring: FrameRing,
    /// Keeps the questions' addresses in the interface's filter.
    _joined: PacketSocket,
    node: SubscriberNode,
    watched: Vec<Watched>,
    /// The pair of each writer group; `None`: it leaves at its instants.
    pairs: Vec<Option<usize>>,
    frames: u64,
    answered: u64,
}

impl Answering {
    /// Attaches the driver for the groups of a project that are answers; `None` where there are none.
    pub(crate) fn open(
        project: &Project,
        interface: &Interface,
    ) -> Result<Option<Self>, StationError> {
        let mut known = Vec::new();
        let mut pairs = Vec::new();
        for entry in &project.groups {
            let place = known.len();
            pairs.push(entry.answer.as_ref().map(|_| place));
            if let Some(answer) = &entry.answer {
                known.push(know(entry, answer, &known)?);
            }
        }
        if known.is_empty() {
            return Ok(None);
        }
        let joined = PacketSocket::sender(interface)?;
        for pair in &known {
            if pair.destination.is_group() {
                joined.join_group(pair.destination.0)?;
            }
        }
        let described: Vec<Pair<'_>> = known.iter().map(pair).collect();
        let driver = Driver::open(interface, &described).map_err(|fault| match fault {
            DriverFault::Pair(place, why) => {
                let mut answers = project.groups.iter().filter(|entry| entry.answer.is_some());
                match answers
                    .nth(place)
                    .and_then(|entry| Some((entry, entry.answer.as_ref()?)))
                {
                    Some((entry, answer)) => refused(entry, answer, why),
                    None => StationError::Ended,
                }
            }
            other => StationError::Driver {
                interface: interface.name.clone(),
                why: other.to_string(),
            },
        })?;
        let mut groups = Vec::new();
        let mut watched = Vec::new();
        for (at, pair) in known.iter().enumerate() {
            let sets = pair.entry.group.data_sets.iter().enumerate();
            watched.extend(sets.map(|(reader, set)| Watched::new((at, reader), &pair.entry, set)));
            groups.push(ReaderGroup::new(pair.entry.group.clone(), None)?);
        }
        Ok(Some(Self {
            driver,
            ring: FrameRing::new(),
            _joined: joined,
            node: SubscriberNode::new(groups, HEADER),
            watched,
            pairs,
            frames: 0,
            answered: 0,
        }))
    }

    /// Switches the readers on.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.node.switch(true, now_ns);
    }

    /// Takes the questions that have come. No system call, no allocation.
    pub(crate) fn look(&mut self, now_ns: u64) {
        self.node.look(now_ns);
        while let Some(taken) = self.driver.take(&mut self.ring) {
            self.frames += 1;
            self.answered += u64::from(taken.did == ANSWERED);
            let frame = self.ring.octets().get(..taken.length).unwrap_or_default();
            let tagged = frame.get(12..14) == Some(&[0x81, 0x00]);
            // The node passes over the header, whatever it is.
            let frame = frame
                .get(if tagged { TAG } else { 0 }..)
                .unwrap_or_default();
            self.node.receive(taken.arrival_ns, frame);
            for watched in &mut self.watched {
                watched.note(&self.node, &mut |_| Goes::On);
            }
        }
    }

    /// Takes a message of the writer group at `place`. Returns false where it is no answer, and is to be sent.
    pub(crate) fn prepare(&self, place: usize, message: &[u8]) -> bool {
        let Some(pair) = self.pairs.get(place).copied().flatten() else {
            return false;
        };
        self.driver.prepare(pair, message);
        true
    }

    /// Ends the answers, until the next is prepared.
    pub(crate) fn end(&self) {
        self.driver.disarm();
    }

    /// Returns the newest values of a question, for any thread.
    pub(crate) fn image(&self, group: &str, data_set: &str) -> Result<NewestImage, StationError> {
        watched::image(&self.node, &self.watched, group, data_set)
    }

    /// Puts the values of each question into a memory-mapped file in `folder`, beside those of the publisher's own groups.
    pub(crate) fn map_images<'g>(
        &mut self,
        folder: &Path,
        own: impl Iterator<Item = &'g Group>,
    ) -> Result<(), StationError> {
        let own: Vec<PathBuf> = own.flat_map(|group| image_paths(folder, group)).collect();
        let asked = self.node.groups().iter().map(ReaderGroup::config);
        let mut asked = asked.flat_map(|group| image_paths(folder, group));
        if let Some(path) = asked.find(|path| own.contains(path)) {
            return Err(StationError::Image {
                path,
                source: io::Error::other(
                    "a question and its answer have the same names: rename a group or a data set",
                ),
            });
        }
        watched::map_images(&self.node, &mut self.watched, folder)
    }

    pub(crate) fn report(&self) -> AnswersReport {
        AnswersReport {
            mode: self.driver.mode().to_string(),
            why_generic: self.driver.why_generic().map(str::to_owned),
            attached: self.driver.is_attached(),
            frames: self.frames,
            missed: self.ring.overrun() + self.driver.oversize(),
            questions: self.questions(),
        }
    }

    fn questions(&self) -> Vec<ReaderGroupReport> {
        watched::reports(&self.node, &self.watched)
    }

    /// Returns the counters of the writer group at `place`; `None` where it is no answer.
    pub(crate) fn counters(&self, place: usize) -> Option<crate::AnswerCounters> {
        let pair = self.pairs.get(place).copied().flatten()?;
        Some(self.driver.counters(pair))
    }
}

fn image_paths(folder: &Path, group: &Group) -> impl Iterator<Item = PathBuf> {
    let sets = group.data_sets.iter();
    sets.map(move |set| image_path(folder, &group.name, &set.name))
}

fn pair(known: &Known) -> Pair<'_> {
    let set = known.entry.group.data_sets.first();
    Pair {
        question: &known.question,
        destination: known.destination,
        vlan: known.vlan,
        interval_ns: known.entry.group.interval_ns,
        zeros_are_data: set.is_some_and(|set| set.zeros_are_data),
        answer: &known.answer,
        answer_to: known.answer_to,
        copies: known.copies.clone(),
        lease_ns: known.lease_ns,
    }
}

fn refused(entry: &GroupEntry, answer: &AnswerEntry, why: impl Into<String>) -> StationError {
    StationError::Answer {
        group: entry.group.name.clone(),
        questions: answer.questions.clone(),
        why: why.into(),
    }
}

/// Reads the project of a group's questions, and checks that the driver can answer them.
fn know(entry: &GroupEntry, answer: &AnswerEntry, others: &[Known]) -> Result<Known, StationError> {
    let refuse = |why: &str| refused(entry, answer, why);
    let questions = Project::read(&answer.questions)?;
    let mut groups = questions.groups.into_iter();
    let question = match &answer.group {
        Some(name) => groups
            .find(|group| group.group.name == *name)
            .ok_or_else(|| {
                refuse(&format!(
                    "it has no writer group `{name}`; `answers-group` names one"
                ))
            })?,
        None => match (groups.next(), groups.next()) {
            (Some(only), None) => only,
            _ => {
                return Err(refuse(
                    "it has several writer groups; name one by `answers-group`",
                ));
            }
        },
    };
    if others.len() >= MOST_PAIRS {
        return Err(refuse(&format!(
            "a driver answers {MOST_PAIRS} questions at most"
        )));
    }
    if question.answer.is_some() {
        return Err(refuse(
            "its group is an answer itself: such stations could answer each other without end",
        ));
    }
    if question.group.profile != Profile::Fixed {
        return Err(refuse(
            "its group has no fixed layout; the driver compares messages byte for byte",
        ));
    }
    if question.group.security.is_secured() {
        return Err(refuse("its group is secured, and the driver has no keys"));
    }
    if question.group.version == 0 {
        return Err(refuse("its group takes any version; state its `version`"));
    }
    let (
        Transport::Ethernet {
            address: destination,
            vlan,
        },
        Transport::Ethernet {
            address: answer_to,
            vlan: own_vlan,
        },
    ) = (question.transport, entry.transport)
    else {
        return Err(refuse(
            "its transport is UDP; the driver answers Ethernet frames",
        ));
    };
    if vlan != own_vlan {
        return Err(refuse(
            "its `vlan` and `pcp` are others; an answer keeps the VLAN tag of its question",
        ));
    }
    if destination == answer_to {
        return Err(refuse("questions and answers have the same `address`"));
    }
    let layouts = fixed_layout(&question.group).zip(fixed_layout(&entry.group));
    let (asked, own) = layouts.ok_or_else(|| {
        refuse("its messages or the answers have too many fields for a fixed layout")
    })?;
    let same = |other: &Known| {
        other.destination == destination
            && (other.vlan.is_none() || vlan.is_none() || other.vlan == vlan.map(|tag| tag.vid))
            && other.question.template() == asked.template()
    };
    if others.iter().any(same) {
        return Err(refuse("another group of this file answers these messages"));
    }
    let copies = copies(entry, &question, (&asked, &own)).map_err(|why| refuse(&why))?;
    Ok(Known {
        entry: question,
        question: asked,
        answer: own,
        destination,
        vlan: vlan.map(|tag| tag.vid),
        answer_to,
        copies,
        lease_ns: answer.lease_ns,
    })
}

/// Returns the places of the fields that are copied from the question.
fn copies(
    entry: &GroupEntry,
    question: &GroupEntry,
    (asked, own): (&FixedLayout, &FixedLayout),
) -> Result<Vec<Copied>, String> {
    let mut copies = Vec::new();
    let (Some(asked_set), Some(own_set)) = (
        question.group.data_sets.first(),
        entry.group.data_sets.first(),
    ) else {
        return Ok(copies);
    };
    for (field, source) in entry.sources.iter().flatten().enumerate() {
        let FieldSource::Question(name) = source else {
            continue;
        };
        let there = asked_set.fields.iter().position(|one| one.name == *name);
        let at = there.ok_or_else(|| format!("its messages have no field `{name}`"))?;
        let places = asked.places(0).get(at).zip(own.places(0).get(field));
        let (asked_place, own_place) = places.ok_or("a field has no place")?;
        if !asked_place.scalar || asked_place.kind != own_place.kind {
            let own = own_set.fields.get(field).map_or("", |own| &own.name[..]);
            return Err(format!(
                "field `{name}` is {}, and `{own}`, which copies it, is {}",
                asked_place.kind, own_place.kind
            ));
        }
        copies.push(Copied {
            question: *asked_place,
            answer: *own_place,
        });
    }
    Ok(copies)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    const OUT: &str = "\
[connection]\naddress = \"01-00-5E-7F-00-01\"\npublisher-id = 2234\n\
[[writer-group]]\nname = \"out\"\nid = 100\ninterval = \"1 ms\"\n\
[[writer-group.data-set]]\nwriter = 7\n\
[[writer-group.data-set.field]]\nname = \"up\"\ntype = \"Int32\"\n";
    const BACK: &str = "\
[connection]\naddress = \"01-00-5E-7F-00-02\"\npublisher-id = 2235\n\
[[writer-group]]\nid = 200\ninterval = \"1 ms\"\nanswers = \"out.toml\"\n\
[[writer-group.data-set]]\nwriter = 9\n\
[[writer-group.data-set.field]]\nname = \"number\"\ntype = \"Int32\"\ncopy = \"up\"\n";

    fn known(out: &str, back: &str) -> Result<Known, StationError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("out.toml"), out).unwrap();
        let project = Project::parse(back, &folder.path().join("back.toml")).unwrap();
        let entry = &project.groups[0];
        know(entry, entry.answer.as_ref().unwrap(), &[])
    }

    #[test]
    fn questions_that_the_driver_cannot_answer_are_refused_by_name() {
        let good = known(OUT, BACK).unwrap();
        assert_eq!((good.copies.len(), good.lease_ns), (1, 10_000_000));
        let secured = "id = 100\nsecurity = \"sign\"\nkey-file = \"k\"";
        let udp = "transport = \"udp\"\naddress = \"239.0.0.1:4840\"";
        let second = "[[writer-group]]\nname = \"other\"\nid = 101\ninterval = \"1 ms\"\n\
            [[writer-group.data-set]]\nwriter = 8\n[[writer-group.data-set.field]]\nname = \"x\"\ntype = \"Int32\"\n[[writer-group]]";
        for (from, to, why) in [
            ("id = 100", secured, "its group is secured"),
            ("id = 100", "id = 100\nversion = 0", "state its `version`"),
            (
                "id = 100",
                "id = 100\nprofile = \"dynamic\"",
                "no fixed layout",
            ),
            (
                "id = 100",
                "id = 100\nanswers = \"back.toml\"",
                "an answer itself",
            ),
            (
                "address = \"01-00-5E-7F-00-01\"",
                udp,
                "its transport is UDP",
            ),
            ("00-01\"", "00-02\"", "the same `address`"),
            (
                "00-01\"",
                "00-01\"\nvlan = 5",
                "its `vlan` and `pcp` are others",
            ),
            ("[[writer-group]]", second, "name one by `answers-group`"),
            ("\"up\"", "\"down\"", "no field `up`"),
            (
                "\"Int32\"",
                "\"UInt32\"",
                "field `up` is UInt32, and `number`, which copies it, is Int32",
            ),
        ] {
            let out = OUT.replacen(from, to, 1);
            assert_ne!(out, OUT, "{from}");
            let error = known(&out, BACK).err().unwrap();
            assert!(error.to_string().contains(why), "{why}: {error}");
        }
        let named = BACK.replace("out.toml\"", "out.toml\"\nanswers-group = \"x\"");
        let error = known(OUT, &named).err().unwrap();
        assert!(error.to_string().contains("no writer group `x`"), "{error}");
    }

    #[test]
    fn headers_beyond_the_compared_bytes_are_refused() {
        let long = "publisher-id = \"01234567890123456789012345678901234567890123456789\"\npublisher-id-type = \"String\"";
        let known = known(&OUT.replace("publisher-id = 2234", long), BACK).unwrap();
        assert!(pair(&known).check().is_err());
        let short = OUT.replace("publisher-id = 2234", &long.replace("0123456789012345", ""));
        assert!(pair(&self::known(&short, BACK).unwrap()).check().is_ok());
    }
}
