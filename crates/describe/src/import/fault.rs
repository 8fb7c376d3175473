//! The faults that prevent the import of a file in another format.

/// One fault; the first one ends the import.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportFault {
    /// A line of a table does not follow the format.
    #[error("{file}, line {line}: {fault}")]
    Line {
        /// The file: "streams" or "topology".
        file: &'static str,
        /// The line, from 1; the titles are line 1.
        line: u64,
        /// The fault, and the expected value.
        fault: String,
    },
    /// The text is not JSON.
    #[error("no JSON: {0}")]
    Json(String),
    /// A value of a JSON document does not follow the format.
    #[error("{at}: {fault}")]
    Value {
        /// Its place, as in `flows[2].path`.
        at: String,
        /// The fault, and the expected value.
        fault: String,
    },
    /// The document follows the format, but no network of switches and links corresponds to it.
    #[error("{0}")]
    Shape(String),
    /// The description made from the file has faults.
    #[error("what it says is no network that can be planned: {0}")]
    Description(crate::description::Faults),
}

/// Returns a text from a file, shortened and without control characters.
pub(super) fn shown(text: &str) -> String {
    crate::description::short(text)
}
