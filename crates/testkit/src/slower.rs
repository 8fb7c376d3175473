//! Networks that a machine which stands still now and then can keep, too.

/// Factors of the intervals of a network, one for each run of a test that requires a good verdict.
///
/// A host whose processors are taken away for longer than an interval skips cycles. That run is rightly inconclusive,
/// and on a machine that does it all the time each one is. So the last runs have longer intervals than such a machine
/// stands still: none was seen above 35 ms. One of the runs has to be called good.
pub const SLOWER: [u32; 7] = [1, 1, 1, 1, 1, 40, 40];

/// The lateness that the slower networks allow to hosts and switches.
const SLOW_MACHINE: &str = "\"100 ms\"";

/// Returns a description with each interval of whole milliseconds `factor` times as long. With a factor above 1 hosts and
/// switches may also be as late as a machine that stands still; with 1 the description stays as it is.
///
/// # Panics
/// The description has no interval of whole milliseconds, so that it would stay as fast as it is.
#[must_use]
pub fn slowed(network: &str, factor: u32) -> String {
    let mut changed = 0;
    let line = |line: &str| {
        let (key, value) = line.split_once(" = ").unwrap_or((line, ""));
        let ms = || value.strip_prefix('"')?.strip_suffix(" ms\"")?.parse().ok();
        match (key, ms()) {
            ("tick-error" | "latency", _) if factor > 1 => format!("{key} = {SLOW_MACHINE}\n"),
            ("interval", Some::<u32>(ms)) => {
                changed += 1;
                format!("interval = \"{} ms\"\n", ms * factor)
            }
            _ => format!("{line}\n"),
        }
    };
    let slow = network.lines().map(line).collect();
    assert!(
        changed > 0,
        "no interval of whole milliseconds to slow down"
    );
    slow
}

#[cfg(test)]
mod tests {
    use super::slowed;

    const FAST: &str = "tick-error = \"5 ms\"\nlatency = \"2 ms\"\ninterval = \"3 ms\"\n";

    #[test]
    fn a_fast_run_has_the_network_as_it_is_and_a_slow_one_has_room_for_a_slow_machine() {
        assert_eq!(slowed(FAST, 1), FAST);
        assert_eq!(
            slowed(FAST, 40),
            "tick-error = \"100 ms\"\nlatency = \"100 ms\"\ninterval = \"120 ms\"\n"
        );
    }

    #[test]
    #[should_panic(expected = "no interval of whole milliseconds")]
    fn a_network_that_it_cannot_slow_down_is_said() {
        let _ = slowed("interval = \"500 us\"\n", 40);
    }
}
