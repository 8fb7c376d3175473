//! Writer groups that are streams of a plan: what the group takes from it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rtwire_plan::{Options, Plan, plan, read};
use rtwire_pubsub_station::{PlanPlace, Project, StationError, Transport};
use std::path::Path;

const NETWORK: &str = include_str!("../../../examples/pubsub-tsn/network.toml");
const PROJECT: &str = include_str!("../../../examples/pubsub-tsn/planned.toml");

fn planned() -> Plan {
    let network = read(NETWORK, "network.toml", &[]).unwrap();
    plan(&network, &Options::default()).unwrap()
}

fn project(text: &str) -> Result<Project, StationError> {
    let (path, place) = (Path::new("project.toml"), PlanPlace::default());
    Project::parse_with(text, path, &place, Some(planned()), |_| unreachable!())
}

#[test]
fn address_tag_interval_and_launch_offset_are_the_plans() {
    let plan = planned();
    let project = project(PROJECT).unwrap();
    for (entry, stream) in project.groups.iter().zip(&plan.streams) {
        assert_eq!(entry.stream.as_deref(), Some(&stream.name[..]));
        let Transport::Ethernet {
            address,
            vlan: Some(tag),
        } = entry.transport
        else {
            panic!("{entry:?}")
        };
        let mac = serde_json::to_value(&stream.identity.destination).unwrap();
        assert_eq!(address.to_string(), mac["mac"].as_str().unwrap());
        assert_eq!(Some(tag.vid), stream.identity.vlan);
        assert_eq!(tag.pcp.get(), stream.identity.pcp);
        let launch = stream.launch.as_ref().unwrap();
        assert_eq!(entry.group.offset_ns, launch.offset_ns);
        assert_eq!(entry.group.interval_ns, launch.period_ns);
    }
    assert_ne!(project.groups[1].group.offset_ns, 0);
}

#[test]
fn streams_of_two_priorities_need_two_files() {
    let network = NETWORK.replacen("priority = 6", "priority = 5", 1);
    let network = read(&network, "network.toml", &[]).unwrap();
    let plan = plan(&network, &Options::default()).unwrap();
    let (path, place) = (Path::new("project.toml"), PlanPlace::default());
    let refused = Project::parse_with(PROJECT, path, &place, Some(plan), |_| unreachable!());
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("different priorities: 5 and 6"),
        "{message}"
    );
}

/// The same values in the file as in the plan are no fault.
#[test]
fn stating_what_the_plan_says_is_no_fault() {
    let stated = PROJECT.replacen(
        "stream = \"limits\"\n",
        "stream = \"limits\"\ninterval = \"1 ms\"\noffset = \"4706 ns\"\n",
        1,
    );
    assert!(project(&stated).is_ok());
    assert!(project(&stated.replace("4706", "4707")).is_err());
}

/// A stream has one frame in an interval.
#[test]
fn a_group_with_chunks_is_no_stream() {
    let mut wide = PROJECT.replacen(
        "stream = \"limits\"\n",
        "stream = \"limits\"\nprofile = \"dynamic\"\n",
        1,
    );
    for nth in 0..200 {
        wide += &format!("[[writer-group.data-set.field]]\nname = \"w{nth}\"\ntype = \"Double\"\n");
    }
    let told = project(&wide).unwrap_err().to_string();
    assert!(told.contains("`limits` has messages in chunks"), "{told}");
}
