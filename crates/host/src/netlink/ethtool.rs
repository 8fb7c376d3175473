//! The settings of `ethtool`: offloads, coalescing, rings, queues, pause, energy saving, timestamps.
//!
//! The generated bindings (0.3.5) number most commands of this family wrongly, so the requests are written here after
//! `linux/ethtool_netlink.h`. Least kernel: 5.6 for offloads to queues, 5.7 for coalescing, pause, energy saving and
//! timestamps. Reading needs no privilege, changing needs CAP_NET_ADMIN.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::attributes::{Writer, each, find, find_path, number, text};
use super::raw::RawRequest;
use super::{Netlink, raw};
use crate::HostError;

const FAMILY: &str = "ethtool";
const HEADER: u16 = 1;
const DEV_NAME: u16 = 2;
/// The size of the generic family's header, bytes; the attributes follow it.
const GENERIC_HEADER: usize = 4;

/// Offloads by the kernel's names, such as `rx-gro`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Those that are on.
    pub active: BTreeSet<String>,
    /// Those that cannot be changed.
    pub fixed: BTreeSet<String>,
}

/// One group of an interface's numeric settings; each group has a request to read and one to write it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Parameters {
    /// Ring sizes, frames (`ethtool -g`).
    Rings,
    /// Queues (`ethtool -l`).
    Channels,
    /// Interrupt coalescing, µs and frames (`ethtool -c`).
    Coalescing,
    /// Pause frames (`ethtool -a`), 0 or 1.
    Pause,
    /// Energy-Efficient Ethernet (`ethtool --show-eee`), 0 or 1.
    EnergySaving,
}

/// One setting: its name in `ethtool`, its attribute, its size in bytes, whether it can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name on the command line of `ethtool`.
    pub name: &'static str,
    kind: u16,
    octets: u8,
    writable: bool,
}

const fn parameter(name: &'static str, kind: u16, octets: u8, writable: bool) -> Parameter {
    Parameter {
        name,
        kind,
        octets,
        writable,
    }
}

const RINGS: [Parameter; 4] = [
    parameter("rx-max", 2, 4, false),
    parameter("tx-max", 5, 4, false),
    parameter("rx", 6, 4, true),
    parameter("tx", 9, 4, true),
];
const CHANNELS: [Parameter; 6] = [
    parameter("rx-max", 2, 4, false),
    parameter("tx-max", 3, 4, false),
    parameter("combined-max", 5, 4, false),
    parameter("rx", 6, 4, true),
    parameter("tx", 7, 4, true),
    parameter("combined", 9, 4, true),
];
const COALESCING: [Parameter; 6] = [
    parameter("rx-usecs", 2, 4, true),
    parameter("rx-frames", 3, 4, true),
    parameter("tx-usecs", 6, 4, true),
    parameter("tx-frames", 7, 4, true),
    parameter("adaptive-rx", 11, 1, true),
    parameter("adaptive-tx", 12, 1, true),
];
const PAUSE: [Parameter; 3] = [
    parameter("autoneg", 2, 1, true),
    parameter("rx", 3, 1, true),
    parameter("tx", 4, 1, true),
];
const ENERGY_SAVING: [Parameter; 2] = [
    parameter("active", 4, 1, false),
    parameter("eee", 5, 1, true),
];

impl Parameters {
    /// Returns the settings of the group.
    #[must_use]
    pub const fn list(self) -> &'static [Parameter] {
        match self {
            Self::Rings => &RINGS,
            Self::Channels => &CHANNELS,
            Self::Coalescing => &COALESCING,
            Self::Pause => &PAUSE,
            Self::EnergySaving => &ENERGY_SAVING,
        }
    }

    /// Returns the option of `ethtool` that changes the group.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Rings => "-G",
            Self::Channels => "-L",
            Self::Coalescing => "-C",
            Self::Pause => "-A",
            Self::EnergySaving => "--set-eee",
        }
    }

    /// Returns whether the setting `name` is a switch (`on`, `off`) rather than a count.
    #[must_use]
    pub fn is_switch(self, name: &str) -> bool {
        self.list()
            .iter()
            .any(|one| one.name == name && one.octets == 1)
    }

    /// Returns the number of `ETHTOOL_MSG_…_GET`; the request to write has the next number.
    const fn get(self) -> u8 {
        match self {
            Self::Rings => 15,
            Self::Channels => 17,
            Self::Coalescing => 19,
            Self::Pause => 21,
            Self::EnergySaving => 23,
        }
    }
}

/// The coalescing of an interface; `None` for settings that the driver does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// The longest wait of a received frame for more frames, µs.
    pub rx_usecs: Option<u64>,
    /// The number of frames to wait for.
    pub rx_frames: Option<u64>,
    /// The longest wait before sent frames are reported, µs.
    pub tx_usecs: Option<u64>,
    /// True if the driver adapts these by itself.
    pub adaptive_rx: Option<bool>,
}

/// The timestamps that the interface supports, and their clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeStamping {
    /// Names such as `hardware-receive`.
    pub kinds: BTreeSet<String>,
    /// Names of the kinds of frames that the card stamps where it sends them, such as `on`.
    pub sent: BTreeSet<String>,
    /// Names of the kinds of frames that the card stamps where it receives them, such as `all`, `ptpv2-event`.
    pub received: BTreeSet<String>,
    /// The interface's clock: `/dev/ptpN`.
    pub phc: Option<u32>,
}

fn request(command: u8, interface: &str) -> RawRequest {
    let header = Writer::default().text(DEV_NAME, interface);
    let body = Writer::default().nested(HEADER, header).finish();
    RawRequest::generic(FAMILY, command, &body)
}

/// Reads the names in a bit set that is not compact.
fn names(bitset: &[u8]) -> BTreeSet<String> {
    const BITS: u16 = 3;
    const NAME: u16 = 2;
    find(bitset, BITS)
        .map(|bits| {
            each(bits)
                .filter_map(|(_, bit)| find(bit, NAME).map(text))
                .collect()
        })
        .unwrap_or_default()
}

impl Netlink {
    /// Sends one request and returns the reply's attributes; `None` if the driver does not support it.
    fn ethtool(&mut self, command: u8, interface: &str) -> Result<Option<Vec<u8>>, HostError> {
        const EOPNOTSUPP: i32 = 95;
        let what = || format!("read the settings of interface `{interface}`");
        match self.ask(&request(command, interface), what) {
            Ok(replies) => Ok(replies
                .into_iter()
                .next()
                .and_then(|reply| reply.get(GENERIC_HEADER..).map(<[u8]>::to_vec))),
            Err(HostError::Netlink {
                errno: EOPNOTSUPP, ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the offloads that are on, and those that cannot be changed.
    ///
    /// # Errors
    /// No such interface.
    pub fn offloads(&mut self, interface: &str) -> Result<Offloads, HostError> {
        const FEATURES_GET: u8 = 11;
        const ACTIVE: u16 = 4;
        const NOCHANGE: u16 = 5;
        let reply = self.ethtool(FEATURES_GET, interface)?.unwrap_or_default();
        let set = |kind| find(&reply, kind).map(names).unwrap_or_default();
        Ok(Offloads {
            active: set(ACTIVE),
            fixed: set(NOCHANGE),
        })
    }

    /// Switches one offload.
    ///
    /// # Errors
    /// The kernel does not know it, or it is fixed, or CAP_NET_ADMIN is missing.
    pub fn set_offload(
        &mut self,
        interface: &str,
        feature: &str,
        on: bool,
    ) -> Result<(), HostError> {
        let name = super::links::c_name(interface)?;
        let request = if on {
            raw::features(&name, &[], &[feature])
        } else {
            raw::features(&name, &[feature], &[])
        };
        let state = if on { "on" } else { "off" };
        self.acknowledge(&request, || {
            format!("switch offload {feature} of interface `{interface}` {state}")
        })
    }

    /// Returns the settings of one group by name; empty if the driver has none of them.
    ///
    /// # Errors
    /// No such interface.
    pub fn parameters(
        &mut self,
        group: Parameters,
        interface: &str,
    ) -> Result<BTreeMap<&'static str, u64>, HostError> {
        let reply = self.ethtool(group.get(), interface)?.unwrap_or_default();
        Ok(group
            .list()
            .iter()
            .filter_map(|one| Some((one.name, number(find(&reply, one.kind)?)?)))
            .collect())
    }

    /// Changes one setting of a group.
    ///
    /// # Errors
    /// There is no such setting, the driver refuses it, or CAP_NET_ADMIN is missing.
    pub fn set_parameter(
        &mut self,
        group: Parameters,
        interface: &str,
        name: &str,
        value: u64,
    ) -> Result<(), HostError> {
        let what = || format!("set {name} of interface `{interface}` to {value}");
        let Some(one) = group
            .list()
            .iter()
            .find(|one| one.name == name && one.writable)
        else {
            return Err(HostError::Netlink {
                what: what(),
                reason: "there is no such number to set".to_owned(),
                errno: 0,
            });
        };
        let header = Writer::default().text(DEV_NAME, interface);
        let body = Writer::default().nested(HEADER, header);
        let body = if one.octets == 1 {
            body.u8(one.kind, u8::from(value != 0))
        } else {
            body.u32(one.kind, u32::try_from(value).unwrap_or(u32::MAX))
        };
        let request = RawRequest::generic(FAMILY, group.get() + 1, &body.finish());
        self.acknowledge(&request, what)
    }

    /// Returns the interface's coalescing.
    ///
    /// # Errors
    /// No such interface.
    pub fn coalescing(&mut self, interface: &str) -> Result<Coalescing, HostError> {
        let found = self.parameters(Parameters::Coalescing, interface)?;
        Ok(Coalescing {
            rx_usecs: found.get("rx-usecs").copied(),
            rx_frames: found.get("rx-frames").copied(),
            tx_usecs: found.get("tx-usecs").copied(),
            adaptive_rx: found.get("adaptive-rx").map(|on| *on != 0),
        })
    }

    /// Returns the timestamps that the interface supports.
    ///
    /// # Errors
    /// No such interface.
    pub fn time_stamping(&mut self, interface: &str) -> Result<TimeStamping, HostError> {
        const TSINFO_GET: u8 = 25;
        let reply = self.ethtool(TSINFO_GET, interface)?.unwrap_or_default();
        Ok(TimeStamping {
            kinds: find(&reply, 2).map(names).unwrap_or_default(),
            sent: find(&reply, 3).map(names).unwrap_or_default(),
            received: find(&reply, 4).map(names).unwrap_or_default(),
            phc: find(&reply, 5)
                .and_then(number)
                .and_then(|index| u32::try_from(index).ok()),
        })
    }

    /// Returns the rate in Mbit/s and whether the link is full duplex; `None` if unknown.
    ///
    /// # Errors
    /// No such interface.
    pub fn link_mode(&mut self, interface: &str) -> Result<(Option<u64>, Option<bool>), HostError> {
        const LINKMODES_GET: u8 = 4;
        const UNKNOWN: u64 = 0xffff_ffff;
        let reply = self.ethtool(LINKMODES_GET, interface)?.unwrap_or_default();
        let speed = find_path(&reply, &[5]).and_then(number);
        let duplex = find_path(&reply, &[6]).and_then(number);
        Ok((
            speed.filter(|speed| *speed != UNKNOWN),
            match duplex {
                Some(0) => Some(false),
                Some(1) => Some(true),
                _ => None,
            },
        ))
    }
}
