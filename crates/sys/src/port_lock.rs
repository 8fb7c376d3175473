//! A name that only one socket of a network namespace can hold: a lock that ends with its process, however it ends.

use crate::error::{Errno, Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A held name. Names live in the abstract space of UNIX sockets, which each network namespace has its own of.
#[derive(Debug)]
pub struct NameLock {
    _socket: OwnedFd,
}

impl NameLock {
    /// Takes the name.
    ///
    /// # Errors
    /// Somebody holds it ([`crate::ErrorKind::InUse`]), or it is longer than 100 octets.
    pub fn take(name: &str) -> Result<Self> {
        let (address, length) = address(name)?;
        let socket = socket(name)?;
        // SAFETY: the address is valid for the whole call and `length` lies within it.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if result != 0 {
            return Err(Error::last("bind", format!("the name `{name}`"), None));
        }
        Ok(Self { _socket: socket })
    }
}

/// Whether somebody in the calling thread's network namespace holds the name.
///
/// # Errors
/// No socket is to be had, or the name is longer than 100 octets.
pub fn is_held(name: &str) -> Result<bool> {
    let (address, length) = address(name)?;
    let socket = socket(name)?;
    // SAFETY: the address is valid for the whole call and `length` lies within it.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    Ok(result == 0 || Errno::last().0 != libc::ECONNREFUSED)
}

fn socket(name: &str) -> Result<OwnedFd> {
    // SAFETY: all arguments are numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Error::last(
            "socket(AF_UNIX)",
            format!("the name `{name}`"),
            None,
        ));
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(name: &str) -> Result<(libc::sockaddr_un, libc::socklen_t)> {
    if name.len() > 100 {
        let object = format!("the name `{name}`");
        return Err(Error::new("bind", object, Errno(libc::ENAMETOOLONG), None));
    }
    // SAFETY: sockaddr_un is plain data, for which all zeroes is a valid value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // The first octet stays 0: that is what makes the name abstract.
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.as_bytes()) {
        *to = *from as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, length as libc::socklen_t))
}
