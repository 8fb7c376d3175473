//! What keeps a file of another format from being imported.

/// One fault; the first one ends the import.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportFault {
    /// A line of a table is not what the format wants.
    #[error("{file}, line {line}: {fault}")]
    Line {
        /// Which of the files: "streams" or "topology".
        file: &'static str,
        /// From 1; the titles are line 1.
        line: u64,
        /// What is wrong, and what would be right.
        fault: String,
    },
    /// The text is no JSON.
    #[error("no JSON: {0}")]
    Json(String),
    /// A value of a JSON document is not what the format wants.
    #[error("{at}: {fault}")]
    Value {
        /// Its place, as in `flows[2].path`.
        at: String,
        /// What is wrong, and what would be right.
        fault: String,
    },
    /// All is as the format wants it, but no network of switches and links is like it.
    #[error("{0}")]
    Shape(String),
    /// The description that it becomes has faults.
    #[error("what it says is no network that can be planned: {0}")]
    Description(crate::description::Faults),
}

/// A text from a file, short and without control characters.
pub(super) fn shown(text: &str) -> String {
    crate::description::short(text)
}
