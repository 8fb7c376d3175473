//! Several frames in each interval: the last one of a group by hand, and random networks.

use crate::common;
use crate::exceeded::exceeded;
use crate::searched;

use common::{network, promises};
use rtwire_plan::{Contract, ContractKind, Network, Ratio};
use searched::searched;

const MS: u64 = 1_000_000_000;

/// Lets a periodic stream send `frames` frames in each interval.
fn group(network: &mut Network, stream: usize, frames: u32) {
    let stream = &mut network.streams[stream];
    let ContractKind::Interval { interval_ns, .. } = stream.contract.kind else {
        return;
    };
    let bits = stream
        .wire_bits()
        .times(Ratio::whole(frames.into()))
        .unwrap();
    stream.contract = Contract::new(
        bits.over(Ratio::from_ns(interval_ns)).unwrap(),
        stream.wire_bytes,
        stream.contract.shaping_interval_ns,
        stream.contract.tick_error_ns,
        ContractKind::Interval {
            interval_ns,
            frames,
        },
        Ratio::ZERO,
    )
    .unwrap();
}

/// At 100 Mbit/s a frame of 84 bytes on the wire takes 6.72 µs. The last of three leaves its host after 20.16 µs and the switch
/// 6.72 µs later.
#[test]
fn the_last_frame_of_a_group_waits_for_the_others() {
    let network = network(
        "[network]\nname = \"group\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
         [[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
         [[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"b\", \"s\"]\n\
         [[stream]]\nname = \"x\"\ntalker = \"a\"\nlisteners = [\"b\"]\nframe = \"60 B\"\ninterval = \"1 ms\"\n\
         frames-per-interval = 3\n",
    );
    let plan = promises(&network);
    let promise = plan.streams[0].promises[0].delay_ns.unwrap();
    assert!((26_880..=26_882).contains(&promise), "{promise}");
    let report = searched(&network, &plan, 20, 4 * MS);
    let stream = &report.streams[0];
    let worst_ps = stream.worst_delay_ps.unwrap();
    assert!(worst_ps.abs_diff(26_880_000) <= 2, "{worst_ps}");
}

/// A search breaks promises for one frame where two are sent, and none for two.
#[test]
fn promises_are_for_all_frames_of_a_group() {
    let change = |wrong: bool| {
        move |network: &mut Network, planned: bool| {
            for stream in 0..network.streams.len() {
                group(network, stream, if planned && wrong { 1 } else { 2 });
            }
            assert_eq!(network.check(), Ok(()));
        }
    };
    let networks = if cfg!(debug_assertions) { 8 } else { 60 };
    let [networks, late, _] = exceeded(networks, 100, change(true));
    assert!(late * 4 > networks, "only {late} of {networks}");
    let [networks, late, over] = exceeded(networks, 100, change(false));
    assert_eq!((late, over), (0, 0), "of {networks}");
}
