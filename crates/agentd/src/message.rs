//! The messages between a program and the agent of its host: JSON objects on a UNIX socket of sequenced packets.
//!
//! Each packet is one message. A program asks, the agent answers, in turn. With a channel, the answer carries the
//! socket's descriptor. docs/agent.md has the fields; they are an interface for programs in any language.

use serde::{Deserialize, Serialize};

use rtwire_manager::{Ask, Carrier, Granted};

/// The version of the messages.
pub const VERSION: u32 = 1;
/// The largest message, bytes.
pub const LARGEST_MESSAGE: usize = 4096;

/// A program's question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// [`VERSION`].
    pub version: u32,
    /// The wish.
    #[serde(flatten)]
    pub wish: Wish,
}

/// A program's wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Wish {
    /// A connection, and its sending socket.
    Reserve {
        /// The host that receives.
        to: String,
        /// Priority code point, 0 to 7, 7 most urgent.
        priority: u8,
        /// The largest frame: header and payload without FCS, bytes.
        frame_bytes: u16,
        /// The rate of whole frames on the wire, bytes per millisecond.
        rate_bytes_per_ms: u32,
        /// The burst of whole frames on the wire, bytes.
        burst_bytes: u32,
        /// The latest useful delay, ns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ns: Option<u64>,
        /// The destination port; 0 for any that is free.
        #[serde(default)]
        port: u16,
        /// The source port; 0 for any that is free.
        #[serde(default)]
        source_port: u16,
    },
    /// The receiving socket of a connection to this host.
    Listen {
        /// The connection.
        connection: u64,
    },
    /// The end of a connection, or of a receiving socket, of this program.
    Release {
        /// The connection.
        connection: u64,
    },
    /// The counts of a connection of this program.
    Counts {
        /// The connection.
        connection: u64,
    },
    /// The control class for the socket that comes with the message. For the manager; only root may ask.
    Control,
}

/// A connection, as a program needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// Its number.
    pub connection: u64,
    /// The epoch of the plan from which it is in force.
    pub epoch: u64,
    /// The host that sends.
    pub talker: String,
    /// The host that receives.
    pub listener: String,
    /// The longest delay of a frame, ns.
    pub promise_ns: u64,
    /// Priority code point.
    pub priority: u8,
    /// The largest frame: header and payload without FCS, bytes.
    pub frame_bytes: u16,
    /// The rate on the wire, bytes per millisecond.
    pub rate_bytes_per_ms: u32,
    /// The burst on the wire, bytes.
    pub burst_bytes: u32,
    /// The latest useful delay, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub port: u16,
    /// The number from which addresses and keys are made.
    pub number: u32,
    /// The key of the connection.
    pub key: u32,
}

/// The agent's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Reply {
    /// The connection is reserved; its sending socket comes with this message.
    Granted(Channel),
    /// The receiving socket comes with this message.
    Listening(Channel),
    /// It is released.
    Released {
        /// The connection.
        connection: u64,
    },
    /// The counts of a connection.
    Counts {
        /// The connection.
        connection: u64,
        /// At the talker: frames sent, also those that its queue dropped. At the listener: frames that came.
        frames: u64,
        /// At the talker: frames that were not the connection's. At the listener: frames of other senders.
        foreign: u64,
        /// At the listener: frames beyond the contract.
        too_much: u64,
    },
    /// The socket uses the control class.
    Controlled,
    /// Refused.
    Refused {
        /// The reason in a word: those of the manager, and `denied`, `silent`, `local`.
        reason: String,
        /// The values, in words.
        text: String,
    },
}

impl From<&Granted> for Channel {
    fn from(granted: &Granted) -> Channel {
        let ask = &granted.ask;
        Channel {
            connection: granted.connection,
            epoch: granted.epoch,
            talker: granted.talker.clone(),
            listener: ask.listener.clone(),
            promise_ns: granted.promise_ns,
            priority: ask.pcp,
            frame_bytes: ask.frame_bytes,
            rate_bytes_per_ms: ask.rate_bytes_per_ms,
            burst_bytes: ask.burst_bytes,
            deadline_ns: ask.deadline_ns,
            source_port: ask.source_port,
            port: ask.port,
            number: granted.number,
            key: granted.key,
        }
    }
}

impl From<&Channel> for Granted {
    fn from(channel: &Channel) -> Granted {
        Granted {
            connection: channel.connection,
            epoch: channel.epoch,
            talker: channel.talker.clone(),
            ask: Ask {
                listener: channel.listener.clone(),
                carrier: Carrier::Udp,
                pcp: channel.priority,
                vlan: None,
                frame_bytes: channel.frame_bytes,
                rate_bytes_per_ms: channel.rate_bytes_per_ms,
                burst_bytes: channel.burst_bytes,
                deadline_ns: channel.deadline_ns,
                source_port: channel.source_port,
                port: channel.port,
            },
            promise_ns: channel.promise_ns,
            number: channel.number,
            key: channel.key,
        }
    }
}

/// Returns a refusal of the agent itself.
pub(crate) fn refused(reason: &str, text: impl Into<String>) -> Reply {
    Reply::Refused {
        reason: reason.to_owned(),
        text: text.into(),
    }
}

/// Reads a question.
///
/// # Errors
/// The answer to what is no question of this version.
pub fn question(bytes: &[u8]) -> Result<Wish, Reply> {
    let question: Question = serde_json::from_slice(bytes)
        .map_err(|error| refused("faulty", format!("this is no question: {error}")))?;
    if question.version == VERSION {
        Ok(question.wish)
    } else {
        let version = question.version;
        Err(refused(
            "faulty",
            format!("version {version} of the messages is not known here, only {VERSION}"),
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_words_are_as_documented() {
        let text = include_str!("../../../docs/agent.md");
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("    {\"version\""))
            .collect();
        assert!(lines.len() >= 4, "{lines:?}");
        for line in lines {
            question(line.trim().as_bytes()).unwrap();
        }
        let answers: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("    {\"answer\""))
            .collect();
        assert!(answers.len() >= 4, "{answers:?}");
        for line in answers {
            let _: Reply = serde_json::from_str(line.trim()).unwrap();
        }
        let newer = question(br#"{"version":2,"ask":"control"}"#).unwrap_err();
        assert!(format!("{newer:?}").contains("version 2"), "{newer:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = question(&bytes);
        }
    }
}
