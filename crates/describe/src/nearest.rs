//! Finds the nearest correct word: "did you mean ...?".

/// Words that people write for a unit or key, and that an edit distance does not find.
const KNOWN: &[(&str, &str)] = &[
    ("bps", "bit/s"),
    ("kbps", "kbit/s"),
    ("mbps", "Mbit/s"),
    ("gbps", "Gbit/s"),
    ("bytes", "B"),
    ("byte", "B"),
    ("bits", "bit"),
    ("kb", "kB"),
    ("mb", "MB"),
    ("kib", "KiB"),
    ("sec", "s"),
    ("msec", "ms"),
    ("usec", "us"),
    ("nsec", "ns"),
    ("seconds", "s"),
    ("milliseconds", "ms"),
    ("microseconds", "us"),
    ("nanoseconds", "ns"),
    ("source", "talker"),
    ("sender", "talker"),
    ("from", "talker"),
    ("destination", "listeners"),
    ("receiver", "listeners"),
    ("receivers", "listeners"),
    ("to", "listeners"),
    ("period", "interval"),
    ("cycle", "interval"),
    ("pcp", "priority"),
    ("tos", "dscp"),
    ("type-of-service", "dscp"),
    ("dscp-map", "dscp-priority"),
    ("size", "payload"),
    ("bandwidth", "rate"),
    ("speed", "rate"),
    ("node", "host"),
    ("nodes", "host"),
];

/// Counts the edits (insert, delete, replace, swap of neighbours) from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = core::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Returns the candidate nearest to `word`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Beyond this nobody meant a name of ours, and the distance is quadratic.
    if word.chars().count() > 64 {
        return None;
    }
    let lower = word.to_lowercase().replace('_', "-");
    let known = KNOWN
        .iter()
        .find(|(from, _)| *from == lower)
        .map(|(_, to)| *to);
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        if Some(candidate) == known {
            return Some(candidate);
        }
        let as_written = distance(word, candidate);
        // A difference in case alone is nearer than any other letter.
        let folded =
            distance(&lower, &candidate.to_lowercase()) * 2 + usize::from(word != candidate);
        let score = (as_written * 2).min(folded);
        let enough = candidate.chars().count();
        if score <= enough && best.is_none_or(|(least, _)| score < least) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let keys = [
            "talker",
            "listeners",
            "shaping-interval",
            "priority",
            "rate",
        ];
        assert_eq!(nearest("listener", keys), Some("listeners"));
        assert_eq!(nearest("prioriti", keys), Some("priority"));
        assert_eq!(nearest("shaping_interval", keys), Some("shaping-interval"));
        assert_eq!(nearest("source", keys), Some("talker"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest(&"x".repeat(100_000), keys), None);
    }
}
