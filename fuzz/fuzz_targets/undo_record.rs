//! An undo record of any bytes: nothing, or changes that survive being written. What is cut off at its end is a part of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_host::change::{Change, Record};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Some((header, changes, _)) = Record::parse(&text) else {
        return;
    };
    let _ = header.is_overdue_at(u64::MAX);
    for change in &changes {
        let again = serde_json::to_string(change).unwrap();
        assert_eq!(serde_json::from_str::<Change>(&again).unwrap(), *change);
    }
    // A crash in the middle of a line costs this line only.
    let cut = text.trim_end_matches('\n');
    if let Some((of_cut, fewer, _)) = Record::parse(cut) {
        assert_eq!(of_cut, header);
        assert!(changes.starts_with(&fewer));
    }
});
