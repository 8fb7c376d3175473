//! The frames that an interface receives and sends, as packets of a capture: for the commands that measure or show them.

use std::time::Duration;

use rtwire_measure::capture::{LINK_ETHERNET, Packet};
use rtwire_measure::stamp_origin::StampOrigin;
use rtwire_sys::card_stamps::{CardStamps, CardWish, ReceivedFrames};
use rtwire_sys::filter::Filter;
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::phc::{CardClock, Reading};
use rtwire_sys::stamps::StampSource;
use rtwire_sys::{Batch, Error, ErrorKind, Wait, interface};

/// The exit code where the host lacks something.
const LACKING: u8 = 3;
/// All EtherTypes: only such sockets see the frames that leave this host.
const ETH_P_ALL: u16 = 3;
/// The longest time between two looks at the clock and at Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// An exit code with its message.
type Failure = (u8, String);

/// The frames that a command wants, and the room for them.
pub(crate) struct Wanted {
    /// The kernel passes only these.
    pub(crate) filter: Filter,
    /// The place that stamps the frames.
    pub(crate) stamps: StampSource,
    /// True if the VLAN tag is told that a card or the kernel has taken out of a frame.
    pub(crate) tags: bool,
    /// The bytes kept of a frame.
    pub(crate) frame_bytes: usize,
    /// The number of frames read in one call.
    pub(crate) batch: usize,
    /// The bytes that the kernel holds until they are read.
    pub(crate) waiting_bytes: usize,
}

/// A live source.
pub(crate) struct Live {
    socket: PacketSocket,
    batch: Batch,
    interface: String,
    number: u64,
    /// The card that stamps, if it does.
    card: Option<Card>,
    /// Frames without a stamp of the card that is to stamp them.
    unstamped: u64,
    notes: Vec<String>,
}

/// A card that stamps the frames.
///
/// One difference of clocks is for all frames: so the time between two frames is exactly the one that the card measured.
struct Card {
    clock: CardClock,
    first: Reading,
    /// The switch goes back with it.
    _stamps: CardStamps,
}

impl Card {
    fn open(interface: &str) -> rtwire_sys::Result<Self> {
        let wish = CardWish {
            transmit: false,
            receive: ReceivedFrames::Every,
        };
        let stamps = CardStamps::hold(interface, wish)?;
        let clock = CardClock::open(stamps.clock())?;
        let first = clock.read()?;
        Ok(Self {
            clock,
            first,
            _stamps: stamps,
        })
    }

    /// Converts a time of the card's clock to CLOCK_REALTIME.
    fn realtime_ns(&self, card_ns: u64) -> u64 {
        let since = i128::from(card_ns) - i128::from(self.first.card_ns);
        let at = i128::from(self.first.realtime_ns) + since;
        u64::try_from(at.max(0)).unwrap_or(u64::MAX)
    }

    /// Reads both clocks once more, and returns the origin of the stamps.
    fn origin(&self) -> StampOrigin {
        let last = self.clock.read().ok();
        let rate = last.and_then(|last| rate_ppb(&self.first, &last));
        StampOrigin::card(self.clock.index(), self.first.uncertainty_ns, rate)
    }
}

/// Returns the rate of the card's clock minus the host's, in parts per billion. `None` if the readings are too close to say.
fn rate_ppb(first: &Reading, last: &Reading) -> Option<i64> {
    let host = i128::from(last.realtime_ns) - i128::from(first.realtime_ns);
    let card = i128::from(last.card_ns) - i128::from(first.card_ns);
    let error = i128::from(first.uncertainty_ns) + i128::from(last.uncertainty_ns);
    // A rate that is known to less than 10 ppm is none.
    if host < error.saturating_mul(100_000) || host <= 0 {
        return None;
    }
    i64::try_from((card - host) * 1_000_000_000 / host).ok()
}

impl Live {
    /// Opens the interface `name`.
    pub(crate) fn open(name: &str, wanted: &Wanted) -> Result<Self, Failure> {
        let lacking = |error: Error| (LACKING, error.to_string());
        let card = match wanted.stamps {
            StampSource::Software => None,
            StampSource::Hardware => Some(Card::open(name).map_err(lacking)?),
        };
        let found = interface::by_name(name).map_err(lacking)?;
        let (socket, ()) = PacketSocket::receiver(&found, ETH_P_ALL, &wanted.filter, |socket| {
            match wanted.stamps {
                StampSource::Software => socket.enable_rx_stamps()?,
                StampSource::Hardware => socket.enable_card_rx_stamps()?,
            }
            if wanted.tags {
                socket.enable_tags()?;
            }
            socket.take_all()?;
            socket.set_receive_room(wanted.waiting_bytes)?;
            Ok(())
        })
        .map_err(lacking)?;
        socket
            .set_receive_timeout(Some(LOOK))
            .map_err(|errno| (LACKING, format!("{name}: {errno}")))?;
        Ok(Self {
            socket,
            batch: Batch::new(wanted.batch, wanted.frame_bytes).with_only(false, true),
            interface: name.to_owned(),
            number: 0,
            card,
            unstamped: 0,
            notes: Vec::new(),
        })
    }

    /// Takes the frames that have arrived, or waits for some, at most 100 ms. It calls `each` with a frame and the tag that
    /// was taken out of it. Returns false if `each` did, or if there will be no more frames.
    pub(crate) fn take(
        &mut self,
        each: &mut dyn FnMut(&Packet<'_>, Option<u16>) -> bool,
    ) -> Result<bool, Failure> {
        match self
            .socket
            .receive(&mut self.batch, Wait::ForOne, usize::MAX)
        {
            Ok(count) => {
                for message in (0..count).filter_map(|index| self.batch.get(index)) {
                    self.number += 1;
                    let time_ns = match &self.card {
                        None => message.stamp_realtime_ns,
                        Some(card) => message.stamp_card_ns.map(|ns| card.realtime_ns(ns)),
                    };
                    self.unstamped += u64::from(self.card.is_some() && time_ns.is_none());
                    let packet = Packet {
                        number: self.number,
                        time_ns,
                        link_type: LINK_ETHERNET,
                        data: message.data,
                        original_octets: u32::try_from(message.data.len()).unwrap_or(u32::MAX),
                    };
                    if !each(&packet, message.tag) {
                        return Ok(false);
                    }
                }
            }
            Err(errno) if errno.would_block() || errno.interrupted() => {
                if !self.socket.interface_exists() {
                    self.notes
                        .push("The interface was removed meanwhile.".to_owned());
                    return Ok(false);
                }
            }
            // An interface that is down may come up again; the socket reports it once.
            Err(errno) if errno.kind() == ErrorKind::InterfaceDown => {
                self.notes
                    .push("The interface was down for a while.".to_owned());
            }
            Err(errno) => return Err((LACKING, format!("{}: {errno}", self.interface))),
        }
        Ok(true)
    }

    /// Returns the place and the clock of the stamps.
    pub(crate) fn stamps(&self) -> StampOrigin {
        match &self.card {
            None => StampOrigin::kernel(),
            Some(card) => card.origin(),
        }
    }

    /// Returns what a user has to know of the time in which it listened.
    pub(crate) fn into_notes(mut self) -> Result<Vec<String>, Failure> {
        let statistics = self.socket.statistics();
        let dropped = statistics
            .map_err(|error| (LACKING, error.to_string()))?
            .dropped;
        if dropped > 0 {
            self.notes.push(format!(
                "{dropped} frames arrived faster than they were read, and are missing here."
            ));
        }
        if self.unstamped > 0 {
            self.notes.push(format!(
                "{} frames have no stamp of the card: it stamps none that this host sends itself, and may leave some out.",
                self.unstamped
            ));
        }
        Ok(self.notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtwire_sys::phc::Comparison;

    fn reading(card_ns: u64, realtime_ns: u64, uncertainty_ns: u64) -> Reading {
        Reading {
            card_ns,
            realtime_ns,
            uncertainty_ns,
            by: Comparison::Extended,
        }
    }

    #[test]
    fn a_rate_is_said_where_it_is_known() {
        let first = reading(1_000, 5_000, 400);
        // Ten seconds later the card has gained 100 µs.
        let last = reading(10_000_101_000, 10_000_005_000, 400);
        assert_eq!(rate_ppb(&first, &last), Some(10_000));
        let soon = reading(1_001_000, 1_005_000, 400);
        assert_eq!(rate_ppb(&first, &soon), None);
        assert_eq!(rate_ppb(&last, &first), None);
    }
}
