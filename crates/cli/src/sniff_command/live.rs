//! The frames that an interface receives and sends, as packets of a capture.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rtwire_measure::capture::{LINK_ETHERNET, Packet};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, interface};
use rtwire_wire::EtherType;

use super::{Failure, LACKING};
use crate::arguments::nanoseconds;

/// All EtherTypes: only such sockets see the frames that leave this host.
const ETH_P_ALL: u16 = 3;
/// The bytes kept of a frame: more than any Ethernet frame has, and a UDP datagram that the card has put together.
const ROOM: usize = 66_000;

/// A live source.
pub(super) struct Live {
    socket: PacketSocket,
    batch: Batch,
    interface: String,
    number: u64,
    notes: Vec<String>,
}

/// Passes UADP, UDP, and what is behind a VLAN tag.
fn filter() -> Result<Filter, rtwire_sys::Error> {
    let equal = |number: u32, yes, no| Instruction::Jump {
        test: Test::Equal(number),
        yes,
        no,
    };
    Filter::new(&[
        Instruction::LoadHalf(12),
        equal(EtherType::UADP.0.into(), 8, 0),
        equal(EtherType::VLAN.0.into(), 7, 0),
        equal(0x88a8, 6, 0),
        equal(EtherType::IPV4.0.into(), 1, 0),
        equal(0x86dd, 2, 5),
        // The protocol of IPv4, and the next header of IPv6.
        Instruction::LoadByte(23),
        equal(17, 2, 3),
        Instruction::LoadByte(20),
        equal(17, 0, 1),
        Instruction::Accept,
        Instruction::Reject,
    ])
}

impl Live {
    pub(super) fn open(name: &str) -> Result<Self, Failure> {
        let system = |error: rtwire_sys::Error| (LACKING, error.to_string());
        let found = interface::by_name(name).map_err(system)?;
        let filter = filter().map_err(system)?;
        let (socket, ()) = PacketSocket::receiver(&found, ETH_P_ALL, &filter, |socket| {
            socket.enable_rx_stamps()?;
            socket.enable_tags()?;
            socket.take_all()?;
            socket.set_receive_room(16 << 20)?;
            Ok(())
        })
        .map_err(system)?;
        // The longest time between looks at the clock and at Ctrl-C.
        let look = Duration::from_millis(100);
        socket
            .set_receive_timeout(Some(look))
            .map_err(|errno| (LACKING, format!("{name}: {errno}")))?;
        Ok(Self {
            socket,
            batch: Batch::new(64, ROOM).with_only(false, true),
            interface: name.to_owned(),
            number: 0,
            notes: Vec::new(),
        })
    }

    /// Calls `take` with each frame and the tag that was taken out of it, for a time, until stopped, or until `take`
    /// returns false.
    pub(super) fn listen(
        &mut self,
        duration: Option<Duration>,
        stop: &AtomicBool,
        take: &mut dyn FnMut(&Packet<'_>, Option<u16>) -> bool,
    ) -> Result<(), Failure> {
        let begun = clock::now_ns(Clock::Monotonic);
        let end = duration.map(|duration| begun.saturating_add(nanoseconds(duration)));
        while !stop.load(Ordering::Relaxed)
            && end.is_none_or(|end| clock::now_ns(Clock::Monotonic) < end)
        {
            if !self.take(take)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes the frames that have arrived, or waits for some. Returns false if there will be no more.
    fn take(
        &mut self,
        take: &mut dyn FnMut(&Packet<'_>, Option<u16>) -> bool,
    ) -> Result<bool, Failure> {
        match self
            .socket
            .receive(&mut self.batch, Wait::ForOne, usize::MAX)
        {
            Ok(count) => {
                for message in (0..count).filter_map(|index| self.batch.get(index)) {
                    self.number += 1;
                    let packet = Packet {
                        number: self.number,
                        time_ns: message.stamp_realtime_ns,
                        link_type: LINK_ETHERNET,
                        data: message.data,
                        original_octets: u32::try_from(message.data.len()).unwrap_or(u32::MAX),
                    };
                    if !take(&packet, message.tag) {
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
            Err(errno) if errno.kind() == rtwire_sys::ErrorKind::InterfaceDown => {
                self.notes
                    .push("The interface was down for a while.".to_owned());
            }
            Err(errno) => return Err((LACKING, format!("{}: {errno}", self.interface))),
        }
        Ok(true)
    }

    pub(super) fn into_notes(mut self) -> Result<Vec<String>, Failure> {
        let statistics = self.socket.statistics();
        let dropped = statistics
            .map_err(|error| (LACKING, error.to_string()))?
            .dropped;
        if dropped > 0 {
            self.notes.push(format!(
                "{dropped} frames arrived faster than they were read, and are missing here."
            ));
        }
        Ok(self.notes)
    }
}
