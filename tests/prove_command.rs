//! `rtwire prove` with the doors of three real hosts: their streams run, and all of it has one verdict. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "deploy_common/mod.rs"]
mod deploy_common;

use std::fs;

use deploy_common::{NETWORK, Room, code, said};
use rtwire_testkit::{SLOWER, require, slowed};

#[test]
fn the_streams_of_all_hosts_have_one_verdict() {
    require!(root, program "ip", program "tc", program "nsenter");
    let room = Room::new();
    let _doors = room.doors();
    let mut verdicts = Vec::new();
    let mut deployed = 0;
    for factor in SLOWER {
        if factor != deployed {
            room.plan("plan", &slowed(NETWORK, factor));
            code(&room.asked("deploy", "plan.json", &[]), 0);
            deployed = factor;
        }
        let duration = format!("{}ms", 1_200 * factor);
        let proof = [
            "--for",
            &duration,
            "--evidence",
            "seen",
            "--report",
            "proof.html",
        ];
        let proved = room.asked("prove", "plan.json", &proof);
        assert!(room.path("seen/b.evidence").exists(), "{}", said(&proved));
        assert!(
            matches!(proved.status.code(), Some(0 | 4)),
            "{}",
            said(&proved)
        );
        verdicts.push(said(&proved));
        if proved.status.code() == Some(0) {
            assert!(
                fs::read_to_string(room.path("proof.html"))
                    .unwrap()
                    .contains("there")
            );
            return;
        }
    }
    panic!("never kept: {verdicts:#?}");
}
