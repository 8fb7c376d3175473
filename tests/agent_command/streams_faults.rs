//! Limits of a stream's socket, and its end with the program, the session or the agent.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rtwire_agent::{AgentClient, ClientError, End, Opened, StreamCounts, StreamWish};
use rtwire_plan::identity::Identity;
use rtwire_session::{AgentUse, SessionError};
use rtwire_sys::interface;
use rtwire_sys::packet::PacketSocket;
use rtwire_testkit::require;
use rtwire_wire::Pcp;
use rtwire_wire::rtdip::{Header, Semantics};

use crate::room::{HOSTS, Room, until};
use crate::streams::{MORE, by_agent, listener_of, plan_of, session, talker_of};

pub(crate) const STREAM: &str = "press-state";
const SECOND: Duration = Duration::from_secs(1);
/// The contract of `press-state` on the wire: 1250 frames a second of 1000 bytes, with 24 each beyond.
const RATE: u64 = 1_250 * 1_024;

fn identity(room: &Room, stream: &str) -> Identity {
    let plan = plan_of(room.folder.path());
    let planned = plan.streams.iter().find(|one| one.name == stream);
    planned.unwrap().identity.clone()
}

pub(crate) fn wish(room: &Room, end: End, stream: &str) -> StreamWish {
    let own = identity(room, stream);
    StreamWish {
        end,
        stream: stream.to_owned(),
        port: own.port,
        key: own.key,
    }
}

/// A packet of RTDiP, padded to the shortest frame.
fn packet(port: u16, key: u32, sequence: u32, data: &[u8]) -> Vec<u8> {
    let header = Header {
        semantics: Semantics::Queue,
        priority: Pcp::LOWEST,
        destination_port: port,
        source_port: port,
        sequence,
        key,
        time_ns: None,
    };
    let mut bytes = vec![0; (header.octets() + data.len()).max(46)];
    header.emit(data, &mut bytes).unwrap();
    bytes
}

fn open(client: &mut AgentClient, room: &Room, end: End) -> UdpSocket {
    let (opened, socket) = client.open(wish(room, end, STREAM)).unwrap();
    let expected = Opened {
        end,
        stream: STREAM.to_owned(),
        rtdip: true,
    };
    assert_eq!(opened, expected);
    UdpSocket::from(socket)
}

/// Returns what a rate in bytes a second brings in a time, with a burst and what waits before.
fn allowed(rate: u64, passed: Duration) -> u64 {
    rate * u64::try_from(passed.as_millis()).unwrap() / 1_000 + 20_000
}

/// Sends as fast as datagrams are taken or refused. Returns how many were offered.
fn flood(socket: &UdpSocket, packet: &[u8], time: Duration) -> u64 {
    socket.set_nonblocking(true).unwrap();
    let begun = Instant::now();
    let mut offered = 0;
    while begun.elapsed() < time {
        let _ = socket.send(packet);
        offered += 1;
    }
    offered
}

/// Long frames and short ones, offered many times too often: never more than the contract on the wire, and nearly all of it.
#[test]
fn too_much_is_not_sent() {
    require!(root, program "ip");
    let room = Room::with(MORE);
    let _agent = room.agent("press");
    let own = identity(&room, STREAM);
    let mut client = room.client("press");
    let socket = open(&mut client, &room, End::Talker);
    for length in [1_000 - 14 - 16, 4, 200] {
        // What waits from before leaves first.
        std::thread::sleep(Duration::from_millis(100));
        let bytes = packet(own.port, own.key, 0, &vec![0x55; length]);
        let (begun, before) = (Instant::now(), room.left_on_the_wire("press"));
        let offered = flood(&socket, &bytes, 2 * SECOND);
        std::thread::sleep(Duration::from_millis(50));
        let (left, passed) = (room.left_on_the_wire("press") - before, begun.elapsed());
        let most = allowed(RATE, passed);
        assert!(left <= most, "{length}: {left} of {most}");
        // While this program stands still, its class soon has nothing to send: short frames fill the queue for 1 ms only.
        let least = if length > 500 { RATE } else { RATE / 25 };
        assert!(left > least, "{length}: {left} of {least}");
        assert!(offered > 20_000, "{offered}");
    }
    let counts = client.stream_counts(End::Talker, STREAM).unwrap();
    assert!(counts.frames > 5_000 && counts.foreign == 0, "{counts:?}");

    // A burst, after a pause, is no longer than the contract's.
    std::thread::sleep(SECOND);
    let before = room.left_on_the_wire("press");
    let bytes = packet(own.port, own.key, 0, &[0x55; 970]);
    flood(&socket, &bytes, Duration::from_millis(2));
    std::thread::sleep(Duration::from_millis(500));
    let burst = room.left_on_the_wire("press") - before;
    // The bucket, what the rate adds meanwhile, and the eight frames that may wait.
    assert!((1_000..20_000).contains(&burst), "{burst}");
}

/// Frames of another port or key, to another place, too short or too long: none leaves, each is counted.
#[test]
fn only_the_streams_own_frames_leave() {
    require!(root, program "ip", program "dumpcap", program "tshark");
    let room = Room::with(MORE);
    let _agent = room.agent("press");
    let own = identity(&room, STREAM);
    let mut client = room.client("press");
    let socket = open(&mut client, &room, End::Talker);
    let (office, there) = (room.side("office").address, socket.peer_addr().unwrap());
    let capture = room.capture("press", "foreign.pcapng");
    let good = packet(own.port, own.key, 7, b"good");
    socket.send(&good).unwrap();
    let mut expected = 0;
    for bad in [
        packet(own.port + 1, own.key, 0, b"port"),
        packet(own.port, own.key ^ 1, 0, b"key"),
        packet(own.port, 0, 0, b"no key"),
        packet(own.port, own.key, 0, &[0x55; 1_000 - 14 - 16 + 1]),
        good[..45].to_vec(),
        good[..16].to_vec(),
        good[..4].to_vec(),
        Vec::new(),
    ] {
        // The kernel may say that it was dropped.
        let _ = socket.send(&bad);
        expected += 1;
    }
    for elsewhere in [
        (office, own.port).into(),
        std::net::SocketAddr::new(there.ip(), there.port() + 1),
    ] {
        let _ = socket.send_to(&good, elsewhere);
        expected += 1;
    }
    // It may connect elsewhere; that gives it nothing.
    socket.connect((office, own.port)).unwrap();
    let _ = socket.send(&good);
    expected += 1;
    let counts = client.stream_counts(End::Talker, STREAM).unwrap();
    let sent = StreamCounts {
        frames: 1,
        foreign: expected,
        too_much: 0,
    };
    assert_eq!(counts, sent);
    capture.end();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(room.path("foreign.pcapng"));
    let read = tshark
        .args([
            "-Y",
            "eth.type == 0x88b5 || (udp && !(udp.port == 4433))",
            "-x",
        ])
        .output();
    let frames = String::from_utf8(read.unwrap().stdout).unwrap();
    assert_eq!(frames.matches("0000  ").count(), 1, "{frames}");
    assert!(frames.contains("0020  6f 64 00"), "{frames}");
}

/// Arrivals are policed: another key, more than the contract, datagrams to the socket itself.
#[test]
fn floods_from_elsewhere_cost_the_listener_nothing() {
    require!(root, program "ip");
    let room = Room::with(MORE);
    let _agent = room.agent("office");
    let own = identity(&room, STREAM);
    let mut client = room.client("office");
    let inbox = open(&mut client, &room, End::Listener);
    let here = inbox.local_addr().unwrap();
    inbox
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let rtwire_plan::identity::Destination::Group { mac } = own.destination else {
        panic!("{own:?}");
    };
    let frame = |key: u32, number: u32| {
        let packet = packet(own.port, key, number, &[0x33; 900]);
        [&mac[..], &[2, 0, 0, 0, 1, 2], &[0x88, 0xb5], &packet].concat()
    };
    let (raw, datagrams) = room.side("saw").run(|| {
        let interface = interface::by_name("rtws").unwrap();
        let datagrams = UdpSocket::bind(("0.0.0.0", own.port)).unwrap();
        (PacketSocket::sender(&interface).unwrap(), datagrams)
    });
    for number in 0..1_000 {
        let _ = raw.send(&frame(own.key ^ 1, number));
        let _ = datagrams.send_to(&frame(own.key, number)[14..], here);
    }
    let mut buffer = [0; 2_000];
    assert!(inbox.recv(&mut buffer).is_err(), "a foreign frame arrived");
    raw.send(&frame(own.key, 5)).unwrap();
    let count = inbox.recv(&mut buffer).unwrap();
    assert_eq!(buffer[..count], frame(own.key, 5)[14..]);
    let counts = client.stream_counts(End::Listener, STREAM).unwrap();
    let expected = StreamCounts {
        frames: 1,
        foreign: 1_000,
        too_much: 0,
    };
    assert_eq!(counts, expected);
    // Too many of the stream's own: 10 Mbit/s, and the burst of some 30 ms, arrive.
    let begun = Instant::now();
    for number in 0..2_000 {
        let _ = raw.send(&frame(own.key, number));
    }
    let counts = client.stream_counts(End::Listener, STREAM).unwrap();
    let most = 100 + u64::try_from(begun.elapsed().as_millis()).unwrap() * 13 / 10;
    assert!(counts.frames < most, "{counts:?} of {most}");
    assert_eq!(counts.frames + counts.too_much, 2_001);
    assert!(counts.too_much > 100, "{counts:?}");
}

/// An end is open once on a host, whoever has it, and free again when its program has ended.
#[test]
fn an_end_is_given_back_however_its_program_ends() {
    require!(root, program "ip");
    let room = Room::with(MORE);
    let _agent = room.agent("press");
    let own = identity(&room, STREAM);
    let mut client = room.client("press");
    let old = open(&mut client, &room, End::Talker);
    let press = by_agent(&room, "press");
    let denied = talker_of(&room, &press, STREAM).unwrap_err().to_string();
    assert!(
        denied.contains("has the talker of stream \"press-state\" open"),
        "{denied}"
    );
    // Nobody closes what is another program's.
    let mut other = room.client("press");
    let foreign = other.close(End::Talker, STREAM).unwrap_err();
    assert!(matches!(&foreign, ClientError::Refused { reason, .. } if reason == "foreign"));
    assert!(talker_of(&room, &press, STREAM).is_err());

    drop(client);
    until("the stream is free", || {
        talker_of(&room, &press, STREAM).is_ok()
    });
    // Each drop gives it back, and the next one gets it.
    for _ in 0..20 {
        drop(talker_of(&room, &press, STREAM).unwrap());
    }
    // The socket of before has no rights: its datagrams are best effort, and no frames of the stream.
    let office = session(&room, "office", AgentUse::Never).unwrap();
    let mut listener = listener_of(&room, &office, STREAM);
    old.send(&packet(own.port, own.key, 0, b"old")).unwrap();
    assert!(
        listener
            .recv(Some(Duration::from_millis(300)))
            .unwrap()
            .is_none()
    );
    let mut talker = talker_of(&room, &press, STREAM).unwrap();
    talker.send(b"new").unwrap();
    let value = listener.recv(Some(SECOND)).unwrap().unwrap();
    assert_eq!(value.data, b"new");

    // While a program has the stream, others with frames to its port are best effort; then they share the class again.
    let bytes = [
        &[2, 0, 0, 0, 1, 3, 2, 0, 0, 0, 1, 1, 0x88, 0xb5][..],
        &packet(own.port, own.key, 0, &[0x44; 900]),
    ]
    .concat();
    let raw = room.side("press").run(|| {
        let interface = interface::by_name("rtws").unwrap();
        PacketSocket::sender(&interface).unwrap()
    });
    let leaves = || {
        let (begun, before) = (Instant::now(), room.left_on_the_wire("press"));
        while begun.elapsed() < SECOND {
            let _ = raw.send(&bytes);
        }
        let left = room.left_on_the_wire("press") - before;
        (left, allowed(RATE, begun.elapsed()))
    };
    let (beside, _) = leaves();
    assert!(beside < 100_000, "{beside}");
    drop(talker);
    let (shared, most) = leaves();
    assert!((150_000..=most).contains(&shared), "{shared} of {most}");
}

#[test]
fn a_killed_agent_ends_the_streams_and_keeps_the_limits() {
    require!(root, program "ip");
    let room = Room::with(MORE);
    let agents = [room.agent("press"), room.agent("office")];
    let (press, office) = (by_agent(&room, "press"), by_agent(&room, "office"));
    let mut talker = talker_of(&room, &press, STREAM).unwrap();
    let mut listener = listener_of(&room, &office, STREAM);
    talker.send(b"first").unwrap();
    assert_eq!(listener.recv(Some(SECOND)).unwrap().unwrap().data, b"first");
    let mut client = room.client("press");
    let (_, raw) = client
        .open(wish(&room, End::Talker, "press-group"))
        .unwrap();
    let waits = std::thread::spawn(move || {
        let begun = Instant::now();
        // It is woken, long before its own time is over.
        let error = listener.recv(Some(60 * SECOND)).map(|_| ()).unwrap_err();
        (error, begun.elapsed())
    });
    std::thread::sleep(Duration::from_millis(200));
    for agent in agents {
        agent.kill();
    }
    let (error, waited) = waits.join().unwrap();
    assert!(matches!(error, SessionError::AgentGone { .. }), "{error}");
    assert!(waited < 30 * SECOND, "{waited:?}");
    until("the talker knows", || {
        matches!(talker.try_send(b"x"), Err(SessionError::AgentGone { .. }))
    });
    // The kernel goes on to limit the sockets that are left: 1 Mbit/s of frames of 130 bytes, with 24 each beyond on the wire.
    let own = identity(&room, "press-group");
    let (begun, before) = (Instant::now(), room.left_on_the_wire("press"));
    let bytes = packet(own.port, own.key, 0, &[0x55; 100]);
    flood(&UdpSocket::from(raw), &bytes, 2 * SECOND);
    let left = room.left_on_the_wire("press") - before;
    let most = allowed(125_000 * 154 / 130, begun.elapsed());
    assert!((30_000..=most).contains(&left), "{left} of {most}");

    // Opened again, all is as before, also while the old session is still there.
    let _agents = [room.agent("press"), room.agent("office")];
    assert!(talker_of(&room, &press, STREAM).is_err());
    let (press, office) = (by_agent(&room, "press"), by_agent(&room, "office"));
    let mut talker = talker_of(&room, &press, STREAM).unwrap();
    let mut listener = listener_of(&room, &office, STREAM);
    talker.send(b"second").unwrap();
    assert_eq!(
        listener.recv(Some(SECOND)).unwrap().unwrap().data,
        b"second"
    );
}

/// Another plan, a stream of another host, an option that no agent has, another host's agent: each is said in words.
#[test]
fn what_the_agent_cannot_open_is_refused_in_words() {
    require!(root, program "ip");
    let room = Room::with(MORE);
    let _agent = room.agent("press");
    let mut client = room.client("press");
    let mut other = wish(&room, End::Talker, STREAM);
    other.key ^= 1;
    let plan = client.open(other).unwrap_err().to_string();
    assert!(
        plan.contains("(plan)") && plan.contains("same plan file"),
        "{plan}"
    );
    let listens = client
        .open(wish(&room, End::Listener, STREAM))
        .unwrap_err()
        .to_string();
    assert!(listens.contains("no listener of a stream"), "{listens}");
    let saw = session(&room, "saw", AgentUse::At(room.socket("press")))
        .unwrap_err()
        .to_string();
    assert!(saw.contains("serves host `press`"), "{saw}");
    let nobody = session(&room, "press", AgentUse::At(room.path("nobody")))
        .unwrap_err()
        .to_string();
    assert!(nobody.contains("is `rtwire agent` running"), "{nobody}");
    let asks = rtwire_session::SessionOptions {
        agent: AgentUse::At(room.socket("press")),
        receive_path: rtwire_session::ReceivePath::Native,
        ..rtwire_session::SessionOptions::default()
    };
    let plan = plan_of(room.folder.path());
    let path = room.side("press").run(|| {
        rtwire_session::Session::with(&plan, "press", "rtws", &asks)
            .unwrap_err()
            .to_string()
    });
    assert!(path.contains("a certain receive path"), "{path}");
}

/// Any bytes, with and without descriptors: an answer, or the end of that connection, and the agent goes on.
#[test]
fn hostile_bytes_at_the_socket_end_nothing_but_their_own_connection() {
    require!(root, program "ip");
    let room = Room::with(MORE);
    let agent = room.agent("press");
    let deep = "[".repeat(4_000);
    let long = format!(
        "{{\"version\":1,\"ask\":\"open\",\"end\":\"talker\",\"stream\":\"{}\",\"port\":1,\"key\":2}}",
        "\\u0000".repeat(600)
    );
    let whole: &[&[u8]] = &[
        b"\0",
        b"{}",
        b"null",
        &[0xff; 100],
        deep.as_bytes(),
        long.as_bytes(),
        br#"{"version":1,"ask":"open"}"#,
        br#"{"version":1,"ask":"open","end":"both","stream":"press-state","port":1,"key":2}"#,
        br#"{"version":1,"ask":"open","end":"talker","stream":"press-state","port":70000,"key":-2}"#,
        br#"{"version":1,"ask":"close","end":"talker","stream":"press-state"}"#,
        br#"{"version":1,"ask":"stream_counts","end":"listener","stream":""}"#,
        br#"{"version":9,"ask":"host"}"#,
    ];
    for bytes in whole {
        let socket = rtwire_agent::pass::connect(&room.socket("press")).unwrap();
        rtwire_agent::pass::send(&socket, bytes, None).unwrap();
        let answer = rtwire_agent::pass::receive(&socket).unwrap();
        let (answer, descriptor) = answer.expect("an answer");
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.contains("refused") && descriptor.is_none(),
            "{answer}"
        );
    }
    // Too long, with many descriptors, and cut off: no answer is owed.
    let socket = rtwire_agent::pass::connect(&room.socket("press")).unwrap();
    let _ = rustix::net::send(&socket, &[b' '; 60_000], rustix::net::SendFlags::NOSIGNAL);
    assert!(!matches!(rtwire_agent::pass::receive(&socket), Ok(Some(_))));
    let socket = rtwire_agent::pass::connect(&room.socket("press")).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = rustix::net::SendAncillaryBuffer::new(&mut space);
    let own = [socket.as_fd(); 4];
    ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(&own));
    let parts = [IoSlice::new(br#"{"version":1,"ask":"host"}"#)];
    rustix::net::sendmsg(
        &socket,
        &parts,
        &mut ancillary,
        rustix::net::SendFlags::NOSIGNAL,
    )
    .unwrap();
    let _ = rtwire_agent::pass::receive(&socket);
    // All of them at once may not be too many either.
    let open: Vec<_> = (0..200)
        .map(|_| rtwire_agent::pass::connect(&room.socket("press")))
        .collect();
    drop(open);
    let mut client = room.client("press");
    assert_eq!(client.host().unwrap().host, HOSTS[0]);
    let (code, said) = agent.end();
    assert_eq!(code, Some(0), "{said}");
}
