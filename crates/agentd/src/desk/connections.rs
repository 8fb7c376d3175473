//! Connections of the manager: their sockets, classes, and what the gate knows of them.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rtwire_agent::{Reply, ReserveWish, pass, refused};
use rtwire_manager::{Answer, Ask, Carrier, Granted, Question, Reason};
use rtwire_managerd::Asker;

use super::{
    ANSWER, Answered, Desk, Held, HeldEnd, Program, local, lock, may_use, of_manager, silent,
};
use crate::allowance::{Bucket, FIRST_CHANNEL, MOST_CHANNELS};
use crate::gate::{Arrivals, Rights};
use crate::granted::{carrier, channel};
use crate::queues;
use crate::service::Told;
use crate::streams::Stream;

/// The time for which a reservation is asked for again while the manager says that it is busy.
const BUSY: Duration = Duration::from_secs(3);
const NS_PER_S: u64 = 1_000_000_000;

/// The reason why nothing was granted, and the time after which to ask again.
type Undecided = (Reply, Option<Duration>);

/// Refuses what no manager has to be asked for.
fn well_formed(program: Program, wish: &ReserveWish) -> Result<(), Reply> {
    let faulty = |text: &str| Err(refused("faulty", text));
    if wish.priority > 7 {
        return faulty("a priority is 0 to 7");
    }
    if wish.interval_ns == Some(0) {
        return faulty("an interval is at least 1 ns");
    }
    match (carrier(wish.carrier), wish.vlan) {
        (Carrier::Udp, Some(_)) => faulty(
            "datagrams have no VLAN tag of their own: leave `vlan` out, or let `carrier` be \"rtdip\"",
        ),
        (Carrier::Rtdip, Some(id)) if !(1..=4_094).contains(&id) => {
            faulty("a VLAN id is 1 to 4094")
        }
        (Carrier::Rtdip, _) => Ok(()),
        // The agent binds it.
        (Carrier::Udp, None) => may_use(program, wish.source_port),
    }
}

impl Desk {
    /// Asks the manager once. `Err` with a pause: the same again after it.
    fn decided(asker: &mut Asker, ask: &Ask) -> Result<Granted, Box<Undecided>> {
        let request = Asker::request().map_err(|error| Box::new((local(error), None)))?;
        let question = Question::Reserve {
            request,
            only_ask: false,
            ask: ask.clone(),
        };
        match asker.ask(&question, ANSWER) {
            Ok(Answer::Granted(granted)) => Ok(granted),
            Ok(Answer::Refused(no)) => {
                let pause = Duration::from_micros(no.retry_after_us.into());
                let again = no.reason == Reason::Busy;
                Err(Box::new((of_manager(&no), again.then_some(pause))))
            }
            Ok(other) => Err(Box::new((
                local(format!("the manager answers {other:?}")),
                None,
            ))),
            // It may have decided: the next look at its list releases what nobody holds.
            Err(error) => Err(Box::new((silent(&error), None))),
        }
    }

    pub(super) fn reserve(&self, program: Program, wish: &ReserveWish) -> Answered {
        self.within_quota(program)?;
        well_formed(program, wish)?;
        let peer = self.peer(&wish.to)?;
        let mut ask = Ask {
            listener: wish.to.clone(),
            carrier: carrier(wish.carrier),
            pcp: wish.priority,
            vlan: wish.vlan,
            frame_bytes: wish.frame_bytes,
            rate_bytes_per_ms: wish.rate_bytes_per_ms,
            burst_bytes: wish.burst_bytes,
            deadline_ns: wish.deadline_ns,
            interval_ns: wish.interval_ns,
            source_port: wish.source_port,
            port: wish.port,
        };
        let bound = match ask.carrier {
            Carrier::Udp => {
                // The port of the socket is the connection's: so it is bound first.
                let from = (self.place.address, ask.source_port);
                let socket = UdpSocket::bind(from).map_err(|error| {
                    local(format!("source port {} cannot be used: {error}", from.1))
                })?;
                ask.source_port = socket.local_addr().map_err(local)?.port();
                Some(socket)
            }
            Carrier::Rtdip => {
                self.fits(&self.as_stream(&ask, (0, 0)))?;
                None
            }
        };
        let begun = Instant::now();
        let (mut asker, granted) = loop {
            self.pace();
            let mut asker = lock(&self.asker);
            match Self::decided(&mut asker, &ask) {
                Ok(granted) => break (asker, granted),
                Err(no) => {
                    let (reply, pause) = *no;
                    let pause = pause.filter(|pause| begun.elapsed() + *pause < BUSY);
                    // Others may ask meanwhile.
                    drop(asker);
                    std::thread::sleep(pause.ok_or(reply)?);
                }
            }
        };
        let socket = match self.open(program, &granted, bound, peer) {
            Ok(socket) => socket,
            Err(refusal) => {
                // Nobody has used it.
                self.take_away(granted.connection);
                let _ = Self::return_to(&mut asker, granted.connection);
                return Err(refusal);
            }
        };
        drop(asker);
        (self.tell)(Told::Granted {
            connection: granted.connection,
            uid: program.uid,
            pid: program.pid,
        });
        Ok((Reply::Granted(Box::new(channel(&granted))), Some(socket)))
    }

    fn as_stream(&self, ask: &Ask, identity: (u32, u32)) -> Stream {
        Stream::of_connection(ask, identity, self.place.allowance.overhead_bytes)
    }

    /// Makes the socket, the class and the gate's entry of a connection.
    fn open(
        &self,
        program: Program,
        granted: &Granted,
        bound: Option<UdpSocket>,
        peer: Ipv4Addr,
    ) -> Result<OwnedFd, Reply> {
        let ask = &granted.ask;
        let stream = self.as_stream(ask, (granted.number, granted.key));
        let (socket, cookie, rights) = match bound {
            Some(socket) => {
                let connected = socket.connect((peer, ask.port));
                connected.map_err(|error| local(format!("cannot connect the channel: {error}")))?;
                let cookie = pass::cookie(&socket).map_err(local)?;
                let rights = Rights {
                    class: 0,
                    ends: [
                        SocketAddrV4::new(self.place.address, ask.source_port),
                        SocketAddrV4::new(peer, ask.port),
                    ],
                    longest_bytes: stream.longest_bytes(),
                    pcp: stream.pcp,
                    frames: None,
                };
                (OwnedFd::from(socket), cookie, rights)
            }
            None => self.talker_socket(&stream)?,
        };
        let mut held = lock(&self.held);
        let used: Vec<u32> = held
            .values()
            .filter_map(|one| match one.end {
                HeldEnd::Sends { class, .. } => Some(class),
                HeldEnd::Hears | HeldEnd::HearsFrames(_) => None,
            })
            .collect();
        let class = (FIRST_CHANNEL..FIRST_CHANNEL + MOST_CHANNELS)
            .find(|class| !used.contains(class))
            .ok_or_else(|| local("all classes for connections are in use"))?;
        // From now on it is freed with its program, whatever happens.
        let one = Held {
            of: program,
            granted: granted.clone(),
            end: HeldEnd::Sends { class, cookie },
        };
        held.insert(one.key(), one);
        drop(held);
        let overhead = self.place.allowance.overhead_bytes;
        let limit = Bucket {
            rate_bytes: ask.rate_bytes_per_ms.saturating_mul(1_000),
            burst_bytes: ask.burst_bytes,
            frame_bytes: u32::from(ask.padded_bytes()) + u32::from(overhead),
        };
        let (limit, overhead) = stream.class_limit(limit, overhead);
        let priority = self.place.allowance.priorities[usize::from(stream.pcp)];
        let index = self.place.interface.index;
        let mut netlink = lock(&self.place.netlink);
        let class_of = queues::class(class, priority, limit, overhead);
        netlink.put_class(index, &class_of).map_err(local)?;
        let leaf = queues::leaf(class, queues::frames_of(limit));
        netlink.put_queue(index, &leaf).map_err(local)?;
        drop(netlink);
        let rights = Rights { class, ..rights };
        self.place.gate.channel(cookie, &rights).map_err(local)?;
        Ok(socket)
    }

    /// Returns a connection to this host, as the manager has it.
    fn explained(&self, connection: u64) -> Result<Granted, Reply> {
        let question = Question::Explain {
            request: Asker::request().map_err(local)?,
            connection,
        };
        self.pace();
        let answer = lock(&self.asker).ask(&question, ANSWER);
        let granted = match answer {
            Ok(Answer::Explained { granted, .. }) => granted,
            Ok(Answer::Refused(no)) => return Err(of_manager(&no)),
            Ok(other) => return Err(local(format!("the manager answers {other:?}"))),
            Err(error) => return Err(silent(&error)),
        };
        let (host, listener) = (&self.place.allowance.host, &granted.ask.listener);
        if listener != host {
            return Err(refused(
                "foreign",
                format!("connection {connection} goes to \"{listener}\", not to \"{host}\""),
            ));
        }
        Ok(granted)
    }

    pub(super) fn listen(&self, program: Program, connection: u64) -> Answered {
        self.within_quota(program)?;
        let granted = self.explained(connection)?;
        let peer = self.peer(&granted.talker)?;
        let port = granted.ask.port;
        let mut held = lock(&self.held);
        if held.contains_key(&(connection, false)) {
            return Err(refused(
                "denied",
                format!("another program of this host hears connection {connection}"),
            ));
        }
        let gate = &self.place.gate;
        let (end, socket) = match granted.ask.carrier {
            Carrier::Udp => {
                may_use(program, port)?;
                let socket = UdpSocket::bind((self.place.address, port))
                    .map_err(|error| local(format!("port {port} cannot be used: {error}")))?;
                let to = SocketAddrV4::new(self.place.address, port);
                let from = SocketAddrV4::new(peer, granted.ask.source_port);
                gate.hear(to, from, self.arrivals(&granted))
                    .map_err(local)?;
                (HeldEnd::Hears, OwnedFd::from(socket))
            }
            Carrier::Rtdip => {
                let stream = self.as_stream(&granted.ask, (granted.number, granted.key));
                let (frames, socket) = self.hear_frames(&stream, peer, self.arrivals(&granted))?;
                (HeldEnd::HearsFrames(Arc::new(frames)), socket)
            }
        };
        let channel = Box::new(channel(&granted));
        let one = Held {
            of: program,
            granted,
            end,
        };
        held.insert(one.key(), one);
        Ok((Reply::Listening(channel), Some(socket)))
    }

    /// Returns the limits of what arrives for a connection.
    fn arrivals(&self, granted: &Granted) -> Arrivals {
        let ask = &granted.ask;
        let rate_bytes = u64::from(ask.rate_bytes_per_ms) * 1_000;
        // Frames that were delayed by the longest promised time arrive together with those that were not.
        let late = rate_bytes.saturating_mul(granted.promise_ns) / NS_PER_S;
        Arrivals {
            rate_bytes,
            burst_bytes: u64::from(ask.burst_bytes) + late + 1,
            overhead_bytes: self.place.allowance.overhead_bytes,
        }
    }
}
