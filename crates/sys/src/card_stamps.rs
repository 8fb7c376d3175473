//! The timestamps that a network card takes by its own clock: what it can do, and the switch for it.
//!
//! The switch is the card's, not a socket's: all programs share it. So it is changed only when asked for, and the last program
//! of ours that has asked for it puts it back as it was.

use crate::error::{Errno, Error, ErrorKind, Result};
use crate::interface::{self, Query};
use crate::port_lock::SharedName;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};

/// `HWTSTAMP_FILTER_ALL`: every received frame is stamped.
const EVERY_FRAME: u32 = 1;
/// The kernel's filters of received frames, by their number.
const FILTERS: [&str; 16] = [
    "none",
    "all",
    "some",
    "ptpv1-l4-event",
    "ptpv1-l4-sync",
    "ptpv1-l4-delay-req",
    "ptpv2-l4-event",
    "ptpv2-l4-sync",
    "ptpv2-l4-delay-req",
    "ptpv2-l2-event",
    "ptpv2-l2-sync",
    "ptpv2-l2-delay-req",
    "ptpv2-event",
    "ptpv2-sync",
    "ptpv2-delay-req",
    "ntp-all",
];

/// Abilities of a card for timestamps of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardAbilities {
    /// The card's clock: N of `/dev/ptpN`.
    pub clock: Option<u32>,
    /// True if it stamps the frames that it sends.
    pub transmit: bool,
    /// Bit N: it has the kernel's filter N of received frames.
    pub filters: u32,
}

/// The stamps that a program wants of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardWish {
    /// Of the frames that it sends.
    pub transmit: bool,
    /// Of the frames that it receives.
    pub receive: ReceivedFrames,
}

/// The received frames that a card is to stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceivedFrames {
    /// None, or as it is.
    #[default]
    Any,
    /// Event messages of PTP over Ethernet.
    Ptp,
    /// Every frame.
    Every,
}

impl ReceivedFrames {
    /// The kernel's filters that are enough, the narrowest first.
    fn enough(self) -> &'static [u32] {
        match self {
            Self::Any => &[],
            Self::Ptp => &[9, 12, EVERY_FRAME],
            Self::Every => &[EVERY_FRAME],
        }
    }
}

impl CardAbilities {
    /// Asks the interface's driver.
    ///
    /// # Errors
    /// The interface is missing.
    pub fn of(name: &str) -> Result<Self> {
        const ETHTOOL_GET_TS_INFO: u32 = 0x41;
        interface::by_name(name)?;
        let mut query = Query::new(name)?;
        // struct ethtool_ts_info: command, socket options, clock, transmit types, 3 reserved, filters, 3 reserved.
        let mut info = [0_u32; 11];
        info[0] = ETHTOOL_GET_TS_INFO;
        // SAFETY: it has as many words as the structure.
        if !unsafe { query.ethtool(&mut info) } {
            return Ok(Self::default());
        }
        Ok(Self::decode(&info))
    }

    fn decode(info: &[u32; 11]) -> Self {
        let [_, options, clock, transmit, _, _, _, filters, ..] = *info;
        let has = |option: u32| options & option != 0;
        let raw = has(libc::SOF_TIMESTAMPING_RAW_HARDWARE);
        Self {
            // -1: it has none.
            clock: i32::try_from(i64::from(clock as i32))
                .ok()
                .and_then(|n| u32::try_from(n).ok()),
            // Bit 1: HWTSTAMP_TX_ON.
            transmit: raw && has(libc::SOF_TIMESTAMPING_TX_HARDWARE) && transmit & 2 != 0,
            filters: if raw && has(libc::SOF_TIMESTAMPING_RX_HARDWARE) {
                filters
            } else {
                0
            },
        }
    }

    /// Returns the filter that is enough for `frames`, if the card has one; `None` also if none is needed.
    fn filter(self, frames: ReceivedFrames) -> Option<u32> {
        let has = |filter: &u32| self.filters & (1 << filter) != 0;
        frames.enough().iter().copied().find(has)
    }

    /// Returns the reason why the card cannot do what a program wants; `None` if it can.
    #[must_use]
    pub fn lacking(self, wish: CardWish) -> Option<&'static str> {
        let received = wish.receive != ReceivedFrames::Any;
        if self.clock.is_none() {
            return Some("it has no clock of its own; take software stamps (--stamps software)");
        }
        if wish.transmit && !self.transmit {
            return Some(
                "the card does not stamp the frames that it sends; take software stamps (--stamps software)",
            );
        }
        if !received || self.filter(wish.receive).is_some() {
            return None;
        }
        // Whatever is left beside `none` is a kind of PTP message.
        Some(if self.filters & !1 == 0 {
            "the card stamps no received frames; take software stamps (--stamps software)"
        } else if wish.receive == ReceivedFrames::Every {
            "of the frames that it receives the card stamps only some kinds of PTP messages; take software stamps \
             (--stamps software)"
        } else {
            "the card does not stamp received messages of PTP over Ethernet; take software stamps (--stamps software)"
        })
    }
}

impl fmt::Display for CardAbilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(clock) = self.clock else {
            return f.write_str("no clock of its own");
        };
        let sent = if self.transmit { "every frame" } else { "none" };
        write!(f, "clock /dev/ptp{clock}; sent: {sent}; received: ")?;
        if self.filters & (1 << EVERY_FRAME) != 0 {
            return f.write_str("every frame");
        }
        let kinds: Vec<&str> = FILTERS
            .iter()
            .enumerate()
            .skip(2)
            .filter(|(number, _)| self.filters & (1 << number) != 0)
            .map(|(_, name)| *name)
            .collect();
        match &kinds[..] {
            [] => f.write_str("none"),
            kinds => write!(f, "only {}", kinds.join(", ")),
        }
    }
}

/// The switch of a card: `struct hwtstamp_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardSwitch {
    flags: i32,
    transmit: i32,
    filter: i32,
}

impl CardSwitch {
    /// Reads the switch of an interface's card. Needs no privilege.
    ///
    /// # Errors
    /// The interface is missing, or its card has none ([`ErrorKind::Unsupported`]).
    pub fn of(name: &str) -> Result<Self> {
        Self::read(&Query::new(name)?.socket, name)
    }

    fn read(socket: &OwnedFd, name: &str) -> Result<Self> {
        const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1;
        let mut switch = Self::default();
        switch.ask((socket, name), ("SIOCGHWTSTAMP", SIOCGHWTSTAMP))?;
        Ok(switch)
    }

    /// Sets the switch, and returns it as the driver has set it: it may stamp more frames than asked for.
    fn set(mut self, socket: &OwnedFd, name: &str) -> Result<Self> {
        const SIOCSHWTSTAMP: libc::Ioctl = 0x89b0;
        self.ask((socket, name), ("SIOCSHWTSTAMP", SIOCSHWTSTAMP))?;
        Ok(self)
    }

    fn ask(
        &mut self,
        (socket, name): (&OwnedFd, &str),
        (call, number): (&'static str, libc::Ioctl),
    ) -> Result<()> {
        let mut request = interface::request(name);
        request.ifr_ifru.ifru_data = std::ptr::from_mut(self).cast();
        // SAFETY: the request is valid for the whole call. Its data point to a `struct hwtstamp_config`, which the kernel
        // reads and writes.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw mut request) };
        if result == 0 {
            return Ok(());
        }
        let errno = match Errno::last() {
            // A number of the kernel's own, which some drivers let out: ENOTSUPP.
            Errno(524) => Errno(libc::EOPNOTSUPP),
            errno => errno,
        };
        let object = format!("the timestamps of interface `{name}`");
        Err(Error::new(call, object, errno, Some("CAP_NET_ADMIN")))
    }

    /// Returns this switch with what `wish` needs beside.
    fn with(self, abilities: CardAbilities, wish: CardWish) -> Self {
        let mut with = self;
        if wish.transmit && self.transmit == 0 {
            with.transmit = 1;
        }
        let enough = wish.receive.enough();
        if !enough.is_empty() && !enough.iter().any(|filter| *filter as i32 == self.filter) {
            // What another program has asked for must stay in it: only every frame contains any kind.
            let wanted = match self.filter {
                0 => wish.receive,
                _ => ReceivedFrames::Every,
            };
            let filter = abilities.filter(wanted).or(abilities.filter(wish.receive));
            with.filter = filter.map_or(self.filter, |filter| filter as i32);
        }
        with
    }

    /// Returns the switch of a note.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().map(str::parse);
        let mut next = || words.next()?.ok();
        Some(Self {
            flags: next()?,
            transmit: next()?,
            filter: next()?,
        })
    }

    fn note(self) -> String {
        format!("{} {} {}", self.flags, self.transmit, self.filter)
    }
}

impl fmt::Display for CardSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent = if self.transmit == 0 { "off" } else { "on" };
        let filter = usize::try_from(self.filter).ok();
        let filter = filter.and_then(|filter| FILTERS.get(filter));
        write!(f, "sent {sent}, received {}", filter.unwrap_or(&"other"))
    }
}

/// A card's stamps, held on until this is dropped. Then the last holder of this host puts the switch back as it was.
///
/// # Limits
/// A process that is killed leaves the switch on, which costs other programs nothing. If another program changes the switch
/// meanwhile, it stays as that program has set it.
#[derive(Debug)]
pub struct CardStamps {
    interface: String,
    /// It belongs to the interface's network namespace, wherever this is dropped.
    socket: OwnedFd,
    clock: u32,
    holders: Option<SharedName>,
}

impl CardStamps {
    /// Switches the stamps on, if they are not.
    ///
    /// # Errors
    /// The card cannot do it ([`ErrorKind::Unsupported`], with the reason), or CAP_NET_ADMIN is missing.
    pub fn hold(name: &str, wish: CardWish) -> Result<Self> {
        let abilities = CardAbilities::of(name)?;
        let refused = |remedy| {
            let driver = interface::driver(name).ok().flatten();
            let object = format!(
                "interface `{name}` (driver {})",
                driver.as_deref().unwrap_or("unknown")
            );
            Error::new("hardware timestamps", object, Errno(libc::EOPNOTSUPP), None)
                .with_remedy(remedy)
        };
        if let Some(reason) = abilities.lacking(wish) {
            return Err(refused(reason));
        }
        let holders = SharedName::join(&format!("stamps-{name}"))?;
        let socket = Query::new(name)?.socket;
        let before = CardSwitch::read(&socket, name).or_else(|error| match error.kind() {
            // Drivers without the question start with all off.
            ErrorKind::Unsupported => Ok(CardSwitch::default()),
            _ => Err(error),
        })?;
        let wanted = before.with(abilities, wish);
        // Made first: whatever fails behind it gives the switch back.
        let held = Self {
            interface: name.to_owned(),
            socket,
            clock: abilities.clock.unwrap_or(0),
            holders: Some(holders),
        };
        if wanted != before {
            let holders = held.holders.as_ref();
            let first = holders.and_then(|holders| original(&holders.note()));
            let set = wanted.set(&held.socket, name)?;
            if let Some(holders) = holders {
                let original = first.unwrap_or(before);
                holders.leave(&format!("{}\n{}", original.note(), set.note()))?;
            }
            if !set.is_enough(wish) {
                return Err(refused(
                    "the card's driver took the request and stamps something else; take software stamps (--stamps software)",
                ));
            }
        }
        Ok(held)
    }

    /// Returns the card's clock: N of `/dev/ptpN`.
    #[must_use]
    pub fn clock(&self) -> u32 {
        self.clock
    }
}

impl CardSwitch {
    /// Returns true if these stamps contain those that `wish` names.
    fn is_enough(self, wish: CardWish) -> bool {
        let enough = wish.receive.enough();
        (!wish.transmit || self.transmit != 0)
            && (enough.is_empty() || enough.iter().any(|filter| *filter as i32 == self.filter))
    }
}

/// Returns the switch as the first holder found it.
fn original(note: &str) -> Option<CardSwitch> {
    CardSwitch::parse(note.lines().next()?)
}

impl Drop for CardStamps {
    fn drop(&mut self) {
        let Some(holders) = self.holders.take() else {
            return;
        };
        let (socket, name) = (&self.socket, &self.interface);
        holders.leave_last(|note| {
            let (original, set) = (
                original(note),
                note.lines().nth(1).and_then(CardSwitch::parse),
            );
            if let (Some(original), Some(set)) = (original, set) {
                // Somebody else has changed it: it is theirs now.
                if CardSwitch::read(socket, name).map_or(true, |now| now == set) {
                    // An interface that is gone has no switch any more.
                    let _ = original.set(socket, name);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IGB: CardAbilities = CardAbilities {
        clock: Some(0),
        transmit: true,
        filters: 1 | 1 << 9 | 1 << 12,
    };
    const I210: CardAbilities = CardAbilities {
        filters: 1 | 1 << EVERY_FRAME,
        ..IGB
    };
    const EVERY: CardWish = CardWish {
        transmit: true,
        receive: ReceivedFrames::Every,
    };

    #[test]
    fn what_a_driver_reports_is_decoded() {
        // As igb answers: all socket options, clock 2, transmit off and on, filters none and ptpv2-l2-event.
        let options = 0x5f;
        let mut info = [0x41, options, 2, 0b11, 0, 0, 0, 1 | 1 << 9, 0, 0, 0];
        let found = CardAbilities::decode(&info);
        assert_eq!(
            (found.clock, found.transmit, found.filters),
            (Some(2), true, 0x201)
        );
        info[2] = u32::MAX;
        assert_eq!(CardAbilities::decode(&info).clock, None);
        // Software only.
        info[1] = 0x18;
        let found = CardAbilities::decode(&info);
        assert_eq!((found.transmit, found.filters), (false, 0));
    }

    #[test]
    fn a_card_is_refused_what_it_cannot_do_with_the_reason() {
        let reason = |abilities: CardAbilities, wish| abilities.lacking(wish).unwrap_or("");
        assert_eq!(reason(I210, EVERY), "");
        assert!(reason(IGB, EVERY).contains("only some kinds of PTP messages"));
        let ptp = CardWish {
            receive: ReceivedFrames::Ptp,
            ..EVERY
        };
        assert_eq!(reason(IGB, ptp), "");
        assert_eq!(reason(I210, ptp), "");
        let sent = CardWish {
            transmit: true,
            receive: ReceivedFrames::Any,
        };
        assert_eq!(reason(IGB, sent), "");
        let deaf = CardAbilities {
            filters: 1,
            transmit: false,
            ..IGB
        };
        assert!(reason(deaf, sent).contains("that it sends"));
        let received = CardWish {
            transmit: false,
            receive: ReceivedFrames::Every,
        };
        assert!(reason(deaf, received).contains("no received frames"));
        assert!(reason(CardAbilities::default(), sent).contains("no clock"));
    }

    #[test]
    fn the_switch_keeps_what_others_have_asked_for() {
        let off = CardSwitch::default();
        let on = off.with(I210, EVERY);
        assert_eq!((on.transmit, on.filter), (1, 1));
        assert_eq!(on.with(I210, EVERY), on);
        let ptp = CardWish {
            transmit: false,
            receive: ReceivedFrames::Ptp,
        };
        assert_eq!(
            (off.with(IGB, ptp).transmit, off.with(IGB, ptp).filter),
            (0, 9)
        );
        // Another program has messages over UDP stamped: every frame contains them.
        let theirs = CardSwitch { filter: 6, ..off };
        assert_eq!(theirs.with(I210, ptp).filter, 1);
        assert_eq!(CardSwitch::parse(&on.note()), Some(on));
        assert_eq!(CardSwitch::parse("1 2"), None);
        assert_eq!(on.to_string(), "sent on, received all");
    }

    #[test]
    fn abilities_read_as_a_sentence() {
        assert_eq!(
            IGB.to_string(),
            "clock /dev/ptp0; sent: every frame; received: only ptpv2-l2-event, ptpv2-event"
        );
        assert!(I210.to_string().ends_with("received: every frame"));
        assert_eq!(CardAbilities::default().to_string(), "no clock of its own");
    }
}
