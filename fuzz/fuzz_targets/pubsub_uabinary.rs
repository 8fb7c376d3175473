//! A configuration file of any bytes: a fault with its offset, or a tree that is written as it was read. What becomes a project is
//! exported and imported again as the same project.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_pubsub_station::exchange::{Body, Choice, Side, export, import};
use rtwire_pubsub_station::pubsub::uabinary;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Ok(tree) = uabinary::read(bytes) else {
        return;
    };
    let written = uabinary::write(&tree).unwrap();
    assert_eq!(uabinary::read(&written).unwrap(), tree);
    let path = Path::new("fuzz.toml");
    for side in [None, Some(Side::Readers)] {
        let choice = Choice {
            connection: None,
            side,
        };
        let Ok(imported) = import(bytes, path, &choice) else {
            continue;
        };
        // Times beyond what milliseconds in floating point keep are refused.
        let Ok(exported) = export(&imported.project, Body::Second) else {
            continue;
        };
        let again = import(&exported, path, &Choice::default()).unwrap();
        assert_eq!(again.project, imported.project);
    }
});
