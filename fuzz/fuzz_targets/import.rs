//! Files of other planners of any bytes: a description that is read, or one message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_plan::import::{saihu, tsnkit};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // Both tables in one input, with a form feed between.
    let (streams, topology) = text.split_once('\u{c}').unwrap_or((text, text));
    for result in [saihu(text), tsnkit(streams, topology)] {
        match result {
            Ok(imported) => {
                let read = rtwire_plan::read(&imported.description, "imported.toml", &[]);
                assert!(read.is_ok());
            }
            Err(fault) => assert!(!fault.to_string().is_empty()),
        }
    }
});
