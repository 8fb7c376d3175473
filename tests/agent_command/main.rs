//! `rtwire agent` and `rtwire channel` on real interfaces: what a program may send, what it may not, and what is left when
//! something is killed. The referees are counters of the cable's other end, and captures.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../capture_common/mod.rs"]
mod capture_common;
mod cyclic;
mod faults;
mod room;
mod rtdip;
mod streams;
mod streams_faults;
mod watched;

use std::io::Write as _;
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

use capture_common::Seen;
use room::{BINARY, Room, Running, text, until, wish};
use rtwire_agent::Reply;
use rtwire_testkit::require;

/// Sends datagrams as fast as they are taken.
fn flood(socket: &UdpSocket, bytes: usize, time: Duration) -> u64 {
    let payload = vec![0x55; bytes];
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < time {
        // What the queue does not take is dropped, with or without a word.
        if socket.send(&payload).is_ok() {
            count += 1;
        }
    }
    count
}

/// The time by which a stamp may be late, us.
const LATE_STAMP_US: i64 = 300;

/// Holds frames against a token bucket that counts their bytes on the wire. Returns the first frame beyond it.
fn beyond(frames: &[Seen], rate_bytes_per_ms: u64, burst_bytes: u64) -> Option<String> {
    let signed = |number: u64| i64::try_from(number).unwrap();
    // In thousandths of bytes: a rate in bytes per millisecond is one of them in a microsecond.
    let rate = signed(rate_bytes_per_ms);
    let burst = signed(burst_bytes * 1_000);
    let (mut level, mut last_us) = (burst, frames.first()?.at_us);
    for (number, frame) in frames.iter().enumerate() {
        level = burst.min(level + signed(frame.at_us.saturating_sub(last_us)) * rate);
        last_us = frame.at_us;
        level -= signed((frame.bytes.max(60) + 24) * 1_000);
        // An interrupt between queue and capture makes a frame's stamp late, and the next one follows sooner.
        if level < -LATE_STAMP_US * rate {
            return Some(format!("frame {number} of {}: {frame:?}", frames.len()));
        }
    }
    None
}

fn counts(reply: Reply) -> (u64, u64, u64) {
    let Reply::Counts {
        frames,
        foreign,
        too_much,
        ..
    } = reply
    else {
        panic!("{reply:?}");
    };
    (frames, foreign, too_much)
}

/// Both ends of a channel as programs of a user without privilege, by the command.
#[test]
fn programs_without_privilege_send_and_hear() {
    require!(root, program "ip", program "setpriv");
    let room = Room::new();
    let _manager = room.manager();
    let agents: Vec<Running> = ["press", "office"]
        .iter()
        .map(|host| {
            let mut command = room.agent_command(host);
            command.args(["--group", "65534"]).stderr(Stdio::null());
            let running = Running::start(&mut command);
            until("the agent's socket", || room.socket(host).exists());
            running
        })
        .collect();
    // A folder of mode 0700 keeps strangers out, too.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(room.folder.path(), open).unwrap();
    let as_nobody = |host: &str, group: &str| {
        let mut command = room.at(host, "setpriv");
        command.args([
            "--reuid",
            "65534",
            "--regid",
            group,
            "--clear-groups",
            BINARY,
            "channel",
        ]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    until("the agent's class", || room.socket("office").exists());

    // Who is not in the group is refused by the socket itself.
    let mut stranger = as_nobody("press", "65533");
    stranger.args([
        "send", "--to", "office", "--rate", "8 Mbit/s", "--frame", "1000 B", "--agent",
    ]);
    let refused = stranger.arg(room.socket("press")).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused));
    assert!(
        text(&refused).contains("only root and the agent's `--group`"),
        "{}",
        text(&refused)
    );

    let mut send = as_nobody("press", "65534");
    send.args([
        "send", "--to", "office", "--rate", "8 Mbit/s", "--frame", "1000 B", "--agent",
    ]);
    let mut sender = send.arg(room.socket("press")).spawn().unwrap();
    until("the connection", || room.connections("press") == [1]);
    let mut hear = as_nobody("office", "65534");
    hear.args(["hear", "1", "--agent"])
        .arg(room.socket("office"));
    // As its standard input, each read is a datagram: two of them, and `dd` ends.
    hear.args(["--", "dd", "bs=2000", "count=2", "status=none"]);
    let hearer = hear.spawn().unwrap();
    let mut lines = sender.stdin.take().unwrap();
    // Until the listener is there, datagrams are lost: that is no fault.
    let finished = std::thread::spawn(move || hearer.wait_with_output().unwrap());
    until("both values", || {
        let _ = lines.write_all(b"a value\n");
        finished.is_finished()
    });
    let heard = finished.join().unwrap();
    assert_eq!(heard.status.code(), Some(0), "{}", text(&heard));
    assert_eq!(String::from_utf8_lossy(&heard.stdout), "a valuea value");

    drop(lines);
    let sent = sender.wait_with_output().unwrap();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent));
    assert!(text(&sent).contains("promise"), "{}", text(&sent));
    assert_eq!(room.connections("press"), [0_u64; 0]);
    drop(agents);
}

#[test]
fn a_channel_carries_what_was_admitted_and_nothing_else() {
    require!(root, program "ip", program "dumpcap", program "tshark");
    let room = Room::new();
    let _manager = room.manager();
    let _agent = room.agent("press");
    let mut client = room.client("press");
    let (channel, socket) = client.reserve(wish()).unwrap();
    socket.set_nonblocking(true).unwrap();

    let capture = room.capture("press", "flood.pcapng");
    let sent = flood(&socket, 1_000 - 42, Duration::from_secs(1));
    // Beyond the class's queue, datagrams are dropped: many times the rate was offered.
    assert!(sent > 2_000, "{sent}");
    let own = room.side("press").address.to_string();
    let frames: Vec<Seen> = capture
        .frames()
        .into_iter()
        .filter(|frame| frame.source == own && frame.destination_port == channel.port)
        .collect();
    // A good case must be good: all of the rate is there.
    assert!(frames.len() > 850, "{}", frames.len());
    assert_eq!(beyond(&frames, 1_000, 2_048), None);
    assert!(
        beyond(&frames, 1_000, 1_600).is_some(),
        "the referee sees a smaller burst"
    );
    assert!(
        beyond(&frames, 800, 2_048).is_some(),
        "the referee sees a smaller rate"
    );
    // The priority is the connection's, whatever the program sets.
    assert!(frames.iter().all(|frame| frame.tos == 5 << 5), "{frames:?}");

    // Another port, another host, a longer frame: dropped and counted.
    let office = room.side("office").address;
    let saw = room.side("saw").address;
    let (_, before, _) = counts(client.counts(channel.connection).unwrap());
    assert_eq!(before, 0);
    // Nobody hears the channel at the office: each such answer is told once, instead of sending.
    let sends = |send: &dyn Fn() -> std::io::Result<usize>| until("a send call", || send().is_ok());
    sends(&|| socket.send_to(b"x", (office, channel.port + 1)));
    sends(&|| socket.send_to(b"x", (saw, channel.port)));
    sends(&|| socket.send(&[0; 1_000 - 41]));
    let (_, foreign, _) = counts(client.counts(channel.connection).unwrap());
    assert_eq!(foreign, 3);
}

/// Best effort has no more than the permanent rate, in frames of the network's size and without a priority of its own.
#[test]
fn best_effort_without_a_reservation_is_small_and_humble() {
    require!(root, program "ip", program "dumpcap", program "tshark", program "iperf3");
    let room = Room::new();
    // No manager: nobody grants a reservation.
    let _agent = room.agent("press");
    let (own, office) = (room.side("press").address, room.side("office").address);
    let mut server = room.at("office", "iperf3");
    server.args(["-s", "-1"]).stdout(Stdio::null());
    let server = Running::start(&mut server);
    // Port 5201 in the state LISTEN, as the kernel lists the sockets of the server's namespace.
    let listens = |line: &str| line.contains(":1451 ") && line.contains(" 0A ");
    until("a server that listens", || {
        let sockets = ["tcp", "tcp6"].map(|kind| format!("/proc/{}/net/{kind}", server.child.id()));
        let mut lists = sockets.iter().flat_map(std::fs::read_to_string);
        lists.any(|list| list.lines().any(listens))
    });
    let capture = room.capture("press", "rest.pcapng");
    let mut client = room.at("press", "iperf3");
    // With a type of service that a switch takes for priority 7.
    client.args([
        "-c",
        &office.to_string(),
        "-t",
        "3",
        "-S",
        "224",
        "--connect-timeout",
        "5000",
    ]);
    let done = client.output().unwrap();
    assert!(text(&done).contains("receiver"), "{}", text(&done));
    let frames: Vec<Seen> = capture
        .frames()
        .into_iter()
        .filter(|frame| frame.source == own.to_string())
        .collect();
    assert!(frames.len() > 30, "{}", frames.len());
    assert!(
        frames.iter().all(|frame| frame.tos & 0xfc == 0),
        "{frames:?}"
    );
    // Several frames in one would be seen here as a long one.
    assert!(
        frames.iter().all(|frame| frame.bytes <= 1_514),
        "{frames:?}"
    );
    // 320 kbit/s and a burst of three frames of 1538 bytes: the whole allowance of the plan, in bytes of frames.
    assert_eq!(beyond(&frames, 40_645 / 1_000 + 1, 4_614), None);
}

/// A flood from elsewhere does not reach a channel's listener, and costs its sender nothing.
#[test]
fn a_flood_to_a_channel_reaches_nobody() {
    require!(root, program "ip");
    let room = Room::new();
    let _manager = room.manager();
    let _agents = [room.agent("press"), room.agent("office")];
    let mut talker = room.client("press");
    let (channel, out) = talker.reserve(wish()).unwrap();
    let mut listener = room.client("office");
    let (heard, inbox) = listener.listen(channel.connection).unwrap();
    assert_eq!(heard, channel);
    inbox
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();

    // The host "saw" has no agent: it sends as it likes, with the talker's port, too.
    let office = room.side("office").address;
    let foreign = room.side("saw").run(|| {
        let socket = UdpSocket::bind(("0.0.0.0", channel.source_port)).unwrap();
        socket.connect((office, channel.port)).unwrap();
        socket
    });
    let flooding = std::thread::spawn(move || flood(&foreign, 900, Duration::from_secs(2)));
    let begun = Instant::now();
    let mut buffer = [0; 2_000];
    let mut own = 0_u64;
    while begun.elapsed() < Duration::from_millis(1_500) {
        out.send(&own.to_be_bytes()).unwrap();
        let count = inbox.recv(&mut buffer).unwrap();
        assert_eq!(
            buffer[..count],
            own.to_be_bytes(),
            "in order, none lost, none from elsewhere"
        );
        own += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    let sent = flooding.join().unwrap();
    assert!(own > 100 && sent > 1_000, "{own} {sent}");
    let (passed, refused, too_much) = counts(listener.counts(channel.connection).unwrap());
    assert_eq!((passed, too_much), (own, 0));
    assert!(refused > 1_000, "{refused}");
}
