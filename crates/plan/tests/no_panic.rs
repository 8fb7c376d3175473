//! Tests that any bytes lead to faults or a network, then to a plan or a refusal, and never to a panic.

use proptest::prelude::*;
use rtwire_plan::{Options, plan, read};

const EXAMPLES: [&str; 3] = [
    include_str!("../../../examples/five-nodes.toml"),
    include_str!("../../../examples/five-nodes-unshaped.toml"),
    include_str!("../../../examples/line.toml"),
];

/// Words that reach far into the parser.
const WORDS: [&str; 40] = [
    "\"",
    "[",
    "]",
    "[[",
    "]]",
    "=",
    "\n",
    "#",
    ",",
    "{",
    "}",
    "0",
    "-1",
    "9",
    "1e9",
    "99999999999999999999",
    "340282366920938463463374607431768211455",
    "x",
    "/",
    "/0",
    "0/",
    ".",
    " ns",
    " s",
    " Gbit/s",
    " B",
    " bit",
    " x ",
    "A",
    "B",
    "s1",
    "s2",
    "é",
    "\u{0}",
    "\t",
    "true",
    "name",
    "route",
    "burst",
    "interval",
];

fn feed(text: &str) {
    let overrides = [(
        "tick-error".to_owned(),
        text.chars().take(20).collect::<String>(),
    )];
    let _ = read(text, "any.toml", &overrides).map_err(|faults| faults.to_string());
    match read(text, "any.toml", &[]) {
        Ok(network) => {
            let _ = plan(&network, &Options::default()).map_err(|refusal| refusal.to_string());
            let _ = plan(
                &network,
                &Options {
                    ignore_limits: true,
                    ..Options::default()
                },
            );
        }
        Err(faults) => assert!(!faults.faults.is_empty() && !faults.to_string().is_empty()),
    }
}

/// Returns the number of cases; `RTWIRE_CASES=20000` sets a larger one.
fn cases() -> u32 {
    std::env::var("RTWIRE_CASES").map_or(300, |count| count.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        feed(&text);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        feed(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn spoiled_examples(
        which in 0_usize..3,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..12, 0_usize..40), 1..6),
    ) {
        let mut text: Vec<char> = EXAMPLES[which].chars().collect();
        for (at, cut, word) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + cut).min(text.len());
            text.splice(at..end, WORDS[word].chars());
        }
        feed(&text.into_iter().collect::<String>());
    }

    #[test]
    fn extreme_quantities(
        rate in 0_u64..2_000_000_000_000, burst in 1_u64..10_000_000_000, den in 1_u64..1_000_000_000,
        interval in 1_u64..2_000_000_000_000, link in 1_u64..2_000_000_000_000,
    ) {
        let mut text = EXAMPLES[0].replace("30 Mbit/s", &format!("{rate}/{den} bit/s"));
        text = text.replace("rate = \"32 Mbit/s\"", &format!("rate = \"{rate} bit/s\"\nburst = \"{burst}/{den} bit\""));
        text = text.replace("\ninterval = \"1 ms\"", &format!("\ninterval = \"{interval} ns\""));
        text = text.replace("\"100 Mbit/s\"", &format!("\"{link} bit/s\""));
        feed(&text);
    }
}
