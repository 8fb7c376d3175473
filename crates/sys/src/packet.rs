//! Packet sockets: whole Ethernet frames in and out of one interface. They need CAP_NET_RAW.

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::interface::Interface;
use crate::interface_socket::InterfaceSocket;
use crate::socket;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// Missing in `libc`.
const PACKET_IGNORE_OUTGOING: i32 = 23;

/// A packet socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket(InterfaceSocket);

impl Deref for PacketSocket {
    type Target = InterfaceSocket;

    fn deref(&self) -> &InterfaceSocket {
        &self.0
    }
}

impl std::ops::DerefMut for PacketSocket {
    fn deref_mut(&mut self) -> &mut InterfaceSocket {
        &mut self.0
    }
}

/// A handle that sets a packet socket's filter.
#[derive(Clone, Debug)]
pub struct FilterPlace {
    socket: Arc<OwnedFd>,
    name: String,
}

impl FilterPlace {
    /// Attaches another filter to the socket.
    ///
    /// # Errors
    /// There is not enough memory for it.
    pub fn set(&self, filter: &Filter) -> Result<()> {
        filter.attach(&self.socket, &self.name)
    }
}

/// The frames that a packet socket has let through and lost, since they were last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PacketStatistics {
    /// Frames that passed the filter, including those lost.
    pub passed: u64,
    /// Frames lost because the socket's buffer was full.
    pub dropped: u64,
}

impl PacketSocket {
    /// Opens a socket that only sends. It takes nothing from the interface, so it costs other traffic nothing.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the interface is gone.
    pub fn sender(interface: &Interface) -> Result<Self> {
        let this = Self::open(interface)?;
        this.bind(0)?;
        Ok(this)
    }

    /// Opens a socket that receives the frames of one EtherType that pass `filter`. `configure` may set options
    /// before the first frame can come.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the interface is gone.
    pub fn receiver<T>(
        interface: &Interface,
        ether_type: u16,
        filter: &Filter,
        configure: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<(Self, T)> {
        let this = Self::open(interface)?;
        this.set_filter(filter)?;
        let configured = configure(&this)?;
        this.bind(ether_type)?;
        Ok((this, configured))
    }

    /// Opens a socket that receives the frames of every EtherType that pass `filter`, and none that this host sends.
    ///
    /// The kernel shows them to it before anything else of Linux: before filters and actions of traffic control and
    /// netfilter, before a bridge, a bond or a VLAN interface takes them. Each such socket costs every frame of the interface
    /// one run of its filter. Needs Linux 4.20.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the interface is gone.
    pub fn first_receiver<T>(
        interface: &Interface,
        filter: &Filter,
        configure: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<(Self, T)> {
        Self::receiver(interface, libc::ETH_P_ALL as u16, filter, |socket| {
            let fd = &socket.socket;
            socket::set(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1_i32).map_err(|errno| {
                let call = "setsockopt(PACKET_IGNORE_OUTGOING)";
                Error::new(call, &socket.name, errno, None)
            })?;
            configure(socket)
        })
    }

    fn open(interface: &Interface) -> Result<Self> {
        let name = format!("interface `{}`", interface.name);
        // Protocol 0: nothing comes in before `bind` sets the EtherType.
        let kind = (libc::AF_PACKET, libc::SOCK_RAW, 0);
        let socket = socket::open("socket(AF_PACKET)", &name, kind, Some("CAP_NET_RAW"))?;
        Ok(Self(InterfaceSocket::new(socket, interface, name)))
    }

    fn bind(&self, ether_type: u16) -> Result<()> {
        // SAFETY: sockaddr_ll is plain data, for which all zeroes is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = ether_type.to_be();
        address.sll_ifindex = i32::try_from(self.interface).unwrap_or(0);
        // SAFETY: the address and its size are valid for the whole call.
        let result = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(Error::last("bind(AF_PACKET)", &self.name, None));
        }
        Ok(())
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.socket
    }

    pub(crate) fn object(&self) -> &str {
        &self.name
    }

    /// Attaches another filter to the socket.
    ///
    /// # Errors
    /// There is not enough memory for it.
    pub fn set_filter(&self, filter: &Filter) -> Result<()> {
        filter.attach(&self.socket, &self.name)
    }

    /// Also receives frames to a group address: the interface is asked not to filter them out. Ends with the socket.
    ///
    /// # Errors
    /// The interface is gone, or takes no more groups.
    pub fn join_group(&self, group: [u8; 6]) -> Result<()> {
        self.add_membership(libc::PACKET_MR_MULTICAST, group)
    }

    /// Receives every frame that passes the interface, for any station (promiscuous mode). Ends with the socket.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn take_all(&self) -> Result<()> {
        self.add_membership(libc::PACKET_MR_PROMISC, [0; 6])
    }

    fn add_membership(&self, kind: libc::c_int, address: [u8; 6]) -> Result<()> {
        let mut octets = [0; 8];
        octets[..6].copy_from_slice(&address);
        let request = libc::packet_mreq {
            mr_ifindex: i32::try_from(self.interface).unwrap_or(0),
            mr_type: kind as libc::c_ushort,
            mr_alen: address.len() as libc::c_ushort,
            mr_address: octets,
        };
        socket::set(
            &self.socket,
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            request,
        )
        .map_err(|errno| Error::new("setsockopt(PACKET_ADD_MEMBERSHIP)", &self.name, errno, None))
    }

    /// Returns a handle that sets the filter of this socket from elsewhere. It keeps the socket open.
    #[must_use]
    pub fn filter_place(&self) -> FilterPlace {
        FilterPlace {
            socket: Arc::clone(&self.socket),
            name: self.name.clone(),
        }
    }

    /// Receives frames of this EtherType from now on. 0 changes nothing: the kernel keeps the current one.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn listen_for(&self, ether_type: u16) -> Result<()> {
        self.bind(ether_type)
    }

    /// Sends past the queueing discipline: then only the sender shapes and queues its frames.
    ///
    /// # Errors
    /// The kernel has no such option.
    pub fn bypass_qdisc(&self) -> Result<()> {
        socket::set(
            &self.socket,
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            1_i32,
        )
        .map_err(|errno| Error::new("setsockopt(PACKET_QDISC_BYPASS)", &self.name, errno, None))
    }

    /// Sets the priority of sent frames: 0 to 6 without privilege, higher with CAP_NET_ADMIN.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing.
    pub fn set_priority(&self, priority: u32) -> Result<()> {
        socket::set_priority(&self.socket, &self.name, priority)
    }

    /// Asks for the VLAN tag that was removed from each received frame ([`crate::messages::Message::tag`]).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable_tags(&self) -> Result<()> {
        socket::set(&self.socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1_i32)
            .map_err(|errno| Error::new("setsockopt(PACKET_AUXDATA)", &self.name, errno, None))
    }

    /// Asks for the card's timestamps of received frames in a ring, in place of the kernel's, where the card has some.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable_card_ring_stamps(&self) -> Result<()> {
        let flags = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        socket::set(
            &self.socket,
            libc::SOL_PACKET,
            libc::PACKET_TIMESTAMP,
            flags,
        )
        .map_err(|errno| Error::new("setsockopt(PACKET_TIMESTAMP)", &self.name, errno, None))
    }

    /// Returns the frames passed and dropped since the last call.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn statistics(&self) -> Result<PacketStatistics> {
        let mut counts = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: `counts` is a valid place of the size given.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(Error::last(
                "getsockopt(PACKET_STATISTICS)",
                &self.name,
                None,
            ));
        }
        Ok(PacketStatistics {
            passed: u64::from(counts.tp_packets),
            dropped: u64::from(counts.tp_drops),
        })
    }
}
