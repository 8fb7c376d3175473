//! Links, bridges, addresses and static tables.

use std::ffi::CString;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;

use netlink_bindings::{rt_addr, rt_link, rt_neigh};

use super::{Netlink, classes, raw};
use crate::HostError;

const AF_INET: u8 = 2;
const AF_BRIDGE: u8 = 7;
const IFF_UP: u32 = 1;
const IFF_NOARP: u32 = 0x80;
const NUD_PERMANENT: u16 = 0x80;
const NUD_NOARP: u16 = 0x40;
/// The entry belongs to the bridge, not to the port's own address list.
const NTF_MASTER: u8 = 0x04;

/// The offloads that merge, split or complete frames: off, so that frames leave one by one as sent.
const OFFLOADS: [&str; 9] = [
    "tx-generic-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "tx-scatter-gather",
    "tx-checksum-ip-generic",
    "rx-gro-list",
];
/// The same, for kernels that know it (Linux 6.17 and later).
const LATER_OFFLOADS: [&str; 1] = ["tx-tcp-accecn-segmentation"];

/// The offload that keeps a veth's frames in order. With generic receive offload (and without TCP segmentation at the
/// other end) a veth receives through one NAPI context. Otherwise each processor has its own backlog, and frames that
/// leave a queue on two processors overtake one another. It would merge segments of TCP: [`classes::merge_nothing`].
const RECEIVE_IN_ORDER: [&str; 1] = ["rx-gro"];

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// The interface's name in its namespace.
    pub name: &'a str,
    /// Its index there, chosen by the caller.
    pub ifindex: u32,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The namespace of the interface.
    pub namespace: &'a File,
}

/// The forwarding of a bridge. It never learns or ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// A switch: static entries decide, for hosts and for groups. Frames without an entry are dropped.
    ByEntry,
    /// A coupling of two cables: each frame received on one port leaves by the other.
    Everything,
}

/// A port to be added to a bridge.
#[derive(Clone, Copy, Debug)]
pub struct BridgePort {
    /// The port's interface index.
    pub ifindex: u32,
    /// The bridge's interface index.
    pub bridge: u32,
    /// The frames that leave by it.
    pub forwarding: Forwarding,
}

/// A static neighbour, so that no address resolution disturbs the network.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    /// The interface it is reached by.
    pub ifindex: u32,
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Its MAC address.
    pub mac: [u8; 6],
}

fn index(ifindex: u32) -> i32 {
    // The kernel's indices are positive i32; one beyond cannot name an interface and is refused there.
    i32::try_from(ifindex).unwrap_or(i32::MAX)
}

pub(super) fn c_name(name: &str) -> Result<CString, HostError> {
    let fits = !name.is_empty() && name.len() < 16 && !name.contains(['/', ' ']);
    CString::new(name)
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| HostError::InterfaceName(name.to_owned()))
}

impl Netlink {
    /// Makes a veth pair with both ends in their namespaces.
    ///
    /// # Errors
    /// The kernel refuses: a name or index is taken, or CAP_NET_ADMIN is missing.
    pub fn create_veth(&mut self, near: VethEnd<'_>, far: VethEnd<'_>) -> Result<(), HostError> {
        for end in [near, far] {
            c_name(end.name)?;
        }
        self.acknowledge(&raw::veth_pair(near, far), || {
            format!("create veth pair `{}` – `{}`", near.name, far.name)
        })
    }

    /// Makes a bridge.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn create_bridge(
        &mut self,
        name: &str,
        ifindex: u32,
        forwarding: Forwarding,
    ) -> Result<(), HostError> {
        let c_name = c_name(name)?;
        let header = rt_link::Ifinfomsg {
            ifi_index: index(ifindex),
            ..Default::default()
        };
        let mut request = rt_link::Request::new()
            .set_create()
            .set_excl()
            .op_newlink_do(&header);
        request
            .encode()
            .push_ifname(&c_name)
            .nested_linkinfo()
            .nested_data_bridge()
            .push_ageing_time(0)
            .push_stp_state(0)
            .push_mcast_snooping((forwarding == Forwarding::ByEntry).into());
        self.acknowledge(&request, || format!("create bridge `{name}`"))
    }

    /// Adds a port to a bridge.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_bridge_port(&mut self, port: BridgePort) -> Result<(), HostError> {
        let header = rt_link::Ifinfomsg {
            ifi_index: index(port.ifindex),
            ..Default::default()
        };
        let what = || format!("add interface {} to the bridge", port.ifindex);
        let mut request = rt_link::Request::new().op_setlink_do(&header);
        request.encode().push_master(port.bridge);
        self.acknowledge(&request, what)?;
        let floods = (port.forwarding == Forwarding::Everything).into();
        let mut request = rt_link::Request::new().op_newlink_do(&header);
        request
            .encode()
            .nested_linkinfo()
            .nested_slave_data_bridge()
            .push_learning(0)
            .push_unicast_flood(floods)
            .push_mcast_flood(floods)
            .push_bcast_flood(floods)
            // A port where another bridge asks for members does not lead to members.
            .push_multicast_router(0);
        self.acknowledge(&request, what)
    }

    /// Brings an interface up.
    ///
    /// # Errors
    /// No such interface, or CAP_NET_ADMIN is missing.
    pub fn set_up(&mut self, name: &str) -> Result<(), HostError> {
        self.set_flags(name, IFF_UP)
    }

    /// Brings an interface up without address resolution: neighbours are static.
    ///
    /// # Errors
    /// No such interface, or CAP_NET_ADMIN is missing.
    pub fn set_up_without_arp(&mut self, name: &str) -> Result<(), HostError> {
        self.set_flags(name, IFF_UP | IFF_NOARP)
    }

    fn set_flags(&mut self, name: &str, flags: u32) -> Result<(), HostError> {
        let c_name = c_name(name)?;
        let header = rt_link::Ifinfomsg {
            ifi_flags: flags,
            ifi_change: flags,
            ..Default::default()
        };
        let mut request = rt_link::Request::new().op_setlink_do(&header);
        request.encode().push_ifname(&c_name);
        self.acknowledge(&request, || format!("bring interface `{name}` up"))
    }

    /// Sets or clears one flag (`IFF_…`) of an interface.
    ///
    /// # Errors
    /// No such interface, or CAP_NET_ADMIN is missing.
    pub fn set_flag(&mut self, name: &str, flag: u32, on: bool) -> Result<(), HostError> {
        let c_name = c_name(name)?;
        let header = rt_link::Ifinfomsg {
            ifi_flags: if on { flag } else { 0 },
            ifi_change: flag,
            ..Default::default()
        };
        let mut request = rt_link::Request::new().op_setlink_do(&header);
        request.encode().push_ifname(&c_name);
        self.acknowledge(&request, || {
            format!("change flag {flag:#x} of interface `{name}`")
        })
    }

    /// Sets the largest payload behind the Ethernet header, bytes.
    ///
    /// # Errors
    /// The driver cannot, or CAP_NET_ADMIN is missing.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), HostError> {
        let c_name = c_name(name)?;
        let mut request = rt_link::Request::new().op_setlink_do(&rt_link::Ifinfomsg::new());
        request.encode().push_ifname(&c_name).push_mtu(mtu);
        self.acknowledge(&request, || {
            format!("set the MTU of interface `{name}` to {mtu}")
        })
    }

    /// Removes an interface (with a veth end, its other end too).
    ///
    /// # Errors
    /// No such interface, or CAP_NET_ADMIN is missing.
    pub fn delete_link(&mut self, name: &str) -> Result<(), HostError> {
        let c_name = c_name(name)?;
        let mut request = rt_link::Request::new().op_dellink_do(&rt_link::Ifinfomsg::new());
        request.encode().push_ifname(&c_name);
        self.acknowledge(&request, || format!("delete interface `{name}`"))
    }

    /// Moves an interface into another network namespace and keeps its name. It goes down, and loses addresses, routes,
    /// queues and the links on it.
    ///
    /// # Errors
    /// There is no such interface, one of its name is there already, or CAP_NET_ADMIN is missing.
    pub fn move_link(&mut self, name: &str, namespace: &File) -> Result<(), HostError> {
        let c_name = c_name(name)?;
        let mut request = rt_link::Request::new().op_setlink_do(&rt_link::Ifinfomsg::new());
        // Descriptors are not negative.
        let descriptor = namespace.as_raw_fd().unsigned_abs();
        let encoder = request.encode().push_ifname(&c_name);
        drop(encoder.push_net_ns_fd(descriptor));
        self.acknowledge(&request, || {
            format!("move interface `{name}` into another network namespace")
        })
    }

    /// Switches off the offloads that merge, split or complete frames, and on those that keep frames in order.
    ///
    /// # Errors
    /// No such interface, or the kernel has no ethtool netlink (5.6 and later have).
    pub fn offloads_off(&mut self, name: &str) -> Result<(), HostError> {
        let c_name = c_name(name)?;
        let later = raw::features(&c_name, &LATER_OFFLOADS, &[]);
        // Refused if unknown, and then not needed.
        let _ = self.acknowledge(&later, String::new);
        let request = raw::features(&c_name, &OFFLOADS, &RECEIVE_IN_ORDER);
        self.acknowledge(&request, || {
            format!("switch the offloads of interface `{name}` off")
        })?;
        let index = rtwire_sys::interface::by_name(name)?.index;
        self.acknowledge(&classes::merge_nothing(index), || {
            format!("keep interface `{name}` from merging frames")
        })
    }

    /// Adds an IPv4 address to an interface.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_address(
        &mut self,
        ifindex: u32,
        address: Ipv4Addr,
        prefix: u8,
    ) -> Result<(), HostError> {
        let header = rt_addr::Ifaddrmsg {
            ifa_family: AF_INET,
            ifa_prefixlen: prefix,
            ifa_index: ifindex,
            ..Default::default()
        };
        let mut request = rt_addr::Request::new()
            .set_create()
            .set_excl()
            .op_newaddr_do(&header);
        request.encode().push_local(IpAddr::V4(address));
        self.acknowledge(&request, || format!("add address {address}/{prefix}"))
    }

    /// Adds a static neighbour.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_neighbour(&mut self, neighbour: Neighbour) -> Result<(), HostError> {
        let header = rt_neigh::Ndmsg {
            ndm_family: AF_INET,
            ndm_ifindex: index(neighbour.ifindex),
            ndm_state: NUD_PERMANENT,
            ..Default::default()
        };
        let mut request = rt_neigh::Request::new()
            .set_create()
            .set_replace()
            .op_newneigh_do(&header);
        request
            .encode()
            .push_dst(IpAddr::V4(neighbour.address))
            .push_lladdr(&neighbour.mac);
        self.acknowledge(&request, || format!("add neighbour {}", neighbour.address))
    }

    /// Adds a static forwarding entry: frames to `mac` leave the bridge by this port.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_forwarding(&mut self, port: u32, mac: [u8; 6]) -> Result<(), HostError> {
        let header = rt_neigh::Ndmsg {
            ndm_family: AF_BRIDGE,
            ndm_ifindex: index(port),
            ndm_state: NUD_NOARP,
            ndm_flags: NTF_MASTER,
            ..Default::default()
        };
        let mut request = rt_neigh::Request::new()
            .set_create()
            .set_replace()
            .op_newneigh_do(&header);
        request.encode().push_lladdr(&mac);
        self.acknowledge(&request, || {
            format!("add a forwarding entry at port {port}")
        })
    }

    /// Limits groups of datagrams to the bridge's static entries. A bridge does so only if somebody asks for members,
    /// so it asks itself, once now and then once a day. The bridge must be up.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn keep_ip_multicast(&mut self, bridge: &str) -> Result<(), HostError> {
        /// In hundredths of a second.
        const A_DAY: u64 = 24 * 3600 * 100;
        let c_name = c_name(bridge)?;
        // First the time for answers, then the questions: the kernel waits that long before it relies on entries.
        for ask in [false, true] {
            let mut request = rt_link::Request::new().op_newlink_do(&rt_link::Ifinfomsg::new());
            let encoder = request.encode().push_ifname(&c_name).nested_linkinfo();
            let mut data = encoder
                .nested_data_bridge()
                .push_mcast_query_response_intvl(1);
            if ask {
                data = data
                    .push_mcast_startup_query_cnt(1)
                    .push_mcast_query_intvl(A_DAY)
                    .push_mcast_router(0)
                    .push_mcast_querier(1);
            }
            drop(data);
            self.acknowledge(&request, || {
                format!("have bridge `{bridge}` keep groups to their members")
            })?;
        }
        Ok(())
    }

    /// Adds a static forwarding entry for a group of datagrams. See [`keep_ip_multicast`](Self::keep_ip_multicast).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_ip_multicast(
        &mut self,
        bridge: u32,
        port: u32,
        group: Ipv4Addr,
    ) -> Result<(), HostError> {
        self.acknowledge(&raw::ip_multicast_entry(bridge, port, group), || {
            format!("add an entry for group {group} at port {port}")
        })
    }

    /// Adds a static multicast forwarding entry. The bridge must be up.
    ///
    /// # Errors
    /// The kernel refuses (layer-2 groups need Linux 5.11).
    pub fn add_multicast(
        &mut self,
        bridge: u32,
        port: u32,
        group: [u8; 6],
    ) -> Result<(), HostError> {
        self.acknowledge(&raw::multicast_entry(bridge, port, group), || {
            format!("add a multicast entry at port {port}")
        })
    }
}
