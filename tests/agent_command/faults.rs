//! What is left when a program, an agent or the manager is killed; and faulty arguments.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rtwire_agent::ClientError;
use rtwire_testkit::{ip, require};

use crate::flood;
use crate::room::{BINARY, Room, Running, text, until, wish};

const NONE: [u64; 0] = [];
/// The longest time of a flood that ends with its test.
const FLOOD: Duration = Duration::from_secs(25);

#[test]
fn a_killed_program_gives_its_connection_back_and_costs_others_nothing() {
    require!(root, program "ip");
    let room = Room::new();
    let manager = room.manager();
    let _agent = room.agent("press");
    let mut other = room.client("press");
    let (kept, socket) = other.reserve(wish()).unwrap();

    let mut command = room.at("press", BINARY);
    command.args([
        "channel", "send", "--to", "office", "--rate", "8 Mbit/s", "--frame", "1000 B", "--agent",
    ]);
    command
        .arg(room.socket("press"))
        .args(["--", "sleep", "60"]);
    let program = Running::start(command.stderr(std::process::Stdio::null()));
    until("both connections", || room.connections("press").len() == 2);
    program.kill();
    until("the killed one's is back", || {
        room.connections("press") == [kept.connection]
    });
    let before = room.left_bytes("press");
    flood(&socket, 900, Duration::from_secs(1));
    let left = room.left_bytes("press") - before;
    assert!((700_000..1_200_000).contains(&left), "{left}");

    // A program that is refused has the reason, and keeps its other connections.
    let own = other.release(kept.connection + 7).unwrap_err().to_string();
    assert!(own.contains("has no connection"), "{own}");
    other.release(kept.connection).unwrap();
    assert_eq!(room.connections("press"), NONE);
    has_no_rights(&room, manager, &socket);
}

#[test]
fn limits_outlive_a_killed_agent_and_the_next_one_clears_up() {
    require!(root, program "ip");
    let room = Room::new();
    let manager = room.manager();
    let agent = room.agent("press");
    let mut client = room.client("press");
    let (first, socket) = client.reserve(wish()).unwrap();
    agent.kill();
    assert!(client.has_ended());
    let before = room.left_bytes("press");
    flood(&socket, 900, Duration::from_secs(1));
    let left = room.left_bytes("press") - before;
    assert!((500_000..1_200_000).contains(&left), "{left}");
    let gone = client.reserve(wish()).unwrap_err();
    assert!(matches!(gone, ClientError::Gone { .. }), "{gone}");

    let _next = room.agent("press");
    until("the first one is back", || {
        room.connections("press") == NONE
    });
    let mut client = room.client("press");
    let (second, _socket) = client.reserve(wish()).unwrap();
    assert!(second.connection > first.connection);
    has_no_rights(&room, manager, &socket);
}

/// A socket that has lost its rights sends best effort: 320 kbit/s at most where no manager grants more.
fn has_no_rights(room: &Room, manager: Running, socket: &UdpSocket) {
    manager.kill();
    std::thread::sleep(Duration::from_millis(200));
    let before = room.left_bytes("press");
    flood(socket, 900, Duration::from_secs(1));
    let left = room.left_bytes("press") - before;
    assert!((1_000..60_000).contains(&left), "{left}");
}

/// Counts what leaves in a time.
fn leaves(room: &Room, time: Duration) -> u64 {
    let (before, begun) = (room.left_bytes("press"), Instant::now());
    std::thread::sleep(time);
    let left = room.left_bytes("press") - before;
    left * 1_000 / u64::try_from(begun.elapsed().as_millis()).unwrap()
}

/// A one-shot reservation ends at its time, when the manager is killed and when the agent is killed.
#[test]
fn one_shot_reservations_end_by_themselves() {
    require!(root, program "ip");
    for victim in ["manager", "agent"] {
        let room = Room::new();
        let manager = room.manager();
        let agent = room.agent("press");
        let office = room.side("office").address;
        let socket = room
            .side("press")
            .run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        socket.connect((office, 9)).unwrap();
        let (begun, over) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&over);
        let flooding = std::thread::spawn(move || {
            let begun = Instant::now();
            while !ended.load(Ordering::Relaxed) && begun.elapsed() < FLOOD {
                flood(&socket, 1_400, Duration::from_millis(50));
            }
        });
        // Best effort is granted what is free: far more than the permanent rate.
        until("a reservation", || {
            leaves(&room, Duration::from_millis(200)) > 3_000_000
        });
        let rate = leaves(&room, Duration::from_secs(1));
        assert!((4_000_000..12_500_000).contains(&rate), "{rate} B/s");
        let _rest = if victim == "manager" {
            manager.kill();
            agent
        } else {
            agent.kill();
            manager
        };
        // Its lifetime is 100 ms.
        std::thread::sleep(Duration::from_millis(150));
        let rate = leaves(&room, Duration::from_secs(1));
        assert!(rate < 60_000, "{rate} B/s after the {victim} was killed");
        assert!(begun.elapsed() < FLOOD, "looked at while it floods");
        over.store(true, Ordering::Relaxed);
        flooding.join().unwrap();
    }
}

#[test]
fn a_replaced_key_is_read_again() {
    require!(root, program "ip");
    let room = Room::new();
    let _manager = room.manager();
    let _agent = room.agent("press");
    let mut client = room.client("press");
    let (first, _) = client.reserve(wish()).unwrap();
    let rekeyed = room.rtwire(&["manager", "rekey", "keys", "press"]);
    assert_eq!(rekeyed.status.code(), Some(0), "{}", text(&rekeyed));
    // The manager reads the files five times a second.
    std::thread::sleep(Duration::from_secs(1));
    until("another connection", || client.reserve(wish()).is_ok());
    assert!(room.connections("press").contains(&first.connection));
}

#[test]
fn an_agent_ends_in_order_and_can_be_removed() {
    require!(root, program "ip", program "tc");
    let room = Room::new();
    let _manager = room.manager();
    let agent = room.agent("press");
    let mut client = room.client("press");
    client.reserve(wish()).unwrap();
    let busy = room
        .at("press", BINARY)
        .args(["agent", "remove", "rtws"])
        .output()
        .unwrap();
    assert_eq!(busy.status.code(), Some(3), "{}", text(&busy));
    assert!(
        text(&busy).contains("another agent runs on `rtws`"),
        "{}",
        text(&busy)
    );
    let second = room.agent_command("press").output().unwrap();
    assert_eq!(second.status.code(), Some(3), "{}", text(&second));

    let (code, said) = agent.end();
    assert_eq!(code, Some(0));
    assert!(said.contains("stays limited"), "{said}");
    assert_eq!(room.connections("press"), NONE);
    assert!(!room.socket("press").exists());
    let kernel = |arguments: &[&str]| {
        let mut command = room.at("press", arguments[0]);
        text(&command.args(&arguments[1..]).output().unwrap())
    };
    assert!(kernel(&["tc", "qdisc", "show", "dev", "rtws"]).contains("htb"));
    for text_of in ["no longer limited", "not limited"] {
        let removed = room
            .at("press", BINARY)
            .args(["agent", "remove", "rtws"])
            .output()
            .unwrap();
        assert_eq!(removed.status.code(), Some(0), "{}", text(&removed));
        assert!(text(&removed).contains(text_of), "{}", text(&removed));
    }
    // A last line that cannot be written is told, and the rest is done all the same.
    let mut unwritten = room.agent_command("press");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    unwritten.stdout(full).stderr(std::process::Stdio::null());
    let running = Running::start(&mut unwritten);
    until("the agent's socket", || room.socket("press").exists());
    assert_eq!(running.end().0, Some(2));
    let removed = room
        .at("press", BINARY)
        .args(["agent", "remove", "rtws"])
        .output()
        .unwrap();
    assert_eq!(removed.status.code(), Some(0), "{}", text(&removed));
    let queues = kernel(&["tc", "qdisc", "show", "dev", "rtws"]);
    assert!(!queues.contains("htb"), "{queues}");
    let filters = kernel(&["tc", "filter", "show", "dev", "rtws", "egress"]);
    assert_eq!(filters.trim(), "", "{filters}");
    let link = kernel(&["ip", "-d", "link", "show", "dev", "rtws"]);
    assert!(link.contains("gso_max_segs 65535"), "{link}");
}

#[test]
fn faulty_arguments_change_nothing_and_say_what_is_right() {
    require!(root, program "ip", program "tc");
    let room = Room::new();
    let namespace = room.side("press").namespace.clone();
    let try_with = |change: &dyn Fn(Vec<String>) -> Vec<String>| {
        let command = room.agent_command("press");
        let words = command
            .get_args()
            .map(|word| word.to_str().unwrap().to_owned());
        let mut changed = Command::new("ip");
        changed
            .args(change(words.collect()))
            .current_dir(room.folder.path());
        let output = changed.output().unwrap();
        (output.status.code(), text(&output))
    };
    let replace = |from: &'static str, to: &'static str| {
        move |words: Vec<String>| -> Vec<String> {
            words
                .into_iter()
                .map(|word| if word == from { to.to_owned() } else { word })
                .collect()
        }
    };
    let (code, said) = try_with(&replace("press", "pres"));
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("no host \"pres\"") && said.contains("press, saw"),
        "{said}"
    );
    let (code, said) = try_with(&replace("rtws", "rtwx"));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("rtwx"), "{said}");
    let (code, said) = try_with(&replace("keys/press.key", "keys/pres.key"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("keys/pres.key"), "{said}");
    let (code, said) = try_with(&|mut words| {
        words.extend(["--peer".to_owned(), "ofice=10.0.0.9".to_owned()]);
        words
    });
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("\"ofice\""), "{said}");
    let (code, said) = try_with(&|mut words| {
        words.extend(["--group".to_owned(), "nogroupofthisname".to_owned()]);
        words
    });
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("groupadd"), "{said}");

    ip(&namespace, "link set rtws mtu 9000");
    let (code, said) = try_with(&|words| words);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("MTU of 9000") && said.contains("1500"),
        "{said}"
    );
    ip(&namespace, "link set rtws mtu 1500");

    let taken = room.socket("press");
    std::fs::write(&taken, "a file").unwrap();
    let (code, said) = try_with(&|words| words);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("no socket"), "{said}");
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "a file");
    std::fs::remove_file(&taken).unwrap();

    rtwire_testkit::tc(
        &namespace,
        "qdisc add dev rtws root tbf rate 1mbit burst 2000 latency 50ms",
    );
    let (code, said) = try_with(&|words| words);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("a queue of its own already (`tbf`)"),
        "{said}"
    );
    // None of these attempts has left a trace.
    let output = room
        .at("press", "tc")
        .args(["qdisc", "show", "dev", "rtws"])
        .output()
        .unwrap();
    let queues = text(&output);
    assert!(
        queues.contains("tbf") && !queues.contains("clsact") && !queues.contains("htb"),
        "{queues}"
    );
}
