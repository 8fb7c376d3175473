//! The cycle: SoC on a grid, requests and responses, SoA, the asynchronous slot (DS 301, 4.2.4.6).

use super::schedule::Invitation;
use super::{Cn, ManagingNode};
use crate::{ErrorCode, LostReason};
use rtwire_wire::powerlink::{MINIMUM_OCTETS, NmtState, RequestedService, node};
use rtwire_wire::{Action, Outbox};

/// The least pause between a SoC with launch time and the first request, ns. Object 1F8Ah/1 may set a longer one. The
/// queue may send the SoC at the last moment.
const BEHIND_LAUNCH_NS: u64 = 10_000;
/// The most asynchronous slots of a cycle: two frames each, of which an outbox has to take all at once.
pub(super) const MOST_SLOTS: u64 = 64;
/// The time of one byte at 100 Mbit/s, ns.
const OCTET_NS: u64 = 80;
/// Preamble, check sequence and gap of a frame, bytes.
const GAP_OCTETS: u64 = 24;

/// The state of the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No cycle runs.
    Off,
    /// Listens for another managing node.
    Listen { until_ns: u64 },
    /// The reduced cycle, until the next SoA.
    Reduced { at_ns: u64 },
    /// The reduced cycle, until an answer arrives.
    ReducedAnswer {
        invited: Invitation,
        deadline_ns: u64,
    },
    /// The end of the cycle, until the next SoC.
    WaitSoc,
    /// The pause between the SoC and the first request.
    WaitFirst { at_ns: u64 },
    /// The wait for a response.
    WaitResponse {
        at: usize,
        deadline_ns: u64,
        /// True where the node was stalled, and looks once more for the response.
        grace: bool,
    },
    /// The wait for the responses of PollResponse chaining.
    WaitChain { deadline_ns: u64 },
    /// The asynchronous slot of another node.
    WaitAsync { invited: Invitation },
}

impl ManagingNode {
    /// Returns the time at which the phase ends, if nothing else ends it.
    pub(super) fn phase_deadline_ns(&self) -> Option<u64> {
        let soc_ns = self.next_soc_ns.saturating_sub(self.timing.lead_ns);
        Some(match self.phase {
            Phase::Off => return None,
            Phase::Listen { until_ns } => until_ns,
            Phase::Reduced { at_ns } => at_ns,
            Phase::ReducedAnswer { deadline_ns, .. } => deadline_ns,
            Phase::WaitSoc | Phase::WaitAsync { .. } => soc_ns,
            Phase::WaitFirst { at_ns } => at_ns,
            Phase::WaitResponse { deadline_ns, .. } | Phase::WaitChain { deadline_ns } => {
                deadline_ns
            }
        })
    }

    /// Ends the phase whose time is over.
    pub(super) fn time(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        let Some(due_ns) = self.phase_deadline_ns().filter(|&due| now_ns >= due) else {
            return;
        };
        let late_ns = now_ns - due_ns;
        match self.phase {
            Phase::Off => {}
            Phase::Listen { .. } => self.enter_reduced(now_ns),
            Phase::Reduced { .. } => self.reduced(now_ns, outbox),
            Phase::ReducedAnswer { invited, .. } => {
                self.unanswered(invited);
                self.reduced(now_ns, outbox);
            }
            Phase::WaitSoc => self.soc(now_ns, outbox),
            Phase::WaitAsync { invited } => {
                self.unanswered(invited);
                self.soc(now_ns, outbox);
            }
            Phase::WaitFirst { .. } => {
                self.was_stalled(late_ns);
                self.poll(now_ns, 0, outbox);
            }
            Phase::WaitResponse { at, grace, .. } => {
                let timeout = self.polls.get(at).map_or(0, |poll| poll.timeout_ns);
                if !grace && self.was_stalled(late_ns) {
                    // The response may lie unread: look once more before it counts as lost. The network would not
                    // have taken this time either.
                    self.stalled_ns += timeout;
                    self.phase = Phase::WaitResponse {
                        at,
                        deadline_ns: now_ns + timeout,
                        grace: true,
                    };
                    return;
                }
                self.miss(now_ns, at);
                self.poll(now_ns, at + 1, outbox);
            }
            Phase::WaitChain { .. } => {
                self.miss_chained(now_ns);
                self.finish(now_ns, outbox);
            }
        }
    }

    /// Returns true where a wake-up this late means that the node itself was stalled. Shorter delays are added up,
    /// too: a cycle that they make too long is not the network's error.
    pub(super) fn was_stalled(&mut self, late_ns: u64) -> bool {
        let stalled = late_ns > self.timing.cycle_ns / 2;
        self.stalled_ns += late_ns;
        if stalled {
            self.statistics.own_stalls += 1;
            self.statistics.worst_stall_ns = self.statistics.worst_stall_ns.max(late_ns);
        }
        stalled
    }

    /// Notes that this program stood still for longer than the watchdog allows. Returns true where it did.
    fn look_for_stop(&mut self, late_ns: u64) -> bool {
        let watchdog_ns = self.timing.watchdog_ns;
        let stopped = watchdog_ns > 0 && late_ns > watchdog_ns;
        if stopped && !core::mem::replace(&mut self.lapsed, true) {
            self.statistics.lapses += 1;
            self.fault(node::MN, ErrorCode::PROGRAM_STOOD_STILL);
        }
        stopped
    }

    /// Tells the time at which the next frame is read, ns, before [`Node::frame`](rtwire_wire::Node::frame) is called with its
    /// time of arrival. Where it is not told, frames count as read when they arrive.
    pub const fn reads_at(&mut self, now_ns: u64) {
        self.read_ns = now_ns;
    }

    /// Judges whether the node was stalled while it sent frames, and extends the deadline by the stall.
    ///
    /// Sending takes time by itself: over a veth it includes the answers of eight nodes. So only a time beyond four times the
    /// usual one is a stall. Shorter excess is added up as in [`was_stalled`](Self::was_stalled). The usual time is learnt, for
    /// requests and for all others; a network that is always slow is not excused for long.
    pub(super) fn stalled_in_sending(&mut self, took_ns: u64) {
        const LEAST_NS: u64 = 20_000;
        let requests = matches!(
            self.phase,
            Phase::WaitFirst { .. } | Phase::WaitResponse { .. } | Phase::WaitChain { .. }
        );
        let [others_ns, requests_ns] = &mut self.usual_sending_ns;
        let usual_ns = if requests { requests_ns } else { others_ns };
        let most_ns = 4 * *usual_ns + LEAST_NS;
        let stalled_ns = took_ns.saturating_sub(*usual_ns);
        *usual_ns = (15 * *usual_ns + took_ns.min(most_ns)) / 16;
        if took_ns <= most_ns {
            self.stalled_ns += stalled_ns;
            return;
        }
        self.was_stalled(stalled_ns);
        if let Phase::WaitResponse { deadline_ns, .. } | Phase::WaitChain { deadline_ns } =
            &mut self.phase
        {
            *deadline_ns += stalled_ns;
        }
    }

    pub(super) fn reduced(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        self.advance(now_ns);
        if self.state != NmtState::PRE_OPERATIONAL_1 {
            return;
        }
        let invited = self.asynchronous_phase(now_ns, outbox);
        self.phase = Phase::ReducedAnswer {
            invited,
            deadline_ns: now_ns + self.timing.async_timeout_ns,
        };
    }

    /// Ends the slot of the invited node: it has sent, or another one has. The next SoA of the reduced cycle need not wait. In a
    /// cycle the next slot may follow where `by_invited`; any other frame says that the medium is not free.
    pub(super) fn answered(&mut self, now_ns: u64, by_invited: bool, outbox: &mut dyn Outbox) {
        match self.phase {
            Phase::ReducedAnswer { .. } => self.phase = Phase::Reduced { at_ns: now_ns },
            Phase::WaitAsync { .. } if by_invited => {
                self.next_slots(now_ns.max(self.read_ns), outbox);
            }
            Phase::WaitAsync { .. } => self.phase = Phase::WaitSoc,
            _ => {}
        }
    }

    /// Returns the node that the running slot is for.
    pub(super) const fn invited(&self) -> Option<u8> {
        match self.phase {
            Phase::WaitAsync { invited } | Phase::ReducedAnswer { invited, .. } => {
                Some(invited.target)
            }
            _ => None,
        }
    }

    /// Opens further asynchronous slots from `free_ns` on, as far as the cycle has time and slots left. Own frames follow each
    /// other; the slot of another node is the last one until it has answered.
    fn next_slots(&mut self, mut free_ns: u64, outbox: &mut dyn Outbox) {
        self.phase = Phase::WaitSoc;
        let own_ns = self.own_slot_ns();
        let latency_ns = self.timing.async_timeout_ns.min(self.timing.cycle_ns / 4);
        let slot_ns = own_ns + latency_ns;
        let end_ns = self.next_soc_ns.saturating_sub(self.timing.lead_ns);
        while self.slots_left > 0 && free_ns + slot_ns <= end_ns {
            self.slots_left -= 1;
            let Some(invited) = self.invite_again(free_ns, outbox) else {
                return;
            };
            if invited.target != node::MN {
                self.phase = Phase::WaitAsync { invited };
                return;
            }
            free_ns += own_ns;
        }
    }

    /// Returns the time of an invitation and of the longest frame behind it, ns.
    const fn own_slot_ns(&self) -> u64 {
        (MINIMUM_OCTETS as u64 + self.timing.mtu as u64 + 18 + 2 * GAP_OCTETS) * OCTET_NS
    }

    fn unanswered(&mut self, invited: Invitation) {
        if invited.target == node::MN || invited.service == RequestedService::NO_SERVICE {
            return;
        }
        self.statistics.invitations_unused += 1;
    }

    fn soc(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        let cycle_ns = self.timing.cycle_ns;
        let lead_ns = self.timing.lead_ns;
        let late_ns = now_ns.saturating_sub(self.next_soc_ns.saturating_sub(lead_ns));
        self.look_for_stop(late_ns);
        // Too late for this one: take the next that can still be sent at its time. Never a burst to catch up.
        if late_ns >= cycle_ns {
            let to_next = late_ns.div_ceil(cycle_ns);
            let silent_ns = self.next_soc_ns + to_next * cycle_ns - self.last_soc_ns;
            // Where the nodes would be without a SoC for too long until then, this cycle gets its SoC late: nobody
            // knows whether this node is awake at the next.
            let waits = silent_ns <= cycle_ns + self.timing.bearable_ns / 2;
            let skipped = if waits { to_next } else { late_ns / cycle_ns };
            self.was_stalled(late_ns);
            self.statistics.skipped_cycles += skipped;
            self.next_soc_ns += skipped * cycle_ns;
            self.phase = Phase::WaitSoc;
            self.stall_over(now_ns, late_ns);
            if waits || self.phase != Phase::WaitSoc {
                return;
            }
        }
        let at_ns = self.next_soc_ns;
        // The SoC's delay is missing in its cycle.
        self.stalled_ns = now_ns.saturating_sub(at_ns);
        self.next_soc_ns += cycle_ns;
        self.last_soc_ns = now_ns.max(at_ns);
        self.advance(now_ns);
        if core::mem::replace(&mut self.cycle_good, true) {
            self.counters.good();
            self.recover();
        }
        self.statistics.cycles += 1;
        self.image.begin_cycle(self.statistics.cycles);
        self.count_slots();
        if core::mem::take(&mut self.lapsed) {
            self.freshness.lapse();
            self.image.forget_inputs();
        }
        self.freshness.catch_up(self.statistics.cycles);
        self.prepare_polls();
        self.announce_polls(outbox);
        self.send_soc(at_ns, outbox);
        let wait_ns = self.timing.wait_preq_ns;
        if lead_ns > 0 {
            // The cycle begins when the SoC leaves.
            self.phase = Phase::WaitFirst {
                at_ns: now_ns.max(at_ns) + wait_ns.max(BEHIND_LAUNCH_NS),
            };
        } else if wait_ns > 0 {
            self.phase = Phase::WaitFirst {
                at_ns: now_ns + wait_ns,
            };
        } else {
            self.poll(now_ns, 0, outbox);
        }
    }

    fn count_slots(&mut self) {
        let cycles = self.timing.multiplexed_cycles;
        if cycles > 0 {
            self.multiplexed_slot += 1;
            if self.multiplexed_slot > cycles {
                self.multiplexed_slot = 1;
                self.multiplexed_flag = !self.multiplexed_flag;
            }
        }
        if self.timing.prescaler > 0 {
            self.prescaled += 1;
            if self.prescaled >= self.timing.prescaler {
                self.prescaled = 0;
                self.prescaled_flag = !self.prescaled_flag;
            }
        }
    }

    /// Ends a stall that was longer than a cycle. A stall that the nodes tolerate is counted, and is no error. A
    /// longer one is one error of 1C02h, regardless of the number of cycles.
    fn stall_over(&mut self, now_ns: u64, late_ns: u64) {
        self.stalled_ns = 0;
        if late_ns > self.timing.bearable_ns {
            self.exceed(now_ns);
        } else {
            self.cycle_good = false;
        }
    }

    /// Counts a cycle that took longer than its time.
    pub(super) fn exceed(&mut self, now_ns: u64) {
        self.cycle_good = false;
        if self.counters.exceeded.error() {
            self.cycle_error(now_ns, ErrorCode::CYCLE_EXCEEDED_TOO_OFTEN);
        }
    }

    /// Asks the node of the request at `at`, or the first one behind it that still takes part. Ends the requests where there is
    /// none.
    pub(super) fn poll(&mut self, now_ns: u64, at: usize, outbox: &mut dyn Outbox) {
        // The requests that are left were prepared before a long stall.
        let seen_ns = now_ns.max(self.read_ns);
        if self.look_for_stop(seen_ns.saturating_sub(self.last_soc_ns)) {
            self.finish(seen_ns, outbox);
            return;
        }
        let takes_part = |at: &usize| {
            let cn = self.polls.get(*at).and_then(|poll| self.cn(poll.node));
            cn.is_some_and(Cn::isochronous)
        };
        let next = (at..self.poll_count).find(takes_part);
        let Some((at, poll)) = next.and_then(|at| Some((at, self.polls.get(at)?))) else {
            self.chained_or_finish(now_ns, outbox);
            return;
        };
        // A request that the driver has sent left as the response came; any other one leaves now.
        let slot = self.slot(at);
        let has_left = slot.is_some_and(|slot| outbox.has_left(slot));
        let now_ns = if has_left { now_ns } else { seen_ns };
        match slot {
            Some(slot) => outbox.act(Action::Due {
                slot,
                frame: &poll.frame,
                launch_ns: None,
            }),
            None => outbox.send(&poll.frame, None),
        }
        let (number, timeout_ns) = (poll.node, poll.timeout_ns);
        self.statistics.requests += 1;
        if let Some(cn) = self.cn_mut(number) {
            cn.requested_ns = now_ns;
        }
        self.phase = Phase::WaitResponse {
            at,
            deadline_ns: now_ns + timeout_ns,
            grace: false,
        };
    }

    fn chained_or_finish(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        if self.own_response {
            self.send_response(outbox);
        }
        let chained = self.nodes.iter_mut().filter(|cn| cn.chained && cn.polled);
        let mut last_ns = None;
        for cn in chained {
            cn.requested_ns = now_ns;
            last_ns = last_ns.max(Some(cn.chain_ns + cn.timeout_ns));
        }
        match last_ns {
            Some(last_ns) => {
                self.phase = Phase::WaitChain {
                    deadline_ns: now_ns + last_ns,
                };
            }
            None => self.finish(now_ns, outbox),
        }
    }

    /// Ends the isochronous phase.
    pub(super) fn finish(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        // A phase that lasts into the next SoC's lead is in time: that SoC is handed over late, or leaves at its time
        // all the same.
        if now_ns >= self.next_soc_ns {
            // It took longer than its time: nobody gets the asynchronous phase, and the SoC skips to the newest cycle.
            self.phase = Phase::WaitSoc;
            let late_ns = now_ns.saturating_sub(self.next_soc_ns);
            if core::mem::take(&mut self.stalled_ns) > late_ns {
                self.stall_over(now_ns, late_ns);
            } else {
                self.exceed(now_ns);
            }
            if self.phase == Phase::WaitSoc {
                // The SoA is sent all the same: the nodes, which wait for it, would count it as lost.
                self.send_soa(
                    RequestedService::NO_SERVICE,
                    node::INVALID,
                    [false; 2],
                    None,
                    outbox,
                );
                let late_ns = now_ns - self.next_soc_ns.min(now_ns);
                let skipped = late_ns / self.timing.cycle_ns + 1;
                self.statistics.skipped_cycles += skipped;
                self.next_soc_ns += skipped * self.timing.cycle_ns;
            }
            return;
        }
        self.slots_left = self.timing.async_slots - 1;
        let invited = self.asynchronous_phase(now_ns, outbox);
        if invited.service == RequestedService::NO_SERVICE {
            self.phase = Phase::WaitSoc;
        } else if invited.target == node::MN {
            let seen_ns = now_ns.max(self.read_ns);
            self.next_slots(seen_ns + self.own_slot_ns(), outbox);
        } else {
            self.phase = Phase::WaitAsync { invited };
        }
    }

    /// Counts the response to the request at `at` as missing.
    pub(super) fn miss(&mut self, now_ns: u64, at: usize) {
        let number = self.polls.get(at).map_or(node::INVALID, |poll| poll.node);
        let Some(cn) = self.cn_mut(number) else {
            return;
        };
        cn.requested_ns = 0;
        // Before its first response a node need not have heard the SoC that lets it respond.
        if !cn.responded {
            return;
        }
        let lost = cn.lost.error();
        self.statistics.lost_responses += 1;
        if lost {
            self.fault(number, ErrorCode::LOSS_OF_PRES);
            self.lose(now_ns, number, LostReason::Responses);
        }
    }

    fn miss_chained(&mut self, now_ns: u64) {
        let missing =
            |cn: &&super::Cn| cn.chained && cn.polled && cn.responded && cn.requested_ns != 0;
        let all: Vec<u8> = self
            .nodes
            .iter()
            .filter(missing)
            .map(|cn| cn.number)
            .collect();
        for number in all {
            let lost = self.cn_mut(number).is_some_and(|cn| cn.lost.error());
            self.statistics.lost_responses += 1;
            if lost {
                self.fault(number, ErrorCode::LOSS_OF_PRES);
                self.lose(now_ns, number, LostReason::Responses);
            }
        }
    }
}
