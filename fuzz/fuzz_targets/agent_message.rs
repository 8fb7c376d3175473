//! Any bytes at the agent's socket for programs: one refusal or one question, whose values are those of the packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_agent::{Question, Reply, VERSION, question};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let wish = match question(bytes) {
        Ok(wish) => wish,
        Err(Reply::Refused { reason, text }) => {
            assert!(reason == "faulty" && !text.is_empty());
            return;
        }
        Err(other) => panic!("{other:?}"),
    };
    let asked: Value = serde_json::from_slice(bytes).unwrap();
    assert!(asked.is_object() && asked["ask"].is_string());
    let whole = Question {
        version: VERSION,
        wish,
    };
    // What is understood is in the packet: nothing was cut off, nothing comes from elsewhere.
    let understood: Value = serde_json::from_slice(&serde_json::to_vec(&whole).unwrap()).unwrap();
    for (name, value) in understood.as_object().unwrap() {
        let default = asked.get(name).is_none() && value == 0;
        assert!(default || asked[name] == *value, "{name}: {value}");
    }
    let again = question(&serde_json::to_vec(&whole).unwrap());
    assert_eq!(again, Ok(whole.wish));
});
