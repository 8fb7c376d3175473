//! Planned streams for programs without privilege: their sockets, and what the gate knows of them.
//!
//! ```text
//! open talker:    socket -> class -> gate (cookie) -> the stream's port is for this socket only -> socket to the program
//! open listener:  socket, group of the interface -> gate (police; RTDiP: datagrams of frames) -> socket to the program
//! close:          in the opposite order
//! ```
//!
//! Destination, contract and priority are those of the agent's plan. A program says only the stream's name; its port and key
//! show whether both have the same plan.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};

use rtwire_agent::{End, HostFacts, Opened, Reply, StreamWish, pass, refused};
use rtwire_plan::identity::Destination;
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::udp::UdpSocket as DatagramSocket;

use super::{Answered, Desk, Program, local, lock};
use crate::AgentError;
use crate::allowance::PlannedStream;
use crate::gate::{Arrivals, Datagrams, Frames, Rights};
use crate::queues;
use crate::service::Told;
use crate::streams::{Heard, Sent, Stream};

/// The ends that programs have open.
pub(super) type OpenEnds = BTreeMap<(String, End), OpenEnd>;

/// The address to which programs send the datagrams of RTDiP streams. The gate takes it away: no frame leaves with it. A
/// group needs no route and no neighbour.
const FRAMES_TO: Ipv4Addr = Ipv4Addr::new(239, 192, 136, 181);
/// The bytes that frames may occupy that wait for a listener: some 1000 long ones.
const ROOM_BYTES: usize = 1_024 * 2_304;

/// One end that a program has open.
#[derive(Debug)]
pub(super) struct OpenEnd {
    pub(super) of: Program,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// A talker's socket, by its cookie.
    Talks(u64),
    /// A listener of datagrams, by its port.
    Hears(u16),
    /// A listener of RTDiP frames.
    HearsFrames(FrameSocket),
}

/// The rest of a listener of RTDiP frames, beside its socket.
#[derive(Debug)]
pub(super) struct FrameSocket {
    /// The port of the frames.
    pub(super) port: u16,
    /// The port of this host to which the gate's datagrams go.
    pub(super) to: u16,
    /// Keeps the interface in the frames' group.
    _group: PacketSocket,
}

fn no_stream(wish: &StreamWish, host: &str, own: Vec<&String>) -> Reply {
    let own: Vec<&str> = own.into_iter().map(String::as_str).collect();
    refused(
        "foreign",
        format!(
            "\"{host}\" is no {} of a stream \"{}\" in the agent's plan; it is of: {}",
            wish.end,
            wish.stream,
            own.join(", ")
        ),
    )
}

/// Refuses a program whose plan is another one.
fn same_plan(wish: &StreamWish, stream: &Stream) -> Result<(), Reply> {
    if (wish.port, wish.key) == (stream.port, stream.key) {
        return Ok(());
    }
    Err(refused(
        "plan",
        format!(
            "the agent's plan has port {} and key {:#010x} for stream \"{}\", the program's has port {} and key {:#010x}: give both the same plan file",
            stream.port, stream.key, stream.name, wish.port, wish.key
        ),
    ))
}

fn v4(address: SocketAddr) -> Result<SocketAddrV4, Reply> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => Err(local("the socket has no IPv4 address")),
    }
}

/// Returns a socket's own descriptor, as the standard library has it.
fn standard(socket: &DatagramSocket) -> Result<UdpSocket, Reply> {
    let copy = socket.as_fd().try_clone_to_owned();
    copy.map(UdpSocket::from).map_err(local)
}

impl Desk {
    pub(super) fn host_facts(&self) -> HostFacts {
        let own = &self.place.interface;
        HostFacts {
            host: self.place.allowance.host.clone(),
            interface: own.name.clone(),
            index: own.index,
            address: own.mac,
        }
    }

    pub(super) fn open_stream(&self, program: Program, wish: &StreamWish) -> Answered {
        let streams = &self.place.streams;
        let host = &self.place.allowance.host;
        let mut open = lock(&self.open);
        let key = (wish.stream.clone(), wish.end);
        let held = |open: &OpenEnds| {
            let other = open.get(&key)?;
            let pid = other.of.pid;
            let (end, stream) = (wish.end, &wish.stream);
            Some(refused(
                "denied",
                format!("process {pid} has the {end} of stream \"{stream}\" open"),
            ))
        };
        let (kind, socket, rtdip) = match wish.end {
            End::Talker => {
                let sent = streams.sent.get(&wish.stream);
                let sent =
                    sent.ok_or_else(|| no_stream(wish, host, streams.sent.keys().collect()))?;
                same_plan(wish, &sent.stream)?;
                held(&open).map_or(Ok(()), Err)?;
                let (cookie, socket) = self.talk_on(sent)?;
                (Kind::Talks(cookie), socket, sent.stream.is_rtdip())
            }
            End::Listener => {
                let heard = streams.heard.get(&wish.stream);
                let heard =
                    heard.ok_or_else(|| no_stream(wish, host, streams.heard.keys().collect()))?;
                same_plan(wish, &heard.stream)?;
                held(&open).map_or(Ok(()), Err)?;
                let (kind, socket) = self.hear_on(heard)?;
                (kind, socket, heard.stream.is_rtdip())
            }
        };
        open.insert(key, OpenEnd { of: program, kind });
        drop(open);
        (self.tell)(Told::Opened {
            end: wish.end,
            stream: wish.stream.clone(),
            uid: program.uid,
            pid: program.pid,
        });
        let opened = Opened {
            end: wish.end,
            stream: wish.stream.clone(),
            rtdip,
        };
        Ok((Reply::Opened(opened), Some(socket)))
    }

    pub(super) fn fits(&self, stream: &Stream) -> Result<(), Reply> {
        let (needs, own) = (stream.needs_mtu(), &self.place.interface);
        if needs <= u64::from(own.mtu) {
            return Ok(());
        }
        let mtu = own.mtu;
        Err(local(format!(
            "\"{}\" needs an MTU of {needs} through the agent, which adds headers of IPv4 and UDP on this host, and \"{}\" has {mtu}: let its frames be shorter, or open it with privileges, without the agent",
            stream.name, own.name
        )))
    }

    /// Opens a talker's socket. Nothing is left of it if that fails.
    fn talk_on(&self, sent: &Sent) -> Result<(u64, OwnedFd), Reply> {
        let stream = &sent.stream;
        self.fits(stream)?;
        if !stream.is_shaped {
            return Err(local(format!(
                "stream \"{}\" has no contract that the agent could enforce: plan it without `shaper = \"off\"`",
                stream.name
            )));
        }
        let (socket, cookie, rights) = self.talker_socket(stream)?;
        let rights = Rights {
            class: sent.class,
            ..rights
        };
        let gate = &self.place.gate;
        let done = self
            .set_class(sent, true)
            .and_then(|()| Ok(gate.channel(cookie, &rights)?))
            .and_then(|()| Ok(gate.reserve_stream(&planned(sent))?));
        if let Err(error) = done {
            let _ = gate.forget(cookie);
            let _ = gate.stream(&planned(sent));
            let _ = self.set_class(sent, false);
            return Err(local(error));
        }
        Ok((cookie, socket))
    }

    /// Opens the sending socket of a stream. Returns it with its cookie and its rights, which have no class yet.
    pub(super) fn talker_socket(&self, stream: &Stream) -> Result<(OwnedFd, u64, Rights), Reply> {
        let own = &self.place.interface;
        let to = match &stream.destination {
            Destination::Group { .. } => FRAMES_TO,
            Destination::Multicast { ip } => *ip,
            Destination::Peer { host } => self.peer(host)?,
        };
        let to = SocketAddrV4::new(to, stream.port);
        let socket = DatagramSocket::sender(own, to).map_err(local)?;
        let frames = match &stream.destination {
            Destination::Group { mac } => {
                // The sum would be written into the frame, where the header of UDP was.
                socket.omit_checksums().map_err(local)?;
                Some(Frames {
                    destination: *mac,
                    source: own.mac,
                    vlan: stream.vlan,
                    port: stream.port,
                    key: stream.key,
                })
            }
            _ => None,
        };
        let socket = standard(&socket)?;
        let from = v4(socket.local_addr().map_err(local)?)?;
        let cookie = pass::cookie(&socket).map_err(local)?;
        let rights = Rights {
            class: 0,
            ends: [from, to],
            longest_bytes: stream.longest_bytes(),
            pcp: stream.pcp,
            frames,
        };
        Ok((socket.into(), cookie, rights))
    }

    /// Sets the class of a stream: for a program of the agent, or for all that send to its port.
    fn set_class(&self, sent: &Sent, for_program: bool) -> Result<(), AgentError> {
        let place = &self.place;
        let plain = (sent.limit, place.allowance.overhead_bytes);
        let (limit, overhead) = match for_program {
            true => sent.stream.class_limit(plain.0, plain.1),
            false => plain,
        };
        let priority = place.allowance.priorities[usize::from(sent.stream.pcp.min(7))];
        let class = queues::class(sent.class, priority, limit, overhead);
        Ok(lock(&place.netlink).put_class(place.interface.index, &class)?)
    }

    /// Opens a listener's socket. Nothing is left of it if that fails.
    fn hear_on(&self, heard: &Heard) -> Result<(Kind, OwnedFd), Reply> {
        let stream = &heard.stream;
        self.fits(stream)?;
        let own = &self.place.interface;
        let talker = self.peer(&heard.talker)?;
        let arrivals = Arrivals {
            rate_bytes: heard.rate_bytes,
            burst_bytes: heard.burst_bytes,
            overhead_bytes: self.place.allowance.overhead_bytes,
        };
        if stream.is_rtdip() {
            let (frames, socket) = self.hear_frames(stream, talker, arrivals)?;
            return Ok((Kind::HearsFrames(frames), socket));
        }
        // The plan chooses the port, also one that a program of this user could not bind.
        let to = match &stream.destination {
            Destination::Multicast { ip } => *ip,
            _ => self.place.address,
        };
        let to = SocketAddrV4::new(to, stream.port);
        let socket = DatagramSocket::receiver(own, to).map_err(local)?;
        socket.set_receive_room(ROOM_BYTES).map_err(local)?;
        let socket = standard(&socket)?;
        let gate = &self.place.gate;
        gate.hear(to, SocketAddrV4::new(talker, 0), arrivals)
            .map_err(local)?;
        Ok((Kind::Hears(stream.port), socket.into()))
    }

    /// Opens the receiving socket of a stream of RTDiP. Nothing is left of it if that fails.
    pub(super) fn hear_frames(
        &self,
        stream: &Stream,
        talker: Ipv4Addr,
        arrivals: Arrivals,
    ) -> Result<(FrameSocket, OwnedFd), Reply> {
        let (own, gate) = (&self.place.interface, &self.place.gate);
        let here = SocketAddrV4::new(self.place.address, 0);
        let socket = DatagramSocket::receiver(own, here).map_err(local)?;
        socket.set_receive_room(ROOM_BYTES).map_err(local)?;
        let group = PacketSocket::sender(own).map_err(local)?;
        if let Destination::Group { mac } = &stream.destination {
            group.join_group(*mac).map_err(local)?;
        }
        let socket = standard(&socket)?;
        // So that no program of this host can send to it: only the gate makes datagrams of this source.
        let from = SocketAddrV4::new(talker, stream.port);
        socket.connect(from).map_err(local)?;
        let to = v4(socket.local_addr().map_err(local)?)?;
        let datagrams = Datagrams {
            port: stream.port,
            key: stream.key,
            pcp: stream.pcp,
            own: own.mac,
            ends: [from, to],
        };
        if let Err(error) = gate.hear_frames(&datagrams, arrivals) {
            let _ = gate.forget_frames(stream.port, to.port());
            return Err(local(error));
        }
        let frames = FrameSocket {
            port: stream.port,
            to: to.port(),
            _group: group,
        };
        Ok((frames, socket.into()))
    }

    pub(super) fn no_end(end: End, stream: &str) -> Reply {
        refused(
            "foreign",
            format!("this program has no {end} of a stream \"{stream}\" open"),
        )
    }

    pub(super) fn close_stream(&self, program: Program, end: End, stream: &str) -> Answered {
        let key = (stream.to_owned(), end);
        let mut open = lock(&self.open);
        if open.get(&key).is_none_or(|one| one.of.id != program.id) {
            return Err(Self::no_end(end, stream));
        }
        if let Some(one) = open.remove(&key) {
            self.shut(&key, &one);
        }
        let stream = stream.to_owned();
        Ok((Reply::Closed { end, stream }, None))
    }

    /// Closes all ends of a program.
    pub(super) fn close_all_streams(&self, program: Program) {
        let mut open = lock(&self.open);
        let all = std::mem::take(&mut *open).into_iter();
        let (own, others): (OpenEnds, _) = all.partition(|(_, one)| one.of.id == program.id);
        *open = others;
        for (key, one) in &own {
            self.shut(key, one);
        }
    }

    /// Takes the rights of an end away.
    fn shut(&self, (name, end): &(String, End), one: &OpenEnd) {
        let gate = &self.place.gate;
        let done = match (&one.kind, self.place.streams.sent.get(name)) {
            (Kind::Talks(cookie), Some(sent)) => {
                let forgotten = gate.forget(*cookie).map_err(AgentError::from);
                // Each step, whatever the others did: a stream's port and class are there for the next program.
                let class = self.set_class(sent, false);
                let port = gate.stream(&planned(sent)).map_err(AgentError::from);
                forgotten.and(class).and(port)
            }
            (Kind::Hears(port), ..) => gate.forget_listener(*port).map_err(AgentError::from),
            (Kind::HearsFrames(frames), _) => {
                let done = gate.forget_frames(frames.port, frames.to);
                done.map_err(AgentError::from)
            }
            // It was opened as one that this host sends.
            (Kind::Talks(_), None) => Ok(()),
        };
        match done {
            Ok(()) => (self.tell)(Told::Closed {
                end: *end,
                stream: name.clone(),
            }),
            Err(error) => (self.tell)(Told::Trouble(error.to_string())),
        }
    }
}

fn planned(sent: &Sent) -> PlannedStream {
    PlannedStream {
        class: sent.class,
        is_udp: !sent.stream.is_rtdip(),
        port: sent.stream.port,
        pcp: sent.stream.pcp,
        limit: sent.limit,
    }
}
