//! The keys of a writer group that the driver sends as answers.

use super::connection::Transport;
use super::field::FieldSource;
use super::group::GroupEntry;
use core::ops::Range;
use rtwire_describe::project_file::{Findings, Keys};
use rtwire_pubsub::Profile;
use std::path::{Path, PathBuf};

/// The intervals of a group for which the driver answers without renewal, where the file states no lease.
const LEASE_INTERVALS: u64 = 10;
/// The longest lease, ns: a driver must not answer for long for a program that hangs.
const LONGEST_LEASE_NS: u64 = 10_000_000_000;

/// The questions that the driver answers with a group's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerEntry {
    /// The project of the questions.
    pub questions: PathBuf,
    /// The writer group of the questions; `None`: the only one.
    pub group: Option<String>,
    /// The time for which the driver goes on answering when the program does not renew the answer, ns.
    pub lease_ns: u64,
}

/// The keys as they were read, before the group is known.
pub(super) struct Read {
    answers: Option<(PathBuf, Range<usize>)>,
    group: Option<String>,
    lease: Option<(u64, Range<usize>)>,
    /// The place of the first key that needs `answers`.
    stray: Option<(&'static str, Range<usize>)>,
}

pub(super) fn read(keys: &mut Keys<'_, '_, '_>, path: &Path) -> Read {
    let folder = path.parent().unwrap_or(Path::new(""));
    let answers = keys.text("answers");
    let answers = answers.map(|(file, span)| (folder.join(file), span));
    let group = keys.text("answers-group");
    let lease_at = keys.get("answers-lease").map(|value| value.span());
    let lease_ns = keys.time("answers-lease", 100_000);
    let places = [
        (
            "answers-group",
            group.as_ref().map(|(_, span)| span.clone()),
        ),
        ("answers-lease", lease_at.clone()),
    ];
    let mut places = places.into_iter();
    let stray = places.find_map(|(key, span)| Some((key, span?)));
    Read {
        stray: stray.filter(|_| answers.is_none()),
        answers,
        group: group.map(|(name, _)| name.to_owned()),
        lease: lease_ns.zip(lease_at),
    }
}

impl Read {
    /// Checks the group that the keys belong to, and returns what they say.
    pub(super) fn of(
        self,
        entry: &GroupEntry,
        span: &Range<usize>,
        findings: &mut Findings<'_>,
    ) -> Option<AnswerEntry> {
        if let Some((key, place)) = self.stray {
            let message = format!("`{key}` is for groups with `answers`");
            findings.at(&place, message, None);
        }
        let copies = entry.sources.iter().flatten();
        let copies = copies.filter(|source| matches!(source, FieldSource::Question(_)));
        let Some((questions, place)) = self.answers else {
            if copies.count() > 0 {
                let message = "`copy` is for fields of a group with `answers`".to_owned();
                findings.at(span, message, None);
            }
            return None;
        };
        let mut refuse = |why: &str, help: &str| {
            let message = format!("the driver cannot send this group as an answer: {why}");
            findings.at(&place, message, Some(help.to_owned()));
        };
        if copies.count() > crate::driver::COPIES {
            let why = format!("it copies more than {} fields", crate::driver::COPIES);
            refuse(&why, "copy fewer fields of the question");
        }
        if matches!(entry.transport, Transport::Udp { .. }) {
            refuse("it is sent by UDP", "use transport = \"ethernet\"");
        }
        if entry.group.profile != Profile::Fixed {
            refuse(
                "its messages have no fixed layout",
                "use profile = \"fixed\"",
            );
        }
        if entry.group.security.is_secured() {
            refuse(
                "it is secured, and the driver has no keys",
                "remove `security`, or answer with the library",
            );
        }
        if entry.stream.is_some() {
            refuse(
                "it is a stream of a plan, and answers leave when questions come",
                "remove `stream`",
            );
        }
        let interval_ns = entry.group.interval_ns;
        let usual_ns = interval_ns.saturating_mul(LEASE_INTERVALS);
        let lease_ns = self.lease.as_ref().map_or(usual_ns, |(ns, _)| *ns);
        if !(interval_ns.saturating_mul(2)..=LONGEST_LEASE_NS).contains(&lease_ns) {
            let place = self.lease.map_or(place, |(_, place)| place);
            let message = format!("the lease of answers is {lease_ns} ns");
            let help = "it has at least two intervals, and at most 10 s: the program renews its answer once in an interval";
            findings.at(&place, message, Some(help.to_owned()));
        }
        Some(AnswerEntry {
            questions,
            group: self.group,
            lease_ns,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use crate::Project;
    use std::path::Path;

    const GOOD: &str = "\
[connection]\naddress = \"01-00-5E-7F-00-02\"\npublisher-id = 2235\n\
[[writer-group]]\nid = 200\ninterval = \"1 ms\"\nanswers = \"out.toml\"\n\
[[writer-group.data-set]]\nwriter = 9\n\
[[writer-group.data-set.field]]\nname = \"number\"\ntype = \"Int32\"\ncopy = \"up\"\n";

    #[test]
    fn a_lease_is_ten_intervals_and_the_questions_are_beside_the_file() {
        let project = Project::parse(GOOD, Path::new("/folder/back.toml")).unwrap();
        let answer = project.groups[0].answer.clone().unwrap();
        assert_eq!(answer.questions, Path::new("/folder/out.toml"));
        assert_eq!((answer.group, answer.lease_ns), (None, 10_000_000));
    }

    #[test]
    fn what_the_driver_cannot_send_is_refused_where_it_stands() {
        let secured = "id = 200\nsecurity = \"sign\"\nkey-file = \"k\"";
        let udp = "transport = \"udp\"\naddress = \"239.0.0.1:4840\"";
        for (from, to, why) in [
            (
                "id = 200",
                secured,
                "back.toml:9:11: the driver cannot send this group as an answer: it is secured",
            ),
            (
                "id = 200",
                "id = 200\nprofile = \"dynamic\"",
                "no fixed layout",
            ),
            ("address = \"01-00-5E-7F-00-02\"", udp, "it is sent by UDP"),
            (
                "answers = ",
                "answers-lease = \"1 ms\"\nanswers = ",
                "the lease of answers is 1000000 ns",
            ),
            (
                "answers = ",
                "answers-lease = \"11 s\"\nanswers = ",
                "the lease of answers is 11000000000 ns",
            ),
            (
                "answers = \"out.toml\"",
                "answers-group = \"g\"",
                "`answers-group` is for groups with `answers`",
            ),
            (
                "answers = \"out.toml\"",
                "version = 1",
                "`copy` is for fields of a group with `answers`",
            ),
            (
                "copy = ",
                "value = 3\ncopy = ",
                "a field has `value` or `copy`",
            ),
            (
                "copy = ",
                "max-elements = 3\ncopy = ",
                "`copy` is for scalars",
            ),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let error = Project::parse(&text, Path::new("back.toml")).unwrap_err();
            assert!(error.to_string().contains(why), "{why}: {error}");
        }
    }
}
