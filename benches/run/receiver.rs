//! The outside receiver: an AF_PACKET socket at the other end of the link, with the kernel's receive timestamps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, clock, interface};
use rtwire_testkit::Side;

/// Every protocol.
const ALL: u16 = 3;
/// EtherTypes of IPv4 and ARP, in which none of the senders sends.
const OTHERS: [[u8; 2]; 2] = [[0x08, 0x00], [0x08, 0x06]];

/// Receives at `side` while `work` runs. Returns its result, and the receive timestamps of all cyclic frames in ns of
/// CLOCK_TAI, in order of arrival.
pub(crate) fn around<T>(side: &Side, work: impl FnOnce() -> T) -> (T, Vec<u64>) {
    let over = AtomicBool::new(false);
    let (ready, is_ready) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let over = &over;
        let receiving = scope.spawn(move || side.run(|| receive(side, over, &ready)));
        is_ready.recv().expect("the receiver opens");
        let result = work();
        over.store(true, Ordering::Release);
        let stamps = receiving.join().expect("the receiver does not panic");
        (result, stamps)
    })
}

fn receive(side: &Side, over: &AtomicBool, ready: &std::sync::mpsc::Sender<()>) -> Vec<u64> {
    let found = interface::by_name(&side.interface).unwrap();
    let all = Filter::new(&[Instruction::Accept]).unwrap();
    let (socket, ()) = PacketSocket::receiver(&found, ALL, &all, |socket| {
        socket.enable_rx_stamps()?;
        socket.take_all()?;
        socket.set_receive_room(256 << 20)?;
        Ok(())
    })
    .unwrap();
    let tai_offset_ns = clock::tai_offset_ns().unwrap();
    let mut stamps = Vec::with_capacity(1 << 20);
    let mut batch = Batch::new(1_024, 128).with_only(false, true);
    ready.send(()).unwrap();
    loop {
        let last = over.load(Ordering::Acquire);
        // All waiting frames in one go: the fewer wake-ups, the less disturbance.
        thread::sleep(Duration::from_millis(20));
        while let Ok(count) = socket.receive(&mut batch, Wait::No, usize::MAX) {
            for message in (0..count).filter_map(|index| batch.get(index)) {
                let cyclic = !OTHERS
                    .iter()
                    .any(|other| message.data.get(12..14) == Some(other));
                if let Some(stamp_ns) = message.stamp_realtime_ns.filter(|_| cyclic) {
                    stamps.push(stamp_ns.saturating_add_signed(tai_offset_ns));
                }
            }
            if count == 0 {
                break;
            }
        }
        if last {
            let lost = socket.statistics().map_or(0, |counts| counts.dropped);
            assert_eq!(lost, 0, "the bench's own socket lost frames");
            return stamps;
        }
    }
}
