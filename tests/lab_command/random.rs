//! Random networks whose promises hold: none of them may be called broken, although other programs take all the time of
//! this machine that they get.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::planted::{Busy, written};
use crate::support::*;

/// Networks of one run. `RTWIRE_RANDOM_LABS=100` tries more.
const LABS: u64 = 2;
const RATES: [&str; 2] = ["100 Mbit/s", "1 Gbit/s"];
const INTERVALS: [&str; 4] = ["1 ms", "2 ms", "5 ms", "10 ms"];

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from `first` to `last`.
    fn of(&mut self, first: u64, last: u64) -> u64 {
        first + self.next() % (last - first + 1)
    }

    fn one<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.of(0, choices.len() as u64 - 1)).unwrap()]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.of(1, 100) <= percent
    }
}

/// A line of switches with a host or more at each, streams between any of them, and best effort.
fn description(random: &mut Random) -> String {
    let (switches, hosts) = (random.of(1, 3), random.of(3, 6));
    let rate = random.one(&RATES);
    let mut text = format!(
        "[network]\nname = \"random\"\n[defaults]\nlink-rate = \"{rate}\"\ntick-error = \"500 us\"\n"
    );
    for switch in 1..=switches {
        let latency = random.of(0, 10);
        write!(
            text,
            "[[switch]]\nname = \"s{switch}\"\nlatency = \"{latency} us\"\nbuffer = \"128 KiB\"\nqueues = 4\n"
        )
        .unwrap();
        if switch > 1 {
            write!(
                text,
                "[[link]]\nends = [\"s{}\", \"s{switch}\"]\n",
                switch - 1
            )
            .unwrap();
        }
    }
    for host in 1..=hosts {
        let at = (host - 1) % switches + 1;
        write!(
            text,
            "[[host]]\nname = \"h{host}\"\n[[link]]\nends = [\"h{host}\", \"s{at}\"]\n"
        )
        .unwrap();
    }
    let others = |random: &mut Random, host: u64| (host + random.of(0, hosts - 2)) % hosts + 1;
    for stream in 1..=random.of(1, 5) {
        let talker = random.of(1, hosts);
        let mut listeners = vec![others(random, talker)];
        if random.chance(30) {
            let more = others(random, talker);
            if more != listeners[0] {
                listeners.push(more);
            }
        }
        let listeners: Vec<_> = listeners
            .iter()
            .map(|host| format!("\"h{host}\""))
            .collect();
        write!(
            text,
            "[[stream]]\nname = \"stream{stream}\"\ntalker = \"h{talker}\"\nlisteners = [{}]\npayload = \"{} B\"\n\
             interval = \"{}\"\npriority = {}\n",
            listeners.join(", "),
            random.of(16, 1_000),
            random.one(&INTERVALS),
            random.of(3, 6)
        )
        .unwrap();
        if random.chance(30) {
            text.push_str("transport = \"udp\"\n");
        }
    }
    if random.chance(60) {
        let host = random.of(1, hosts);
        let to = others(random, host);
        write!(
            text,
            "[[best-effort]]\nname = \"office\"\nhost = \"h{host}\"\nto = [\"h{to}\"]\nrate = \"{} Mbit/s\"\nburst = \"{} kB\"\n",
            random.of(1, 30),
            random.of(2, 10)
        )
        .unwrap();
    }
    text
}

#[test]
fn random_sound_networks_beside_busy_loops_are_never_broken() {
    let _alone = alone();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let first = number("RTWIRE_SYSTEM_SEED").unwrap_or(1);
    let labs = number("RTWIRE_RANDOM_LABS").unwrap_or(LABS);
    println!("RTWIRE_SYSTEM_SEED={first} RTWIRE_RANDOM_LABS={labs}");
    let _busy = [Busy::start(), Busy::start()];
    let (mut seed, mut done, mut verdicts) = (first, 0, BTreeMap::new());
    while done < labs {
        assert!(
            seed - first < 20 * labs,
            "the planner refuses nearly all of them"
        );
        let text = description(&mut Random(seed));
        let (_directory, file) = written(&text);
        let planned = rtwire(&["plan", file.to_str().unwrap()]).output().unwrap();
        // 1: a promise that cannot be given. Anything else is a fault of this test.
        let code = planned.status.code();
        assert!(
            matches!(code, Some(0 | 1)),
            "{text}{}",
            self::text(&planned.stderr)
        );
        if code == Some(0) {
            let (_, report) = measured(&file, &["--calibration", "500ms", "--duration", "1500ms"]);
            let verdict = report["verdict"].as_str().unwrap().to_owned();
            assert_ne!(
                verdict, "broken",
                "seed {seed}: {}\n{text}",
                report["reasons"]
            );
            println!("seed {seed}: {verdict}");
            *verdicts.entry(verdict).or_insert(0) += 1;
            done += 1;
        }
        seed += 1;
    }
    println!("{verdicts:?}");
}
