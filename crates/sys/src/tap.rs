//! TAP devices: an Ethernet interface of the host whose other end is a program.

use crate::clock::timespec;
use crate::error::{Errno, Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A TAP device of the calling thread's network namespace. It vanishes when this value is dropped, or the process
/// ends.
#[derive(Debug)]
pub struct Tap {
    file: OwnedFd,
}

const CLONE: &std::ffi::CStr = c"/dev/net/tun";
const CAPABILITY: Option<&str> = Some("CAP_NET_ADMIN");

impl Tap {
    /// Creates a device with this hardware address, IPv4 address and prefix (1 to 32), and brings it up.
    ///
    /// # Errors
    /// `/dev/net/tun` or CAP_NET_ADMIN is missing, or the name is in use or not valid for an interface.
    pub fn open(name: &str, mac: [u8; 6], address: [u8; 4], prefix: u8) -> Result<Self> {
        let object = format!("interface `{name}`");
        let fail = |call| Error::last(call, object.clone(), CAPABILITY);
        // SAFETY: the path is a C string that lives for ever; the flags are numbers.
        let fd = unsafe {
            libc::open(
                CLONE.as_ptr(),
                libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK,
            )
        };
        if fd < 0 {
            return Err(Error::last("open", "/dev/net/tun", CAPABILITY));
        }
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut request = named(name).ok_or_else(|| {
            Error::new(
                "looking up the name",
                object.clone(),
                Errno(libc::EINVAL),
                None,
            )
        })?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the request is valid for the whole call, and TUNSETIFF reads and writes only within it.
        if unsafe {
            libc::ioctl(
                file.as_raw_fd(),
                libc::TUNSETIFF as libc::Ioctl,
                &raw mut request,
            )
        } != 0
        {
            return Err(fail("TUNSETIFF"));
        }
        // SAFETY: all arguments are numbers.
        let socket =
            unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(fail("socket(AF_INET)"));
        }
        // SAFETY: the descriptor is new and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let ask = |call, number: libc::c_ulong, fill: &dyn Fn(&mut libc::ifreq)| {
            let mut request = request;
            fill(&mut request);
            // SAFETY: the request is valid for the whole call; these requests read only within it.
            if unsafe { libc::ioctl(socket.as_raw_fd(), number as libc::Ioctl, &raw mut request) }
                != 0
            {
                return Err(fail(call));
            }
            Ok(())
        };
        ask("SIOCSIFHWADDR", libc::SIOCSIFHWADDR, &|request| {
            let mut hardware = libc::sockaddr {
                sa_family: libc::ARPHRD_ETHER,
                sa_data: [0; 14],
            };
            for (to, from) in hardware.sa_data.iter_mut().zip(mac) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_hwaddr = hardware;
        })?;
        let mask = u32::MAX
            .checked_shl(32 - u32::from(prefix.clamp(1, 32)))
            .unwrap_or(u32::MAX);
        ask("SIOCSIFADDR", libc::SIOCSIFADDR, &|request| {
            request.ifr_ifru.ifru_addr = inet(address);
        })?;
        ask("SIOCSIFNETMASK", libc::SIOCSIFNETMASK, &|request| {
            request.ifr_ifru.ifru_netmask = inet(mask.to_be_bytes());
        })?;
        ask("SIOCSIFFLAGS", libc::SIOCSIFFLAGS, &|request| {
            request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        })?;
        Ok(Self { file })
    }

    /// Receives the next frame that the host sends through the device. Waits for at most `timeout`; 0 bytes: none
    /// came.
    ///
    /// # Errors
    /// The device is gone or down.
    pub fn receive(&self, room: &mut [u8], timeout: Duration) -> std::result::Result<usize, Errno> {
        let mut entry = libc::pollfd {
            fd: self.file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = timespec(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        // SAFETY: one entry and the time are valid for the whole call; no signal mask.
        let ready = unsafe { libc::ppoll(&raw mut entry, 1, &raw const time, std::ptr::null()) };
        if ready <= 0 {
            return Ok(0);
        }
        // SAFETY: the room and its length are valid for the whole call.
        let read =
            unsafe { libc::read(self.file.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
        match usize::try_from(read) {
            Ok(length) => Ok(length),
            Err(_) if Errno::last().would_block() => Ok(0),
            Err(_) => Err(Errno::last()),
        }
    }

    /// Sends a frame to the host as if it had come through the device. One system call; does not wait.
    ///
    /// # Errors
    /// The device is gone or down, or its queue is full.
    pub fn send(&self, frame: &[u8]) -> std::result::Result<(), Errno> {
        // SAFETY: the frame and its length are valid for the whole call.
        let written =
            unsafe { libc::write(self.file.as_raw_fd(), frame.as_ptr().cast(), frame.len()) };
        if written < 0 {
            return Err(Errno::last());
        }
        Ok(())
    }
}

/// Returns a request about an interface; `None` if `name` is not valid for an interface.
fn named(name: &str) -> Option<libc::ifreq> {
    // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let octets = name.as_bytes();
    if octets.is_empty() || octets.len() >= libc::IFNAMSIZ || octets.contains(&0) {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(octets) {
        *to = *from as libc::c_char;
    }
    Some(request)
}

fn inet(address: [u8; 4]) -> libc::sockaddr {
    let mut general = libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: [0; 14],
    };
    // Port 0, then the address.
    for (to, from) in general.sa_data[2..6].iter_mut().zip(address) {
        *to = from as libc::c_char;
    }
    general
}
