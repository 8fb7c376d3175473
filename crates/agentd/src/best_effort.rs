//! One-shot reservations of a host's best effort: when to ask for how much, and when to stop. Pure.
//!
//! ```text
//! counts of each class --seen--> BestEffort --Ask--> manager
//!                                    ^                  |
//!                 Set (rate, until) <'----granted-------'
//! ```
//!
//! A reservation's lifetime counts from the moment at which its question was *sent* for the first time, on this host's
//! own clock. So it ends here before it ends at the manager, however long the answer took. It is renewed at half of its
//! lifetime: a lost question has time for others.

use rtwire_manager::Share;

use crate::allowance::Bucket;
use crate::queues::frames_of;

/// The part of a lifetime by which clocks may differ: a thousandth, far more than the drift of any quartz.
const DRIFT: u64 = 1_000;
/// The time of a frame that is still under way between the queue and the wire, ns.
const SAFETY_NS: u64 = 1_000_000;
/// The time over which use is measured, ns.
const WINDOW_NS: u64 = 50_000_000;
/// The pause after a refusal that names none, ns.
const PAUSE_NS: u64 = 20_000_000;

/// A one-shot reservation in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The class with it, and the peer's permanent part.
    pub(crate) limit: Bucket,
    /// The frames that may wait in the class.
    pub(crate) frames: u32,
    /// The moment after which no frame may enter the class, ns.
    pub(crate) until_ns: u64,
}

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Ask the manager for a rate to a peer.
    Ask {
        peer: usize,
        wanted_bytes_per_ms: u32,
    },
    /// The peer's class has its permanent part only.
    Lower { peer: usize },
}

#[derive(Clone, Debug)]
struct Sender {
    permanent: Bucket,
    grant: Option<Grant>,
    renew_ns: u64,
    not_before_ns: u64,
    /// True while a question is open.
    asks: bool,
    /// The counts at the beginning of the window.
    window: Option<(u64, u64)>,
    used_bytes_per_ms: u64,
    /// The moment at which frames waited last, ns.
    waited_ns: Option<u64>,
}

/// The best effort of a host to all its peers.
#[derive(Clone, Debug)]
pub(crate) struct BestEffort {
    link_bytes_per_ms: u32,
    overhead_bytes: u8,
    senders: Vec<Sender>,
}

impl BestEffort {
    /// Returns the state for peers with these permanent parts.
    pub(crate) fn new(
        permanent: impl IntoIterator<Item = Bucket>,
        link_bytes_per_ms: u32,
        overhead_bytes: u8,
    ) -> BestEffort {
        let senders = permanent.into_iter().map(|permanent| Sender {
            permanent,
            grant: None,
            renew_ns: 0,
            not_before_ns: 0,
            asks: false,
            window: None,
            used_bytes_per_ms: 0,
            waited_ns: None,
        });
        BestEffort {
            link_bytes_per_ms,
            overhead_bytes,
            senders: senders.collect(),
        }
    }

    /// Takes the counts of a peer's class: what it has sent since the start (bytes of frames, and frames), and the
    /// frames that wait.
    pub(crate) fn seen(
        &mut self,
        now_ns: u64,
        peer: usize,
        (sent_bytes, sent_frames): (u64, u64),
        waiting_frames: u32,
    ) {
        let overhead = u64::from(self.overhead_bytes);
        let Some(sender) = self.senders.get_mut(peer) else {
            return;
        };
        let sent = sent_bytes + sent_frames * overhead;
        let (since_ns, before) = *sender.window.get_or_insert((now_ns, sent));
        if now_ns.saturating_sub(since_ns) >= WINDOW_NS {
            let ms = (now_ns - since_ns) / 1_000_000;
            sender.used_bytes_per_ms = sent.saturating_sub(before) / ms.max(1);
            sender.window = Some((now_ns, sent));
        }
        // One frame waits also where a class is far from full: it is just being sent.
        if waiting_frames >= 2 {
            sender.waited_ns = Some(now_ns);
        }
    }

    fn wanted(&self, sender: &Sender, now_ns: u64) -> u32 {
        let recently = |then: u64| now_ns.saturating_sub(then) < WINDOW_NS;
        if sender.waited_ns.is_some_and(recently) {
            // Nobody knows what a sender that waits could use.
            return self.link_bytes_per_ms;
        }
        let permanent = u64::from(sender.permanent.rate_bytes) / 1_000;
        let used = sender.used_bytes_per_ms;
        if used * 2 <= permanent {
            return 0;
        }
        let ahead = u32::try_from(used + used / 2).unwrap_or(u32::MAX);
        ahead.clamp(1, self.link_bytes_per_ms.max(1))
    }

    /// Returns what is to be done now. Call it until there is nothing.
    pub(crate) fn poll(&mut self, now_ns: u64) -> Option<Act> {
        for peer in 0..self.senders.len() {
            let sender = &mut self.senders[peer];
            if sender.grant.is_some_and(|grant| now_ns >= grant.until_ns) {
                sender.grant = None;
                return Some(Act::Lower { peer });
            }
        }
        let asks = |sender: &Sender| sender.asks;
        // One question at a time; the peers take turns by their moments.
        if self.senders.iter().any(asks) {
            return None;
        }
        let due = |sender: &Sender| match sender.grant {
            Some(_) => sender.renew_ns.max(sender.not_before_ns),
            None => sender.not_before_ns,
        };
        let peer = (0..self.senders.len())
            .filter(|at| due(&self.senders[*at]) <= now_ns)
            .filter(|at| self.wanted(&self.senders[*at], now_ns) > 0)
            .min_by_key(|at| due(&self.senders[*at]))?;
        let wanted_bytes_per_ms = self.wanted(&self.senders[peer], now_ns);
        self.senders[peer].asks = true;
        Some(Act::Ask {
            peer,
            wanted_bytes_per_ms,
        })
    }

    /// Takes the manager's grant to a question that was sent first at `asked_ns`. Returns the grant to be used, if there
    /// is time for it.
    pub(crate) fn granted(
        &mut self,
        now_ns: u64,
        peer: usize,
        asked_ns: u64,
        share: Share,
    ) -> Option<Grant> {
        let sender = self.senders.get_mut(peer)?;
        sender.asks = false;
        let lifetime_ns = u64::from(share.lifetime_us) * 1_000;
        let permanent = sender.permanent;
        let rate = u64::from(share.rate_bytes_per_ms) * 1_000 + u64::from(permanent.rate_bytes);
        let limit = Bucket {
            rate_bytes: u32::try_from(rate).unwrap_or(u32::MAX),
            burst_bytes: permanent.burst_bytes.saturating_add(share.burst_bytes),
            frame_bytes: permanent.frame_bytes,
        };
        let frames = frames_of(limit);
        // What has entered the class leaves it within this time.
        let waiting_bytes = u64::from(frames) * u64::from(limit.frame_bytes);
        let drain_ns = waiting_bytes * 1_000_000_000 / u64::from(limit.rate_bytes.max(1));
        let until_ns = (asked_ns + lifetime_ns - lifetime_ns / DRIFT)
            .saturating_sub(drain_ns)
            .saturating_sub(SAFETY_NS);
        sender.renew_ns = asked_ns + lifetime_ns / 2;
        sender.not_before_ns = now_ns;
        if share.rate_bytes_per_ms == 0 || until_ns <= now_ns {
            // Too late, or too little to be used before it ends: the permanent part has to do for a while.
            sender.not_before_ns = now_ns + PAUSE_NS;
            return None;
        }
        // An earlier grant that is larger may no longer be used: this one follows from what others need by now.
        let grant = Grant {
            limit,
            frames,
            until_ns,
        };
        sender.grant = Some(grant);
        Some(grant)
    }

    /// Takes a refusal, or the lack of an answer.
    pub(crate) fn refused(&mut self, now_ns: u64, peer: usize, retry_after_ns: Option<u64>) {
        if let Some(sender) = self.senders.get_mut(peer) {
            sender.asks = false;
            sender.not_before_ns = now_ns + retry_after_ns.unwrap_or(PAUSE_NS).max(1_000_000);
        }
    }

    /// Returns the moment at which a grant ends next, ns.
    pub(crate) fn next_end_ns(&self) -> Option<u64> {
        let grants = self.senders.iter().filter_map(|sender| sender.grant);
        grants.map(|grant| grant.until_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const PERMANENT: Bucket = Bucket {
        rate_bytes: 78_000,
        burst_bytes: 1_538,
        frame_bytes: 1_538,
    };
    const SHARE: Share = Share {
        rate_bytes_per_ms: 7_000,
        burst_bytes: 6_168,
        lifetime_us: 100_000,
    };

    fn hungry() -> BestEffort {
        let mut state = BestEffort::new([PERMANENT], 12_500, 24);
        state.seen(0, 0, (0, 0), 5);
        state
    }

    #[test]
    fn a_sender_that_waits_asks_for_the_link_and_renews_at_half_time() {
        let mut state = hungry();
        let ask = Act::Ask {
            peer: 0,
            wanted_bytes_per_ms: 12_500,
        };
        assert_eq!(state.poll(MS), Some(ask));
        assert_eq!(state.poll(2 * MS), None, "one question at a time");
        let grant = state.granted(3 * MS, 0, MS, SHARE);
        assert!(grant.is_some_and(|grant| grant.limit.rate_bytes == 7_078_000));
        state.seen(40 * MS, 0, (1, 1), 5);
        assert_eq!(state.poll(50 * MS), None);
        assert_eq!(state.poll(51 * MS), Some(ask));
    }

    #[test]
    fn without_a_renewal_it_ends_by_itself_and_early_enough() {
        let mut state = hungry();
        assert!(state.poll(MS).is_some());
        let grant = state.granted(3 * MS, 0, MS, SHARE);
        let until_ns = grant.map_or(0, |grant| grant.until_ns);
        // 100 ms from the question, less what waits in the queue (8 ms of its rate).
        assert!(until_ns < 94 * MS && until_ns > 85 * MS, "{until_ns}");
        assert_eq!(state.next_end_ns(), Some(until_ns));
        assert!(matches!(state.poll(51 * MS), None | Some(Act::Ask { .. })));
        state.refused(60 * MS, 0, None);
        assert_eq!(state.poll(until_ns), Some(Act::Lower { peer: 0 }));
    }

    #[test]
    fn who_sends_little_asks_for_nothing() {
        let mut state = BestEffort::new([PERMANENT], 12_500, 24);
        for tick in 0..100 {
            state.seen(tick * 5 * MS, 0, (tick * 100, tick), 0);
            assert_eq!(state.poll(tick * 5 * MS), None);
        }
        // 80 % of the permanent rate: half as much again.
        for tick in 100..140 {
            state.seen(tick * 5 * MS, 0, (10_000 + (tick - 100) * 300, tick), 0);
        }
        let asked = state.poll(700 * MS);
        assert!(
            matches!(
                asked,
                Some(Act::Ask {
                    wanted_bytes_per_ms: 80..=110,
                    ..
                })
            ),
            "{asked:?}"
        );
    }

    #[test]
    fn a_late_answer_is_not_used() {
        let mut state = hungry();
        assert!(state.poll(MS).is_some());
        assert_eq!(state.granted(99 * MS, 0, MS, SHARE), None);
        assert_eq!(state.next_end_ns(), None);
    }

    proptest! {
        #[test]
        fn nothing_is_used_beyond_what_was_granted(
            steps in prop::collection::vec((0_u64..40, 0_u32..12_500, any::<bool>(), 0_u32..4), 1..200),
        ) {
            let mut state = BestEffort::new([PERMANENT, PERMANENT], 12_500, 24);
            let mut now = 0;
            // Each grant of the manager, by peer: rate and its end at the manager, which counts from a later moment.
            let mut granted: Vec<(usize, u64, u64)> = Vec::new();
            let mut open: Option<(usize, u64)> = None;
            let mut in_use: [Option<Grant>; 2] = [None, None];
            for (wait, rate, lost, waiting) in steps {
                now += wait * MS / 4;
                state.seen(now, 0, (now / 1_000, now / 1_000_000), waiting);
                state.seen(now, 1, (0, 0), waiting);
                while let Some(act) = state.poll(now) {
                    match act {
                        Act::Ask { peer, .. } => open = Some((peer, now)),
                        Act::Lower { peer } => in_use[peer] = None,
                    }
                }
                for (peer, grant) in in_use.iter().enumerate() {
                    let Some(grant) = grant else { continue };
                    let rate = u64::from(grant.limit.rate_bytes - PERMANENT.rate_bytes);
                    let frames = u64::from(grant.frames) * u64::from(grant.limit.frame_bytes);
                    // The last frame that may enter leaves before the manager's end of that rate.
                    let drained = now + frames * 1_000_000_000 / u64::from(grant.limit.rate_bytes);
                    let covered = granted.iter().any(|(of, least, end)| *of == peer && *least >= rate && *end > drained);
                    prop_assert!(covered, "{grant:?} at {now}");
                }
                if let Some((peer, asked)) = open {
                    if lost {
                        if now - asked > 60 * MS {
                            state.refused(now, peer, None);
                            open = None;
                        }
                    } else {
                        let share = Share { rate_bytes_per_ms: rate, ..SHARE };
                        granted.push((peer, u64::from(rate) * 1_000, asked + 100 * MS));
                        if let Some(grant) = state.granted(now, peer, asked, share) {
                            in_use[peer] = Some(grant);
                        }
                        open = None;
                    }
                }
            }
        }
    }
}
