//! UNIX sockets of sequenced packets, and descriptors that travel through them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::message::LARGEST_MESSAGE;

/// The connections that wait to be taken.
const BACKLOG: i32 = 64;

/// A packet's bytes, and the descriptor that came with them.
pub type Packet = (Vec<u8>, Option<OwnedFd>);

fn open() -> Result<OwnedFd, Errno> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
}

/// Opens a listening socket.
///
/// # Errors
/// The kernel refuses.
pub fn listen(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = open()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Takes a connection.
///
/// # Errors
/// The kernel refuses.
pub fn accept(listener: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::net::accept_with(listener, SocketFlags::CLOEXEC)
}

/// Opens a connection.
///
/// # Errors
/// Nobody listens there, or this user may not connect.
pub fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = open()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Sends a packet, with a descriptor if there is one.
///
/// # Errors
/// The other end is gone.
pub fn send(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let parts = [IoSlice::new(bytes)];
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a packet and a descriptor that may have come with it; `None` at the end. A packet of more than
/// [`LARGEST_MESSAGE`] bytes is an error.
///
/// # Errors
/// The kernel refuses, or the packet is too long.
pub fn receive(socket: &OwnedFd) -> Result<Option<Packet>, Errno> {
    let mut bytes = vec![0; LARGEST_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(Errno::MSGSIZE);
    }
    bytes.truncate(received.bytes);
    let mut descriptor = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            // Others are closed.
            descriptor = descriptor.or(descriptors.last());
        }
    }
    Ok(Some((bytes, descriptor)))
}

/// Returns a socket's cookie: a number that the kernel has given to no other one since the machine started.
///
/// # Errors
/// The kernel refuses.
pub fn cookie(socket: impl AsFd) -> Result<u64, Errno> {
    rustix::net::sockopt::socket_cookie(socket)
}
