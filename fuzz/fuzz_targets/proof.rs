//! A plan's file of any bytes for the checker of certificates: accepted or one reason, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match rtwire_proof::check(bytes) {
        Ok(verdict) => assert!(verdict.exact() <= verdict.proved()),
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
});
