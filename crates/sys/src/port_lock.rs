//! A name that only one socket of a network namespace can hold: a lock that ends with its process, however it ends.

use crate::error::{Errno, Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The number of tries for a name that its holder has released, each after a pause.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(2);

/// A held name. Names are in the abstract space of UNIX sockets; each network namespace has its own.
///
/// The kernel frees a name when the last descriptor of its socket is closed. A process that another thread has just
/// forked holds a copy of each descriptor until it runs its program. So a name may outlive its holder for a moment.
/// The holder shuts the socket down to show that it has released the name; the next one waits for that moment to
/// pass.
#[derive(Debug)]
pub struct NameLock {
    socket: OwnedFd,
}

impl Drop for NameLock {
    fn drop(&mut self) {
        // SAFETY: all arguments are numbers. A failure costs the next holder a short wait, and nothing else.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

impl NameLock {
    /// Takes the name.
    ///
    /// # Errors
    /// Another process holds it ([`crate::ErrorKind::InUse`]), or it is longer than 100 bytes.
    pub fn take(name: &str) -> Result<Self> {
        let (address, length) = address(name)?;
        let socket = socket(name)?;
        let mut tries_left = TRIES;
        loop {
            // SAFETY: the address is valid for the whole call and `length` lies within it.
            let result =
                unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
            if result == 0 {
                return Ok(Self { socket });
            }
            let errno = Errno::last();
            if tries_left == 0 || errno.0 != libc::EADDRINUSE || is_held(name)? {
                return Err(Error::new(
                    "bind",
                    format!("the name `{name}`"),
                    errno,
                    None,
                ));
            }
            tries_left -= 1;
            std::thread::sleep(PAUSE);
        }
    }
}

/// True if a process in the calling thread's network namespace holds the name.
///
/// # Errors
/// No socket can be opened, or the name is longer than 100 bytes.
pub fn is_held(name: &str) -> Result<bool> {
    let (address, length) = address(name)?;
    let socket = socket(name)?;
    // SAFETY: the address is valid for the whole call and `length` lies within it.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result != 0 {
        return Ok(Errno::last().0 != libc::ECONNREFUSED);
    }
    // A released name refuses a message. A held one takes an empty message, or has no room for more.
    let how = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: no byte is read from the null pointer, since the length is 0.
    let sent = unsafe { libc::send(socket.as_raw_fd(), std::ptr::null(), 0, how) };
    Ok(sent >= 0 || !matches!(Errno::last().0, libc::EPIPE | libc::ECONNREFUSED))
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
    // SAFETY: the descriptor is new and has no other owner.
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
    // The first byte stays 0: that makes the name abstract.
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.as_bytes()) {
        *to = *from as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, length as libc::socklen_t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_holder_at_a_time() {
        let name = format!("rtwire-port-lock-test-{}", std::process::id());
        assert!(!is_held(&name).unwrap());
        let held = NameLock::take(&name).unwrap();
        // More requests than messages fit a socket without a reader.
        for _ in 0..100 {
            assert!(is_held(&name).unwrap());
        }
        let taken = NameLock::take(&name).unwrap_err();
        assert_eq!(taken.kind(), crate::ErrorKind::InUse);
        drop(held);
        assert!(!is_held(&name).unwrap());
        NameLock::take(&name).unwrap();
    }

    #[test]
    fn a_name_let_go_is_had_although_a_forked_process_still_has_its_socket() {
        let name = format!("rtwire-port-lock-copy-{}", std::process::id());
        let held = NameLock::take(&name).unwrap();
        let copy = held.socket.try_clone().unwrap();
        drop(held);
        assert!(!is_held(&name).unwrap());
        let closes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(copy);
        });
        NameLock::take(&name).unwrap();
        closes.join().unwrap();
    }
}
