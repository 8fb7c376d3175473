//! A switch that sends any bytes: the session ends with a report or an error, and what is shown of it controls no terminal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_netconf::{Action, Client, Job, Outcome, Settings, data};

const PLANNED: &str = r#"{
    "ietf-interfaces:interfaces": { "interface": [ { "name": "p", "ieee802-dot1q-bridge:bridge-port": { "pvid": 5 } } ] },
    "ieee802-dot1q-bridge:bridges": { "bridge": [ { "name": "s", "bridge-type": "ieee802-dot1q-bridge:customer-vlan-bridge" } ] }
}"#;

fuzz_target!(|bytes: &[u8]| {
    let [choice, bytes @ ..] = bytes else { return };
    let Ok(planned) = serde_json::from_str(PLANNED) else {
        unreachable!()
    };
    let Ok(planned) = data::elements(&planned) else {
        unreachable!()
    };
    let job = match choice & 33 {
        0 => Job::Check,
        1 => Job::Push,
        _ => Job::Count,
    };
    let settings = Settings {
        limited: choice & 2 != 0,
        new_interfaces: choice & 4 != 0,
        keep_for_restart: choice & 8 != 0,
        ..Settings::default()
    };
    let mut client = Client::new(job, planned, settings);
    let mut action = client.start();
    let mut waiting = Some(bytes);
    loop {
        action = match action {
            Action::Send(_) => match client.received(waiting.take().unwrap_or_default()) {
                Ok(action) => action,
                Err(error) => return shown(&error.to_string()),
            },
            Action::Wait => match client.ended() {
                Ok(action) => action,
                Err(error) => {
                    return shown(&format!("{error}; {}; {}", client.left(), client.rest()));
                }
            },
            Action::Decide if choice & 16 == 0 => client.confirm(),
            Action::Decide => client.cancel(),
            Action::Done(report) => {
                match &report.outcome {
                    Outcome::Differs(all) => all.iter().for_each(|one| shown(&one.to_string())),
                    Outcome::Refused { errors, .. } => {
                        errors.iter().for_each(|one| shown(&one.to_string()))
                    }
                    Outcome::Pushed { .. } => assert_eq!(job, Job::Push),
                    Outcome::Counted(_) => assert_eq!(job, Job::Count),
                    _ => {}
                }
                return report.notes.iter().for_each(|one| shown(one));
            }
        };
    }
});

fn shown(text: &str) {
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
