//! A frame of any bytes: every view of it is safe, and what parses strictly is written back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_wire::ethernet::Frame;
use rtwire_wire::rtdip::{Header, Packet};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(frame) = Frame::new(bytes) {
        let _ = (
            frame.destination(),
            frame.source(),
            frame.vlan(),
            frame.ether_type(),
        );
        check(frame.payload());
    }
    check(bytes);
});

fn check(bytes: &[u8]) {
    if let Ok(packet) = Packet::new(bytes) {
        let _ = (
            packet.version(),
            packet.flags(),
            packet.time_ns(),
            packet.data(),
        );
    }
    let Ok((header, data)) = Header::parse(bytes) else {
        return;
    };
    let mut again = vec![0; header.octets() + data.len()];
    let written = header
        .emit(data, &mut again)
        .expect("what was parsed can be written");
    assert_eq!(&bytes[..written], &again[..]);
}
