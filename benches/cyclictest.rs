//! cyclictest (rt-tests): how late a thread wakes, which no sleeping sender can beat.

use std::process::{Command, Stdio};

/// Runs cyclictest for some seconds at FIFO 80. Returns p50, p99, p99.9 and the largest wake-up latency in µs; `None` if
/// the program is missing.
#[must_use]
pub fn cyclictest(interval_us: u64, seconds: u64) -> Option<[f64; 4]> {
    let output = Command::new("cyclictest")
        .args(["-q", "-p", "80", "-t", "1", "-m", "-h", "50000"])
        .args(["-i", &interval_us.to_string()])
        .args(["-D", &seconds.max(1).to_string()])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    histogram(&String::from_utf8_lossy(&output.stdout))
}

/// Reads lines of latency and count; other lines begin with `#`.
fn histogram(text: &str) -> Option<[f64; 4]> {
    let bars: Vec<(u64, u64)> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with('/'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    let total: u64 = bars.iter().map(|(_, count)| count).sum();
    let last = text.lines().find_map(|line| {
        let line = line.strip_prefix("# Max Latencies:")?;
        line.trim().parse::<u64>().ok()
    });
    let at = |permille: u64| {
        let rank = (total * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        let bar = bars.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        bar.map(|(us, _)| *us as f64)
    };
    Some([at(500)?, at(990)?, at(999)?, last? as f64])
}
