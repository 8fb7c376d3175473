//! A station's project file of any bytes: all its faults, or a project of which a node is made, or the reason why not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_powerlink_station::Project;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Project::parse(text, Path::new("fuzz.toml")) {
        Err(faults) => assert!(!faults.to_string().is_empty()),
        Ok(project) => {
            // Other files are not the fuzzer's: the target `powerlink_files` is about them.
            let named = project.nodes.iter().map(|node| &node.description);
            let mut named = named.chain([&project.description, &project.cdc]);
            if named.all(Option::is_none) {
                if let Err(error) = project.check() {
                    assert!(!error.to_string().is_empty());
                }
            }
        }
    }
});
