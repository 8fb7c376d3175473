//! The gate's counts: for a program that asks, and for the agent's status.

use rtwire_agent::{End, Reply, StreamCounts};
use rtwire_sys::bpf::BpfError;

use super::streams::{Kind, OpenEnd};
use super::{Answered, Desk, Held, HeldEnd, Program, local, lock};
use crate::status::EndStatus;

impl Desk {
    fn of_connection(&self, held: &Held) -> Result<StreamCounts, BpfError> {
        let (gate, port) = (&self.place.gate, held.granted.ask.port);
        match held.end {
            HeldEnd::Sends { cookie, .. } => gate.channel_counts(cookie),
            HeldEnd::Hears => gate.listener_counts(port),
            HeldEnd::HearsFrames(_) => gate.frame_counts(port),
        }
    }

    fn of_stream(&self, open: &OpenEnd) -> Result<StreamCounts, BpfError> {
        let gate = &self.place.gate;
        match &open.kind {
            Kind::Talks(cookie) => gate.channel_counts(*cookie),
            Kind::Hears(port) => gate.listener_counts(*port),
            Kind::HearsFrames(frames) => gate.frame_counts(frames.port),
        }
    }

    pub(super) fn counts(&self, program: Program, connection: u64) -> Answered {
        let held = self.owned(program, connection)?;
        let counts = self.of_connection(&held).map_err(local)?;
        let reply = Reply::Counts {
            connection,
            frames: counts.frames,
            foreign: counts.foreign,
            too_much: counts.too_much,
        };
        Ok((reply, None))
    }

    pub(super) fn stream_counts(&self, program: Program, end: End, stream: &str) -> Answered {
        let key = (stream.to_owned(), end);
        let open = lock(&self.open);
        let own = open.get(&key).filter(|one| one.of.id == program.id);
        let own = own.ok_or_else(|| Self::no_end(end, stream))?;
        let counts = self.of_stream(own).map_err(local)?;
        Ok((Reply::StreamCounts(counts), None))
    }

    /// Returns the ends that programs have: those of planned streams, then those of connections. An end whose counts cannot
    /// be read has none.
    pub(crate) fn ends(&self) -> Vec<EndStatus> {
        let of = |program: Program, stream: String, end: End, counts: Result<StreamCounts, _>| {
            let counts = counts.unwrap_or_default();
            EndStatus {
                stream,
                end: end.to_string(),
                uid: program.uid,
                pid: program.pid,
                frames: counts.frames,
                foreign: counts.foreign,
                too_much: counts.too_much,
            }
        };
        let open = lock(&self.open);
        let streams = open
            .iter()
            .map(|((name, end), one)| of(one.of, name.clone(), *end, self.of_stream(one)));
        let mut ends: Vec<EndStatus> = streams.collect();
        drop(open);
        let held = lock(&self.held);
        ends.extend(held.values().map(|one| {
            let end = if one.is_talker() {
                End::Talker
            } else {
                End::Listener
            };
            of(one.of, one.granted.name(), end, self.of_connection(one))
        }));
        ends
    }
}
