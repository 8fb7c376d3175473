//! Streams of the plan through the agent: sessions of programs without privilege. The referees are the direct sessions of root
//! at the other end, which know nothing of the agent, counters of the cable's other end, and captures.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rtwire_plan::Plan;
use rtwire_session::{
    AgentUse, OpenedBy, PeerAddress, Sent, Session, SessionError, SessionOptions, StreamListener,
    StreamTalker,
};
use rtwire_testkit::require;

use crate::capture_common::fields_of;
use crate::room::{HOSTS, Room, Running, text, until};

/// Streams beside the example's `press-state`, one of each form on the wire.
pub(crate) const MORE: &str = r#"
[[stream]]
name = "press-tagged"
talker = "press"
listeners = ["office"]
payload = "16 B"
interval = "2 ms"
priority = 6
vlan = 5
semantics = "newest"

[[stream]]
name = "press-udp"
talker = "press"
listeners = ["office"]
payload = "100 B"
rate = "1 Mbit/s"
transport = "udp"

[[stream]]
name = "press-all"
talker = "press"
listeners = ["office", "saw"]
payload = "100 B"
rate = "1 Mbit/s"
transport = "udp"

[[stream]]
name = "press-group"
talker = "press"
listeners = ["office", "saw"]
payload = "100 B"
rate = "1 Mbit/s"
priority = 7
"#;
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn plan_of(folder: &Path) -> Plan {
    let file = folder.join("plan.json");
    rtwire_plan::plan_file::read(&std::fs::read(file).unwrap(), "plan.json").unwrap()
}

/// Opens a session through an agent, or directly.
pub(crate) fn session(room: &Room, host: &str, agent: AgentUse) -> Result<Session, SessionError> {
    let options = SessionOptions {
        agent,
        peers: HOSTS
            .iter()
            .map(|name| {
                let ip = PeerAddress::Ip(room.side(name).address);
                ((*name).to_owned(), ip)
            })
            .collect(),
        ..SessionOptions::default()
    };
    let plan = plan_of(room.folder.path());
    room.side(host)
        .run(|| Session::with(&plan, host, "rtws", &options))
}

/// Opens a talker where the interface of its session is.
pub(crate) fn talker_of(
    room: &Room,
    session: &Session,
    stream: &str,
) -> Result<StreamTalker, SessionError> {
    let side = room.side(session.host());
    side.run(|| session.talker(stream))
}

/// Opens a listener where the interface of its session is.
pub(crate) fn listener_of(room: &Room, session: &Session, stream: &str) -> StreamListener {
    let side = room.side(session.host());
    side.run(|| session.listener(stream)).unwrap()
}

pub(crate) fn by_agent(room: &Room, host: &str) -> Session {
    session(room, host, AgentUse::At(room.socket(host))).unwrap()
}

/// The program of a user: it talks on a stream or listens to it, through the agent or as it may. It is this file's own
/// program, started again with another user; by itself it is no test.
#[test]
fn a_program() {
    let Ok(task) = std::env::var("RTWIRE_TEST_PROGRAM") else {
        return;
    };
    let [end, host, stream, agent] = task.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{task}");
    };
    let options = SessionOptions {
        agent: match agent {
            "if-there" => AgentUse::IfThere,
            path => AgentUse::At(path.into()),
        },
        peers: vec![("office".to_owned(), PeerAddress::Ip([10, 78, 0, 3].into()))],
        ..SessionOptions::default()
    };
    let plan = plan_of(Path::new("."));
    match worked(&plan, (end, host, stream), &options) {
        Ok(said) => println!("{said}"),
        Err(error) => println!("failed: {error}"),
    }
}

fn worked(
    plan: &Plan,
    (end, host, stream): (&str, &str, &str),
    options: &SessionOptions,
) -> Result<String, SessionError> {
    let session = Session::with(plan, host, "rtws", options)?;
    let by = format!("{:?}", session.opened_by());
    if end == "talk" {
        let mut talker = session.talker(stream)?;
        println!("opened");
        for number in 0..200_u32 {
            talker.send(&number.to_be_bytes())?;
        }
        return Ok(format!("{by} sent {}", talker.statistics().sent));
    }
    let mut listener = session.listener(stream)?;
    println!("opened");
    let mut heard = 0_u32;
    let begun = Instant::now();
    while heard < 200 && begun.elapsed() < 2 * PATIENCE {
        if let Some(value) = listener.recv(Some(Duration::from_millis(200)))? {
            assert_eq!(value.data, u32::to_be_bytes(heard));
            heard += 1;
        }
    }
    let path = listener.path_in_use().to_string();
    let counts = listener.statistics()?;
    let lost = counts.channel.lost;
    Ok(format!(
        "{by} heard {heard} by {path}, {lost} lost, {} foreign, {} too frequent",
        counts.foreign, counts.too_frequent
    ))
}

/// Starts [`a_program`] as a user without capabilities, in a group.
fn program(
    room: &Room,
    group: &str,
    (end, host, stream): (&str, &str, &str),
    agent: &str,
) -> Command {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(room.folder.path(), open).unwrap();
    // The build's folder may be closed to other users.
    let own = room.path("program");
    if !own.exists() {
        std::fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    }
    // Only this program sees this folder: the agent is at its usual place there.
    let mut command = room.at(host, "sh");
    command.args(["-c", "mount -t tmpfs none /run && mkdir -m 755 /run/rtwire-agent-rtws && ln -s \"$1\" /run/rtwire-agent-rtws/socket && shift && exec setpriv \"$@\"", "sh"]);
    command.arg(room.socket(host));
    command.args(["--reuid", "65534", "--regid", group, "--clear-groups"]);
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]);
    command.arg(own);
    command.args(["--exact", "streams::a_program", "--nocapture"]);
    command.env(
        "RTWIRE_TEST_PROGRAM",
        format!("{end} {host} {stream} {agent}"),
    );
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn agents(room: &Room) -> Vec<Running> {
    let start = |host: &&str| {
        let mut command = room.agent_command(host);
        command.args(["--group", "65534"]);
        crate::room::started(command, "rtwire agent: ready")
    };
    HOSTS.iter().map(start).collect()
}

/// Both ends of a stream as programs of a user without privilege; who is not in the group is told so.
#[test]
fn programs_without_privilege_talk_and_listen() {
    require!(root, program "ip", program "setpriv", program "dumpcap", program "tshark");
    let room = Room::with(MORE);
    let agents = agents(&room);
    let socket = |host: &str| room.socket(host).display().to_string();
    for stream in ["press-state", "press-udp", "press-all"] {
        let listener = ("listen", "office", stream);
        let mut listener = program(&room, "65534", listener, &socket("office"));
        let mut listener = listener.spawn().unwrap();
        // It says when it is there; the talker's first value counts.
        let mut says = BufReader::new(listener.stdout.take().unwrap());
        let mut told = String::new();
        while !told.ends_with("opened\n") {
            assert!(says.read_line(&mut told).unwrap() > 0, "it ended: {told}");
        }
        let capture = room.capture("press", &format!("{stream}.pcapng"));
        let talker = ("talk", "press", stream);
        let talker = program(&room, "65534", talker, &socket("press")).output();
        let sent = talker.unwrap();
        says.read_to_string(&mut told).unwrap();
        let heard = listener.wait_with_output().unwrap();
        let agent = format!("Agent {{ socket: \"{}\" }}", socket("press"));
        assert!(
            text(&sent).contains(&format!("{agent} sent 200")),
            "{}",
            text(&sent)
        );
        let all = "heard 200 by agent, 0 lost, 0 foreign, 0 too frequent";
        assert!(told.contains(all), "{stream}: {told}{}", text(&heard));
        capture.end();
        on_the_wire(&room, stream);
    }

    // A stranger has neither the agent nor privileges of its own, and is told both.
    let stranger = ("talk", "press", "press-state");
    let refused = program(&room, "65533", stranger, &socket("press")).output();
    let refused = text(&refused.unwrap());
    assert!(
        refused.contains("only root and the agent's `--group` may use it"),
        "{refused}"
    );
    // By itself it looks at the usual place, and says of both ways why they are closed.
    let directly = program(&room, "65533", stranger, "if-there").output();
    let directly = text(&directly.unwrap());
    assert!(
        directly.contains("`--group` may use it. And directly") && directly.contains("CAP_NET_RAW"),
        "{directly}"
    );
    let found = program(&room, "65534", stranger, "if-there").output();
    let found = text(&found.unwrap());
    assert!(
        found.contains("/run/rtwire-agent-rtws/socket\" } sent 200"),
        "{found}"
    );
    drop(agents);
}

/// Compares what left with the plan file, as tshark reads both: no frame shows that it was a datagram once.
fn on_the_wire(room: &Room, stream: &str) {
    let fields = [
        "eth.dst",
        "eth.src",
        "eth.type",
        "ip.dst",
        "udp.dstport",
        "frame.len",
    ];
    let lines = fields_of(&room.path(&format!("{stream}.pcapng")), "frame", &fields);
    let plan = plan_of(room.folder.path());
    let identity = plan.streams.iter().find(|one| one.name == stream);
    let identity = &identity.unwrap().identity;
    let destination = identity.destination.to_string();
    let own: Vec<&str> = lines
        .lines()
        .filter(|line| match stream {
            "press-state" => line.contains("0x88b5"),
            _ => line.contains(&format!("\t{}\t", identity.port)),
        })
        .collect();
    assert_eq!(own.len(), 200, "{lines}");
    let places: BTreeSet<&str> = own.iter().copied().collect();
    assert_eq!(places.len(), 1, "{places:?}");
    let one = own[0];
    match stream {
        // 4 bytes of a value, 24 of RTDiP, 14 of Ethernet, padded.
        "press-state" => assert_eq!(
            one,
            format!("{destination}\t02:00:00:00:01:01\t0x88b5\t\t\t60")
        ),
        "press-all" => assert!(one.contains(&format!("\t{destination}\t")), "{one}"),
        _ => assert!(one.contains("\t10.78.0.3\t"), "{one}"),
    }
    assert!(!lines.contains("239.192.136.181"), "{lines}");
}

/// Each form of stream, from a session of the agent to one that knows nothing of it, and back.
#[test]
fn both_kinds_of_sessions_hear_each_other() {
    require!(root, program "ip");
    let room = Room::with(MORE);
    for (talks, hears) in [("press", None), ("", Some("office"))] {
        let agents: Vec<Running> = HOSTS
            .iter()
            .filter(|host| **host == talks || hears == Some(**host))
            .map(|host| room.agent(host))
            .collect();
        let open = |host: &str, through: bool| {
            let agent = match through {
                true => AgentUse::At(room.socket(host)),
                false => AgentUse::Never,
            };
            let session = session(&room, host, agent).unwrap();
            let by_agent = matches!(session.opened_by(), OpenedBy::Agent { .. });
            assert_eq!(by_agent, through);
            session
        };
        let (press, office) = (
            open("press", hears.is_none()),
            open("office", hears.is_some()),
        );
        for stream in [
            "press-state",
            "press-tagged",
            "press-udp",
            "press-all",
            "press-group",
        ] {
            let mut listener = listener_of(&room, &office, stream);
            assert_eq!(
                listener.path_in_use().to_string() == "agent",
                hears.is_some(),
                "{stream}"
            );
            let talker = talker_of(&room, &press, stream).unwrap();
            exchange(stream, talker, &mut listener);
            let counts = listener.statistics().unwrap();
            assert_eq!(
                (counts.foreign, counts.too_long, counts.too_frequent),
                (0, 0, 0)
            );
            assert_eq!(counts.channel.lost, 0, "{stream}: {counts:?}");
        }
        drop((press, office));
        for agent in agents {
            agent.end();
        }
        for host in HOSTS {
            room.at(host, crate::room::BINARY)
                .args(["agent", "remove", "rtws"])
                .output()
                .unwrap();
        }
    }
}

/// Sends values of the shortest and of the longest length, and compares what arrives.
fn exchange(stream: &str, talker: StreamTalker, listener: &mut StreamListener) {
    let long = talker.maximum_data();
    let mut received = |number: u8, length: usize| {
        let value = listener.recv(Some(PATIENCE)).unwrap();
        let value = value.unwrap_or_else(|| panic!("{stream}: value {number} is missing"));
        assert_eq!(value.data, vec![number; length], "{stream}");
        assert!(
            value.stamp_ns().is_some(),
            "{stream}: the kernel has stamped it"
        );
        let late_ns = value.arrival_ns - value.sender_time_ns.unwrap();
        assert!(late_ns < 1_000_000_000, "{stream}: {late_ns}");
    };
    // The first stamps may be missing: the kernel begins with them some time after it was asked.
    std::thread::sleep(Duration::from_millis(300));
    if stream == "press-tagged" {
        let mut talker = talker.cyclic().unwrap();
        for number in 0..20 {
            talker.wait().unwrap();
            let length = if number % 2 == 0 { long } else { 1 };
            let sent = talker.send(&vec![number; length]).unwrap();
            assert!(matches!(sent, Sent::Sequence(_)), "{stream}: {sent:?}");
            received(number, length);
        }
        return;
    }
    let mut talker = talker;
    for number in 0..20 {
        let length = if number % 2 == 0 { long } else { 1 };
        let sent = talker.send(&vec![number; length]).unwrap();
        assert!(matches!(sent, Sent::Sequence(_)), "{stream}: {sent:?}");
        received(number, length);
    }
}

/// A talker at the full rate of its contract loses nothing: its class lets all of it through.
#[test]
fn the_whole_contract_passes() {
    require!(root, program "ip");
    let room = Room::with(MORE);
    let _agent = room.agent("press");
    let press = by_agent(&room, "press");
    let office = session(&room, "office", AgentUse::Never).unwrap();
    let mut listener = listener_of(&room, &office, "press-state");
    let mut talker = talker_of(&room, &press, "press-state").unwrap();
    let value = vec![0x5a; talker.maximum_data()];
    let (begun, before) = (Instant::now(), room.left_on_the_wire("press"));
    let mut full = 0;
    while begun.elapsed() < Duration::from_secs(3) {
        if talker.send(&value).unwrap() == Sent::QueueFull {
            full += 1;
        }
        while listener.recv(Some(Duration::ZERO)).unwrap().is_some() {}
    }
    until("all of it", || {
        while listener.recv(Some(Duration::ZERO)).unwrap().is_some() {}
        let counts = listener.statistics().unwrap().channel;
        counts.received + counts.lost >= talker.statistics().sent - full
    });
    let sent = talker.statistics().sent;
    let left = room.left_on_the_wire("press") - before;
    // 10.24 Mbit/s for three seconds at most; less where this machine stands still now and then.
    assert!(left < 4_000_000 && sent > 500, "{left} {sent}");
    assert_eq!(full, 0, "of {sent}");
    assert_eq!(listener.statistics().unwrap().channel.lost, 0);
}
