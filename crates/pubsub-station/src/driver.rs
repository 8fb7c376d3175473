//! The PubSub program in the driver: it answers messages of a fixed layout with the newest message that was prepared.
//!
//! ```text
//!  question ──► XDP ─┬─ headers, length, lease, rate ─► prepared message + number + copied fields ──► XDP_TX
//!                    └─ ring in memory ──► the station's readers
//!  Driver::prepare ──► memory that XDP sends from; renews the lease
//! ```
//!
//! `crates/bpf/programs/pubsub.bpf.c` has the rules by which a message is a question. [`Pair`] turns the layouts of both groups into what
//! the program compares.

mod layout;
#[cfg(test)]
mod tests;

use layout::{
    BUFFERS, CONTENT_WORDS, CONTROL_WORDS, Control, HEAD_BYTES, PAIR_WORDS, PAIRS, PairWord,
    WINDOWS,
};
use rtwire_link::frame_ring::{FrameRing, RECORD_WORDS, Taken};
use rtwire_link::xdp::{self, Attach, AttachError};
use rtwire_sys::bpf::{BpfError, BpfObject, MappedArray, XdpLink, XdpMode};
use rtwire_sys::interface::Interface;
use rtwire_sys::wait;
use rtwire_wire::MacAddress;
use rtwire_wire::uadp::{FieldPlace, FixedLayout, PADDED_OCTETS};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::{Ordering, fence};

pub(crate) use layout::{ANSWERED, COPIES, PAIRS as MOST_PAIRS};

/// The program's name in its object.
const PROGRAM: &str = "pubsub";
/// The answers that may follow each other at once, where questions have come late.
const BURST: u64 = 4;

/// The fate of the messages to a question's address, as the driver counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnswerCounters {
    /// Questions that were answered.
    pub answered: u64,
    /// Questions before the first answer was prepared, or after the run.
    pub unarmed: u64,
    /// Questions after the lease: the program had not renewed its answer.
    pub lapsed: u64,
    /// Questions that came much faster than their interval.
    pub too_soon: u64,
    /// Questions whose frame could not grow to the answer's length.
    pub no_room: u64,
    /// Questions during which the answer was replaced several times.
    pub torn: u64,
    /// Messages that are not the question.
    pub others: u64,
    /// Messages of zeros among them: they may be padding.
    pub ambiguous: u64,
}

/// A field that the driver copies from the question into the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) question: FieldPlace,
    pub(crate) answer: FieldPlace,
}

/// A question and its answer, as the program knows them.
#[derive(Debug)]
pub(crate) struct Pair<'l> {
    /// The layout of the question, without security.
    pub(crate) question: &'l FixedLayout,
    /// Its destination.
    pub(crate) destination: MacAddress,
    /// Its VLAN; `None`: any, or none.
    pub(crate) vlan: Option<u16>,
    /// Its interval, ns. Answers are given to two questions in an interval at most.
    pub(crate) interval_ns: u64,
    /// A padded question of zeros is one.
    pub(crate) zeros_are_data: bool,
    /// The layout of the answer, without security.
    pub(crate) answer: &'l FixedLayout,
    /// Its destination.
    pub(crate) answer_to: MacAddress,
    /// The fields that are copied.
    pub(crate) copies: Vec<Copied>,
    /// The time for which the program answers without renewal, ns.
    pub(crate) lease_ns: u64,
}

/// The words of a pair.
#[derive(Debug)]
struct Words([u64; PAIR_WORDS]);

impl Words {
    fn set(&mut self, field: PairWord, value: u64) {
        self.0[field as usize] = value;
    }

    /// Sets the bytes of a window field.
    fn windows(&mut self, field: PairWord, octets: &[u8; HEAD_BYTES]) {
        for (nth, chunk) in octets.chunks_exact(8).enumerate().take(WINDOWS) {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.0[field as usize + nth] = u64::from_ne_bytes(word);
        }
    }
}

impl Pair<'_> {
    /// Checks that the program can compare the question.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.words().map(|_| ())
    }

    /// Returns the pair's words.
    ///
    /// # Errors
    /// The reason why the program cannot compare or answer: for a user.
    fn words(&self) -> Result<Words, &'static str> {
        let mut words = Words([0; PAIR_WORDS]);
        let (mut mask, mut value, mut data) = ([0; HEAD_BYTES], [0; HEAD_BYTES], [0; HEAD_BYTES]);
        for (at, octet) in self.question.compared() {
            let place = mask.get_mut(at).zip(value.get_mut(at));
            let (mask, value) = place.ok_or(
                "the headers of its questions are longer than 64 bytes; use a shorter publisher id",
            )?;
            (*mask, *value) = (0xff, octet);
        }
        let whole = self.question.octets();
        // Padding is zeros.
        if let Some(padding) = mask.get_mut(whole..PADDED_OCTETS) {
            padding.fill(0xff);
        }
        let at = self.question.data(0).map_or(whole, |data| data.start);
        if let Some(data) = data.get_mut(at..PADDED_OCTETS) {
            data.fill(0xff);
        }
        words.windows(PairWord::Mask, &mask);
        words.windows(PairWord::Value, &value);
        words.windows(PairWord::Data, &data);
        let numbers = self
            .answer
            .sequence_at()
            .zip(self.answer.data_set_sequence_at(0));
        let (sequence, writer) = numbers.ok_or("its messages have no sequence numbers")?;
        words.set(PairWord::Destination, word_of(self.destination));
        words.set(
            PairWord::Vlan,
            self.vlan.map_or(layout::ANY_VLAN, u64::from),
        );
        words.set(PairWord::Length, whole as u64);
        words.set(PairWord::ZerosAreData, self.zeros_are_data.into());
        words.set(PairWord::AnswerLength, self.answer.octets() as u64);
        words.set(PairWord::AnswerTo, word_of(self.answer_to));
        words.set(PairWord::SequenceAt, sequence as u64);
        words.set(PairWord::WriterSequenceAt, writer as u64);
        for (nth, copy) in self.copies.iter().enumerate().take(COPIES) {
            let (from, to) = (u64::from(copy.question.at), u64::from(copy.answer.at));
            words.0[PairWord::Copy as usize + nth] =
                u64::from(copy.answer.octets) | from << 16 | to << 32;
        }
        words.set(PairWord::LeaseNs, self.lease_ns);
        let gap_ns = self.interval_ns / 2;
        words.set(PairWord::GapNs, gap_ns);
        words.set(PairWord::BurstNs, gap_ns * (BURST - 1));
        Ok(words)
    }
}

/// Returns an address as the program compares it: in the first 6 bytes of a word.
fn word_of(address: MacAddress) -> u64 {
    let mut octets = [0; 8];
    octets[..6].copy_from_slice(&address.0);
    u64::from_ne_bytes(octets)
}

/// The reason why the driver does not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverFault {
    /// The kernel does not accept the program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// It was not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The interface is gone.
    #[error(transparent)]
    System(#[from] rtwire_sys::Error),
    /// VLAN tags would be lost.
    #[error(
        "its driver {driver} keeps VLAN tags outside of frames and does not tell them: turn that off (`ethtool -K {interface} rx-vlan-offload off`)"
    )]
    HiddenTags {
        /// The interface.
        interface: String,
        /// Its driver.
        driver: String,
    },
    /// A pair cannot be compared or answered: its place, and the reason.
    #[error("{1}")]
    Pair(usize, &'static str),
}

/// The program with its memory. It is detached when this value is dropped, or when the process ends.
#[derive(Debug)]
pub(crate) struct Driver {
    link: Option<XdpLink>,
    why_generic: Option<String>,
    control: MappedArray,
    ring: MappedArray,
    pairs: MappedArray,
    contents: MappedArray,
}

impl Driver {
    /// Attaches the program to an interface, with these pairs.
    pub(crate) fn open(interface: &Interface, pairs: &[Pair<'_>]) -> Result<Self, DriverFault> {
        if xdp::tells_tags(interface) {
            let object =
                BpfObject::load_for(PROGRAM, rtwire_bpf::PUBSUB_TAGS.bytes, interface.index);
            let opened = object.map_err(DriverFault::from).and_then(|object| {
                let mut this = Self::of(&object, interface, pairs)?;
                this.attach(&object, interface, Attach::Only(XdpMode::Native))?;
                Ok(this)
            });
            match opened {
                // Native mode does not work here, or not for this variant.
                Err(DriverFault::Bpf(_)) => {}
                Err(DriverFault::Attach(error)) if !error.is_in_use() => {}
                other => return other,
            }
        }
        let object = BpfObject::load(PROGRAM, rtwire_bpf::PUBSUB.bytes, &[])?;
        let mut this = Self::of(&object, interface, pairs)?;
        this.attach(&object, interface, Attach::Best)?;
        // In generic mode the tag stays beside the frame, also of an answer.
        if this.mode() == XdpMode::Native {
            if let Some(driver) = xdp::hides_tags(&interface.name)? {
                return Err(DriverFault::HiddenTags {
                    interface: interface.name.clone(),
                    driver,
                });
            }
        }
        Ok(this)
    }

    /// Maps the memory of a loaded program, and describes the pairs to it.
    fn of(
        object: &BpfObject,
        interface: &Interface,
        pairs: &[Pair<'_>],
    ) -> Result<Self, DriverFault> {
        let this = Self {
            link: None,
            why_generic: None,
            control: object.map_array("control", CONTROL_WORDS)?,
            ring: object.map_array("ring", RECORD_WORDS)?,
            pairs: object.map_array("pairs", PAIR_WORDS)?,
            contents: object.map_array("contents", CONTENT_WORDS)?,
        };
        this.set_control(Control::Mac, word_of(MacAddress(interface.mac)));
        for (place, pair) in pairs.iter().enumerate().take(PAIRS) {
            let words = pair.words().map_err(|why| DriverFault::Pair(place, why))?;
            for (word, value) in words.0.into_iter().enumerate() {
                store(&this.pairs, place, word, value);
            }
        }
        this.set_control(Control::Pairs, pairs.len().min(PAIRS) as u64);
        Ok(this)
    }

    fn attach(
        &mut self,
        object: &BpfObject,
        interface: &Interface,
        how: Attach,
    ) -> Result<(), AttachError> {
        let attached = xdp::attach_and_wait(object, PROGRAM, interface, how)?;
        self.link = Some(attached.link);
        self.why_generic = attached.why_generic;
        Ok(())
    }

    /// Returns the mode in which the program runs.
    pub(crate) fn mode(&self) -> XdpMode {
        let link = self.link.as_ref();
        link.map_or(XdpMode::Generic, XdpLink::mode)
    }

    /// Returns the reason why it does not run in native mode, where that was tried.
    pub(crate) fn why_generic(&self) -> Option<&str> {
        self.why_generic.as_deref()
    }

    /// Returns false where another program or its interface's end has detached the program.
    pub(crate) fn is_attached(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.is_attached() == Ok(true))
    }

    /// Replaces a pair's answer, and renews its lease. Each answer has either the old or the new message as a whole. There is one
    /// writer. No system call but for the time.
    pub(crate) fn prepare(&self, pair: usize, message: &[u8]) {
        let Some(version) = self.pairs.word(pair, PairWord::Version as usize) else {
            return;
        };
        let next = version.load(Ordering::Relaxed) + 1;
        let entry = pair * BUFFERS + (next % BUFFERS as u64) as usize;
        // The version stored last time comes before what is overwritten now: a program that still copies this buffer sees it.
        fence(Ordering::SeqCst);
        for (word, chunk) in message.chunks(8).enumerate() {
            let mut octets = [0; 8];
            octets[..chunk.len()].copy_from_slice(chunk);
            store(&self.contents, entry, word, u64::from_ne_bytes(octets));
        }
        version.store(next, Ordering::Release);
        store(
            &self.pairs,
            pair,
            PairWord::RenewedNs as usize,
            wait::monotonic_ns(),
        );
        if let Some(armed) = self.pairs.word(pair, PairWord::Armed as usize) {
            armed.store(1, Ordering::Release);
        }
    }

    /// Ends the answers of all pairs, until the next is prepared.
    pub(crate) fn disarm(&self) {
        for pair in 0..PAIRS {
            store(&self.pairs, pair, PairWord::Armed as usize, 0);
        }
    }

    /// Takes the next frame to a question's address; its bytes are in `reader`. No system call.
    pub(crate) fn take(&self, reader: &mut FrameRing) -> Option<Taken> {
        let head = self.control.word(0, Control::Head as usize);
        let head = head.map_or(0, |word| word.load(Ordering::Relaxed));
        reader.take(&self.ring, head)
    }

    /// Returns the frames that were too long for the ring.
    pub(crate) fn oversize(&self) -> u64 {
        let word = self.control.word(0, Control::Oversize as usize);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns a pair's counters.
    pub(crate) fn counters(&self, pair: usize) -> AnswerCounters {
        let get = |field: PairWord| {
            let word = self.pairs.word(pair, field as usize);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        AnswerCounters {
            answered: get(PairWord::Answered),
            unarmed: get(PairWord::Unarmed),
            lapsed: get(PairWord::Lapsed),
            too_soon: get(PairWord::TooSoon),
            no_room: get(PairWord::NoRoom),
            torn: get(PairWord::Torn),
            others: get(PairWord::Others),
            ambiguous: get(PairWord::Ambiguous),
        }
    }

    fn set_control(&self, field: Control, value: u64) {
        store(&self.control, 0, field as usize, value);
    }
}

fn store(array: &MappedArray, value: usize, word: usize, content: u64) {
    if let Some(word) = array.word(value, word) {
        word.store(content, Ordering::Relaxed);
    }
}
