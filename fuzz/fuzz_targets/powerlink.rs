//! A POWERLINK frame of any bytes: every field of it can be shown, and what parses strictly is the same when it is written
//! and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_wire::powerlink::{Packet, Sdo, View};

fuzz_target!(|bytes: &[u8]| {
    // Most inputs are no POWERLINK at all: look at them as they are, and with the EtherType put right.
    check(bytes);
    let mut frame = bytes.to_vec();
    if let Some(place) = frame.get_mut(12..14) {
        place.copy_from_slice(&[0x88, 0xab]);
        check(&frame);
    }
    if let Ok(sdo) = Sdo::parse_datagram(bytes) {
        let mut again = vec![0; bytes.len() + 16];
        let octets = sdo
            .emit_datagram(&mut again)
            .expect("what was parsed can be written");
        assert_eq!(Sdo::parse_datagram(&again[..octets]), Ok(sdo));
    }
});

fn check(frame: &[u8]) {
    let view = View::new(frame);
    view.fields(&mut |field| assert!(field.at + field.octets <= frame.len()));
    let _ = (
        view.state(),
        view.requested(),
        view.send_request(),
        view.payload(),
    );
    let Ok(packet) = Packet::parse(frame) else {
        return;
    };
    let mut again = vec![0; frame.len() + 16];
    let octets = packet
        .emit(&mut again)
        .expect("what was parsed can be written");
    assert_eq!(Packet::parse(&again[..octets]), Ok(packet));
}
