//! Frames through the kernel module `uman`: which device an interface has, and one attachment for all its users here.
//!
//! ```text
//!  Sender ──────────────┐                              ┌──► interface
//!  Sender ──────────────┼─ Attachment ─ /dev/uman ─────┤
//!  Receiver ◄─ filter ◄─┤  (one in a process)          │
//!  Receiver ◄─ filter ◄─┴── ring ◄─────────────────────┴──◄ interface
//! ```
//!
//! The kernel lets one program attach to a device. So all senders and receivers of a process share one attachment, and
//! each receiver reads the whole ring for itself, without a lock.

use crate::error::LinkError;
use crate::program::namespace;
use crate::receive::Frame;
use crate::slices::nanoseconds;
use rtwire_sys::Errno;
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::filter::Filter;
use rtwire_sys::interface::{self, Interface};
use rtwire_sys::uman::{self, FRAME_OCTETS, RingFrame, RingReader, UmanDevice, Wanted};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The entries of a shared ring, 1.5 KiB each.
const RING: u32 = 1024;
/// The most frames that a receiver takes out of the ring at once.
const MOST_AT_ONCE: usize = 256;

/// Returns the device of kind `uman` that an interface is, or that is above it.
///
/// # Errors
/// The interface is missing. [`LinkError::NoUman`]: there is no such device; the error names the way to get one.
pub fn device_of(name: &str) -> Result<Interface, LinkError> {
    let interface = interface::by_name(name)?;
    let of = |link: &uman::UmanLink| {
        link.index == interface.index || link.lower == Some(interface.index)
    };
    match uman::devices()?.iter().find(|link| of(link)) {
        Some(device) => Ok(interface::by_name(&device.name)?),
        None if std::path::Path::new(uman::DEVICE_FILE).exists() => Err(no_device(name)),
        None => Err(no_module(name)),
    }
}

fn no_module(interface: &str) -> LinkError {
    LinkError::NoUman {
        interface: interface.to_owned(),
        found: "the kernel module `uman` is not loaded".to_owned(),
        remedy: format!(
            "load it (`insmod kernel/uman/uman.ko`, see docs/uman.md), then `rtwire uman add uman0 --link {interface}` and \
             `ip link set uman0 up`"
        ),
    }
}

fn no_device(interface: &str) -> LinkError {
    LinkError::NoUman {
        interface: interface.to_owned(),
        found: "no uman device is above it".to_owned(),
        remedy: format!(
            "make one with `rtwire uman add uman0 --link {interface}` and `ip link set uman0 up`"
        ),
    }
}

/// Attaches this program to a device of kind `uman`, with a ring of frames and slots for replies.
///
/// # Errors
/// [`LinkError::NoUman`]: another program is attached, or the module is of another version. A privilege is missing.
pub fn attach(device: &Interface, wanted: Wanted) -> Result<UmanDevice, LinkError> {
    UmanDevice::attach(device, wanted).map_err(|error| refused(&device.name, error))
}

/// Puts words to what the module refuses.
fn refused(device: &str, error: rtwire_sys::Error) -> LinkError {
    const ENOENT: i32 = 2;
    const ENODEV: i32 = 19;
    const EBUSY: i32 = 16;
    const EPROTO: i32 = 71;
    let (found, remedy) = match error.errno() {
        Errno(ENOENT) => return no_module(device),
        Errno(ENODEV) => return no_device(device),
        Errno(EBUSY) => (
            format!("another program is attached to `{device}`, which takes one"),
            "end that program, or send by another path".to_owned(),
        ),
        Errno(EPROTO) => (
            format!(
                "the loaded module does not have version {} of the interface",
                uman::ABI_VERSION
            ),
            "load the module of this version (`rmmod uman`, then kernel/uman/uman.ko)".to_owned(),
        ),
        _ => return error.into(),
    };
    LinkError::NoUman {
        interface: device.to_owned(),
        found,
        remedy,
    }
}

/// The attachments of this process, each with its namespace's inode.
static SHARED: Mutex<Vec<(u64, u32, Weak<Attachment>)>> = Mutex::new(Vec::new());

/// The attachment of this process to a device.
#[derive(Debug)]
pub struct Attachment {
    device: Arc<UmanDevice>,
    interface: Interface,
    /// The readers of the ring. It is filled only while there is one.
    readers: Mutex<usize>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is consistent between any two statements that could panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attachment {
    /// Returns this process's attachment to the device that `interface` is or that is above it; attaches if there is none.
    ///
    /// # Errors
    /// As of [`device_of`] and [`attach`].
    pub fn shared(interface: &str) -> Result<Arc<Self>, LinkError> {
        let device = device_of(interface)?;
        let namespace = namespace();
        let mut all = locked(&SHARED);
        all.retain(|(_, _, one)| one.strong_count() > 0);
        let there = all
            .iter()
            .filter(|(own, index, _)| (*own, *index) == (namespace, device.index));
        for (_, _, one) in there {
            // One whose device was removed meanwhile may have a successor of the same index.
            if let Some(one) = one.upgrade().filter(|one| one.device.exists()) {
                return Ok(one);
            }
        }
        let wanted = Wanted {
            cyclic: 0,
            replies: 0,
            ring: RING,
        };
        let this = Arc::new(Self {
            device: Arc::new(attach(&device, wanted)?),
            interface: device,
            readers: Mutex::new(0),
        });
        all.push((namespace, this.interface.index, Arc::downgrade(&this)));
        Ok(this)
    }

    /// Returns the device's interface as it was when it was attached to.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    #[inline]
    pub(crate) fn device(&self) -> &UmanDevice {
        &self.device
    }

    /// Opens a reader of the ring.
    pub(crate) fn reader(self: &Arc<Self>) -> Result<SharedReader, LinkError> {
        let mut readers = locked(&self.readers);
        if *readers == 0 {
            self.device.start_ring().map_err(|errno| {
                LinkError::of("UMAN_IOC_RECEIVE", &self.interface.name, errno, 0, || {
                    self.device.exists()
                })
            })?;
        }
        *readers += 1;
        Ok(SharedReader {
            ring: RingReader::new(Arc::clone(&self.device)),
            attachment: Arc::clone(self),
        })
    }
}

/// A reader of a shared ring; the ring is filled as long as there is one.
#[derive(Debug)]
pub(crate) struct SharedReader {
    ring: RingReader,
    attachment: Arc<Attachment>,
}

impl SharedReader {
    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }
}

impl Drop for SharedReader {
    fn drop(&mut self) {
        let mut readers = locked(&self.attachment.readers);
        *readers -= 1;
        if *readers == 0 {
            // A device that is gone has no ring to stop.
            let _ = self.attachment.device.stop_ring();
        }
    }
}

#[derive(Debug)]
struct Place {
    octets: Box<[u8]>,
    frame: RingFrame,
}

/// The frames of one receiver: those of the ring that pass its filter, copied.
#[derive(Debug)]
pub(crate) struct UmanQueue {
    reader: SharedReader,
    ether_type: [u8; 2],
    filter: Filter,
    mac: [u8; 6],
    places: Box<[Place]>,
    count: usize,
    next: usize,
}

impl UmanQueue {
    pub(crate) fn new(
        reader: SharedReader,
        (ether_type, filter): (u16, Filter),
        queue_frames: usize,
    ) -> Self {
        let place = |_| Place {
            octets: vec![0; FRAME_OCTETS].into_boxed_slice(),
            frame: RingFrame::default(),
        };
        Self {
            mac: reader.attachment.interface.mac,
            reader,
            ether_type: ether_type.to_be_bytes(),
            filter,
            places: (0..queue_frames.clamp(1, MOST_AT_ONCE))
                .map(place)
                .collect(),
            count: 0,
            next: 0,
        }
    }

    #[inline]
    pub(crate) fn available(&self, ahead: usize) -> bool {
        ahead < self.count - self.next
    }

    /// Takes waiting frames out of the ring: up to as many as there are places, or a whole ring of foreign ones. Call it
    /// only when the last ones are used up.
    pub(crate) fn look(&mut self) {
        (self.count, self.next) = (0, 0);
        for _ in 0..RING {
            let Some(place) = self.places.get_mut(self.count) else {
                return;
            };
            let Some(frame) = self.reader.ring.take(&mut place.octets) else {
                return;
            };
            let octets = &place.octets[..frame.octets];
            if passes(octets, self.ether_type, &self.mac, &self.filter) {
                place.frame = frame;
                self.count += 1;
            }
        }
    }

    /// Waits for at most `time` until a frame is there. Call it only when the last ones are used up.
    pub(crate) fn block(&mut self, time: Duration) -> Result<(), Errno> {
        let mut end_ns = None;
        let mut left = time;
        loop {
            self.look();
            if self.count > 0 || left.is_zero() {
                return Ok(());
            }
            let now = clock::now_ns(Clock::Monotonic);
            let end = *end_ns.get_or_insert(now.saturating_add(nanoseconds(time)));
            left = Duration::from_nanos(end.saturating_sub(now));
            // Wakes for the frames of other receivers, too.
            self.reader.ring.wait(left)?;
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<Frame<'_>> {
        let place = self.places[..self.count].get(self.next)?;
        Some(Frame {
            data: &place.octets[..place.frame.octets],
            truncated: false,
            stamp_tai_ns: Some(place.frame.stamp_tai_ns),
            source: None,
            tag: None,
        })
    }

    #[inline]
    pub(crate) fn release(&mut self) {
        self.next = (self.next + 1).min(self.count);
    }

    pub(crate) fn lost(&self) -> u64 {
        self.reader.ring.lost()
    }

    pub(crate) fn exists(&self) -> bool {
        self.reader.attachment.device.exists()
    }
}

/// Returns true for a frame that a packet socket with this filter would take.
fn passes(frame: &[u8], ether_type: [u8; 2], mac: &[u8; 6], filter: &Filter) -> bool {
    let Some((destination, rest)) = frame.split_first_chunk::<6>() else {
        return false;
    };
    let for_others = destination[0] & 1 == 0 && destination != mac;
    rest.get(6..8) == Some(&ether_type) && filter.accepts(frame, for_others).unwrap_or(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::{Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp};
    use rtwire_sys::filter::{FOR_OTHERS, Instruction, Test};

    #[test]
    fn a_frame_passes_as_at_a_packet_socket() {
        let program = [
            Instruction::LoadPacketType,
            Instruction::Jump {
                test: Test::Equal(FOR_OTHERS),
                yes: 3,
                no: 0,
            },
            Instruction::LoadHalf(16),
            Instruction::Jump {
                test: Test::Equal(0x1234),
                yes: 0,
                no: 1,
            },
            Instruction::Accept,
            Instruction::Reject,
        ];
        let filter = Filter::new(&program).unwrap();
        let mac = [2, 0, 0, 0, 0, 1];
        let frame = |destination: [u8; 6], ether_type: u16, port: u16| {
            let mut frame = vec![0; 60];
            frame[..6].copy_from_slice(&destination);
            frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
            frame[16..18].copy_from_slice(&port.to_be_bytes());
            frame
        };
        let passes = |frame: &[u8]| super::passes(frame, [0x88, 0xb5], &mac, &filter);
        let group = [0x01, 0, 0x5e, 0, 0, 1];
        assert!(passes(&frame(mac, 0x88b5, 0x1234)));
        assert!(passes(&frame(group, 0x88b5, 0x1234)));
        assert!(!passes(&frame([2, 0, 0, 0, 0, 9], 0x88b5, 0x1234)));
        assert!(!passes(&frame(mac, 0x88ab, 0x1234)));
        assert!(!passes(&frame(mac, 0x88b5, 0x1235)));
        for octets in 0..18 {
            assert!(!passes(&frame(mac, 0x88b5, 0x1234)[..octets]));
        }
    }

    #[test]
    fn without_the_module_one_message_says_what_to_do() {
        if std::path::Path::new(uman::DEVICE_FILE).exists() {
            return;
        }
        let sender = SenderConfig {
            path: TxPath::Uman,
            ..SenderConfig::new("lo")
        };
        let receiver = ReceiverConfig {
            interface: "lo".to_owned(),
            wake_up: WakeUp::Block,
            queue_frames: 8,
            stamps: false,
            one_by_one: false,
        };
        let filter = Filter::new(&[Instruction::Accept]).unwrap();
        let errors = [
            Sender::frames(&sender).unwrap_err(),
            Receiver::frames_by_uman(&receiver, 0x88b5, &filter).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(
                error.to_string(),
                "interface `lo` has no path `uman`: the kernel module `uman` is not loaded; load it (`insmod \
                 kernel/uman/uman.ko`, see docs/uman.md), then `rtwire uman add uman0 --link lo` and `ip link set uman0 up`"
            );
        }
        assert!(device_of("nowhere").is_err());
    }

    #[test]
    fn what_the_module_refuses_is_put_in_words() {
        let error = |number| {
            let error = rtwire_sys::Error::new("UMAN_IOC_ATTACH", "x", Errno(number), None);
            refused("uman0", error).to_string()
        };
        assert!(error(16).contains("another program is attached to `uman0`"));
        assert!(error(71).contains("version 1 of the interface"));
        assert!(error(19).contains("rtwire uman add"));
        assert!(!error(12).contains("has no path"));
    }
}
