//! A tree of switches on which every port has the same shapers: for tests and benchmarks of tightness.

use std::fmt::Write as _;

use rtwire_sim::random::Random;

/// Returns a tree of five switches and 24 hosts with 40 streams at 100 Mbit/s, in three classes, shaped by `kind`.
///
/// `credit`: the two upper classes have credits at every port. `asynchronous`: they have regulators at every switch.
/// One stream in three sends bursts, the others are periodic. Best effort takes the lowest class.
pub(crate) fn shaped(kind: &str, seed: u64) -> String {
    let mut random = Random::new(seed, 0);
    let (switches, hosts) = (5, 24);
    let mut text = format!(
        "[network]\nname = \"{kind}\"\n[defaults]\nlink-rate = \"100 Mbit/s\"\ntick-error = \"0 us\"\n"
    );
    let shapers = |text: &mut String, node: &str| {
        for (priority, slope) in [(7, 40), (5, 30)] {
            let more = match kind {
                "credit" => format!("idle-slope = \"{slope} Mbit/s\"\n"),
                _ => String::new(),
            };
            writeln!(
                text,
                "[[shaper]]\nnode = \"{node}\"\npriority = {priority}\nkind = \"{kind}\"\n{more}"
            )
            .unwrap();
        }
    };
    for at in 0..switches {
        let name = format!("s{at}");
        writeln!(
            text,
            "[[switch]]\nname = \"{name}\"\nbuffer = \"100 MB\"\nqueues = 3"
        )
        .unwrap();
        if at > 0 {
            writeln!(text, "[[link]]\nends = [\"{name}\", \"s0\"]").unwrap();
        }
        shapers(&mut text, &name);
    }
    for host in 0..hosts {
        let name = format!("h{host}");
        writeln!(
            text,
            "[[host]]\nname = \"{name}\"\nqueues = 3\n[[link]]\nends = [\"{name}\", \"s{}\"]",
            1 + host % (switches - 1)
        )
        .unwrap();
        if kind == "credit" {
            shapers(&mut text, &name);
        }
    }
    for stream in 0..40 {
        let from = random.below(hosts);
        let to = (from + 1 + random.below(hosts - 1)) % hosts;
        let priority = [7, 5, 5, 0][random.below(4) as usize];
        let frame = [128, 256, 512, 1000][random.below(4) as usize];
        let contract = if random.once_in(3) {
            format!(
                "rate = \"{} kbit/s\"\nburst = \"{} B\"",
                200 + random.below(600),
                (frame + 24) * (1 + random.below(3))
            )
        } else {
            let interval = [2_000, 4_000, 8_000][random.below(3) as usize];
            format!("interval = \"{interval} us\"")
        };
        writeln!(
            text,
            "[[stream]]\nname = \"f{stream}\"\ntalker = \"h{from}\"\nlisteners = [\"h{to}\"]\nframe = \"{frame} B\"\n\
             priority = {priority}\n{contract}"
        )
        .unwrap();
    }
    text
}

/// Returns the bound of each stream over the worst delay that a search found, in ascending order.
pub(crate) fn distances(kind: &str, seed: u64, simulations: u64) -> Vec<f64> {
    let network = rtwire_plan::read(&shaped(kind, seed), "shaped.toml", &[]).unwrap();
    let options = rtwire_plan::Options {
        ignore_limits: true,
        ..rtwire_plan::Options::default()
    };
    let plan = rtwire_plan::plan(&network, &options).unwrap();
    let report = crate::searched::searched(&network, &plan, simulations, 30_000_000_000);
    let mut ratios: Vec<f64> = report
        .streams
        .iter()
        .filter(|stream| !stream.best_effort)
        .map(|stream| {
            let promised_ps = stream.promised_delay_ns.unwrap() as f64 * 1e3;
            promised_ps / stream.worst_delay_ps.unwrap() as f64
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}
