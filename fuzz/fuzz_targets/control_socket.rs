//! Lines of any bytes at a station's control socket: one reason or one question, whose data are those of the line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_powerlink_station::control::{Question, unhex};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Ok(line) = std::str::from_utf8(bytes) else {
        return;
    };
    match Question::parse(line) {
        Err(message) => assert!(!message.is_empty()),
        Ok(question) => {
            // Every number of the question is the whole number of the line.
            let asked: Value = serde_json::from_str(line).unwrap();
            match question {
                Question::Status => assert_eq!(asked["ask"], "status"),
                Question::Nmt { node, command } => {
                    assert_eq!(
                        (&asked["node"], &asked["command"]),
                        (&node.into(), &command.0.into())
                    );
                }
                Question::Sdo {
                    node,
                    index,
                    subindex,
                    data,
                    ..
                } => {
                    let numbers = (&asked["node"], &asked["index"], &asked["subindex"]);
                    assert_eq!(numbers, (&node.into(), &index.into(), &subindex.into()));
                    assert_eq!(
                        data,
                        asked["data"].as_str().map(|text| unhex(text).unwrap())
                    );
                }
            }
        }
    }
});
