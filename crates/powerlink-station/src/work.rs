//! The application's turn after each call of the node: the control loop, requests of other threads, events.

use crate::datagrams::Datagrams;
use crate::driver::StationPort;
use crate::ethernet::Ethernet;
use crate::handle::{Inner, Request, SdoReply};
use crate::io::Io;
use crate::kind::{Key, Kind};
use crate::launch::Told;
use crate::snapshot::{EVENTS, Noted, Texts};
use crate::status::{SocLaunchStatus, words};
use crate::store::Store;
use crate::watch::Watch;
use core::ops::Range;
use rtwire_link::run::{Port as _, RunStatistics};
use rtwire_powerlink::{Event, LostReason, NodeEvent};
use rtwire_wire::powerlink::NmtState;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// The optional parts of a station.
pub(crate) struct Beside<'a> {
    pub(crate) ethernet: Option<&'a mut Ethernet>,
    pub(crate) datagrams: Option<&'a mut Datagrams>,
    pub(crate) watch: Option<&'a mut Watch>,
    pub(crate) store: Option<&'a mut Store>,
}

/// The turns in which questions for the state are answered: not behind a SoC, since a PReq is on its way then. Most questions
/// come while the loop waits for the next cycle, so the next turn is that of a SoC.
#[derive(Debug, Default)]
struct Answers {
    /// True if the turn before was left out. Then this one is not.
    put_off: bool,
}

impl Answers {
    /// Returns true if a question that waits is to be answered in this turn. `begins` tells a turn in which a cycle begins.
    fn now(&mut self, begins: bool) -> bool {
        self.put_off = begins && !self.put_off;
        !self.put_off
    }
}

/// The work after each call of the node.
pub(crate) struct Work<'a> {
    pub(crate) inner: Inner,
    cycles: u64,
    /// The newest events.
    events: VecDeque<Noted>,
    left_operational: u64,
    answers: Answers,
    points: &'a mut Vec<(Key, Range<usize>)>,
    beside: Beside<'a>,
    /// The node and number of the job whose outcome is waited for. An older job may still end after it.
    asked: Option<(u8, u32)>,
    /// The number of times that each node was taken for lost.
    times_lost: Box<[u64; 256]>,
    /// SoC that a launch queue or the module `uman` has dropped; `None` where there are no launch times.
    dropped: Option<&'a AtomicU64>,
    told: Told,
}

impl<'a> Work<'a> {
    pub(crate) fn new(
        inner: Inner,
        texts: Texts,
        points: &'a mut Vec<(Key, Range<usize>)>,
        beside: Beside<'a>,
    ) -> Self {
        // They are the same in each run.
        let _ = inner.texts.set(texts);
        Self {
            inner,
            cycles: 0,
            events: VecDeque::with_capacity(EVENTS),
            left_operational: 0,
            answers: Answers::default(),
            points,
            beside,
            asked: None,
            times_lost: Box::new([0; 256]),
            dropped: None,
            told: Told::default(),
        }
    }

    /// Reports SoC that leave by launch time. `dropped` counts those that their queue has dropped.
    pub(crate) fn launches(&mut self, dropped: &'a AtomicU64) {
        self.dropped = Some(dropped);
    }

    pub(crate) fn after(
        &mut self,
        kind: &mut Kind,
        port: &mut StationPort,
        run: &RunStatistics,
        now_ns: u64,
        control: &mut impl FnMut(&mut Io<'_>),
    ) {
        if let Kind::Controlled(node) = &*kind {
            port.set_managing(node.managing_address());
            // The managing node may have written another cycle time.
            port.set_watchdog(node.watchdog_cycles());
        }
        if let Some(seen) = self.beside.watch.as_mut().and_then(|watch| watch.news()) {
            kind.observe(now_ns, &seen);
        }
        while let Some(event) = kind.next_event() {
            self.event(kind, event, now_ns);
        }
        if let (Some(store), Kind::Controlled(node)) = (&mut self.beside.store, &mut *kind) {
            if let Some(news) = store.exchange(node) {
                self.note(now_ns, news);
            }
        }
        if let Some(dropped) = self.dropped {
            if let Some(lost) = port.soc_lost() {
                dropped.store(lost, Ordering::Relaxed);
            }
            let dropped = dropped.load(Ordering::Relaxed);
            if let Some(news) = self.told.news(run.unlaunched, dropped, now_ns) {
                self.note(now_ns, news);
            }
        }
        let statistics = kind.statistics();
        let cycles = statistics.cycles;
        let begins = cycles != self.cycles;
        if begins {
            self.cycles = cycles;
            let missing = kind.missing(&statistics);
            let mut io = Io {
                image: kind.image_mut(),
                points: self.points,
                turn: cycles,
                cycle: cycles,
                now_ns,
                missing,
                own_stalls: statistics.own_stalls,
            };
            control(&mut io);
            let turn = io.turn;
            kind.commit_of(turn);
            self.requests(kind, now_ns);
            if let Some(ethernet) = &mut self.beside.ethernet {
                ethernet.hand_over(|frame| kind.send_ethernet(frame));
            }
        } else if !matches!(kind, Kind::Managing(node) if node.statistics().cycles > 0) {
            // Before there is a cycle, or where it has stopped, requests are taken all the same.
            self.requests(kind, now_ns);
        }
        self.basic_ethernet(kind, port);
        if self.inner.wanted.load(Ordering::Relaxed) {
            let now = self.answers.now(begins);
            if now && self.inner.wanted.swap(false, Ordering::Acquire) {
                self.tell(kind, port, run);
            }
        }
    }

    /// Sends ordinary frames at once in BasicEthernet, where the medium is not shared out.
    fn basic_ethernet(&mut self, kind: &Kind, port: &mut StationPort) {
        let (Kind::Controlled(node), Some(ethernet)) = (kind, &mut self.beside.ethernet) else {
            return;
        };
        if node.state() == NmtState::BASIC_ETHERNET {
            // A frame that the interface does not take is lost, as on any Ethernet.
            ethernet.hand_over(|frame| {
                let _ = port.send(frame);
                true
            });
        }
    }

    fn event(&mut self, kind: &Kind, event: Event, now_ns: u64) {
        match event {
            Event::State { from, .. } if from == NmtState::OPERATIONAL => {
                self.left_operational += 1;
            }
            Event::Node {
                node,
                what: NodeEvent::Lost(reason),
            } if reason != LostReason::Reset => self.times_lost[usize::from(node)] += 1,
            Event::Image => {
                for (key, range) in self.points.iter_mut() {
                    *range = kind.find(*key).unwrap_or(0..0);
                }
            }
            Event::Sdo { node, id, outcome } => {
                if self.asked == Some((node, id)) {
                    let _ = self.inner.outcomes.try_send(SdoReply::Outcome(outcome));
                }
                return;
            }
            _ => {}
        }
        self.note(now_ns, words(&event));
    }

    fn note(&mut self, now_ns: u64, what: String) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((now_ns, what.into()));
    }

    fn requests(&mut self, kind: &mut Kind, now_ns: u64) {
        if let Some(datagrams) = &mut self.beside.datagrams {
            datagrams.exchange(kind, now_ns);
        }
        while let Ok(request) = self.inner.requests.try_recv() {
            match (&mut *kind, request) {
                (Kind::Controlled(node), Request::Nmt(command, target)) => {
                    // Where there is no room, many have been asked for already.
                    let _ = node.request_command(command, target, &[]);
                }
                (Kind::Managing(node), Request::Nmt(command, target)) => {
                    node.nmt(now_ns, command, target);
                }
                (kind, Request::Sdo(target, job)) => {
                    let id = kind.submit(now_ns, target, job);
                    self.asked = id.map(|id| (target, id));
                    if id.is_none() {
                        let _ = self.inner.outcomes.try_send(SdoReply::NoSuchNode);
                    }
                }
            }
        }
    }

    /// Answers a question for the state. Copies numbers, and wakes the thread that asks: one system call.
    #[cold]
    fn tell(&mut self, kind: &Kind, port: &StationPort, run: &RunStatistics) {
        // It is away only while an answer is being read, to a question that was asked before this one.
        let Ok(mut snapshot) = self.inner.empty.try_recv() else {
            return;
        };
        snapshot.take(kind, run, port.counters(), &self.times_lost);
        snapshot.take_events(&self.events);
        snapshot.left_operational = self.left_operational;
        snapshot.tells = self.beside.watch.as_ref().map(|watch| watch.tells());
        snapshot.soc_launch = self.dropped.map(|dropped| SocLaunchStatus {
            handed_over: run.launched,
            by_loop: run.unlaunched,
            dropped: dropped.load(Ordering::Relaxed),
        });
        let _ = self.inner.filled.try_send(snapshot);
    }
}

#[cfg(test)]
mod tests {
    use super::Answers;

    #[test]
    fn an_answer_leaves_out_the_turn_of_a_soc_but_never_two() {
        let mut answers = Answers::default();
        assert!(answers.now(false));
        assert!(!answers.now(true));
        // A network in which nothing follows a SoC is told all the same.
        assert!(answers.now(true));
        assert!(!answers.now(true));
        assert!(answers.now(false));
    }
}
