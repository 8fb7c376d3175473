//! A PubSub project of any bytes: all its faults, or groups that pass their own check. With and without a plan, of which the
//! input may open streams.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_plan::Plan;
use rtwire_pubsub_station::{PlanPlace, Project, StationError, StreamEnd};
use std::path::Path;
use std::sync::OnceLock;

fn plan() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let text = include_str!("../../examples/pubsub-tsn/network.toml");
        let network = rtwire_plan::read(text, "network.toml", &[]).unwrap();
        rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap()
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let path = Path::new("fuzz.toml");
    let place = PlanPlace {
        plan: None,
        host: Some("drive".to_owned()),
        end: StreamEnd::Listener,
    };
    for given in [None, Some(plan().clone())] {
        // Other files are not the fuzzer's.
        let parsed = Project::parse_with(text, path, &place, given, |_| Err(StationError::Ended));
        match parsed {
            Err(faults) => assert!(!faults.to_string().is_empty()),
            Ok(project) => {
                assert!(
                    project
                        .groups
                        .iter()
                        .all(|entry| entry.group.check().is_ok())
                );
            }
        }
    }
});
