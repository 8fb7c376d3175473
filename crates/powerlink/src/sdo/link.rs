//! The sequence layer: commands arrive once and in order, or the link breaks (DS 301, 6.3).

use super::super::error::AbortCode;
use rtwire_wire::powerlink::{Connection, Sdo, SdoCommand, SdoCommandId, Segmentation, Sequence};
use std::collections::VecDeque;

/// Largest number of unacknowledged commands.
const WINDOW: usize = 4;
/// Number of times that an unanswered command is sent within the timeout of the layer.
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

/// One connection to a peer.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    state: State,
    client: bool,
    sent: u8,
    received: u8,
    /// Commands sent and not acknowledged, with their numbers.
    flying: VecDeque<(u8, Command)>,
    /// Number of commands in `flying`, counted from the last, that are to be sent (again).
    again: usize,
    waiting: VecDeque<Command>,
    /// A message without a command that is to be sent: receive and send state.
    control: Option<(Connection, Connection)>,
    last_control: (Connection, Connection),
    timeout_ns: u64,
    deadline_ns: Option<u64>,
    tries: u64,
}

/// Result of a message or of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    Nothing,
    /// A new command arrived in order.
    Command,
    /// The peer has closed the link, or does not respond.
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

    /// Returns `true` if the link is closed and no closing message waits to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_closed() && self.control.is_none()
    }

    pub(crate) fn is_opening(&self) -> bool {
        self.state == State::Opening
    }

    /// Starts the time for a response again.
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

    /// Opens the link if it is closed.
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

    /// Returns the number of commands that still fit into the window.
    pub(crate) fn room(&self) -> usize {
        WINDOW.saturating_sub(self.flying.len() + self.waiting.len())
    }

    /// Returns `true` if all commands have been acknowledged.
    pub(crate) fn is_settled(&self) -> bool {
        self.flying.is_empty() && self.waiting.is_empty()
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.waiting.push_back(command);
    }

    /// Returns the number of frames that wait to be sent.
    pub(crate) fn frames_waiting(&self) -> usize {
        let commands = if self.state == State::Open {
            let room = WINDOW.saturating_sub(self.flying.len());
            self.again + self.waiting.len().min(room)
        } else {
            0
        };
        commands.max(usize::from(self.control.is_some()))
    }

    /// Writes the next frame; returns `true` if there was one.
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

    /// Processes a message from the peer.
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
            // One end was restarted. A command is answered with a close, so that the peer need not wait for its
            // timeout.
            State::Closed => {
                if sdo.command.is_some() {
                    self.say(Connection::None, Connection::None);
                }
                return Brought::Nothing;
            }
            // The client has answered the server: the server's first valid message completes the opening. Before
            // that, such a message belongs to an earlier link that the server still considers open.
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
            // The number of the last command again: an acknowledgement, or an unneeded repetition.
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
            // A command before it is missing; or it is itself the missing one, and the message is an acknowledgement
            // sent after it.
            1..32 => self.control = Some((Connection::Request, Connection::Valid)),
            _ => self.control = Some(ack),
        }
        if before != self.flying.len() || brought == Brought::Command || before == 0 {
            self.progress(now_ns);
        }
        brought
    }

    /// Returns the time in ns at which [`expire`](Self::expire) must be called; `None` for none.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// Repeats unanswered commands; breaks the link after enough tries.
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
