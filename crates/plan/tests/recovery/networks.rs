//! Rings with redundant streams.

use std::fmt::Write as _;

use rtwire_plan::{Network, read};

use crate::simulator::Dice;

/// Returns a random ring with redundant streams and others.
pub(super) fn random_ring(dice: &mut Dice) -> String {
    let pick = |dice: &mut Dice, list: &[&str]| {
        list[usize::try_from(dice.below(list.len() as u64)).unwrap()].to_owned()
    };
    let count = 3 + dice.below(4);
    let mut text =
        String::from("[network]\nname = \"ring\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n");
    for at in 0..count {
        let latency = dice.below(60);
        let latency = match dice.below(3) {
            0 => format!("{{ min = \"{latency} us\", max = \"{latency} us\" }}"),
            1 => format!("{{ min = \"{} us\", max = \"{latency} us\" }}", latency / 2),
            _ => format!("\"{latency} us\""),
        };
        let host = if dice.below(4) == 0 {
            dice.below(100)
        } else {
            0
        };
        writeln!(
            text,
            "[[switch]]\nname = \"s{at}\"\nbuffer = \"100 MB\"\nqueues = {}\nlatency = {latency}\ncut-through = \"{}\"\n\
             [[host]]\nname = \"h{at}\"\nlatency = \"{host} us\"\n[[link]]\nends = [\"h{at}\", \"s{at}\"]",
            pick(dice, &["1", "2", "8"]),
            pick(dice, &["off", "off", "off", "possible"]),
        )
        .unwrap();
        let rate = pick(dice, &["10 Mbit/s", "100 Mbit/s", "100 Mbit/s", "1 Gbit/s"]);
        writeln!(
            text,
            "[[link]]\nends = [\"s{at}\", \"s{}\"]\nrate = \"{rate}\"\ncable-delay = \"{} ns\"",
            (at + 1) % count,
            dice.below(50_000)
        )
        .unwrap();
    }
    for stream in 0..2 + dice.below(6) {
        let from = dice.below(count);
        let to = (from + 1 + dice.below(count - 1)) % count;
        let redundancy = if stream < 2 { "disjoint" } else { "none" };
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{from}\"\nlisteners = [\"h{to}\"]\nframe = \"{} B\"\n\
             priority = {}\nredundancy = \"{redundancy}\"",
            60 + dice.below(400),
            dice.below(8)
        )
        .unwrap();
        match dice.below(3) {
            0 => writeln!(
                text,
                "rate = \"{} kbit/s\"\nburst = \"{} B\"",
                200 + dice.below(800),
                600 + dice.below(3_000)
            ),
            group => writeln!(
                text,
                "interval = \"{} us\"\ntick-error = \"{} us\"\nframes-per-interval = {}",
                if dice.below(2) == 0 {
                    600 + dice.below(900)
                } else {
                    4_000
                },
                pick(dice, &["0", "30", "150"]),
                if group == 1 { 1 } else { 1 + dice.below(3) }
            ),
        }
        .unwrap();
    }
    text
}

/// Returns a ring of four switches whose far way is longer by a cable, with one redundant stream.
pub(super) fn ring(interval_us: u64, cable_us: u64, more: &str) -> Network {
    let mut text =
        String::from("[network]\nname = \"ring\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\n");
    for at in 0..4 {
        let cable = if at == 2 { cable_us } else { 0 };
        writeln!(
            text,
            "[[switch]]\nname = \"s{at}\"\nbuffer = \"1 MB\"\nqueues = 8\ngates = \"unlimited\"\n\
             latency = {{ min = \"5 us\", max = \"5 us\" }}\n\
             [[host]]\nname = \"h{at}\"\n[[link]]\nends = [\"h{at}\", \"s{at}\"]\n\
             [[link]]\nends = [\"s{at}\", \"s{}\"]\ncable-delay = \"{cable} us\"",
            (at + 1) % 4
        )
        .unwrap();
    }
    writeln!(
        text,
        "[[stream]]\nname = \"twice\"\ntalker = \"h0\"\nlisteners = [\"h1\"]\nframe = \"60 B\"\n\
         interval = \"{interval_us} us\"\ntick-error = \"0 us\"\nredundancy = \"disjoint\"\n{more}"
    )
    .unwrap();
    read(&text, "ring.toml", &[]).unwrap_or_else(|faults| panic!("{faults}\n{text}"))
}
