//! Frames that are forwarded before their end has come: their delays by hand, and what the promises must cover.

use crate::common;
use crate::exceeded::exceeded;
use crate::searched;

use common::{network, promises};
use rtwire_plan::{CutThrough, Network};
use rtwire_sim::{Behaviour, Lateness, Model, Pattern, PatternChoice, Scenario, Simulator};
use searched::searched;

const MS: u64 = 1_000_000_000;
const NS: u64 = 1_000;

/// One switch of 100 Mbit/s, x from a and y from b to c, frames of 84 bytes on the wire: 6.72 µs. A head is 14 bytes: 1.12 µs.
fn one_switch(cut_through: &str, more: &str) -> Network {
    network(&format!(
        "[network]\nname = \"cut\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
         [[switch]]\nname = \"s\"\nbuffer = \"1 MB\"\ncut-through = \"{cut_through}\"\n\
         [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
         [[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"b\", \"s\"]\n[[link]]\nends = [\"c\", \"s\"]\n\
         [[stream]]\nname = \"x\"\ntalker = \"a\"\nlisteners = [\"c\"]\nframe = \"60 B\"\ninterval = \"1 ms\"\n\
         [[stream]]\nname = \"y\"\ntalker = \"b\"\nlisteners = [\"c\"]\nframe = \"60 B\"\ninterval = \"1 ms\"\n{more}"
    ))
}

/// Returns the delay of x if y starts later by `later_ns` and each port is as stated.
fn delay_ps(network: &Network, later_ns: u64, late: Lateness) -> u64 {
    let model = Model::new(network).unwrap();
    let mut scenario = Scenario::new(&model, PatternChoice::Greedy, 1, MS / 2, 0);
    scenario.sources = vec![
        Behaviour::new(Pattern::Greedy, 10_000 * NS),
        Behaviour::new(Pattern::Greedy, 10_000 * NS + later_ns * NS),
    ];
    scenario.last_at_ties = Some(0);
    scenario.lateness.fill(late);
    let mut simulator = Simulator::new(&model);
    simulator.run(&scenario);
    simulator.listeners()[0].worst_ps
}

#[test]
fn a_frame_leaves_with_its_head_if_the_port_is_idle() {
    let near = |seen: u64, ns: u64| assert!(seen.abs_diff(ns * NS) <= 2, "{seen} of {ns} ns");
    let on = one_switch("on", "");
    // Its head after 1.12 us, then all of it on the second link.
    near(delay_ps(&on, 300_000, Lateness::Prompt), 1_120 + 6_720);
    // With y the heads come together, and x comes last: y leaves at 7.84 us, x is stored and follows.
    near(delay_ps(&on, 0, Lateness::Prompt), 7_840 + 6_720);
    near(
        delay_ps(&one_switch("off", ""), 300_000, Lateness::Prompt),
        13_440,
    );
    let possible = one_switch("possible", "");
    near(delay_ps(&possible, 300_000, Lateness::Prompt), 7_840);
    near(delay_ps(&possible, 300_000, Lateness::Pipeline), 13_440);
    // Between links of different rates each frame is stored: 6.72 us and 0.672 us.
    let mut faster = on.clone();
    faster.links[2].rate_bps = 1_000_000_000;
    near(delay_ps(&faster, 300_000, Lateness::Prompt), 7_392);
    // One input only.
    let way = "[[port]]\nswitch = \"s\"\nfrom = \"b\"\nto = \"c\"\ncut-through = \"on\"\n";
    near(
        delay_ps(&one_switch("off", way), 300_000, Lateness::Prompt),
        13_440,
    );
}

#[test]
fn promises_hold_for_both() {
    let promise = |network: &Network| promises(network).streams[0].promises[0].delay_ns.unwrap();
    let stored = promise(&one_switch("off", ""));
    assert_eq!(stored, 3 * 6_720);
    for cut_through in ["possible", "on"] {
        let network = one_switch(cut_through, "");
        let plan = promises(&network);
        assert!(promise(&network) >= stored);
        let report = searched(&network, &plan, 300, 3 * MS);
        assert!(report.streams.iter().all(|stream| !stream.violated));
    }
}

/// A frame that may come early adds to the jitter behind the port, and may be in the way of others before its time.
#[test]
fn a_search_breaks_the_promises_of_stored_frames() {
    let change = |wrong: bool| {
        move |network: &mut Network, planned: bool| {
            // Links of one rate, a latency that does not vary: nothing but cut-through differs.
            network
                .links
                .iter_mut()
                .for_each(|link| link.rate_bps = 100_000_000);
            let some = network.streams.len() % 2 == 0;
            for switch in &mut network.switches {
                switch.latency_min_ns = switch.latency_ns;
                switch.cut_through = match (planned && wrong, some) {
                    (true, _) => CutThrough::Off,
                    (false, true) => CutThrough::Possible,
                    (false, false) => CutThrough::On,
                };
            }
            network.shapers.clear();
        }
    };
    let networks = if cfg!(debug_assertions) { 24 } else { 80 };
    let [networks, late, _] = exceeded(networks, 1_000, change(true));
    println!("{late} of {networks} networks with broken promises");
    assert!(late > 0, "none of {networks}");
    let [networks, late, over] = exceeded(networks, 200, change(false));
    assert_eq!((late, over), (0, 0), "of {networks}");
}
