//! The properties of a network interface: index, address, length of its frames.

use crate::error::{Errno, Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An interface of the calling thread's network namespace, with its state at the time of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The interface's index, which stays when it is renamed.
    pub index: u32,
    /// The interface's hardware address.
    pub mac: [u8; 6],
    /// The most bytes behind the Ethernet header.
    pub mtu: u32,
    /// True if the interface is up.
    pub up: bool,
}

/// Finds an interface by its name.
///
/// # Errors
/// The interface is missing in the calling thread's network namespace.
pub fn by_name(name: &str) -> Result<Interface> {
    let query = Query::new(name)?;
    let index = query.ask("SIOCGIFINDEX", libc::SIOCGIFINDEX, |request| {
        // SAFETY: the kernel has filled the member of the union that belongs to the request.
        unsafe { request.ifr_ifru.ifru_ifindex }
    })?;
    let hardware = query.ask("SIOCGIFHWADDR", libc::SIOCGIFHWADDR, |request| {
        // SAFETY: as above.
        unsafe { request.ifr_ifru.ifru_hwaddr }
    })?;
    let mtu = query.ask("SIOCGIFMTU", libc::SIOCGIFMTU, |request| {
        // SAFETY: as above.
        unsafe { request.ifr_ifru.ifru_mtu }
    })?;
    let flags = query.ask("SIOCGIFFLAGS", libc::SIOCGIFFLAGS, |request| {
        // SAFETY: as above.
        unsafe { request.ifr_ifru.ifru_flags }
    })?;
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(hardware.sa_data) {
        *to = from as u8;
    }
    Ok(Interface {
        name: name.to_owned(),
        index: u32::try_from(index).unwrap_or(0),
        mac,
        mtu: u32::try_from(mtu).unwrap_or(0),
        up: i32::from(flags) & libc::IFF_UP != 0,
    })
}

/// Returns the name of the interface with an index in the calling thread's network namespace; `None` if there is none.
#[must_use]
pub fn name_of(index: u32) -> Option<String> {
    let mut room = [0_u8; libc::IF_NAMESIZE];
    // SAFETY: the room has the size that the call asks for.
    let name = unsafe { libc::if_indextoname(index, room.as_mut_ptr().cast()) };
    if name.is_null() {
        return None;
    }
    let text = room.split(|&octet| octet == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Returns the name of an interface's driver, as `ethtool -i` shows it: `veth`, `igc` …; `None` if the driver has
/// none.
///
/// # Errors
/// The interface is missing.
pub fn driver(name: &str) -> Result<Option<String>> {
    const ETHTOOL_GDRVINFO: u32 = 3;
    const OCTETS: usize = 196;
    /// The position of the name, and its largest length.
    const DRIVER: std::ops::Range<usize> = 4..36;
    let mut query = Query::new(name)?;
    query.ask("SIOCGIFINDEX", libc::SIOCGIFINDEX, |_| ())?;
    let mut info = [0_u32; OCTETS / 4];
    info[0] = ETHTOOL_GDRVINFO;
    // SAFETY: `struct ethtool_drvinfo` has 196 bytes.
    let answered = unsafe { query.ethtool(&mut info) };
    if !answered {
        return Ok(None);
    }
    let octets: Vec<u8> = info.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = octets[DRIVER]
        .split(|&octet| octet == 0)
        .next()
        .unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(text).into_owned()).filter(|text| !text.is_empty()))
}

/// Returns true if the interface's driver may keep a received frame's VLAN tag outside of the frame (`ethtool -k` shows it
/// as `rx-vlan-offload`); false also where the driver does not report it.
#[must_use]
pub fn keeps_tags_outside(name: &str) -> bool {
    const ETHTOOL_GFLAGS: u32 = 0x25;
    const ETH_FLAG_RXVLAN: u32 = 1 << 8;
    let Ok(mut query) = Query::new(name) else {
        return false;
    };
    let mut value = [ETHTOOL_GFLAGS, 0];
    // SAFETY: `struct ethtool_value` has two words.
    let answered = unsafe { query.ethtool(&mut value) };
    answered && value[1] & ETH_FLAG_RXVLAN != 0
}

/// Returns the name of the interface below a VLAN interface; `None` for any other interface.
///
/// # Errors
/// The interface is missing.
pub fn vlan_below(name: &str) -> Result<Option<String>> {
    /// `struct vlan_ioctl_args`; its union is filled to its length.
    #[repr(C)]
    struct Arguments {
        command: libc::c_int,
        device: [u8; 24],
        answer: [u8; 24],
        priority: libc::c_short,
    }
    const GET_VLAN_REALDEV_NAME_CMD: libc::c_int = 8;
    const SIOCGIFVLAN: libc::Ioctl = 0x8982;
    let query = Query::new(name)?;
    query.ask("SIOCGIFINDEX", libc::SIOCGIFINDEX, |_| ())?;
    let mut arguments = Arguments {
        command: GET_VLAN_REALDEV_NAME_CMD,
        device: [0; 24],
        answer: [0; 24],
        priority: 0,
    };
    // `Query::new` has checked that the name is shorter than 16 bytes.
    for (to, from) in arguments.device.iter_mut().zip(name.as_bytes()) {
        *to = *from;
    }
    // SAFETY: the arguments are valid for the whole call and have the kernel's layout, which reads and writes only them.
    let result = unsafe { libc::ioctl(query.socket.as_raw_fd(), SIOCGIFVLAN, &raw mut arguments) };
    if result != 0 {
        // No VLAN, or a kernel without VLANs.
        return Ok(None);
    }
    let text = arguments.answer.split(|&octet| octet == 0).next();
    let text = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Returns the number of transmit queues in use of an interface of the calling thread's network namespace.
///
/// It is the one that `ethtool -l` shows; 1 if the driver has none.
#[must_use]
pub fn transmit_queues(name: &str) -> u32 {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let Ok(mut query) = Query::new(name) else {
        return 1;
    };
    // A command, four maximums, and those in use: receive, transmit, other, combined.
    let mut channels = [0_u32; 9];
    channels[0] = ETHTOOL_GCHANNELS;
    // SAFETY: `struct ethtool_channels` has nine words.
    let answered = unsafe { query.ethtool(&mut channels) };
    if answered {
        (channels[6] + channels[8]).max(1)
    } else {
        1
    }
}

/// True if an interface of this index still exists in the namespace of `socket`. One system call.
#[must_use]
pub fn exists(socket: &OwnedFd, index: u32) -> bool {
    let mut request = empty_request();
    request.ifr_ifru.ifru_ifindex = i32::try_from(index).unwrap_or(0);
    // SAFETY: the request is valid for the whole call, and SIOCGIFNAME reads and writes only within it.
    unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME, &raw mut request) == 0 }
}

/// Returns the hardware address that an interface has now, in the namespace of `socket`; `None` if it is gone. Two system
/// calls.
#[must_use]
pub fn address(socket: &OwnedFd, index: u32) -> Option<[u8; 6]> {
    let mut request = empty_request();
    request.ifr_ifru.ifru_ifindex = i32::try_from(index).unwrap_or(0);
    // The name that the first request writes is where the second one reads it.
    for number in [libc::SIOCGIFNAME, libc::SIOCGIFHWADDR] {
        // SAFETY: the request is valid for the whole call; both read and write only within it.
        if unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw mut request) } != 0 {
            return None;
        }
    }
    // SAFETY: the kernel has filled this member of the union.
    let hardware = unsafe { request.ifr_ifru.ifru_hwaddr };
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(hardware.sa_data) {
        *to = from as u8;
    }
    Some(mac)
}

/// Shows the address of an interface, however often it changes.
#[derive(Debug)]
pub struct AddressWatch {
    socket: OwnedFd,
    index: u32,
}

impl AddressWatch {
    /// Opens a watch of an interface of the calling thread's network namespace. Needs no privilege.
    ///
    /// # Errors
    /// No socket can be opened.
    pub fn new(interface: &Interface) -> Result<Self> {
        let socket = Query::new(&interface.name)?.socket;
        let index = interface.index;
        Ok(Self { socket, index })
    }

    /// Returns the interface's address; `None` if it is gone. Two system calls.
    #[must_use]
    pub fn address(&self) -> Option<[u8; 6]> {
        address(&self.socket, self.index)
    }
}

fn empty_request() -> libc::ifreq {
    // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
    unsafe { std::mem::zeroed() }
}

/// Returns a request about the interface of this name; a name that is too long is cut.
pub(crate) fn request(name: &str) -> libc::ifreq {
    let mut request = empty_request();
    let places = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
    for (to, from) in places.zip(name.as_bytes()) {
        *to = *from as libc::c_char;
    }
    request
}

pub(crate) struct Query {
    pub(crate) socket: OwnedFd,
    pub(crate) request: libc::ifreq,
    name: String,
}

impl Query {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
            let object = format!("interface `{name}`");
            return Err(Error::new(
                "looking up the name",
                object,
                Errno(libc::ENODEV),
                None,
            ));
        }
        let request = request(name);
        // SAFETY: all arguments are numbers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Error::last(
                "socket(AF_INET)",
                format!("interface `{name}`"),
                None,
            ));
        }
        // SAFETY: the descriptor is new and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            socket,
            request,
            name: name.to_owned(),
        })
    }

    /// Asks the interface's driver through ethtool: the first word is the command, and the driver fills the rest. Returns true where
    /// it answered.
    ///
    /// # Safety
    /// `words` has at least as many bytes as the structure of its command.
    pub(crate) unsafe fn ethtool(&mut self, words: &mut [u32]) -> bool {
        const SIOCETHTOOL: libc::Ioctl = 0x8946;
        self.request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the request is valid for the whole call, and its data point to what the kernel reads and fills.
        unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &raw mut self.request) == 0 }
    }

    fn ask<T>(
        &self,
        call: &'static str,
        number: libc::Ioctl,
        answer: impl Fn(&libc::ifreq) -> T,
    ) -> Result<T> {
        let mut request = self.request;
        // SAFETY: the request is valid for the whole call; these requests read and write only within it.
        if unsafe { libc::ioctl(self.socket.as_raw_fd(), number, &raw mut request) } != 0 {
            return Err(Error::last(
                call,
                format!("interface `{}`", self.name),
                None,
            ));
        }
        Ok(answer(&request))
    }
}
