//! The contract between a node and a port that can send for it: a driver program, a kernel module, a network card.
//!
//! ```text
//!  Node                                        port that sends by itself            port that does not
//!  Prepare { slot, frame }                ──►  keeps the frame                      does nothing
//!  Arm { slot, cue, behind }              ──►  cue arrives: sends the frame         does nothing
//!  Due { slot, frame }, on the same cue   ──►  left already? nothing : sends it     sends it
//!  Disarm { slot }                        ──►  sends nothing by itself any more     does nothing
//! ```
//!
//! A node has numbered slots for frames that are ready to leave. It arms those that the port may send by itself. It
//! also emits [`Action::Due`] for each frame, whoever sends it. A port that sends by itself skips those that have
//! left; any other port sends them all. So the node does not need to know which port it has.
//!
//! Slots and cues are numbers. Their meaning is the protocol's: its node and its port agree on it, and nothing between them
//! knows it. A port infers nothing from the bytes of frames or from silence.
//!
//! # Replies and chains
//! A slot without [`Arm::behind`] holds a *reply*: it leaves on each of its cues until it is disarmed. A slot with it belongs to
//! a *chain*: it leaves once, on its cue, and only after the slot before it has left. The first slot of a chain is prepared,
//! not armed: it leaves when it is due, and the chain begins.
//!
//! ```text
//!  reply   Prepare 0, Arm 0 on cue A        A ─► 0   A ─► 0   A ─► 0   Disarm 0   A
//!  chain   Prepare 0, 1, 2                  Due 0 ─► 0
//!          Arm 1 on cue B behind 0                   B ─► 1
//!          Arm 2 on cue C behind 1                        C ─► 2
//! ```
//!
//! # Leases
//! A node repeats [`Action::Arm`] for a reply in each cycle, also where nothing has changed. A port may treat that as
//! a lease, and disarm a slot by itself that was not renewed for some cycles. A chain needs no lease: it ends with
//! its last slot, and does not begin without the node.

/// A place for a prepared frame. The protocol defines the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// A frame that arrives and makes a prepared one leave. The protocol defines the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cue(pub u16);

/// The condition under which a port sends a prepared frame by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arm {
    /// The prepared frame.
    pub slot: Slot,
    /// The frame that it answers.
    pub cue: Cue,
    /// The time from the arrival of that frame until it leaves, ns.
    pub after_ns: u64,
    /// In a chain: the slot that must have left before. `None`: a reply, which leaves on every cue.
    pub behind: Option<Slot>,
}

/// Something that a node asks of its port, besides sending a frame. Carried out at once, in the order in which it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action<'a> {
    /// Puts a frame into a slot, in place of the one before: Ethernet header and payload, padded, without FCS. A slot that is
    /// armed stays so, and a cue that arrives meanwhile finds the old frame or the new one, whole. Arms nothing by itself.
    Prepare {
        /// The place.
        slot: Slot,
        /// The frame.
        frame: &'a [u8],
    },
    /// Lets the port send a prepared frame by itself. May be given for several cues, and again for the same one.
    Arm(Arm),
    /// Ends that, for all cues of the slot and for the slots behind it. At most the frame that leaves at this moment leaves still.
    Disarm {
        /// The place.
        slot: Slot,
    },
    /// Makes the slot's frame leave now. The port sends `frame`, unless it has sent the slot by itself. A reply
    /// counts as sent if it left on the frame that the node is being shown. A chain's slot counts as sent if it left
    /// since it was prepared.
    Due {
        /// The place.
        slot: Slot,
        /// The frame to send where none has left. It may be newer than the prepared one.
        frame: &'a [u8],
        /// The earliest time to leave, as of [`Outbox::send`](crate::Outbox::send).
        launch_ns: Option<u64>,
    },
}
