//! The requests that the generated bindings lack, byte by byte as the kernel's headers lay them out.

use std::ffi::CStr;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use netlink_bindings::ethtool;
use netlink_bindings::traits::{NetlinkRequest, Protocol};
use netlink_bindings::utils::{finalize_nested_header, push_header, push_nested_header};

use super::VethEnd;

const NETLINK_ROUTE: u16 = 0;
const NLM_F_DUMP: u16 = 0x300;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWMDB: u16 = 84;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_EXCL: u16 = 0x200;
const AF_BRIDGE: u8 = 7;

/// A finished message body with its type.
pub(super) struct RawRequest {
    protocol: Protocol,
    flags: u16,
    body: Vec<u8>,
}

impl NetlinkRequest for RawRequest {
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn flags(&self) -> u16 {
        self.flags
    }

    fn payload(&self) -> &[u8] {
        &self.body
    }

    type ReplyType<'buf> = &'buf [u8];

    fn decode_reply(reply: &[u8]) -> Self::ReplyType<'_> {
        reply
    }
}

impl RawRequest {
    /// Builds a request to the routing family (links, addresses, queues).
    pub(super) fn route(request_type: u16, flags: u16, body: Vec<u8>) -> Self {
        Self {
            protocol: route(request_type),
            flags,
            body,
        }
    }

    /// Builds a request to another classic family, such as the packet filter's.
    pub(super) fn classic(protonum: u16, request_type: u16, body: Vec<u8>) -> Self {
        Self {
            protocol: Protocol::Raw {
                protonum,
                request_type,
            },
            flags: 0,
            body,
        }
    }

    /// Builds a request to a generic family; `body` holds its attributes.
    pub(super) fn generic(family: &'static str, command: u8, body: &[u8]) -> Self {
        let mut whole = vec![command, 1, 0, 0];
        whole.extend_from_slice(body);
        Self {
            protocol: Protocol::Generic(family.as_bytes()),
            flags: 0,
            body: whole,
        }
    }

    /// Turns the request into one for all objects.
    pub(super) fn dump(mut self) -> Self {
        self.flags |= NLM_F_DUMP;
        self
    }
}

fn route(request_type: u16) -> Protocol {
    Protocol::Raw {
        protonum: NETLINK_ROUTE,
        request_type,
    }
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // Interface names and addresses: far below the length field's 64 KiB.
    push_header(body, kind, u16::try_from(value.len()).unwrap_or(u16::MAX));
    body.extend_from_slice(value);
}

fn name_attribute(body: &mut Vec<u8>, kind: u16, name: &str) {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    attribute(body, kind, &bytes);
}

fn link_header(ifindex: u32) -> [u8; 16] {
    // struct ifinfomsg: family, pad, type, index, flags, change
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    header
}

fn link_attributes(body: &mut Vec<u8>, end: VethEnd<'_>) {
    const IFLA_ADDRESS: u16 = 1;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_NET_NS_FD: u16 = 28;
    const IFLA_NUM_TX_QUEUES: u16 = 31;
    const IFLA_NUM_RX_QUEUES: u16 = 32;
    name_attribute(body, IFLA_IFNAME, end.name);
    attribute(body, IFLA_ADDRESS, &end.mac);
    // One queue each: frames that leave by two queues are received by two contexts, and overtake one another.
    for queues in [IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES] {
        attribute(body, queues, &1_u32.to_ne_bytes());
    }
    attribute(
        body,
        IFLA_NET_NS_FD,
        &end.namespace.as_raw_fd().to_ne_bytes(),
    );
}

/// Builds a veth pair whose ends start in their namespaces with their final indices.
pub(super) fn veth_pair(near: VethEnd<'_>, far: VethEnd<'_>) -> RawRequest {
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_INFO_KIND: u16 = 1;
    const IFLA_INFO_DATA: u16 = 2;
    const VETH_INFO_PEER: u16 = 1;
    let mut body = link_header(near.ifindex).to_vec();
    link_attributes(&mut body, near);
    let info = push_nested_header(&mut body, IFLA_LINKINFO);
    name_attribute(&mut body, IFLA_INFO_KIND, "veth");
    let data = push_nested_header(&mut body, IFLA_INFO_DATA);
    let peer = push_nested_header(&mut body, VETH_INFO_PEER);
    body.extend_from_slice(&link_header(far.ifindex));
    link_attributes(&mut body, far);
    for nested in [peer, data, info] {
        finalize_nested_header(&mut body, nested);
    }
    RawRequest {
        protocol: route(RTM_NEWLINK),
        flags: NLM_F_CREATE | NLM_F_EXCL,
        body,
    }
}

/// Builds a permanent forwarding entry of a bridge: frames to this multicast address leave by this port.
pub(super) fn multicast_entry(bridge: u32, port: u32, group: [u8; 6]) -> RawRequest {
    const MDBA_SET_ENTRY: u16 = 1;
    const MDB_PERMANENT: u8 = 1;
    // struct br_port_msg: family, (pad to 4), ifindex
    let mut body = vec![AF_BRIDGE, 0, 0, 0];
    body.extend_from_slice(&bridge.to_ne_bytes());
    // struct br_mdb_entry: ifindex, state, flags, vid, addr { union of 16, proto be16 }, padded to 4
    let mut entry = [0_u8; 28];
    entry[0..4].copy_from_slice(&port.to_ne_bytes());
    entry[4] = MDB_PERMANENT;
    entry[8..14].copy_from_slice(&group);
    attribute(&mut body, MDBA_SET_ENTRY, &entry);
    RawRequest {
        protocol: route(RTM_NEWMDB),
        flags: NLM_F_CREATE,
        body,
    }
}

/// Builds the same entry for a group of datagrams.
pub(super) fn ip_multicast_entry(bridge: u32, port: u32, group: Ipv4Addr) -> RawRequest {
    const ETH_P_IP: u16 = 0x0800;
    let mut request = multicast_entry(bridge, port, [0; 6]);
    // The union of addresses begins 8 bytes into the entry, which is the last attribute; its protocol 16 bytes after
    // that.
    let at = request.body.len() - 28 + 8;
    request.body[at..at + 4].copy_from_slice(&group.octets());
    request.body[at + 16..at + 18].copy_from_slice(&ETH_P_IP.to_be_bytes());
    request
}

/// Builds a request that switches features of an interface off and on. The bindings (0.3.5) number this command
/// wrongly, and the kernel would take their request for a change of ring sizes.
pub(super) fn features(interface: &CStr, off: &[&str], on: &[&str]) -> RawRequest {
    const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
    let mut typed = ethtool::Request::new().op_features_set_do();
    {
        let mut bits = typed
            .encode()
            .nested_header()
            .push_dev_name(interface)
            .end_nested()
            .nested_wanted()
            .nested_bits();
        for feature in off {
            bits = bits
                .nested_bit()
                .push_name_bytes(feature.as_bytes())
                .end_nested();
        }
        for feature in on {
            bits = bits
                .nested_bit()
                .push_name_bytes(feature.as_bytes())
                .push_value(())
                .end_nested();
        }
        bits.end_nested().end_nested();
    }
    let mut body = typed.payload().to_vec();
    if let Some(command) = body.first_mut() {
        *command = ETHTOOL_MSG_FEATURES_SET;
    }
    RawRequest {
        protocol: typed.protocol(),
        flags: 0,
        body,
    }
}
