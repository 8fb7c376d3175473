//! Links of kind `uman`: the device that the kernel module of that name puts above an Ethernet device.
//!
//! The attributes are those of `kernel/uman/include/uman_abi.h`.

use super::Netlink;
use super::attributes::{Writer, find, find_path, number, text, u32_at};
use super::raw::RawRequest;
use crate::HostError;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLM_F_EXCL_CREATE: u16 = 0x600;
const LINK_HEADER: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_UMAN_MODE: u16 = 1;
const IFLA_UMAN_ETHERTYPES: u16 = 2;
const IFLA_UMAN_QUEUE: u16 = 3;
/// The value of `IFLA_UMAN_QUEUE` for the queue of the processor that sends.
const QUEUE_OWN: u16 = 0xffff;
const KIND: &str = "uman";

/// The transmit mode of a uman device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UmanMode {
    /// Through the lower device's queueing discipline.
    Qdisc,
    /// Past the queueing discipline, into the driver's queue.
    Direct,
    /// By the driver's polling interface. PREEMPT_RT kernels refuse it.
    Netpoll,
}

impl UmanMode {
    const fn code(self) -> u8 {
        match self {
            Self::Qdisc => 0,
            Self::Direct => 1,
            Self::Netpoll => 2,
        }
    }

    fn from_code(code: u64) -> Option<Self> {
        [Self::Qdisc, Self::Direct, Self::Netpoll]
            .into_iter()
            .find(|mode| u64::from(mode.code()) == code)
    }

    /// Returns the mode's name: `qdisc`, `direct`, `netpoll`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qdisc => "qdisc",
            Self::Direct => "direct",
            Self::Netpoll => "netpoll",
        }
    }
}

/// The lower device's transmit queue in mode `direct` and `netpoll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UmanQueue {
    /// The queue with the number of the processor that sends.
    Own,
    /// A fixed queue.
    Fixed(u16),
}

/// Options of a uman device; `None` leaves one as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UmanOptions {
    /// The transmit mode.
    pub mode: Option<UmanMode>,
    /// The EtherTypes that it takes from the lower device, at most 8.
    pub ethertypes: Option<Vec<u16>>,
    /// The transmit queue.
    pub queue: Option<UmanQueue>,
}

impl UmanOptions {
    fn attributes(&self) -> Writer {
        let mut data = Writer::default();
        if let Some(mode) = self.mode {
            data = data.u8(IFLA_UMAN_MODE, mode.code());
        }
        if let Some(types) = &self.ethertypes {
            let bytes: Vec<u8> = types.iter().flat_map(|one| one.to_be_bytes()).collect();
            data = data.bytes(IFLA_UMAN_ETHERTYPES, &bytes);
        }
        if let Some(queue) = self.queue {
            let queue = match queue {
                UmanQueue::Own => QUEUE_OWN,
                UmanQueue::Fixed(queue) => queue,
            };
            data = data.u16(IFLA_UMAN_QUEUE, queue);
        }
        Writer::default()
            .text(IFLA_INFO_KIND, KIND)
            .nested(IFLA_INFO_DATA, data)
    }
}

/// A uman device as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UmanLink {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// The lower device's index, in the lower device's namespace.
    pub lower: u32,
    /// Its transmit mode; `None`: one that this program does not know.
    pub mode: Option<UmanMode>,
    /// The EtherTypes that it takes.
    pub ethertypes: Vec<u16>,
    /// Its transmit queue.
    pub queue: UmanQueue,
}

fn uman(message: &[u8]) -> Option<UmanLink> {
    let attributes = message.get(LINK_HEADER..)?;
    if text(find_path(attributes, &[IFLA_LINKINFO, IFLA_INFO_KIND])?) != KIND {
        return None;
    }
    let data = find_path(attributes, &[IFLA_LINKINFO, IFLA_INFO_DATA])?;
    let queue = find(data, IFLA_UMAN_QUEUE).and_then(number)?;
    Some(UmanLink {
        name: text(find(attributes, IFLA_IFNAME)?),
        index: u32_at(message, 4)?,
        lower: find(attributes, IFLA_LINK)
            .and_then(|value| u32_at(value, 0))
            .unwrap_or(0),
        mode: find(data, IFLA_UMAN_MODE)
            .and_then(number)
            .and_then(UmanMode::from_code),
        ethertypes: find(data, IFLA_UMAN_ETHERTYPES)
            .unwrap_or_default()
            .chunks_exact(2)
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
            .collect(),
        queue: match u16::try_from(queue).ok()? {
            QUEUE_OWN => UmanQueue::Own,
            queue => UmanQueue::Fixed(queue),
        },
    })
}

impl Netlink {
    /// Makes a uman device above a lower one. It is down at first.
    ///
    /// # Errors
    /// The module `uman` is not loaded, the lower device is missing or has a receive handler already, the mode is refused,
    /// the name is taken, or CAP_NET_ADMIN is missing.
    pub fn create_uman(
        &mut self,
        lower: &str,
        name: &str,
        options: &UmanOptions,
    ) -> Result<(), HostError> {
        super::links::c_name(name)?;
        let Some(below) = self.link(lower)? else {
            return Err(HostError::NoInterface {
                name: lower.to_owned(),
                there: self.links()?.into_iter().map(|link| link.name).collect(),
            });
        };
        let body = Writer::behind(&[0; LINK_HEADER])
            .text(IFLA_IFNAME, name)
            .u32(IFLA_LINK, below.index)
            .nested(IFLA_LINKINFO, options.attributes())
            .finish();
        self.acknowledge(
            &RawRequest::route(RTM_NEWLINK, NLM_F_EXCL_CREATE, body),
            || format!("create uman device `{name}` above `{lower}`"),
        )
    }

    /// Changes options of a uman device while it is in use.
    ///
    /// # Errors
    /// There is no such device, the mode is refused, or CAP_NET_ADMIN is missing.
    pub fn set_uman(&mut self, name: &str, options: &UmanOptions) -> Result<(), HostError> {
        self.uman(name)?;
        let body = Writer::behind(&[0; LINK_HEADER])
            .text(IFLA_IFNAME, name)
            .nested(IFLA_LINKINFO, options.attributes())
            .finish();
        self.acknowledge(&RawRequest::route(RTM_NEWLINK, 0, body), || {
            format!("change uman device `{name}`")
        })
    }

    /// Returns a uman device by name.
    ///
    /// # Errors
    /// There is no uman device of this name, or the kernel refuses to tell.
    pub fn uman(&mut self, name: &str) -> Result<UmanLink, HostError> {
        super::links::c_name(name)?;
        let umans = self.umans()?;
        if let Some(found) = umans.iter().find(|link| link.name == name) {
            return Ok(found.clone());
        }
        Err(HostError::NoUman {
            name: name.to_owned(),
            there: umans.into_iter().map(|link| link.name).collect(),
        })
    }

    /// Returns the uman devices of the namespace.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn umans(&mut self) -> Result<Vec<UmanLink>, HostError> {
        let request = RawRequest::route(RTM_GETLINK, 0, vec![0; LINK_HEADER]).dump();
        let replies = self.ask(&request, || "read the uman devices".to_owned())?;
        Ok(replies.iter().filter_map(|reply| uman(reply)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_asked_for_is_what_is_read() {
        let options = UmanOptions {
            mode: Some(UmanMode::Direct),
            ethertypes: Some(vec![0x88ab, 0x88b5]),
            queue: Some(UmanQueue::Fixed(3)),
        };
        let mut header = [0; LINK_HEADER];
        header[4] = 7;
        let message = Writer::behind(&header)
            .text(IFLA_IFNAME, "uman0")
            .u32(IFLA_LINK, 2)
            .nested(IFLA_LINKINFO, options.attributes())
            .finish();
        assert_eq!(
            uman(&message),
            Some(UmanLink {
                name: "uman0".to_owned(),
                index: 7,
                lower: 2,
                mode: Some(UmanMode::Direct),
                ethertypes: vec![0x88ab, 0x88b5],
                queue: UmanQueue::Fixed(3),
            })
        );
    }

    proptest! {
        #[test]
        fn no_message_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = uman(&bytes);
        }
    }
}
