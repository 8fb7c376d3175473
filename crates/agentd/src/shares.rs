//! The loop of best effort: counts, questions and rates.

use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rtwire_host::netlink::ClassCounts;
use rtwire_manager::{Answer, Client, LARGEST_MESSAGE, Question, Step};
use rtwire_managerd::{Addresses, Asker, NewestTimes, Times, read_key};
use rtwire_sys::wait::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::AgentError;
use crate::allowance::{Bucket, LEAST_URGENT};
use crate::best_effort::{Act, BestEffort, Grant};
use crate::desk::{Place, lock};
use crate::queues;
use crate::service::AgentSettings;
use rtwire_agent::pass;

/// The time between two looks at the counts, ns.
const TICK_NS: u64 = 5_000_000;
/// The time within which a question must be answered, ns. It is less than half of the usual lifetime.
const ANSWER_NS: u64 = 45_000_000;

/// The time between two looks at the key file while the manager is silent, ns.
const KEY_NS: u64 = 1_000_000_000;

/// The transmissions without an answer after which another manager is asked.
const MOST_UNANSWERED: u32 = 3;

/// The real-time priority of the loop: before ordinary programs, behind the host's talkers and listeners.
const PRIORITY: u8 = 10;

/// The counts of the loop.
#[derive(Debug, Default)]
pub(crate) struct ShareCounts {
    pub(crate) granted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unanswered: AtomicU64,
    /// The times from a need to its usable reservation, ns.
    times: Mutex<NewestTimes>,
}

impl ShareCounts {
    /// Returns the times from a need to its usable reservation.
    pub(crate) fn times(&self) -> Option<Times> {
        lock(&self.times).distribution()
    }
}

/// The bytes of a question on the wire, at most.
const QUESTION_BYTES: u64 = 320;

/// The credit for questions. What would wait in the control class would only make all later questions late.
struct Pacer {
    rate_bytes: u64,
    most_bytes: u64,
    /// In bytes times 10^9.
    credit: u128,
    at_ns: u64,
}

impl Pacer {
    /// Returns the credit of three quarters of a class: programs ask through it, too.
    fn of(control: Bucket, now_ns: u64) -> Pacer {
        let most_bytes = u64::from(control.burst_bytes).max(QUESTION_BYTES);
        Pacer {
            rate_bytes: (u64::from(control.rate_bytes) * 3 / 4).max(1),
            most_bytes,
            credit: u128::from(most_bytes) * 1_000_000_000,
            at_ns: now_ns,
        }
    }

    /// Returns the moment from which a question may be sent, if it is not now, ns.
    fn not_before_ns(&mut self, now_ns: u64) -> Option<u64> {
        let earned = u128::from(now_ns.saturating_sub(self.at_ns)) * u128::from(self.rate_bytes);
        self.at_ns = self.at_ns.max(now_ns);
        self.credit = (self.credit + earned).min(u128::from(self.most_bytes) * 1_000_000_000);
        let missing = (u128::from(QUESTION_BYTES) * 1_000_000_000).checked_sub(self.credit)?;
        let wait_ns = missing.div_ceil(u128::from(self.rate_bytes));
        (missing > 0).then(|| now_ns + u64::try_from(wait_ns).unwrap_or(u64::MAX / 2))
    }

    /// Takes the bytes of a datagram and of its headers.
    fn spend(&mut self, datagram: usize, overhead_bytes: u8) {
        const HEADERS: u64 = 14 + 20 + 8;
        let bytes = datagram as u64 + HEADERS + u64::from(overhead_bytes);
        let spent = u128::from(bytes) * 1_000_000_000;
        self.credit = self.credit.saturating_sub(spent);
    }
}

/// A question that is open.
struct Open {
    peer: usize,
    asked_ns: u64,
    /// The moment of the need: that of the first question, where earlier ones had no answer.
    needed_ns: u64,
}

/// Runs the loop until `stop`.
pub(crate) fn run(
    place: &Place,
    settings: &AgentSettings,
    counts: &ShareCounts,
    stop: &AtomicBool,
) -> Result<(), AgentError> {
    let key = settings.key.as_path();
    // A reservation that is asked for too late is no reservation. Where the kernel refuses the priority, the loop is only
    // less punctual.
    let _ = rtwire_sys::sched::set_fifo(PRIORITY);
    let system = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| AgentError::System { what, error }
    };
    let socket = UdpSocket::bind((place.address, 0)).map_err(system("open a socket"))?;
    let mut managers = Addresses::new(&settings.managers);
    managers.connect(&socket)?;
    let nonblocking = socket.set_nonblocking(true);
    nonblocking.map_err(system("reach the manager"))?;
    let cookie = pass::cookie(&socket).map_err(AgentError::system("know the socket"))?;
    if !settings.questions_in_band {
        place.gate.control(cookie)?;
    }

    let peers = &place.allowance.peers;
    let mut state = BestEffort::new(
        peers.iter().map(|peer| peer.permanent),
        place.allowance.link_bytes_per_ms,
        place.allowance.overhead_bytes,
    );
    let mut client = Client::hasty(&place.allowance.host, read_key(key)?);
    let mut key_read_ns = monotonic_ns();
    let mut open: Option<Open> = None;
    // For each peer, the first of its questions that nobody has answered.
    let mut needed_ns: Vec<Option<u64>> = vec![None; peers.len()];
    let mut pacer = Pacer::of(place.allowance.control, monotonic_ns());
    let mut unanswered = 0;
    let mut next_tick_ns = 0;
    let mut buffer = [0; LARGEST_MESSAGE + 1];
    while !stop.load(Ordering::Relaxed) {
        let now_ns = monotonic_ns();
        if now_ns >= next_tick_ns {
            let seen = lock(&place.netlink).class_counts(place.interface.index)?;
            look(place, &mut state, now_ns, &seen);
            next_tick_ns = now_ns + TICK_NS;
        }
        while let Some(act) = state.poll(now_ns) {
            match act {
                Act::Lower { peer } => lower(place, peer)?,
                Act::Ask {
                    peer,
                    wanted_bytes_per_ms,
                } => {
                    let question = Question::Share {
                        request: Asker::request()?,
                        listener: peers[peer].name.clone(),
                        wanted_bytes_per_ms,
                    };
                    let nonce = Asker::request()?;
                    // A thread that was held up must not count from an earlier moment, nor from a later one.
                    let asked_ns = monotonic_ns();
                    client.ask(asked_ns, asked_ns + ANSWER_NS, question, nonce);
                    let needed_ns = *needed_ns[peer].get_or_insert(asked_ns);
                    open = Some(Open {
                        peer,
                        asked_ns,
                        needed_ns,
                    });
                }
            }
        }
        let received = socket.recv(&mut buffer);
        let now_ns = monotonic_ns();
        let step = match received {
            Ok(count) => {
                unanswered = 0;
                client.datagram(now_ns, &buffer[..count])
            }
            // Nothing came; or nobody listens there now, and the time goes on.
            Err(_) => match pacer.not_before_ns(now_ns) {
                None => client.poll(now_ns),
                // A question that is too late by then is given up then.
                Some(then_ns) => Step::Wait(then_ns),
            },
        };
        let mut wake_ns = next_tick_ns.min(state.next_end_ns().unwrap_or(u64::MAX));
        match step {
            Step::Send(bytes) => {
                pacer.spend(bytes.len(), place.allowance.overhead_bytes);
                // With messages lost, the leader is asked a few times before another manager is.
                if unanswered >= MOST_UNANSWERED && managers.next(&socket) {
                    unanswered = 0;
                }
                unanswered += 1;
                // What is not sent is repeated.
                let _ = socket.send(&bytes);
                continue;
            }
            Step::Wait(until_ns) => wake_ns = wake_ns.min(until_ns),
            Step::Done(answer) => {
                if let Some(open) = open.take() {
                    needed_ns[open.peer] = None;
                    answered(place, &mut state, counts, &open, answer)?;
                }
                continue;
            }
            Step::TooLate => {
                if let Some(open) = open.take() {
                    counts.unanswered.fetch_add(1, Ordering::Relaxed);
                    // Perhaps the manager has another key for this host by now.
                    if now_ns - key_read_ns >= KEY_NS {
                        key_read_ns = now_ns;
                        if let Ok(key) = read_key(key) {
                            client = Client::hasty(&place.allowance.host, key);
                        }
                    }
                    state.refused(now_ns, open.peer, Some(1));
                }
                continue;
            }
            Step::Idle => {}
        }
        let wait_ns = wake_ns.saturating_sub(monotonic_ns()).min(TICK_NS);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(wait_ns).unwrap_or(0),
        };
        let mut waits = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
        match poll(&mut waits, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(AgentError::system("wait for the manager")(errno)),
        }
    }
    for peer in 0..peers.len() {
        lower(place, peer)?;
    }
    Ok(())
}

fn look(place: &Place, state: &mut BestEffort, now_ns: u64, seen: &[ClassCounts]) {
    for (number, peer) in place.allowance.peers.iter().enumerate() {
        if let Some(counts) = seen.iter().find(|counts| counts.class == peer.class) {
            let sent = (counts.sent_bytes, counts.sent_frames);
            state.seen(now_ns, number, sent, counts.waiting_frames);
        }
    }
}

fn answered(
    place: &Place,
    state: &mut BestEffort,
    counts: &ShareCounts,
    open: &Open,
    answer: Answer,
) -> Result<(), AgentError> {
    let now_ns = monotonic_ns();
    match answer {
        Answer::Shared(share) => {
            counts.granted.fetch_add(1, Ordering::Relaxed);
            if let Some(grant) = state.granted(now_ns, open.peer, open.asked_ns, share) {
                raise(place, open.peer, &grant)?;
                lock(&counts.times).add(monotonic_ns().saturating_sub(open.needed_ns));
            }
        }
        Answer::Refused(no) => {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            let later_ns = Some(u64::from(no.retry_after_us) * 1_000).filter(|ns| *ns > 0);
            state.refused(now_ns, open.peer, later_ns);
        }
        _ => state.refused(now_ns, open.peer, None),
    }
    Ok(())
}

/// Raises the rate of a peer's class. The gate knows its end before the class has it: the end holds even if this process is
/// killed in between.
fn raise(place: &Place, peer: usize, grant: &Grant) -> Result<(), AgentError> {
    let Some(to) = place.allowance.peers.get(peer) else {
        return Ok(());
    };
    let overhead = place.allowance.overhead_bytes;
    place
        .gate
        .peer(to.address, to.class, Some(grant.until_ns))?;
    let mut netlink = lock(&place.netlink);
    netlink.put_class(
        place.interface.index,
        &queues::class(to.class, LEAST_URGENT, grant.limit, overhead),
    )?;
    netlink.put_queue(place.interface.index, &queues::leaf(to.class, grant.frames))?;
    Ok(())
}

/// Lowers a peer's class to its permanent part.
fn lower(place: &Place, peer: usize) -> Result<(), AgentError> {
    let Some(to) = place.allowance.peers.get(peer) else {
        return Ok(());
    };
    let overhead = place.allowance.overhead_bytes;
    let class = queues::class(to.class, LEAST_URGENT, to.permanent, overhead);
    lock(&place.netlink).put_class(place.interface.index, &class)?;
    place.gate.peer(to.address, to.class, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However often questions are due, they take no more than their part of the class.
    #[test]
    fn questions_leave_a_part_of_the_class_to_programs() {
        let control = Bucket {
            rate_bytes: 10_000,
            burst_bytes: 1_538,
            frame_bytes: 1_538,
        };
        let mut pacer = Pacer::of(control, 0);
        let (mut now_ns, mut bytes) = (0, 0_u64);
        while now_ns < 10_000_000_000 {
            if let Some(then_ns) = pacer.not_before_ns(now_ns) {
                assert!(then_ns > now_ns);
                now_ns = then_ns;
                continue;
            }
            pacer.spend(100, 24);
            bytes += 166;
        }
        assert!(bytes <= 75_000 + 1_538, "{bytes}");
        assert!(bytes >= 74_000, "{bytes}");
    }
}
