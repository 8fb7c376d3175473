//! The way of a publisher's frames: to the interface, or to the driver that answers with them.

use crate::answering::Answering;
use rtwire_link::{LinkError, Sender};
use rtwire_pubsub::publish::Made;
use rtwire_sys::wait;

/// Sends what the node hands over, and takes the time.
pub(crate) struct Out<'a> {
    sender: &'a mut Sender,
    launch: bool,
    pub(crate) sent: u64,
    pub(crate) refused: u64,
    pub(crate) took_ns: u64,
    pub(crate) frame: Option<u64>,
    /// The last frame: before and behind the call.
    pub(crate) began_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) error: Option<LinkError>,
}

impl<'a> Out<'a> {
    pub(crate) const fn new(sender: &'a mut Sender, launch: bool) -> Self {
        Self {
            sender,
            launch,
            sent: 0,
            refused: 0,
            took_ns: 0,
            frame: None,
            began_ns: 0,
            ended_ns: 0,
            error: None,
        }
    }
}

impl Out<'_> {
    /// Sends a frame, or hands an answer to the driver.
    pub(crate) fn take(&mut self, made: Made<'_>, answering: Option<&Answering>) {
        if !answering.is_some_and(|answering| answering.prepare(made.group, made.frame)) {
            self.send(made.frame, made.launch_ns);
        }
    }

    fn send(&mut self, frame: &[u8], launch_ns: Option<u64>) {
        self.began_ns = wait::now_ns();
        let result = match launch_ns.filter(|_| self.launch) {
            Some(launch_ns) => self.sender.send_at(frame, launch_ns),
            None => self.sender.send(frame),
        };
        self.ended_ns = wait::now_ns();
        self.took_ns += self.ended_ns.saturating_sub(self.began_ns);
        match result {
            Ok(frame) => {
                self.sent += 1;
                self.frame = Some(frame);
            }
            Err(LinkError::QueueFull | LinkError::LaunchRefused { .. }) => self.refused += 1,
            Err(error) => self.error = Some(error),
        }
    }
}
