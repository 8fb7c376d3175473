//! Random networks with gates.

use std::fmt::Write as _;

use rtwire_sim::random::Random;

use super::pick;

/// Adds a link with a cable: a fast one, or of rates that differ widely.
pub(crate) fn link(text: &mut String, random: &mut Random, fast: bool, ends: &[String; 2]) {
    let rate = if fast {
        pick(random, &["1 Gbit/s", "2500 Mbit/s"])
    } else {
        pick(random, &["100 Mbit/s", "1 Gbit/s", "30 Mbit/s"])
    };
    let cable = pick(random, &[0, 50, 500]);
    writeln!(
        text,
        "[[link]]\nends = {ends:?}\nrate = \"{rate}\"\ncable-delay = \"{cable} ns\""
    )
    .unwrap();
}

/// Returns one of some latencies, microseconds: any up to it, or from a least one on.
pub(crate) fn latency(random: &mut Random, of: &[u64]) -> String {
    let latency = pick(random, of);
    if random.once_in(3) {
        let least = random.up_to(latency);
        format!("{{ min = \"{least} us\", max = \"{latency} us\" }}")
    } else {
        format!("\"{latency} us\"")
    }
}

/// Creates a random tree of gated switches with scheduled and other streams.
pub(crate) fn random_gated(random: &mut Random) -> String {
    let switches = 1 + random.below(5);
    let hosts = 2 + random.below(6);
    let mut text = String::from("[network]\nname = \"random\"\n[defaults]\n");
    let error = pick(random, &["0 ns", "50 ns", "500 ns", "3 us"]);
    writeln!(text, "clock-error = \"{error}\"").unwrap();
    let isolation = pick(random, &["frames", "streams"]);
    let queueing = pick(random, &["on", "off"]);
    let frame = pick(random, &["1518 B", "200 B"]);
    let share = pick(random, &[0, 10, 30]);
    writeln!(
        text,
        "[schedule]\nbest-effort-share = {share}\nisolation = \"{isolation}\"\nqueueing = \"{queueing}\"\nlargest-frame = \"{frame}\""
    )
    .unwrap();
    text.push_str(
        "[[gate-profile]]\nname = \"few\"\nentries = 24\nminimum-window = \"700 ns\"\nguard-band = \"built-in\"\n\
         [[gate-profile]]\nname = \"held\"\nguard-band = \"built-in\"\n",
    );
    let fast = random.once_in(2);
    for switch in 0..switches {
        let latency = latency(random, &[0, 0, 1, 4]);
        let queues = pick(random, &[3, 8, 8]);
        let gates = pick(random, &["unlimited", "held", "few", "vsc9959"]);
        writeln!(
            text,
            "[[switch]]\nname = \"s{switch}\"\nlatency = {latency}\nqueues = {queues}\nbuffer = \"100 MB\"\ngates = \"{gates}\""
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
        let gates = pick(
            random,
            &["", "", "gates = \"unlimited\"\n", "gates = \"held\"\n"],
        );
        writeln!(
            text,
            "[[host]]\nname = \"h{host}\"\nlatency = \"{latency} us\"\n{gates}"
        )
        .unwrap();
        let at = random.below(switches);
        let ends = [format!("h{host}"), format!("s{at}")];
        link(&mut text, random, fast, &ends);
    }
    // Unscheduled traffic may go before scheduled traffic where nothing holds it back: at talkers without gates.
    let (triggered, others): (&[u64], &[u64]) = if random.once_in(3) {
        (&[5, 6], &[0, 2, 4, 7])
    } else {
        (&[6, 7], &[0, 1, 2, 3, 4])
    };
    let streams = 1 + random.below(14);
    for stream in 0..streams {
        let talker = random.below(hosts);
        let mut listeners = vec![(talker + 1 + random.below(hosts - 1)) % hosts];
        if random.once_in(3) {
            let more = (talker + 1 + random.below(hosts - 1)) % hosts;
            if !listeners.contains(&more) {
                listeners.push(more);
            }
        }
        let listeners: Vec<String> = listeners
            .iter()
            .map(|host| format!("\"h{host}\""))
            .collect();
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{talker}\"\nlisteners = [{}]",
            listeners.join(", ")
        )
        .unwrap();
        let bytes = pick(random, &[60, 60, 200, 777, 1514]);
        if random.below(5) < 3 {
            let interval = pick(random, &[250, 500, 1000, 2000, 750]);
            let late = pick(random, &[0, 0, 0, 1]);
            let priority = pick(random, triggered);
            writeln!(
                text,
                "frame = \"{bytes} B\"\ninterval = \"{interval} us\"\npriority = {priority}\nschedule = \"time-triggered\"\ntick-error = \"{late} us\""
            )
            .unwrap();
        } else if random.once_in(2) {
            writeln!(
                text,
                "frame = \"{bytes} B\"\ninterval = \"1 ms\"\npriority = {}",
                pick(random, others)
            )
            .unwrap();
        } else {
            writeln!(
                text,
                "frame = \"{bytes} B\"\nrate = \"2 Mbit/s\"\npriority = {}",
                pick(random, others)
            )
            .unwrap();
        }
    }
    if random.once_in(2) {
        writeln!(
            text,
            "[[best-effort]]\nhost = \"h0\"\nto = [\"h1\"]\nrate = \"5 Mbit/s\"\nburst = \"{} B\"",
            pick(random, &[1538, 6000])
        )
        .unwrap();
    }
    text
}
