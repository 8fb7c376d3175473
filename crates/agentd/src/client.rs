//! A program's side: a channel from the agent of its host. It needs no privilege but the right to open the agent's
//! socket.

use std::net::UdpSocket;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::AgentError;
use crate::message::{Channel, Question, Reply, VERSION, Wish};
use crate::pass;

/// The default path of the agent's socket.
pub const DEFAULT_SOCKET: &str = "/run/rtwire-agent.sock";

/// A program's connection to the agent. What it has reserved is released when it is dropped, or its program ends.
#[derive(Debug)]
pub struct AgentClient {
    socket: OwnedFd,
}

impl AgentClient {
    /// Connects to the agent's socket.
    ///
    /// # Errors
    /// [`AgentError::Unreachable`]: no agent runs there, or this user may not use it.
    pub fn connect(path: &Path) -> Result<AgentClient, AgentError> {
        let socket = pass::connect(path).map_err(|errno| AgentError::Unreachable {
            path: path.to_owned(),
            error: errno.into(),
        })?;
        Ok(AgentClient { socket })
    }

    fn ask(
        &mut self,
        wish: Wish,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Reply, Option<OwnedFd>), AgentError> {
        let gone = |error: rustix::io::Errno| AgentError::Gone {
            error: error.into(),
        };
        let question = Question {
            version: VERSION,
            wish,
        };
        let bytes = serde_json::to_vec(&question).map_err(|error| AgentError::Answer {
            what: error.to_string(),
        })?;
        pass::send(&self.socket, &bytes, descriptor).map_err(gone)?;
        let received = pass::receive(&self.socket).map_err(gone)?;
        let (bytes, descriptor) = received.ok_or(AgentError::Gone {
            error: std::io::ErrorKind::UnexpectedEof.into(),
        })?;
        let reply = serde_json::from_slice(&bytes).map_err(|error| AgentError::Answer {
            what: error.to_string(),
        })?;
        match reply {
            Reply::Refused { reason, text } => Err(AgentError::Refused { reason, text }),
            other => Ok((other, descriptor)),
        }
    }

    /// Reserves a connection with [`Wish::Reserve`]. Returns it with its socket, which sends to the listener by `send`.
    /// What is more than was admitted waits in the socket's queue, and is dropped when that is full.
    ///
    /// # Errors
    /// [`AgentError::Refused`], or the agent is gone.
    pub fn reserve(&mut self, wish: Wish) -> Result<(Channel, UdpSocket), AgentError> {
        match self.ask(wish, None)? {
            (Reply::Granted(channel), Some(socket)) => Ok((channel, UdpSocket::from(socket))),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Opens the receiving socket of a connection to this host. Only the talker of the connection reaches it, at no
    /// more than its rate.
    ///
    /// # Errors
    /// [`AgentError::Refused`], or the agent is gone.
    pub fn listen(&mut self, connection: u64) -> Result<(Channel, UdpSocket), AgentError> {
        match self.ask(Wish::Listen { connection }, None)? {
            (Reply::Listening(channel), Some(socket)) => Ok((channel, UdpSocket::from(socket))),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Releases a connection of this program.
    ///
    /// # Errors
    /// [`AgentError::Refused`], or the agent is gone.
    pub fn release(&mut self, connection: u64) -> Result<(), AgentError> {
        match self.ask(Wish::Release { connection }, None)?.0 {
            Reply::Released { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the counts of a connection of this program, as [`Reply::Counts`].
    ///
    /// # Errors
    /// [`AgentError::Refused`], or the agent is gone.
    pub fn counts(&mut self, connection: u64) -> Result<Reply, AgentError> {
        match self.ask(Wish::Counts { connection }, None)?.0 {
            counts @ Reply::Counts { .. } => Ok(counts),
            other => Err(unexpected(&other)),
        }
    }

    /// Lets a socket use the control class of this host. Only root may ask.
    ///
    /// # Errors
    /// [`AgentError::Refused`], or the agent is gone.
    pub fn control(&mut self, socket: BorrowedFd<'_>) -> Result<(), AgentError> {
        match self.ask(Wish::Control, Some(socket))?.0 {
            Reply::Controlled => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns true if the agent has ended, or has taken a connection of this program away. Does not wait.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let socket = self.socket.as_fd();
        let mut waits = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut waits, Some(&timeout)).is_ok_and(|count| count > 0)
    }
}

fn unexpected(reply: &Reply) -> AgentError {
    AgentError::Answer {
        what: format!("{reply:?}"),
    }
}
