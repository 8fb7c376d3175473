//! The shared memory without the module: the tests write what the kernel writes, where `uman_abi.h` has it.

use super::layout::{Attach, Half, RING_HEAD, RING_LOST, RING_TAIL, half, halves};
use super::*;

const ENTRIES: u32 = 8;
const REPLY_AT: usize = 4096;
const RING_AT: usize = REPLY_AT + 6208;

fn device() -> Arc<UmanDevice> {
    // SAFETY: the name is a C string that lives for ever.
    let fd = unsafe { libc::memfd_create(c"uman".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: the descriptor is new and has no other owner.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let size = (RING_AT + ENTRIES as usize * 1536).next_multiple_of(4096);
    // SAFETY: the arguments are numbers.
    assert_eq!(unsafe { libc::ftruncate(fd, size as libc::off_t) }, 0);
    let layout = Attach {
        reply: 1,
        ring: ENTRIES,
        size: size as u64,
        reply_at: REPLY_AT as u64,
        ring_at: RING_AT as u64,
        ..Attach::default()
    };
    assert!(layout.fits());
    Arc::new(UmanDevice {
        memory: MappedWords::map(file, size / 8).unwrap(),
        layout,
        name: "uman0".to_owned(),
        mtu: 1500,
    })
}

impl UmanDevice {
    fn set(&self, word: usize, value: u64) {
        self.memory.words()[word].store(value, Ordering::SeqCst);
    }

    fn get(&self, word: usize) -> u64 {
        self.memory.words()[word].load(Ordering::SeqCst)
    }

    /// Puts a frame into the ring as the module does: not where it is full.
    fn arrives(&self, byte: u8, flags: u16) {
        let head = half(self.get(RING_HEAD), Half::First);
        let tail = half(self.get(RING_TAIL), Half::First);
        if head.wrapping_sub(tail) >= ENTRIES {
            self.set(RING_LOST, self.get(RING_LOST) + 1);
            return;
        }
        let at = RING_AT / 8 + (head % ENTRIES) as usize * 192;
        self.set(at, 5_000 + u64::from(byte));
        let tail: Vec<u8> = [7_u16.to_ne_bytes(), flags.to_ne_bytes()].concat();
        self.set(
            at + 1,
            halves(60, u32::from_ne_bytes(tail.try_into().unwrap())),
        );
        for word in 0..8 {
            self.set(at + 2 + word, u64::from_ne_bytes([byte; 8]));
        }
        self.set(RING_HEAD, halves(head.wrapping_add(1), 0));
    }
}

/// Reads all that waits, by the first byte of each frame.
fn read(reader: &mut RingReader) -> Vec<u8> {
    let mut room = [0; FRAME_OCTETS];
    std::iter::from_fn(|| {
        let frame = reader.take(&mut room)?;
        assert!(room[..frame.octets].iter().all(|byte| *byte == room[0]));
        assert_eq!(frame.stamp_tai_ns, 5_000 + u64::from(room[0]));
        Some(room[0])
    })
    .collect()
}

#[test]
fn frames_are_read_in_order_with_what_the_module_says_of_them() {
    let device = device();
    // Also where the numbers wrap.
    let begin = u32::MAX - 3;
    device.set(RING_HEAD, halves(begin, 0));
    device.set(RING_TAIL, halves(begin, 0));
    let mut reader = RingReader::new(Arc::clone(&device));
    assert!(!reader.is_ready());
    let mut room = [0; FRAME_OCTETS];
    assert_eq!(reader.take(&mut room), None);
    for round in 0..5 {
        for byte in 0..ENTRIES as u8 {
            device.arrives(round * 10 + byte, 0);
        }
        assert!(reader.is_ready());
        let all: Vec<u8> = (0..ENTRIES as u8).map(|byte| round * 10 + byte).collect();
        assert_eq!(read(&mut reader), all);
    }
    assert_eq!(reader.lost(), 0);
    device.arrives(9, 0x2);
    let frame = reader.take(&mut room).unwrap();
    assert_eq!((frame.octets, frame.answered, frame.tag), (60, true, None));
    device.arrives(9, 0x1);
    let frame = reader.take(&mut room).unwrap();
    assert_eq!((frame.answered, frame.tag), (false, Some(7)));
}

#[test]
fn a_full_ring_keeps_the_oldest_and_counts_the_rest() {
    let device = device();
    let mut reader = RingReader::new(Arc::clone(&device));
    for byte in 0..11 {
        device.arrives(byte, 0);
    }
    assert_eq!(read(&mut reader), (0..8).collect::<Vec<_>>());
    assert_eq!(reader.lost(), 3);
    device.arrives(50, 0);
    assert_eq!(read(&mut reader), [50]);
}

#[test]
fn every_reader_sees_every_frame_and_none_holds_up_another() {
    let device = device();
    let mut quick = RingReader::new(Arc::clone(&device));
    let mut slow = RingReader::new(Arc::clone(&device));
    for byte in 0..6 {
        device.arrives(byte, 0);
    }
    assert_eq!(read(&mut quick), [0, 1, 2, 3, 4, 5]);
    assert_eq!(read(&mut slow), [0, 1, 2, 3, 4, 5]);
    for byte in 10..30 {
        device.arrives(byte, 0);
        assert_eq!(read(&mut quick), [byte]);
    }
    // 20 frames in a ring of 8: the slow one has lost those that were overwritten, and says so.
    let found = read(&mut slow);
    assert_eq!(found, (26..30).collect::<Vec<_>>());
    assert_eq!((slow.lost(), quick.lost()), (16, 0));
}

#[test]
fn a_ring_that_nobody_has_read_is_emptied_by_the_next_reader() {
    let device = device();
    for byte in 0..20 {
        device.arrives(byte, 0);
    }
    let mut reader = RingReader::new(Arc::clone(&device));
    device.arrives(99, 0);
    assert_eq!(read(&mut reader), [99]);
    assert_eq!(reader.lost(), 0);
}

#[test]
fn a_published_frame_is_whole_where_the_module_looks_for_it() {
    let device = device();
    let mut outgoing = Outgoing::reply(Arc::clone(&device), 0).unwrap();
    assert!(Outgoing::reply(Arc::clone(&device), 1).is_none());
    let byte = |at: usize| device.get(at / 8).to_ne_bytes()[at % 8];
    let published = |device: &UmanDevice| {
        let generation = half(device.get(REPLY_AT / 8), Half::First);
        let at = REPLY_AT + 64 + (generation % 4) as usize * 1528;
        let length = half(device.get(at / 8), Half::First) as usize;
        let bytes: Vec<u8> = (0..length).map(|index| byte(at + 8 + index)).collect();
        (generation, bytes)
    };
    for round in 1..9_u32 {
        let frame: Vec<u8> = (0..61 + round as u8)
            .map(|index| index ^ round as u8)
            .collect();
        outgoing.publish(&frame);
        assert_eq!(published(&device), (round, frame));
    }
    outgoing.publish(&[]);
    assert_eq!(published(&device), (9, Vec::new()));
    outgoing.publish(&[1; FRAME_OCTETS + 1]);
    assert_eq!(published(&device), (10, Vec::new()));
    outgoing.renew();
    assert_eq!(device.get(REPLY_AT / 8), halves(10, 1));
    device.set(REPLY_AT / 8 + 1, halves(2, 0));
    device.set(REPLY_AT / 8 + 2, 40);
    device.set(REPLY_AT / 8 + 3, 2);
    assert_eq!(outgoing.counts(), (40, 2, true));
}

#[test]
fn a_device_that_is_gone_is_known_without_a_system_call() {
    let device = device();
    assert!(device.exists());
    device.set(0, halves(1, 3));
    assert!(!device.exists());
}

#[test]
fn only_links_of_this_kind_are_taken() {
    let message = |kind: &str| {
        let mut body = vec![0; 16];
        body[4..8].copy_from_slice(&12_u32.to_ne_bytes());
        netlink::push_attribute(&mut body, 3, b"some0\0");
        netlink::push_attribute(&mut body, 5, &4_u32.to_ne_bytes());
        let mut info = Vec::new();
        netlink::push_attribute(&mut info, 1, format!("{kind}\0").as_bytes());
        netlink::push_attribute(&mut body, 18, &info);
        body
    };
    assert_eq!(decode(&message("veth")), None);
    let mut body = message("uman");
    let link = decode(&body).unwrap();
    assert_eq!(
        (link.name.as_str(), link.index, link.lower),
        ("some0", 12, Some(4))
    );
    netlink::push_attribute(&mut body, 37, &0_u32.to_ne_bytes());
    assert_eq!(decode(&body).unwrap().lower, None);
    for length in 0..body.len() {
        let _ = decode(&body[..length]);
    }
}

#[test]
fn without_the_module_the_error_names_its_file() {
    if std::path::Path::new(DEVICE_FILE).exists() {
        return;
    }
    let lo = crate::interface::by_name("lo").unwrap();
    let wanted = Wanted {
        cyclic: 0,
        replies: 1,
        ring: 8,
    };
    let error = UmanDevice::attach(&lo, wanted).unwrap_err();
    assert_eq!(error.errno(), Errno(libc::ENOENT));
    assert!(error.to_string().contains(DEVICE_FILE), "{error}");
}
