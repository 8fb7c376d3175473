//! Paragraphs of Rust doc comments and of Markdown, with the line of each.
//!
//! Headings, tables, code blocks and HTML comments are left out.

/// One line of prose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The line's number in its file, from 1.
    pub(crate) number: usize,
    /// The text, without comment marker and list marker.
    pub(crate) text: String,
}

/// Lines that belong together: a paragraph, or an item of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paragraph {
    /// True for the first paragraph of a doc comment.
    pub(crate) opening: bool,
    /// The lines, never empty.
    pub(crate) lines: Vec<Line>,
}

/// Returns the paragraphs of all doc comments (`///` and `//!`) in Rust source.
pub(crate) fn of_rust(source: &str) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let mut block: Vec<Line> = Vec::new();
    let mut marker = "";
    for (index, line) in source.lines().enumerate() {
        let (now, text) = doc_line(line);
        if now != marker || now.is_empty() {
            found.extend(of_block(&block, true));
            block.clear();
            marker = now;
        }
        if !now.is_empty() {
            block.push(Line {
                number: index + 1,
                text: text.to_owned(),
            });
        }
    }
    found.extend(of_block(&block, true));
    found
}

/// Returns the paragraphs of a Markdown document. None of them is an opening.
pub(crate) fn of_markdown(source: &str) -> Vec<Paragraph> {
    let lines: Vec<Line> = source
        .lines()
        .enumerate()
        .map(|(index, text)| Line {
            number: index + 1,
            text: text.to_owned(),
        })
        .collect();
    of_block(&lines, false)
}

/// The marker of a doc comment's line, empty for any other line, and the text behind it.
fn doc_line(line: &str) -> (&'static str, &str) {
    let line = line.trim_start();
    if let Some(text) = line.strip_prefix("//!") {
        return ("//!", text.strip_prefix(' ').unwrap_or(text));
    }
    match line.strip_prefix("///") {
        Some(text) if !text.starts_with('/') => ("///", text.strip_prefix(' ').unwrap_or(text)),
        _ => ("", line),
    }
}

/// Splits the Markdown in `lines` into paragraphs; with `opens`, the first one is marked as an opening.
fn of_block(lines: &[Line], opens: bool) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let mut open = Paragraph::default();
    let mut fence: Option<&str> = None;
    let mut in_html_comment = false;
    for line in lines {
        let text = line.text.trim();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| text.starts_with(mark));
        if let Some(end) = fence {
            if mark == Some(end) {
                fence = None;
            }
            continue;
        }
        if in_html_comment || text.starts_with("<!--") {
            close(&mut found, &mut open);
            in_html_comment = !text.contains("-->");
            continue;
        }
        let indented = line.text.starts_with("    ") && open.lines.is_empty();
        if mark.is_some() || text.is_empty() || text.starts_with(['|', '#']) || indented {
            close(&mut found, &mut open);
            fence = mark;
            continue;
        }
        let item = list_item(text);
        if item.is_some() {
            close(&mut found, &mut open);
        }
        open.lines.push(Line {
            number: line.number,
            text: item.unwrap_or(text).to_owned(),
        });
    }
    close(&mut found, &mut open);
    if let Some(first) = found.first_mut() {
        first.opening = opens;
    }
    found
}

/// Moves the paragraph that is being read to those found, unless it is empty.
fn close(found: &mut Vec<Paragraph>, open: &mut Paragraph) {
    if !open.lines.is_empty() {
        found.push(std::mem::take(open));
    }
}

/// The text of a list's item without its marker; `None` for a line that begins no item.
fn list_item(text: &str) -> Option<&str> {
    let bulleted = ["- ", "* ", "+ "]
        .into_iter()
        .find_map(|marker| text.strip_prefix(marker));
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    bulleted.or_else(|| {
        (1..=2)
            .contains(&digits)
            .then(|| text[digits..].strip_prefix(". "))
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(paragraphs: &[Paragraph]) -> Vec<(bool, Vec<(usize, &str)>)> {
        paragraphs
            .iter()
            .map(|paragraph| {
                let lines = paragraph.lines.iter();
                (
                    paragraph.opening,
                    lines
                        .map(|line| (line.number, line.text.as_str()))
                        .collect(),
                )
            })
            .collect()
    }

    #[test]
    fn doc_comments_open_once_and_keep_their_line_numbers() {
        let source = "//! A file.\n\n// No doc.\n/// Opens.\n/// Goes on.\n///\n/// # Errors\n/// More.\nfn f() {}\n    /// Another.\n//// No doc.\n";
        assert_eq!(
            texts(&of_rust(source)),
            [
                (true, vec![(1, "A file.")]),
                (true, vec![(4, "Opens."), (5, "Goes on.")]),
                (false, vec![(8, "More.")]),
                (true, vec![(10, "Another.")]),
            ]
        );
    }

    #[test]
    fn code_tables_headings_and_comments_are_left_out() {
        let source = "# Title\nOne.\n```\nWhat code.\n```\n| a | b |\n- two\n  lines\n- three\n12. four\n\n    code\n\n<!-- so\nmany -->\nFive.\n";
        assert_eq!(
            texts(&of_markdown(source)),
            [
                (false, vec![(2, "One.")]),
                (false, vec![(7, "two"), (8, "lines")]),
                (false, vec![(9, "three")]),
                (false, vec![(10, "four")]),
                (false, vec![(16, "Five.")]),
            ]
        );
    }
}
