//! Any bytes, read as a PTP management message: no panic, and a question is read as it was asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_wire::ptp::{self, Data, Message};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::parse(bytes) {
        if let Data::Empty { id } = message.data {
            let mut again = [0; ptp::QUESTION_OCTETS];
            let length = ptp::question(
                id,
                message.domain,
                message.transport_specific,
                message.sequence,
                1,
                &mut again,
            )
            .expect("there is room");
            let read = Message::parse(&again[..length]).expect("a question is a message");
            assert_eq!(
                (read.domain, read.sequence, read.data),
                (message.domain, message.sequence, message.data)
            );
        }
    }
});
