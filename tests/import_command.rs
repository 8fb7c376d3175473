//! `rtwire import`: what it prints is a description that `rtwire plan` takes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::{Command, Output};

const STREAMS: &str = "stream,src,dst,size,period,deadline,jitter\n0,1,[2],400,1000000,1000000,0\n";
const TOPOLOGY: &str = "link,q_num,rate,t_proc,t_prop\n\
    \"(0, 1)\",8,1,2000,0\n\"(1, 0)\",8,1,2000,0\n\"(0, 2)\",8,1,2000,0\n\"(2, 0)\",8,1,2000,0\n";

fn rtwire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtwire"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn an_import_can_be_planned_and_says_what_is_different() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (streams, topology) = (file("streams.csv", STREAMS), file("topology.csv", TOPOLOGY));
    let imported = rtwire(&["import", "tsnkit", &streams, &topology]);
    assert_eq!(
        (imported.status.code(), imported.stderr.len()),
        (Some(0), 0)
    );
    let description = file("network.toml", &String::from_utf8(imported.stdout).unwrap());
    let plan = rtwire(&["plan", &description]);
    assert_eq!(plan.status.code(), Some(0), "{plan:?}");

    let small = file("small.csv", &STREAMS.replace("400", "40"));
    let imported = rtwire(&["import", "tsnkit", &small, &topology]);
    assert_eq!(imported.status.code(), Some(0));
    assert_eq!(
        String::from_utf8(imported.stderr).unwrap(),
        "rtwire import: changed or left out: frames of 40 B are 60 B: no Ethernet frame is smaller\n"
    );

    let wrong = rtwire(&["import", "tsnkit", &topology, &streams]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(wrong.stdout.len(), 0);
    assert_eq!(
        String::from_utf8(wrong.stderr).unwrap(),
        format!(
            "rtwire import: {streams}: topology, line 1: there is no column \"link\"; expected are link,q_num,rate,t_proc,t_prop\n"
        )
    );

    let nothing = rtwire(&["import", "saihu", &topology]);
    assert_eq!(nothing.status.code(), Some(2));
    let message = String::from_utf8(nothing.stderr).unwrap();
    assert!(message.contains(": no JSON: "), "{message}");
}
