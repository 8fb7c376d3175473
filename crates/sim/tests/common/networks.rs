//! Random networks as descriptions: trees, lines, rings; with shapers.

use std::fmt::Write as _;

use rtwire_sim::random::Random;

use super::{network, pick};

/// Returns the keys of a switch's latency and of how its memory is freed.
///
/// Most switches delay each frame as they like up to the largest latency. For some it is constant, or has a least value.
fn switch_latency(random: &mut Random, largest_us: &[u64]) -> String {
    let max = pick(random, largest_us);
    let latency = match random.below(6) {
        0 => format!("{{ min = \"{max} us\", max = \"{max} us\" }}"),
        1 => format!(
            "{{ min = \"{} us\", max = \"{max} us\" }}",
            random.up_to(max)
        ),
        _ => format!("\"{max} us\""),
    };
    let release = pick(random, &["frame", "frame", "bit"]);
    format!("latency = {latency}\nbuffer-release = \"{release}\"")
}

/// Creates a random tree or line of up to 8 switches.
pub(crate) fn random_description(random: &mut Random) -> String {
    let switches = 1 + random.below(8);
    let hosts = 2 + random.below(9);
    let uniform = random.once_in(2);
    let strict = random.once_in(2);
    let line = random.once_in(2);
    let mut text = String::from("[network]\nname = \"random\"\n[defaults]\n");
    let overhead = pick(random, &["24 B", "24 B", "0 B"]);
    writeln!(text, "frame-overhead = \"{overhead}\"").unwrap();
    for switch in 0..switches {
        let queues = if strict { 1 + random.below(8) } else { 1 };
        let latency = switch_latency(random, &[0, 3, 10, 50]);
        let buffer = pick(random, &["buffer", "shared-buffer"]);
        writeln!(
            text,
            "[[switch]]\nname = \"s{switch}\"\n{latency}\nqueues = {queues}\n{buffer} = \"100 MB\""
        )
        .unwrap();
    }
    let link = |text: &mut String, random: &mut Random, a: &str, b: &str| {
        let rate = if uniform {
            "100 Mbit/s"
        } else {
            // 30 Mbit/s: a bit does not take a whole number of picoseconds.
            pick(
                random,
                &["10 Mbit/s", "30 Mbit/s", "100 Mbit/s", "1 Gbit/s"],
            )
        };
        let cable = pick(random, &[0, 50, 500, 5000]);
        writeln!(
            text,
            "[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"{rate}\"\ncable-delay = \"{cable} ns\""
        )
        .unwrap();
    };
    for switch in 1..switches {
        let other = if line {
            switch - 1
        } else {
            random.below(switch)
        };
        link(
            &mut text,
            random,
            &format!("s{switch}"),
            &format!("s{other}"),
        );
    }
    for host in 0..hosts {
        let queues = 1 + random.below(8);
        let latency = if random.once_in(5) {
            random.below(150)
        } else {
            0
        };
        writeln!(
            text,
            "[[host]]\nname = \"h{host}\"\nqueues = {queues}\nlatency = \"{latency} us\""
        )
        .unwrap();
        let at = random.below(switches);
        link(&mut text, random, &format!("h{host}"), &format!("s{at}"));
    }
    let most = if uniform { 8000 } else { 2000 };
    for stream in 0..=random.below(14) {
        let talker = random.below(hosts);
        let mut listeners = Vec::new();
        for _ in 0..=random.below(3) {
            let listener = random.below(hosts);
            if listener != talker && !listeners.contains(&listener) {
                listeners.push(listener);
            }
        }
        if listeners.is_empty() {
            listeners.push((talker + 1) % hosts);
        }
        let listeners: Vec<String> = listeners
            .iter()
            .map(|host| format!("\"h{host}\""))
            .collect();
        let frame = pick(random, &[64, 64, 200, 700, 1514]);
        let priority = random.below(8);
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{talker}\"\nlisteners = [{}]\nframe = \"{frame} B\"\n\
             priority = {priority}",
            listeners.join(", ")
        )
        .unwrap();
        if frame > 200 && random.once_in(4) {
            writeln!(text, "smallest-frame = \"{} B\"", pick(random, &[60, 200])).unwrap();
        }
        let error = pick(random, &[0, 0, 20, 150, 1000]);
        match random.below(5) {
            0 | 1 => {
                let interval = 250 + random.below(4000);
                writeln!(
                    text,
                    "interval = \"{interval} us\"\ntick-error = \"{error} us\""
                )
                .unwrap();
            }
            2 => {
                let burst = 1600 + random.below(8000);
                let rate = 50 + random.below(most);
                writeln!(text, "rate = \"{rate} kbit/s\"\nburst = \"{burst} B\"").unwrap();
            }
            _ => {
                let rate = 50 + random.below(most);
                let interval = 100 + random.below(3000);
                writeln!(
                    text,
                    "rate = \"{rate} kbit/s\"\nshaping-interval = \"{interval} us\"\ntick-error = \"{error} us\""
                )
                .unwrap();
            }
        }
    }
    if random.once_in(2) {
        let host = random.below(hosts);
        let to = (host + 1 + random.below(hosts - 1)) % hosts;
        writeln!(
            text,
            "[[best-effort]]\nhost = \"h{host}\"\nto = [\"h{to}\"]\nrate = \"{} kbit/s\"\nburst = \"{} B\"",
            100 + random.below(900),
            1538 + random.below(10_000)
        )
        .unwrap();
    }
    text
}

/// Creates a random ring or line in which some classes have credits or regulators.
pub(crate) fn random_shaped_ways(random: &mut Random) -> String {
    let text = if random.once_in(2) {
        random_ring(random)
    } else {
        random_line(random)
    };
    // Few long routes have a promise if regulators stand here and there: each needs one at the port before, too.
    let everywhere = random.once_in(2);
    with_shapers(text, random, everywhere)
}

/// Creates a random network in which some classes have credits or regulators.
pub(crate) fn random_shapers(random: &mut Random) -> String {
    let text = random_description(random);
    with_shapers(text, random, false)
}

/// Adds credits or regulators to some classes of a network, and sometimes clocks that drift.
///
/// `everywhere`: each class of a switch without a credit has regulators.
pub(crate) fn with_shapers(mut text: String, random: &mut Random, everywhere: bool) -> String {
    if random.once_in(3) {
        text = text.replace("[defaults]\n", "[defaults]\nclock-drift = \"100 ppm\"\n");
    }
    let plain = network(&text);
    for link in &plain.links {
        for at in [0, 1] {
            let (node, to) = (&link.ends[at], &link.ends[1 - at]);
            let queues = u64::from(plain.queues(node));
            // One priority for each class, the most urgent first.
            let priorities: Vec<u64> = (0..queues)
                .rev()
                .map(|class| (class * 8).div_ceil(queues))
                .collect();
            let credits = if queues > 1 { random.below(3) } else { 0 };
            let mut left = link.rate_bps;
            for (number, priority) in priorities.iter().enumerate() {
                let head = format!(
                    "[[shaper]]\nnode = \"{node}\"\nto = \"{to}\"\npriority = {priority}\n"
                );
                if (number as u64) < credits {
                    let slope = left / 100 * (30 + random.below(40));
                    left -= slope;
                    writeln!(
                        text,
                        "{head}kind = \"credit\"\nidle-slope = \"{slope} bit/s\""
                    )
                    .unwrap();
                } else if node.starts_with('s') && (everywhere || random.once_in(3)) {
                    writeln!(text, "{head}kind = \"asynchronous\"").unwrap();
                }
            }
        }
    }
    text
}

/// Creates a line of 3 to 7 switches whose streams send bursts over long routes.
pub(crate) fn random_line(random: &mut Random) -> String {
    let switches = 3 + random.below(5);
    let mut text = String::from(
        "[network]\nname = \"line\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n",
    );
    let queues = pick(random, &[1, 1, 2]);
    let fast = pick(random, &["100 Mbit/s", "1 Gbit/s"]);
    for switch in 0..switches {
        let latency = switch_latency(random, &[0, 0, 5, 20]);
        writeln!(
            text,
            "[[switch]]\nname = \"s{switch}\"\n{latency}\nqueues = {queues}\nbuffer = \"100 MB\""
        )
        .unwrap();
        for host in 0..3 {
            let name = format!("h{switch}-{host}");
            writeln!(
                text,
                "[[host]]\nname = \"{name}\"\n[[link]]\nends = [\"{name}\", \"s{switch}\"]\nrate = \"{fast}\""
            )
            .unwrap();
        }
        if switch > 0 {
            let rate = pick(random, &["100 Mbit/s", "100 Mbit/s", "80 Mbit/s"]);
            writeln!(
                text,
                "[[link]]\nends = [\"s{}\", \"s{switch}\"]\nrate = \"{rate}\"",
                switch - 1
            )
            .unwrap();
        }
    }
    let streams = 2 + random.below(6);
    for stream in 0..streams {
        let (from, to) = if random.once_in(2) {
            (0, switches - 1)
        } else {
            let from = random.below(switches - 1);
            (from, from + 1 + random.below(switches - 1 - from))
        };
        let (burst, frame) = (2 + random.below(30), pick(random, &[200, 700, 1514]));
        let rate = 500 + random.below(50_000 / streams);
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{from}-{}\"\nlisteners = [\"h{to}-2\"]\nframe = \"{frame} B\"\n\
             rate = \"{rate} kbit/s\"\nburst = \"{burst} kB\"\npriority = {}",
            random.below(2),
            random.below(8)
        )
        .unwrap();
    }
    text
}

/// Creates a ring of 3 to 6 switches in which all streams go in the same direction.
pub(crate) fn random_ring(random: &mut Random) -> String {
    let switches = 3 + random.below(4);
    let mut text =
        String::from("[network]\nname = \"ring\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n");
    let queues = pick(random, &[1, 1, 2, 8]);
    for switch in 0..switches {
        let latency = switch_latency(random, &[0, 5, 20]);
        let next = (switch + 1) % switches;
        writeln!(
            text,
            "[[switch]]\nname = \"s{switch}\"\n{latency}\nqueues = {queues}\nbuffer = \"100 MB\"\n\
             [[link]]\nends = [\"s{switch}\", \"s{next}\"]\n\
             [[host]]\nname = \"h{switch}\"\n[[link]]\nends = [\"h{switch}\", \"s{switch}\"]\n\
             [[host]]\nname = \"g{switch}\"\n[[link]]\nends = [\"g{switch}\", \"s{switch}\"]"
        )
        .unwrap();
    }
    for stream in 0..2 + random.below(switches * 2) {
        let start = random.below(switches);
        let hops = 1 + random.below(switches - 1);
        let mut route = vec![format!("\"h{start}\"")];
        route.extend((0..=hops).map(|hop| format!("\"s{}\"", (start + hop) % switches)));
        let end = format!("\"g{}\"", (start + hops) % switches);
        route.push(end.clone());
        let frame = pick(random, &[64, 400, 1514]);
        let contract = if random.once_in(2) {
            let interval = 500 + random.below(4000);
            format!(
                "interval = \"{interval} us\"\ntick-error = \"{} us\"",
                random.below(100)
            )
        } else {
            format!(
                "rate = \"{} kbit/s\"\nshaping-interval = \"500 us\"",
                100 + random.below(9000)
            )
        };
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{start}\"\nlisteners = [{end}]\nframe = \"{frame} B\"\n\
             priority = {}\nroute = [{}]\n{contract}",
            random.below(8),
            route.join(", ")
        )
        .unwrap();
    }
    text
}
