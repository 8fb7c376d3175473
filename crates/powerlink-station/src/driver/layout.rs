//! The structures that are shared with the POWERLINK program (`crates/bpf/programs/powerlink.h`), by 64-bit words.

pub(super) use rtwire_link::frame_ring::{FRAME_OCTETS, RECORD_WORDS};
#[cfg(test)]
pub(super) use rtwire_link::frame_ring::{RING, Record};

/// The number of buffers of the prepared response.
pub(super) const BUFFERS: u64 = 4;
/// The most requests of a cycle.
pub(super) const POLLS: usize = 256;
/// The number of cycles that are prepared at a time.
pub(super) const CYCLES: usize = 2;
/// The longest time for which the driver holds back a response of PollResponse chaining, ns. Only the program and tests need it.
#[cfg(test)]
pub(super) const LONGEST_WAIT_NS: u64 = 200_000;
/// The response has left.
pub(super) const ANSWERED: u64 = 1;
/// The next request has left. Only the program and tests need it.
#[cfg(test)]
pub(super) const CHAINED: u64 = 2;
/// Role: answers PReqs.
pub(super) const CONTROLLED: u64 = 1;
/// Role: sends the next PReq on a PRes.
pub(super) const MANAGING: u64 = 2;

const FRAME_WORDS: usize = FRAME_OCTETS / 8;

/// The fields of `struct rtw_pl_control`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
#[allow(dead_code, reason = "the program's own fields keep their places")]
pub(super) enum Control {
    Role = 0,
    Node = 1,
    Mac = 2,
    Wanted = 3,
    ChainedIn = 7,
    AfterNs,
    Managing,
    Watchdog,
    Head,
    Answered,
    Unanswered,
    Chained,
    Unchained,
    Unwanted,
    Malformed,
    Foreign,
    Lapsed,
    Cycle,
    Polled,
}
pub(super) const CONTROL_WORDS: usize = Control::Polled as usize + 1;

/// The fields of `struct rtw_pl_prepared`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(super) enum Prepared {
    Length,
    Node,
    Data,
}
pub(super) const PREPARED_WORDS: usize = Prepared::Data as usize + FRAME_WORDS;

/// The fields of `struct rtw_pl_response`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(super) enum Response {
    Version,
    Armed,
    Renewed,
    Prepared,
}
pub(super) const RESPONSE_WORDS: usize =
    Response::Prepared as usize + BUFFERS as usize * PREPARED_WORDS;

/// The fields of `struct rtw_pl_chain`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(super) enum Chain {
    Turn,
    UntilNs,
    Count,
}
pub(super) const CHAIN_WORDS: usize = Chain::Count as usize + CYCLES;

/// A structure's name, its fields with their offsets in words, and its length in words.
#[cfg(test)]
type Layout = (&'static str, &'static [(&'static str, usize)], usize);

/// Every structure, as the header has it.
#[cfg(test)]
pub(super) const FIELDS: [Layout; 5] = [
    (
        "rtw_pl_control",
        &[
            ("role", Control::Role as usize),
            ("node", Control::Node as usize),
            ("mac", Control::Mac as usize),
            ("wanted", Control::Wanted as usize),
            ("chained_in", Control::ChainedIn as usize),
            ("after_ns", Control::AfterNs as usize),
            ("managing", Control::Managing as usize),
            ("watchdog", Control::Watchdog as usize),
            ("head", Control::Head as usize),
            ("answered", Control::Answered as usize),
            ("unanswered", Control::Unanswered as usize),
            ("chained", Control::Chained as usize),
            ("unchained", Control::Unchained as usize),
            ("unwanted", Control::Unwanted as usize),
            ("malformed", Control::Malformed as usize),
            ("foreign", Control::Foreign as usize),
            ("lapsed", Control::Lapsed as usize),
            ("cycle", Control::Cycle as usize),
            ("polled", Control::Polled as usize),
        ],
        CONTROL_WORDS,
    ),
    (
        "rtw_pl_record",
        &[
            ("number", Record::Number as usize),
            ("arrival_ns", Record::ArrivalNs as usize),
            ("length", Record::Length as usize),
            ("did", Record::Did as usize),
            ("cycle", Record::Note as usize),
            ("data", Record::Data as usize),
        ],
        RECORD_WORDS,
    ),
    (
        "rtw_pl_prepared",
        &[
            ("length", Prepared::Length as usize),
            ("node", Prepared::Node as usize),
            ("data", Prepared::Data as usize),
        ],
        PREPARED_WORDS,
    ),
    (
        "rtw_pl_response",
        &[
            ("version", Response::Version as usize),
            ("armed", Response::Armed as usize),
            ("renewed", Response::Renewed as usize),
            ("prepared", Response::Prepared as usize),
        ],
        RESPONSE_WORDS,
    ),
    (
        "rtw_pl_chain",
        &[
            ("turn", Chain::Turn as usize),
            ("until_ns", Chain::UntilNs as usize),
            ("count", Chain::Count as usize),
        ],
        CHAIN_WORDS,
    ),
];
