//! The structures that are shared with the PubSub program (`crates/bpf/programs/pubsub.h`), by 64-bit words. The records of its ring are
//! those of [`rtwire_link::frame_ring`].

#[cfg(test)]
use rtwire_link::frame_ring::{RECORD_WORDS, Record};

/// The most pairs of a question and its answer.
pub(crate) const PAIRS: usize = 8;
/// Room for one message, bytes.
pub(super) const MESSAGE_BYTES: usize = 1504;
/// The buffers of a prepared answer.
pub(super) const BUFFERS: usize = 4;
/// The words of a question that are compared.
pub(super) const WINDOWS: usize = 8;
/// The same in bytes.
pub(super) const HEAD_BYTES: usize = WINDOWS * 8;
/// The most fields that are copied.
pub(crate) const COPIES: usize = 8;
/// The most bytes of such a field. Only the program and tests need it: scalars have no more.
#[cfg(test)]
pub(super) const COPY_BYTES: usize = 8;
/// Any VLAN, or none.
pub(super) const ANY_VLAN: u64 = 65_536;
/// The answer has left.
pub(crate) const ANSWERED: u64 = 1;

/// The fields of `struct rtw_ps_control`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(super) enum Control {
    Pairs = 0,
    Mac = 1,
    Head = 3,
    Oversize,
}
pub(super) const CONTROL_WORDS: usize = Control::Oversize as usize + 1;

/// The fields of `struct rtw_ps_pair`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
#[allow(dead_code, reason = "the program's own fields keep their places")]
pub(super) enum PairWord {
    Destination = 0,
    Vlan,
    Length,
    Mask,
    Value = 3 + WINDOWS,
    Data = 3 + 2 * WINDOWS,
    ZerosAreData = 3 + 3 * WINDOWS,
    AnswerLength,
    AnswerTo,
    SequenceAt,
    WriterSequenceAt,
    Copy,
    LeaseNs = 8 + 3 * WINDOWS + COPIES,
    GapNs,
    BurstNs,
    Armed,
    RenewedNs,
    Version,
    NextSequence,
    FullNs,
    Answered,
    Unarmed,
    Lapsed,
    TooSoon,
    Ambiguous,
    NoRoom,
    Torn,
    Others,
}
pub(super) const PAIR_WORDS: usize = PairWord::Others as usize + 1;

/// The words of `struct rtw_ps_content`.
pub(super) const CONTENT_WORDS: usize = MESSAGE_BYTES / 8;

/// A structure's name, its fields with their offsets in words, and its length in words.
#[cfg(test)]
type Layout = (&'static str, &'static [(&'static str, usize)], usize);

/// Every structure, as the header has it.
#[cfg(test)]
pub(super) const FIELDS: [Layout; 4] = [
    (
        "rtw_ps_control",
        &[
            ("pairs", Control::Pairs as usize),
            ("mac", Control::Mac as usize),
            ("head", Control::Head as usize),
            ("oversize", Control::Oversize as usize),
        ],
        CONTROL_WORDS,
    ),
    (
        "rtw_ps_record",
        &[
            ("number", Record::Number as usize),
            ("arrival_ns", Record::ArrivalNs as usize),
            ("length", Record::Length as usize),
            ("did", Record::Did as usize),
            ("reserved", Record::Note as usize),
            ("data", Record::Data as usize),
        ],
        RECORD_WORDS,
    ),
    (
        "rtw_ps_pair",
        &[
            ("destination", PairWord::Destination as usize),
            ("vlan", PairWord::Vlan as usize),
            ("length", PairWord::Length as usize),
            ("mask", PairWord::Mask as usize),
            ("value", PairWord::Value as usize),
            ("data", PairWord::Data as usize),
            ("zeros_are_data", PairWord::ZerosAreData as usize),
            ("answer_length", PairWord::AnswerLength as usize),
            ("answer_to", PairWord::AnswerTo as usize),
            ("sequence_at", PairWord::SequenceAt as usize),
            ("writer_sequence_at", PairWord::WriterSequenceAt as usize),
            ("copy", PairWord::Copy as usize),
            ("lease_ns", PairWord::LeaseNs as usize),
            ("gap_ns", PairWord::GapNs as usize),
            ("burst_ns", PairWord::BurstNs as usize),
            ("armed", PairWord::Armed as usize),
            ("renewed_ns", PairWord::RenewedNs as usize),
            ("version", PairWord::Version as usize),
            ("next_sequence", PairWord::NextSequence as usize),
            ("full_ns", PairWord::FullNs as usize),
            ("answered", PairWord::Answered as usize),
            ("unarmed", PairWord::Unarmed as usize),
            ("lapsed", PairWord::Lapsed as usize),
            ("too_soon", PairWord::TooSoon as usize),
            ("ambiguous", PairWord::Ambiguous as usize),
            ("no_room", PairWord::NoRoom as usize),
            ("torn", PairWord::Torn as usize),
            ("others", PairWord::Others as usize),
        ],
        PAIR_WORDS,
    ),
    ("rtw_ps_content", &[("data", 0)], CONTENT_WORDS),
];
