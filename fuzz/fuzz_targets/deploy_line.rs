//! Bytes of any kind at the door of `rtwire deploy`, at its deployer, and as orders and replies: nobody believes a stranger.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    rtwire_deploy::fuzzed::line(bytes);
});
