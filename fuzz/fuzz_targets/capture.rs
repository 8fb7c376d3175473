//! Captures: no octets make the reader or the measurement panic, loop, or eat memory, and what is written reads back.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rtwire_measure::capture::Reader;
use rtwire_measure::jitter::{Follower, Settings};
use rtwire_measure::report::Machine;

/// Looked at once: it is read from many files.
static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::this("fuzz"));

fuzz_target!(|file: &[u8]| {
    let Ok(mut reader) = Reader::new(file) else {
        return;
    };
    let mut follower = Follower::new(Settings::default());
    let mut packets = 0;
    while let Ok(Some(packet)) = reader.next_packet() {
        follower.packet(&packet);
        packets += 1;
        assert!(packets <= file.len());
    }
    let (report, around) = follower.finish("fuzz", "fuzz", "fuzz", MACHINE.clone());
    let _ = report.print_text();
    let _ = report.to_html();
    let mut written = Vec::new();
    around.write(&mut written).unwrap();
    let mut reader = Reader::new(&written[..]).unwrap();
    let mut again = 0;
    while let Some(packet) = reader.next_packet().unwrap() {
        assert!(packet.time_ns.is_some());
        again += 1;
    }
    assert!(again <= around.len());
});
