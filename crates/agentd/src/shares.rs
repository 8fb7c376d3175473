//! The loop of best effort: counts, questions and rates.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rtwire_host::netlink::ClassCounts;
use rtwire_manager::{Answer, Client, LARGEST_MESSAGE, Question, Step};
use rtwire_managerd::{Asker, read_key};
use rtwire_sys::wait::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::AgentError;
use crate::allowance::LEAST_URGENT;
use crate::best_effort::{Act, BestEffort, Grant};
use crate::desk::{Place, lock};
use crate::pass;
use crate::queues;

/// The time between two looks at the counts, ns.
const TICK_NS: u64 = 5_000_000;
/// The time within which a question must be answered, ns. It is less than half of the usual lifetime.
const ANSWER_NS: u64 = 45_000_000;

/// The time between two looks at the key file while the manager is silent, ns.
const KEY_NS: u64 = 1_000_000_000;

/// The counts of the loop, for the agent's last line.
#[derive(Debug, Default)]
pub(crate) struct ShareCounts {
    pub(crate) granted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unanswered: AtomicU64,
}

/// A question that is open.
struct Open {
    peer: usize,
    asked_ns: u64,
}

/// Runs the loop until `stop`.
pub(crate) fn run(
    place: &Place,
    manager: SocketAddr,
    key: &Path,
    counts: &ShareCounts,
    stop: &AtomicBool,
) -> Result<(), AgentError> {
    let system = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| AgentError::System { what, error }
    };
    let socket = UdpSocket::bind((place.address, 0)).map_err(system("open a socket"))?;
    socket
        .connect(manager)
        .and_then(|()| socket.set_nonblocking(true))
        .map_err(system("reach the manager"))?;
    let cookie = pass::cookie(&socket).map_err(AgentError::system("know the socket"))?;
    place.gate.control(cookie)?;

    let peers = &place.allowance.peers;
    let mut state = BestEffort::new(
        peers.iter().map(|peer| peer.permanent),
        place.allowance.link_bytes_per_ms,
        place.allowance.overhead_bytes,
    );
    let mut client = Client::new(&place.allowance.host, read_key(key)?);
    let mut key_read_ns = monotonic_ns();
    let mut open: Option<Open> = None;
    let mut next_tick_ns = 0;
    let mut buffer = [0; LARGEST_MESSAGE + 1];
    while !stop.load(Ordering::Relaxed) {
        let now_ns = monotonic_ns();
        if now_ns >= next_tick_ns {
            let seen = lock(&place.netlink).class_counts(place.index)?;
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
                    open = Some(Open { peer, asked_ns });
                }
            }
        }
        let received = socket.recv(&mut buffer);
        let now_ns = monotonic_ns();
        let step = match received {
            Ok(count) => client.datagram(now_ns, &buffer[..count]),
            // Nothing came; or nobody listens there now, and the time goes on.
            Err(_) => client.poll(now_ns),
        };
        let mut wake_ns = next_tick_ns.min(state.next_end_ns().unwrap_or(u64::MAX));
        match step {
            Step::Send(bytes) => {
                // What is not sent is repeated.
                let _ = socket.send(&bytes);
                continue;
            }
            Step::Wait(until_ns) => wake_ns = wake_ns.min(until_ns),
            Step::Done(answer) => {
                if let Some(open) = open.take() {
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
                            client = Client::new(&place.allowance.host, key);
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
        place.index,
        &queues::class(to.class, LEAST_URGENT, grant.limit, overhead),
    )?;
    netlink.put_queue(place.index, &queues::leaf(to.class, grant.frames))?;
    Ok(())
}

/// Lowers a peer's class to its permanent part.
fn lower(place: &Place, peer: usize) -> Result<(), AgentError> {
    let Some(to) = place.allowance.peers.get(peer) else {
        return Ok(());
    };
    let overhead = place.allowance.overhead_bytes;
    let class = queues::class(to.class, LEAST_URGENT, to.permanent, overhead);
    lock(&place.netlink).put_class(place.index, &class)?;
    place.gate.peer(to.address, to.class, None)?;
    Ok(())
}
