//! The kernel's own listing of a whole namespace, as `ip`, `tc`, `ethtool` and `/proc/sys` show it. Each program is called once for all that
//! it has to say: in a guest of the kernel lab, starting a program takes longer than what it does.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{Bench, same};

/// Addresses, routes and flags: they change by themselves for a while after a link came up. Routes are those of both families.
const LIVELY: &str = "link\naddress\nrule\nroute show table all\n";

/// Neighbours, which `ip` shows in an order of their own.
const NEIGHBOURS: &str = "neigh show nud permanent\nneigh show proxy\n";

/// The settings of links and of their neighbours.
const SETTINGS: [&str; 4] = ["ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh"];

/// Returns true in a guest of the kernel lab.
pub(crate) fn in_the_lab() -> bool {
    std::env::var_os("RTWIRE_VM").is_some()
}

/// Returns the time that the kernel has to settle: `usual`, or longer in a guest.
fn patience(usual: Duration) -> Duration {
    if in_the_lab() {
        Duration::from_secs(90)
    } else {
        usual
    }
}

/// Waits until the next look: longer in a guest, where a look takes the time of those that run beside it.
fn pause() {
    thread::sleep(Duration::from_millis(if in_the_lab() { 400 } else { 150 }));
}

/// Returns all that a person can see of the namespace, without what changes by itself: counters, ages, the order of neighbours.
pub(crate) fn whole(bench: &Bench) -> String {
    let lively = lively(bench);
    let steady = steady(bench, &lively);
    plain(&lively) + &steady
}

fn lively(bench: &Bench) -> String {
    let text = bench.succeeds("ip", &["-d", "-o", "-batch", "-"], LIVELY);
    // Routes of IPv6 carry a preference, and come in any order.
    let (mut ordered, mut others) = (String::new(), Vec::new());
    for line in text.lines() {
        if line.contains(" pref ") {
            others.push(line);
        } else {
            let _ = writeln!(ordered, "{line}");
        }
    }
    others.sort_unstable();
    ordered + &others.join("\n") + "\n"
}

fn steady(bench: &Bench, lively: &str) -> String {
    let neighbours = bench.succeeds("ip", &["-d", "-o", "-batch", "-"], NEIGHBOURS);
    let mut neighbours: Vec<&str> = neighbours.lines().collect();
    neighbours.sort_unstable();
    let mut queues = String::new();
    for link in links(lively) {
        let _ = write!(
            queues,
            "qdisc show dev {link}\nclass show dev {link}\nfilter show dev {link}\n"
        );
    }
    // `tc` complains about an interface without queues, and goes on.
    let queues = bench.run("tc", &["-d", "-force", "-batch", "-"], &queues);
    let queues = String::from_utf8_lossy(&queues.stdout);
    // The classes of these are flows that have had frames of late, by numbers that the kernel draws.
    let set = |line: &&str| !line.starts_with("class fq_codel ") && !line.starts_with("class sfq ");
    let queues: Vec<&str> = queues.lines().filter(set).collect();
    let queues = queues.join("\n");
    let features = bench.succeeds("ethtool", &["-k", "*"], "");
    let settings = bench.pair.a.run(settings);
    plain(&format!(
        "{}\n{queues}\n{features}{settings}",
        neighbours.join("\n")
    ))
}

/// Returns the names of the links in a listing of one line each: `2: rtwv@rtwa: <BROADCAST…`.
fn links(listing: &str) -> Vec<&str> {
    let mut links = Vec::new();
    for line in listing.lines() {
        let mut words = line.split(": ");
        if let (Some(_), Some(name), Some(flags)) = (words.next(), words.next(), words.next()) {
            if flags.starts_with('<') {
                links.push(name.split('@').next().unwrap_or(name));
            }
        }
    }
    links
}

/// Lists the settings of the calling thread's namespace, with the error in place of what cannot be read.
fn settings() -> String {
    let mut text = String::new();
    for folder in SETTINGS {
        settings_below(&Path::new("/proc/sys/net").join(folder), &mut text);
    }
    text
}

fn settings_below(folder: &Path, text: &mut String) {
    let Ok(entries) = fs::read_dir(folder) else {
        let _ = writeln!(text, "{} is missing", folder.display());
        return;
    };
    let mut entries: Vec<_> = entries.map(|entry| entry.unwrap()).collect();
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            settings_below(&path, text);
        } else {
            let value = fs::read_to_string(&path).unwrap_or_else(|error| error.to_string());
            let _ = writeln!(text, "{} = {}", path.display(), value.trim_end());
        }
    }
}

/// Returns a listing without numbers that count or age, and without the word for an address that is being probed.
fn plain(listing: &str) -> String {
    let text = listing.replace(" tentative", "");
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words: Vec<&str> = Vec::new();
        let mut all = line.split(' ').peekable();
        while let Some(word) = all.next() {
            // A number that counts or ages follows.
            if [
                "direct_packets_stat",
                "valid_lft",
                "preferred_lft",
                "expires",
            ]
            .contains(&word)
            {
                all.next();
            } else {
                words.push(word);
            }
        }
        plain.push_str(&words.join(" "));
        plain.push('\n');
    }
    plain
}

/// Waits until what changes by itself stays the same, and returns the whole listing.
pub(crate) fn settled(bench: &Bench) -> String {
    let limit = patience(Duration::from_secs(20));
    let (mut last, end) = (String::new(), Instant::now() + limit);
    let mut times = 0;
    loop {
        let text = lively(bench);
        let probed = !text.contains("tentative");
        let now = plain(&text);
        times = if now == last && probed { times + 1 } else { 0 };
        if times >= 3 {
            return now + &steady(bench, &text);
        }
        if Instant::now() > end {
            same(&now, &last, "it never settles");
            panic!("it never settles: its addresses are probed for ever");
        }
        last = now;
        pause();
    }
}

/// Waits until the namespace is what it was before; fails with the lines that differ.
pub(crate) fn comes_back_to(bench: &Bench, before: &str, context: &str) {
    let end = Instant::now() + patience(Duration::from_secs(10));
    loop {
        // The rest is asked for once the routes and addresses are there again.
        let lively = lively(bench);
        let now = plain(&lively);
        let late = Instant::now() >= end;
        if late || before.starts_with(&now) {
            let now = now + &steady(bench, &lively);
            if late || now == before {
                return same(&now, before, context);
            }
        }
        pause();
    }
}
