//! A look from another process at the frames that the driver of a running station takes: it reads the ring and the prepared
//! response, and writes nothing.
//!
//! The program answers and consumes frames before Linux sees them, so a packet socket beside it does not show them. The ring has
//! every frame for the station, and the program's action on it. The station and its program do nothing for such a look.

use super::layout::{
    ANSWERED, BUFFERS, CONTROL_WORDS, CONTROLLED, Control, FRAME_OCTETS, PREPARED_WORDS, Prepared,
    RECORD_WORDS, RESPONSE_WORDS, Response,
};
use rtwire_link::frame_ring::FrameRing;
use rtwire_sys::bpf::attached::program_at;
use rtwire_sys::bpf::{AttachedXdp, MappedArray};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::interface;
use std::io;
use std::sync::atomic::{Ordering, fence};

/// A frame that a station's driver has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TappedFrame<'a> {
    /// The time of its arrival, ns since 1970.
    pub at_ns: u64,
    /// The frame.
    pub frame: &'a [u8],
    /// The response that the driver has sent on it. It left some µs later; nobody has noted when.
    pub answer: Option<&'a [u8]>,
}

/// A look at the driver of a station that runs on an interface, in any process. Needs CAP_BPF and CAP_SYS_ADMIN (root).
#[derive(Debug)]
pub struct DriverTap {
    index: u32,
    program: u32,
    control: MappedArray,
    ring: MappedArray,
    response: MappedArray,
    reader: FrameRing,
    answer: Box<[u8; FRAME_OCTETS]>,
    /// Turns CLOCK_MONOTONIC into time since 1970, ns.
    since_1970_ns: u64,
}

impl DriverTap {
    /// Begins to look, from now on. Returns `None` where no station runs on the interface with its driver.
    ///
    /// # Errors
    /// The interface or a privilege is missing.
    pub fn open(name: &str) -> io::Result<Option<Self>> {
        let failed = |errno: rtwire_sys::Errno| io::Error::from_raw_os_error(errno.0);
        let interface = interface::by_name(name).map_err(io::Error::other)?;
        let index = interface.index;
        let Some((program, _)) = program_at(index).map_err(failed)? else {
            return Ok(None);
        };
        let Some(attached) = AttachedXdp::find(index).map_err(failed)? else {
            return Ok(None);
        };
        let maps = (
            attached.map_array("control", CONTROL_WORDS),
            attached.map_array("ring", RECORD_WORDS),
            attached.map_array("response", RESPONSE_WORDS),
        );
        // Another program has no such memory.
        let (Ok(control), Ok(ring), Ok(response)) = maps else {
            return Ok(None);
        };
        let mut this = Self {
            index,
            program,
            control,
            ring,
            response,
            reader: FrameRing::new(),
            answer: Box::new([0; FRAME_OCTETS]),
            since_1970_ns: clock::now_ns(Clock::Realtime)
                .wrapping_sub(clock::now_ns(Clock::Monotonic)),
        };
        let head = this.get(Control::Head);
        this.reader.begin_at(head);
        Ok(Some(this))
    }

    /// Returns the station's node number.
    #[must_use]
    pub fn node(&self) -> u8 {
        self.get(Control::Node) as u8
    }

    /// Returns true where the station is a controlled node.
    #[must_use]
    pub fn is_controlled(&self) -> bool {
        self.get(Control::Role) & CONTROLLED != 0
    }

    /// Returns true while this program is still the one at the interface.
    #[must_use]
    pub fn is_current(&self) -> bool {
        program_at(self.index).is_ok_and(|at| at.is_some_and(|(id, _)| id == self.program))
    }

    /// Returns the number of frames that were overwritten before they were looked at.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.reader.overrun()
    }

    /// Returns the next frame, if there is one.
    pub fn next_frame(&mut self) -> Option<TappedFrame<'_>> {
        let head = self.get(Control::Head);
        let taken = self.reader.take(&self.ring, head)?;
        let answer = if taken.did & ANSWERED == 0 {
            None
        } else {
            self.copy_answer()
        };
        Some(TappedFrame {
            at_ns: taken.arrival_ns.wrapping_add(self.since_1970_ns),
            frame: self.reader.octets().get(..taken.length)?,
            answer: answer.and_then(|length| self.answer.get(..length)),
        })
    }

    /// Copies the newest prepared response, and returns its length. The one that has left may be some cycles older.
    fn copy_answer(&mut self) -> Option<usize> {
        let word = |at: usize| {
            let word = self.response.word(0, at);
            word.map_or(0, |word| word.load(Ordering::Acquire))
        };
        let version = word(Response::Version as usize);
        let buffer = (version % BUFFERS) as usize;
        let at = Response::Prepared as usize + buffer * PREPARED_WORDS;
        let length = (word(at + Prepared::Length as usize) as usize).min(FRAME_OCTETS);
        let out = self.answer.get_mut(..length)?;
        let copied = self
            .response
            .copy_octets(0, at + Prepared::Data as usize, out);
        // The copy comes before the second look at the version.
        fence(Ordering::Acquire);
        let newer = word(Response::Version as usize).wrapping_sub(version);
        (copied && newer < BUFFERS - 1).then_some(length)
    }

    fn get(&self, field: Control) -> u64 {
        let word = self.control.word(0, field as usize);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }
}
