//! Any bytes as a message of the manager's protocol, and as a record of its store: what is read is written the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_manager::{Answer, Question, Stored, host_of};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, question)) = Question::from_bytes(bytes) {
        assert_eq!(question.to_bytes(&header), bytes);
        assert_eq!(host_of(bytes), Ok(header.host.as_str()));
    }
    if let Ok((header, request, answer)) = Answer::from_bytes(bytes) {
        // A listing or a route that is longer than a message is cut when it is written, and is a message then.
        let written = answer.to_bytes(&header, request);
        assert!(Answer::from_bytes(&written).is_ok());
        if bytes.len() <= 1_368 {
            assert_eq!(written, bytes);
        }
    }
    if let Ok(stored) = Stored::from_bytes(bytes) {
        let written = stored.to_bytes();
        // Records of version 1 are read, and written in today's form.
        if bytes.first() == Some(&2) {
            assert_eq!(written, bytes);
        }
        assert_eq!(Stored::from_bytes(&written), Ok(stored));
    }
    let _ = rtwire_manager::budgets_from_bytes(bytes);
});
