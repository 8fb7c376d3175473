//! POWERLINK through the kernel module `uman`: the module answers PReqs by itself, in its receive handler.
//!
//! ```text
//!  PReq ──► receive handler ── prepared PRes leaves ─┐                    controlled node
//!  other frames ─────────────────────────────────────┴─► ring in memory ──► Node::frame
//!  Node's actions ──► Offload
//!      Prepare, Arm ──► the module's prepared frame, and its lease
//!      Due          ──► answered already? then nothing; else Port::send (`write` to the module)
//!      Disarm       ──► an empty content: the module answers no more
//! ```
//!
//! No action makes a system call. What differs from the receive program of this crate ([`DriverPort`](super::DriverPort)): the
//! driver may be any; the PRes is made in a socket buffer; a chained PRes (PollResponse chaining) and a managing node's requests
//! are sent by user space. A managing node's SoC may be a cyclic frame of the module.

use super::uman_soc::Soc;
use super::{DriverConfig, DriverCounters, Role};
use rtwire_link::LinkError;
use rtwire_link::run::{Arrived, LaunchWindow, Launches, Offload, Port};
use rtwire_link::uman;
use rtwire_powerlink::prepared;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::interface::Interface;
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::uman::{
    FRAME_OCTETS, LEASE_MOST, Outgoing, RingReader, UmanDevice, UmanFilter, Wanted,
};
use rtwire_sys::{Errno, ErrorKind};
use rtwire_wire::powerlink::node;
use rtwire_wire::{Action, MacAddress, Slot};
use std::sync::Arc;
use std::time::Duration;

/// The entries of the ring: several cycles of the largest network.
const RING: u32 = 1024;
/// The slot of the PRes among the module's replies.
const PRES: u32 = 0;
/// The message type of a PReq, and the bits that are the type.
const PREQ: u8 = 0x03;
const TYPE: u8 = 0x7f;

/// Returns the PReqs to answer: those of node 240 to this node and address, of `managing`'s address where it is known.
fn requests_of(
    own: MacAddress,
    node: u8,
    ether_type: u16,
    managing: Option<MacAddress>,
) -> UmanFilter {
    // The frame from offset 9: the last half of the source's address, EtherType, message type, destination, source.
    let mut filter = UmanFilter {
        ether_type,
        destination: Some(own.0),
        offset: 9,
        value: [0, 0, 0, 0, 0, PREQ, node, node::MN],
        mask: [0, 0, 0, 0, 0, TYPE, 0xff, 0xff],
    };
    if let Some(MacAddress(managing)) = managing {
        filter.value[..3].copy_from_slice(&managing[3..]);
        filter.mask[..3].fill(0xff);
    }
    filter
}

/// The controlled node's PRes in the module.
#[derive(Debug)]
struct Replies {
    device: Arc<UmanDevice>,
    outgoing: Outgoing,
    filter: UmanFilter,
    role: Role,
    frame: Box<[u8]>,
    octets: usize,
    armed: bool,
    /// True where the module has answered the frame that the node is being shown.
    answered: bool,
    lapsed: u64,
    /// The answers without renewal.
    lease: u32,
}

/// Returns the lease of a watchdog; 0 cycles: as long as the module has any.
const fn lease_of(watchdog_cycles: u32) -> u32 {
    match watchdog_cycles {
        0 | LEASE_MOST.. => LEASE_MOST,
        cycles => cycles,
    }
}

impl Replies {
    /// Sets the reply anew. What is published stays.
    fn set(&self) -> Result<(), Errno> {
        match self.role {
            Role::Controlled => self.device.set_reply(PRES, &self.filter, self.lease),
            Role::Managing => Ok(()),
        }
    }

    fn prepare(&mut self, frame: &[u8]) {
        let Some(place) = self.frame.get_mut(..frame.len()) else {
            // Longer than any Ethernet frame: the loop refuses it when it is due.
            self.disarm();
            return;
        };
        place.copy_from_slice(frame);
        self.octets = frame.len();
        if self.armed {
            self.outgoing.publish(frame);
        }
    }

    fn arm(&mut self) {
        if !std::mem::replace(&mut self.armed, true) {
            self.outgoing.publish(&self.frame[..self.octets]);
        }
        self.outgoing.renew();
    }

    fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.outgoing.publish(&[]);
        }
    }

    fn due(&mut self) -> bool {
        if std::mem::take(&mut self.answered) {
            return true;
        }
        self.lapsed += u64::from(self.armed && self.outgoing.counts().2);
        false
    }
}

impl Offload for Replies {
    fn act(&mut self, action: Action<'_>) -> bool {
        if self.role == Role::Managing {
            return false;
        }
        match action {
            Action::Prepare { slot, frame } if slot == prepared::RESPONSE => self.prepare(frame),
            // A chained PRes waits for its time, which the module cannot.
            Action::Arm(arm) if arm.slot == prepared::RESPONSE && arm.cue == prepared::PREQ => {
                self.arm();
            }
            Action::Disarm { slot } if slot == prepared::RESPONSE => self.disarm(),
            Action::Due { slot, .. } if slot == prepared::RESPONSE => return self.due(),
            _ => {}
        }
        false
    }

    fn leaves(&mut self, _: Slot) {}

    fn has_left(&self, slot: Slot) -> bool {
        slot == prepared::RESPONSE && self.answered
    }

    fn stop(&mut self) {
        self.disarm();
    }
}

/// A port of the kernel module `uman`. It has the device for itself.
#[derive(Debug)]
pub struct UmanPort {
    interface: Interface,
    device: Arc<UmanDevice>,
    ring: RingReader,
    room: Box<[u8]>,
    ether_type: [u8; 2],
    replies: Replies,
    /// Holds the memberships of the groups.
    _groups: PacketSocket,
    launches: Option<Launches>,
    soc: Option<Soc>,
    managing: Option<MacAddress>,
    node: u8,
    watchdog_cycles: u32,
}

impl UmanPort {
    /// Opens the port at the device of kind `uman` that the interface is, or that is above it.
    ///
    /// # Errors
    /// [`LinkError::NoUman`]: the module or a device is missing, or another program has it. A privilege is missing.
    pub fn open(config: &DriverConfig) -> Result<Self, LinkError> {
        let interface = uman::device_of(&config.port.interface)?;
        let wanted = Wanted {
            cyclic: u32::from(config.role == Role::Managing),
            replies: 1,
            ring: RING,
        };
        let device = Arc::new(uman::attach(&interface, wanted)?);
        let groups = PacketSocket::sender(&interface)?;
        for group in &config.port.groups {
            groups.join_group(group.0)?;
        }
        let ether_type = config.port.ether_type;
        let failed = |call| {
            let (interface, device) = (interface.name.clone(), Arc::clone(&device));
            move |errno| failed(call, &interface, &device, errno)
        };
        let outgoing = Outgoing::reply(Arc::clone(&device), PRES).ok_or(LinkError::Unsupported {
            what: "the module `uman` has given no slot for the PRes: load the module of this version",
        })?;
        let replies = Replies {
            outgoing,
            filter: requests_of(MacAddress(interface.mac), config.node, ether_type, None),
            role: config.role,
            frame: vec![0; FRAME_OCTETS].into_boxed_slice(),
            octets: 0,
            armed: false,
            answered: false,
            lapsed: 0,
            lease: lease_of(config.watchdog_cycles),
            device: Arc::clone(&device),
        };
        device.start_ring().map_err(failed("UMAN_IOC_RECEIVE"))?;
        let ring = RingReader::new(Arc::clone(&device));
        replies.set().map_err(failed("UMAN_IOC_REPLY"))?;
        Ok(Self {
            ring,
            room: vec![0; FRAME_OCTETS].into_boxed_slice(),
            ether_type: ether_type.to_be_bytes(),
            replies,
            _groups: groups,
            launches: None,
            soc: None,
            managing: None,
            node: config.node,
            watchdog_cycles: config.watchdog_cycles,
            interface,
            device,
        })
    }

    /// Returns the device's interface, as it was when the port was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Returns what was counted so far. No system call.
    #[must_use]
    pub fn counters(&self) -> DriverCounters {
        let (answered, unanswered, _) = self.replies.outgoing.counts();
        DriverCounters {
            answered,
            unanswered,
            lapsed: self.replies.lapsed,
            overrun: self.ring.lost(),
            ..DriverCounters::default()
        }
    }

    /// Sends frames with a launch instant through `launches` from now on.
    pub fn launch_by(&mut self, launches: Launches) {
        self.launches = Some(launches);
    }

    /// Has the module send frames with a launch instant, all on one grid of `period_ns`, from now on. They are handed over
    /// within `window`.
    pub fn keep_by_module(&mut self, period_ns: u64, window: LaunchWindow) {
        self.soc = Soc::new(Arc::clone(&self.device), period_ns, window);
    }

    /// Returns the SoC that were handed over to the module and have not left; `None` where the module keeps none.
    #[must_use]
    pub fn soc_lost(&self) -> Option<u64> {
        self.soc.as_ref().map(Soc::lost)
    }

    /// Has the module answer only PReqs of this address; `None`: of any. It compares the last three bytes. One system call
    /// where it has changed; else a comparison.
    pub fn set_managing(&mut self, managing: Option<MacAddress>) {
        if self.managing != managing {
            self.managing = managing;
            let own = MacAddress(self.interface.mac);
            let ether_type = u16::from_be_bytes(self.ether_type);
            self.replies.filter = requests_of(own, self.node, ether_type, managing);
            // Refused only by a device that is gone, which the next frame shows.
            let _ = self.replies.set();
        }
    }

    /// Sets the PReqs that the module answers without renewal; 0: the most that it can. One system call where it has changed;
    /// else a comparison.
    pub fn set_watchdog(&mut self, cycles: u32) {
        if self.watchdog_cycles != cycles {
            self.watchdog_cycles = cycles;
            self.replies.lease = lease_of(cycles);
            let _ = self.replies.set();
        }
    }
}

fn failed(call: &'static str, interface: &str, device: &UmanDevice, errno: Errno) -> LinkError {
    let interface = interface.to_owned();
    match errno.kind() {
        _ if !device.exists() => LinkError::InterfaceGone { interface },
        ErrorKind::InterfaceDown => LinkError::InterfaceDown { interface },
        ErrorKind::QueueFull => LinkError::QueueFull,
        _ => LinkError::Call {
            call,
            interface,
            errno,
        },
    }
}

/// Turns the module's stamp into CLOCK_MONOTONIC; never later than now. Wrong where CLOCK_TAI was set since the frame came.
fn monotonic_ns(stamp_tai_ns: u64) -> u64 {
    let tai_ns = clock::now_ns(Clock::Tai);
    // Read last: a pause between both readings makes a frame younger, and never older than it is.
    let now_ns = clock::now_ns(Clock::Monotonic);
    now_ns.saturating_sub(tai_ns.saturating_sub(stamp_tai_ns))
}

impl Port for UmanPort {
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        match self.device.send(frame) {
            Ok(()) => Ok(()),
            Err(Errno::TOO_LONG) => Err(LinkError::TooLong {
                octets: frame.len(),
                interface: self.interface.name.clone(),
            }),
            Err(errno) => Err(failed("write", &self.interface.name, &self.device, errno)),
        }
    }

    fn launch_window(&self) -> Option<LaunchWindow> {
        match (&self.soc, &self.launches) {
            (Some(soc), _) => Some(soc.window()),
            (None, Some(launches)) => Some(launches.window()),
            (None, None) => None,
        }
    }

    fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        match (&mut self.soc, &mut self.launches) {
            (Some(soc), _) => soc.send_at(frame, launch_ns),
            (None, Some(launches)) => launches.send_at(frame, launch_ns),
            (None, None) => Err(LinkError::LaunchRefused { launch_ns }),
        }
    }

    fn receive(&mut self, show: &mut dyn FnMut(Arrived<'_>)) -> Result<bool, LinkError> {
        while let Some(frame) = self.ring.take(&mut self.room) {
            let octets = &self.room[..frame.octets];
            // The device may take other protocols, too.
            if octets.get(12..14) != Some(&self.ether_type) {
                continue;
            }
            self.replies.answered = frame.answered;
            show(Arrived {
                at_ns: Some(monotonic_ns(frame.stamp_tai_ns)),
                frame: octets,
                offload: Some(&mut self.replies),
            });
            self.replies.answered = false;
            return Ok(true);
        }
        if self.device.exists() {
            return Ok(false);
        }
        Err(LinkError::InterfaceGone {
            interface: self.interface.name.clone(),
        })
    }

    fn offload(&mut self) -> Option<&mut dyn Offload> {
        Some(&mut self.replies)
    }

    fn is_ready(&self) -> bool {
        self.ring.is_ready()
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        let waited = self.ring.wait(timeout);
        waited.map_err(|errno| failed("wait", &self.interface.name, &self.device, errno))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    /// Compares a frame with a filter as the module does.
    fn meets(filter: &UmanFilter, frame: &[u8]) -> bool {
        let at = usize::from(filter.offset);
        filter.destination.is_none_or(|to| frame[..6] == to)
            && frame[12..14] == filter.ether_type.to_be_bytes()
            && (0..8).all(|i| (frame[at + i] ^ filter.value[i]) & filter.mask[i] == 0)
    }

    #[test]
    fn only_the_managing_nodes_requests_to_this_node_are_answered() {
        let (own, managing) = (MacAddress([2, 0, 0, 0, 0, 7]), [2, 0, 0, 9, 8, 7]);
        let mut request = vec![0; 60];
        request[..6].copy_from_slice(&own.0);
        request[6..12].copy_from_slice(&managing);
        request[12..17].copy_from_slice(&[0x88, 0xab, 0x03, 5, 240]);
        let any = requests_of(own, 5, 0x88ab, None);
        let known = requests_of(own, 5, 0x88ab, Some(MacAddress(managing)));
        assert!(meets(&any, &request) && meets(&known, &request));
        for (at, what) in [(5, 8), (14, 0x01), (14, 0x04), (15, 6), (16, 239)] {
            let mut other = request.clone();
            other[at] = what;
            assert!(!meets(&any, &other), "{at}");
        }
        let mut foreign = request.clone();
        foreign[11] = 1;
        assert!(meets(&any, &foreign) && !meets(&known, &foreign));
        // The highest bit of the message type is not the type's.
        request[14] |= 0x80;
        assert!(meets(&known, &request));
    }

    #[test]
    fn a_watchdog_is_a_lease_that_the_module_takes() {
        assert_eq!(lease_of(10), 10);
        assert_eq!(lease_of(0), LEASE_MOST);
        assert_eq!(lease_of(u32::MAX), LEASE_MOST);
    }
}
