//! Best-effort TCP beside real-time streams on one link of 100 Mbit/s: with one-shot reservations, with a fixed share for each
//! sender, and with no limits at all, in turns.
//!
//! The network is that of `examples/reservations.toml`, brought up by `rtwire lab --keep`: four machines send 10 Mbit/s each in
//! real time to the office, and one or all of them send TCP by `iperf3`. The streams run by `rtwire run`, and `rtwire judge` says
//! whether a promise was broken. Needs root.
//!
//! Beside them it has the source's own way, in which questions travel behind the best effort that waits, and one-shot
//! reservations with half of the messages between agents and manager lost. Each agent says how long it took from a need to a
//! usable reservation.
//!
//! Adds its rows to `target/bench/manager.json`. `--quick` measures one round. `--out FOLDER` writes to `FOLDER/bench/manager.json`.
#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot run should stop"
)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rtwire_benches::rtwire;
use rtwire_measure::bench::{Asked, BenchTable, Compared, Place, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_measure::summary::jain;
use serde_json::Value;

const NETWORK: &str = include_str!("../examples/reservations.toml");
const SENDERS: [&str; 4] = ["press", "saw", "robot", "camera"];
const HOSTS: [&str; 5] = ["press", "saw", "robot", "camera", "office"];
const OFFICE: &str = "10.77.0.5";
const MANAGER: &str = "10.77.0.5:4433";
/// A process on the manager's host that hands messages on, and loses half of them.
const RELAY: &str = "10.77.0.5:4434";
/// Set for the process that is the relay.
const RELAYS: &str = "RTWIRE_BENCH_RELAYS";
/// The time of TCP, s; the first one is not counted.
const TCP_S: u32 = 6;
/// The part of the link that the streams leave, as user data of full TCP segments: bit/s. A segment has 1448 bytes of data in
/// 1538 on the wire.
const FREE_BPS: f64 = (100e6 - 4.0 * 10.24e6) * 1_448.0 / 1_538.0;
const SECOND: Duration = Duration::from_secs(1);

/// The rounds of a way.
#[derive(Default)]
struct Found {
    /// The part of what is free, per cent.
    shares: Vec<f64>,
    fairness: Vec<f64>,
    verdicts: Vec<String>,
    /// For each round and sender, the time until a reservation is usable: median and 99th percentile, ms.
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
}

/// The ways to share what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    OneShot,
    /// Questions travel as best effort, behind what waits.
    InBand,
    /// Half of the messages between agents and manager are lost, each way.
    Lossy,
    Fixed,
    Unlimited,
}

const WAYS: [Way; 5] = [
    Way::OneShot,
    Way::InBand,
    Way::Lossy,
    Way::Fixed,
    Way::Unlimited,
];

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Way::OneShot => "one-shot reservations",
            Way::InBand => "questions behind the traffic",
            Way::Lossy => "half of the messages lost",
            Way::Fixed => "a fixed share for each",
            Way::Unlimited => "no limits",
        }
    }

    /// The description: with a fixed share, the permanent rates are a quarter each of what is free.
    fn network(self) -> String {
        // Manager, agents and TCP are started here, by hand.
        let network = NETWORK.split("[manager]").next().unwrap_or_default();
        match self {
            Way::Fixed => network.replace("rate = \"400 kbit/s\"", "rate = \"13.5 Mbit/s\""),
            _ => network.to_owned(),
        }
    }
}

/// Processes that end with the measurement.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A lab that is up, and the folder of its files.
struct Hall {
    folder: tempfile::TempDir,
    id: String,
}

impl Hall {
    fn new(way: Way) -> Hall {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("net.toml"), way.network()).unwrap();
        let hall = |id| Hall { folder, id };
        let mut hall = hall(String::new());
        hall.done(&["plan", "net.toml", "--output", "plan.json"]);
        let keygen = ["manager", "keygen", "keys"];
        hall.done(&[&keygen[..], &HOSTS[..]].concat());
        let up = [
            "lab",
            "plan.json",
            "--duration",
            "1s",
            "--calibration",
            "1s",
            "--keep",
        ];
        let mut up = hall.command(&up);
        let said = up.stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(said.stderr).unwrap();
        let id = said.split(" is still up").next();
        let id = id.and_then(|before| before.split(' ').next_back());
        hall.id = id.unwrap_or_else(|| panic!("no lab: {said}")).to_owned();
        hall
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(rtwire());
        command.args(arguments).current_dir(self.folder.path());
        command.stderr(Stdio::null()).stdout(Stdio::piped());
        command
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A command on a host. `lab enter` becomes that command.
    fn on(&self, host: &str, program: &str) -> Command {
        let mut command = self.command(&["lab", "enter", &self.id, host]);
        command.arg(program);
        command
    }

    fn agents(&self, way: Way) -> Running {
        let mut all = Running(Vec::new());
        if way == Way::Unlimited {
            return all;
        }
        let own = rtwire();
        let own = own.to_str().unwrap();
        let socket = |host: &str| self.folder.path().join(format!("{host}.sock"));
        for host in ["office"].iter().chain(&SENDERS) {
            let mut command = self.on(host, own);
            command.args([
                "agent",
                "plan.json",
                "--host",
                host,
                "--interface",
                "eth0",
                "--manager",
                if way == Way::Lossy { RELAY } else { MANAGER },
                "--status",
                &format!("{host}.status"),
            ]);
            if way == Way::InBand {
                command.arg("--questions-in-band");
            }
            command
                .args(["--key", &format!("keys/{host}.key"), "--socket"])
                .arg(socket(host));
            for (number, other) in HOSTS.iter().enumerate() {
                if other != host {
                    command.args(["--peer", &format!("{other}=10.77.0.{}", number + 1)]);
                }
            }
            all.0.push(command.stdout(Stdio::null()).spawn().unwrap());
            while !socket(host).exists() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        if way == Way::Lossy {
            let mut relay = self.on("office", env::current_exe().unwrap().to_str().unwrap());
            relay.env(RELAYS, "yes").stdout(Stdio::null());
            all.0.push(relay.spawn().unwrap());
        }
        if matches!(way, Way::OneShot | Way::InBand | Way::Lossy) {
            let mut command = self.on("office", own);
            command.args([
                "manager",
                "plan.json",
                "--state",
                "state",
                "--keys",
                "keys",
                "--listen",
                MANAGER,
            ]);
            command.arg("--agent").arg(socket("office"));
            all.0.push(command.stdout(Stdio::null()).spawn().unwrap());
            // It grants nothing at first: reservations of an earlier start might be in use.
            std::thread::sleep(2 * SECOND);
        }
        all
    }

    /// Sends TCP from some hosts beside all streams. Returns each host's rate, bit/s, the streams' verdict, and each host's
    /// median and 99th percentile of the time from a need to a usable reservation, ns.
    fn measure(&self, way: Way, senders: &[&str]) -> (Vec<f64>, String, Vec<(u64, u64)>) {
        let agents = self.agents(way);
        let own = rtwire();
        let mut servers = Running(Vec::new());
        for number in 0..senders.len() {
            let mut server = self.on("office", "iperf3");
            server.args(["-s", "-1", "-p", &format!("521{number}")]);
            servers
                .0
                .push(server.stdout(Stdio::null()).spawn().unwrap());
        }
        let mut runs = Running(Vec::new());
        for host in ["office"].iter().chain(&SENDERS) {
            let mut run = self.on(host, own.to_str().unwrap());
            run.args([
                "run",
                "plan.json",
                "--host",
                host,
                "--interface",
                "eth0",
                "--no-sync",
            ]);
            run.args([
                "--duration",
                &format!("{}s", TCP_S + 2),
                "--evidence",
                &format!("{host}.evidence"),
            ]);
            runs.0.push(run.stdout(Stdio::null()).spawn().unwrap());
        }
        std::thread::sleep(SECOND);
        let clients = senders.iter().enumerate().map(|(number, host)| {
            let mut client = self.on(host, "iperf3");
            client.args([
                "-c",
                OFFICE,
                "-J",
                "-O",
                "1",
                "-t",
                &(TCP_S - 1).to_string(),
            ]);
            client
                .args(["-p", &format!("521{number}")])
                .spawn()
                .unwrap()
        });
        let clients: Vec<Child> = clients.collect();
        let rates = clients.into_iter().map(|client| {
            let output = client.wait_with_output().unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            report["end"]["sum_received"]["bits_per_second"]
                .as_f64()
                .unwrap_or(0.0)
        });
        let rates = rates.collect();
        for run in &mut runs.0 {
            run.wait().unwrap();
        }
        // The newest state that each agent has written is at most a second old.
        let times = senders.iter().filter_map(|host| {
            let text = fs::read(self.folder.path().join(format!("{host}.status"))).ok()?;
            let status: Value = serde_json::from_slice(&text).ok()?;
            let times = &status["share_times"];
            Some((times["p50_ns"].as_u64()?, times["p99_ns"].as_u64()?))
        });
        let times = times.collect();
        drop(agents);
        let files: Vec<String> = HOSTS
            .iter()
            .map(|host| format!("{host}.evidence"))
            .collect();
        let mut judge = vec!["judge", "plan.json", "--json"];
        judge.extend(files.iter().map(String::as_str));
        let judged = self.command(&judge).output().unwrap();
        let report: Value = serde_json::from_slice(&judged.stdout).unwrap_or_default();
        let verdict = report["verdict"].as_str().unwrap_or("none").to_owned();
        for host in HOSTS {
            let mut remove = self.on(host, own.to_str().unwrap());
            let _ = remove.args(["agent", "remove", "eth0"]).output();
        }
        (rates, verdict, times)
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        let _ = self.command(&["lab", "down", &self.id]).output();
    }
}

/// Hands messages on between agents and the manager, and loses each with a chance of one half. It never ends by itself.
fn relay() -> ! {
    let outside = UdpSocket::bind(RELAY).unwrap();
    // One socket for each agent, so that answers find their way.
    let mut agents: BTreeMap<SocketAddr, UdpSocket> = BTreeMap::new();
    outside
        .set_read_timeout(Some(Duration::from_micros(100)))
        .unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // Bits of a multiplicative sequence: no pattern that a protocol could meet.
    let mut lost = move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state >> 63 == 1
    };
    let mut buffer = [0; 2_048];
    loop {
        if let Ok((count, from)) = outside.recv_from(&mut buffer) {
            let inside = agents.entry(from).or_insert_with(|| {
                let socket = UdpSocket::bind("10.77.0.5:0").unwrap();
                socket.connect(MANAGER).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            });
            if !lost() {
                let _ = inside.send(&buffer[..count]);
            }
        }
        for (to, inside) in &agents {
            while let Ok(count) = inside.recv(&mut buffer) {
                if !lost() {
                    let _ = outside.send_to(&buffer[..count], to);
                }
            }
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    if env::var_os(RELAYS).is_some() {
        relay();
    }
    let asked = Asked::from_command_line(&[], &[]);
    let noise = NoiseRecorder::start(NoiseOptions::beside_a_benchmark());
    let target = asked.out();
    fs::create_dir_all(&target).unwrap();
    let rounds = if asked.quick { 1 } else { 5 };
    let mut rows = Vec::new();
    for senders in [&SENDERS[..1], &SENDERS[..]] {
        let mut found: Vec<Found> = WAYS.iter().map(|_| Found::default()).collect();
        for round in 0..rounds {
            for (way, of_way) in WAYS.into_iter().zip(&mut found) {
                eprintln!(
                    "{} sender(s), {}, round {} of {rounds} …",
                    senders.len(),
                    way.name(),
                    round + 1
                );
                let (rates, verdict, times) = Hall::new(way).measure(way, senders);
                of_way
                    .shares
                    .push(rates.iter().sum::<f64>() / FREE_BPS * 100.0);
                of_way.fairness.push(jain(&rates));
                of_way.verdicts.push(verdict);
                for (p50_ns, p99_ns) in times {
                    of_way.p50_ms.push(p50_ns as f64 / 1e6);
                    of_way.p99_ms.push(p99_ns as f64 / 1e6);
                }
            }
        }
        rows.extend(rows_of(senders.len(), rounds, &found));
    }
    let noise = noise.ok().and_then(|noise| noise.stop().ok());
    let table = BenchTable::of(asked.command(), noise, rows);
    table.publish(&target, "manager", Place::Part);
}

fn rows_of(senders: usize, rounds: u64, found: &[Found]) -> Vec<Row> {
    let name = format!("TCP beside 40 % in real time, {senders} sender(s)");
    let compared = |ways: &[Way], of: &dyn Fn(&Found) -> f64| -> Vec<Compared> {
        let all = WAYS.iter().zip(found).filter(|(way, _)| ways.contains(way));
        let compared = all.map(|(way, found)| Compared {
            name: way.name().to_owned(),
            value: of(found),
        });
        compared.collect()
    };
    let row = |figure: &str, value: f64, unit: &str, reach: Option<(String, bool)>, against| Row {
        figure: format!("{name}: {figure}"),
        value,
        unit: unit.to_owned(),
        held: reach.as_ref().map(|(_, held)| *held),
        reach: reach.map(|(reach, _)| reach),
        why: None,
        samples: rounds,
        against,
    };
    let own = &found[0];
    let share = median(own.shares.clone());
    let reach = if senders == 1 { 95.0 } else { 92.0 };
    let mut rows = vec![row(
        "goodput of what is free",
        share,
        "%",
        Some((format!("at least {reach} %"), share >= reach)),
        compared(&WAYS[1..], &|found| median(found.shares.clone())),
    )];
    if senders > 1 {
        let fair = median(own.fairness.clone());
        rows.push(row(
            "fairness (Jain)",
            fair,
            "",
            Some(("at least 0.98".to_owned(), fair >= 0.98)),
            compared(&WAYS[1..], &|found| median(found.fairness.clone())),
        ));
    }
    let broken = |found: &Found| {
        let broken = found.verdicts.iter().filter(|verdict| *verdict == "broken");
        broken.count() as f64
    };
    rows.push(row(
        "runs with a broken promise",
        broken(own),
        "",
        Some(("0".to_owned(), broken(own) == 0.0)),
        compared(&WAYS[1..], &broken),
    ));
    let ways = [Way::InBand, Way::Lossy];
    rows.push(row(
        "from a need to a usable reservation, p50",
        median(own.p50_ms.clone()),
        "ms",
        None,
        compared(&ways, &|found| median(found.p50_ms.clone())),
    ));
    rows.push(row(
        "from a need to a usable reservation, p99",
        median(own.p99_ms.clone()),
        "ms",
        None,
        compared(&ways, &|found| median(found.p99_ms.clone())),
    ));
    let kept = own.verdicts.iter().filter(|verdict| *verdict == "kept");
    eprintln!(
        "verdicts with one-shot reservations: {} of {rounds} kept",
        kept.count()
    );
    rows
}
