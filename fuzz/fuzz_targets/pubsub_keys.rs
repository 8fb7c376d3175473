//! A key file of any bytes: its faults, or keys that can all be used. No message shows a text of the file: it may be a key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_pubsub_station::{KeyFile, StationError};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let path = Path::new("fuzz.keys");
    match KeyFile::parse(text, path) {
        Err(StationError::Project(faults)) => {
            assert!(faults.faults.iter().all(|fault| fault.excerpt.is_empty()));
        }
        Err(error) => panic!("another error: {error}"),
        Ok(file) => {
            let all = file.all(path).unwrap();
            assert!(!all.is_empty() && all.len() == file.keys.len());
            file.current_key(path).unwrap();
        }
    }
});
