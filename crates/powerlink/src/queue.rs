//! Queues: events for the application, and frames for the asynchronous phase.

use crate::Event;
use std::collections::VecDeque;

/// Largest number of waiting events. An application that takes none must not exhaust the memory.
const EVENTS: usize = 4096;
/// Largest number of waiting frames of each priority: a command for each node of a network, and more.
const FRAMES: usize = 512;

#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    pub(crate) lost: u64,
}

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        if self.waiting.len() < EVENTS {
            self.waiting.push_back(event);
        } else {
            self.lost += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }
}

/// Whole frames, padded. Their buffers are reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frames {
    waiting: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Frames {
    /// Appends a frame; returns `true` if there was room.
    pub(crate) fn push(&mut self, frame: &[u8]) -> bool {
        if self.waiting.len() >= FRAMES {
            return false;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.waiting.push_back(buffer);
        true
    }

    /// Passes the first frame to `send`; returns `true` if there was one.
    pub(crate) fn pop(&mut self, send: impl FnOnce(&[u8])) -> bool {
        let Some(frame) = self.waiting.pop_front() else {
            return false;
        };
        send(&frame);
        if self.spare.len() < FRAMES {
            self.spare.push(frame);
        }
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn clear(&mut self) {
        while self.pop(|_| ()) {}
    }
}
