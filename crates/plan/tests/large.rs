//! Tests that large files, valid or faulty, take time in proportion to their size.
//!
//! No test here has a limit in seconds. Each reads a file and one of a quarter of its size. Four times the work of the
//! small one is right; sixteen times shows a loop within a loop.

use std::fmt::Write as _;

use rtwire_plan::{Faults, Network, read};

/// Returns the time for which this thread has used a core, in nanoseconds. Other programs do not count.
fn used_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn best_of_3(text: &str) -> u64 {
    let once = || {
        let before = used_ns();
        let shown = read(text, "large.toml", &[]).map_err(|faults| faults.to_string());
        let used = used_ns() - before;
        drop(shown);
        used
    };
    (0..3).map(|_| once()).min().unwrap()
}

/// Checks that four times the size takes at most nine times the work.
fn grows_with_its_size(make: impl Fn(usize) -> String, size: usize) -> Result<Network, Faults> {
    let (small, large) = (make(size / 4), make(size));
    let (of_small, of_large) = (best_of_3(&small), best_of_3(&large));
    println!(
        "{} bytes: {of_small} ns, {} bytes: {of_large} ns",
        small.len(),
        large.len()
    );
    assert!(
        of_large < 9 * of_small,
        "{} bytes take {of_small} ns, but {} bytes {of_large} ns",
        small.len(),
        large.len()
    );
    read(&large, "large.toml", &[])
}

/// Returns lines of tables and keys in no sensible order; the same ones for the same size.
fn random_tables(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        // Xorshift: any numbers will do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut text = String::new();
    while text.len() < bytes {
        let number = next() % 100_000_000;
        match next() % 9 {
            0 => text.push_str("[[host]]\n"),
            1 => text.push_str("[[stream]]\n"),
            2 => text.push_str("[[link]]\n"),
            3 => text.push_str("[network]\n"),
            4 => writeln!(text, "name = \"n{number}\"").unwrap(),
            5 => writeln!(text, "rate = {number}").unwrap(),
            6 => writeln!(text, "interval = \"{number}000000000000 ms\"").unwrap(),
            7 => writeln!(text, "key{} = 1", number % 1000).unwrap(),
            _ => text.push_str("x = [1,2,{a=1}]\n"),
        }
    }
    text
}

const HEAD: &str = "[network]\nname = \"large\"\n[defaults]\nlink-rate = \"1 Gbit/s\"\n";

fn switch(text: &mut String, name: &str) {
    writeln!(text, "[[switch]]\nname = \"{name}\"\nbuffer = \"64 KiB\"").unwrap();
}

fn host(text: &mut String, name: &str, at: &str) {
    writeln!(text, "[[host]]\nname = \"{name}\"").unwrap();
    link(text, name, at);
}

fn link(text: &mut String, a: &str, b: &str) {
    writeln!(text, "[[link]]\nends = [\"{a}\", \"{b}\"]").unwrap();
}

fn stream(text: &mut String, name: &str, talker: &str, listener: &str, more: &str) {
    writeln!(
        text,
        "[[stream]]\nname = \"{name}\"\ntalker = \"{talker}\"\nlisteners = [\"{listener}\"]\n\
         payload = \"64 B\"\ninterval = \"1 s\"\n{more}"
    )
    .unwrap();
}

/// Returns a star of `hosts` hosts, and a stream from every second one to its neighbour.
fn star(hosts: usize) -> String {
    let mut text = HEAD.to_owned();
    switch(&mut text, "s1");
    for index in 0..hosts {
        host(&mut text, &format!("h{index}"), "s1");
    }
    for index in (1..hosts).step_by(2) {
        let (from, to) = (format!("h{index}"), format!("h{}", index - 1));
        let name = format!("stream{index}");
        stream(&mut text, &name, &from, &to, "port = 1000");
    }
    text
}

/// Returns a tree in which every second node is a switch. Its routes are short; each host has a stream.
fn tree(hosts: usize) -> String {
    let mut text = HEAD.to_owned();
    for index in 0..hosts {
        switch(&mut text, &format!("s{index}"));
        host(&mut text, &format!("h{index}"), &format!("s{index}"));
        if index > 0 {
            link(
                &mut text,
                &format!("s{index}"),
                &format!("s{}", (index - 1) / 2),
            );
        }
    }
    for index in 1..hosts {
        let (name, from) = (format!("stream{index}"), format!("h{index}"));
        stream(&mut text, &name, &from, "h0", &format!("port = {index}"));
    }
    text
}

/// Returns a ring of switches, a host at each, and streams without a route.
fn ring(switches: usize) -> String {
    let mut text = HEAD.to_owned();
    for index in 0..switches {
        let name = format!("s{index}");
        switch(&mut text, &name);
        host(&mut text, &format!("h{index}"), &name);
        link(&mut text, &name, &format!("s{}", (index + 1) % switches));
    }
    for index in 1..switches {
        let (name, from) = (format!("stream{index}"), format!("h{index}"));
        let to = format!("h{}", index - 1);
        stream(&mut text, &name, &from, &to, "");
    }
    text
}

#[test]
fn a_megabyte_of_random_tables() {
    let faults = grows_with_its_size(random_tables, 1_000_000).unwrap_err();
    let count = faults.faults.len();
    assert!(count > 10_000, "{count} faults");
    let shown = faults.to_string();
    assert_eq!(shown.matches("large.toml:").count(), 20);
    let end = format!("\nand {} more\n\n{count} faults", count - 20);
    assert!(shown.ends_with(&end), "{}", &shown[shown.len() - 100..]);
}

#[test]
fn twenty_thousand_hosts_at_one_switch() {
    let network = grows_with_its_size(star, 20_000).unwrap();
    assert_eq!(
        (network.hosts.len(), network.streams.len()),
        (20_000, 10_000)
    );
    let routes = &network.streams[9_999].routes;
    assert_eq!(routes, &[["h19999", "s1", "h19998"]]);
}

#[test]
fn thousands_of_switches_in_a_tree() {
    let network = grows_with_its_size(tree, 4_000).unwrap();
    let routes = &network.streams[5].routes;
    assert_eq!(routes, &[["h6", "s6", "s2", "s0", "h0"]]);
}

#[test]
fn a_loop_of_thousands_of_switches() {
    let network = grows_with_its_size(ring, 4_000).unwrap();
    let routes = &network.streams[5].routes;
    assert_eq!(routes, &[["h6", "s6", "s5", "h5"]]);
}

#[test]
fn all_names_unknown() {
    let misspelt = |hosts| star(hosts).replace("\", \"s1\"]", "\", \"S1\"]");
    let faults = grows_with_its_size(misspelt, 8_000).unwrap_err();
    assert!(faults.faults.len() >= 8_000, "{}", faults.faults.len());
    let first = &faults.faults[0];
    assert_eq!(first.help.as_deref(), Some("did you mean \"s1\"?"));
    let strangers = |hosts| star(hosts).replace("talker = \"h", "talker = \"g");
    let faults = grows_with_its_size(strangers, 8_000).unwrap_err();
    assert_eq!(faults.faults.len(), 4_000);
}

#[test]
fn all_ports_taken() {
    let one_listener = |streams| {
        let mut text = star(4);
        for index in 0..streams {
            stream(&mut text, &format!("more{index}"), "h1", "h2", "port = 9");
        }
        text
    };
    let faults = grows_with_its_size(one_listener, 8_000).unwrap_err();
    assert_eq!(faults.faults.len(), 7_999);
    let help = faults.faults[0].help.as_deref();
    assert_eq!(help, Some("1001 is free"));
}

#[test]
fn all_faults_in_one_line() {
    let one_line = |count: usize| format!("host = [{}]\n", "{x=1},".repeat(count));
    let faults = grows_with_its_size(one_line, 40_000).unwrap_err();
    assert_eq!(faults.faults.len(), 2 + 2 * 40_000);
    let last = faults.faults.last().unwrap();
    assert_eq!(last.message, "unknown key `x` in [[host]]");
    assert_eq!((last.line, last.column), (1, 10 + 6 * 39_999));
}

#[test]
fn a_receiver_list_of_thousands() {
    let one_stream = |hosts: usize| {
        let mut text = star(2);
        let mut names = Vec::new();
        for index in 2..hosts {
            host(&mut text, &format!("h{index}"), "s1");
            names.push(format!("\"h{index}\""));
        }
        writeln!(
            text,
            "[[stream]]\nname = \"all\"\ntalker = \"h0\"\nlisteners = [{}]\npayload = \"64 B\"\ninterval = \"1 s\"",
            names.join(", ")
        )
        .unwrap();
        text
    };
    // So large that the small file does not fit into the processor's caches either: they alone would make a difference.
    let network = grows_with_its_size(one_stream, 16_000).unwrap();
    assert_eq!(network.streams[1].listeners.len(), 15_998);
}
