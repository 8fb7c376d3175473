//! The two threads of a measurement: one sleeps to each instant and sends, one waits for frames.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rtwire_link::{LinkError, Sender};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::sched::{self, Policy, Scheduling};
use rtwire_sys::{Batch, Wait, memory};

use super::samples::Samples;
use super::{ETHER_TYPE, PERIOD_NS};

/// The bytes of a frame with its tag, without FCS.
const FRAME_OCTETS: usize = 64;
const TAGGED: [u8; 2] = [0x81, 0x00];
/// The bytes after the EtherType that mark our frames.
const MARK: [u8; 8] = *b"rtwdoctr";
/// The time from handing a frame over to the start of its queue's delta, ns.
const LEAD_NS: u64 = 400_000;

/// The facts about the frames that both ends know.
#[derive(Clone, Copy)]
pub(super) struct Frames {
    pub(super) from: [u8; 6],
    pub(super) to: [u8; 6],
    /// Priority and VLAN, in the layout of the tag.
    pub(super) tag: u16,
    /// The offset of CLOCK_TAI from the clock of the kernel's stamps, ns.
    pub(super) tai_offset_ns: i64,
}

/// The sender's results.
pub(super) struct Sent {
    pub(super) wake_ups: Samples,
    pub(super) frames: u64,
    /// Frames that found no room, or whose launch time was refused.
    pub(super) refused: u64,
    pub(super) scheduling: String,
    /// The reason why it ended early.
    pub(super) fault: Option<String>,
}

/// The receiver's results.
pub(super) struct Received {
    /// The delays from the instant to the stamp.
    pub(super) transmit: Samples,
    /// The delays from the stamp to the program.
    pub(super) receive: Samples,
    pub(super) frames: u64,
    /// The number of frames by PCP, and of those without a tag.
    pub(super) pcp: [u64; 8],
    pub(super) untagged: u64,
    pub(super) scheduling: String,
}

/// Asks for SCHED_FIFO. The policy in force is read when the work is done.
fn real_time(priority: u8) {
    // If it is refused, the measurement continues and reports it: that is its purpose.
    let _ = sched::set_fifo(priority);
    memory::touch_stack();
}

fn in_force() -> String {
    match sched::current() {
        Ok(Scheduling {
            policy: Policy::Fifo,
            priority,
            ..
        }) => fifo(priority),
        Ok(now) => format!("{:?} {}", now.policy, now.priority),
        Err(error) => error.to_string(),
    }
}

pub(super) fn fifo(priority: u8) -> String {
    format!("SCHED_FIFO {priority}")
}

fn frame(frames: Frames) -> [u8; FRAME_OCTETS] {
    let mut frame = [0; FRAME_OCTETS];
    frame[..6].copy_from_slice(&frames.to);
    frame[6..12].copy_from_slice(&frames.from);
    frame[12..14].copy_from_slice(&TAGGED);
    frame[14..16].copy_from_slice(&frames.tag.to_be_bytes());
    frame[16..18].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    frame[18..26].copy_from_slice(&MARK);
    frame
}

/// Sends `count` frames, one a period. With `delta_ns`, each has its instant as its launch time and is handed over
/// before.
pub(super) fn send(
    sender: &mut Sender,
    frames: Frames,
    (count, priority): (u64, u8),
    delta_ns: Option<u64>,
    stop: &AtomicBool,
) -> Sent {
    real_time(priority);
    let mut frame = frame(frames);
    let mut sent = Sent {
        wake_ups: Samples::new(usize::try_from(count).unwrap_or(usize::MAX)),
        frames: 0,
        refused: 0,
        scheduling: String::new(),
        fault: None,
    };
    let lead_ns = delta_ns.map_or(0, |delta| delta + LEAD_NS);
    // The kernel begins to stamp some time after the request.
    const SETTLE_NS: u64 = 300_000_000;
    let mut instant_ns = clock::now_ns(Clock::Tai) + SETTLE_NS;
    for _ in 0..count {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let wake_ns = instant_ns - lead_ns;
        let _ = clock::sleep_until(Clock::Tai, wake_ns);
        let now_ns = clock::now_ns(Clock::Tai);
        sent.wake_ups.add(wake_ns, now_ns);
        frame[26..34].copy_from_slice(&instant_ns.to_be_bytes());
        let result = match delta_ns {
            Some(_) => sender.send_at(&frame, instant_ns),
            None => sender.send(&frame),
        };
        match result {
            Ok(_) => sent.frames += 1,
            Err(LinkError::QueueFull | LinkError::LaunchRefused { .. }) => sent.refused += 1,
            Err(error) => {
                sent.fault = Some(error.to_string());
                break;
            }
        }
        // After an overrun the next future instant counts: never a burst to catch up.
        let behind = now_ns.saturating_sub(wake_ns) / PERIOD_NS;
        instant_ns += (behind + 1) * PERIOD_NS;
    }
    sent.scheduling = in_force();
    sent
}

/// Receives until told to stop. Frames of the sender measure the transmit path. With `own` (over the cable) they
/// measure the receive path too; otherwise other frames do.
pub(super) fn receive(
    socket: &PacketSocket,
    frames: Frames,
    (room, priority): (usize, u8),
    own: bool,
    stop: &AtomicBool,
) -> Received {
    real_time(priority);
    let mut batch = Batch::new(1, 256);
    let mut received = Received {
        transmit: Samples::new(room),
        receive: Samples::new(room),
        frames: 0,
        pcp: [0; 8],
        untagged: 0,
        scheduling: String::new(),
    };
    while !stop.load(Ordering::Relaxed) {
        if socket.receive(&mut batch, Wait::One, 1).is_err() {
            // An interface that is gone fails at once: this must not keep a processor busy.
            if socket.wait(Some(Duration::from_millis(50))).is_err() {
                break;
            }
            continue;
        }
        let now_ns = clock::now_ns(Clock::Tai);
        let Some(message) = batch.get(0) else {
            continue;
        };
        let stamp_ns = message
            .stamp_realtime_ns
            .map(|ns| ns.saturating_add_signed(frames.tai_offset_ns));
        match ours(message.data, message.tag, frames.from) {
            Some((instant_ns, tag)) => {
                received.frames += 1;
                match tag {
                    Some(tag) => received.pcp[usize::from(tag >> 13)] += 1,
                    None => received.untagged += 1,
                }
                if let Some(stamp_ns) = stamp_ns {
                    received.transmit.add(instant_ns, stamp_ns);
                    if own {
                        received.receive.add(stamp_ns, now_ns);
                    }
                }
            }
            None if !own => {
                if let Some(stamp_ns) = stamp_ns {
                    received.receive.add(stamp_ns, now_ns);
                }
            }
            None => {}
        }
    }
    received.scheduling = in_force();
    received
}

/// Returns the instant in one of our frames, and its tag, wherever the tag is.
fn ours(data: &[u8], taken_out: Option<u16>, from: [u8; 6]) -> Option<(u64, Option<u16>)> {
    if data.get(6..12)? != from {
        return None;
    }
    let (tag, rest) = if data.get(12..14)? == TAGGED {
        let tag = u16::from_be_bytes(data.get(14..16)?.try_into().ok()?);
        (Some(tag), data.get(16..)?)
    } else {
        (taken_out, data.get(12..)?)
    };
    let known = rest.get(..2)? == ETHER_TYPE.to_be_bytes() && rest.get(2..10)? == MARK;
    let instant_ns = u64::from_be_bytes(rest.get(10..18)?.try_into().ok()?);
    known.then_some((instant_ns, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_known_with_its_tag_inside_and_taken_out() {
        let frames = Frames {
            from: [2, 0, 0, 0, 0, 1],
            to: [2, 0, 0, 0, 0, 2],
            tag: 6 << 13 | 1,
            tai_offset_ns: 0,
        };
        let mut inside = frame(frames);
        inside[26..34].copy_from_slice(&77_u64.to_be_bytes());
        assert_eq!(
            ours(&inside, None, frames.from),
            Some((77, Some(frames.tag)))
        );
        let mut outside = inside[..12].to_vec();
        outside.extend_from_slice(&inside[16..]);
        assert_eq!(ours(&outside, Some(5), frames.from), Some((77, Some(5))));
        assert_eq!(ours(&outside, None, frames.from), Some((77, None)));
        assert_eq!(ours(&outside, None, frames.to), None);
        for length in 0..outside.len().min(30) {
            let _ = ours(&outside[..length], None, frames.from);
        }
        outside[15] ^= 1;
        assert_eq!(ours(&outside, None, frames.from), None);
    }
}
