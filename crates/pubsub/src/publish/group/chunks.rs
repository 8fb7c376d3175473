//! DataSetMessages that are longer than a frame: written whole, and sent in chunks.

use super::WriterGroup;
use crate::config::MOST_DATA_SETS;
use crate::publish::message::{self, Kind, PublishFault};
use crate::security::Sealer;
use rtwire_wire::uadp::Chunk;

impl WriterGroup {
    /// Sends each DataSetMessage in a message of its own, in chunks where it is longer than that.
    pub(super) fn parts(
        &mut self,
        now_ns: u64,
        sealers: &mut [Sealer],
        send: &mut dyn FnMut(&[u8]),
    ) -> Result<(), PublishFault> {
        let mut kinds = [None; MOST_DATA_SETS];
        self.decide(now_ns, &mut kinds);
        for (nth, kind) in kinds.into_iter().enumerate() {
            let Some(kind) = kind else { continue };
            let bytes = self.write_whole(nth, Some(kind), now_ns)?;
            let mut offset = 0;
            while offset < bytes {
                let (places, taken) = self.write_part(nth, offset, bytes)?;
                self.hand_over(places, sealers, send)?;
                self.counters.chunks += u64::from(taken < bytes);
                offset += taken;
            }
            self.sent(nth, kind, now_ns);
        }
        Ok(())
    }

    /// Writes a writer's DataSetMessage into the room for whole ones. Returns its bytes.
    pub(super) fn write_whole(
        &mut self,
        nth: usize,
        kind: Option<Kind>,
        now_ns: u64,
    ) -> Result<usize, PublishFault> {
        let places = self.writers.get(nth).zip(self.config.data_sets.get(nth));
        let Some(((writer, data_set), kind)) = places.zip(kind) else {
            return Ok(0);
        };
        let part = writer.part(data_set, kind);
        let time = self.time(now_ns);
        Ok(message::data_set(
            &self.config,
            &part,
            time,
            &mut self.scratch,
            &mut self.whole,
        )?)
    }

    /// Writes a message with the rest of a DataSetMessage from `offset` on, or with the chunk of it that fits. Returns the security
    /// header's place, the frame's end, and the bytes taken.
    fn write_part(
        &mut self,
        nth: usize,
        offset: usize,
        bytes: usize,
    ) -> Result<((usize, usize), usize), PublishFault> {
        let trailer = message::trailer(&self.config);
        let room = self.buffer.len() - trailer;
        let out = self.buffer.get_mut(self.prefix..room).unwrap_or_default();
        let ids = [self.config.data_sets.get(nth).map_or(0, |set| set.writer)];
        let (at, payload) = message::header(&self.config, self.sequence, &ids, false, out)?;
        let rest = self.whole.get(offset..bytes).unwrap_or_default();
        let place = out.get_mut(payload..payload + bytes);
        if let Some(place) = place.filter(|_| offset == 0) {
            place.copy_from_slice(rest);
            return Ok(((at, self.prefix + payload + bytes + trailer), bytes));
        }
        let (at, payload) = message::header(&self.config, self.sequence, &ids, true, out)?;
        let place = out.get_mut(payload..).unwrap_or_default();
        let fit = place
            .len()
            .saturating_sub(Chunk::HEADER_OCTETS)
            .min(rest.len());
        let chunk = Chunk {
            sequence: self.writers.get(nth).map_or(0, |writer| writer.sequence),
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            total_octets: u32::try_from(bytes).unwrap_or(u32::MAX),
            data: rest.get(..fit).unwrap_or_default(),
        };
        let written = chunk.emit(place)?;
        Ok(((at, self.prefix + payload + written + trailer), fit))
    }
}
