//! UDP sockets over IPv4 on one interface.

use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::interface_socket::InterfaceSocket;
use crate::socket;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// The largest number of routers that a datagram to a group may pass.
const MULTICAST_HOPS: i32 = 16;

/// A UDP socket bound to one interface.
#[derive(Debug)]
pub struct UdpSocket(InterfaceSocket);

impl Deref for UdpSocket {
    type Target = InterfaceSocket;

    fn deref(&self) -> &InterfaceSocket {
        &self.0
    }
}

impl std::ops::DerefMut for UdpSocket {
    fn deref_mut(&mut self) -> &mut InterfaceSocket {
        &mut self.0
    }
}

impl UdpSocket {
    /// Opens a socket that sends to `peer` through `interface`.
    ///
    /// # Errors
    /// The interface is gone, has no IPv4 address, or there is no route to the peer.
    pub fn sender(interface: &Interface, peer: SocketAddrV4) -> Result<Self> {
        let name = format!("{peer} through interface `{}`", interface.name);
        let this = Self::open(interface, name)?;
        let fail = |errno| Error::new("setsockopt(IP_RECVERR)", &this.name, errno, None);
        // Without it the kernel does not report a full queue.
        socket::set(&this.socket, libc::SOL_IP, libc::IP_RECVERR, 1_i32).map_err(fail)?;
        if peer.ip().is_multicast() {
            let set = |option, value: i32| socket::set(&this.socket, libc::SOL_IP, option, value);
            let fail = |errno| Error::new("setsockopt(IP_MULTICAST_…)", &this.name, errno, None);
            // Past routers, but not back to this host.
            set(libc::IP_MULTICAST_TTL, MULTICAST_HOPS).map_err(fail)?;
            set(libc::IP_MULTICAST_LOOP, 0).map_err(fail)?;
            let through = this.group(Ipv4Addr::UNSPECIFIED);
            socket::set(&this.socket, libc::SOL_IP, libc::IP_MULTICAST_IF, through)
                .map_err(fail)?;
        }
        this.with_address("connect", peer, libc::connect)?;
        Ok(this)
    }

    /// Opens a socket that receives datagrams to `local`. 0.0.0.0 stands for any address of the interface; a group is
    /// joined, and several sockets may receive it.
    ///
    /// # Errors
    /// The port is in use, or this host does not have the address.
    pub fn receiver(interface: &Interface, local: SocketAddrV4) -> Result<Self> {
        let name = format!("UDP {local} on interface `{}`", interface.name);
        let this = Self::open(interface, name)?;
        if local.ip().is_multicast() {
            // Each socket that joined a group has its datagrams, also beside others on this host.
            let fail = |errno| Error::new("setsockopt(SO_REUSEADDR)", &this.name, errno, None);
            let option = (libc::SOL_SOCKET, libc::SO_REUSEADDR);
            socket::set(&this.socket, option.0, option.1, 1_i32).map_err(fail)?;
        }
        this.with_address("bind", local, libc::bind)?;
        if local.ip().is_multicast() {
            let group = this.group(*local.ip());
            socket::set(&this.socket, libc::SOL_IP, libc::IP_ADD_MEMBERSHIP, group).map_err(
                |errno| Error::new("setsockopt(IP_ADD_MEMBERSHIP)", &this.name, errno, None),
            )?;
        }
        Ok(this)
    }

    fn group(&self, group: Ipv4Addr) -> libc::ip_mreqn {
        let address = |ip: Ipv4Addr| libc::in_addr {
            s_addr: u32::from(ip).to_be(),
        };
        libc::ip_mreqn {
            imr_multiaddr: address(group),
            imr_address: address(Ipv4Addr::UNSPECIFIED),
            imr_ifindex: i32::try_from(self.interface).unwrap_or(0),
        }
    }

    fn open(interface: &Interface, name: String) -> Result<Self> {
        let kind = (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDP);
        let socket = socket::open("socket(AF_INET)", &name, kind, None)?;
        // SAFETY: the name and its length are valid for the whole call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_BINDTODEVICE,
                interface.name.as_ptr().cast(),
                interface.name.len() as libc::socklen_t,
            )
        };
        if result != 0 {
            let call = "setsockopt(SO_BINDTODEVICE)";
            return Err(Error::last(call, name, Some("CAP_NET_RAW")));
        }
        Ok(Self(InterfaceSocket::new(socket, interface, name)))
    }

    fn with_address(
        &self,
        call: &'static str,
        address: SocketAddrV4,
        function: unsafe extern "C" fn(
            libc::c_int,
            *const libc::sockaddr,
            libc::socklen_t,
        ) -> libc::c_int,
    ) -> Result<()> {
        // SAFETY: sockaddr_in is plain data, for which all zeroes is a valid value.
        let mut name: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        name.sin_family = libc::AF_INET as libc::sa_family_t;
        name.sin_port = address.port().to_be();
        name.sin_addr.s_addr = u32::from(*address.ip()).to_be();
        // SAFETY: `function` is bind or connect; the address and its size are valid for the whole call.
        let result = unsafe {
            function(
                self.socket.as_raw_fd(),
                (&raw const name).cast(),
                size_of::<libc::sockaddr_in>() as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(Error::last(call, &self.name, Some("CAP_NET_BIND_SERVICE")));
        }
        Ok(())
    }

    /// Takes over a socket that another process has opened on `interface`, bound or connected.
    #[must_use]
    pub fn of(interface: &Interface, socket: OwnedFd) -> Self {
        let name = format!("UDP by the agent on interface `{}`", interface.name);
        Self(InterfaceSocket::new(socket, interface, name))
    }

    /// Sends without checksums of UDP from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn omit_checksums(&self) -> Result<()> {
        socket::set(&self.socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1_i32)
            .map_err(|errno| Error::new("setsockopt(SO_NO_CHECK)", &self.name, errno, None))
    }

    /// Sets priority and IP type of service of sent datagrams.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing for a priority above 6.
    pub fn set_priority(&self, priority: u32, type_of_service: u8) -> Result<()> {
        // The type of service first: setting it sets a priority as well.
        socket::set(
            &self.socket,
            libc::SOL_IP,
            libc::IP_TOS,
            i32::from(type_of_service),
        )
        .map_err(|errno| Error::new("setsockopt(IP_TOS)", &self.name, errno, None))?;
        socket::set_priority(&self.socket, &self.name, priority)
    }

    /// Turns busy polling on: a receive call that finds nothing polls the driver itself.
    ///
    /// A call that may wait polls for `budget`, another one once. The driver is asked to leave its interrupts off
    /// meanwhile.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, or the kernel is older than 5.11.
    pub fn set_busy_poll(&self, budget: Duration) -> Result<()> {
        // Numbers of the generic socket options, the same on every architecture that rtwire runs on.
        const SO_BUSY_POLL: i32 = 46;
        const SO_PREFER_BUSY_POLL: i32 = 69;
        let fail =
            |call| move |errno| Error::new(call, self.name.as_str(), errno, Some("CAP_NET_ADMIN"));
        let us = i32::try_from(budget.as_micros()).unwrap_or(i32::MAX).max(1);
        socket::set(&self.socket, libc::SOL_SOCKET, SO_BUSY_POLL, us)
            .map_err(fail("setsockopt(SO_BUSY_POLL)"))?;
        socket::set(&self.socket, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, 1_i32)
            .map_err(fail("setsockopt(SO_PREFER_BUSY_POLL)"))
    }

    /// Returns the receive context (NAPI) of the last datagram.
    ///
    /// `None` before the first datagram, and if the driver has no such context, so that there is nothing to poll.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn napi_id(&self) -> Result<Option<u32>> {
        const SO_INCOMING_NAPI_ID: i32 = 56;
        let id = socket::get_i32(&self.socket, libc::SOL_SOCKET, SO_INCOMING_NAPI_ID).map_err(
            |errno| {
                Error::new(
                    "getsockopt(SO_INCOMING_NAPI_ID)",
                    self.name.as_str(),
                    errno,
                    None,
                )
            },
        )?;
        Ok(u32::try_from(id).ok().filter(|&id| id != 0))
    }

    /// Returns the datagrams lost because the buffer was full, since the socket was opened.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn dropped(&self) -> Result<u64> {
        // SO_MEMINFO: an array of numbers; the ninth (SK_MEMINFO_DROPS) counts drops.
        let mut numbers = [0_u32; 9];
        let mut length = size_of_val(&numbers) as libc::socklen_t;
        // SAFETY: `numbers` is a valid place of the size given.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                numbers.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(Error::last("getsockopt(SO_MEMINFO)", &self.name, None));
        }
        Ok(u64::from(numbers[8]))
    }
}
