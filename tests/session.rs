//! Streams opened by their names from a plan file, on real interfaces: by programs of thirty lines, by `rtwire run` with
//! values of other programs, and by ends that do not have the same plan. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "run_common/mod.rs"]
mod run_common;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rtwire_plan::Plan;
use rtwire_session::image::{Image, ValueStamp};
use rtwire_session::{Sent, Session, SessionError};
use rtwire_testkit::{NetnsPair, SLOWER, Side, require, slowed};
use run_common::{OPEN, Running, row};
use serde_json::Value;

const NETWORK: &str = r#"
[network]
name = "two hosts"

[defaults]
tick-error = "1 ms"
link-rate = "1 Gbit/s"

[[host]]
name = "A"
latency = "900 us"
[[host]]
name = "B"
latency = "900 us"

[[link]]
ends = ["A", "B"]

[[stream]]
name = "position"
talker = "A"
listeners = ["B"]
payload = "16 B"
interval = "2 ms"
priority = 6

[[stream]]
name = "event"
talker = "A"
listeners = ["B"]
payload = "100 B"
rate = "1 Mbit/s"

[[stream]]
name = "state"
talker = "B"
listeners = ["A"]
payload = "16 B"
interval = "5 ms"
semantics = "newest"
"#;

/// A stream more, in front of all others.
fn grown() -> String {
    let first = "[[stream]]\nname = \"a-first\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"16 B\"\ninterval = \"2 ms\"\n\n";
    NETWORK.replacen("[[stream]]", &format!("{first}[[stream]]"), 1)
}

struct Bench {
    pair: NetnsPair,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            pair: NetnsPair::new(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Plans a description with the command; returns the plan's file.
    fn plan(&self, network: &str, name: &str) -> PathBuf {
        let (toml, json) = (
            self.path(&format!("{name}.toml")),
            self.path(&format!("{name}.json")),
        );
        std::fs::write(&toml, network).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_rtwire"))
            .args([Path::new("plan"), &toml, Path::new("--output"), &json])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        json
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(side: &Side, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &side.namespace])
            .arg(program)
            .args(arguments);
        command
    }

    /// `rtwire run` of one host with this plan.
    fn run(&self, host: &str, plan: &Path, more: &[&str]) -> Running {
        let side = run_common::side(&self.pair, host);
        Running::start(run_common::run(side, plan, host).args(more))
    }
}

fn read(plan: &Path) -> Plan {
    rtwire_plan::plan_file::read(&std::fs::read(plan).unwrap(), "plan.json").unwrap()
}

/// Interrupts a process and waits for its end.
fn stop(running: Running) -> Output {
    running.signal("-INT");
    running.output()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// A listener with one version of a plan and a talker with another: no frame is taken, and the run is not complete.
#[test]
fn frames_of_another_plan_are_never_taken() {
    require!(root, program "ip");
    let bench = Bench::new();
    let (v1, v2) = (bench.plan(NETWORK, "v1"), bench.plan(&grown(), "v2"));
    for path in ["packet", "generic"] {
        let listens = bench.run("B", &v1, &["--receive-path", path]).says(OPEN);
        let talked = bench.run("A", &v2, &["--duration", "1s"]).output();
        let heard = stop(listens);
        let (talked, heard_report) = (report(&talked), report(&heard));
        assert_ne!(talked["plan_id"], heard_report["plan_id"]);
        assert_eq!(heard.status.code(), Some(1), "{path}: {heard_report:#}");
        let mut foreign = 0;
        for row in heard_report["listeners"].as_array().unwrap() {
            assert_eq!(row["frames_received"], 0, "{path}: {row}");
            foreign += row["frames_foreign"].as_u64().unwrap();
        }
        assert!(foreign > 100, "{path}: {heard_report:#}");
        assert!(heard_report["reasons"].to_string().contains("foreign plan"));
    }
    // The same plan at both ends is called good.
    let mut tries = Vec::new();
    let good = SLOWER.iter().any(|&factor| {
        let plan = bench.plan(&slowed(NETWORK, factor), "same");
        let duration = format!("{}ms", 500 * factor.min(10));
        let listens = bench.run("B", &plan, &[]).says(OPEN);
        let talked = bench.run("A", &plan, &["--duration", &duration]).output();
        let heard = stop(listens);
        let codes = (talked.status.code(), heard.status.code());
        tries.push((codes, report(&talked), report(&heard)));
        codes == (Some(0), Some(0))
    });
    assert!(good, "{tries:#?}");
}

/// Two programs of thirty lines each, and nothing between them but `plan.json`.
#[test]
fn programs_of_thirty_lines_exchange_their_values() {
    require!(root, program "ip");
    let bench = Bench::new();
    let plan = bench.plan(NETWORK, "plan");
    let promise_ns = read(&plan).streams[0].promises[0].delay_ns.unwrap();
    assert!(promise_ns < 1_000_000);
    // Built beside this test, with the workspace.
    let examples = std::env::current_exe().unwrap();
    let examples = examples
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples");
    let example = |name: &str| {
        let program = examples.join(name);
        assert!(
            program.is_file(),
            "{} is missing: cargo build --release -p rtwire --examples",
            program.display()
        );
        program
    };
    let plan = plan.to_str().unwrap();
    let arguments = [plan, "B", "rtwb", "position", "400"];
    let mut listener = Bench::command(&bench.pair.b, &example("session_listener"), &arguments)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut heard = String::new();
    let mut says = BufReader::new(listener.stdout.take().unwrap());
    says.read_line(&mut heard).unwrap();
    assert_eq!(heard, "listening\n");
    let arguments = [plan, "A", "rtwa", "position", "400"];
    let talked = Bench::command(&bench.pair.a, &example("session_talker"), &arguments)
        .output()
        .unwrap();
    says.read_to_string(&mut heard).unwrap();
    assert!(listener.wait().unwrap().success());
    let talked = String::from_utf8_lossy(&talked.stdout).into_owned();
    assert!(talked.contains("sent 400"), "{talked}");
    assert!(
        heard.contains("received 400, newest Some(399), lost 0, foreign 0"),
        "{heard}"
    );
    // One thread of an async runtime waits for a newest-value stream and for a queue.
    let newest = NETWORK.replacen("priority = 6", "semantics = \"newest\"", 1);
    let plan = bench.plan(&newest, "newest");
    let arguments = [plan.to_str().unwrap(), "B", "rtwb", "position", "event"];
    let mut listener = Bench::command(&bench.pair.b, &example("session_async"), &arguments)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut heard = String::new();
    let mut says = BufReader::new(listener.stdout.take().unwrap());
    says.read_line(&mut heard).unwrap();
    assert_eq!(heard, "listening\n");
    let arguments = ["--duration", "300ms"];
    let talked = bench.run("A", &plan, &arguments).output();
    says.read_to_string(&mut heard).unwrap();
    assert!(listener.wait().unwrap().success());
    println!("{heard}{talked:?}");
    let report = report(&talked);
    let sent = |stream| {
        row(&report, "talkers", stream)["frames_sent"]
            .as_u64()
            .unwrap()
    };
    let mut counts = heard
        .lines()
        .last()
        .unwrap()
        .split(' ')
        .filter_map(|word| word.parse::<u64>().ok());
    // Of a newest-value stream a reader that is late sees fewer values; of a queue it sees all.
    let (newest, queued) = (counts.next().unwrap(), counts.next().unwrap());
    assert!(0 < newest && newest <= sent("position"), "{heard}");
    assert_eq!(queued, sent("event"), "{heard}");
}

#[test]
fn what_cannot_be_opened_is_refused_with_what_would_be_right() {
    require!(root, program "ip");
    let bench = Bench::new();
    let plan = read(&bench.plan(NETWORK, "plan"));
    let refused = |error: SessionError, parts: &[&str]| {
        let message = error.to_string();
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
    };
    bench.pair.a.run(|| {
        let open = |host: &str, interface: &str| Session::open(&plan, host, interface);
        refused(open("C", "rtwa").unwrap_err(), &["no host `C`", "A, B"]);
        refused(open("A", "eth77").unwrap_err(), &["eth77"]);
        refused(
            open("A", "lo").unwrap_err(),
            &["lo", "no Ethernet address", "host `A`"],
        );
        let session = open("A", "rtwa").unwrap();
        assert_eq!(session.talkers().collect::<Vec<_>>(), ["position", "event"]);
        // The kernel's own listing: a veth without a queue keeps no order of priorities.
        let [missing] = session.missing() else {
            panic!("{:?}", session.missing());
        };
        assert!(
            missing.what.contains("2 priorities") && missing.what.contains("`noqueue`"),
            "{missing}"
        );
        assert!(
            missing
                .remedy
                .contains("rtwire apply PLAN --host A --interface rtwa"),
            "{missing}"
        );
        refused(
            session.talker("positon").unwrap_err(),
            &["no stream `positon`", "position"],
        );
        refused(
            session.talker("state").unwrap_err(),
            &["not the talker", "that is `B`", "position, event"],
        );
        refused(
            session.listener("position").unwrap_err(),
            &["no listener", "those are B", "listens to: state"],
        );
        let talker = session.talker("position").unwrap();
        refused(
            session.talker("position").unwrap_err(),
            &["open already", "drop it first"],
        );
        drop(talker);
        let mut talker = session.talker("position").unwrap();
        assert_eq!(talker.maximum_data(), 16);
        refused(
            talker.try_send(&[0; 17]).unwrap_err(),
            &["17 bytes", "16 bytes", "position"],
        );
        let event = session.talker("event").unwrap();
        refused(
            event.cyclic().unwrap_err(),
            &["event", "no interval", "try_send"],
        );
    });
    // Where a discipline keeps them apart, nothing is missing.
    rtwire_testkit::tc(
        &bench.pair.a.namespace,
        "qdisc add dev rtwa root handle 1: htb",
    );
    bench.pair.a.run(|| {
        let session = Session::open(&plan, "A", "rtwa").unwrap();
        assert_eq!(session.missing(), []);
    });
    rtwire_testkit::ip(&bench.pair.a.namespace, "link set rtwa mtu 80");
    bench.pair.a.run(|| {
        let error = Session::open(&plan, "A", "rtwa").unwrap_err();
        refused(error, &["stream `event`", "takes 80", "mtu"]);
    });
    rtwire_testkit::ip(&bench.pair.a.namespace, "link set rtwa mtu 1500");
    rtwire_testkit::ip(&bench.pair.a.namespace, "link set rtwa down");
    bench.pair.a.run(|| {
        let error = Session::open(&plan, "A", "rtwa").unwrap_err();
        assert!(error.is_host_lacking());
        refused(error, &["is down", "ip link set dev rtwa up"]);
    });
}

/// The token bucket says when; what it lets through arrives, under the plan's contract.
#[test]
fn events_are_sent_when_the_contract_allows() {
    require!(root, program "ip");
    let bench = Bench::new();
    let plan = read(&bench.plan(NETWORK, "plan"));
    let (plan, pair) = (&plan, &bench.pair);
    std::thread::scope(|scope| {
        let (ready, go) = std::sync::mpsc::channel();
        let heard = scope.spawn(move || {
            pair.b.run(|| {
                let session = Session::open(plan, "B", "rtwb").unwrap();
                let mut listener = session.listener("event").unwrap();
                ready.send(()).unwrap();
                let mut values = Vec::new();
                while let Some(value) = listener.recv(Some(Duration::from_secs(2))).unwrap() {
                    values.push(value.data[0]);
                    if values.len() == 20 {
                        break;
                    }
                }
                (values, listener.statistics().unwrap())
            })
        });
        go.recv().unwrap();
        let (waits, least) = pair.a.run(|| {
            let session = Session::open(plan, "A", "rtwa").unwrap();
            let mut talker = session.talker("event").unwrap();
            let begin = Instant::now();
            let mut waits = 0;
            for value in 0..20_u8 {
                if let Sent::NotYet { earliest_tai_ns } = talker.try_send(&[value; 100]).unwrap() {
                    assert!(earliest_tai_ns > 0);
                    waits += 1;
                    assert!(matches!(
                        talker.send(&[value; 100]).unwrap(),
                        Sent::Sequence(_)
                    ));
                }
            }
            (waits, begin.elapsed())
        });
        // 20 frames of some 160 bytes at 1 Mbit/s: 1.2 ms each, after a burst.
        assert!(
            waits > 5 && least > Duration::from_millis(10),
            "{waits} {least:?}"
        );
        let (values, statistics) = heard.join().unwrap();
        assert_eq!(values, (0..20).collect::<Vec<_>>());
        assert_eq!(
            (
                statistics.too_frequent,
                statistics.foreign,
                statistics.channel.lost
            ),
            (0, 0, 0)
        );
    });
}

/// Values of other programs: lines of a command on one side, a command that reads them on the other, images both ways.
#[test]
fn run_takes_values_from_programs_and_gives_them_away() {
    require!(root, program "ip");
    let bench = Bench::new();
    let plan = bench.plan(NETWORK, "plan");
    let (lines, image) = (bench.path("lines"), bench.path("state.image"));
    let to_file = format!("event=cat > {}", lines.display());
    let state_in = bench.path("state.in");
    let (given, taken) = (
        format!("state={}", state_in.display()),
        format!("state={}", image.display()),
    );
    // B's program writes its state into an image; the newest value goes out in each cycle.
    let writer = Image::at(&state_in, 16).unwrap();
    writer.write(b"valve is open", ValueStamp::default());
    let b = bench
        .run("B", &plan, &["--exec", &to_file, "--image", &given])
        .says(OPEN);
    let a = [
        "--duration",
        "1s",
        "--exec",
        "event=seq 1 50",
        "--image",
        &taken,
    ];
    let a = bench.run("A", &plan, &a).output();
    let b = stop(b);
    // A machine that stalls makes a run inconclusive; no value is lost for that.
    assert!(matches!(a.status.code(), Some(0 | 4)), "{a:?}");
    assert!(matches!(b.status.code(), Some(0 | 4)), "{b:?}");
    let expected: String = (1..=50).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(&lines).unwrap(), expected);
    let mut value = [0; 16];
    let (length, stamp) = Image::at(&image, 16).unwrap().read(&mut value).unwrap();
    assert_eq!(&value[..length], b"valve is open");
    assert!(stamp.sender_time_ns.is_some() && stamp.arrival_ns.is_some());
    assert_eq!(row(&report(&a), "talkers", "event")["frames_sent"], 50);
}

#[test]
fn values_that_do_not_fit_and_programs_that_fail_are_told() {
    require!(root, program "ip");
    let bench = Bench::new();
    let plan = bench.plan(NETWORK, "plan");
    let ended = |more: &[&str]| {
        let output = bench.run("A", &plan, more).output();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, output)
    };
    let (code, said, _) = ended(&["--exec", "nothing=true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("`nothing`") && said.contains("position, event, state"),
        "{said}"
    );
    let (code, said, _) = ended(&["--exec", "position"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("STREAM="), "{said}");
    let image = format!("event={}", bench.path("image").display());
    let (code, said, _) = ended(&["--image", &image]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("no interval") && said.contains("--exec"),
        "{said}"
    );
    let letter = bench.path("letter");
    std::fs::write(
        &letter,
        "no image at all, but a text of more than sixty-four bytes in all of its length",
    )
    .unwrap();
    let (code, said, _) = ended(&["--image", &format!("position={}", letter.display())]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("RTWIMG01"), "{said}");
    // A line that is longer than the plan's frame, and a program that fails: broken, with the reason.
    for (command, part) in [
        (
            "position=echo this line is much too long for it; sleep 9",
            "more than 16 bytes",
        ),
        ("event=exit 3", "exit status: 3"),
    ] {
        let begin = Instant::now();
        let (code, said, output) = ended(&["--duration", "1s", "--exec", command]);
        assert_eq!(code, Some(1), "{said}");
        assert!(
            report(&output)["reasons"].to_string().contains(part),
            "{output:?}"
        );
        assert!(
            begin.elapsed() < Duration::from_secs(6),
            "the program was left to sleep"
        );
    }
}
