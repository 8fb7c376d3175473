//! The process image between the real-time loop and a program that waits for its cycles.
//!
//! ```text
//!  loop ── once a cycle ──► inputs ──► wait          (each way the newest, whole: three buffers)
//!       ◄───────────────── outputs ◄── publish
//! ```
//!
//! The loop never waits for the program. It makes a system call only where the program waits. Otherwise an exchange costs a
//! copy of the points and a few atomic operations.

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

    pub(crate) fn publish(&mut self) {
        if !std::mem::take(&mut self.image.changed) {
            return;
        }
        let (spans, octets) = (&self.shared.spans, &self.image.octets);
        self.outputs.write(|all| {
            for span in spans.iter().filter(|span| span.output) {
                let value = octets.get(span.octets.clone()).unwrap_or_default();
                store(words(all, span), value);
            }
        });
    }

    fn take(&mut self) {
        let image = &mut self.image;
        let all = self.inputs.words();
        let head = |at: usize| all.get(at).map_or(0, |word| word.load(RELAXED));
        let cycle = head(0);
        image.missed = cycle.saturating_sub(image.cycle).saturating_sub(1);
        image.cycle = cycle;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::octets_of;
    use crate::kind::Key;
    use rtwire_powerlink::ProcessImage;
    use rtwire_testkit::{CountingAllocator, allocations};
    use std::thread;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    const KEY: Key = Key {
        node: 1,
        index: 0x6000,
        subindex: 1,
        output: false,
    };

    /// An image of inputs and as many outputs, each a point.
    struct Plant {
        image: ProcessImage,
        points: Vec<(Key, Range<usize>)>,
    }

    impl Plant {
        fn new(octets: &[usize]) -> Self {
            let mut image = ProcessImage::default();
            let mut points = Vec::new();
            for output in [false, true] {
                let mut end = 0;
                for &octets in octets {
                    points.push((Key { output, ..KEY }, end..end + octets));
                    end += octets;
                }
                let values = if output {
                    &mut image.outputs
                } else {
                    &mut image.inputs
                };
                values.resize(end, 0);
            }
            Self { image, points }
        }

        fn ends(&self) -> (LoopEnd, Program) {
            let points = self.points.iter();
            ends(points.map(|place| (place.0.output, octets_of(&self.image, place))))
        }

        fn io(&mut self, cycle: u64) -> Io<'_> {
            Io {
                image: &mut self.image,
                points: &self.points,
                cycle,
                now_ns: cycle * 1000,
                missing: 3,
                own_stalls: 0,
            }
        }
    }

    #[test]
    fn each_side_sees_what_the_other_has() {
        let sizes = [1, 2, 4, 8, 9, 16];
        let mut plant = Plant::new(&sizes);
        let (mut end, mut program) = plant.ends();
        let count = sizes.len();
        for cycle in 1..=3_u8 {
            plant.image.inputs.fill(cycle);
            end.cycle(&mut plant.io(cycle.into()));
            assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
            let image = &mut program.image;
            assert_eq!(
                (image.cycle, image.missed, image.missing),
                (cycle.into(), 0, 3)
            );
            assert_eq!(image.now_ns, u64::from(cycle) * 1000);
            for (at, size) in sizes.iter().enumerate() {
                assert_eq!(image.octets(Point(at)), vec![cycle; *size]);
                // An input is not set, nor is what has another length.
                image.set_octets(Point(at), &vec![0x77; *size]);
                image.set_octets(Point(count + at), &vec![0x77; *size + 1]);
                image.set_octets(Point(count + at), &vec![0x40 + cycle; *size]);
            }
            assert_eq!(
                image.get(Point(2)),
                u64::from_le_bytes([cycle, cycle, cycle, cycle, 0, 0, 0, 0])
            );
            assert_eq!(image.get(Point(4)), 0, "no number has 9 octets");
            image.set(Point(count), 0x0142);
            assert_eq!(image.get(Point(count)), 0x42);
            program.publish();
            end.cycle(&mut plant.io(u64::from(cycle) + 10));
            assert_eq!(plant.image.outputs[0], 0x42);
            assert_eq!(plant.image.outputs[1..], vec![0x40 + cycle; 39]);
            assert_eq!(plant.image.inputs, vec![cycle; 40]);
            assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
            program.image.cycle = cycle.into();
        }
        // An image that is laid out anew has lost them: they are set again.
        plant.image.outputs.fill(0);
        end.cycle(&mut plant.io(20));
        assert_eq!(plant.image.outputs[0], 0x42);
    }

    #[test]
    fn who_is_late_sees_the_newest_and_how_many_passed() {
        let mut plant = Plant::new(&[1]);
        let (mut end, mut program) = plant.ends();
        assert_eq!(program.wait(Duration::from_millis(5)), Woken::TimedOut);
        for cycle in 1..=5_u8 {
            plant.image.inputs[0] = cycle;
            end.cycle(&mut plant.io(cycle.into()));
        }
        assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
        assert_eq!((program.image.get(Point(0)), program.image.missed), (5, 4));
        assert_eq!(program.wait(Duration::ZERO), Woken::TimedOut);
        // The last one is seen, although the loop is over.
        end.cycle(&mut plant.io(6));
        drop(end);
        assert_eq!(program.wait(Duration::MAX), Woken::Cycle);
        assert_eq!(program.wait(Duration::MAX), Woken::Ended);
    }

    #[test]
    fn a_program_that_waits_beside_a_loop_sees_whole_cycles_and_is_woken() {
        const CYCLES: u64 = 50_000;
        let mut plant = Plant::new(&[8; 40]);
        let (mut end, mut program) = plant.ends();
        let (points, outputs) = (0..40, 40..80);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut echoed = 0;
                for cycle in 1..=CYCLES {
                    for value in plant.image.inputs.chunks_mut(8) {
                        value.copy_from_slice(&cycle.to_le_bytes());
                    }
                    let before = allocations();
                    end.cycle(&mut plant.io(cycle));
                    assert_eq!(allocations(), before, "the loop allocates");
                    let first = plant.io(cycle).get(Point(40));
                    assert!(first >= echoed && first < cycle, "{first} of {cycle}");
                    echoed = first;
                    for point in 40..80 {
                        assert_eq!(plant.io(cycle).get(Point(point)), first, "torn");
                    }
                    if cycle % 64 == 0 {
                        // The program comes to wait.
                        thread::sleep(Duration::from_micros(100));
                    }
                }
            });
            let (mut seen, mut missed) = (0, 0);
            while program.wait(Duration::from_secs(60)) == Woken::Cycle {
                let image = &mut program.image;
                for point in points.clone() {
                    assert_eq!(image.get(Point(point)), image.cycle, "torn");
                }
                for point in outputs.clone() {
                    image.set(Point(point), image.cycle);
                }
                seen += 1;
                missed += image.missed;
            }
            assert_eq!(seen + missed, CYCLES);
            assert!(seen > CYCLES / 64 / 2, "{seen} seen");
        });
    }
}
