//! `rtwire deploy` and `check` with the doors of three real hosts: all of them have the plan, or none. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "deploy_common/mod.rs"]
mod deploy_common;
#[path = "deploy_command/switches.rs"]
mod switches;
#[path = "yang_common/mod.rs"]
mod yang_common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use deploy_common::{HOSTS, NETWORK, PORT, Room, code, said, started, until};
use rtwire_testkit::{require, tc};

/// A cable in front of a door that hands `replies` replies on. The next one is lost: the line is cut, or stays silent.
/// Returns its port, and a channel that tells when that happened.
fn cable(room: &Room, replies: usize, cuts: bool) -> (u16, Receiver<()>) {
    const HELLO: usize = 69;
    const MAC: usize = 32;
    let side = &room.star.stations[2];
    let listener = side.run(|| TcpListener::bind((side.address, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let (namespace, address) = (
        side.namespace.clone(),
        SocketAddr::from((side.address, PORT)),
    );
    let (sender, happened) = channel();
    thread::spawn(move || {
        rtwire_sys::netns::enter(&namespace).unwrap();
        let (mut deployer, _) = listener.accept().unwrap();
        let mut door = TcpStream::connect(address).unwrap();
        let (mut from, mut to) = (deployer.try_clone().unwrap(), door.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            // The deployer is gone: so is its line.
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
        let mut hello = [0; HELLO];
        door.read_exact(&mut hello).unwrap();
        deployer.write_all(&hello).unwrap();
        for _ in 0..replies {
            deployer.write_all(&message(&mut door, MAC)).unwrap();
        }
        // The host has carried the order out, and its reply is lost.
        message(&mut door, MAC);
        sender.send(()).unwrap();
        match cuts {
            true => deployer.shutdown(std::net::Shutdown::Both).unwrap(),
            false => thread::sleep(Duration::from_secs(60)),
        }
    });
    (port, happened)
}

fn message(stream: &mut TcpStream, mac: usize) -> Vec<u8> {
    let mut all = vec![0; 4];
    stream.read_exact(&mut all).unwrap();
    let length = u32::from_be_bytes([all[0], all[1], all[2], all[3]]) as usize;
    let mut rest = vec![0; length + mac];
    stream.read_exact(&mut rest).unwrap();
    all.extend(rest);
    all
}

#[test]
fn all_hosts_have_the_plan_and_drift_is_named() {
    require!(root, program "ip", program "tc", program "nsenter");
    let room = Room::new();
    let _doors = room.doors();
    let before = room.queues();
    let none = room.asked("check", "plan.json", &[]);
    code(&none, 1);
    for host in HOSTS {
        assert!(
            said(&none).contains(&format!("{host}: differs  no plan was deployed here")),
            "{}",
            said(&none)
        );
    }
    let dry = room.asked("deploy", "plan.json", &["--dry-run"]);
    code(&dry, 0);
    assert!(said(&dry).contains("b: would change"), "{}", said(&dry));
    assert_eq!(room.queues(), before, "a dry run changes nothing");

    let done = room.asked("deploy", "plan.json", &["--confirm-within", "3s"]);
    code(&done, 0);
    assert!(
        said(&done).contains("deployed on 3 hosts"),
        "{}",
        said(&done)
    );
    let deployed = room.queues();
    assert!(
        deployed.iter().all(|queues| queues.contains("htb")),
        "{deployed:#?}"
    );
    // It stays when the time of the guardians is over.
    thread::sleep(Duration::from_millis(3_700));
    assert_eq!(room.queues(), deployed);
    code(&room.asked("check", "plan.json", &[]), 0);
    // The same once more changes nothing.
    code(&room.asked("deploy", "plan.json", &[]), 0);
    assert_eq!(room.queues(), deployed);

    tc(&room.star.stations[1].namespace, "qdisc del dev rtws root");
    let drift = room.asked("check", "plan.json", &[]);
    code(&drift, 1);
    assert!(
        said(&drift).contains("not as planned: b\n"),
        "{}",
        said(&drift)
    );
    assert!(said(&drift).contains("b: differs"), "{}", said(&drift));
    code(&room.asked("deploy", "plan.json", &[]), 0);
    code(&room.asked("check", "plan.json", &[]), 0);

    // Another plan in its place: lost halfway, the deployed one comes back; then it takes its place.
    let first = room.queues();
    room.plan("other", &NETWORK.replace("20 Mbit/s", "30 Mbit/s"));
    let (port, _happened) = cable(&room, 2, true);
    let lost = room
        .verb("deploy", "other.json", port, &["--confirm-within", "2s"])
        .output()
        .unwrap();
    code(&lost, 1);
    assert_ne!(room.queues(), first);
    room.until_queues_are(&first);
    until("the deployed plan", || {
        room.asked("check", "plan.json", &[]).status.code() == Some(0)
    });
    code(&room.asked("deploy", "other.json", &[]), 0);
    assert_ne!(room.queues(), first);
    code(&room.asked("check", "plan.json", &[]), 1);
    code(&room.asked("deploy", "plan.json", &[]), 0);
    assert_eq!(room.queues(), first);
}

#[test]
fn a_host_that_cannot_have_the_plan_keeps_all_from_it() {
    require!(root, program "ip", program "tc", program "nsenter");
    let room = Room::new();
    let with = "--isolation none --fallback --no-sync";
    // The host `c` is told to use a queue that this kernel does not have, and to take nothing less.
    let _doors = [
        room.door("a", with),
        room.door("b", with),
        room.door("c", "--isolation none --queues taprio --no-sync"),
    ];
    let before = room.queues();
    let refused = room.asked("deploy", "plan.json", &[]);
    code(&refused, 1);
    assert!(
        said(&refused).contains("c cannot have this plan; no host has changed anything"),
        "{}",
        said(&refused)
    );
    assert_eq!(room.queues(), before);
}

/// The reply of one host is lost after it has applied the plan: nobody keeps it.
#[test]
fn a_host_that_goes_silent_leaves_all_as_they_were() {
    require!(root, program "ip", program "tc", program "nsenter");
    let room = Room::new();
    let _doors = room.doors();
    let before = room.queues();
    // Ready and show are answered.
    let (port, _happened) = cable(&room, 2, true);
    let lost = room
        .verb("deploy", "plan.json", port, &["--confirm-within", "3s"])
        .output()
        .unwrap();
    code(&lost, 1);
    assert!(
        said(&lost).contains("c did not apply; each host puts its settings back within 3 s"),
        "{}",
        said(&lost)
    );
    room.until_queues_are(&before);
    let unlike = room.asked("check", "plan.json", &[]);
    code(&unlike, 1);
}

/// The deployer is killed when all hosts have applied the plan.
#[test]
fn a_deployer_that_dies_leaves_all_as_they_were() {
    require!(root, program "ip", program "tc", program "nsenter");
    let room = Room::new();
    let _doors = room.doors();
    let before = room.queues();
    let (port, happened) = cable(&room, 2, false);
    let mut deployer =
        started(&mut room.verb("deploy", "plan.json", port, &["--confirm-within", "4s"]));
    happened.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_ne!(room.queues(), before, "it was applied");
    deployer.child.kill().unwrap();
    room.until_queues_are(&before);
    // The line of a dead deployer is no deployer at work.
    code(&room.asked("deploy", "plan.json", &[]), 0);
}

#[test]
fn only_a_holder_of_the_key_deploys() {
    require!(root, program "ip", program "nsenter");
    let room = Room::new();
    let doors = room.doors();
    let made = room.rtwire(&["manager", "keygen", "others", "a", "b", "c"]);
    code(&made, 0);
    fs::rename(room.path("others/b.key"), room.path("foreign.key")).unwrap();
    let own = fs::read(room.path("keys/b.key")).unwrap();
    fs::copy(room.path("foreign.key"), room.path("others/b.key")).unwrap();
    for host in ["a", "c"] {
        fs::copy(
            room.path(&format!("keys/{host}.key")),
            room.path(&format!("others/{host}.key")),
        )
        .unwrap();
    }
    let mut command = room.on("a");
    command.args(["deploy", "plan.json", "--keys", "others"]);
    for host in HOSTS {
        command.args(["--door", &format!("{host}={}:{PORT}", room.address(host))]);
    }
    let refused = command.output().unwrap();
    code(&refused, 3);
    assert!(said(&refused).contains("host \"b\""), "{}", said(&refused));
    assert!(
        said(&refused).contains("not of a holder of its key"),
        "{}",
        said(&refused)
    );
    assert_eq!(fs::read(room.path("keys/b.key")).unwrap(), own);

    // Bytes that are no deployer's, and a host too few.
    let mut stream =
        room.star.stations[0].run(|| TcpStream::connect((room.address("b"), PORT)).unwrap());
    stream.write_all(&[7; 200]).unwrap();
    let told = doors[1]
        .lines
        .recv_timeout(Duration::from_secs(10))
        .unwrap();
    assert!(
        told.contains("does not have the key of this host"),
        "{told}"
    );
    // A door ends at once, also with a line open.
    let _open =
        room.star.stations[0].run(|| TcpStream::connect((room.address("c"), PORT)).unwrap());
    let mut c = doors.into_iter().nth(2).unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(c.child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let end = Instant::now() + Duration::from_secs(3);
    while c.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "the door stays");
        thread::sleep(Duration::from_millis(20));
    }
    let few = room.rtwire(&[
        "check",
        "plan.json",
        "--keys",
        "keys",
        "--door",
        &format!("a={}:{PORT}", room.address("a")),
    ]);
    code(&few, 2);
    assert!(
        said(&few).contains("host \"b\" has no door"),
        "{}",
        said(&few)
    );
    let typo = room.rtwire(&[
        "check",
        "plan.json",
        "--keys",
        "keys",
        "--door",
        "aa=10.78.0.1:1",
    ]);
    code(&typo, 2);
    assert!(
        said(&typo).contains("the plan has no such host; it has a, b, c"),
        "{}",
        said(&typo)
    );
}
