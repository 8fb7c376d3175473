//! Random networks with cyclic streams.

use std::fmt::Write as _;

use rtwire_sim::random::Random;

use super::gated::{latency, link};
use super::pick;

/// Creates a random tree of gated switches with cyclic and other streams.
pub(crate) fn random_cyclic(random: &mut Random) -> String {
    let switches = 1 + random.below(5);
    let hosts = 2 + random.below(6);
    let mut text = String::from("[network]\nname = \"random\"\n[defaults]\n");
    let error = pick(random, &["0 ns", "50 ns", "500 ns", "3 us", "20 us"]);
    let drift = pick(random, &["0 ppm", "100 ppm"]);
    writeln!(text, "clock-error = \"{error}\"\nclock-drift = \"{drift}\"").unwrap();
    let fast = random.once_in(2);
    let cycle = if fast {
        pick(random, &["62500 ns", "125 us", "250 us"])
    } else {
        pick(random, &["250 us", "1 ms", "2 ms"])
    };
    let share = pick(random, &[0, 10, 30]);
    writeln!(
        text,
        "[schedule]\nbest-effort-share = {share}\ncycle = \"{cycle}\""
    )
    .unwrap();
    for switch in 0..switches {
        let latency = latency(random, &[0, 1, 4, 20]);
        let queues = pick(random, &[3, 4, 8]);
        writeln!(
            text,
            "[[switch]]\nname = \"s{switch}\"\nlatency = {latency}\nqueues = {queues}\nbuffer = \"100 MB\"\ngates = \"unlimited\""
        )
        .unwrap();
        if switch > 0 {
            let other = random.below(switch);
            let ends = [format!("s{switch}"), format!("s{other}")];
            link(&mut text, random, fast, &ends);
        }
    }
    for host in 0..hosts {
        let latency = pick(random, &[0, 0, 2]);
        writeln!(
            text,
            "[[host]]\nname = \"h{host}\"\nlatency = \"{latency} us\""
        )
        .unwrap();
        let at = random.below(switches);
        let ends = [format!("h{host}"), format!("s{at}")];
        link(&mut text, random, fast, &ends);
    }
    let streams = 1 + random.below(10);
    for stream in 0..streams {
        let talker = random.below(hosts);
        let mut listeners: Vec<String> = Vec::new();
        for _ in 0..1 + random.below(2) {
            let listener = (talker + 1 + random.below(hosts - 1)) % hosts;
            let name = format!("\"h{listener}\"");
            if !listeners.contains(&name) {
                listeners.push(name);
            }
        }
        let frame = pick(random, &[60, 100, 400, 1514]);
        let contract = match random.below(5) {
            0 => format!("rate = \"{} kbit/s\"", pick(random, &[200, 1000, 5000])),
            1 => format!("interval = \"{cycle}\"\ntick-error = \"1 us\""),
            _ => {
                let interval = pick(random, &["500 us", "1 ms", "4 ms"]);
                let error = pick(random, &["0 us", "20 us", "300 us"]);
                format!("interval = \"{interval}\"\ntick-error = \"{error}\"")
            }
        };
        let (priority, schedule) = if random.once_in(4) {
            (pick(random, &[0, 1]), "unscheduled")
        } else {
            (6, "cyclic")
        };
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{talker}\"\nlisteners = [{}]\nframe = \"{frame} B\"\n{contract}\npriority = {priority}\nschedule = \"{schedule}\"",
            listeners.join(", ")
        )
        .unwrap();
    }
    if random.once_in(2) {
        let from = random.below(hosts);
        let to = (from + 1 + random.below(hosts - 1)) % hosts;
        writeln!(
            text,
            "[[best-effort]]\nname = \"rest\"\nhost = \"h{from}\"\nto = [\"h{to}\"]\nrate = \"2 Mbit/s\""
        )
        .unwrap();
    }
    text
}
