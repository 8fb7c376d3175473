//! The structures shared with the receive program (`crates/bpf/programs/receive.h`), in 64-bit words.

#[cfg(test)]
use rtwire_sys::bpf::queue::{self, Place, Queue};

/// Number of channels on one interface.
pub(crate) const CHANNELS: usize = 64;
/// Number of port numbers.
pub(crate) const PORTS: usize = 65_536;
/// Number of buffers for a newest value, and for a reply.
pub(crate) const BUFFERS: u64 = 4;
/// Bytes of room for the user data of one frame.
pub(crate) const DATA_OCTETS: usize = 1488;
/// Largest length of the user data in a reply, in bytes.
pub(crate) const REPLY_OCTETS: usize = 1476;
/// Largest number of patches in one answer.
pub(crate) const PATCHES: usize = 8;
/// Largest number of bytes that one patch copies.
pub(crate) const PATCH_OCTETS: usize = 16;
/// Number of bytes of a question's data that patches can copy.
pub(crate) const PATCH_QUESTION: usize = 128;
/// Lowest port that responders answer; no responder has such a port.
pub(crate) const FIRST_ASKING_PORT: u16 = 49_152;

const DATA_WORDS: usize = DATA_OCTETS / 8;

/// Action on a channel's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Action {
    Free,
    Pass,
    Newest,
    Respond,
    Queue,
}

/// The fields of `struct rtw_control`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Control {
    EtherType = 0,
    Mac = 1,
    Truncated = 3,
    WrongVersion,
    Malformed,
    WrongLength,
    NextChannel,
}
pub(crate) const CONTROL_WORDS: usize = Control::NextChannel as usize + 1;

/// The fields of `struct rtw_port_entry`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Port {
    Channel,
    Passed,
}
pub(crate) const PORT_WORDS: usize = Port::Passed as usize + 1;

/// The fields of `struct rtw_channel`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
#[allow(dead_code, reason = "the program's own fields keep their places")]
pub(crate) enum Channel {
    Action,
    Key,
    PoliceByteTime,
    PoliceBurst,
    PoliceOverhead,
    PoliceUntil,
    Accepted,
    WrongKey,
    WrongSemantics,
    Policed,
    Oversize,
    Stale,
    Busy,
    NoQuestion,
    Unanswered,
    NoRoom,
    Missing,
    Broken,
    Owner,
}
pub(crate) const CHANNEL_WORDS: usize = Channel::Owner as usize + 1;

/// The fields of `struct rtw_value` before its data.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Value {
    ArrivalNs,
    SenderNs,
    Offered,
    Sequence,
    Source,
    Length,
    Priority,
    Data = 8,
}
pub(crate) const VALUE_WORDS: usize = Value::Data as usize + DATA_WORDS;

/// The first words of `struct rtw_slot`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
#[allow(dead_code, reason = "the program's own fields keep their places")]
pub(crate) enum Slot {
    Version = 0,
    Suspect = 1,
    Wakes = 2,
    Asleep = 3,
    Notes = 4,
    Noted = 5,
    Value = 8,
}
pub(crate) const SLOT_WORDS: usize = Slot::Value as usize + BUFFERS as usize * VALUE_WORDS;

/// The fields of `struct rtw_note`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Note {
    ArrivalNs,
    SenderNs,
    Sequence,
    Source,
}
pub(crate) const NOTE_WORDS: usize = Note::Source as usize + 1;

/// The first words of `struct rtw_reply`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Reply {
    Version,
    Echo,
    Patched,
    Content = 4,
}
/// The fields of `struct rtw_content`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Content {
    Length = 0,
    Patches = 1,
    Patch = 2,
    Data = 10,
}
pub(crate) const CONTENT_WORDS: usize = Content::Data as usize + DATA_WORDS;
pub(crate) const REPLY_WORDS: usize = Reply::Content as usize + BUFFERS as usize * CONTENT_WORDS;

/// A structure's name, its fields with their offsets in words, and its length in words.
#[cfg(test)]
type Layout = (&'static str, &'static [(&'static str, usize)], usize);

/// All structures, as in the header.
#[cfg(test)]
pub(crate) const FIELDS: [Layout; 10] = [
    (
        "rtw_control",
        &[
            ("ether_type", Control::EtherType as usize),
            ("mac", Control::Mac as usize),
            ("truncated", Control::Truncated as usize),
            ("wrong_version", Control::WrongVersion as usize),
            ("malformed", Control::Malformed as usize),
            ("wrong_length", Control::WrongLength as usize),
            ("next_channel", Control::NextChannel as usize),
        ],
        CONTROL_WORDS,
    ),
    (
        "rtw_port_entry",
        &[
            ("channel", Port::Channel as usize),
            ("passed", Port::Passed as usize),
        ],
        PORT_WORDS,
    ),
    (
        "rtw_channel",
        &[
            ("action", Channel::Action as usize),
            ("key", Channel::Key as usize),
            ("police_byte_time", Channel::PoliceByteTime as usize),
            ("police_burst", Channel::PoliceBurst as usize),
            ("police_overhead", Channel::PoliceOverhead as usize),
            ("police_until", Channel::PoliceUntil as usize),
            ("accepted", Channel::Accepted as usize),
            ("wrong_key", Channel::WrongKey as usize),
            ("wrong_semantics", Channel::WrongSemantics as usize),
            ("policed", Channel::Policed as usize),
            ("oversize", Channel::Oversize as usize),
            ("stale", Channel::Stale as usize),
            ("busy", Channel::Busy as usize),
            ("no_question", Channel::NoQuestion as usize),
            ("unanswered", Channel::Unanswered as usize),
            ("no_room", Channel::NoRoom as usize),
            ("missing", Channel::Missing as usize),
            ("broken", Channel::Broken as usize),
            ("owner", Channel::Owner as usize),
        ],
        CHANNEL_WORDS,
    ),
    (
        "rtw_value",
        &[
            ("arrival_ns", Value::ArrivalNs as usize),
            ("sender_ns", Value::SenderNs as usize),
            ("offered", Value::Offered as usize),
            ("sequence", Value::Sequence as usize),
            ("source", Value::Source as usize),
            ("length", Value::Length as usize),
            ("priority", Value::Priority as usize),
            ("reserved", 7),
            ("data", Value::Data as usize),
        ],
        VALUE_WORDS,
    ),
    (
        "rtw_slot",
        &[
            ("version", Slot::Version as usize),
            ("suspect", Slot::Suspect as usize),
            ("wakes", Slot::Wakes as usize),
            ("asleep", Slot::Asleep as usize),
            ("notes", Slot::Notes as usize),
            ("noted", Slot::Noted as usize),
            ("reserved", 6),
            ("value", Slot::Value as usize),
        ],
        SLOT_WORDS,
    ),
    (
        "rtw_note",
        &[
            ("arrival_ns", Note::ArrivalNs as usize),
            ("sender_ns", Note::SenderNs as usize),
            ("sequence", Note::Sequence as usize),
            ("source", Note::Source as usize),
        ],
        NOTE_WORDS,
    ),
    (
        "rtw_queue",
        &[
            ("places", Queue::Places as usize),
            ("levels", Queue::Levels as usize),
            ("stamps", Queue::Stamps as usize),
            ("wakes", Queue::Wakes as usize),
            ("reserved", Queue::Reserved as usize),
            ("head", Queue::Head as usize),
            ("freed", Queue::Freed as usize),
            ("full", Queue::Full as usize),
            ("tail", Queue::Tail as usize),
            ("asleep", Queue::Asleep as usize),
        ],
        Queue::Asleep as usize + 1,
    ),
    (
        "rtw_place",
        &[
            ("turn", Place::Turn as usize),
            ("arrival_ns", Place::ArrivalNs as usize),
            ("sender_ns", Place::SenderNs as usize),
            ("source", Place::Source as usize),
            ("sequence", Place::Sequence as usize),
            ("length", Place::Length as usize),
            ("priority", Place::Priority as usize),
            ("reserved", Place::Reserved as usize),
            ("data", Place::Data as usize),
        ],
        queue::PLACE_WORDS,
    ),
    (
        "rtw_content",
        &[
            ("length", Content::Length as usize),
            ("patches", Content::Patches as usize),
            ("patch", Content::Patch as usize),
            ("data", Content::Data as usize),
        ],
        CONTENT_WORDS,
    ),
    (
        "rtw_reply",
        &[
            ("version", Reply::Version as usize),
            ("echo", Reply::Echo as usize),
            ("patched", Reply::Patched as usize),
            ("reserved", 3),
            ("content", Reply::Content as usize),
        ],
        REPLY_WORDS,
    ),
];
