//! A PubSub network in which something is wrong: publishers that stop, restart, flood; wrong keys, replays, strangers,
//! other versions. Each fault is counted, none becomes a value, and readers recover by themselves.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod pubsub_common;

use pubsub_common::*;
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, WakeUp};
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_testkit::{NetnsPair, Side, require};
use std::time::Duration;

const QUICK: &str = "profile = \"fixed\"\ninterval = \"2 ms\"\nreceive-timeout = \"300 ms\"\n";

/// Records frames at `side` until there are `wanted`.
fn record(side: &Side, wanted: usize, ready: impl FnOnce() + Send) -> Vec<Vec<u8>> {
    side.run(|| {
        let config = ReceiverConfig {
            interface: side.interface.clone(),
            wake_up: WakeUp::Block,
            queue_frames: 1024,
            stamps: false,
            one_by_one: false,
        };
        let all = Filter::new(&[Instruction::Accept]).unwrap();
        let mut receiver = Receiver::frames(&config, 0xb62c, &all).unwrap();
        ready();
        let mut frames = Vec::new();
        while frames.len() < wanted {
            assert!(
                receiver.wait(Some(Duration::from_secs(30))).unwrap(),
                "{}",
                frames.len()
            );
            frames.push(receiver.peek().unwrap().data.to_vec());
            receiver.release();
        }
        frames
    })
}

fn send(side: &Side, frames: &[Vec<u8>]) {
    side.run(|| {
        let mut sender = Sender::frames(&SenderConfig::new(&side.interface)).unwrap();
        for frame in frames {
            sender.send(frame).unwrap();
        }
    });
}

#[test]
fn a_publisher_that_stops_is_noticed_and_its_return_too() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let file = folder.write("project.toml", &project(ETHERNET, QUICK, ""));
    let mut subscriber = start(&pair.b, "subscribe", &file, &["--values", "--json"]);
    for round in 0..3 {
        let publisher = start(&pair.a, "publish", &file, &["--json"]);
        // It begins anew with the number 0, and is taken at once behind a timeout.
        subscriber.until("up = 20,");
        publisher.kill();
        if round < 2 {
            std::thread::sleep(Duration::from_millis(700));
        }
    }
    let (_, report) = subscriber.stop();
    let reader = reader(&report);
    assert!(count(reader, "timeouts") >= 2, "{report}");
    assert_eq!(count(reader, "recoveries"), 2, "{report}");
    assert_eq!(count(reader, "lost"), 0, "{report}");
}

#[test]
fn a_publisher_that_restarts_quickly_is_taken_after_three_messages() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let group = "profile = \"fixed\"\ninterval = \"2 ms\"\nreceive-timeout = \"60 s\"\n";
    let file = folder.write("project.toml", &project(ETHERNET, group, ""));
    let mut subscriber = start(&pair.b, "subscribe", &file, &["--values", "--json"]);
    for _ in 0..2 {
        let publisher = start(&pair.a, "publish", &file, &["--json"]);
        subscriber.until("up = 100,");
        publisher.kill();
    }
    let (_, report) = subscriber.stop();
    let reader = reader(&report);
    assert_eq!(
        (count(reader, "restarts"), count(reader, "old")),
        (1, 2),
        "{report}"
    );
    assert_eq!(count(reader, "timeouts"), 0, "{report}");
}

#[test]
fn strangers_other_versions_and_rubbish_are_counted_and_never_read() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let text = project(ETHERNET, QUICK, "");
    let file = folder.write("project.toml", &text);
    let subscriber = start(&pair.b, "subscribe", &file, &["--json"]);
    for (name, from, to) in [
        ("foreign", "publisher-id = 2234", "publisher-id = 2235"),
        (
            "foreign",
            "publisher-id = 2234",
            "publisher-id = 2234\npublisher-id-type = \"UInt32\"",
        ),
        ("foreign", "id = 100", "id = 101"),
        ("other_versions", "id = 100\n", "id = 100\nversion = 9\n"),
    ] {
        let other = text.replacen(from, to, 1);
        assert_ne!(other, text, "{name}");
        let other = folder.write("other.toml", &other);
        let output = run(&pair.a, "publish", &other, &["--cycles", "10"]);
        assert_eq!(output.status.code(), Some(0));
    }
    // Every truncation of a good frame, and bytes without a meaning.
    let good = record(&pair.b, 1, || {
        assert!(
            run(&pair.a, "publish", &file, &["--cycles", "1"])
                .status
                .success()
        );
    })
    .remove(0);
    let short: Vec<Vec<u8>> = (15..good.len())
        .map(|length| good[..length].to_vec())
        .collect();
    send(&pair.a, &short);
    let mut noise = good[..14].to_vec();
    noise.extend((0..200).map(|at: u32| (at * 167 + 13) as u8));
    send(&pair.a, &[noise]);
    // Behind all of it a good one still arrives.
    let (_, published) = start(&pair.a, "publish", &file, &["--cycles", "30", "--json"]).end();
    assert_eq!(count(&published, "frames"), 30);
    let (_, report) = subscriber.stop();
    let group = &report["groups"][0];
    assert!(count(group, "foreign") >= 30, "{report}");
    assert_eq!(count(group, "other_versions"), 10, "{report}");
    assert!(count(group, "malformed") > 20, "{report}");
    // The one that was recorded, and 30: the second publisher began anew, so two were old or one a duplicate.
    let taken = count(reader(&report), "taken");
    assert!((28..=31).contains(&taken), "{report}");
}

#[test]
fn wrong_keys_and_replays_are_refused_and_the_switch_accepts_old_publishers() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    folder.keys("a.keys", &[7], 0);
    folder.keys("wrong.keys", &[7], 0x55);
    let group = |keys: &str, more: &str| {
        let security = secured("sign-and-encrypt", keys, more);
        project(ETHERNET, &format!("{QUICK}{security}"), "")
    };
    let file = folder.write("a.toml", &group("a.keys", ""));
    let wrong = folder.write("wrong.toml", &group("wrong.keys", ""));
    let open = folder.write("open.toml", &project(ETHERNET, QUICK, ""));
    let old = "accept-repeated-nonces = true\n";
    let lenient = folder.write("lenient.toml", &group("a.keys", old));

    let frames = record(&pair.b, 20, || {
        assert!(
            run(&pair.a, "publish", &file, &["--cycles", "20"])
                .status
                .success()
        );
    });
    let strict = start(&pair.b, "subscribe", &file, &["--json"]);
    let switched = start(&pair.b, "subscribe", &lenient, &["--json"]);
    assert!(
        run(&pair.a, "publish", &wrong, &["--cycles", "10"])
            .status
            .success()
    );
    assert!(
        run(&pair.a, "publish", &open, &["--cycles", "10"])
            .status
            .success()
    );
    send(&pair.a, &frames);
    send(&pair.a, &frames);
    let (_, report) = strict.stop();
    let group = &report["groups"][0];
    assert_eq!(count(group, "refused"), 20, "{report}");
    assert_eq!(count(group, "replays"), 20, "{report}");
    assert_eq!(count(reader(&report), "taken"), 20, "{report}");
    let (_, report) = switched.stop();
    let group = &report["groups"][0];
    assert_eq!(
        (count(group, "replays"), count(group, "refused")),
        (0, 20),
        "{report}"
    );
    assert_eq!(count(group, "messages"), 40, "{report}");
}

#[test]
fn a_nonce_never_comes_twice_over_restarts_and_a_key_change_loses_nothing() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    folder.keys("a.keys", &[7], 0);
    let security = secured("sign-and-encrypt", "a.keys", "");
    let text = project(ETHERNET, &format!("{QUICK}{security}"), "");
    let file = folder.write("a.toml", &text);
    let mut nonces = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let frames = record(&pair.b, 20, || {
            assert!(
                run(&pair.a, "publish", &file, &["--cycles", "20"])
                    .status
                    .success()
            );
        });
        for frame in frames {
            // Ethernet 14, flags and id 4, group header 11, security flags, token and length 6, random 4.
            let counter: [u8; 4] = frame[39..43].try_into().unwrap();
            assert!(nonces.insert(u32::from_le_bytes(counter)), "{counter:?}");
        }
    }
    let mut subscriber = start(&pair.b, "subscribe", &file, &["--values", "--json"]);
    let publisher = start(&pair.a, "publish", &file, &["--json"]);
    subscriber.until("up = 50,");
    // First everybody knows the new key, then the publisher uses it, then the old one goes.
    for tokens in [&[7, 8][..], &[8, 7], &[8]] {
        folder.keys("a.keys", tokens, 0);
        let line = subscriber.line();
        let up: i64 = line
            .split("up = ")
            .nth(1)
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        subscriber.until(&format!("up = {},", up + 150));
    }
    let (_, published) = publisher.stop();
    assert_eq!(count(&published["groups"][0], "faults"), 0, "{published}");
    let (_, report) = subscriber.stop();
    assert_eq!(count(reader(&report), "lost"), 0, "{report}");
    assert_eq!(count(&report["groups"][0], "refused"), 0, "{report}");
}

#[test]
fn keep_alives_keep_a_reader_alive() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let group = "profile = \"dynamic\"\ninterval = \"2 ms\"\nkeep-alive = \"20 ms\"\nreceive-timeout = \"400 ms\"\n";
    let text = project(ETHERNET, group, "key-frame-count = 100000\n")
        .replace("\"counter\"", "5")
        .replace("\"negative-counter\"", "6");
    let file = folder.write("project.toml", &text);
    let subscriber = start(&pair.b, "subscribe", &file, &["--json"]);
    let (_, published) = start(&pair.a, "publish", &file, &["--duration", "1s", "--json"]).end();
    let (_, report) = subscriber.stop();
    let group = &published["groups"][0];
    assert_eq!(
        (count(group, "key_frames"), count(group, "delta_frames")),
        (1, 0),
        "{published}"
    );
    let reader = reader(&report);
    assert_eq!(
        (count(reader, "taken"), count(reader, "lost")),
        (1, 0),
        "{report}"
    );
    assert!(count(reader, "keep_alives") >= 20, "{report}");
    assert_eq!(count(reader, "recoveries"), 0, "{report}");
}

#[test]
fn a_flood_of_strangers_hides_no_message_of_the_publisher() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let text = project(ETHERNET, QUICK, "");
    let file = folder.write("project.toml", &text);
    let other = folder.write("other.toml", &text.replace("id = 2234", "id = 9"));
    let foreign = record(&pair.b, 20, || {
        assert!(
            run(&pair.a, "publish", &other, &["--cycles", "20"])
                .status
                .success()
        );
    });
    // Without the values: nobody reads them here, and a full pipe would hold the subscriber up.
    let subscriber = start(&pair.b, "subscribe", &file, &["--json"]);
    let publisher = start(&pair.a, "publish", &file, &["--json"]);
    for _ in 0..200 {
        send(&pair.a, &foreign);
    }
    publisher.stop();
    let (_, report) = subscriber.stop();
    assert_eq!(
        count(&report["groups"][0], "foreign") + count(&report, "dropped"),
        4_000,
        "{report}"
    );
    assert_eq!(count(reader(&report), "lost"), 0, "{report}");
}

/// The whole process stands still for longer than its queue reaches and its receive timeout allows.
#[test]
fn a_subscriber_that_stood_still_recovers_by_itself_and_accounts_for_every_message() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let folder = Folder::new();
    let text = project(ETHERNET, &QUICK.replace("2 ms", "1 ms"), "");
    let file = folder.write("project.toml", &text);
    let arguments = ["--values", "--json", "--duration", "60s"];
    let mut subscriber = start(&pair.b, "subscribe", &file, &arguments);
    let publisher = start(&pair.a, "publish", &file, &["--json"]);
    let up = |line: String| -> u64 {
        let rest = line.split("up = ").nth(1).unwrap();
        rest.split([',', '\n']).next().unwrap().parse().unwrap()
    };
    // Three times what the subscriber's queue in the kernel holds. A machine that stalls publishes fewer in a given time.
    const PUBLISHED: u64 = 3 * 1_024;
    let before = up(subscriber.until("up = "));
    subscriber.signal("STOP");
    let published = pair.a.frames_sent() + PUBLISHED;
    while pair.a.frames_sent() < published {
        std::thread::sleep(Duration::from_millis(50));
    }
    subscriber.signal("CONT");
    // What was published behind the stall arrives.
    while up(subscriber.until("up = ")) < before + PUBLISHED + 500 {}
    let (_, report) = subscriber.stop();
    publisher.stop();
    let reader = reader(&report);
    assert_eq!(reader["state"], "Operational", "{report}");
    assert_eq!(
        count(reader, "timeouts"),
        count(reader, "recoveries"),
        "{report}"
    );
    // Lost in this host, and nowhere else.
    let (lost, dropped) = (count(reader, "lost"), count(&report, "dropped"));
    assert!(lost > 0 && lost <= dropped, "{report}");
    for name in ["duplicates", "old", "restarts", "malformed"] {
        assert_eq!(count(reader, name), 0, "{name}: {report}");
    }
}
