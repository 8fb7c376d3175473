//! A network description of any bytes: faults or a network, never a panic; and a network is planned or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match rtwire_plan::read(text, "fuzz", &[]) {
        Ok(network) => {
            for ignore_limits in [false, true] {
                if let Err(refusal) = rtwire_plan::plan(
                    &network,
                    &rtwire_plan::Options {
                        ignore_limits,
                        ..Default::default()
                    },
                ) {
                    assert!(!refusal.to_string().is_empty());
                }
            }
        }
        Err(faults) => assert!(!faults.to_string().is_empty()),
    }
});
