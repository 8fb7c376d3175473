//! The reasons why a program gets nothing from its host's agent.

use std::io;
use std::path::PathBuf;

/// An error of a program's connection to the agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The agent cannot be reached.
    #[error("cannot reach the agent at `{}`: {error}{}", path.display(), reach_hint(error))]
    Unreachable {
        /// The path of its socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The agent has ended.
    #[error("the agent has ended: {error}; its reservations end with it")]
    Gone {
        /// The system's error.
        error: io::Error,
    },
    /// The agent or the manager refuses.
    #[error("refused ({reason}): {text}")]
    Refused {
        /// The reason, in a word.
        reason: String,
        /// The values, in words.
        text: String,
    },
    /// The agent's answer cannot be understood.
    #[error("the agent answers something else than was asked: {what}")]
    Answer {
        /// The answer.
        what: String,
    },
}

fn reach_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "; is `rtwire agent` running, and is this its `--socket`?"
        }
        io::ErrorKind::PermissionDenied => "; only root and the agent's `--group` may use it",
        _ => "",
    }
}
