//! Figures about OPC UA PubSub: the codec; publishing interval and age of a sample, beside open62541 in the same run.
//!
//! Writes `target/bench/pubsub.json`.
//!
//! - `--quick` measures each figure for a shorter time.
//! - `--only WORD` runs one part: `codec`, `security`, `peers`, `round-trip`.
//! - `--out FOLDER` writes to `FOLDER/bench`.
#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    reason = "a benchmark that cannot run should stop"
)]

#[path = "pubsub/codec.rs"]
mod codec;
#[path = "pubsub/peers.rs"]
mod peers;
#[path = "pubsub/round_trip.rs"]
mod round_trip;
#[path = "pubsub/security.rs"]
mod security;

use rtwire_measure::bench::{Asked, BenchTable, Place, refuse};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};

/// The parts, each with its own rows.
const PARTS: [&str; 4] = ["codec", "security", "peers", "round-trip"];

fn main() {
    let asked = Asked::from_command_line(&[], &[]);
    let only = asked.value("--only");
    if let Some(only) = only.filter(|only| !PARTS.contains(only)) {
        refuse(&format!(
            "unknown part `{only}`; there are {}",
            PARTS.join(", ")
        ));
    }
    let recorder = NoiseRecorder::start(NoiseOptions::beside_a_benchmark()).unwrap();
    let mut rows = Vec::new();
    if asked.wants("codec") {
        rows.extend(codec::rows(asked.quick));
    }
    if asked.wants("security") {
        rows.extend(security::rows(asked.quick));
    }
    if asked.wants("peers") {
        rows.extend(peers::rows(asked.quick));
    }
    if asked.wants("round-trip") {
        rows.extend(round_trip::rows(asked.quick));
    }
    let noise = recorder.stop().unwrap();
    let place = if only.is_some() {
        Place::Part
    } else {
        Place::Whole
    };
    let (command, out) = (asked.command(), asked.out());
    BenchTable::of(command, Some(noise), rows).publish(&out, "pubsub", place);
}
