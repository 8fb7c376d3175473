//! Assignment of the asynchronous slot (DS 301, 4.2.4.2.2 and 7.3).
//!
//! NMT commands and requests for them go first. Identification, status and ordinary frames take turns, so that none
//! of them starves another. Among ordinary frames the highest priority goes first; nodes of one priority take turns.

use super::ManagingNode;
use super::node::Boot;
use crate::sdo::{Peer, SdoServer};
use crate::{ErrorCode, LostReason};
use rtwire_wire::Outbox;
use rtwire_wire::powerlink::{
    Asnd, MINIMUM_OCTETS, Message, NmtState, Packet, RequestedService, SyncRequest, multicast,
    node, pad,
};

/// The interval of identity requests to an absent node, ns.
const IDENT_INTERVAL_NS: u64 = 20_000_000;
/// The interval of status requests to a node whose responses do not show its state, ns.
pub(super) const STATUS_INTERVAL_NS: u64 = 2_000_000;
/// The interval of status requests to operational nodes that are never polled, ns.
const STATUS_SLOW_NS: u64 = 1_000_000_000;
/// The longest time that a StatusResponse may take, ns.
const STATUS_PATIENCE_NS: u64 = 20_000_000;

/// The bit of object 1F82h for several asynchronous frames in a cycle.
const MULTIPLE_ASND: u32 = 0x1_0000;

/// The invited node, and the service that it is invited to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invitation {
    pub(super) service: RequestedService,
    pub(super) target: u8,
}

/// The frame that invites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The first slot of a cycle.
    Soa,
    /// Each further one.
    AInv,
}

impl By {
    /// Returns true where the node obeys such an invitation.
    fn reaches(self, cn: &super::Cn) -> bool {
        self == Self::Soa
            || cn
                .ident
                .is_some_and(|ident| ident.feature_flags & MULTIPLE_ASND != 0)
    }
}

impl ManagingNode {
    /// Sends the SoA, and this node's own frame behind it.
    pub(super) fn asynchronous_phase(
        &mut self,
        now_ns: u64,
        outbox: &mut dyn Outbox,
    ) -> Invitation {
        let invitation = self.choose(now_ns, By::Soa);
        self.invite(now_ns, invitation, By::Soa, outbox);
        invitation
    }

    /// Sends an AInv between two SoA, and this node's own frame behind it (302-B). Returns `None` where nobody has to send.
    pub(super) fn invite_again(
        &mut self,
        now_ns: u64,
        outbox: &mut dyn Outbox,
    ) -> Option<Invitation> {
        let invitation = self.choose(now_ns, By::AInv);
        if invitation.service == RequestedService::NO_SERVICE {
            return None;
        }
        self.invite(now_ns, invitation, By::AInv, outbox);
        Some(invitation)
    }

    fn invite(&mut self, now_ns: u64, invitation: Invitation, by: By, outbox: &mut dyn Outbox) {
        let Invitation { service, target } = invitation;
        let mut flags = [false; 2];
        let mut sync = None;
        if let Some(cn) = self.cn_mut(target) {
            if service == RequestedService::STATUS_REQUEST {
                flags = [cn.acknowledged, cn.boot == Boot::Clear];
            }
            if service == RequestedService::SYNC_REQUEST {
                let control =
                    SyncRequest::RESPONSE_TIME_FIRST | SyncRequest::ADDRESS | SyncRequest::MODE_SET;
                sync = Some(SyncRequest {
                    control,
                    response_time_first_ns: cn.chain_ns as u32,
                    address: cn.address.unwrap_or_default(),
                    ..SyncRequest::default()
                });
            }
        }
        match by {
            By::Soa => self.send_soa(service, target, flags, sync, outbox),
            By::AInv => self.send_ainv(service, target, flags, outbox),
        }
        if target == node::MN {
            let sent = match service {
                RequestedService::NMT_REQUEST_INVITE => {
                    self.urgent.pop(|frame| outbox.send(frame, None))
                }
                _ => self.send_waiting(now_ns, outbox),
            };
            self.statistics.asynchronous_sent += u64::from(sent);
        }
    }

    fn choose(&mut self, now_ns: u64, by: By) -> Invitation {
        let of = |service, target| Invitation { service, target };
        // At the beginning all nodes hear that there is a managing node, before one is asked.
        if self.state == NmtState::PRE_OPERATIONAL_1 && self.soa_count < 10 {
            return of(RequestedService::NO_SERVICE, node::INVALID);
        }
        if self.urgent.len() > 0 {
            return of(RequestedService::NMT_REQUEST_INVITE, node::MN);
        }
        if let Some(target) = self.requesting(by, |priority| priority == 7) {
            return of(RequestedService::NMT_REQUEST_INVITE, target);
        }
        for turn in 0..3 {
            let chosen = match (self.turn + turn) % 3 {
                // Whoever is asked for its identity may not know AInv.
                0 if by == By::AInv => None,
                0 => self.choose_ident(now_ns),
                1 => self.choose_status(now_ns, by),
                _ => self.choose_generic(by),
            };
            if let Some((service, target)) = chosen {
                self.turn = (self.turn + turn + 1) % 3;
                return of(service, target);
            }
        }
        of(RequestedService::NO_SERVICE, node::INVALID)
    }

    /// Returns the index of the next node, in turns, that `wanted` accepts.
    fn next_in_turn(&mut self, wanted: impl Fn(&super::Cn, &SdoServer) -> bool) -> Option<usize> {
        let count = self.nodes.len();
        let order = (1..=count).map(|step| (self.round + step) % count);
        let found = order.into_iter().find(|&at| {
            self.nodes
                .get(at)
                .is_some_and(|cn| wanted(cn, &self.server))
        })?;
        self.round = found;
        Some(found)
    }

    fn requesting(&mut self, by: By, priority: impl Fn(u8) -> bool) -> Option<u8> {
        let at = self.next_in_turn(|cn, _| {
            cn.request.pending > 0 && by.reaches(cn) && priority(cn.request.priority)
        })?;
        let cn = self.nodes.get_mut(at)?;
        // The next response reports the number that wait then.
        cn.request.pending -= 1;
        Some(cn.number)
    }

    fn choose_ident(&mut self, now_ns: u64) -> Option<(RequestedService, u8)> {
        let at = self.next_in_turn(|cn, _| cn.boot == Boot::Search && cn.ident_due_ns <= now_ns)?;
        let cn = self.nodes.get_mut(at)?;
        cn.ident_tries = cn.ident_tries.saturating_add(1);
        cn.ident_due_ns = now_ns + IDENT_INTERVAL_NS;
        Some((RequestedService::IDENT_REQUEST, cn.number))
    }

    fn choose_status(&mut self, now_ns: u64, by: By) -> Option<(RequestedService, u8)> {
        let reduced = self.state == NmtState::PRE_OPERATIONAL_1;
        let at = self.next_in_turn(|cn, _| {
            let told_by_responses = cn.responded && !reduced;
            let due = cn.status_due_ns <= now_ns;
            // An AInv has no settings of PollResponse chaining.
            let fits = by.reaches(cn) && (by == By::Soa || cn.boot != Boot::Sync);
            let present = cn.boot > Boot::Search;
            present && fits && due && (cn.status_wanted || !told_by_responses)
        })?;
        if !self.status_in_time(now_ns, at) {
            return None;
        }
        let cn = self.nodes.get_mut(at)?;
        if cn.boot == Boot::Sync {
            cn.status_due_ns = now_ns + STATUS_INTERVAL_NS;
            return Some((RequestedService::SYNC_REQUEST, cn.number));
        }
        let slow = cn.is_slow();
        // An answer makes it sooner.
        cn.status_due_ns = now_ns
            + if slow {
                STATUS_SLOW_NS
            } else {
                STATUS_PATIENCE_NS
            };
        cn.status_asked = true;
        Some((RequestedService::STATUS_REQUEST, cn.number))
    }

    /// Counts an unanswered status request as lost once the node would be asked again. Until then a slow node may
    /// answer, even behind its slot. Returns true where the node is still there.
    fn status_in_time(&mut self, now_ns: u64, at: usize) -> bool {
        let Some(cn) = self.nodes.get_mut(at) else {
            return false;
        };
        let node = cn.number;
        if !core::mem::take(&mut cn.status_asked) || !cn.status_lost.error() {
            return true;
        }
        // Just identified, and gone: it is in the midst of a reset, and needs no command for one.
        if cn.boot == Boot::Clear {
            self.search_behind_reset(now_ns, node);
            return false;
        }
        self.fault(node, ErrorCode::NO_STATUS);
        self.lose(now_ns, node, LostReason::Status);
        false
    }

    fn choose_generic(&mut self, by: By) -> Option<(RequestedService, u8)> {
        let invite = RequestedService::UNSPECIFIED_INVITE;
        let own = self.generic.len() + self.server.frames_waiting(true);
        let jobs = self.nodes.iter().any(|cn| cn.asks(&self.server));
        let asking = |cn: &&super::Cn| cn.request.pending > 0 && by.reaches(cn);
        let highest = self.nodes.iter().filter(asking);
        let highest = highest.map(|cn| cn.request.priority).max();
        // Own frames and those of others take turns.
        let own_first = self.soa_count % 2 == 0;
        if (own > 0 || jobs) && (own_first || highest.is_none()) {
            return Some((invite, node::MN));
        }
        let highest = highest?;
        let target = self.requesting(by, |priority| priority == highest)?;
        Some((invite, target))
    }

    /// Sends one frame of service data, or an ordinary one. Returns true where there was one.
    fn send_waiting(&mut self, now_ns: u64, outbox: &mut dyn Outbox) -> bool {
        let address = self.config.address;
        let mut frame = [0; super::FRAME_OCTETS];
        let mut octets = 0;
        let mut write = |destination: u8, sdo: &rtwire_wire::powerlink::Sdo<'_>| {
            let packet = Packet {
                destination_address: multicast::ASND,
                source_address: address,
                destination,
                source: node::MN,
                message: Message::Asnd(Asnd::Sdo(*sdo)),
            };
            if let Ok(length) = packet.emit(&mut frame) {
                octets = pad(&mut frame, length, MINIMUM_OCTETS);
            }
        };
        let ordinary_first = self.generic.len() > 0 && self.soa_count % 4 < 2;
        if !ordinary_first {
            let at = self.next_in_turn(|cn, server| cn.asks(server));
            if let Some(cn) = at.and_then(|at| self.nodes.get_mut(at)) {
                let number = cn.number;
                cn.client.next_frame(now_ns, &mut |sdo| write(number, sdo));
            } else {
                self.server.next_frame(now_ns, true, &mut |peer, sdo| {
                    if let Peer::Node(number) = peer {
                        write(number, sdo);
                    }
                });
            }
            if octets > 0 {
                outbox.send(frame.get(..octets).unwrap_or_default(), None);
                return true;
            }
        }
        self.generic.pop(|frame| outbox.send(frame, None))
    }
}
