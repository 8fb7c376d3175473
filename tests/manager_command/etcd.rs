//! Managers that stand by for one another, on an etcd of three members.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rtwire_manager::{Answer, Change, Granted, Question, Stored};
use rtwire_managerd::{Asker, EtcdAddress, EtcdStore, ManagerdError, Store as _, read_key};
use rustix::process::Signal;

use super::{BINARY, Program, Room, reserve, rustix_pid};

/// The longest wait for what comes in a moment.
const WITHIN: Duration = Duration::from_secs(10);

/// The members of an etcd on the loopback interface. They are killed when it is dropped.
struct Etcd {
    _folder: tempfile::TempDir,
    members: Vec<(Child, u16)>,
}

/// Returns ports that nobody uses now.
fn free_ports(count: usize) -> Vec<u16> {
    let open: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    open.iter()
        .map(|listener| listener.local_addr().unwrap().port())
        .collect()
}

impl Etcd {
    /// Starts them. `None` where etcd is missing, and may be.
    fn start(count: usize) -> Option<Etcd> {
        if !rtwire_testkit::require_program("etcd") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let ports = free_ports(2 * count);
        let (clients, peers) = ports.split_at(count);
        let url = |port: &u16| format!("http://127.0.0.1:{port}");
        let cluster: Vec<String> = peers
            .iter()
            .enumerate()
            .map(|(number, port)| format!("n{number}={}", url(port)))
            .collect();
        let mut members = Vec::new();
        for (number, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let mut command = Command::new("etcd");
            command.args(["--name", &format!("n{number}"), "--logger", "zap"]);
            command
                .arg("--data-dir")
                .arg(folder.path().join(format!("n{number}")));
            command.args(["--listen-client-urls", &url(client)]);
            command.args(["--advertise-client-urls", &url(client)]);
            command.args(["--listen-peer-urls", &url(peer)]);
            command.args(["--initial-advertise-peer-urls", &url(peer)]);
            command.args(["--initial-cluster", &cluster.join(",")]);
            command.args(["--initial-cluster-state", "new"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            members.push((command.spawn().unwrap(), *client));
        }
        Some(Etcd {
            _folder: folder,
            members,
        })
    }

    fn store(&self) -> String {
        let ports = self
            .members
            .iter()
            .map(|(_, port)| format!("127.0.0.1:{port}"));
        format!("etcd://{}", ports.collect::<Vec<_>>().join(","))
    }

    fn kill(&mut self, number: usize) {
        let (child, _) = &mut self.members[number];
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for (child, _) in &mut self.members {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A manager's process, and what it says.
struct Standing {
    child: Child,
    address: SocketAddr,
    lines: Receiver<String>,
}

impl Standing {
    /// Starts a manager on a port of its own, which it has also when it leads again.
    fn start(room: &Room, name: &str, store: &str) -> Standing {
        Standing::start_with(room, name, store, &[])
    }

    /// The same, with variables of its environment.
    fn start_with(room: &Room, name: &str, store: &str, more: &[(&str, String)]) -> Standing {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let mut command = Command::new(BINARY);
        command.args([
            "manager",
            "plan.json",
            "--keys",
            "keys",
            "--lifetime",
            "10ms",
        ]);
        command.args([
            "--store",
            store,
            "--lease",
            "2s",
            "--requests-per-second",
            "100000",
        ]);
        command.args(["--state", name, "--listen", &address.to_string()]);
        command.current_dir(room.folder.path());
        command.envs(more.iter().cloned());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors = child.stderr.take().unwrap();
        let (send, lines) = channel();
        std::thread::spawn(move || {
            use std::io::BufRead as _;
            for line in std::io::BufReader::new(errors)
                .lines()
                .map_while(Result::ok)
            {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Standing {
            child,
            address,
            lines,
        }
    }

    /// Waits until it says a line with these words.
    #[track_caller]
    fn says(&self, words: &str) -> String {
        let until = Instant::now() + Duration::from_secs(30);
        let mut before = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => before.push(line),
                Err(_) => panic!("`{words}` was not said; only {before:#?}"),
            }
        }
    }

    fn send(&self, signal: Signal) {
        rustix::process::kill_process(rustix_pid(&self.child), signal).unwrap();
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn asker(room: &Room, host: &str, managers: &[SocketAddr]) -> Asker {
    let key = read_key(&room.path(&format!("keys/{host}.key"))).unwrap();
    Asker::new(managers, host, key).unwrap()
}

#[track_caller]
fn granted(answer: Answer) -> Granted {
    match answer {
        Answer::Granted(granted) => granted,
        other => panic!("{other:?}"),
    }
}

/// Returns what the store has, read by this process once no manager leads.
fn stored(store: &str) -> BTreeMap<u64, Granted> {
    let address: EtcdAddress = store.parse().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let mut keep_going = || Instant::now() < until;
    let led = address.lead("test", 2, &mut keep_going, &mut |_| {});
    let all = led.unwrap().unwrap().connections().unwrap().into_iter();
    all.map(|one| (one.granted.connection, one.granted))
        .collect()
}

/// The wall clock of a process, which another program sets; its other clocks are true.
struct WallClock {
    file: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl WallClock {
    /// Returns a clock that is right. `None` where the program is missing, and may be.
    fn new(room: &Room) -> Option<WallClock> {
        if !rtwire_testkit::require_program("faketime") {
            return None;
        }
        let file = room.path("wall-clock");
        let arch = std::env::consts::ARCH;
        let library = format!("/usr/lib/{arch}-linux-gnu/faketime/libfaketime.so.1");
        let clock = WallClock {
            variables: vec![
                ("LD_PRELOAD", library),
                ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
                ("FAKETIME_NO_CACHE", "1".to_owned()),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ],
            file,
        };
        clock.set(0);
        Some(clock)
    }

    fn set(&self, by_s: i64) {
        let aside = self.file.with_extension("new");
        std::fs::write(&aside, format!("{by_s:+}s")).unwrap();
        std::fs::rename(&aside, &self.file).unwrap();
        // By a program that does nothing but read it.
        let mut date = Command::new("date");
        let output = date
            .arg("+%s")
            .envs(self.variables.iter().cloned())
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let shown: i64 = text.trim().parse().unwrap();
        let truth = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let off = shown - i64::try_from(truth.as_secs()).unwrap();
        assert!(
            (off - by_s).abs() < 60,
            "the clock is {off} s off, not {by_s} s"
        );
    }
}

/// Meanwhile its wall clock is set by an hour, forth and back.
#[test]
fn a_manager_on_etcd_has_after_its_end_what_it_acknowledged() {
    let Some(etcd) = Etcd::start(1) else { return };
    let room = Room::new();
    let store = etcd.store();
    let Some(clock) = WallClock::new(&room) else {
        return;
    };
    let manager = Standing::start_with(&room, "a", &store, &clock.variables);
    manager.says("ready at");
    let mut press = asker(&room, "press", &[manager.address]);
    let first = granted(press.ask_until(&reserve, WITHIN).unwrap());
    clock.set(3_600);
    let second = granted(press.ask(&reserve(2), WITHIN).unwrap());
    clock.set(-3_600);
    let request = Asker::request().unwrap();
    let connection = first.connection;
    let question = Question::Release {
        request,
        connection,
    };
    let released = press.ask(&question, WITHIN).unwrap();
    assert!(matches!(released, Answer::Released { .. }), "{released:?}");
    let said: Vec<String> = manager.lines.try_iter().collect();
    assert_eq!(said, [""; 0], "the wall clock is none of its business");
    drop(manager);
    let expected = BTreeMap::from([(second.connection, second)]);
    assert_eq!(stored(&store), expected);
}

/// Stands between a store and a member of etcd. It can carry out a question and lose its answer.
struct Between {
    address: SocketAddr,
    /// The number of answers to writes that are lost next.
    lose: Arc<AtomicUsize>,
    /// The newest write, as it was sent.
    newest: Arc<Mutex<Vec<u8>>>,
}

/// Sends a whole request on a connection of its own. Returns the whole answer.
fn exchange(member: SocketAddr, request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request).into_owned();
    let (line, rest) = text.split_once("\r\n").unwrap();
    let mut stream = TcpStream::connect(member).unwrap();
    let request = format!("{line}\r\nconnection: close\r\n{rest}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn post(member: SocketAddr, path: &str, body: &str) -> String {
    let length = body.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
    String::from_utf8_lossy(&exchange(member, request.as_bytes())).into_owned()
}

/// Reads one request, with its body.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut some = [0; 4096];
    loop {
        let count = stream.read(&mut some).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&some[..count]);
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.split("content-length: ").nth(1)?;
        let length: usize = length.split("\r\n").next()?.parse().ok()?;
        if body.len() >= length {
            return Some(bytes);
        }
    }
}

impl Between {
    fn start(member: SocketAddr) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let between = Between {
            address: listener.local_addr().unwrap(),
            lose: Arc::default(),
            newest: Arc::default(),
        };
        let (lose, newest) = (Arc::clone(&between.lose), Arc::clone(&between.newest));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (lose, newest) = (Arc::clone(&lose), Arc::clone(&newest));
                std::thread::spawn(move || serve(stream, member, &lose, &newest));
            }
        });
        between
    }
}

fn serve(mut stream: TcpStream, member: SocketAddr, lose: &AtomicUsize, newest: &Mutex<Vec<u8>>) {
    let Some(asked) = request(&mut stream) else {
        return;
    };
    let answer = exchange(member, &asked);
    if asked.starts_with(b"POST /v3/kv/txn") {
        *newest.lock().unwrap() = asked;
        let less = |count: usize| count.checked_sub(1);
        if lose
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
        {
            // It took effect, and nobody learns of it.
            return;
        }
    }
    let _ = stream.write_all(&answer);
}

fn admitted(connection: u64) -> Change {
    let Question::Reserve { ask, .. } = reserve(1) else {
        panic!("not a reservation");
    };
    let stored = Stored {
        request: connection.into(),
        granted: Granted {
            connection,
            epoch: connection,
            talker: "press".to_owned(),
            ask,
            promise_ns: 1,
            launch_offset_ns: None,
            number: 1,
            key: 1,
        },
    };
    Change::Admitted(stored.into())
}

/// The answer to a write is lost; a write comes a second time, late; another manager leads.
#[test]
fn a_write_takes_effect_once_and_only_while_its_manager_leads() {
    let Some(etcd) = Etcd::start(1) else { return };
    let member = SocketAddr::from(([127, 0, 0, 1], etcd.members[0].1));
    let between = Between::start(member);
    let address: EtcdAddress = format!("etcd://{}/hall", between.address).parse().unwrap();
    let until = Instant::now() + WITHIN;
    let mut keep_going = || Instant::now() < until;
    let mut store = address
        .lead("test", 5, &mut keep_going, &mut |_| {})
        .unwrap()
        .unwrap();
    let ids = |store: &EtcdStore| -> Vec<u64> {
        let all = store.connections().unwrap().into_iter();
        all.map(|one| one.granted.connection).collect()
    };
    between.lose.store(2, Ordering::Relaxed);
    store.write(&[admitted(1)]).unwrap();
    assert_eq!(between.lose.load(Ordering::Relaxed), 0);
    assert_eq!(ids(&store), [1]);
    let late = between.newest.lock().unwrap().clone();
    let gone = Change::Released {
        connection: 1,
        epoch: 2,
    };
    // One that is admitted and released in a group leaves no trace but its number.
    let same = Change::Released {
        connection: 2,
        epoch: 3,
    };
    store.write(&[gone, admitted(2), same]).unwrap();
    assert_eq!(ids(&store), [0_u64; 0]);
    exchange(member, &late);
    assert_eq!(ids(&store), [0_u64; 0], "a late write took effect again");
    assert_eq!(store.restored().unwrap().last_connection, 2);

    // More than a transaction may have, and more than an answer has.
    let many: Vec<Change> = (3..1_203).map(admitted).collect();
    store.write(&many).unwrap();
    assert_eq!(ids(&store), (3..1_203).collect::<Vec<u64>>());

    // Its key is gone: another manager may have been there, whatever its own clock says.
    // `hall/leader` in base 64.
    let key = "aGFsbC9sZWFkZXI=";
    let removed = post(
        member,
        "/v3/kv/deleterange",
        &format!("{{\"key\":\"{key}\"}}"),
    );
    assert!(removed.contains("\"deleted\":\"1\""), "{removed}");
    store.leads().unwrap();
    let refused = store.write(&[admitted(5_000)]).unwrap_err();
    assert!(
        matches!(refused, ManagerdError::NoLongerLeads { .. }),
        "{refused}"
    );
    assert_eq!(ids(&store).last(), Some(&1_202));
}

/// Asks for connections and releases them until `stop`, at whichever manager answers.
fn program(room: &Room, managers: &[SocketAddr]) -> (Arc<Mutex<Program>>, Arc<AtomicBool>) {
    let program = Arc::new(Mutex::new(Program {
        host: "press",
        asker: asker(room, "press", managers),
        owns: BTreeMap::new(),
        open: None,
        decisions: 0,
    }));
    let stop = Arc::new(AtomicBool::new(false));
    let (ours, stopped) = (Arc::clone(&program), Arc::clone(&stop));
    std::thread::spawn(move || {
        let mut number = 0;
        while !stopped.load(Ordering::Relaxed) || ours.lock().unwrap().open.is_some() {
            number += 1;
            ours.lock().unwrap().step(number);
        }
    });
    (program, stop)
}

/// Waits until a program has more answers.
#[track_caller]
fn goes_on(program: &Mutex<Program>) {
    let before = program.lock().unwrap().decisions;
    let until = Instant::now() + Duration::from_secs(20);
    while program.lock().unwrap().decisions < before + 20 {
        assert!(Instant::now() < until, "nothing is decided any more");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn unanswered(answer: &Result<Answer, ManagerdError>) -> bool {
    matches!(answer, Err(ManagerdError::NoAnswer { .. }))
}

#[test]
fn managers_stand_by_for_one_another() {
    let Some(mut etcd) = Etcd::start(3) else {
        return;
    };
    let room = Room::new();
    let store = etcd.store();
    let a = Standing::start(&room, "a", &store);
    a.says("ready at");
    let b = Standing::start(&room, "b", &store);
    let said = b.says("stands by");
    assert!(said.contains(&a.address.to_string()), "{said}");
    let c = Standing::start(&room, "c", &store);
    c.says("stands by");
    let all = [a.address, b.address, c.address];
    let (program, stop) = program(&room, &all);
    goes_on(&program);

    // The leader is killed. Which of the others was first is theirs to settle.
    drop(a);
    goes_on(&program);
    let leads = |one: &Standing| {
        let mut asker = asker(&room, "saw", &[one.address]);
        let request = Asker::request().unwrap();
        let question = Question::List { request, after: 0 };
        asker.ask(&question, Duration::from_millis(300)).is_ok()
    };
    let (old, new) = if leads(&b) { (b, c) } else { (c, b) };

    // The leader is paused for longer than its lease, with a question waiting at its door: one whose answer is not stored, so
    // that only the leader's own clock can keep it from answering.
    let mut camera = asker(&room, "camera", &[old.address]);
    let share = |request| Question::Share {
        request,
        listener: "office".to_owned(),
        wanted_bytes_per_ms: 100,
    };
    let shared = camera.ask_until(&share, WITHIN).unwrap();
    assert!(matches!(shared, Answer::Shared(_)), "{shared:?}");
    old.send(Signal::STOP);
    let asked = std::thread::spawn(move || camera.ask(&share(8), Duration::from_secs(4)));
    new.says("ready at");
    goes_on(&program);
    old.send(Signal::CONT);
    let answer = asked.join().unwrap();
    assert!(
        unanswered(&answer),
        "a manager that was paused answers {answer:?}"
    );
    old.says("no longer leads");
    let said = old.says("stands by: the manager");
    assert!(said.contains(&new.address.to_string()), "{said}");

    // One member of etcd is killed.
    etcd.kill(0);
    goes_on(&program);
    stop.store(true, Ordering::Relaxed);
    let mut office = asker(&room, "office", &all);
    let expected = {
        let until = Instant::now() + WITHIN;
        while program.lock().unwrap().open.is_some() {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(2));
        }
        program.lock().unwrap().owns.clone()
    };
    let question = |request| Question::List { request, after: 0 };
    let Answer::Listing { connections, .. } = office.ask_until(&question, WITHIN).unwrap() else {
        panic!("no list");
    };
    let of_press = connections.into_iter().filter(|one| one.talker == "press");
    let found: BTreeMap<u64, Granted> = of_press.map(|one| (one.connection, one)).collect();
    assert_eq!(found, expected);

    // The second member, and with it the majority.
    let mut saw = asker(&room, "saw", &all);
    granted(saw.ask_until(&reserve, WITHIN).unwrap());
    etcd.kill(1);
    let answer = saw.ask(&reserve(9), Duration::from_secs(3));
    assert!(
        unanswered(&answer),
        "granted without a majority: {answer:?}"
    );
    let said = new.says("nothing is granted without a majority of its members");
    assert!(said.contains("etcd://127.0.0.1"), "{said}");
}
