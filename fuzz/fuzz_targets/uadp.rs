//! A UADP message of any bytes: every field of it can be shown, each fault lies within, and what is read strictly is the
//! same when it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_wire::uadp::{Body, Envelope, Header, NetworkMessage, SIGNATURE_OCTETS, Seen, View};

fuzz_target!(|bytes: &[u8]| {
    let mut faults = 0;
    View::new(bytes).walk(&mut |seen| match seen {
        Seen::Field(field) => assert!(field.at + field.octets <= bytes.len()),
        Seen::Fault(fault) => {
            assert!(fault.at().is_some_and(|at| at <= bytes.len()));
            faults += 1;
        }
    });
    // An encrypted payload is read as if it had been decrypted.
    if let Ok((header, at)) = Header::parse(bytes) {
        if let Ok(envelope) =
            Envelope::new(header.security.as_ref(), at, bytes.len(), SIGNATURE_OCTETS)
        {
            let _ = Body::parse(&header, envelope.payload(bytes), at);
        }
    }
    let Ok(message) = NetworkMessage::parse(bytes, SIGNATURE_OCTETS) else {
        assert!(faults > 0, "a fault is told");
        return;
    };
    let mut again = vec![0; bytes.len() + 64];
    let octets = message
        .emit(&mut again)
        .expect("what was read can be written");
    assert_eq!(
        NetworkMessage::parse(&again[..octets], SIGNATURE_OCTETS),
        Ok(message)
    );
});
