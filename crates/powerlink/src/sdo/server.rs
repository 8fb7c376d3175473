//! The SDO server: answers the commands of several clients.

use super::link::{Brought, Command, Link};
use super::multiple;
use super::{MAXIMUM_TRANSFER_OCTETS, segment_octets};
use crate::AbortCode;
use rtwire_wire::powerlink::{Sdo, SdoCommand, SdoCommandId, Segmentation};

/// Largest number of simultaneous clients. One more replaces the client that has been silent for longest.
const CLIENTS: usize = 16;

/// Access to a server's objects.
pub trait ObjectAccess {
    /// Reads an object.
    ///
    /// # Errors
    /// The abort code for the client.
    fn read_object(&mut self, index: u16, subindex: u8) -> Result<Vec<u8>, AbortCode>;

    /// Writes an object.
    ///
    /// # Errors
    /// The abort code for the client.
    fn write_object(&mut self, index: u16, subindex: u8, data: &[u8]) -> Result<(), AbortCode>;

    /// Returns true where the outcome of the last writes is not known yet. They are answered with [`SdoServer::finish`].
    fn is_pending(&self) -> bool {
        false
    }
}

/// Address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A node, over ASnd.
    Node(u8),
    /// An address and port, over UDP.
    Udp([u8; 4], u16),
}

#[derive(Clone, Debug)]
struct Client {
    peer: Peer,
    link: Link,
    heard_ns: u64,
    transaction: u8,
    command: SdoCommandId,
    /// A request of several segments. `expected` is its announced length.
    request: Vec<u8>,
    expected: Option<usize>,
    /// The response. `handed` bytes of it have been passed to the link.
    response: Vec<u8>,
    handed: usize,
    answering: bool,
    /// True where the outcome of its command is not known yet.
    pending: bool,
}

/// A server for any number of clients, 16 of them simultaneously.
#[derive(Clone, Debug)]
pub struct SdoServer {
    clients: Vec<Client>,
    segment_octets: usize,
    timeout_ns: u64,
    next: usize,
}

impl SdoServer {
    /// Creates a server whose frames have at most `mtu` bytes behind the Ethernet header. It drops a client after `2
    /// * timeout_ns` without a message.
    #[must_use]
    pub fn new(mtu: usize, timeout_ns: u64) -> Self {
        Self {
            clients: Vec::new(),
            segment_octets: segment_octets(mtu),
            timeout_ns,
            next: 0,
        }
    }

    /// Returns `true` if the server has a link with this client.
    pub(crate) fn serves(&self, peer: Peer) -> bool {
        self.clients.iter().any(|client| client.peer == peer)
    }

    /// Removes a client that is gone.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.clients.retain(|client| client.peer != peer);
    }

    /// Returns the number of frames that wait to be sent to nodes (`true`) or over UDP (`false`).
    #[must_use]
    pub fn frames_waiting(&self, nodes: bool) -> usize {
        let over = |client: &&Client| matches!(client.peer, Peer::Node(_)) == nodes;
        let waiting = |client: &Client| client.link.frames_waiting();
        self.clients.iter().filter(over).map(waiting).sum()
    }

    /// Passes the next frame for a node (`true`) or for UDP (`false`) to `write`; clients take turns. Returns the
    /// frame's destination.
    pub fn next_frame(
        &mut self,
        now_ns: u64,
        nodes: bool,
        write: &mut dyn FnMut(Peer, &Sdo<'_>),
    ) -> Option<Peer> {
        let count = self.clients.len();
        for turn in 0..count {
            let at = (self.next + turn) % count;
            let segment = self.segment_octets;
            let client = self.clients.get_mut(at)?;
            if matches!(client.peer, Peer::Node(_)) != nodes {
                continue;
            }
            let peer = client.peer;
            if client.link.next(now_ns, &mut |sdo| write(peer, sdo)) {
                client.hand_down(segment);
                let over = client.link.is_idle();
                self.next = at + 1;
                if over {
                    self.clients.remove(at);
                }
                return Some(peer);
            }
        }
        None
    }

    /// Writes the payload of the next datagram to the start of `out`; returns its length in bytes and its
    /// destination.
    pub fn next_datagram(&mut self, now_ns: u64, out: &mut [u8]) -> Option<(usize, [u8; 4], u16)> {
        let mut octets = 0;
        let peer = self.next_frame(now_ns, false, &mut |_, sdo| {
            octets = sdo.emit_datagram(out).unwrap_or_default();
        })?;
        match peer {
            Peer::Udp(address, port) if octets > 0 => Some((octets, address, port)),
            _ => None,
        }
    }

    /// Returns the time at which [`moment`](Self::moment) must be called, in ns; `None` for none.
    #[must_use]
    pub fn wake_at_ns(&self) -> Option<u64> {
        let timeout = self.timeout_ns;
        let silent = |client: &Client| client.heard_ns + 2 * timeout;
        let deadline = |client: &Client| {
            let link = client.link.deadline_ns();
            link.map_or(silent(client), |link| link.min(silent(client)))
        };
        self.clients.iter().map(deadline).min()
    }

    /// Repeats unanswered responses, and removes clients that are gone.
    pub fn moment(&mut self, now_ns: u64) {
        let timeout = self.timeout_ns;
        self.clients.retain_mut(|client| {
            let broken = client.link.expire(now_ns) == Brought::Broken;
            !broken && now_ns < client.heard_ns + 2 * timeout
        });
    }

    /// Answers the command whose outcome was not known ([`ObjectAccess::is_pending`]).
    pub fn finish(&mut self, outcome: Result<(), AbortCode>) {
        let segment = self.segment_octets;
        for client in self.clients.iter_mut().filter(|client| client.pending) {
            client.pending = false;
            match outcome {
                Ok(()) => client.answering = true,
                Err(code) => client.refuse(code),
            }
            client.hand_down(segment);
        }
    }

    /// Removes all clients.
    pub fn reset(&mut self) {
        self.clients.clear();
    }

    /// Processes a message from a client; executes its commands on `objects`.
    pub fn receive(
        &mut self,
        now_ns: u64,
        peer: Peer,
        sdo: &Sdo<'_>,
        objects: &mut dyn ObjectAccess,
    ) {
        let segment = self.segment_octets;
        let at = match self.clients.iter().position(|client| client.peer == peer) {
            Some(at) => at,
            None => self.admit(now_ns, peer),
        };
        let Some(client) = self.clients.get_mut(at) else {
            return;
        };
        client.heard_ns = now_ns;
        match client.link.receive(now_ns, sdo) {
            Brought::Nothing => {}
            Brought::Broken => {
                self.clients.remove(at);
                return;
            }
            Brought::Command => {
                if let Some(command) = sdo.command {
                    client.take(&command, objects);
                }
            }
        }
        client.hand_down(segment);
        if client.link.is_idle() {
            self.clients.remove(at);
        }
    }

    fn admit(&mut self, now_ns: u64, peer: Peer) -> usize {
        let oldest = || {
            let silent = self.clients.iter().enumerate();
            silent
                .min_by_key(|(_, client)| client.heard_ns)
                .map(|(at, _)| at)
        };
        if self.clients.len() >= CLIENTS {
            if let Some(at) = oldest() {
                self.clients.remove(at);
            }
        }
        self.clients.push(Client {
            peer,
            link: Link::new(false, self.timeout_ns),
            heard_ns: now_ns,
            transaction: 0,
            command: SdoCommandId::NIL,
            request: Vec::new(),
            expected: None,
            response: Vec::new(),
            handed: 0,
            answering: false,
            pending: false,
        });
        self.clients.len() - 1
    }
}

impl Client {
    /// Processes a command or a segment of one.
    fn take(&mut self, command: &SdoCommand<'_>, objects: &mut dyn ObjectAccess) {
        if command.response {
            return;
        }
        if command.abort {
            self.request.clear();
            self.expected = None;
            self.answering = false;
            self.pending = false;
            return;
        }
        match command.segmentation {
            Segmentation::Expedited => {
                self.begin(command);
                self.request.extend(command.data);
                self.execute(objects);
            }
            Segmentation::Initiate { total_octets } => {
                self.begin(command);
                let expected = (total_octets as usize).saturating_sub(4);
                if expected > MAXIMUM_TRANSFER_OCTETS {
                    self.refuse(AbortCode::OUT_OF_MEMORY);
                    return;
                }
                self.expected = Some(expected);
                self.request.extend(command.data);
            }
            Segmentation::Segment | Segmentation::Complete => {
                if self.expected.is_none() || command.transaction != self.transaction {
                    self.transaction = command.transaction;
                    self.command = command.command;
                    self.refuse(AbortCode::GENERAL);
                    return;
                }
                self.request.extend(command.data);
                let expected = self.expected.unwrap_or_default();
                let complete = command.segmentation == Segmentation::Complete;
                if self.request.len() > expected || complete && self.request.len() != expected {
                    self.refuse(AbortCode::LENGTH);
                } else if complete {
                    self.execute(objects);
                }
            }
        }
    }

    fn begin(&mut self, command: &SdoCommand<'_>) {
        self.transaction = command.transaction;
        self.command = command.command;
        self.request.clear();
        self.expected = None;
        self.answering = false;
        self.pending = false;
    }

    fn refuse(&mut self, code: AbortCode) {
        self.request.clear();
        self.expected = None;
        self.answering = false;
        let abort = Command::abort(self.transaction, true, self.command, code);
        self.link.send(abort);
    }

    fn execute(&mut self, objects: &mut dyn ObjectAccess) {
        let request = core::mem::take(&mut self.request);
        self.expected = None;
        let before = objects.is_pending();
        match self.result(&request, objects) {
            Ok(response) => {
                self.response = response;
                self.handed = 0;
                self.pending = objects.is_pending() && !before;
                self.answering = !self.pending;
            }
            Err(code) => self.refuse(code),
        }
    }

    fn result(&self, request: &[u8], objects: &mut dyn ObjectAccess) -> Result<Vec<u8>, AbortCode> {
        let object = || match request {
            [low, high, subindex, ..] => Ok((u16::from_le_bytes([*low, *high]), *subindex)),
            _ => Err(AbortCode::INVALID_BLOCK_SIZE),
        };
        match self.command {
            SdoCommandId::READ_BY_INDEX => {
                let (index, subindex) = object()?;
                objects.read_object(index, subindex)
            }
            SdoCommandId::WRITE_BY_INDEX => {
                let (index, subindex) = object()?;
                let data = request.get(4..).ok_or(AbortCode::INVALID_BLOCK_SIZE)?;
                objects.write_object(index, subindex, data)?;
                Ok(Vec::new())
            }
            SdoCommandId::READ_MULTIPLE_BY_INDEX => {
                let mut results = Vec::new();
                for (index, subindex) in multiple::parse_reads(request) {
                    results.push((index, subindex, objects.read_object(index, subindex)));
                }
                Ok(multiple::emit_chain(&results))
            }
            SdoCommandId::WRITE_MULTIPLE_BY_INDEX => {
                let mut refusals = Vec::new();
                for (index, subindex, data) in multiple::parse_chain(request)? {
                    let written =
                        data.and_then(|data| objects.write_object(index, subindex, &data));
                    if let Err(code) = written {
                        refusals.push((index, subindex, code));
                    }
                }
                Ok(multiple::emit_refusals(&refusals))
            }
            _ => Err(AbortCode::UNKNOWN_COMMAND),
        }
    }

    /// Passes segments of the response to the link, as far as it has room.
    fn hand_down(&mut self, segment_octets: usize) {
        while self.answering && self.link.room() > 0 {
            let whole = self.response.len();
            let rest = self.response.get(self.handed..).unwrap_or_default();
            let take = rest.len().min(segment_octets);
            let left = rest.len() - take;
            let segmentation = match (self.handed, left) {
                (0, 0) => Segmentation::Expedited,
                (0, _) => Segmentation::Initiate {
                    total_octets: u32::try_from(whole + 4).unwrap_or(u32::MAX),
                },
                (_, 0) => Segmentation::Complete,
                _ => Segmentation::Segment,
            };
            self.link.send(Command {
                transaction: self.transaction,
                response: true,
                segmentation,
                command: self.command,
                data: rest.get(..take).unwrap_or_default().to_vec(),
                ..Command::default()
            });
            self.handed += take;
            if left == 0 {
                self.answering = false;
                self.response = Vec::new();
            }
        }
    }
}
