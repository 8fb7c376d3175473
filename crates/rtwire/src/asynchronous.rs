//! Streams for programs on [tokio](::tokio): a listener that is awaited. Behind the feature `tokio`.
//!
//! Fit for programs that watch many streams beside other work. A control loop keeps its deadline better with a thread of its
//! own, which waits in [`StreamListener::recv`].

use std::os::fd::OwnedFd;
use std::time::Duration;

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;
use rtwire_session::{StreamListener, StreamStatistics, Value};

use crate::Error;

/// The listener of one stream in an async program.
#[derive(Debug)]
pub struct AsyncListener {
    listener: StreamListener,
    /// A second descriptor of the listener's socket: the runtime may keep it longer than a call.
    readable: AsyncFd<OwnedFd>,
}

impl AsyncListener {
    /// Hands a listener to the runtime of the calling task, which must have its I/O driver on
    /// ([`enable_io`](::tokio::runtime::Builder::enable_io)).
    ///
    /// # Errors
    /// The listener's path is `uman`, which has no descriptor for each listener. The process has no descriptor left.
    ///
    /// # Panics
    /// Outside of a runtime, or in one without I/O driver, as everything of tokio does.
    pub fn new(listener: StreamListener) -> Result<Self, Error> {
        let descriptor = listener.descriptor()?.try_clone_to_owned();
        #[allow(
            deprecated,
            reason = "what replaces it is unsafe, for types that may give away their descriptor: an `OwnedFd` does not"
        )]
        let readable = descriptor.and_then(|own| AsyncFd::with_interest(own, Interest::READABLE));
        Ok(Self {
            readable: readable.map_err(Error::Runtime)?,
            listener,
        })
    }

    /// Waits until [`recv`](Self::recv) has a value. Cancel safe: nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// The interface is missing or down; another program detached the receive program; the runtime is shutting down.
    pub async fn ready(&mut self) -> Result<(), Error> {
        while !self.listener.arm()? {
            // Cleared before the next look, so that a frame in between is seen by one of both.
            let mut guard = self.readable.readable().await.map_err(Error::Runtime)?;
            guard.clear_ready();
        }
        Ok(())
    }

    /// Waits for a value that was not read yet. `None`: what came was refused in the end, so call again. Cancel safe.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub async fn recv(&mut self) -> Result<Option<Value<'_>>, Error> {
        self.ready().await?;
        self.try_recv()
    }

    /// Returns a value that was not read yet, and does not wait.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub fn try_recv(&mut self) -> Result<Option<Value<'_>>, Error> {
        Ok(self.listener.recv(Some(Duration::ZERO))?)
    }

    /// Returns the counters so far.
    ///
    /// # Errors
    /// As [`StreamListener::statistics`].
    pub fn statistics(&mut self) -> Result<StreamStatistics, Error> {
        Ok(self.listener.statistics()?)
    }

    /// Returns the listener, for what has no async counterpart.
    #[must_use]
    pub fn listener(&self) -> &StreamListener {
        &self.listener
    }
}
