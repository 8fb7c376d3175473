//! Compares what two codecs read in the same message: each field is a line of text, so that a difference shows its place.
//!
//! `zerodds-opcua-pubsub` is a codec of OPC UA PubSub in Rust. Nobody who wrote `rtwire_wire::uadp` had a part in it, so an
//! error in both would have to be made twice. The tests compare both with recorded, random, secured and damaged messages.
//!
//! ```text
//!  message ──► rtwire_wire::uadp ────► ours::reading ────┐
//!     │                                                  ├─► equal, line by line
//!     └──────► zerodds_opcua_pubsub ─► theirs::reading ──┘
//! ```
//!
//! Each reading is of one codec's own types: no line is made from both. [`forms`] names the forms that the other codec does not read or
//! write as the standard says; outside of them every message has to be read alike.
//!
//! # Limits
//! The other codec's types hold less than the standard has. So null is read as empty, a NodeId is read as what it names, an empty array has
//! no type, and spare flags have no line. Of discovery only announcements of metadata are compared, of chunks
//! nothing: the other codec has no chunks, and its probes lack the ProbeType (Part 14, 7.2.4.6.12.3).

use std::fmt::Write as _;

pub mod forms;
pub mod ours;
pub mod theirs;

/// The fields of a message as a codec read them: one line each, in the order of the message.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Reading(Vec<String>);

impl Reading {
    /// Returns the first line that differs in another reading, and that one; `None` if both are equal.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<(String, String)> {
        let line = |lines: &[String], at: usize| match lines.get(at) {
            Some(line) => line.clone(),
            None => "(nothing)".to_owned(),
        };
        let most = self.0.len().max(other.0.len());
        let at = (0..most).find(|&at| self.0.get(at) != other.0.get(at))?;
        Some((line(&self.0, at), line(&other.0, at)))
    }

    /// Adds a line.
    pub fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(format!("{name}: {value}"));
    }

    /// Adds a line if there is a value.
    fn option(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.line(name, value);
        }
    }
}

/// Returns octets as hexadecimal digits.
#[must_use]
pub fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// Returns the parts that are there, with a space between them.
fn joined(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join(" ")
}
