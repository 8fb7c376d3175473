//! Cases that can be computed by hand, exact to the picosecond.

use crate::common;

use common::network;
use rtwire_sim::{Behaviour, Lateness, Model, Pattern, PatternChoice, Scenario, Simulator};

const US: u64 = 1_000_000;

/// Hosts on one switch at 100 Mbit/s without overhead: 1000 B take 80 µs.
fn star(switch: &str, hosts: &[&str], rest: &str) -> Model {
    let mut text = format!(
        "[network]\nname = \"star\"\n[defaults]\nframe-overhead = \"0 B\"\ntick-error = \"0 us\"\nlink-rate = \"100 Mbit/s\"\n\
         [[switch]]\nname = \"s\"\n{switch}\n"
    );
    for host in hosts {
        let (name, more) = host.split_once(' ').unwrap_or((host, ""));
        text +=
            &format!("[[host]]\nname = \"{name}\"\n{more}\n[[link]]\nends = [\"{name}\", \"s\"]\n");
    }
    Model::new(&network(&(text + rest))).unwrap()
}

fn stream(name: &str, talker: &str, frame: u64, more: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [\"B\"]\nframe = \"{frame} B\"\ninterval = \"1 s\"\n{more}\n"
    )
}

/// Greedy sources that start at `phases_ns`.
fn scenario(model: &Model, phases_ns: &[u64], lateness: Lateness) -> Scenario {
    let mut scenario = Scenario::new(model, PatternChoice::Greedy, 1, 500_000 * US, 0);
    for (source, phase_ns) in scenario.sources.iter_mut().zip(phases_ns) {
        *source = Behaviour::new(Pattern::Greedy, phase_ns * 1000);
    }
    scenario.lateness.fill(lateness);
    scenario
}

fn worst_ps(simulator: &Simulator<'_>) -> Vec<u64> {
    simulator
        .listeners()
        .iter()
        .map(|seen| seen.worst_ps)
        .collect()
}

fn play(model: &Model, phases_ns: &[u64], lateness: Lateness) -> Vec<u64> {
    let mut simulator = Simulator::new(model);
    simulator.run(&scenario(model, phases_ns, lateness));
    worst_ps(&simulator)
}

const ROOM: &str = "latency = \"0 us\"\nbuffer = \"1 MB\"";

#[test]
fn two_frames_meet_at_a_port() {
    let rest = stream("a", "A", 1000, "") + &stream("c", "C", 1000, "");
    let model = star(ROOM, &["A", "B", "C"], &rest);
    let mut simulator = Simulator::new(&model);
    simulator.run(&scenario(&model, &[0, 0], Lateness::Prompt));
    assert_eq!(worst_ps(&simulator), [160 * US, 240 * US]);
    assert_eq!(simulator.frame_hops(), 4);
    // Both arrived at the same time, before the port took the first one. The ports are those of A, A's other end, B,
    // B's other end.
    let port = simulator.port(3).unwrap();
    assert_eq!((port.backlog_bits, port.backlog_frames), (16_000, 2));
    assert_eq!(port.class_delay_ps, [160 * US]);
    // Half of the first frame has been sent when the second arrives. Its memory is free with its last bit.
    simulator.run(&scenario(&model, &[0, 40_000], Lateness::Prompt));
    assert_eq!(worst_ps(&simulator), [160 * US, 200 * US]);
    assert_eq!(simulator.port(3).unwrap().backlog_bits, 16_000);
    // Or with each bit, where the switch does so.
    let by_bit = format!("{ROOM}\nbuffer-release = \"bit\"");
    let by_bit = star(&by_bit, &["A", "B", "C"], &rest);
    let mut by_bit = Simulator::new(&by_bit);
    by_bit.run(&scenario(&model, &[0, 40_000], Lateness::Prompt));
    assert_eq!(by_bit.port(3).unwrap().backlog_bits, 12_000);
    // At ties the flow that is to be last arrives last.
    let mut last = scenario(&model, &[0, 0], Lateness::Prompt);
    last.last_at_ties = Some(0);
    simulator.run(&last);
    assert_eq!(worst_ps(&simulator), [240 * US, 160 * US]);
}

#[test]
fn a_frame_under_way_blocks_the_most_urgent() {
    let rest = stream("low", "A", 1500, "priority = 0") + &stream("high", "C", 100, "priority = 7");
    let model = star(&format!("{ROOM}\nqueues = 2"), &["A", "B", "C"], &rest);
    // Both arrive at 120 µs: the urgent one goes first.
    assert_eq!(
        play(&model, &[0, 112_000], Lateness::Prompt),
        [248 * US, 16 * US]
    );
    // The urgent one arrives 1 ns later: 8 µs on its own link, 120 µs minus 1 ns of waiting, 8 µs.
    assert_eq!(
        play(&model, &[0, 112_001], Lateness::Prompt),
        [240 * US, 136 * US - 1000]
    );
    // With one queue, the order of arrival decides.
    let fifo = star(ROOM, &["A", "B", "C"], &rest);
    assert_eq!(
        play(&fifo, &[0, 112_000], Lateness::Prompt),
        [240 * US, 136 * US]
    );
}

#[test]
fn priorities_are_classes_by_the_number_of_queues() {
    // With four queues, priorities 4 and 5 share one; 6 has the next.
    let rest = stream("x", "A", 1000, "priority = 4")
        + &stream("y", "C", 1000, "priority = 5")
        + &stream("z", "D", 1000, "priority = 6");
    let model = star(&format!("{ROOM}\nqueues = 4"), &["A", "B", "C", "D"], &rest);
    assert_eq!(
        play(&model, &[0, 0, 0], Lateness::Prompt),
        [240 * US, 320 * US, 160 * US]
    );
}

#[test]
fn a_late_start_of_a_switch_counts_once_in_a_busy_period() {
    let switch = "latency = \"10 us\"\nbuffer = \"1 MB\"";
    let rest = stream("a", "A", 1000, "") + &stream("c", "C", 1000, "");
    let model = star(switch, &["A", "B", "C"], &rest);
    assert_eq!(
        play(&model, &[0, 0], Lateness::Prompt),
        [160 * US, 240 * US]
    );
    assert_eq!(
        play(&model, &[0, 0], Lateness::BusyStart),
        [170 * US, 250 * US]
    );
    assert_eq!(
        play(&model, &[0, 0], Lateness::Pipeline),
        [170 * US, 250 * US]
    );
    // The second arrives just after the first is sent: a new busy period.
    assert_eq!(
        play(&model, &[0, 90_000], Lateness::BusyStart),
        [170 * US, 170 * US]
    );
    // It arrives while the first is sent. The pipeline still delays it, but within its waiting time.
    assert_eq!(
        play(&model, &[0, 50_000], Lateness::BusyStart),
        [170 * US, 200 * US]
    );
    assert_eq!(
        play(&model, &[0, 50_000], Lateness::Pipeline),
        [170 * US, 200 * US]
    );
}

#[test]
fn a_host_that_was_late_catches_up() {
    let rest = stream("a", "A", 1000, "") + &stream("c", "A", 500, "");
    let model = star(ROOM, &["A latency = \"100 us\"", "B"], &rest);
    // 80 µs and 40 µs on the host's link, and the same on the switch's.
    assert_eq!(
        play(&model, &[0, 0], Lateness::Prompt),
        [160 * US, 200 * US]
    );
    // Both are handed over at 180 µs.
    assert_eq!(
        play(&model, &[0, 0], Lateness::BusyStart),
        [260 * US, 300 * US]
    );
    assert_eq!(
        play(&model, &[0, 0], Lateness::Pipeline),
        [260 * US, 300 * US]
    );
}

#[test]
fn a_multicast_frame_is_copied_where_ways_part() {
    let text = "[network]\nname = \"m\"\n[defaults]\nframe-overhead = \"0 B\"\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n\
        [[switch]]\nname = \"s\"\nlatency = \"0 us\"\nbuffer = \"1 MB\"\n\
        [[switch]]\nname = \"t\"\nlatency = \"0 us\"\nbuffer = \"1 MB\"\n\
        [[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[host]]\nname = \"C\"\n[[host]]\nname = \"D\"\n\
        [[link]]\nends = [\"A\", \"s\"]\ncable-delay = \"500 ns\"\n\
        [[link]]\nends = [\"D\", \"s\"]\n\
        [[link]]\nends = [\"s\", \"t\"]\nrate = \"1 Gbit/s\"\ncable-delay = \"1 us\"\n\
        [[link]]\nends = [\"B\", \"t\"]\n[[link]]\nends = [\"C\", \"t\"]\nrate = \"10 Mbit/s\"\n\
        [[stream]]\nname = \"m\"\ntalker = \"A\"\nlisteners = [\"B\", \"C\", \"D\"]\nframe = \"1000 B\"\ninterval = \"1 s\"\n";
    let model = Model::new(&network(text)).unwrap();
    let mut simulator = Simulator::new(&model);
    simulator.run(&scenario(&model, &[0], Lateness::Prompt));
    // 80 + 0.5 + 8 + 1 + 80; the same with 800 µs at the end; 80 + 0.5 + 80.
    assert_eq!(
        worst_ps(&simulator),
        [169_500_000, 889_500_000, 160_500_000]
    );
    assert_eq!(simulator.sent(), [1]);
    assert_eq!((simulator.frame_hops(), simulator.delivered()), (5, 3));
}

#[test]
fn memory_overflows_by_the_last_frame_to_come() {
    let rest: String = ["A", "C", "D", "E"]
        .iter()
        .map(|host| stream(host, host, 1000, ""))
        .collect();
    let hosts = ["A", "B", "C", "D", "E"];
    let lost = |switch: &str, phases: &[u64]| {
        let model = star(&format!("latency = \"0 us\"\n{switch}"), &hosts, &rest);
        let mut simulator = Simulator::new(&model);
        simulator.run(&scenario(&model, phases, Lateness::Prompt));
        let received: Vec<u64> = simulator
            .listeners()
            .iter()
            .map(|seen| seen.received)
            .collect();
        assert_eq!(received.iter().sum::<u64>() + simulator.dropped(), 4);
        assert_eq!(simulator.port(3).unwrap().dropped, simulator.dropped());
        received
    };
    assert_eq!(lost("buffer = \"4000 B\"", &[0, 0, 0, 0]), [1, 1, 1, 1]);
    assert_eq!(lost("buffer = \"3999 B\"", &[0, 0, 0, 0]), [1, 1, 1, 0]);
    assert_eq!(lost("buffer = \"2000 B\"", &[0, 0, 0, 0]), [1, 1, 0, 0]);
    // At 120 µs half of the first is on the wire. It takes 1000 B until 160 µs, so that nothing else fits before.
    assert_eq!(
        lost("buffer = \"2000 B\"", &[0, 0, 40_000, 80_000]),
        [1, 1, 0, 1]
    );
    assert_eq!(
        lost("buffer = \"2999 B\"", &[0, 0, 79_999, 500_000]),
        [1, 1, 0, 1]
    );
    assert_eq!(
        lost("buffer = \"2999 B\"", &[0, 0, 80_000, 500_000]),
        [1, 1, 1, 1]
    );
    // Freed bit by bit, 500 B and 1000 B are in use at 120 µs.
    let by_bit = "buffer = \"2500 B\"\nbuffer-release = \"bit\"";
    assert_eq!(lost(by_bit, &[0, 0, 40_000, 500_000]), [1, 1, 1, 1]);
    let by_bit = "buffer = \"2499 B\"\nbuffer-release = \"bit\"";
    assert_eq!(lost(by_bit, &[0, 0, 40_000, 500_000]), [1, 1, 0, 1]);
    // An otherwise unused pool behaves the same, and so does a limit in frames, however small they are.
    assert_eq!(
        lost("shared-buffer = \"2000 B\"", &[0, 0, 0, 0]),
        [1, 1, 0, 0]
    );
    assert_eq!(lost("buffer = \"3 x 1514 B\"", &[0, 0, 0, 0]), [1, 1, 1, 0]);
}

#[test]
fn ports_share_a_pool() {
    let rest = stream("a", "A", 1000, "")
        + &stream("c", "C", 1000, "")
        + &stream("d", "D", 1000, "").replace("\"B\"", "\"E\"");
    let lost = |switch: &str| {
        let model = star(
            &format!("latency = \"0 us\"\n{switch}"),
            &["A", "B", "C", "D", "E"],
            &rest,
        );
        let mut simulator = Simulator::new(&model);
        simulator.run(&scenario(&model, &[0, 0, 0], Lateness::Prompt));
        simulator.dropped()
    };
    assert_eq!(lost("buffer = \"2000 B\""), 0);
    assert_eq!(lost("shared-buffer = \"2000 B\""), 1);
    assert_eq!(lost("shared-buffer = \"3000 B\""), 0);
}

#[test]
fn odd_rates_add_up_exactly() {
    // Three frames of 8000 bits at 30 Mbit/s: 266.66… µs each, 800 µs together.
    let rest = "[[stream]]\nname = \"a\"\ntalker = \"A\"\nlisteners = [\"B\"]\nframe = \"1000 B\"\nrate = \"1 Mbit/s\"\n\
                burst = \"3000 B\"\n";
    let text = format!(
        "[network]\nname = \"o\"\n[defaults]\nframe-overhead = \"0 B\"\nlink-rate = \"1 Gbit/s\"\n[[switch]]\nname = \"s\"\n{ROOM}\n\
         [[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[link]]\nends = [\"A\", \"s\"]\nrate = \"30 Mbit/s\"\n\
         [[link]]\nends = [\"B\", \"s\"]\n{rest}"
    );
    let model = Model::new(&network(&text)).unwrap();
    // 800 µs and the last frame's 8 µs.
    assert_eq!(play(&model, &[0], Lateness::Prompt), [808 * US]);
}

#[test]
fn a_fast_clock_sends_more() {
    let rest = stream("a", "A", 100, "").replace("1 s", "1 ms");
    let model = star(ROOM, &["A", "B"], &rest);
    let mut simulator = Simulator::new(&model);
    let mut fast = scenario(&model, &[0], Lateness::Prompt);
    fast.duration_ps = 10_000_000 * US;
    for (ppm, frames) in [(0, 10_001), (100, 10_002), (-100, 10_000), (1000, 10_011)] {
        fast.drift_ppm.fill(ppm);
        simulator.run(&fast);
        assert_eq!(simulator.sent(), [frames], "{ppm} ppm");
    }
}

#[test]
fn an_unshaped_source_fills_its_link() {
    let rest = "[[stream]]\nname = \"a\"\ntalker = \"A\"\nlisteners = [\"B\"]\nframe = \"1000 B\"\nrate = \"1 Mbit/s\"\n\
                shaper = \"off\"\n";
    let model = star(ROOM, &["A", "B"], rest);
    let mut simulator = Simulator::new(&model);
    let mut scenario = scenario(&model, &[0], Lateness::Prompt);
    scenario.duration_ps = 80_000 * US;
    simulator.run(&scenario);
    // One frame for each window that begins, at 0, 80 µs … 80 ms, and two from the window before.
    assert_eq!(simulator.sent(), [1003]);
    // When it arrives, one frame is being sent and another waits: three times 80 µs on its own link, 80 µs behind the
    // switch.
    assert_eq!(worst_ps(&simulator), [320 * US]);
}

#[test]
fn a_burst_leaves_at_the_rate_of_the_link_and_then_at_its_own() {
    let rest = "[[stream]]\nname = \"a\"\ntalker = \"A\"\nlisteners = [\"B\"]\nframe = \"1000 B\"\nrate = \"10 Mbit/s\"\n\
                burst = \"3000 B\"\n";
    let model = star(ROOM, &["A", "B"], rest);
    let mut simulator = Simulator::new(&model);
    let mut scenario = scenario(&model, &[0], Lateness::Prompt);
    // Three at once, then one each 0.8 ms from 0.8 ms on.
    for (until_us, frames) in [(0, 3), (799, 3), (800, 4), (8000, 13)] {
        scenario.duration_ps = until_us * US;
        simulator.run(&scenario);
        assert_eq!(simulator.sent(), [frames], "{until_us} us");
    }
    assert_eq!(worst_ps(&simulator), [4 * 80 * US]);
    assert_eq!(simulator.listeners()[0].quantile_ps(1000), Some(320 * US));
    // Ten of thirteen went alone and took 160 µs.
    let half = simulator.listeners()[0].quantile_ps(500).unwrap();
    assert!((160 * US..163 * US).contains(&half), "{half}");
}
