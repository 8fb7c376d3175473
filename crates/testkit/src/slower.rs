//! Networks that a machine which stands still now and then can keep, too.

/// Factors of the intervals of a network, one for each run of a test that requires a good verdict.
///
/// A host whose processors are taken away for longer than an interval skips cycles. That run is rightly inconclusive,
/// and on a machine that does it all the time each one is. So the last runs have longer intervals than such a machine
/// stands still: none was seen above 35 ms. One of the runs has to be called good.
pub const SLOWER: [u32; 7] = [1, 1, 1, 1, 1, 40, 40];

/// Returns a description with each interval of whole milliseconds `factor` times as long.
#[must_use]
pub fn slowed(network: &str, factor: u32) -> String {
    let line = |line: &str| {
        let number = line
            .strip_prefix("interval = \"")
            .and_then(|rest| rest.strip_suffix(" ms\""))
            .and_then(|number| number.parse::<u32>().ok());
        number.map_or_else(
            || format!("{line}\n"),
            |number| format!("interval = \"{} ms\"\n", number * factor),
        )
    };
    network.lines().map(line).collect()
}
