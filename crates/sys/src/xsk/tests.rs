//! The kernel itself confirms that frames with launch times have the layout that it reads.

use super::*;
use crate::filter::{Filter, Instruction};
use crate::packet::PacketSocket;
use crate::{Batch, Wait};
use rtwire_testkit::{NetnsPair, ip, require};

const ETHER_TYPE: u16 = 0x88B5;

/// A pair with both ends in one namespace: there a frame still has its sender's time where it arrives.
fn pair() -> NetnsPair {
    let pair = NetnsPair::new();
    for line in [
        "link add near type veth peer name far",
        "link set near up",
        "link set far up",
    ] {
        ip(&pair.a.namespace, line);
    }
    pair
}

fn open(pair: &NetnsPair) -> Result<XdpSocket> {
    pair.a.run(|| {
        let near = interface::by_name("near").unwrap();
        XdpSocket::open_for_launches(&near, 0, ZeroCopy::Never)
    })
}

fn listen(pair: &NetnsPair) -> PacketSocket {
    let socket = pair.a.run(|| {
        let far = interface::by_name("far").unwrap();
        let all = Filter::new(&[Instruction::Accept]).unwrap();
        let stamped = |socket: &PacketSocket| socket.enable_rx_stamps();
        PacketSocket::receiver(&far, ETHER_TYPE, &all, stamped)
            .unwrap()
            .0
    });
    // The kernel takes some time to begin with timestamps.
    std::thread::sleep(Duration::from_millis(300));
    socket
}

fn write(socket: &mut XdpSocket, number: u16, octets: usize) {
    let place = socket.place().unwrap();
    place[..octets].fill(number as u8);
    place[..12].fill(0xff);
    place[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    place[14..16].copy_from_slice(&number.to_be_bytes());
}

/// Returns number, length and timestamp of the frames received; each must be as it was written.
fn arrived(socket: &PacketSocket) -> Vec<(u16, usize, u64)> {
    let mut batch = Batch::new(8, 2048);
    let mut all = Vec::new();
    while socket.receive(&mut batch, Wait::No, 8).is_ok() {
        for index in 0..batch.len() {
            let message = batch.get(index).unwrap();
            let number = u16::from_be_bytes([message.data[14], message.data[15]]);
            assert!(
                message.data[16..]
                    .iter()
                    .all(|&octet| octet == number as u8),
                "frame {number} was changed"
            );
            let stamp = message.stamp_realtime_ns.unwrap_or(0);
            all.push((number, message.data.len(), stamp));
        }
    }
    all
}

/// The same, once `count` have come, or no more come.
fn taken(socket: &PacketSocket, count: usize) -> Vec<(u16, usize, u64)> {
    let mut all = Vec::new();
    let begun = Instant::now();
    while all.len() < count && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(2));
        all.extend(arrived(socket));
    }
    all
}

/// True if this kernel supports launch times of AF_XDP. It is tried, because distributions may add them to earlier
/// kernels.
fn known(socket: &mut XdpSocket) -> bool {
    write(socket, 9999, 60);
    assert!(socket.push_at(60, 1));
    match socket.flush() {
        Ok(()) => true,
        Err(errno) => {
            assert_eq!(errno.0, libc::EINVAL);
            false
        }
    }
}

#[test]
fn the_kernel_reads_the_launch_time_that_was_written() {
    require!(root, program "ip");
    let pair = pair();
    let listener = listen(&pair);
    let mut socket = match open(&pair) {
        Ok(socket) => socket,
        // Before Linux 6.11.
        Err(error) => return assert_eq!(error.errno().0, libc::EINVAL, "{error}"),
    };
    if !known(&mut socket) {
        return;
    }
    assert_eq!(taken(&listener, 1)[0].0, 9999);
    // More than there are places, short ones and the longest, with and without launch times.
    let mut expected = Vec::new();
    for number in 0..600_u16 {
        let octets = [60, 64, 1000, 1514][usize::from(number) % 4];
        let launch_ns = 1_900_000_000_000_000_000 + u64::from(number) * 1_000_003;
        write(&mut socket, number, octets);
        let timed = number % 3 != 0;
        assert!(if timed {
            socket.push_at(octets, launch_ns)
        } else {
            socket.push(octets)
        });
        socket.flush().unwrap();
        expected.push((number, octets, timed.then_some(launch_ns)));
        if number % 50 == 49 {
            let all = taken(&listener, expected.len());
            assert_eq!(all.len(), expected.len());
            for (arrived, expected) in all.iter().zip(expected.drain(..)) {
                assert_eq!((arrived.0, arrived.1), (expected.0, expected.1));
                // No driver removes the time on this path: the receiver's kernel shows it as the frame's.
                match expected.2 {
                    Some(launch_ns) => assert_eq!(arrived.2, launch_ns, "frame {number}"),
                    None => assert!(arrived.2 < 1_900_000_000_000_000_000),
                }
            }
        }
    }
}

#[test]
fn what_the_kernel_does_not_know_it_refuses_and_nothing_stays_behind() {
    require!(root, program "ip");
    let pair = pair();
    let Ok(mut socket) = open(&pair) else { return };
    let listener = listen(&pair);
    // An unknown request: refused, and withdrawn.
    write(&mut socket, 1, 60);
    assert!(socket.give(60, Some(Metadata::unknown_request())));
    assert_eq!(socket.flush(), Err(Errno(libc::EINVAL)));
    assert_eq!((socket.waiting(), socket.free.len()), (0, PLACES as usize));
    // An unknown option of the entry: the kernel skips the entry, and counts it.
    write(&mut socket, 2, 60);
    let place = socket.free.pop().unwrap();
    let addr = (place as usize * ROOM + socket.in_front) as u64;
    let entry = |addr, len| libc::xdp_desc {
        addr,
        len,
        options: libc::XDP_TX_METADATA,
    };
    socket.describe(libc::xdp_desc {
        options: 1 << 7,
        ..entry(addr, 60)
    });
    assert_eq!(socket.flush(), Ok(()));
    assert_eq!(refused_entries(&socket), 1);
    // A frame that would leave no room for its metadata.
    socket.describe(entry(0, 60));
    assert_eq!(socket.flush(), Ok(()));
    assert_eq!(refused_entries(&socket), 2);
    // And one that ends behind its place.
    socket.describe(entry(addr, ROOM as u32));
    assert_eq!(socket.flush(), Ok(()));
    assert_eq!(refused_entries(&socket), 3);
    // All else continues.
    write(&mut socket, 3, 60);
    assert!(socket.push(60));
    socket.flush().unwrap();
    let came: Vec<u16> = taken(&listener, 1).iter().map(|frame| frame.0).collect();
    assert_eq!(came, [3]);
}

#[test]
fn no_other_length_of_metadata_is_registered() {
    require!(root, program "ip");
    let pair = pair();
    if open(&pair).is_err() {
        return;
    }
    for length in [7, 20, 255, 256] {
        let refused = pair.a.run(|| {
            let near = interface::by_name("near").unwrap();
            XdpSocket::open_with(&near, 0, length, ZeroCopy::Never).unwrap_err()
        });
        assert_eq!(refused.errno().0, libc::EINVAL, "{length}: {refused}");
        assert!(refused.to_string().starts_with("XDP_UMEM_REG"), "{refused}");
    }
}

#[test]
fn a_socket_without_metadata_takes_no_launch_times() {
    require!(root, program "ip");
    let pair = pair();
    let mut socket = pair.a.run(|| {
        let near = interface::by_name("near").unwrap();
        XdpSocket::open(&near, 0, ZeroCopy::Never).unwrap()
    });
    write(&mut socket, 1, 60);
    assert!(!socket.push_at(60, 1));
    assert_eq!((socket.waiting(), socket.free.len()), (0, PLACES as usize));
    assert!(socket.push(ROOM), "as long as the place");
    assert!(!socket.push(ROOM + 1));
}

/// A veth always copies: the kernel's answer says so, and who insists on no copy is refused.
#[test]
fn the_mode_is_chosen_and_told_as_the_kernel_reports_it() {
    require!(root, program "ip");
    let pair = pair();
    let open = |zero_copy| {
        pair.a.run(|| {
            let near = interface::by_name("near").unwrap();
            XdpSocket::open(&near, 0, zero_copy)
        })
    };
    let refused = open(ZeroCopy::Only).unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::Unsupported, "{refused}");
    for (zero_copy, filled) in [(ZeroCopy::Never, 0), (ZeroCopy::IfPossible, RECEIVE_PLACES)] {
        let mut socket = open(zero_copy).unwrap();
        assert!(!socket.is_zero_copy());
        // What a driver without copies would receive into: each place once, and none of a sent frame.
        assert_eq!(socket.fill.producer().load(Ordering::Relaxed), filled);
        let mut places: Vec<u64> = (0..filled as usize)
            // SAFETY: the ring has this many entries.
            .map(|number| unsafe { *socket.fill.entries.cast::<u64>().add(number) })
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), filled as usize);
        let room = ROOM as u64;
        assert!(places.iter().all(|at| at % room == 0
            && at / room >= PLACES.into()
            && (at + room) as usize <= socket.octets));
        write(&mut socket, 1, 60);
        assert!(socket.push(60));
        socket.flush().unwrap();
        assert_eq!(socket.waiting(), 0);
    }
}

/// The number of entries of the transmit ring that the kernel has skipped.
fn refused_entries(socket: &XdpSocket) -> u64 {
    // SAFETY: xdp_statistics is plain data, for which all zeroes is a valid value.
    let mut counted: libc::xdp_statistics = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&counted) as libc::socklen_t;
    // SAFETY: `counted` is a valid place of the size given.
    let result = unsafe {
        libc::getsockopt(
            socket.socket.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_STATISTICS,
            (&raw mut counted).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0);
    counted.tx_invalid_descs
}
