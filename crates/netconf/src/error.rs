//! The reasons why a session cannot go on.

/// An error of a session or of its data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetconfError {
    /// The bytes do not follow the framing.
    #[error("the switch's bytes are no NETCONF message: {what}; they begin with `{begin}`")]
    Framing {
        /// The fault.
        what: &'static str,
        /// The first characters.
        begin: String,
    },
    /// A message is too long.
    #[error("the switch sends a message of more than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// A message is not XML, or is nested too deeply.
    #[error("the switch's message is no XML as expected: {what}; it begins with `{begin}`")]
    Xml {
        /// The fault.
        what: String,
        /// The first characters.
        begin: String,
    },
    /// A message came that does not belong here.
    #[error("the switch does not follow NETCONF: {0}")]
    Protocol(String),
    /// The stream has ended too early.
    #[error("it was asked {request}, and the session ended")]
    Ended {
        /// The request that had no reply, as a verb phrase.
        request: &'static str,
    },
    /// The data cannot be written as XML.
    #[error("the data cannot be sent: {0}")]
    Data(String),
}

/// Returns the first characters of a message for people: one line, nothing that controls a terminal.
pub(crate) fn begin(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    visible(&text)
        .chars()
        .take(80)
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Returns a text of the switch without what controls a terminal.
pub(crate) fn visible(text: &str) -> String {
    let visible = text
        .chars()
        .map(|one| if one.is_control() { ' ' } else { one });
    visible.collect()
}
