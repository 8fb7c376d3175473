//! Tables in a terminal.

use std::fmt::Write as _;

/// Adds a table with columns as wide as their widest entry. The first `left` columns are text, the others numbers.
pub(crate) fn table(text: &mut String, left: usize, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            let (before, behind) = if column < left {
                ("", pad.as_str())
            } else {
                (pad.as_str(), "")
            };
            let _ = write!(line, "  {before}{cell}{behind}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}
