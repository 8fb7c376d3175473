//! A program's side: a channel from the agent of its host. It needs no privilege but the right to open the agent's
//! socket.

use std::net::UdpSocket;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::ClientError;
use crate::message::{
    Channel, End, HostFacts, Opened, Question, Reply, ReserveWish, StreamCounts, StreamWish,
    VERSION, Wish,
};
use crate::pass;

/// The default path of the agent's socket.
pub const DEFAULT_SOCKET: &str = "/run/rtwire-agent.sock";

/// Returns the path of the socket of an interface's agent, as the unit in `packaging/systemd` starts it.
#[must_use]
pub fn socket_of(interface: &str) -> PathBuf {
    PathBuf::from(format!("/run/rtwire-agent-{interface}/socket"))
}

/// A program's connection to the agent. What it has reserved is released when it is dropped, or its program ends.
#[derive(Debug)]
pub struct AgentClient {
    socket: OwnedFd,
}

impl AgentClient {
    /// Connects to the agent's socket.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`]: no agent runs there, or this user may not use it.
    pub fn connect(path: &Path) -> Result<AgentClient, ClientError> {
        let socket = pass::connect(path).map_err(|errno| ClientError::Unreachable {
            path: path.to_owned(),
            error: errno.into(),
        })?;
        Ok(AgentClient { socket })
    }

    /// Limits the wait for an answer. Without this call there is no limit: a manager may take its time.
    ///
    /// # Errors
    /// [`ClientError::Gone`]: the kernel refuses.
    pub fn set_patience(&mut self, longest: Duration) -> Result<(), ClientError> {
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&self.socket, which, Some(longest)).map_err(|errno| {
                ClientError::Gone {
                    error: errno.into(),
                }
            })?;
        }
        Ok(())
    }

    fn ask(
        &mut self,
        wish: Wish,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Reply, Option<OwnedFd>), ClientError> {
        let gone = |error: rustix::io::Errno| ClientError::Gone {
            error: error.into(),
        };
        let question = Question {
            version: VERSION,
            wish,
        };
        let bytes = serde_json::to_vec(&question).map_err(|error| ClientError::Answer {
            what: error.to_string(),
        })?;
        pass::send(&self.socket, &bytes, descriptor).map_err(gone)?;
        let received = pass::receive(&self.socket).map_err(gone)?;
        let (bytes, descriptor) = received.ok_or(ClientError::Gone {
            error: std::io::ErrorKind::UnexpectedEof.into(),
        })?;
        let reply = serde_json::from_slice(&bytes).map_err(|error| ClientError::Answer {
            what: error.to_string(),
        })?;
        match reply {
            Reply::Refused { reason, text } => Err(ClientError::Refused { reason, text }),
            other => Ok((other, descriptor)),
        }
    }

    /// Reserves a connection. Returns it with its socket, which sends to the listener by `send`. More than was admitted waits in the
    /// socket's queue, and is dropped when that is full. What is sent with [`Carrier::Rtdip`](crate::Carrier::Rtdip) begins with the header of
    /// RTDiP, with the port and the key of the [`Channel`].
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the agent is gone.
    pub fn reserve(&mut self, wish: ReserveWish) -> Result<(Channel, UdpSocket), ClientError> {
        match self.ask(Wish::Reserve(wish), None)? {
            (Reply::Granted(channel), Some(socket)) => Ok((*channel, UdpSocket::from(socket))),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Opens the receiving socket of a connection to this host. Only the talker of the connection reaches it, at no
    /// more than its rate.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the agent is gone.
    pub fn listen(&mut self, connection: u64) -> Result<(Channel, UdpSocket), ClientError> {
        match self.ask(Wish::Listen { connection }, None)? {
            (Reply::Listening(channel), Some(socket)) => Ok((*channel, UdpSocket::from(socket))),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Releases a connection of this program.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the agent is gone.
    pub fn release(&mut self, connection: u64) -> Result<(), ClientError> {
        match self.ask(Wish::Release { connection }, None)?.0 {
            Reply::Released { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the counts of a connection of this program, as [`Reply::Counts`].
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the agent is gone.
    pub fn counts(&mut self, connection: u64) -> Result<Reply, ClientError> {
        match self.ask(Wish::Counts { connection }, None)?.0 {
            counts @ Reply::Counts { .. } => Ok(counts),
            other => Err(unexpected(&other)),
        }
    }

    /// Lets a socket use the control class of this host. Only root may ask.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the agent is gone.
    pub fn control(&mut self, socket: BorrowedFd<'_>) -> Result<(), ClientError> {
        match self.ask(Wish::Control, Some(socket))?.0 {
            Reply::Controlled => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the host and the interface that the agent serves.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the agent is gone.
    pub fn host(&mut self) -> Result<HostFacts, ClientError> {
        match self.ask(Wish::Host, None)?.0 {
            Reply::Host(facts) => Ok(facts),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens one end of a planned stream. Returns it with its socket, a connected one for a talker. It is closed by
    /// [`Self::close`], and with this client.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the agent is gone.
    pub fn open(&mut self, wish: StreamWish) -> Result<(Opened, OwnedFd), ClientError> {
        match self.ask(Wish::Open(wish), None)? {
            (Reply::Opened(opened), Some(socket)) => Ok((opened, socket)),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Closes one end of a stream: its socket has no rights any more.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the agent is gone.
    pub fn close(&mut self, end: End, stream: &str) -> Result<(), ClientError> {
        let stream = stream.to_owned();
        match self.ask(Wish::Close { end, stream }, None)?.0 {
            Reply::Closed { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the counts of one end of a stream that this program has open.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the agent is gone.
    pub fn stream_counts(&mut self, end: End, stream: &str) -> Result<StreamCounts, ClientError> {
        let stream = stream.to_owned();
        match self.ask(Wish::StreamCounts { end, stream }, None)?.0 {
            Reply::StreamCounts(counts) => Ok(counts),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns what waits for the end of this connection, for another thread.
    ///
    /// # Errors
    /// [`ClientError::Gone`]: there is no descriptor left.
    pub fn watch(&self) -> Result<EndWatch, ClientError> {
        let copy = self.socket.try_clone();
        copy.map(|socket| EndWatch { socket })
            .map_err(|error| ClientError::Gone { error })
    }

    /// Ends the connection, also for its [`EndWatch`]. The agent takes back what this program has.
    pub fn end(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
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

/// Waits for the end of a connection to the agent.
#[derive(Debug)]
pub struct EndWatch {
    socket: OwnedFd,
}

impl EndWatch {
    /// Waits until the agent has ended, or has ended this connection, or [`AgentClient::end`] was called.
    pub fn wait(&self) {
        let socket = self.socket.as_fd();
        let mut waits = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
        // A signal is no end.
        while poll(&mut waits, None) == Err(rustix::io::Errno::INTR) {}
    }
}

fn unexpected(reply: &Reply) -> ClientError {
    ClientError::Answer {
        what: format!("{reply:?}"),
    }
}
