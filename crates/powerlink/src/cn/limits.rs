//! The limits of a controlled node. It does not answer requests that are too old, and none of others than its managing node. It is
//! silent behind a reset. It shows no data as valid that a program left behind which stood still.

use super::{ControlledNode, Dll};
use crate::{ErrorCode, prepared};
use rtwire_wire::powerlink::{Asnd, Message, NmtCommandId, Packet, node};
use rtwire_wire::{MacAddress, Outbox};

/// The age from which a request counts as late where no cycle is known, ns.
const LATE_WITHOUT_CYCLE_NS: u64 = 100_000_000;
/// The watchdog's cycles where it has a least time, and no cycle is known.
const WATCHDOG_BLIND: u64 = 10;
/// The cycles without a frame of the known managing node after which another address may take its number.
const SILENT_CYCLES: u64 = 3;

/// Time limits of a controlled node that no object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The silence after each reset, ns; 600 ms by default. The node takes and answers nothing meanwhile. Some managing nodes do
    /// not survive an answer to their first requests. Their own nodes are silent for 500 to 750 ms.
    pub silence_ns: u64,
    /// The cycles for which a program that stands still counts as running; 0: no limit. Frames that are read later than that make
    /// the data in the PRes invalid (RD = 0). They are valid again once the application had its turn in a cycle that was read in
    /// time.
    pub watchdog_cycles: u32,
    /// The least time that those cycles last, ns: where the configured cycle is shorter, more of them count. 0: never more.
    pub watchdog_least_ns: u64,
    /// The longest time from the arrival of a PReq to its PRes, ns. A PReq that is read later is dropped and counted. `None`:
    /// until its cycle is over.
    pub answer_within_ns: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            silence_ns: 600_000_000,
            watchdog_cycles: 10,
            watchdog_least_ns: 0,
            answer_within_ns: None,
        }
    }
}

impl Limits {
    /// Returns the watchdog's cycles for a cycle of this length in ns; 0: no limit. `cycle_ns` is 0 where no cycle is known.
    #[must_use]
    pub const fn watchdog_of(&self, cycle_ns: u64) -> u32 {
        let cycles = self.watchdog_cycles;
        if cycles == 0 || self.watchdog_least_ns == 0 {
            return cycles;
        }
        let least = if cycle_ns == 0 {
            WATCHDOG_BLIND
        } else {
            self.watchdog_least_ns.div_ceil(cycle_ns)
        };
        if least > u32::MAX as u64 {
            u32::MAX
        } else if (cycles as u64) < least {
            least as u32
        } else {
            cycles
        }
    }
}

impl ControlledNode {
    /// Tells the time at which the next frame is read, ns, before [`Node::frame`](rtwire_wire::Node::frame) is called with its
    /// time of arrival. Where it is not told, frames count as read when they arrive.
    pub const fn reads_at(&mut self, now_ns: u64) {
        self.read_ns = now_ns;
    }

    /// Returns the cycles for which a program that stands still counts as running; 0: no limit. They follow the cycle time in object
    /// 1006h, as each reset takes it; without one they follow the observed cycle. Before [`Node::start`](rtwire_wire::Node::start) there are none.
    #[must_use]
    pub const fn watchdog_cycles(&self) -> u32 {
        self.timing.watchdog_cycles
    }

    /// Takes the watchdog's cycles from the observed cycle, where none is configured. Small changes change nothing.
    pub(super) const fn judge_seen_cycle(&mut self) {
        let seen_ns = self.seen_cycle_ns;
        if self.timing.cycle_ns == 0 && seen_ns.abs_diff(self.judged_cycle_ns) > seen_ns / 4 {
            self.judged_cycle_ns = seen_ns;
            self.timing.watchdog_cycles = self.limits.watchdog_of(seen_ns);
        }
    }

    /// Returns the time for which the frame that arrived at `now_ns` has lain unread, ns.
    const fn age_ns(&self, now_ns: u64) -> u64 {
        self.read_ns.saturating_sub(now_ns)
    }

    /// Returns true in the silence after a reset.
    pub(super) const fn is_silent(&self, now_ns: u64) -> bool {
        now_ns < self.silent_until_ns
    }

    /// Obeys a reset in the silence behind one: the silence begins anew. A managing node that has just started finds no node that
    /// answers it too early.
    pub(super) fn reset_again(&mut self, now_ns: u64, packet: &Packet<'_>) {
        let for_me = [self.node, node::BROADCAST].contains(&packet.destination);
        let Message::Asnd(Asnd::NmtCommand(command)) = packet.message else {
            return;
        };
        let resets = matches!(
            command.command.plain(),
            NmtCommandId::SW_RESET
                | NmtCommandId::RESET_NODE
                | NmtCommandId::RESET_COMMUNICATION
                | NmtCommandId::RESET_CONFIGURATION
        );
        if for_me && packet.source == node::MN && self.is_addressed(&command) && resets {
            self.command(now_ns, command.command);
        }
    }

    /// Returns true where an answer to the request that arrived at `now_ns` would come too late. The request is then dropped and
    /// counted. What the driver has answered already is not late.
    pub(super) fn is_late(
        &mut self,
        now_ns: u64,
        limit_ns: Option<u64>,
        outbox: &dyn Outbox,
    ) -> bool {
        let age_ns = self.age_ns(now_ns);
        let cycle_ns = self.watched_cycle_ns();
        let late = match (limit_ns, self.dll) {
            (Some(limit_ns), _) => age_ns > limit_ns,
            // Its slot ends with its cycle at the latest.
            (None, dll) if dll != Dll::NonCyclic && cycle_ns > 0 => {
                let end_ns = self.last_soc_ns + cycle_ns;
                // Behind a lost SoC nobody knows when the cycle began.
                let left_ns = if end_ns > now_ns {
                    end_ns - now_ns
                } else {
                    cycle_ns
                };
                age_ns > left_ns
            }
            (None, _) => age_ns > LATE_WITHOUT_CYCLE_NS,
        };
        let late = late && !outbox.has_left(prepared::RESPONSE);
        self.statistics.stale_requests += u64::from(late);
        late
    }

    /// Notes that this program stood still for longer than the watchdog allows, where the frame is that old.
    pub(super) fn look_for_stop(&mut self, now_ns: u64) {
        let cycle_ns = self.watched_cycle_ns();
        let watchdog_ns = cycle_ns.saturating_mul(self.timing.watchdog_cycles.into());
        if watchdog_ns == 0 || self.age_ns(now_ns) <= watchdog_ns || !self.cyclic() {
            return;
        }
        self.image.forget_inputs();
        if self.freshness.lapse() {
            self.statistics.lapses += 1;
            self.fault(now_ns, ErrorCode::PROGRAM_STOOD_STILL);
            self.prepare_pres();
        }
    }

    /// Takes a SoC that may be the first one read in time again.
    pub(super) const fn look_for_return(&mut self, now_ns: u64) {
        if self.age_ns(now_ns) <= self.watched_cycle_ns() {
            self.freshness.catch_up(self.statistics.cycles);
        }
    }

    /// Returns true for a frame that only the managing node may send, from somebody else. It is then refused and counted.
    pub(super) fn is_foreign(&mut self, now_ns: u64, packet: &Packet<'_>) -> bool {
        let (source, from) = (packet.source, packet.source_address);
        let for_me = [self.node, node::BROADCAST].contains(&packet.destination);
        match packet.message {
            Message::Soc(_) | Message::Soa(_) => {
                source == node::MN && !self.hear_managing(now_ns, from)
            }
            Message::PReq(_) => packet.destination == self.node && !self.is_managing(source, from),
            // PollResponse chaining: a request to all, and data.
            Message::PRes(_) => source == node::MN && !self.is_managing(source, from),
            Message::AInv(soa) => soa.target == self.node && !self.is_managing(source, from),
            Message::Asnd(Asnd::NmtCommand(_)) => for_me && !self.is_managing(source, from),
            _ => false,
        }
    }

    /// Takes the address of a SoC or SoA of node 240. Returns false for one that is not the managing node's: while that one is
    /// heard, no other address takes its place.
    fn hear_managing(&mut self, now_ns: u64, from: MacAddress) -> bool {
        let cycle_ns = self.watched_cycle_ns();
        let silent_ns = SILENT_CYCLES * cycle_ns + self.timing.tolerance_ns;
        let alive = self.dll != Dll::NonCyclic
            && cycle_ns > 0
            && now_ns.saturating_sub(self.managing_heard_ns) <= silent_ns;
        if alive && self.managing_address.is_some_and(|known| known != from) {
            self.statistics.foreign_requests += 1;
            return false;
        }
        self.managing_address = Some(from);
        self.managing_heard_ns = now_ns;
        true
    }

    /// Returns true where a frame of this number and address is the managing node's. Counts it otherwise.
    fn is_managing(&mut self, source: u8, from: MacAddress) -> bool {
        let known = self.managing_address.is_none_or(|known| known == from);
        let is = source == node::MN && known;
        self.statistics.foreign_requests += u64::from(!is);
        is
    }

    /// Returns the managing node's address; `None` before it is heard.
    #[must_use]
    pub const fn managing_address(&self) -> Option<MacAddress> {
        self.managing_address
    }
}
