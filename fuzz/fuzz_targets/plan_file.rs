//! A plan's file of any bytes: one error or a plan, never a panic; what is read is verified, and survives being written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_plan::plan_file;

fuzz_target!(|bytes: &[u8]| {
    match plan_file::read_changed(bytes, "fuzz") {
        Ok(plan) => {
            for finding in rtwire_plan::verify(&plan) {
                assert!(!finding.to_string().is_empty());
            }
            let text = plan_file::text(&plan);
            assert_eq!(plan_file::read_changed(text.as_bytes(), "again"), Ok(plan));
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
});
