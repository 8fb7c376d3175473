//! The fields that distinguish one stream's frames from all others on the wire: address, port, key, VLAN, priority.
//!
//! Identities are assigned once, by name, so that the order of a description does not matter. A plan that keeps
//! another one keeps the identities of its streams.
//!
//! ```text
//! number       1 to 2^20 - 1, by name; streams first, then best-effort allowances
//! destination  a group address or a multicast address made from the number
//! port         the stated one, else the kept one, else one that is free at every listener
//! key          made from the plan's fingerprint and the number (see `Plan::plan_id`)
//! ```

mod assign;

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use assign::{Kept, assign};

/// The largest number of a stream (20 bits).
pub const LARGEST_NUMBER: u32 = (1 << 20) - 1;

/// The fields that distinguish the frames of one stream from all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The stream's number, unique in the plan, 1 to 1048575.
    pub number: u32,
    /// The destination of its frames.
    pub destination: Destination,
    /// Its destination port. No two streams that one host hears by the same transport share one, except both copies of
    /// a redundant stream.
    pub port: u16,
    /// The key that its frames carry: never 0, unique in the plan, and different in every other plan.
    pub key: u32,
    /// The VLAN id, if its frames carry a tag.
    pub vlan: Option<u16>,
    /// Its priority code point, 0 to 7, 7 most urgent: that with which its talker sends.
    pub pcp: u8,
    /// The differentiated services code point with which its talker sends, if its frames pass a router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Its queue at the talker's port; larger is more urgent.
    pub queue: u8,
}

/// The destination of frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Destination {
    /// An Ethernet group address of its own (RTDiP).
    Group {
        /// The address, such as `03:72:74:02:00:07`.
        #[serde(with = "mac_text")]
        #[schemars(with = "mac_text::Mac")]
        mac: [u8; 6],
    },
    /// A multicast address of its own (UDP to several listeners).
    Multicast {
        /// The address, within 239.192.0.0/14.
        ip: Ipv4Addr,
    },
    /// One host, whose address is passed when the session is opened (UDP to one listener).
    Peer {
        /// The listener.
        host: String,
    },
}

/// The traffic of one best-effort allowance to one receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BestEffortPlan {
    /// The allowance's name.
    pub name: String,
    /// The receiver.
    pub to: String,
    /// The fields that distinguish its frames from others.
    pub identity: Identity,
}

mod mac_text {
    use serde::{Deserialize, Deserializer, Serializer};

    /// An Ethernet address as text.
    pub(super) struct Mac;

    impl schemars::JsonSchema for Mac {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Mac".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            schemars::json_schema!({
                "description": "An address of Ethernet.",
                "type": "string",
                "pattern": "^[0-9a-f]{2}(:[0-9a-f]{2}){5}$"
            })
        }
    }

    pub(super) fn show(mac: &[u8; 6]) -> String {
        let [a, b, c, d, e, f] = mac;
        format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }

    fn parse(text: &str) -> Option<[u8; 6]> {
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|part| part.len() == 2)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        (parts.next().is_none() && show(&mac) == text).then_some(mac)
    }

    pub(super) fn serialize<S: Serializer>(mac: &[u8; 6], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&show(mac))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 6], D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` is no address of Ethernet such as `03:72:74:02:00:07`"
            ))
        })
    }
}

impl core::fmt::Display for Destination {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Destination::Group { mac } => f.write_str(&mac_text::show(mac)),
            Destination::Multicast { ip } => write!(f, "{ip}"),
            Destination::Peer { host } => write!(f, "host \"{host}\""),
        }
    }
}

impl Identity {
    /// Returns the value of a plan whose identities are not assigned yet.
    pub(crate) fn none() -> Identity {
        Identity {
            number: 0,
            destination: Destination::Group { mac: [0; 6] },
            port: 0,
            key: 0,
            vlan: None,
            pcp: 0,
            dscp: None,
            queue: 0,
        }
    }
}

/// Returns the group address made from a number.
#[must_use]
pub const fn group_address(number: u32) -> [u8; 6] {
    let [_, high, middle, low] = number.to_be_bytes();
    // Group bit and local bit set; the rest tells our frames from others' in a capture.
    [0x03, 0x72, 0x74, 0x02_u8.wrapping_add(high), middle, low]
}
