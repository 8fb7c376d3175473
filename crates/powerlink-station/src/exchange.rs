//! The process image between the real-time loop and a program that waits for its cycles.
//!
//! ```text
//!  loop ── once a cycle ──► inputs ──► wait          (each way the newest, whole: three buffers)
//!       ◄───────────────── outputs ◄── publish
//! ```
//!
//! The loop never waits for the program. It makes a system call only where the program waits. Otherwise an exchange costs a
//! copy of the points and a few atomic operations.

#[cfg(test)]
mod tests;

use crate::io::{Io, Point, number};
use crate::triple::{Reader, Writer, triple};
use core::ops::Range;
use rtwire_powerlink::Validity;
use rtwire_sys::futex;
use rtwire_wire::powerlink::NmtState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Words before those of the points: cycle, time, missing.
const HEAD: usize = 3;
const WORD_OCTETS: usize = 8;
const RELAXED: Ordering = Ordering::Relaxed;

/// The place of a point among the words that are exchanged.
#[derive(Clone, Debug)]
struct Span {
    output: bool,
    octets: Range<usize>,
    /// An input: the place of its validity among the words behind those of the points.
    validity: Option<usize>,
}

/// The state that both ends share.
#[derive(Debug)]
struct Shared {
    spans: Box<[Span]>,
    /// The number of cycles; the program waits for it to grow.
    cycles: AtomicU32,
    /// The words of all points.
    words: usize,
    waits: AtomicBool,
    ended: AtomicBool,
    /// The cycle that the loop has handed over last.
    newest: AtomicU64,
    /// The cycle that the program had seen when it handed over its outputs last.
    turn: AtomicU64,
}

impl Shared {
    /// Wakes the program, if it waits.
    fn signal(&self) {
        // In one order with the program's store and load: either it sees the change, or it is seen to wait.
        self.cycles.fetch_add(1, Ordering::SeqCst);
        if self.waits.load(Ordering::SeqCst) {
            self.waits.store(false, RELAXED);
            futex::wake_one(&self.cycles);
        }
    }
}

/// The loop's end. Dropping it tells the program that the loop is over.
pub(crate) struct LoopEnd {
    shared: Arc<Shared>,
    inputs: Writer,
    outputs: Reader,
    /// True once the program has set an output.
    set: bool,
}

/// Writes octets into whole words.
fn store(words: &[AtomicU64], octets: &[u8]) {
    let mut chunks = octets.chunks(WORD_OCTETS);
    for word in words {
        word.store(number(chunks.next().unwrap_or_default()), RELAXED);
    }
}

/// Reads octets from whole words.
fn load(words: &[AtomicU64], octets: &mut [u8]) {
    for (chunk, word) in octets.chunks_mut(WORD_OCTETS).zip(words) {
        let wide = word.load(RELAXED).to_le_bytes();
        chunk.copy_from_slice(&wide[..chunk.len()]);
    }
}

/// Packs a validity into a word: age + 1 (0: none), the state, live.
fn packed(validity: Validity) -> u64 {
    let age = validity.age_cycles.map_or(0, |age| age.saturating_add(1));
    age.min(u64::MAX >> 16) << 16 | u64::from(validity.state.0) << 8 | u64::from(validity.live)
}

fn unpacked(word: u64) -> Validity {
    Validity {
        live: word & 1 != 0,
        age_cycles: (word >> 16).checked_sub(1),
        state: NmtState((word >> 8) as u8),
    }
}

/// Returns the words of a point; its bytes begin with one.
fn words<'a>(all: &'a [AtomicU64], span: &Span) -> &'a [AtomicU64] {
    let words = span.octets.start / WORD_OCTETS..span.octets.end.div_ceil(WORD_OCTETS);
    all.get(words).unwrap_or_default()
}

impl LoopEnd {
    pub(crate) fn cycle(&mut self, io: &mut Io<'_>) {
        // Read before the outputs: those of this turn, or newer ones, are there then.
        io.turn = self.shared.turn.load(Ordering::Acquire);
        self.set |= self.outputs.take();
        if self.set {
            // Also where nothing is new: an image that was laid out anew has lost what was set.
            let all = self.outputs.words();
            for (at, span) in self
                .shared
                .spans
                .iter()
                .enumerate()
                .filter(|(_, s)| s.output)
            {
                load(words(all, span), io.octets_mut(Point(at)));
            }
        }
        let (cycle, now_ns, missing) = (io.cycle, io.now_ns, io.missing);
        let (spans, words_of_points) = (&self.shared.spans, self.shared.words);
        self.inputs.write(|all| {
            for (word, value) in all.iter().zip([cycle, now_ns, missing]) {
                word.store(value, RELAXED);
            }
            let all = all.get(HEAD..).unwrap_or_default();
            for (at, span) in spans.iter().enumerate().filter(|(_, s)| !s.output) {
                store(words(all, span), io.octets(Point(at)));
                let place = span
                    .validity
                    .and_then(|place| all.get(words_of_points + place));
                if let Some(word) = place {
                    word.store(packed(io.validity(Point(at))), RELAXED);
                }
            }
        });
        self.shared.newest.store(cycle, RELAXED);
        self.shared.signal();
    }
}

impl Drop for LoopEnd {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.signal();
    }
}

/// The process image of one cycle: the inputs of that cycle, all of them together, and the outputs to send.
#[derive(Debug)]
pub struct CycleImage {
    shared: Arc<Shared>,
    /// The cycle's number since the station began.
    pub cycle: u64,
    /// The time at which the loop has handed the cycle over, ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// The missing frames, as of [`Io::missing`].
    pub missing: u64,
    /// The cycles that were passed over between the previous image and this one.
    pub missed: u64,
    octets: Box<[u8]>,
    validities: Box<[u64]>,
    changed: bool,
}

impl CycleImage {
    fn span(&self, point: Point) -> Option<&Span> {
        self.shared.spans.get(point.0)
    }

    /// Returns the unsigned little-endian value of a point; 0 where it has more than 8 bytes.
    #[must_use]
    pub fn get(&self, point: Point) -> u64 {
        number(self.octets(point))
    }

    /// Returns the validity of an input in this cycle, as [`Io::validity`].
    #[must_use]
    pub fn validity(&self, point: Point) -> Validity {
        let place = self.span(point).and_then(|span| span.validity);
        let word = place.and_then(|place| self.validities.get(place));
        word.map_or_else(Validity::default, |word| unpacked(*word))
    }

    /// Returns the value of an input if it is live.
    #[must_use]
    pub fn live(&self, point: Point) -> Option<u64> {
        self.validity(point).live.then(|| self.get(point))
    }

    /// Returns the bytes of a point.
    #[must_use]
    pub fn octets(&self, point: Point) -> &[u8] {
        let place = self
            .span(point)
            .and_then(|span| self.octets.get(span.octets.clone()));
        place.unwrap_or_default()
    }

    /// Sets an output. Does nothing with an input. All outputs are handed over together by the next `wait` or `publish`.
    pub fn set(&mut self, point: Point, value: u64) {
        let octets = self.octets(point).len();
        if let Some(value) = value.to_le_bytes().get(..octets) {
            self.set_octets(point, value);
        }
    }

    /// Sets the bytes of an output. Does nothing with an input, or with another number of bytes.
    pub fn set_octets(&mut self, point: Point, value: &[u8]) {
        let Some(span) = self.shared.spans.get(point.0).filter(|span| span.output) else {
            return;
        };
        if let Some(place) = self.octets.get_mut(span.octets.clone()) {
            if place.len() == value.len() {
                place.copy_from_slice(value);
                self.changed = true;
            }
        }
    }
}

/// The program's end.
#[derive(Debug)]
pub(crate) struct Program {
    shared: Arc<Shared>,
    inputs: Reader,
    outputs: Writer,
    pub(crate) image: CycleImage,
    /// The cycle that the program has seen last; 0: none.
    seen: u64,
    /// The newest cycle at the end of the program's last turn.
    begun: u64,
}

/// Makes both ends for these points. Each has true for an output, and its first value.
pub(crate) fn ends<'a>(points: impl Iterator<Item = (bool, &'a [u8])>) -> (LoopEnd, Program) {
    let mut octets = Vec::new();
    let mut spans = Vec::new();
    let mut inputs_so_far = 0;
    for (output, value) in points {
        let begin = octets.len();
        octets.extend_from_slice(value);
        spans.push(Span {
            output,
            octets: begin..octets.len(),
            validity: (!output).then_some(inputs_so_far),
        });
        inputs_so_far += usize::from(!output);
        // Each begins with a word.
        octets.resize(octets.len().next_multiple_of(WORD_OCTETS), 0);
    }
    let count = octets.len() / WORD_OCTETS;
    let shared = Arc::new(Shared {
        spans: spans.into(),
        words: count,
        cycles: AtomicU32::new(0),
        waits: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        newest: AtomicU64::new(0),
        turn: AtomicU64::new(0),
    });
    let (inputs_in, inputs) = triple(HEAD + count + inputs_so_far);
    let (outputs, outputs_out) = triple(count);
    let image = CycleImage {
        shared: Arc::clone(&shared),
        cycle: 0,
        now_ns: 0,
        missing: 0,
        missed: 0,
        octets: octets.into(),
        validities: vec![0; inputs_so_far].into(),
        changed: false,
    };
    let end = LoopEnd {
        shared: Arc::clone(&shared),
        inputs: inputs_in,
        outputs: outputs_out,
        set: false,
    };
    let program = Program {
        shared,
        inputs,
        outputs,
        image,
        seen: 0,
        begun: 0,
    };
    (end, program)
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Cycle,
    TimedOut,
    Ended,
}

impl Program {
    pub(crate) fn wait(&mut self, timeout: Duration) -> Woken {
        self.publish();
        let begun = Instant::now();
        loop {
            let cycles = self.shared.cycles.load(Ordering::SeqCst);
            if self.inputs.take() {
                self.take();
                return Woken::Cycle;
            }
            if self.shared.ended.load(Ordering::SeqCst) {
                return Woken::Ended;
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Woken::TimedOut;
            }
            self.shared.waits.store(true, Ordering::SeqCst);
            if self.shared.cycles.load(Ordering::SeqCst) == cycles {
                futex::wait(&self.shared.cycles, cycles, left);
            }
            self.shared.waits.store(false, RELAXED);
        }
    }

    /// Hands over the outputs. This ends the program's turn, also where nothing has changed.
    pub(crate) fn publish(&mut self) {
        if std::mem::take(&mut self.image.changed) {
            let (spans, octets) = (&self.shared.spans, &self.image.octets);
            self.outputs.write(|all| {
                for span in spans.iter().filter(|span| span.output) {
                    let value = octets.get(span.octets.clone()).unwrap_or_default();
                    store(words(all, span), value);
                }
            });
        }
        // The turn of a program that never waits for a cycle has begun where its last one ended.
        let turn = if self.seen > 0 { self.seen } else { self.begun };
        self.shared.turn.store(turn, Ordering::Release);
        self.begun = self.shared.newest.load(RELAXED);
    }

    fn take(&mut self) {
        let image = &mut self.image;
        let all = self.inputs.words();
        let head = |at: usize| all.get(at).map_or(0, |word| word.load(RELAXED));
        let cycle = head(0);
        image.missed = cycle.saturating_sub(image.cycle).saturating_sub(1);
        image.cycle = cycle;
        self.seen = cycle;
        image.now_ns = head(1);
        image.missing = head(2);
        let all = all.get(HEAD..).unwrap_or_default();
        for span in self.shared.spans.iter().filter(|span| !span.output) {
            let place = image.octets.get_mut(span.octets.clone());
            load(words(all, span), place.unwrap_or_default());
        }
        let validities = all.get(self.shared.words..).unwrap_or_default();
        for (validity, word) in image.validities.iter_mut().zip(validities) {
            *validity = word.load(RELAXED);
        }
    }
}
