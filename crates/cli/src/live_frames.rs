//! The frames that an interface receives and sends, as packets of a capture: for the commands that measure or show them.

use std::time::Duration;

use rtwire_measure::capture::{LINK_ETHERNET, Packet};
use rtwire_sys::filter::Filter;
use rtwire_sys::packet::PacketSocket;
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
    notes: Vec<String>,
}

impl Live {
    /// Opens the interface `name`.
    pub(crate) fn open(name: &str, wanted: &Wanted) -> Result<Self, Failure> {
        let lacking = |error: Error| (LACKING, error.to_string());
        let found = interface::by_name(name).map_err(lacking)?;
        let (socket, ()) = PacketSocket::receiver(&found, ETH_P_ALL, &wanted.filter, |socket| {
            socket.enable_rx_stamps()?;
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
                    let packet = Packet {
                        number: self.number,
                        time_ns: message.stamp_realtime_ns,
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
        Ok(self.notes)
    }
}
