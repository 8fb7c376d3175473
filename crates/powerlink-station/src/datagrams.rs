//! Service data over UDP: datagrams to port 3819 of `plk0`'s address reach the node's server, and its answers go back.
//!
//! Two ordinary threads receive and send. Between them and the real-time loop are queues of buffers made once: the loop neither
//! waits nor allocates.

use crate::StationError;
use crate::kind::Kind;
use rtwire_wire::powerlink::SDO_UDP_PORT;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Datagrams that may wait, each way.
const WAITING: usize = 16;
/// The size of a buffer in bytes: more than one segment of service data needs.
const ROOM: usize = 1514;
/// The period in which the threads check whether they must end.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Datagram {
    octets: Box<[u8]>,
    length: usize,
    peer: SocketAddrV4,
}

/// A queue of full buffers, and the queue of empty ones back.
fn queue() -> (Full, Empty) {
    let (full, filled) = sync_channel(WAITING);
    let (back, empty) = sync_channel(WAITING);
    for _ in 0..WAITING {
        // There is room for all of them.
        let _ = back.try_send(Datagram {
            octets: vec![0; ROOM].into(),
            length: 0,
            peer: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
        });
    }
    (Full { full, empty }, Empty { filled, back })
}

/// The end that fills buffers.
#[derive(Debug)]
struct Full {
    full: SyncSender<Datagram>,
    empty: Receiver<Datagram>,
}

/// The end that empties them.
#[derive(Debug)]
struct Empty {
    filled: Receiver<Datagram>,
    back: SyncSender<Datagram>,
}

#[derive(Debug)]
pub(crate) struct Datagrams {
    received: Empty,
    to_send: Full,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Datagrams {
    /// Opens the socket and starts the threads.
    pub(crate) fn open(address: [u8; 4]) -> Result<Self, StationError> {
        let at = SocketAddrV4::new(address.into(), SDO_UDP_PORT);
        let failed = |source| StationError::Service { at, source };
        let socket = UdpSocket::bind(at).map_err(failed)?;
        socket.set_read_timeout(Some(LOOK)).map_err(failed)?;
        let other = socket.try_clone().map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (fill, received) = queue();
        let (to_send, sending) = queue();
        let (stop_in, stop_out) = (Arc::clone(&stop), Arc::clone(&stop));
        let threads = vec![
            thread::spawn(move || receive(&socket, &fill, &stop_in)),
            thread::spawn(move || send(&other, &sending, &stop_out)),
        ];
        Ok(Self {
            received,
            to_send,
            stop,
            threads,
        })
    }

    /// Passes one received datagram to the node, and takes one of its answers. Does not wait.
    pub(crate) fn exchange(&mut self, node: &mut Kind, now_ns: u64) {
        if let Ok(datagram) = self.received.filled.try_recv() {
            let from = (datagram.peer.ip().octets(), datagram.peer.port());
            let payload = datagram.octets.get(..datagram.length).unwrap_or_default();
            node.datagram(now_ns, from, payload);
            let _ = self.received.back.try_send(datagram);
        }
        if node.datagrams_waiting() == 0 {
            return;
        }
        let Ok(mut datagram) = self.to_send.empty.try_recv() else {
            return;
        };
        let Some((length, address, port)) = node.next_datagram(now_ns, &mut datagram.octets) else {
            datagram.length = 0;
            let _ = self.to_send.full.try_send(datagram);
            return;
        };
        datagram.length = length;
        datagram.peer = SocketAddrV4::new(address.into(), port);
        let _ = self.to_send.full.try_send(datagram);
    }
}

fn receive(socket: &UdpSocket, queue: &Full, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut datagram = match queue.empty.recv_timeout(LOOK) {
            Ok(datagram) => datagram,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // What is longer is no service data, and is cut.
        while !stop.load(Ordering::Relaxed) {
            match socket.recv_from(&mut datagram.octets) {
                Ok((length, SocketAddr::V4(peer))) => {
                    (datagram.length, datagram.peer) = (length, peer);
                    if queue.full.send(datagram).is_err() {
                        return;
                    }
                    break;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that is gone, an interface that is down: others go on.
                Err(_) => thread::sleep(LOOK),
            }
        }
    }
}

fn send(socket: &UdpSocket, queue: &Empty, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match queue.filled.recv_timeout(LOOK) {
            Ok(datagram) => {
                if let Some(payload) = datagram.octets.get(..datagram.length) {
                    if !payload.is_empty() {
                        // Lost like any datagram; the sequence layer sends it again.
                        let _ = socket.send_to(payload, datagram.peer);
                    }
                }
                let _ = queue.back.try_send(datagram);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; there is nothing to add while dropping.
            let _ = thread.join();
        }
    }
}
