//! Receive contexts (NAPI) of an interface: their threads, and the deferral of interrupts. Over the netdev family.

use netlink_bindings::netdev;
use rtwire_sys::netns;

use super::Netlink;
use crate::HostError;

/// The value of `threaded` for a thread that polls all the time (`enum netdev_napi_threaded`, Linux 6.19).
const POLLING: u32 = 2;

/// One receive context of an interface, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Napi {
    /// Its number.
    pub id: u32,
    /// Its interrupt, where it has one of its own.
    pub irq: Option<u32>,
    /// True if a kernel thread runs it.
    pub threaded: Option<bool>,
    /// True if that thread polls the driver all the time.
    pub polls: bool,
    /// The thread that runs it, if any.
    pub thread: Option<u32>,
    /// The number of empty polls before interrupts are allowed again.
    pub defer_hard_irqs: u32,
    /// The time without a poll, ns, after which the kernel polls by itself while interrupts are deferred; 0 for never.
    pub gro_flush_timeout_ns: u32,
}

impl Netlink {
    /// Returns the receive contexts of an interface. Empty if its driver has none at the moment: a veth without a
    /// receive program and without GRO.
    ///
    /// # Errors
    /// The kernel does not know the request (6.8 and later do), or there is no such interface.
    pub fn napis(&mut self, ifindex: u32) -> Result<Vec<Napi>, HostError> {
        let mut found = self.napis_as_told(ifindex)?;
        let untold = found.iter().any(|napi| napi.threaded.is_none());
        let name = match self.links() {
            Ok(links) if untold => links.into_iter().find(|link| link.index == ifindex),
            _ => None,
        };
        if let Some(link) = name {
            let of_all = |setting| netns::read_interface_setting(&link.name, setting).ok();
            let number = |setting| of_all(setting).and_then(|text| text.parse().ok());
            let threaded = of_all("threaded").map(|text| text != "0");
            let (polls, timeout) = (number("napi_defer_hard_irqs"), number("gro_flush_timeout"));
            for napi in &mut found {
                napi.threaded = threaded;
                // A released thread stays, and is still reported: it runs nothing.
                napi.thread = napi.thread.filter(|_| threaded != Some(false));
                napi.defer_hard_irqs = polls.unwrap_or(napi.defer_hard_irqs);
                napi.gro_flush_timeout_ns = timeout.unwrap_or(napi.gro_flush_timeout_ns);
            }
        }
        Ok(found)
    }

    /// Returns the family's own report. It lacks the deferral before Linux 6.13, and the threads before 6.17.
    fn napis_as_told(&mut self, ifindex: u32) -> Result<Vec<Napi>, HostError> {
        let mut request = netdev::Request::new().op_napi_get_dump();
        request.encode().push_ifindex(ifindex);
        let failed = |reason: String, errno: Option<i32>| HostError::Netlink {
            what: format!("read the receive contexts of interface {ifindex}"),
            reason,
            errno: errno.unwrap_or(0),
        };
        let mut replies = self
            .socket
            .request(&request)
            .map_err(|error| failed(error.to_string(), error.raw_os_error()))?;
        let mut found = Vec::new();
        while let Some(reply) = replies.recv() {
            let napi = reply
                .map_err(|error| failed(error.to_string(), error.as_io_error().raw_os_error()))?;
            let id = napi
                .get_id()
                .map_err(|error| failed(error.to_string(), None))?;
            found.push(Napi {
                id,
                irq: napi.get_irq().ok(),
                threaded: napi.get_threaded().ok().map(|value| value != 0),
                polls: napi.get_threaded().ok() == Some(POLLING),
                thread: napi.get_pid().ok(),
                defer_hard_irqs: napi.get_defer_hard_irqs().unwrap_or(0),
                gro_flush_timeout_ns: napi.get_gro_flush_timeout().unwrap_or(0),
            });
        }
        found.sort_by_key(|napi| napi.id);
        Ok(found)
    }

    /// Moves one receive context to a thread of its own, or back to the soft interrupt.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, there is no such context, or the kernel is older than 6.17.
    pub fn set_napi_threaded(&mut self, id: u32, threaded: bool) -> Result<(), HostError> {
        self.set_napi_work(id, u32::from(threaded))
    }

    /// Moves one receive context to a thread of its own that polls the driver all the time (threaded busy polling).
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, there is no such context, or the kernel is older than 6.19.
    pub fn set_napi_polling(&mut self, id: u32) -> Result<(), HostError> {
        self.set_napi_work(id, POLLING)
    }

    fn set_napi_work(&mut self, id: u32, threaded: u32) -> Result<(), HostError> {
        let mut request = netdev::Request::new().op_napi_set_do();
        request.encode().push_id(id).push_threaded(threaded);
        self.acknowledge(&request, || match threaded {
            POLLING => format!("let a thread of its own poll receive context {id} all the time"),
            _ => format!("move receive context {id} to a thread of its own"),
        })
    }

    /// Sets the deferral of one receive context's interrupts.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, there is no such context, or the kernel is older than 6.13.
    pub fn set_napi_deferral(
        &mut self,
        id: u32,
        defer_hard_irqs: u32,
        gro_flush_timeout_ns: u32,
    ) -> Result<(), HostError> {
        let mut request = netdev::Request::new().op_napi_set_do();
        request
            .encode()
            .push_id(id)
            .push_defer_hard_irqs(defer_hard_irqs)
            .push_gro_flush_timeout(gro_flush_timeout_ns);
        self.acknowledge(&request, || {
            format!("defer the interrupts of receive context {id}")
        })
    }
}
