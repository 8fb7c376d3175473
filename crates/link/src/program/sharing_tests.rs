//! One program shared by several processes: the child processes are this test program, started again.

use super::queue_tests::message;
use super::test_bench::{Bench, DROP, build};
use super::*;
use crate::{LinkError, Sender, SenderConfig};
use rtwire_sys::bpf::attached::program_at;
use rtwire_sys::port_lock::FOLDER;
use rtwire_testkit::{NetnsPair, foreign_xdp, require};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

const NAMESPACE: &str = "RTWTEST_SHARING_NAMESPACE";

/// Set for a child that uses generic mode.
const GENERIC: &str = "RTWTEST_SHARING_GENERIC";

fn in_mode(interface: &str, mode: XdpMode) -> ProgramConfig {
    ProgramConfig {
        attach: Attach::Only(mode),
        ..ProgramConfig::new(interface)
    }
}

/// Attaches or joins, opens a queue at 1001 and a responder at 1002, reports that, and counts frames until it is told
/// to end.
#[test]
#[ignore = "run by the tests of this file"]
fn child_that_has_two_channels() {
    let namespace = std::env::var(NAMESPACE).unwrap();
    rtwire_sys::netns::enter(&namespace).unwrap();
    let generic = std::env::var(GENERIC).is_ok();
    let mode = [XdpMode::Native, XdpMode::Generic][usize::from(generic)];
    let program = ReceiveProgram::with(&in_mode("rtwa", mode)).unwrap();
    let mut queue = program
        .queue_channel(1001, 7, &QueueConfig::default())
        .unwrap();
    let _responder = program.respond_channel(1002, 7, Some(b"answer")).unwrap();
    println!("READY joined={}", program.is_joined());
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).unwrap() > 0 {
        let count = queue.take(100, |_| ());
        println!("TOOK {count}");
    }
}

/// A process that is killed when this value is dropped.
struct Other {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Other {
    fn start(pair: &NetnsPair, mode: XdpMode) -> (Self, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if mode == XdpMode::Generic {
            command.env(GENERIC, "1");
        }
        let mut child = command
            .args(["--exact", "--ignored", "--nocapture"])
            .arg("program::sharing_tests::child_that_has_two_channels")
            .env(NAMESPACE, &pair.a.namespace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut other = Self {
            child,
            input,
            output,
        };
        let ready = other.line("READY");
        (other, ready)
    }

    fn line(&mut self, with: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "no line with {with}"
            );
            if let Some(at) = line.find(with) {
                return line[at..].trim().to_owned();
            }
        }
    }

    fn took(&mut self) -> String {
        writeln!(self.input, "how many?").unwrap();
        self.line("TOOK")
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sender(pair: &NetnsPair) -> Sender {
    let config = SenderConfig::new(pair.b.interface.as_str());
    pair.b.run(|| Sender::frames(&config)).unwrap()
}

fn send(pair: &NetnsPair, sender: &mut Sender, port: u16) {
    let mut message = message(port, 1, 5);
    message.to.0 = pair.a.mac;
    message.from.0 = pair.b.mac;
    sender.send(&message.frame(&[1])).unwrap();
}

fn attach(pair: &NetnsPair, mode: XdpMode) -> ReceiveProgram {
    let config = in_mode(&pair.a.interface, mode);
    pair.a.run(|| ReceiveProgram::with(&config)).unwrap()
}

fn attached(pair: &NetnsPair) -> bool {
    let interface = &pair.a.interface;
    pair.a.run(|| {
        let index = rtwire_sys::interface::by_name(interface).unwrap().index;
        program_at(index).unwrap().is_some()
    })
}

#[test]
fn the_first_may_crash_and_the_second_goes_on() {
    require!(root, program "ip");
    for mode in [XdpMode::Native, XdpMode::Generic] {
        crashes_and_goes_on(mode);
    }
}

fn crashes_and_goes_on(mode: XdpMode) {
    let pair = NetnsPair::new();
    let mut sender = sender(&pair);
    let (mut first, ready) = Other::start(&pair, mode);
    assert_eq!(ready, "READY joined=false");
    let program = attach(&pair, mode);
    assert!(program.is_joined());
    let open = |port| {
        pair.a
            .run(|| program.queue_channel(port, 7, &QueueConfig::default()))
    };
    for port in [1001, 1002] {
        let taken = open(port);
        assert!(
            matches!(taken, Err(ProgramError::PortInUse { .. })),
            "{port}: {taken:?}"
        );
    }
    let mut queue = open(1003).unwrap();
    for port in [1001, 1003, 1001, 1003, 1001] {
        send(&pair, &mut sender, port);
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(first.took(), "TOOK 3");
    assert_eq!(queue.take(9, |_| ()), 2);

    // It ends as in a crash: none of its own code runs.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert!(program.is_attached().unwrap());
    send(&pair, &mut sender, 1003);
    assert!(queue.wait(Some(Duration::from_secs(2))).unwrap());
    queue.release();
    // Its ports are free at once, and a third process can reuse its channels.
    let (second, ready) = Other::start(&pair, mode);
    assert_eq!(ready, "READY joined=true");
    drop(second);
    // Any remaining process finds the rest of its channels.
    let start = Instant::now();
    let answers = program
        .shared
        .ports
        .word(1002, Port::Channel as usize)
        .unwrap();
    while answers.load(Ordering::Relaxed) != 0 {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "a dead process answers"
        );
        std::thread::sleep(Duration::from_millis(20));
        pair.a.run(|| program.is_attached()).unwrap();
    }
    drop(open(1001).unwrap());
    drop(queue);
    assert!(attached(&pair));
    drop(program);
    assert!(!attached(&pair), "nothing is left behind");
}

/// A missing file of a lock must not make a process close its own channels.
#[test]
fn a_removed_lock_closes_no_channel_of_its_own_process() {
    require!(root);
    let mut bench = Bench::new();
    let mut slot = bench.program.newest_channel(1001, 7).unwrap();
    // No other program has this interface's number.
    let end = format!("-rtwire-88b5-{}-1001", bench.program.interface().index);
    let files = std::fs::read_dir(FOLDER).unwrap().flatten();
    let files: Vec<_> = files
        .filter(|file| file.file_name().to_string_lossy().ends_with(&end))
        .collect();
    assert_eq!(files.len(), 1);
    std::fs::remove_file(files[0].path()).unwrap();
    // Opening a channel closes those of ended processes.
    let _other = bench.program.newest_channel(1002, 7).unwrap();
    assert_eq!(bench.run(&build(1001, 1).frame(b"kept")), DROP);
    let mut value = [0; 8];
    let newest = slot.read(&mut value).unwrap();
    assert_eq!(
        (newest.sequence, &value[..newest.length]),
        (1, &b"kept"[..])
    );
    let taken = bench.program.newest_channel(1001, 7);
    assert!(matches!(taken, Err(ProgramError::PortInUse { .. })));
}

#[test]
fn who_shares_a_program_wants_the_same_of_it() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let with = |attach, kind| {
        let config = ProgramConfig {
            attach,
            ether_type: EtherType(kind),
            ..ProgramConfig::new(pair.a.interface.as_str())
        };
        pair.a.run(|| ReceiveProgram::with(&config))
    };
    let _first = with(Attach::Only(XdpMode::Generic), 0x88b5).unwrap();
    let second = with(Attach::Best, 0x88b5).unwrap();
    assert_eq!(
        (second.mode(), second.is_joined()),
        (XdpMode::Generic, true)
    );
    assert!(second.why_generic().unwrap().contains("shared"));
    let native = with(Attach::Only(XdpMode::Native), 0x88b5).unwrap_err();
    assert!(native.is_in_use(), "{native}");
    assert!(native.to_string().contains("in generic mode already"));
    let other = with(Attach::Best, 0x88b6).unwrap_err();
    assert!(
        other.is_in_use() && other.to_string().contains("0x88b5"),
        "{other}"
    );
}

/// A foreign program is not joined. When it is gone, the receive program is attached again only on request.
#[test]
fn a_foreign_program_is_left_alone() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let program = attach(&pair, XdpMode::Native);
    let mut queue = pair
        .a
        .run(|| program.queue_channel(1001, 7, &QueueConfig::default()))
        .unwrap();
    let second = attach(&pair, XdpMode::Native);
    program.detach().unwrap();
    for program in [&program, &second] {
        assert_eq!(program.is_attached(), Ok(false));
    }
    let foreign = foreign_xdp();
    let index = program.interface().index;
    let link = pair
        .a
        .run(|| foreign.attach_xdp("foreign", index, XdpMode::Native))
        .unwrap();
    let refused = pair.a.run(|| program.reattach()).unwrap_err();
    assert!(refused.is_in_use(), "{refused}");
    let third = pair.a.run(|| ReceiveProgram::attach(&pair.a.interface));
    assert!(third.is_err_and(|error| error.is_in_use()));
    let waited = queue.wait(Some(Duration::from_secs(1)));
    assert!(matches!(waited, Err(LinkError::ProgramDetached { .. })));
    assert!(link.is_attached().unwrap(), "it was not touched");
    drop(link);
    assert_eq!(program.is_attached(), Ok(false), "not attached by itself");
    // One of the processes that share it attaches it again; the other joins it.
    for program in [&program, &second, &program] {
        pair.a.run(|| program.reattach()).unwrap();
        assert_eq!(program.is_attached(), Ok(true));
    }
    let mut sender = sender(&pair);
    send(&pair, &mut sender, 1001);
    assert!(queue.wait(Some(Duration::from_secs(2))).unwrap());
    drop((program, queue));
    assert!(attached(&pair), "the second holds it, too");
    drop(second);
    assert!(!attached(&pair));
}
