//! The watcher: at the managing node's port of the bridge, by the kernel's timestamps.

use rtwire_measure::capture::{LINK_ETHERNET, Packet};
use rtwire_measure::jitter::{Follower, JitterReport, Settings};
use rtwire_measure::report::Machine;
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{Batch, Wait, interface};
use rtwire_testkit::Side;
use rtwire_wire::EtherType;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PRIORITY: u8 = 40;

/// Watches the managing node's port of the bridge until `stop` is set.
pub(crate) fn watch(port: &Side, cycle_ns: u64, stop: &AtomicBool) -> JitterReport {
    port.run(|| {
        let found = interface::by_name(&port.interface).unwrap();
        let filter = Filter::new(&[
            Instruction::LoadHalf(12),
            Instruction::Jump {
                test: Test::Equal(EtherType::POWERLINK.0.into()),
                yes: 0,
                no: 1,
            },
            Instruction::Accept,
            Instruction::Reject,
        ])
        .unwrap();
        let (socket, ()) = PacketSocket::receiver(&found, 3, &filter, |socket| {
            socket.enable_rx_stamps()?;
            socket.take_all()?;
            socket.set_receive_room(256 << 20)?;
            Ok(())
        })
        .unwrap();
        let _ = rtwire_sys::sched::set_fifo(PRIORITY);
        let mut follower = Follower::new(Settings {
            cycle_ns: Some(cycle_ns),
            worst: 0,
            around: 0,
            ..Settings::default()
        });
        let mut batch = Batch::new(1024, 128).with_only(false, true);
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            // Takes all waiting frames in one go: the fewer wake-ups, the less disturbance.
            thread::sleep(Duration::from_millis(20));
            while let Ok(count) = socket.receive(&mut batch, Wait::No, usize::MAX) {
                for message in (0..count).filter_map(|index| batch.get(index)) {
                    number += 1;
                    follower.packet(&Packet {
                        number,
                        time_ns: message.stamp_realtime_ns,
                        link_type: LINK_ETHERNET,
                        data: message.data,
                        original_octets: message.data.len() as u32,
                    });
                }
            }
        }
        let machine = Machine::this(env!("CARGO_PKG_VERSION"));
        follower.finish("bridge", "live", "bench", machine).0
    })
}
