//! The messages between a program and the agent of its host: JSON objects on a UNIX socket of sequenced packets.
//!
//! Each packet is one message. A program asks, the agent answers, in turn. With a channel, the answer carries the
//! socket's descriptor. docs/agent.md has the fields; they are an interface for programs in any language.

use serde::{Deserialize, Serialize};

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
    Reserve(ReserveWish),
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
    /// The host and the interface that the agent serves.
    Host,
    /// The socket of one end of a planned stream.
    Open(StreamWish),
    /// The end of a stream's use by this program.
    Close {
        /// The end.
        end: End,
        /// The stream.
        stream: String,
    },
    /// The counts of a stream that this program has open.
    StreamCounts {
        /// The end.
        end: End,
        /// The stream.
        stream: String,
    },
}

/// A connection as a program wants it. [`Default`] has what may be left open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReserveWish {
    /// The host that receives.
    pub to: String,
    /// Priority code point, 0 to 7, 7 most urgent.
    pub priority: u8,
    /// The largest frame: header, tag and payload without FCS, bytes.
    pub frame_bytes: u16,
    /// The rate of whole frames on the wire, bytes per millisecond.
    pub rate_bytes_per_ms: u32,
    /// The burst of whole frames on the wire, bytes.
    pub burst_bytes: u32,
    /// The latest useful delay, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// The destination port; 0 for any that is free.
    #[serde(default)]
    pub port: u16,
    /// The source port; 0 for any that is free.
    #[serde(default)]
    pub source_port: u16,
    /// The protocol that carries it.
    #[serde(default, skip_serializing_if = "Carrier::is_udp")]
    pub carrier: Carrier,
    /// The VLAN id of its frames, 1 to 4094, with [`Carrier::Rtdip`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The time between two frames of a cyclic connection, ns, at least 1. It has a launch offset, and rate and burst may be 0:
    /// they are raised to what one frame in each interval needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
}

/// The protocol that carries a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// UDP and IPv4.
    #[default]
    Udp,
    /// RTDiP directly on Ethernet. A datagram of the program's socket is a frame without its Ethernet header: it begins with
    /// the header of RTDiP and has at least 46 bytes.
    Rtdip,
}

impl Carrier {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_udp(&self) -> bool {
        *self == Carrier::Udp
    }
}

/// One end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The end that sends.
    Talker,
    /// An end that receives.
    Listener,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            End::Talker => "talker",
            End::Listener => "listener",
        })
    }
}

/// A stream as the program's plan has it. Port and key show whether the agent has the same plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamWish {
    /// The end.
    pub end: End,
    /// The stream's name.
    pub stream: String,
    /// Its destination port.
    pub port: u16,
    /// Its key.
    pub key: u32,
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
    /// The protocol that carries it.
    #[serde(default, skip_serializing_if = "Carrier::is_udp")]
    pub carrier: Carrier,
    /// The VLAN id of its frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The time between two frames of a cyclic connection, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
    /// Its launch offset, ns: see [`Channel::next_launch_tai_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_offset_ns: Option<u64>,
}

impl Channel {
    /// Returns the first launch of a cyclic connection that is not before `tai_ns`, ns of CLOCK_TAI. A frame that is sent at each
    /// launch meets no other cyclic connection's frame on the link of this host.
    #[must_use]
    pub fn next_launch_tai_ns(&self, tai_ns: u64) -> Option<u64> {
        let (interval_ns, offset_ns) = (self.interval_ns?, self.launch_offset_ns?);
        let rest_ns = tai_ns.saturating_sub(offset_ns);
        rest_ns
            .checked_next_multiple_of(interval_ns)?
            .checked_add(offset_ns)
    }
}

/// The host and the interface of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The host, as the plan names it.
    pub host: String,
    /// The interface's name.
    pub interface: String,
    /// The interface's index. With its address it tells interfaces of several network namespaces apart.
    pub index: u32,
    /// The interface's hardware address.
    pub address: [u8; 6],
}

/// One end of a stream that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The end.
    pub end: End,
    /// The stream.
    pub stream: String,
    /// True if the stream's frames are RTDiP. The datagrams of the socket are the frames without their Ethernet header.
    pub rtdip: bool,
}

/// The counts of one end of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCounts {
    /// At the talker: frames sent, also those that its queue dropped. At the listener: frames that came.
    pub frames: u64,
    /// At the talker: frames that were not the stream's. At the listener: frames of other senders, or with another key.
    pub foreign: u64,
    /// At the listener: frames beyond the contract.
    pub too_much: u64,
}

/// The agent's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Reply {
    /// The connection is reserved; its sending socket comes with this message.
    Granted(Box<Channel>),
    /// The receiving socket comes with this message.
    Listening(Box<Channel>),
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
    /// The host and the interface.
    Host(HostFacts),
    /// The end of a stream is open; its socket comes with this message.
    Opened(Opened),
    /// The end of a stream is closed.
    Closed {
        /// The end.
        end: End,
        /// The stream.
        stream: String,
    },
    /// The counts of one end of a stream.
    StreamCounts(StreamCounts),
    /// Refused.
    Refused {
        /// The reason in a word: those of the manager, and the agent's own (docs/agent.md).
        reason: String,
        /// The values, in words.
        text: String,
    },
}

/// Returns a refusal with its reason in a word, and the values in words.
#[must_use]
pub fn refused(reason: &str, text: impl Into<String>) -> Reply {
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
    let no_question =
        |error: serde_json::Error| refused("faulty", format!("this is no question: {error}"));
    let question: Question = serde_json::from_slice(bytes).map_err(no_question)?;
    // serde reads these from numbers and objects, too.
    let words: serde_json::Value = serde_json::from_slice(bytes).map_err(no_question)?;
    for name in ["ask", "end", "carrier"] {
        if words.get(name).is_some_and(|word| !word.is_string()) {
            let text = format!("this is no question: `{name}` is a word in quotes");
            return Err(refused("faulty", text));
        }
    }
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
    fn launches_follow_the_grid() {
        let text = r#"{"answer":"granted","connection":1,"epoch":1,"talker":"a","listener":"b","promise_ns":9,"priority":5,"frame_bytes":500,"rate_bytes_per_ms":524,"burst_bytes":551,"source_port":1,"port":2,"number":5,"key":6,"interval_ns":1000,"launch_offset_ns":90}"#;
        let Reply::Granted(channel) = serde_json::from_str(text).unwrap() else {
            panic!("another answer");
        };
        let next = |tai_ns| channel.next_launch_tai_ns(tai_ns).unwrap();
        assert_eq!([0, 90, 91, 1_089].map(next), [90, 90, 1_090, 1_090]);
        assert_eq!(channel.next_launch_tai_ns(u64::MAX), None);
        // Without a cycle there is none.
        let free = Channel {
            interval_ns: None,
            launch_offset_ns: None,
            ..*channel
        };
        assert_eq!(free.next_launch_tai_ns(0), None);
    }

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
        for faulty in [
            r#"{"version":1,"ask":4}"#,
            r#"{"version":1,"ask":"close","end":{"talker":null},"stream":"a"}"#,
        ] {
            let refusal = format!("{:?}", question(faulty.as_bytes()).unwrap_err());
            assert!(refusal.contains("is a word in quotes"), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = question(&bytes);
        }
    }
}
