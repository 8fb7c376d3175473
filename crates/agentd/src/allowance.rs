//! A host's rights by its plan: its streams, and a permanent rate of best effort, divided among its peers. Pure.
//!
//! The plan bounds the *sum* of a host's best effort. The agent divides it once, so that every part keeps its bound
//! whatever the others do:
//!
//! ```text
//! permanent rate --+-- 1/4  control: PTP, the agent's and the manager's own messages (at most 1 Mbit/s)
//!                  +-- 1/8  others: frames to no known peer (at most 500 kbit/s)
//!                  '-- rest, in equal parts: one for each peer
//! ```
//!
//! Each part may send one frame ahead of its rate. So the plan's burst must have room for a frame of each part.

use std::net::Ipv4Addr;

use rtwire_plan::Plan;

use crate::AgentError;

/// The major number of the agent's queue.
pub(crate) const MAJOR: u32 = 0xa6e0_0000;
/// The class of PTP frames and of the agent's own messages.
pub(crate) const CONTROL: u32 = MAJOR | 1;
/// The class of frames to no known peer.
pub(crate) const OTHERS: u32 = MAJOR | 2;
/// The first class of best effort to a peer.
const FIRST_PEER: u32 = MAJOR | 0x10;
/// The first class of a planned stream.
const FIRST_STREAM: u32 = MAJOR | 0x1000;
/// The first class of a channel.
pub(crate) const FIRST_CHANNEL: u32 = MAJOR | 0x4000;
/// The HTB priority of the least urgent queue. Lower numbers are served first.
pub(crate) const LEAST_URGENT: u32 = 7;
/// The channels of an interface, at most. The BPF map has as many entries, some of them for the agent's own sockets.
pub(crate) const MOST_CHANNELS: u32 = 1_000;
/// The peers of a host, at most.
const MOST_PEERS: usize = 1_000;
/// The rate of control, at most, bytes a second: more than a thousand questions.
const MOST_CONTROL: u64 = 125_000;
/// Bytes of an Ethernet header.
const ETHERNET_BYTES: u64 = 14;

/// A limit on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Bytes a second.
    pub(crate) rate_bytes: u32,
    /// The burst, bytes.
    pub(crate) burst_bytes: u32,
    /// The largest frame, bytes.
    pub(crate) frame_bytes: u32,
}

/// The best effort to one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) class: u32,
    /// Its part of the permanent rate.
    pub(crate) permanent: Bucket,
}

/// A stream that the plan has for this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedStream {
    pub(crate) class: u32,
    pub(crate) is_udp: bool,
    pub(crate) port: u16,
    pub(crate) pcp: u8,
    pub(crate) limit: Bucket,
}

/// The rights of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) host: String,
    pub(crate) link_bytes_per_ms: u32,
    /// The HTB priority of each PCP at this host, by the host's own map of priorities to queues. 0 is served first.
    pub(crate) priorities: [u32; 8],
    /// The bytes of a frame on the wire beyond header and payload.
    pub(crate) overhead_bytes: u8,
    /// The largest payload behind the Ethernet header that best effort may have, bytes.
    pub(crate) largest_mtu: u32,
    pub(crate) control: Bucket,
    pub(crate) others: Bucket,
    pub(crate) peers: Vec<Peer>,
    pub(crate) streams: Vec<PlannedStream>,
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Allowance {
    /// Returns a host's allowance by its plan. `peers` are the addresses of hosts, by their names.
    ///
    /// # Errors
    /// The plan has no such host or peer, or no best effort for this host, or too small a burst.
    pub(crate) fn of(
        plan: &Plan,
        host: &str,
        peers: &[(String, Ipv4Addr)],
    ) -> Result<Allowance, AgentError> {
        let network = &plan.network;
        let known = |name: &str| network.hosts.iter().any(|one| one.name == name);
        for name in std::iter::once(host).chain(peers.iter().map(|(name, _)| name.as_str())) {
            if !known(name) {
                let hosts = network.hosts.iter().map(|one| one.name.clone());
                return Err(AgentError::NoHost {
                    host: name.to_owned(),
                    hosts: hosts.collect(),
                });
            }
        }
        let share = rtwire_host::apply::share(network, plan, host);
        let share = share.map_err(|error| AgentError::Interface(error.to_string()))?;
        if share.gates.is_some() || !share.credits.is_empty() {
            return Err(AgentError::Scheduled {
                host: host.to_owned(),
            });
        }
        let link = network
            .links
            .iter()
            .find(|link| link.ends.iter().any(|end| end == host));
        let link_bps = link.map_or(0, |link| link.rate_bps);
        let own: Vec<_> = network
            .best_effort
            .iter()
            .filter(|one| one.host == host)
            .collect();
        if own.is_empty() {
            return Err(AgentError::NoBestEffort {
                host: host.to_owned(),
            });
        }
        // Rounded down: a limit may be too strict, never too loose.
        let whole = |ratio: i128| u64::try_from(ratio).unwrap_or(0);
        let rate: u64 = own.iter().map(|one| whole(one.rate.floor()) / 8).sum();
        let burst: u64 = own.iter().map(|one| whole(one.burst.floor()) / 8).sum();
        let frame = own.iter().map(|one| one.wire_bytes).max().unwrap_or(0);
        let mut reached: Vec<&(String, Ipv4Addr)> = peers
            .iter()
            .filter(|(name, _)| own.iter().any(|one| one.to.contains(name)))
            .take(MOST_PEERS)
            .collect();
        reached.sort();
        let parts = reached.len() as u64 + 2;
        if parts * frame > burst {
            return Err(AgentError::SmallBurst {
                host: host.to_owned(),
                peers: reached.len(),
                burst,
                needs: parts * frame,
            });
        }
        let part = |rate: u64| Bucket {
            rate_bytes: small(rate),
            burst_bytes: small(frame),
            frame_bytes: small(frame),
        };
        let control = (rate / 2).min(MOST_CONTROL);
        let others = (rate / 8).min(MOST_CONTROL / 2);
        let each = (rate - control - others) / (reached.len() as u64).max(1);
        let peers = reached.iter().zip(FIRST_PEER..).map(|(peer, class)| Peer {
            name: peer.0.clone(),
            address: peer.1,
            class,
            permanent: part(each),
        });
        let sent = network
            .streams
            .iter()
            .filter(|stream| stream.talker == host);
        let streams = sent.zip(FIRST_STREAM..FIRST_CHANNEL);
        let streams = streams.filter_map(|(stream, class)| {
            let planned = plan.streams.iter().find(|one| one.name == stream.name)?;
            let rate = u64::try_from(planned.shaper.rate_bps.ceil()).ok()?;
            Some(PlannedStream {
                class,
                is_udp: stream.transport == rtwire_plan::Transport::Udp,
                port: planned.identity.port,
                pcp: stream.pcp,
                limit: Bucket {
                    rate_bytes: small(rate.div_ceil(8)),
                    burst_bytes: small(planned.shaper.burst_bits.div_ceil(8)),
                    frame_bytes: small(stream.wire_bytes),
                },
            })
        });
        let frame_bytes = own.iter().map(|one| one.frame_bytes).max().unwrap_or(0);
        Ok(Allowance {
            host: host.to_owned(),
            link_bytes_per_ms: small(link_bps / 8_000),
            priorities: std::array::from_fn(|pcp| {
                let pcp = u8::try_from(pcp).unwrap_or(0);
                LEAST_URGENT - u32::from(network.class(host, pcp).min(7))
            }),
            overhead_bytes: u8::try_from(network.defaults.frame_overhead_bytes).unwrap_or(u8::MAX),
            largest_mtu: small(frame_bytes.saturating_sub(ETHERNET_BYTES)),
            control: part(control),
            others: part(others),
            peers: peers.collect(),
            streams: streams.collect(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let text = include_str!("../../../examples/reservations.toml");
        let network = rtwire_plan::read(text, "reservations.toml", &[]).unwrap();
        rtwire_plan::plan(&network, &Default::default()).unwrap()
    }

    #[test]
    fn the_parts_together_are_no_more_than_the_plan_allows() {
        let plan = plan();
        for host in &plan.network.hosts {
            let peers: Vec<(String, Ipv4Addr)> = plan
                .network
                .hosts
                .iter()
                .filter(|one| one.name != host.name)
                .zip(1_u8..)
                .map(|(one, number)| (one.name.clone(), Ipv4Addr::new(10, 0, 0, number)))
                .collect();
            let found = Allowance::of(&plan, &host.name, &peers).unwrap();
            let own: Vec<_> = plan
                .network
                .best_effort
                .iter()
                .filter(|one| one.host == host.name)
                .collect();
            let allowed: i128 = own.iter().map(|one| one.rate.floor()).sum();
            let burst: i128 = own.iter().map(|one| one.burst.floor()).sum();
            let parts = found.peers.iter().map(|peer| peer.permanent);
            let parts: Vec<Bucket> = parts.chain([found.control, found.others]).collect();
            let rate: u64 = parts.iter().map(|part| u64::from(part.rate_bytes)).sum();
            let bursts: u64 = parts.iter().map(|part| u64::from(part.burst_bytes)).sum();
            assert!(i128::from(rate) * 8 <= allowed, "{found:?}");
            assert!(i128::from(rate) * 8 > allowed * 99 / 100, "{found:?}");
            assert!(i128::from(bursts) * 8 <= burst, "{found:?}");
            let to: std::collections::BTreeSet<&String> =
                own.iter().flat_map(|one| one.to.iter()).collect();
            assert_eq!(found.peers.len(), to.len());
            assert!(found.peers.iter().all(|peer| peer.permanent.rate_bytes > 0));
        }
    }

    #[test]
    fn the_order_is_that_of_the_hosts_own_map() {
        let text = include_str!("../../../examples/reservations.toml");
        let text = text.replacen(
            "name = \"press\"\nqueues = 4",
            "name = \"press\"\nqueues = 8\npriority-map = \"802.1q-avb\"",
            1,
        );
        let network = rtwire_plan::read(&text, "avb.toml", &[]).unwrap();
        let plan = rtwire_plan::plan(&network, &Default::default()).unwrap();
        let found = Allowance::of(&plan, "press", &[]).unwrap().priorities;
        // AVB's class A has priority 3, and the most urgent queue.
        assert!((0..8).all(|pcp| found[3] <= found[pcp]), "{found:?}");
        assert!(found[3] < found[7], "{found:?}");
        let other = Allowance::of(&plan, "saw", &[]).unwrap().priorities;
        assert!(other[7] < other[5] && other[5] < other[0], "{other:?}");
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let plan = plan();
        let nobody = Allowance::of(&plan, "nobody", &[]).unwrap_err().to_string();
        assert!(
            nobody.contains("no host \"nobody\"") && nobody.contains("press"),
            "{nobody}"
        );
        let peer = [("offce".to_owned(), Ipv4Addr::LOCALHOST)];
        let typo = Allowance::of(&plan, "press", &peer)
            .unwrap_err()
            .to_string();
        assert!(typo.contains("\"offce\""), "{typo}");
        let mut none = plan.clone();
        none.network.best_effort.clear();
        let none = Allowance::of(&none, "press", &[]).unwrap_err().to_string();
        assert!(none.contains("[[best-effort]]"), "{none}");
    }
}
