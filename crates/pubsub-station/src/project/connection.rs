//! The tables `[connection]` and `[real-time]`.

use super::group::GroupEntry;
use core::ops::Range;
use rtwire_describe::project_file::{Findings, Keys, short};
use rtwire_link::TxPath;
use rtwire_pubsub::Publisher;
use rtwire_wire::{MacAddress, Pcp, VlanTag};
use std::net::SocketAddrV4;
use toml::de::DeTable;

/// The way to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The interface's name; `None` where the command names it.
    pub interface: Option<String>,
    /// The publisher.
    pub publisher: Publisher,
    /// The address at which a publisher answers probes and announces itself; `None`: it does not.
    pub discovery: Option<Transport>,
}

/// Ethernet or UDP, with the destination of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Frames of EtherType 0xB62C.
    Ethernet {
        /// The destination: a group's address, or a station's.
        address: MacAddress,
        /// The VLAN tag.
        vlan: Option<VlanTag>,
    },
    /// Datagrams.
    Udp {
        /// The destination: a group's address, or a host's.
        address: SocketAddrV4,
    },
}

impl Transport {
    /// Returns true for the address of a group, which several stations hear.
    #[must_use]
    pub const fn is_group(&self) -> bool {
        match self {
            Self::Ethernet { address, .. } => address.is_group(),
            Self::Udp { address } => address.ip().is_multicast(),
        }
    }

    /// Returns the bytes of the Ethernet header in front of a message; 0 for datagrams.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        match self {
            Self::Ethernet { vlan: Some(_), .. } => 18,
            Self::Ethernet { vlan: None, .. } => 14,
            Self::Udp { .. } => 0,
        }
    }
}

/// The settings of a station's thread and its transmit path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealTime {
    /// The SCHED_FIFO priority; `None`: time sharing.
    pub priority: Option<u8>,
    /// The core to run on.
    pub cpu: Option<usize>,
    /// The time before an instant from which the publisher spins, ns.
    pub spin_ns: u64,
    /// The time for which a subscriber polls before it sleeps until a frame comes, ns; 0: it sleeps at once.
    pub receive_spin_ns: u64,
    /// The transmit path.
    pub path: TxPath,
    /// The socket priority (SO_PRIORITY); the PCP by default.
    pub socket_priority: Option<u32>,
}

impl Default for RealTime {
    fn default() -> Self {
        Self {
            priority: Some(50),
            cpu: None,
            spin_ns: 30_000,
            receive_spin_ns: 0,
            path: TxPath::Qdisc,
            socket_priority: None,
        }
    }
}

/// The table as it was read, before the groups are known.
pub(super) struct Read {
    pub(super) connection: Connection,
    /// The destination of groups that are no streams of a plan.
    pub(super) transport: Option<Transport>,
    /// The plan file.
    pub(super) plan: Option<(String, Range<usize>)>,
    /// The place of `address`, of `transport = "udp"`, and of the table.
    address: Option<Range<usize>>,
    udp: Option<Range<usize>>,
    span: Range<usize>,
}

impl Read {
    /// Checks the keys whose need depends on the groups.
    pub(super) fn check_use(&self, groups: &[GroupEntry], findings: &mut Findings<'_>) {
        let mut streams = groups.iter().map(|entry| entry.stream.is_some());
        let (some, all) = (
            streams.clone().any(|stream| stream),
            streams.all(|stream| stream),
        );
        if groups.is_empty() {
            return;
        }
        if let (true, Some(span)) = (some, &self.udp) {
            let message = "groups with `stream` are Ethernet frames, and the transport is UDP";
            let help = "give groups of another transport a file of their own".to_owned();
            findings.at(span, message.to_owned(), Some(help));
        }
        match &self.address {
            None if !all => {
                let message = "missing key `address` in [connection]".to_owned();
                let help = "or give each group a `stream` of a plan".to_owned();
                findings.at(&self.span, message, Some(help));
            }
            Some(span) if all => {
                let message = "`address` is the plan's: each group is a stream".to_owned();
                findings.at(
                    span,
                    message,
                    Some("remove it, `vlan` and `pcp`".to_owned()),
                );
            }
            _ => {}
        }
    }
}

pub(super) fn read(
    table: &DeTable<'_>,
    span: Range<usize>,
    findings: &mut Findings<'_>,
) -> Option<Read> {
    let mut keys = Keys::new(table, "[connection]", span.clone(), findings);
    let interface = keys.text("interface").map(|(text, _)| text.to_owned());
    let transport = keys.choice("transport", &["ethernet", "udp"]);
    let address = keys.text("address");
    let vid = keys.number("vlan", 1..4095);
    let pcp = keys.number("pcp", 0..8);
    let plan = keys.text("plan");
    let discovery = keys.text("discovery");
    let publisher = publisher(&mut keys);
    if !table.contains_key("publisher-id") {
        keys.missing("publisher-id");
    }
    let udp = transport == Some("udp");
    if udp {
        for key in ["vlan", "pcp"] {
            if let Some(value) = table.get(key) {
                let message = format!("`{key}` is for transport \"ethernet\"");
                keys.findings.at(&value.span(), message, None);
            }
        }
    }
    let address_at = address.as_ref().map(|(_, span)| span.clone());
    // A PCP alone makes a priority tag, with VLAN 0.
    let tag = |pcp: Option<u64>| {
        let vid = vid.and_then(|vid| u16::try_from(vid).ok()).unwrap_or(0);
        let pcp = pcp.and_then(|pcp| u8::try_from(pcp).ok()).unwrap_or(0);
        VlanTag::new(Pcp::new(pcp).unwrap_or_default(), vid)
    };
    let vlan = tag(pcp).filter(|_| vid.is_some() || pcp.is_some());
    let transport = address.and_then(|(text, span)| destination(text, span, udp, vlan, &mut keys));
    // Discovery is best effort: in the VLAN, without the priority.
    let vlan = tag(None).filter(|_| vid.is_some());
    let discovery =
        discovery.and_then(|(text, span)| destination(text, span, udp, vlan, &mut keys));
    keys.finish();
    Some(Read {
        connection: Connection {
            interface,
            publisher: publisher?,
            discovery,
        },
        transport,
        plan: plan.map(|(file, span)| (file.to_owned(), span)),
        address: address_at,
        udp: table
            .get("transport")
            .filter(|_| udp)
            .map(|value| value.span()),
        span,
    })
}

/// Reads an address of the transport.
fn destination(
    text: &str,
    span: Range<usize>,
    udp: bool,
    vlan: Option<VlanTag>,
    keys: &mut Keys<'_, '_, '_>,
) -> Option<Transport> {
    if udp {
        let parsed = text.parse::<SocketAddrV4>().ok();
        if parsed.is_none() {
            let message = format!("`{}` is no IPv4 address with a port", short(text));
            let help = Some("for instance \"239.0.0.1:4840\"".to_owned());
            keys.findings.at(&span, message, help);
        }
        return parsed.map(|address| Transport::Udp { address });
    }
    match text.parse::<MacAddress>() {
        Ok(address) => Some(Transport::Ethernet { address, vlan }),
        Err(error) => {
            let message = format!("`{}`: {error}", short(text));
            let help = Some("for instance \"01-00-5E-7F-00-01\"".to_owned());
            keys.findings.at(&span, message, help);
            None
        }
    }
}

fn publisher(keys: &mut Keys<'_, '_, '_>) -> Option<Publisher> {
    let kinds = ["Byte", "UInt16", "UInt32", "UInt64", "String"];
    let kind = keys.choice("publisher-id-type", &kinds).unwrap_or("UInt16");
    if kind == "String" {
        let (text, span) = keys.text("publisher-id")?;
        if text.is_empty() || text.len() > 255 {
            let message = "a publisher id has 1 to 255 characters".to_owned();
            keys.findings.at(&span, message, None);
            return None;
        }
        return Some(Publisher::String(text.to_owned()));
    }
    let most: u64 = match kind {
        "Byte" => 0x100,
        "UInt16" => 0x1_0000,
        "UInt32" => 0x1_0000_0000,
        _ => u64::MAX,
    };
    let id = keys.number("publisher-id", 0..most)?;
    Some(match kind {
        "Byte" => Publisher::Byte(u8::try_from(id).ok()?),
        "UInt16" => Publisher::UInt16(u16::try_from(id).ok()?),
        "UInt32" => Publisher::UInt32(u32::try_from(id).ok()?),
        _ => Publisher::UInt64(id),
    })
}

pub(super) fn read_real_time(
    table: &DeTable<'_>,
    span: Range<usize>,
    findings: &mut Findings<'_>,
) -> RealTime {
    let mut keys = Keys::new(table, "[real-time]", span, findings);
    let usual = RealTime::default();
    let priority = keys.number("priority", 0..100);
    let cpu = keys
        .number("cpu", 0..1024)
        .and_then(|cpu| usize::try_from(cpu).ok());
    let spin_ns = keys.time("spin", 0).unwrap_or(usual.spin_ns);
    let receive_spin_ns = keys.time("receive-spin", 0).unwrap_or(0);
    let path = keys.choice("path", &TxPath::ALL.map(TxPath::name));
    let socket_priority = keys.number("socket-priority", 0..16);
    if let (true, Some(value)) = (spin_ns > 1_000_000, table.get("spin").map(|v| v.span())) {
        let message = "`spin` is too long: at most 1 ms".to_owned();
        keys.findings.at(&value, message, None);
    }
    if let (true, Some(value)) = (
        receive_spin_ns > 1_000_000_000,
        table.get("receive-spin").map(|v| v.span()),
    ) {
        let message = "`receive-spin` is too long: at most 1 s".to_owned();
        keys.findings.at(&value, message, None);
    }
    keys.finish();
    RealTime {
        priority: match priority {
            Some(0) => None,
            Some(priority) => u8::try_from(priority).ok(),
            None => usual.priority,
        },
        cpu,
        spin_ns,
        receive_spin_ns,
        path: path
            .and_then(|name| name.parse().ok())
            .unwrap_or(usual.path),
        socket_priority: socket_priority.and_then(|priority| u32::try_from(priority).ok()),
    }
}
