//! Cyclic connections: the rate that they need, and their launch offset.

use std::borrow::Cow;

use super::{Ledger, Place, refused};
use crate::connection::Ask;
use crate::launches::{NoOffset, Slot, lowest_free};
use crate::message::{Reason, Refused};

const NS_PER_MS: u128 = 1_000_000;
const NS_PER_S: u128 = 1_000_000_000;

/// The sender of frames in a slot.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// A time-triggered stream of the plan, by its place.
    Stream(usize),
    /// A connection, by its id.
    Connection(u64),
}

impl Ledger {
    /// Returns a request with the rate and the burst that one frame in each interval needs: a frame may be late by the tick error,
    /// and the next one in time.
    pub(crate) fn raised<'a>(&self, ask: &'a Ask) -> Result<Cow<'a, Ask>, Refused> {
        let Some(interval_ns) = ask.interval_ns else {
            return Ok(Cow::Borrowed(ask));
        };
        let mut ask = ask.clone();
        let wire = u128::from(self.wire_bytes(ask.padded_bytes()));
        let late_ns = u128::from(self.base.network.defaults.tick_error_ns);
        let rate = (wire * NS_PER_MS).div_ceil(u128::from(interval_ns).max(1));
        let burst = wire + (rate * late_ns).div_ceil(NS_PER_MS);
        let fits = |needed: u128, asked: u32| u32::try_from(needed.max(asked.into())).ok();
        let raised = fits(rate, ask.rate_bytes_per_ms).zip(fits(burst, ask.burst_bytes));
        (ask.rate_bytes_per_ms, ask.burst_bytes) = raised.ok_or_else(|| {
            let text = format!("a frame of {wire} bytes each {interval_ns} ns is beyond any rate");
            refused(Reason::Faulty, text)
        })?;
        Ok(Cow::Owned(ask))
    }

    /// Returns the launch offset of a cyclic connection: the lowest at which its frames meet no other cyclic frame on the talker's link.
    /// The cost grows with the number of connections of the talker, not of the network.
    pub(super) fn launch_offset_ns(&self, talker: &str, ask: &Ask) -> Result<Option<u64>, Refused> {
        let Some(interval_ns) = ask.interval_ns else {
            return Ok(None);
        };
        // A host of the plan, which asks: it has a place.
        let Some(place) = self.places.get(talker) else {
            return Ok(None);
        };
        let late_ns = self.base.network.defaults.tick_error_ns;
        let of_ask = |ask: &Ask, interval_ns: u64, offset_ns: u64| {
            let wire = self.wire_bytes(ask.padded_bytes());
            place.slot(wire, interval_ns, offset_ns, late_ns)
        };
        let planned = place.planned.iter();
        let of_plan = planned.map(|(slot, index)| (*slot, Whose::Stream(*index)));
        let of_connections = place.sent.iter().filter_map(|id| {
            let granted = self.granted(*id)?;
            let (interval_ns, offset_ns) = (granted.ask.interval_ns?, granted.launch_offset_ns?);
            let slot = of_ask(&granted.ask, interval_ns, offset_ns);
            Some((slot, Whose::Connection(*id)))
        });
        let (taken, whose): (Vec<Slot>, Vec<Whose>) = of_plan.chain(of_connections).unzip();
        let wanted = of_ask(ask, interval_ns, 0);
        let no = |why: String| {
            let text = format!("no launch offset is free at \"{talker}\": {why}");
            refused(Reason::LaunchOffset, text)
        };
        match lowest_free(&taken, wanted.interval_ns, wanted.length_ns) {
            Ok(offset_ns) => Ok(Some(offset_ns)),
            Err(NoOffset::Never { with, common_ns }) => Err(no(format!(
                "frames each {interval_ns} ns and each {} ns of {} meet in time, as their largest common divisor is {common_ns} ns; ask for an interval that is a multiple or a part of the other",
                taken[with].interval_ns,
                self.named(whose[with])
            ))),
            Err(NoOffset::Full) => Err(no(format!(
                "a slot has {} ns, the frame and how late it may be, and {} other cyclic frames leave none in {interval_ns} ns",
                wanted.length_ns,
                taken.len()
            ))),
            Err(NoOffset::NotFound) => Err(no(format!(
                "none was found beside {} other cyclic frames; ask for a shorter interval",
                taken.len()
            ))),
        }
    }

    fn named(&self, whose: Whose) -> String {
        match whose {
            Whose::Stream(index) => format!("stream \"{}\"", self.base.streams[index].name),
            Whose::Connection(id) => format!("connection {id}"),
        }
    }
}

impl Place {
    /// Returns the slot of frames of `wire_bytes` on the host's link, which may be late by `late_ns`.
    pub(super) fn slot(
        &self,
        wire_bytes: u64,
        interval_ns: u64,
        offset_ns: u64,
        late_ns: u64,
    ) -> Slot {
        let length_ns = transmission_ns(wire_bytes, self.link_bps.max(1));
        Slot {
            interval_ns: interval_ns.max(1),
            offset_ns,
            length_ns: length_ns.saturating_add(late_ns),
        }
    }
}

/// Returns the time of a frame on a link, ns, rounded up.
fn transmission_ns(wire_bytes: u64, bps: u64) -> u64 {
    let ns = (u128::from(wire_bytes) * 8 * NS_PER_S).div_ceil(bps.into());
    u64::try_from(ns).unwrap_or(u64::MAX)
}
