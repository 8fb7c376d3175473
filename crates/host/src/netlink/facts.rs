//! The present state: links, VLANs, queueing disciplines, XDP, kinds the kernel knows.

use std::collections::BTreeMap;

use super::Netlink;
use super::attributes::{Writer, each, find, find_path, i32_at, number, text, u32_at, u64_at};
use super::raw::RawRequest;
use crate::HostError;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLM_F_EXCL_CREATE: u16 = 0x600;
const LINK_HEADER: usize = 16;
const QDISC_HEADER: usize = 20;

/// A link as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkFacts {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its flags, `IFF_…`.
    pub flags: u32,
    /// The largest payload behind the Ethernet header, bytes.
    pub mtu: u32,
    /// True if a cable and a link partner are present.
    pub carrier: bool,
    /// The kind of a virtual link: `veth`, `vlan` …
    pub kind: Option<String>,
    /// The index of the bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// The index of the link below it in this namespace, as for a VLAN link.
    pub lower: Option<u32>,
    /// The number of transmit queues.
    pub tx_queues: u32,
    /// The number of receive queues.
    pub rx_queues: u32,
    /// The number of requests for all frames, whatever their address.
    pub promiscuity: u32,
    /// The attachment of an XDP program: 0 none, 1 driver, 2 generic, 3 hardware, 4 several.
    pub xdp_attached: u8,
    /// Received frames that were dropped for lack of a buffer or a receiver.
    pub rx_dropped: u64,
    /// Frames to be sent that were dropped.
    pub tx_dropped: u64,
    /// Received frames with an error.
    pub rx_errors: u64,
    /// Received frames that found the ring full.
    pub rx_missed: u64,
    /// The bus that the device sits on, such as `pci`; none for virtual links.
    pub parent_bus: Option<String>,
    /// Its hardware address.
    pub address: Vec<u8>,
    /// The hardware address that its maker gave it; none for virtual links.
    pub permanent_address: Vec<u8>,
    /// The number of frames that wait in a queue of the kernel's own choice.
    pub queue_length: u32,
    /// The other end of a veth cable: its index, and the number of its namespace here; none for this namespace.
    pub partner: Option<(u32, Option<u32>)>,
}

impl LinkFacts {
    /// Returns whether the interface is up.
    #[must_use]
    pub const fn up(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Returns whether it resolves addresses (ARP).
    #[must_use]
    pub const fn arp(&self) -> bool {
        self.flags & 0x80 == 0
    }
}

/// A VLAN link: its VLAN, and the PCP of frames by their socket's priority.
pub type VlanFacts = (u16, BTreeMap<u32, u8>);

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Its kind.
    pub kind: String,
    /// Its handle; 0 for those that the kernel attached itself.
    pub handle: u32,
    /// The handle of its parent.
    pub parent: u32,
    /// The bytes that its size table adds to each frame; `None` if that table contains more.
    pub overhead_bytes: Option<u16>,
    /// Its parameters as the kernel describes them.
    pub options: Vec<u8>,
}

/// The driver's XDP abilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpAbilities {
    /// The features, `NETDEV_XDP_ACT_…`.
    pub features: u64,
    /// Receive metadata: 1 timestamp, 2 hash, 4 VLAN tag.
    pub rx_metadata: u64,
    /// AF_XDP: 1 transmit timestamp, 2 checksum, 4 launch time.
    pub socket: u64,
}

fn link_header(index: u32) -> [u8; LINK_HEADER] {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

fn link(reply: &[u8]) -> Option<LinkFacts> {
    let attributes = reply.get(LINK_HEADER..)?;
    let value = |kind| find(attributes, kind).and_then(number);
    let small = |kind| value(kind).and_then(|n| u32::try_from(n).ok());
    // struct rtnl_link_stats64: rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped,
    // tx_dropped, multicast, collisions, length, over, crc, frame, fifo, missed
    let statistics = find(attributes, 23).unwrap_or_default();
    let count = |nth: usize| u64_at(statistics, nth * 8).unwrap_or(0);
    let kind = find_path(attributes, &[18, 1]).map(text);
    Some(LinkFacts {
        name: find(attributes, 3).map(text)?,
        index: u32_at(reply, 4)?,
        flags: u32_at(reply, 8)?,
        mtu: small(4).unwrap_or(0),
        carrier: value(33).is_some_and(|carrier| carrier != 0),
        master: small(10),
        // A link of another namespace is reported with that namespace's number.
        lower: small(5).filter(|_| find(attributes, 37).is_none()),
        tx_queues: small(31).unwrap_or(1),
        rx_queues: small(32).unwrap_or(1),
        promiscuity: small(30).unwrap_or(0),
        xdp_attached: find_path(attributes, &[43, 2])
            .and_then(number)
            .and_then(|mode| u8::try_from(mode).ok())
            .unwrap_or(0),
        rx_errors: count(4),
        rx_dropped: count(6),
        tx_dropped: count(7),
        rx_missed: count(15),
        parent_bus: find(attributes, 57).map(text),
        address: find(attributes, 1).unwrap_or_default().to_vec(),
        permanent_address: find(attributes, 54).unwrap_or_default().to_vec(),
        queue_length: small(13).unwrap_or(0),
        partner: small(5)
            .filter(|_| kind.as_deref() == Some("veth"))
            .map(|partner| (partner, small(37))),
        kind,
    })
}

impl Netlink {
    /// Returns an interface by name; `None` if it does not exist.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn link(&mut self, name: &str) -> Result<Option<LinkFacts>, HostError> {
        const ENODEV: i32 = 19;
        super::links::c_name(name)?;
        let body = Writer::behind(&link_header(0)).text(3, name).finish();
        let what = || format!("read interface `{name}`");
        match self.ask(&RawRequest::route(RTM_GETLINK, 0, body), what) {
            Ok(replies) => Ok(replies.first().and_then(|reply| link(reply))),
            Err(HostError::Netlink { errno: ENODEV, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the other end of a veth cable, also one in another namespace; `None` if it is not shown here.
    #[must_use]
    pub fn partner(&mut self, of: &LinkFacts) -> Option<LinkFacts> {
        const TARGET_NETNSID: u16 = 46;
        let (index, namespace) = of.partner?;
        let body = Writer::behind(&link_header(index));
        let body = match namespace {
            Some(number) => body.u32(TARGET_NETNSID, number),
            None => body,
        };
        let request = RawRequest::route(RTM_GETLINK, 0, body.finish());
        let replies = self.ask(&request, String::new).ok()?;
        replies.first().and_then(|reply| link(reply))
    }

    /// Returns all interfaces of the namespace.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn links(&mut self) -> Result<Vec<LinkFacts>, HostError> {
        let request = RawRequest::route(RTM_GETLINK, 0, link_header(0).to_vec()).dump();
        let replies = self.ask(&request, || "read the interfaces".to_owned())?;
        Ok(replies.iter().filter_map(|reply| link(reply)).collect())
    }

    /// Returns the VLAN and the egress priorities of a VLAN link; `None` if it does not exist.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn vlan(&mut self, name: &str) -> Result<Option<VlanFacts>, HostError> {
        const ENODEV: i32 = 19;
        super::links::c_name(name)?;
        let body = Writer::behind(&link_header(0)).text(3, name).finish();
        let what = || format!("read VLAN link `{name}`");
        let replies = match self.ask(&RawRequest::route(RTM_GETLINK, 0, body), what) {
            Err(HostError::Netlink { errno: ENODEV, .. }) => return Ok(None),
            other => other?,
        };
        Ok(replies.first().and_then(|reply| {
            let data = find_path(reply.get(LINK_HEADER..)?, &[18, 2])?;
            let id = find(data, 1).and_then(number)?;
            let egress = find(data, 3).unwrap_or_default();
            let egress = each(egress)
                .filter_map(|(_, pair)| {
                    Some((u32_at(pair, 0)?, u8::try_from(u32_at(pair, 4)?).ok()?))
                })
                .collect();
            Some((u16::try_from(id).ok()?, egress))
        }))
    }

    /// Makes a VLAN link, with a PCP for each socket priority.
    ///
    /// # Errors
    /// The kernel has no VLANs (8021q), the name is taken, or CAP_NET_ADMIN is missing.
    pub fn create_vlan(
        &mut self,
        interface: &str,
        name: &str,
        id: u16,
        egress: &BTreeMap<u32, u8>,
    ) -> Result<(), HostError> {
        super::links::c_name(name)?;
        let what = || format!("create VLAN link `{name}` on `{interface}`");
        let Some(parent) = self.link(interface)? else {
            return Err(HostError::NoInterface {
                name: interface.to_owned(),
                there: Vec::new(),
            });
        };
        let mut map = Writer::default();
        for (from, to) in egress {
            let pair = [from.to_ne_bytes(), u32::from(*to).to_ne_bytes()].concat();
            map = map.bytes(1, &pair);
        }
        let data = Writer::default().u16(1, id).nested(3, map);
        let info = Writer::default().text(1, "vlan").nested(2, data);
        let body = Writer::behind(&link_header(0))
            .text(3, name)
            .u32(5, parent.index)
            .nested(18, info)
            .finish();
        self.acknowledge(
            &RawRequest::route(RTM_NEWLINK, NLM_F_EXCL_CREATE, body),
            what,
        )
    }

    /// Returns the queueing disciplines of an interface, in the kernel's order.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn qdiscs(&mut self, index: u32) -> Result<Vec<Qdisc>, HostError> {
        const DUMP_INVISIBLE: u16 = 10;
        let body = Writer::behind(&[0; QDISC_HEADER])
            .bytes(DUMP_INVISIBLE, &[])
            .finish();
        let request = RawRequest::route(RTM_GETQDISC, 0, body).dump();
        let replies = self.ask(&request, || format!("read the queues of interface {index}"))?;
        let mut found: Vec<Qdisc> = Vec::new();
        for reply in replies {
            if i32_at(&reply, 4) != i32::try_from(index).ok() {
                continue;
            }
            let (Some(handle), Some(parent), Some(attributes)) = (
                u32_at(&reply, 8),
                u32_at(&reply, 12),
                reply.get(QDISC_HEADER..),
            ) else {
                continue;
            };
            found.push(Qdisc {
                kind: find(attributes, 1).map(text).unwrap_or_default(),
                handle,
                parent,
                overhead_bytes: super::tree::overhead_bytes(attributes),
                options: find(attributes, 2).unwrap_or_default().to_vec(),
            });
        }
        Ok(found)
    }

    /// Returns the driver's XDP abilities; `None` if the kernel (before 6.3) does not tell.
    #[must_use]
    pub fn xdp_abilities(&mut self, index: u32) -> Option<XdpAbilities> {
        const DEV_GET: u8 = 1;
        let body = Writer::default().u32(1, index).finish();
        let replies = self
            .ask(&RawRequest::generic("netdev", DEV_GET, &body), String::new)
            .ok()?;
        let attributes = replies.first()?.get(4..)?;
        let value = |kind| find(attributes, kind).and_then(number).unwrap_or(0);
        Some(XdpAbilities {
            features: value(3),
            rx_metadata: value(5),
            socket: value(6),
        })
    }

    /// Returns whether the kernel knows a kind of queueing discipline. The request lacks everything else, so nothing is
    /// made. May load the kernel's module of that name. Call it in a namespace of the caller's own.
    #[must_use]
    pub fn knows_qdisc(&mut self, kind: &str) -> Option<bool> {
        const ENOENT: i32 = 2;
        const LOOPBACK: u32 = 1;
        const ROOT: u32 = u32::MAX;
        let mut header = [0; QDISC_HEADER];
        header[4..8].copy_from_slice(&LOOPBACK.to_ne_bytes());
        header[12..16].copy_from_slice(&ROOT.to_ne_bytes());
        let body = Writer::behind(&header).text(1, kind).finish();
        let request = RawRequest::route(RTM_NEWQDISC, NLM_F_EXCL_CREATE, body);
        match self.acknowledge(&request, String::new) {
            Ok(()) => Some(true),
            Err(error) if error.is_permission() => None,
            Err(HostError::Netlink { errno, reason, .. }) => {
                Some(errno != ENOENT && !reason.contains("unknown"))
            }
            Err(_) => None,
        }
    }

    /// Returns whether the kernel knows a kind of virtual link, in the same way.
    #[must_use]
    pub fn knows_link(&mut self, kind: &str) -> Option<bool> {
        const EOPNOTSUPP: i32 = 95;
        let info = Writer::default().text(1, kind);
        let body = Writer::behind(&link_header(0)).nested(18, info).finish();
        let request = RawRequest::route(RTM_NEWLINK, NLM_F_EXCL_CREATE, body);
        match self.acknowledge(&request, String::new) {
            Ok(()) => Some(true),
            Err(error) if error.is_permission() => None,
            Err(HostError::Netlink { errno, .. }) => Some(errno != EOPNOTSUPP),
            Err(_) => None,
        }
    }

    /// Returns the tables of the packet filter (nftables), as `family name`; `None` if the kernel has no such filter.
    #[must_use]
    pub fn filter_tables(&mut self) -> Option<Vec<String>> {
        const NETLINK_NETFILTER: u16 = 12;
        const NFT_MSG_GETTABLE: u16 = (10 << 8) | 1;
        let request = RawRequest::classic(NETLINK_NETFILTER, NFT_MSG_GETTABLE, vec![0; 4]).dump();
        let replies = self.ask(&request, String::new).ok()?;
        Some(
            replies
                .iter()
                .filter_map(|reply| {
                    let family = match reply.first()? {
                        1 => "inet",
                        2 => "ip",
                        3 => "arp",
                        5 => "netdev",
                        7 => "bridge",
                        10 => "ip6",
                        _ => "other",
                    };
                    let (_, name) = each(reply.get(4..)?).find(|(kind, _)| *kind == 1)?;
                    Some(format!("{family} {}", text(name)))
                })
                .collect(),
        )
    }
}
