//! Files of any bytes: a concise device configuration, or a device description. What is read can be explained, applied,
//! and written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_powerlink::explain::{explain_cdc, explain_description};
use rtwire_powerlink::mn::ManagingConfig;
use rtwire_powerlink::{Cdc, Description, ManagingNode};
use rtwire_wire::MacAddress;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(cdc) = Cdc::parse(bytes) {
        if !bytes.is_empty() {
            assert_eq!(cdc.emit(), bytes);
        }
        let _ = explain_cdc(&cdc);
        if let Ok(config) = ManagingConfig::from_cdc(MacAddress([2, 0, 0, 0, 0, 1]), &cdc) {
            let _ = ManagingNode::new(config);
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(description) = Description::parse(text) {
            let _ = explain_description(&description);
        }
    }
});
