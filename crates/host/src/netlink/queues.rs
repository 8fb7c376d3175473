//! Queues: a link's rate, strict priority between classes, FIFO within one.
//!
//! HTB keeps the rate. Its outer class has the link's rate, the one below it the rate of catching up. Each priority class
//! below that has almost no rate of its own and borrows all of it. HTB lends to the most urgent class first: strict priority
//! with the one discipline that every kernel has.
//!
//! The priority classes share the limit of catching up. If each had its own, a class at its limit would let less urgent frames go
//! ahead of those that wait in it.

use netlink_bindings::tc;

use super::Netlink;
use crate::HostError;

const ROOT: u32 = u32::MAX;
const QDISC_HANDLE: u32 = 0x1_0000;
const LINK_CLASS: u32 = QDISC_HANDLE | 1;
const PEAK_CLASS: u32 = QDISC_HANDLE | 2;
const FIRST_CLASS: u32 = QDISC_HANDLE | 0x10;
const FIRST_LEAF_HANDLE: u32 = 0x10_0000;
/// The smallest rate, bytes a second: a class sends by borrowing. HTB serves a class's own rate before all that is
/// borrowed, whatever the priorities. At this rate that is at most a frame a minute (HTB forgets a longer debt).
pub(crate) const OWN_RATE: u32 = 1;
/// Bytes that a class sends before another of the same priority has its turn. No two have the same.
const QUANTUM: u32 = 1_600;
/// The most frames that a leaf holds. The byte limits apply before the queue, so this limit is never reached.
const LEAF_FRAMES: u32 = 20_000;
/// Nanoseconds in one tick of the packet scheduler's user interface (PSCHED_SHIFT 6).
const TICK_NS: u64 = 64;
const LINKLAYER_ETHERNET: u8 = 1;

/// The queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortQueue {
    /// The interface's index.
    pub ifindex: u32,
    /// The link's rate in bits a second; up to 34 Gbit/s.
    pub rate_bps: u64,
    /// Priority classes, 1 to 8; class `queues - 1` is the most urgent.
    pub queues: u8,
    /// The bytes of a frame beyond header and payload (preamble, FCS, gap), 0 to 255.
    pub overhead_bytes: u8,
    /// The longest delay of a release that may be caught up, ns: the depth of HTB's own bucket.
    pub credit_ns: u64,
    /// The rate of catching up, in bits a second, above `rate_bps`: frames follow one another at it while there is
    /// credit.
    pub peak_bps: u64,
    /// The burst that may leave at once, in ns at the peak rate.
    pub peak_credit_ns: u64,
}

/// `struct tc_ratespec` in the kernel's layout; the generated structure has its middle fields wrong.
fn rate_spec(bytes_per_second: u64, overhead: u8, smallest: u8) -> tc::TcRatespec {
    let rate = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
    let mut bytes = [0_u8; 12];
    bytes[1] = LINKLAYER_ETHERNET;
    bytes[2..4].copy_from_slice(&u16::from(overhead).to_ne_bytes());
    bytes[6..8].copy_from_slice(&u16::from(smallest).to_ne_bytes());
    bytes[8..12].copy_from_slice(&rate.to_ne_bytes());
    tc::TcRatespec::new_from_array(bytes)
}

fn ticks(duration_ns: u64) -> u32 {
    u32::try_from(duration_ns.div_ceil(TICK_NS)).unwrap_or(u32::MAX)
}

impl Netlink {
    /// Replaces an interface's root queue by one that sends at a rate, by strict priority.
    ///
    /// # Errors
    /// The kernel refuses: no HTB, or CAP_NET_ADMIN is missing.
    pub fn set_port_queue(&mut self, queue: &PortQueue) -> Result<(), HostError> {
        let what = |step: &str| format!("{step} of interface {}", queue.ifindex);
        let message = |handle: u32, parent: u32| tc::Tcmsg {
            ifindex: i32::try_from(queue.ifindex).unwrap_or(i32::MAX),
            handle,
            parent,
            ..Default::default()
        };
        // HTB cannot be changed in place. Without a queue of our own there is nothing to remove, and the error does not
        // matter.
        let old = tc::Request::new().op_delqdisc_do(&message(0, ROOT));
        let _ = self.acknowledge(&old, String::new);
        let mut request = tc::Request::new()
            .set_create()
            .set_excl()
            .op_newqdisc_do(&message(QDISC_HANDLE, ROOT));
        request
            .encode()
            .nested_options_htb()
            .push_init(tc::TcHtbGlob {
                version: 3,
                rate2quantum: 10,
                defcls: 0x10,
                ..Default::default()
            });
        self.acknowledge(&request, || what("set the HTB queue"))?;

        let smallest = 60_u8.saturating_add(queue.overhead_bytes);
        let of_link = |bps: u64| rate_spec(bps / 8, queue.overhead_bytes, smallest);
        let own = || rate_spec(OWN_RATE.into(), 0, 0);
        let link = tc::TcHtbOpt {
            rate: of_link(queue.rate_bps),
            ceil: of_link(queue.rate_bps),
            buffer: ticks(queue.credit_ns),
            cbuffer: ticks(queue.credit_ns),
            quantum: QUANTUM,
            ..Default::default()
        };
        let place = message(LINK_CLASS, QDISC_HANDLE);
        self.add_class(&place, link, || what("set the link rate"))?;
        let peak = tc::TcHtbOpt {
            rate: own(),
            // Without this limit all credit would leave at once after a pause.
            ceil: of_link(queue.peak_bps),
            buffer: 1,
            cbuffer: ticks(queue.peak_credit_ns),
            quantum: QUANTUM,
            ..Default::default()
        };
        let place = message(PEAK_CLASS, LINK_CLASS);
        self.add_class(&place, peak, || what("set the peak rate"))?;
        for class in 0..queue.queues {
            let priority = tc::TcHtbOpt {
                rate: own(),
                ceil: rate_spec(u32::MAX.into(), 0, 0),
                buffer: 1,
                cbuffer: ticks(queue.credit_ns),
                quantum: QUANTUM,
                prio: u32::from(queue.queues - 1 - class),
                ..Default::default()
            };
            let named = || what(&format!("add class {class}"));
            let minor = FIRST_CLASS + u32::from(class);
            self.add_class(&message(minor, PEAK_CLASS), priority, named)?;
            let leaf = message(FIRST_LEAF_HANDLE + (u32::from(class) << 16), minor);
            let mut request = tc::Request::new()
                .set_create()
                .set_excl()
                .op_newqdisc_do(&leaf);
            request
                .encode()
                .nested_options_pfifo(&tc::TcFifoQopt { limit: LEAF_FRAMES });
            self.acknowledge(&request, named)?;
        }
        Ok(())
    }

    fn add_class(
        &mut self,
        place: &tc::Tcmsg,
        options: tc::TcHtbOpt,
        what: impl FnOnce() -> String,
    ) -> Result<(), HostError> {
        let mut request = tc::Request::new()
            .set_create()
            .set_excl()
            .op_newtclass_do(place);
        let kind = request.encode().push_kind(c"htb");
        kind.nested_options_htb().push_parms(options);
        self.acknowledge(&request, what)
    }
}
