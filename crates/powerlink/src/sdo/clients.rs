//! The SDO clients of a node that may ask any other node, and the assignment of messages to client or server.

use super::{Peer, SdoClient, SdoJob, SdoOutcome, SdoServer};
use rtwire_wire::powerlink::{Connection, Sdo, node};

/// Clients, one for each node that has been asked. They take turns.
#[derive(Clone, Debug)]
pub(crate) struct SdoClients {
    all: Vec<(u8, SdoClient)>,
    mtu: usize,
    timeout_ns: u64,
    next: usize,
}

impl SdoClients {
    /// Creates an empty set of clients. Their frames have at most `mtu` bytes behind the Ethernet header. Each
    /// abandons a node that does not respond within `timeout_ns`.
    pub(crate) const fn new(mtu: usize, timeout_ns: u64) -> Self {
        Self {
            all: Vec::new(),
            mtu,
            timeout_ns,
            next: 0,
        }
    }

    /// Fails all jobs and sets other limits.
    pub(crate) fn reset(&mut self, mtu: usize, timeout_ns: u64) {
        (self.mtu, self.timeout_ns) = (mtu, timeout_ns);
        for (_, client) in &mut self.all {
            client.set_limits(mtu, timeout_ns);
            client.reset();
        }
    }

    /// Appends a job for a node. Returns the number that, with the node's number, identifies its outcome.
    pub(crate) fn submit(&mut self, now_ns: u64, node: u8, job: SdoJob) -> u32 {
        let at = match self.all.iter().position(|(number, _)| *number == node) {
            Some(at) => at,
            None => {
                let client = SdoClient::new(self.mtu, self.timeout_ns);
                self.all.push((node, client));
                self.all.len() - 1
            }
        };
        // The place was found or has just been created.
        self.all
            .get_mut(at)
            .map_or(0, |(_, client)| client.submit(now_ns, job))
    }

    /// Returns the client of a node if the node has been asked.
    pub(crate) fn of(&mut self, node: u8) -> Option<&mut SdoClient> {
        let found = self.all.iter_mut().find(|(number, _)| *number == node);
        found.map(|(_, client)| client)
    }

    /// Returns the next outcome, with the job's node and number.
    pub(crate) fn outcome(&mut self) -> Option<(u8, u32, SdoOutcome)> {
        self.all.iter_mut().find_map(|(node, client)| {
            let (id, outcome) = client.outcome()?;
            Some((*node, id, outcome))
        })
    }

    /// Returns the number of frames that wait to be sent.
    pub(crate) fn frames_waiting(&self, server: &SdoServer) -> usize {
        let free = |(node, client): &&(u8, SdoClient)| !is_held(client, server, *node);
        let waiting = |(_, client): &(u8, SdoClient)| client.frames_waiting();
        self.all.iter().filter(free).map(waiting).sum()
    }

    /// Passes the next frame and its destination node to `write`; returns `true` if there was one.
    pub(crate) fn next_frame(
        &mut self,
        now_ns: u64,
        server: &SdoServer,
        write: &mut dyn FnMut(u8, &Sdo<'_>),
    ) -> bool {
        let count = self.all.len();
        for turn in 0..count {
            let at = (self.next + turn) % count;
            let Some((node, client)) = self.all.get_mut(at) else {
                continue;
            };
            let held = is_held(client, server, *node);
            if !held && client.next_frame(now_ns, &mut |sdo| write(*node, sdo)) {
                self.next = at + 1;
                return true;
            }
        }
        false
    }

    /// Returns the time at which [`moment`](Self::moment) must be called, in ns; `None` for none.
    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        let wake = |(_, client): &(u8, SdoClient)| client.wake_at_ns();
        self.all.iter().filter_map(wake).min()
    }

    /// Repeats unanswered commands, and abandons jobs that have waited too long.
    pub(crate) fn moment(&mut self, now_ns: u64, server: &SdoServer) {
        for (node, client) in &mut self.all {
            pass(client, server, *node, now_ns);
        }
    }
}

// Over ASnd the links of two nodes that ask each other cannot be told apart. So there is only one at a time. A client
// holds back while its node serves the other one. If two nodes begin at once, one gives way.

/// Returns `true` if a client may not open its link with `node` now, because `node` has a link with the server of
/// this node.
pub(crate) fn is_held(client: &SdoClient, server: &SdoServer, node: u8) -> bool {
    client.is_opening() && server.serves(Peer::Node(node))
}

/// Updates a client for the time that has passed.
pub(crate) fn pass(client: &mut SdoClient, server: &SdoServer, node: u8, now_ns: u64) {
    if is_held(client, server, node) {
        client.postpone(now_ns);
    } else if client.wake_at_ns().is_some_and(|at| now_ns >= at) {
        client.moment(now_ns);
    }
}

/// The receiver of a message over ASnd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressee {
    Client,
    Server,
    Nobody,
}

/// Returns the receiver of a message from node `from` to node `own`.
pub(crate) fn addressee(
    client: &SdoClient,
    server: &SdoServer,
    (own, from): (u8, u8),
    sdo: &Sdo<'_>,
) -> Addressee {
    use Connection::{Initialisation, None, Valid};
    if client.is_idle() || is_held(client, server, from) {
        return Addressee::Server;
    }
    match (sdo.sequence.receive, sdo.sequence.send) {
        // Both begin at once: the managing node goes first, else the lower number.
        (None, Initialisation) if client.is_opening() => {
            let first = own == node::MN || own < from && from != node::MN;
            if first {
                Addressee::Nobody
            } else {
                Addressee::Server
            }
        }
        (None, Initialisation) | (Initialisation, Valid) => Addressee::Server,
        _ if sdo.command.is_some_and(|command| !command.response) => Addressee::Server,
        // A peer that does not hold back closes its link here: ours finds out by and by if it was that.
        (None, None) if server.serves(Peer::Node(from)) => Addressee::Server,
        _ => Addressee::Client,
    }
}
