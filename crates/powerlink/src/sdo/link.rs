//! The sequence layer: commands arrive once and in order, or the link breaks.

use super::super::error::AbortCode;
use rtwire_wire::powerlink::{Connection, Sdo, SdoCommand, SdoCommandId, Segmentation, Sequence};
use std::collections::VecDeque;

/// Commands that may be on their way unacknowledged.
const WINDOW: usize = 4;
/// A command that gets no answer is sent so often within the timeout of the layer.
const TRIES: u64 = 8;

/// A command that owns its data.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Command {
    pub(crate) transaction: u8,
    pub(crate) response: bool,
    pub(crate) abort: bool,
    pub(crate) segmentation: Segmentation,
    pub(crate) command: SdoCommandId,
    pub(crate) data: Vec<u8>,
}

impl Command {
    pub(crate) fn abort(
        transaction: u8,
        response: bool,
        command: SdoCommandId,
        code: AbortCode,
    ) -> Self {
        Self {
            transaction,
            response,
            abort: true,
            command,
            data: code.0.to_le_bytes().to_vec(),
            ..Self::default()
        }
    }

    pub(crate) fn view(&self) -> SdoCommand<'_> {
        SdoCommand {
            transaction: self.transaction,
            response: self.response,
            abort: self.abort,
            segmentation: self.segmentation,
            command: self.command,
            data: &self.data,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Opening,
    Open,
}

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    state: State,
    client: bool,
    sent: u8,
    received: u8,
    /// Sent and not acknowledged, with their numbers.
    flying: VecDeque<(u8, Command)>,
    /// How many of `flying` are to be sent (again), from the last on.
    again: usize,
    waiting: VecDeque<Command>,
    /// A message without a command: receive and send state.
    control: Option<(Connection, Connection)>,
    last_control: (Connection, Connection),
    timeout_ns: u64,
    deadline_ns: Option<u64>,
    tries: u64,
}

/// What a message, or the time, has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    Nothing,
    /// The message's command is new and in order.
    Command,
    /// The peer has closed the link, or does not answer.
    Broken,
}

const fn later(a: u8, b: u8) -> u8 {
    a.wrapping_sub(b) & 0x3f
}

impl Link {
    pub(crate) fn new(client: bool, timeout_ns: u64) -> Self {
        Self {
            state: State::Closed,
            client,
            sent: 0,
            received: 0,
            flying: VecDeque::new(),
            again: 0,
            waiting: VecDeque::new(),
            control: None,
            last_control: (Connection::None, Connection::None),
            timeout_ns: timeout_ns.max(TRIES),
            deadline_ns: None,
            tries: 0,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether a closing message still waits to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_closed() && self.control.is_none()
    }

    pub(crate) fn is_opening(&self) -> bool {
        self.state == State::Opening
    }

    /// What waits for an answer waits from now on.
    pub(crate) fn postpone(&mut self, now_ns: u64) {
        self.tries = 0;
        if self.expecting() {
            self.arm(now_ns);
        }
    }

    fn restart(&mut self) {
        let fresh = Self::new(self.client, self.timeout_ns);
        let waiting = core::mem::take(&mut self.waiting);
        *self = Self { waiting, ..fresh };
    }

    fn say(&mut self, receive: Connection, send: Connection) {
        self.control = Some((receive, send));
        self.last_control = (receive, send);
    }

    /// Opens the link, if it is closed.
    pub(crate) fn open(&mut self, now_ns: u64) {
        if self.state == State::Closed {
            self.restart();
            self.state = State::Opening;
            self.say(Connection::None, Connection::Initialisation);
            self.arm(now_ns);
        }
    }

    /// Closes the link, with a message to the peer.
    pub(crate) fn close(&mut self) {
        if self.state != State::Closed {
            let numbers = (self.sent, self.received);
            self.waiting.clear();
            self.restart();
            (self.sent, self.received) = numbers;
            self.say(Connection::None, Connection::None);
        }
    }

    fn arm(&mut self, now_ns: u64) {
        self.deadline_ns = Some(now_ns + self.timeout_ns / TRIES);
    }

    fn expecting(&self) -> bool {
        self.state == State::Opening || !self.flying.is_empty()
    }

    /// Room for commands before the window is full.
    pub(crate) fn room(&self) -> usize {
        WINDOW.saturating_sub(self.flying.len() + self.waiting.len())
    }

    /// Whether all that was given has been acknowledged.
    pub(crate) fn is_settled(&self) -> bool {
        self.flying.is_empty() && self.waiting.is_empty()
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.waiting.push_back(command);
    }

    /// Frames that wait to be sent.
    pub(crate) fn frames_waiting(&self) -> usize {
        let commands = if self.state == State::Open {
            let room = WINDOW.saturating_sub(self.flying.len());
            self.again + self.waiting.len().min(room)
        } else {
            0
        };
        commands.max(usize::from(self.control.is_some()))
    }

    /// The next frame, if one waits.
    pub(crate) fn next(&mut self, now_ns: u64, write: &mut dyn FnMut(&Sdo<'_>)) -> bool {
        let opening = matches!(
            self.control,
            Some((Connection::None | Connection::Initialisation, _))
                | Some((Connection::Valid, Connection::Initialisation))
        );
        let has_command = self.state == State::Open && !opening;
        if has_command && self.again == 0 && self.flying.len() < WINDOW {
            if let Some(command) = self.waiting.pop_front() {
                self.sent = (self.sent + 1) & 0x3f;
                self.flying.push_back((self.sent, command));
                self.again = 1;
            }
        }
        let mut sequence = Sequence {
            receive_number: self.received,
            receive: Connection::Valid,
            send_number: self.sent,
            send: Connection::Valid,
        };
        if has_command && self.again > 0 {
            let at = self.flying.len().saturating_sub(self.again);
            self.again -= 1;
            let last = self.again == 0 && (self.flying.len() == WINDOW || self.tries > 0);
            let wanted = matches!(self.control, Some((Connection::Request, _)));
            let Some((number, command)) = self.flying.get(at) else {
                return false;
            };
            sequence.send_number = *number;
            if last {
                sequence.send = Connection::Request;
            }
            if wanted {
                sequence.receive = Connection::Request;
            }
            write(&Sdo {
                sequence,
                command: Some(command.view()),
            });
            self.control = None;
            self.arm(now_ns);
            return true;
        }
        let Some((receive, send)) = self.control.take() else {
            return false;
        };
        sequence.receive = receive;
        sequence.send = send;
        if self.state == State::Opening {
            sequence.receive_number = 0;
            sequence.send_number = 0;
        }
        write(&Sdo {
            sequence,
            command: None,
        });
        if self.expecting() {
            self.arm(now_ns);
        }
        true
    }

    /// Takes a message of the peer.
    pub(crate) fn receive(&mut self, now_ns: u64, sdo: &Sdo<'_>) -> Brought {
        use Connection::{Initialisation, None, Request, Valid};
        let sequence = sdo.sequence;
        match (sequence.receive, sequence.send) {
            (None, None) => {
                let was_open = self.state != State::Closed;
                self.waiting.clear();
                self.restart();
                if was_open {
                    Brought::Broken
                } else {
                    Brought::Nothing
                }
            }
            (None, Initialisation) if !self.client => {
                self.waiting.clear();
                self.restart();
                self.state = State::Opening;
                self.say(Initialisation, Initialisation);
                self.arm(now_ns);
                Brought::Nothing
            }
            (Initialisation, Initialisation) if self.client && self.state == State::Opening => {
                self.say(Initialisation, Valid);
                self.progress(now_ns);
                Brought::Nothing
            }
            (Initialisation, Valid) if !self.client && self.state != State::Closed => {
                self.state = State::Open;
                self.say(Valid, Valid);
                self.progress(now_ns);
                Brought::Nothing
            }
            (Valid | Request, Valid | Request) => self.receive_open(now_ns, sdo),
            _ => Brought::Nothing,
        }
    }

    fn progress(&mut self, now_ns: u64) {
        self.tries = 0;
        if self.expecting() {
            self.arm(now_ns);
        } else {
            self.deadline_ns = None;
        }
    }

    fn receive_open(&mut self, now_ns: u64, sdo: &Sdo<'_>) -> Brought {
        let sequence = sdo.sequence;
        match self.state {
            // One of the two has begun anew: the other is told at once, and need not wait for its timeout.
            State::Closed => {
                if sdo.command.is_some() {
                    self.say(Connection::None, Connection::None);
                }
                return Brought::Nothing;
            }
            // The first valid message of a server completes the opening, once it has answered; before that, it is of a link
            // whose end the server has not heard of.
            State::Opening
                if self.last_control == (Connection::Initialisation, Connection::Valid) =>
            {
                self.state = State::Open;
            }
            State::Opening => return Brought::Nothing,
            State::Open => {}
        }
        let before = self.flying.len();
        while let Some(&(number, _)) = self.flying.front() {
            if later(sequence.receive_number, number) >= 32 {
                break;
            }
            self.flying.pop_front();
        }
        self.again = self.again.min(self.flying.len());
        if sequence.receive == Connection::Request {
            self.again = self.flying.len();
        }
        let mut brought = Brought::Nothing;
        let ack = (Connection::Valid, Connection::Valid);
        match later(sequence.send_number, self.received) {
            // The number of the last one again: an acknowledgement, or a repetition that was not needed.
            0 => {
                if sdo.command.is_some() || sequence.send == Connection::Request {
                    self.control = Some(ack);
                }
            }
            1 if sdo.command.is_some() => {
                self.received = sequence.send_number;
                self.control = Some(ack);
                brought = Brought::Command;
            }
            // Something is missing before it; or it is what is missing, and this is an acknowledgement sent behind it.
            1..32 => self.control = Some((Connection::Request, Connection::Valid)),
            _ => self.control = Some(ack),
        }
        if before != self.flying.len() || brought == Brought::Command || before == 0 {
            self.progress(now_ns);
        }
        brought
    }

    /// When to call [`expire`](Self::expire).
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// Sends again what got no answer; breaks the link when that has been done often enough.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Brought {
        if self.deadline_ns.is_none_or(|deadline| now_ns < deadline) {
            return Brought::Nothing;
        }
        if !self.expecting() {
            self.deadline_ns = None;
            return Brought::Nothing;
        }
        self.tries += 1;
        if self.tries > TRIES {
            self.close();
            return Brought::Broken;
        }
        match self.state {
            State::Opening => self.control = Some(self.last_control),
            _ => self.again = self.flying.len(),
        }
        self.arm(now_ns);
        Brought::Nothing
    }
}
