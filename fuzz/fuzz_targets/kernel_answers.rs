//! Answers of the kernel of any bytes: netlink messages, attributes, control messages. No byte outside of them is shown.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    rtwire_sys::fuzzed::netlink(bytes);
    rtwire_sys::fuzzed::control(bytes);
});
