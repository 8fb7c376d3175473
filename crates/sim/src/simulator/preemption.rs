//! Ports with frame preemption: frames leave in pieces, as the MAC merge sublayer of IEEE Std 802.3, clause 99, sends them.
//!
//! ```text
//! a whole frame     preamble and mark 8 | the frame and its FCS                                  | gap 12
//! interrupted       preamble and mark 8 | at least 64 (1 + n) - 4 of the frame | mCRC 4          | gap 12
//! and continued     preamble and mark 8 | the rest with its FCS, at least 64                     | gap 12
//! ```
//!
//! An express frame that comes while a piece is being sent ends it as soon as the sizes permit. No piece is ended twice, and a
//! frame that is interrupted goes on before any other preemptable one begins.

use super::{Event, Frame, Port, Simulator, Waiting};
use crate::model::{PortModel, PreemptionModel};

/// Preamble, and the mark that says what follows.
const PREAMBLE_BITS: u32 = 8 * 8;
const CRC_BITS: u32 = 4 * 8;
const GAP_BITS: u32 = 12 * 8;
/// The least last piece of a frame, FCS included.
const LEAST_REST_BITS: u32 = 64 * 8;

/// Sizes of pieces, for the search.
pub(crate) mod pieces {
    use super::{CRC_BITS, GAP_BITS, LEAST_REST_BITS, PREAMBLE_BITS};
    use crate::model::PreemptionModel;

    /// Returns the part of a frame of `wire_bits` that its first piece carries if the longest rest that cannot be interrupted is
    /// to be left. `None` if the frame is too short.
    pub(crate) fn before_longest_rest(wire_bits: u32, preemption: PreemptionModel) -> Option<u32> {
        let frame = wire_bits.checked_sub(PREAMBLE_BITS + GAP_BITS)?;
        let carried = frame.checked_sub(preemption.least_bits + LEAST_REST_BITS - 8)?;
        (carried >= preemption.least_bits).then_some(carried)
    }

    /// Returns the size on the wire of a piece that is not the last one.
    pub(crate) fn wire_bits(carried: u32) -> u32 {
        PREAMBLE_BITS + carried + CRC_BITS + GAP_BITS
    }

    /// Returns the bits of such a piece until the end of what it carries.
    pub(crate) fn sent_bits(carried: u32) -> u32 {
        PREAMBLE_BITS + carried
    }
}

/// A frame of which something has been sent, or is being sent.
#[derive(Clone, Copy, Debug)]
struct Begun {
    waiting: Waiting,
    class: u8,
    /// The part that no piece has carried, FCS included.
    left_bits: u32,
    /// True if the port was idle before it.
    fresh: bool,
    /// The beginning of its first piece.
    began_ps: u64,
}

/// A piece of a frame on the link.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The frame, without what earlier pieces have carried.
    frame: Begun,
    /// The part of it that this piece carries.
    carries_bits: u32,
    starts_ps: u64,
    /// The fraction of a picosecond at its start, in 1 / rate.
    fraction: u64,
}

/// The frames that a port with preemption has begun.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pieces {
    now: Option<Piece>,
    interrupted: Option<Begun>,
    /// The number of the latest end of a piece. Earlier ones are void.
    number: u32,
}

/// The frames of a port that have been begun and not ended: their number and their full size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InPart {
    pub(super) bits: u64,
    pub(super) frames: u64,
}

impl Piece {
    fn is_cut(&self) -> bool {
        self.carries_bits < self.frame.left_bits
    }

    fn wire_bits(&self) -> u32 {
        let crc = if self.is_cut() { CRC_BITS } else { 0 };
        PREAMBLE_BITS + self.carries_bits + crc + GAP_BITS
    }
}

impl Pieces {
    /// True while a piece is on the link.
    pub(super) fn is_sending(&self) -> bool {
        self.now.is_some()
    }

    /// Returns the number of frames that have been begun and not ended.
    pub(super) fn frames(&self) -> usize {
        usize::from(self.now.is_some()) + usize::from(self.interrupted.is_some())
    }
}

impl Port {
    /// Returns the bits of begun frames that have not left yet.
    pub(super) fn left_bits(&self, model: &PortModel, now_ps: u64) -> u64 {
        let left_ps = self.busy_until_ps.saturating_sub(now_ps);
        let on_link = model.line.bits_in(left_ps);
        if model.preemption.is_none() {
            return on_link;
        }
        let rest = |bits: u32| u64::from(bits + GAP_BITS);
        let interrupted = self.pieces.interrupted;
        let interrupted = interrupted.map_or(0, |frame| rest(frame.left_bits));
        let now = self.pieces.now.map_or(0, |piece| {
            let frame = &piece.frame;
            let begins = frame.left_bits + PREAMBLE_BITS + GAP_BITS == frame.waiting.frame.bits;
            let most = rest(frame.left_bits) + if begins { u64::from(PREAMBLE_BITS) } else { 0 };
            if piece.is_cut() {
                let behind = rest(frame.left_bits - piece.carries_bits);
                let own = on_link.saturating_sub(u64::from(CRC_BITS + GAP_BITS));
                most.min(own + behind)
            } else {
                most.min(on_link)
            }
        });
        interrupted + now
    }
}

impl Simulator<'_> {
    /// Returns the frames that a port has begun and not ended.
    pub(super) fn begun(&self, index: u32) -> InPart {
        let port = &self.ports[index as usize];
        if self.model.ports[index as usize].preemption.is_none() {
            let sending = self.now_ps < port.busy_until_ps;
            return InPart {
                bits: if sending {
                    u64::from(port.sending_bits)
                } else {
                    0
                },
                frames: u64::from(sending),
            };
        }
        let ends = |piece: &Piece| self.now_ps < port.busy_until_ps || piece.is_cut();
        let now = port.pieces.now.filter(ends).map(|piece| piece.frame);
        let both = [now, port.pieces.interrupted];
        let both = both.into_iter().flatten();
        both.fold(InPart::default(), |all, one| InPart {
            bits: all.bits + u64::from(one.waiting.frame.bits),
            frames: all.frames + 1,
        })
    }

    /// Lets an express frame that has just come end the piece that is being sent, as soon as the sizes permit.
    pub(super) fn interrupt(&mut self, index: u32) {
        let port_model = &self.model.ports[index as usize];
        let Some(preemption) = port_model.preemption else {
            return;
        };
        let port = &mut self.ports[index as usize];
        let Some(mut piece) = port.pieces.now else {
            return;
        };
        if piece.frame.class >= preemption.first_express || piece.is_cut() {
            return;
        }
        let since_ps = self.now_ps - piece.starts_ps;
        let sent = u32::try_from(port_model.line.bits_in(since_ps)).unwrap_or(u32::MAX);
        // Whole bytes.
        let sent = sent
            .saturating_sub(PREAMBLE_BITS)
            .div_ceil(8)
            .saturating_mul(8);
        let carries = sent.max(preemption.least_bits);
        if piece.frame.left_bits < carries.saturating_add(LEAST_REST_BITS) {
            return;
        }
        piece.carries_bits = carries;
        self.send_piece(index, piece);
    }

    /// Has a port send a piece up to its end, in place of what was to end there.
    fn send_piece(&mut self, index: u32, piece: Piece) {
        let line = &self.model.ports[index as usize].line;
        let port = &mut self.ports[index as usize];
        let (took_ps, fraction) = line.transmit(piece.wire_bits(), piece.fraction);
        port.busy_until_ps = piece.starts_ps.saturating_add(took_ps);
        port.fraction = fraction;
        port.pieces.now = Some(piece);
        port.pieces.number = port.pieces.number.wrapping_add(1);
        let (end_ps, number) = (port.busy_until_ps, port.pieces.number);
        let event = Event::PieceEnds {
            port: index,
            number,
        };
        self.events.push(end_ps, 0, event);
    }

    /// Begins the next piece: express frames first, then the rest of an interrupted one, then the others.
    pub(super) fn choose_piece(&mut self, index: u32) {
        let port_model = &self.model.ports[index as usize];
        let Some(PreemptionModel { first_express, .. }) = port_model.preemption else {
            return;
        };
        let port = &mut self.ports[index as usize];
        port.woken = false;
        if port.pieces.is_sending() {
            return;
        }
        let fresh = self.now_ps > port.busy_until_ps || port.busy_until_ps == 0;
        let highest = port.filled.checked_ilog2();
        let express = highest.filter(|class| *class >= u32::from(first_express));
        let (frame, new) = match (express, port.pieces.interrupted) {
            (None, Some(frame)) => {
                port.pieces.interrupted = None;
                (frame, false)
            }
            (_, interrupted) => {
                let Some(class) = express.or(highest) else {
                    return;
                };
                debug_assert!(express.is_some() || interrupted.is_none());
                let queue = &mut port.queues[class as usize];
                let Some(waiting) = queue.pop_front() else {
                    return;
                };
                if queue.is_empty() {
                    port.filled &= !(1 << class);
                }
                port.waiting_bits -= u64::from(waiting.frame.bits);
                port.waiting_frames -= 1;
                let begun = Begun {
                    waiting,
                    // At most 7.
                    class: class as u8,
                    left_bits: waiting.frame.bits.saturating_sub(PREAMBLE_BITS + GAP_BITS),
                    fresh,
                    began_ps: self.now_ps,
                };
                (begun, true)
            }
        };
        let piece = Piece {
            frame,
            carries_bits: frame.left_bits,
            starts_ps: self.now_ps,
            fraction: if fresh { 0 } else { port.fraction },
        };
        port.sending_bits = frame.waiting.frame.bits;
        self.send_piece(index, piece);
        if new {
            self.sends_again(frame.waiting.frame);
        }
    }

    /// Ends a piece: its frame is through, or waits until no express frame is left.
    pub(super) fn piece_ends(&mut self, index: u32, number: u32) {
        let port = &mut self.ports[index as usize];
        if port.pieces.number != number {
            return;
        }
        let Some(piece) = port.pieces.now.take() else {
            return;
        };
        self.choosing.push(index);
        if piece.is_cut() {
            port.pieces.interrupted = Some(Begun {
                left_bits: piece.frame.left_bits - piece.carries_bits,
                ..piece.frame
            });
            return;
        }
        let Begun {
            waiting,
            class,
            fresh,
            began_ps,
            ..
        } = piece.frame;
        let (release_ps, tie) =
            self.release(index, waiting, usize::from(class), self.now_ps, fresh);
        self.frame_hops += 1;
        let at = release_ps.saturating_add(self.model.ports[index as usize].cable_ps);
        let frame: Frame = waiting.frame;
        if !self.is_cut(index, frame, began_ps, at) {
            self.events.push(at, tie, Event::Arrives(frame));
        }
    }
}
