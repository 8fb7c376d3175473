//! The streams that the plan has for a host, and connections, as programs without privilege open them. Pure.
//!
//! A stream of UDP has a socket of its own datagrams. For one of RTDiP the program has a socket of datagrams, too, and the
//! gate makes frames of them ([`crate::gate`]): a socket for frames would send any frame to anybody, past every queue.

use std::collections::BTreeMap;

use rtwire_manager::{Ask, Carrier};
use rtwire_plan::Plan;
use rtwire_plan::identity::{Destination, group_address};

use crate::allowance::{Allowance, Bucket};

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: u64 = 14;
/// Bytes of a VLAN tag.
const TAG_BYTES: u64 = 4;
/// Bytes of the headers of IPv4 and UDP, which the gate takes away.
pub(crate) const IP_UDP_BYTES: u64 = 28;
/// The tolerance of a listener's police beside contract and promise, ns: a talker's clock and its scheduling are not exact.
const MARGIN_NS: u128 = 10_000_000;

/// One stream of the plan, or a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) destination: Destination,
    pub(crate) port: u16,
    pub(crate) key: u32,
    pub(crate) vlan: Option<u16>,
    pub(crate) pcp: u8,
    /// Header, tag and payload without FCS, bytes.
    pub(crate) frame_bytes: u64,
    /// A frame on the wire, bytes.
    pub(crate) wire_bytes: u64,
    /// True if it has a contract.
    pub(crate) is_shaped: bool,
}

/// A stream that this host sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) stream: Stream,
    pub(crate) class: u32,
    pub(crate) limit: Bucket,
}

/// A stream that this host hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) stream: Stream,
    pub(crate) talker: String,
    /// The rate at which its frames may arrive, bytes a second.
    pub(crate) rate_bytes: u64,
    /// The burst in which they may arrive, bytes.
    pub(crate) burst_bytes: u64,
}

/// The streams of a host, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    pub(crate) sent: BTreeMap<String, Sent>,
    pub(crate) heard: BTreeMap<String, Heard>,
}

impl Stream {
    /// Returns a connection as a stream, with its number and its key.
    pub(crate) fn of_connection(
        ask: &Ask,
        (number, key): (u32, u32),
        overhead_bytes: u8,
    ) -> Stream {
        let padded = u64::from(ask.padded_bytes());
        Stream {
            name: format!("connection to {}", ask.listener),
            destination: match ask.carrier {
                Carrier::Rtdip => Destination::Group {
                    mac: group_address(number),
                },
                Carrier::Udp => Destination::Peer {
                    host: ask.listener.clone(),
                },
            },
            port: ask.port,
            key,
            vlan: ask.vlan,
            pcp: ask.pcp.min(7),
            frame_bytes: match ask.carrier {
                Carrier::Rtdip => padded,
                // The kernel pads behind the gate.
                Carrier::Udp => ask.frame_bytes.into(),
            },
            wire_bytes: padded + u64::from(overhead_bytes),
            is_shaped: true,
        }
    }

    /// Returns true if its frames are RTDiP.
    pub(crate) fn is_rtdip(&self) -> bool {
        matches!(self.destination, Destination::Group { .. })
    }

    fn tag_bytes(&self) -> u64 {
        self.vlan.map_or(0, |_| TAG_BYTES)
    }

    /// Returns the longest frame in front of the gate, which for RTDiP has no tag, and headers of IPv4 and UDP.
    pub(crate) fn longest_bytes(&self) -> u64 {
        match self.is_rtdip() {
            true => self.frame_bytes.saturating_sub(self.tag_bytes()) + IP_UDP_BYTES,
            false => self.frame_bytes,
        }
    }

    /// Returns the MTU that the interface needs for it.
    pub(crate) fn needs_mtu(&self) -> u64 {
        self.longest_bytes().saturating_sub(ETHERNET_BYTES)
    }

    /// Returns the limit of its class and the bytes that the class adds to a frame.
    ///
    /// The kernel measures a frame before the gate: a frame of RTDiP counts with [`IP_UDP_BYTES`] that do not leave. The
    /// class's own bytes for a frame (`overhead_bytes`) are less by these, and where that is not enough, rate and burst are
    /// larger: by the factor at the longest frame. A shorter frame is charged more than that, so no mixture of lengths
    /// exceeds the contract on the wire.
    pub(crate) fn class_limit(&self, limit: Bucket, overhead_bytes: u8) -> (Bucket, u8) {
        if !self.is_rtdip() {
            return (limit, overhead_bytes);
        }
        let beyond = u64::from(overhead_bytes) + self.tag_bytes();
        let added = beyond.saturating_sub(IP_UDP_BYTES);
        let real = self.wire_bytes.max(1);
        let charged = self.longest_bytes() + added;
        let scaled = |bytes: u32| {
            let more = u128::from(bytes) * u128::from(charged.max(real)) / u128::from(real);
            u32::try_from(more).unwrap_or(u32::MAX)
        };
        let limit = Bucket {
            rate_bytes: scaled(limit.rate_bytes),
            burst_bytes: scaled(limit.burst_bytes),
            frame_bytes: u32::try_from(charged).unwrap_or(u32::MAX),
        };
        (limit, u8::try_from(added).unwrap_or(u8::MAX))
    }
}

impl Streams {
    /// Returns the streams of the allowance's host.
    pub(crate) fn of(plan: &Plan, allowance: &Allowance) -> Streams {
        let mut found = Streams::default();
        for stream in &plan.network.streams {
            let Some(planned) = plan.streams.iter().find(|one| one.name == stream.name) else {
                continue;
            };
            let identity = &planned.identity;
            let own = Stream {
                name: stream.name.clone(),
                destination: identity.destination.clone(),
                port: identity.port,
                key: identity.key,
                vlan: identity.vlan,
                pcp: identity.pcp.min(7),
                frame_bytes: stream.frame_bytes,
                wire_bytes: stream.wire_bytes,
                is_shaped: stream.shaped,
            };
            let is_udp = !own.is_rtdip();
            let class = allowance
                .streams
                .iter()
                .find(|one| one.port == identity.port && one.is_udp == is_udp)
                .filter(|_| stream.talker == allowance.host);
            if let Some(class) = class {
                let sent = Sent {
                    stream: own.clone(),
                    class: class.class,
                    limit: class.limit,
                };
                found.sent.insert(stream.name.clone(), sent);
            }
            let promises = &planned.promises;
            let promise = promises.iter().find(|one| one.listener == allowance.host);
            if stream.listeners.contains(&allowance.host) {
                let rate = u128::try_from(planned.shaper.rate_bps.ceil()).unwrap_or(0);
                let late_ns = promise.and_then(|one| one.delay_ns).unwrap_or(0);
                let late = (rate * (u128::from(late_ns) + MARGIN_NS)).div_ceil(8_000_000_000);
                let part = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
                let heard = Heard {
                    stream: own,
                    talker: stream.talker.clone(),
                    rate_bytes: part(rate.div_ceil(8)),
                    burst_bytes: planned
                        .shaper
                        .burst_bits
                        .div_ceil(8)
                        .saturating_add(part(late)),
                };
                found.heard.insert(stream.name.clone(), heard);
            }
        }
        found
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(frame_bytes: u64, vlan: Option<u16>, overhead: u64) -> Stream {
        Stream {
            name: "position".to_owned(),
            destination: Destination::Group { mac: [3; 6] },
            port: 1_001,
            key: 7,
            vlan,
            pcp: 5,
            frame_bytes,
            wire_bytes: frame_bytes + overhead,
            is_shaped: true,
        }
    }

    proptest! {
        /// A bucket that charges as the class does lets no mixture of frames leave beyond the contract on the wire, and
        /// the longest frames, all together, no less than it by more than the rounding.
        #[test]
        fn no_mixture_of_lengths_is_beyond_the_contract(
            longest in 64_u64..1_490,
            tagged in any::<bool>(),
            overhead in 0_u8..60,
            rate in 10_000_u32..12_500_000,
            frames in 1_u32..20,
            lengths in prop::collection::vec(0_u64..1_500, 1..200),
        ) {
            let tag = if tagged { 4 } else { 0 };
            let one = stream(longest + tag, tagged.then_some(5), overhead.into());
            let burst = frames * u32::try_from(one.wire_bytes).unwrap();
            let limit = Bucket { rate_bytes: rate, burst_bytes: burst, frame_bytes: 0 };
            let (class, added) = one.class_limit(limit, overhead);
            // What a second lets through: charged at the class, and measured on the wire.
            let allowed = u64::from(class.rate_bytes) + u64::from(class.burst_bytes);
            let (mut charged, mut left) = (0, 0);
            'sent: loop {
                for length in &lengths {
                    let l2 = 60 + length % (longest - 59);
                    charged += l2 + IP_UDP_BYTES + u64::from(added);
                    if charged > allowed {
                        break 'sent;
                    }
                    left += l2 + tag + u64::from(overhead);
                }
            }
            prop_assert!(left <= u64::from(rate) + u64::from(burst), "{class:?} {added}");
            let most = allowed / (longest + IP_UDP_BYTES + u64::from(added)) * one.wire_bytes;
            let most = most + one.wire_bytes + 2;
            prop_assert!(most >= u64::from(rate) + u64::from(burst), "{class:?} {added} {most}");
        }
    }

    #[test]
    fn the_class_of_datagrams_is_the_contracts() {
        let mut one = stream(500, None, 24);
        one.destination = Destination::Peer {
            host: "office".to_owned(),
        };
        let limit = Bucket {
            rate_bytes: 1_000,
            burst_bytes: 600,
            frame_bytes: 524,
        };
        assert_eq!(one.class_limit(limit, 24), (limit, 24));
        assert_eq!(one.longest_bytes(), 500);
    }

    #[test]
    fn both_ends_of_the_example_are_found_with_its_contract() {
        let text = include_str!("../../../examples/reservations.toml");
        let network = rtwire_plan::read(text, "reservations.toml", &[]).unwrap();
        let plan = rtwire_plan::plan(&network, &Default::default()).unwrap();
        let of = |host: &str| Streams::of(&plan, &Allowance::of(&plan, host, &[]).unwrap());
        let (press, office) = (of("press"), of("office"));
        assert_eq!(press.sent.len(), 1);
        assert!(press.heard.is_empty() && office.sent.is_empty());
        assert_eq!(office.heard.len(), 4);
        let heard = &office.heard["press-state"];
        assert_eq!(heard.stream, press.sent["press-state"].stream);
        assert_eq!(heard.talker, "press");
        // 1250 frames a second of 1000 bytes, with 24 each on the wire; the burst has room for what 10 ms of lateness bring.
        assert_eq!(heard.rate_bytes, 1_250 * 1_024);
        assert!(heard.burst_bytes > 12_500, "{heard:?}");
    }
}
