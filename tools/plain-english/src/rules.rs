//! The rules: openings of doc comments, lengths of sentences, and words that have a better one.

use crate::text::{Line, Paragraph};

/// Words of a sentence above which a hint is printed.
const LONG_WORDS: usize = 25;
/// Words of a sentence above which the check fails.
const TOO_LONG_WORDS: usize = 40;

/// First words that promise a riddle instead of a statement. A question, with its `?`, is allowed.
const FORBIDDEN_OPENINGS: [&str; 14] = [
    "what", "whatever", "whether", "how", "why", "when", "where", "which", "who", "whom", "whose",
    "if", "so", "by how",
];

/// Phrases, each with the text that replaces it. Matched as whole words, in any case.
const EVERYWHERE: [(&str, &str); 24] = [
    ("denser", "\"jitter\", or \"closer together\""),
    ("way out", "\"transmit path\""),
    ("way in", "\"receive path\""),
    ("this host has not", "\"missing\""),
    ("this host has no", "\"missing on this host\""),
    ("this machine has not", "\"missing\""),
    ("this kernel has not", "\"missing\""),
    ("so long after", "\"the time from … to …\""),
    ("so long before", "\"the time from … to …\""),
    ("so many", "the number, with its unit"),
    ("by how much", "\"the amount\", \"the difference\""),
    ("was with the network", "\"was handed over\""),
    ("queuing", "\"queueing\""),
    ("time stamp", "\"timestamp\""),
    ("time stamps", "\"timestamps\""),
    ("back log", "\"backlog\""),
    ("in order to", "\"to\""),
    ("prior to", "\"before\""),
    ("utilize", "\"use\""),
    ("utilise", "\"use\""),
    ("leverage", "\"use\""),
    ("e.g.", "\"for example\""),
    ("i.e.", "\"that is\""),
    ("thereof", "\"of it\""),
];

/// Phrases that are wrong in doc comments only.
const IN_DOC_COMMENTS: [(&str, &str); 1] = [("gives", "\"returns\"")];

/// Words for "byte" that belong to a standard's field.
const OCTET: [(&str, &str); 2] = [
    ("octet", "\"byte\", except for a standard's field"),
    ("octets", "\"bytes\", except for a standard's field"),
];

/// Paths whose texts describe a standard's fields.
const WIRE_FORMATS: [&str; 5] = [
    "crates/wire/",
    "crates/powerlink",
    "docs/powerlink",
    "docs/rtdip",
    "tools/plain-english/",
];

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Worth another look.
    Hint,
    /// Fails the check.
    Failure,
}

/// A place where a text breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The line's number, from 1.
    pub(crate) line: usize,
    /// Hint or failure.
    pub(crate) severity: Severity,
    /// The rule, and the way to keep it.
    pub(crate) message: String,
}

/// The kind of a file, which decides the rules for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rust source: every rule.
    Rust,
    /// A document: sentences and words.
    Document,
    /// The changelog: words only.
    Changelog,
}

/// Returns the findings in one paragraph of the file at `path`.
pub(crate) fn check(path: &str, kind: Kind, paragraph: &Paragraph) -> Vec<Finding> {
    let mut findings = Vec::new();
    if kind == Kind::Rust && paragraph.opening {
        findings.extend(opening(paragraph));
    }
    if kind != Kind::Changelog {
        findings.extend(lengths(paragraph));
    }
    findings.extend(words(&paragraph.lines, &EVERYWHERE));
    if kind == Kind::Rust {
        findings.extend(words(&paragraph.lines, &IN_DOC_COMMENTS));
    }
    if !WIRE_FORMATS.iter().any(|prefix| path.starts_with(prefix)) {
        findings.extend(words(&paragraph.lines, &OCTET));
    }
    findings
}

/// Checks a doc comment's first words.
fn opening(paragraph: &Paragraph) -> Option<Finding> {
    let first = sentences(paragraph).into_iter().next()?;
    let start = normal(&first.text);
    let word = FORBIDDEN_OPENINGS
        .into_iter()
        .find(|opening| starts_with_words(&start, opening))?;
    (!first.text.trim_end().ends_with('?')).then(|| Finding {
        line: first.line,
        severity: Severity::Failure,
        message: format!(
            "a doc comment opens with \"{word}\": open with a verb (\"Returns\", \"True if\") or a noun phrase"
        ),
    })
}

/// Checks the number of words in each sentence.
fn lengths(paragraph: &Paragraph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for sentence in sentences(paragraph) {
        let count = count_words(&sentence.text);
        if count > LONG_WORDS {
            let severity = if count > TOO_LONG_WORDS {
                Severity::Failure
            } else {
                Severity::Hint
            };
            let limit = match severity {
                Severity::Hint => format!("aim at {LONG_WORDS}"),
                Severity::Failure => format!("at most {TOO_LONG_WORDS}, aim at {LONG_WORDS}"),
            };
            findings.push(Finding {
                line: sentence.line,
                severity,
                message: format!("a sentence of {count} words ({limit}): split it"),
            });
        }
    }
    findings
}

/// Checks for phrases that have a better one.
fn words(lines: &[Line], phrases: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let text = normal(&without_code(&line.text));
        // A phrase may go on in the next line.
        let next = lines
            .get(index + 1)
            .map(|next| normal(&without_code(&next.text)))
            .unwrap_or_default();
        let both = format!("{text} {next}");
        for (phrase, instead) in phrases {
            for at in occurrences(&both, phrase) {
                if at < text.len() {
                    findings.push(Finding {
                        line: line.number,
                        severity: Severity::Failure,
                        message: format!("\"{phrase}\": write {instead}"),
                    });
                }
            }
        }
    }
    findings
}

/// A sentence, or the part of a paragraph up to a colon at a line's end.
struct Sentence {
    line: usize,
    text: String,
}

/// Splits a paragraph into sentences, without code spans and addresses.
fn sentences(paragraph: &Paragraph) -> Vec<Sentence> {
    // Code spans may go on in the next line, so they are removed from the whole; newlines tell the lines apart.
    let joined: Vec<&str> = paragraph
        .lines
        .iter()
        .map(|line| line.text.as_str())
        .collect();
    let whole = without_code(&joined.join("\n"));
    let mut found = Vec::new();
    let mut open: Option<Sentence> = None;
    for (line, text) in paragraph.lines.iter().zip(whole.split('\n')) {
        for word in text.split_whitespace() {
            let sentence = open.get_or_insert_with(|| Sentence {
                line: line.number,
                text: String::new(),
            });
            if !sentence.text.is_empty() {
                sentence.text.push(' ');
            }
            sentence.text.push_str(word);
            if ends_sentence(word) {
                found.extend(open.take());
            }
        }
    }
    found.extend(open);
    found
}

/// True if `word` is the last one of a sentence.
fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches([')', '"', '*', '_', '”', '’', ']']);
    let abbreviation = matches!(bare, "e.g." | "i.e." | "etc." | "vs." | "cf." | "No.");
    bare.ends_with(['.', '?', '!']) && !bare.ends_with("..") && !abbreviation
}

/// Replaces code spans by `…` and link targets by nothing. Newlines stay, so that lines can still be told apart.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', ']']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (end, instead) = if from.starts_with('`') {
            let ticks = from.bytes().take_while(|&byte| byte == b'`').count();
            let end = from[ticks..]
                .find(&from[..ticks])
                .map_or(ticks, |inner| inner + 2 * ticks);
            (end, "…")
        } else if from.starts_with("](") {
            (from.find(')').map_or(1, |close| close + 1), "]")
        } else {
            (1, "]")
        };
        out.push_str(instead);
        out.extend(from[..end].chars().filter(|&c| c == '\n'));
        rest = &from[end..];
    }
    out.push_str(rest);
    out
}

/// Counts the words with a letter or digit; addresses do not count.
fn count_words(text: &str) -> usize {
    text.split_whitespace()
        .filter(|word| word.contains(char::is_alphanumeric) && !word.contains("://"))
        .count()
}

/// Lower case, single spaces, no emphasis.
fn normal(text: &str) -> String {
    let lower = text.to_lowercase().replace(['*', '_'], "");
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True if `text` begins with the whole words `phrase`.
fn starts_with_words(text: &str, phrase: &str) -> bool {
    text.strip_prefix(phrase)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
}

/// Returns the positions of the whole words `phrase` in `text`. A phrase before "which" does not count.
fn occurrences(text: &str, phrase: &str) -> Vec<usize> {
    text.match_indices(phrase)
        .map(|(at, _)| at)
        .filter(|&at| {
            let before = text[..at].chars().next_back();
            let free = before.is_none_or(|c| !c.is_alphanumeric() && c != '-');
            let behind = &text[at + phrase.len()..];
            free && starts_with_words(&text[at..], phrase) && !behind.starts_with(" which")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{of_markdown, of_rust};

    fn rust(path: &str, source: &str) -> Vec<(usize, Severity)> {
        of_rust(source)
            .iter()
            .flat_map(|paragraph| check(path, Kind::Rust, paragraph))
            .map(|finding| (finding.line, finding.severity))
            .collect()
    }

    fn words_of(count: usize) -> String {
        vec!["word"; count].join(" ")
    }

    #[test]
    fn openings_that_are_riddles_fail_and_others_do_not() {
        for opening in [
            "What it is.",
            "Whether it works.",
            "How long it takes.",
            "**How** many.",
            "So many bytes.",
            "By how much.",
            "If the link is up.",
            "Why, if so.",
        ] {
            let found = rust("crates/a.rs", &format!("/// {opening}\n"));
            assert!(
                found.contains(&(1, Severity::Failure)),
                "`{opening}` passes"
            );
        }
        for opening in [
            "Returns the number.",
            "True if it works.",
            "The time in ns.",
            "Howling wind.",
            "What do the bytes mean? Frames of protocols.",
            "`what` it is called.",
            "If-statements.",
        ] {
            let found = rust("crates/a.rs", &format!("/// {opening}\n"));
            assert_eq!(found, [], "`{opening}` fails");
        }
        // Only the first paragraph opens a comment.
        assert_eq!(
            rust("crates/a.rs", "/// Opens.\n///\n/// What follows.\n"),
            []
        );
    }

    #[test]
    fn long_sentences_are_hints_and_very_long_ones_failures() {
        for (count, expected) in [
            (25, vec![]),
            (26, vec![(2, Severity::Hint)]),
            (40, vec![(2, Severity::Hint)]),
            (41, vec![(2, Severity::Failure)]),
        ] {
            let source = format!("/// Short.\n/// {}.\n", words_of(count));
            assert_eq!(rust("crates/a.rs", &source), expected, "{count} words");
        }
    }

    #[test]
    fn code_and_addresses_do_not_count() {
        let source = format!(
            "/// {} `a b c d\n/// e f` [one](https://example.org/a b) https://example.org.\n",
            words_of(24)
        );
        assert_eq!(rust("crates/a.rs", &source), []);
        assert_eq!(rust("crates/a.rs", "/// The `so many` of `gives`.\n"), []);
    }

    #[test]
    fn words_are_found_whole_in_any_case_and_across_lines() {
        assert_eq!(
            rust("crates/a.rs", "/// Returns so\n/// many; always many.\n"),
            [(1, Severity::Failure)]
        );
        assert_eq!(
            rust("crates/a.rs", "/// The Way Out.\n"),
            [(1, Severity::Failure)]
        );
        assert_eq!(rust("crates/a.rs", "/// Runway outside.\n"), []);
        assert_eq!(rust("crates/a.rs", "/// The way in which.\n"), []);
    }

    #[test]
    fn octets_belong_to_wire_formats() {
        let source = "/// Octets of a frame.\n";
        assert_eq!(rust("crates/wire/src/a.rs", source), []);
        assert_eq!(rust("crates/powerlink-station/src/a.rs", source), []);
        assert_eq!(
            rust("crates/host/src/a.rs", source),
            [(1, Severity::Failure)]
        );
    }

    #[test]
    fn documents_may_say_gives_and_the_changelog_is_about_words_only() {
        let long = format!("It gives {}.\n", words_of(60));
        let all = |kind| {
            of_markdown(&long)
                .iter()
                .flat_map(|paragraph| check("a.md", kind, paragraph))
                .count()
        };
        assert_eq!(all(Kind::Document), 1);
        assert_eq!(all(Kind::Changelog), 0);
    }
}
