//! Best-effort TCP beside real-time streams on one link of 100 Mbit/s: with one-shot reservations, with a fixed share for each
//! sender, and with no limits at all, in turns.
//!
//! The network is that of `examples/reservations.toml`, brought up by `rtwire lab --keep`: four machines send 10 Mbit/s each in
//! real time to the office, and one or all of them send TCP by `iperf3`. The streams run by `rtwire run`, and `rtwire judge` says
//! whether a promise was broken. Needs root.
//!
//! Adds its rows to `target/bench/manager.json`. `--quick` measures one round. `--out FOLDER` writes to `FOLDER/bench/manager.json`.
#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot run should stop"
)]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rtwire_benches::rtwire;
use rtwire_measure::bench::{Asked, BenchTable, Compared, Place, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use serde_json::Value;

const NETWORK: &str = include_str!("../examples/reservations.toml");
const SENDERS: [&str; 4] = ["press", "saw", "robot", "camera"];
const HOSTS: [&str; 5] = ["press", "saw", "robot", "camera", "office"];
const OFFICE: &str = "10.77.0.5";
const MANAGER: &str = "10.77.0.5:4433";
/// The time of TCP, s; the first one is not counted.
const TCP_S: u32 = 6;
/// The part of the link that the streams leave, as user data of full TCP segments: bit/s. A segment has 1448 bytes of data in
/// 1538 on the wire.
const FREE_BPS: f64 = (100e6 - 4.0 * 10.24e6) * 1_448.0 / 1_538.0;
const SECOND: Duration = Duration::from_secs(1);

/// The rounds of a way: each one's part of what is free, its fairness, its verdict.
type Found = (Vec<f64>, Vec<f64>, Vec<String>);

/// The ways to share what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    OneShot,
    Fixed,
    Unlimited,
}

const WAYS: [Way; 3] = [Way::OneShot, Way::Fixed, Way::Unlimited];

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Way::OneShot => "one-shot reservations",
            Way::Fixed => "a fixed share for each",
            Way::Unlimited => "no limits",
        }
    }

    /// The description: with a fixed share, the permanent rates are a quarter each of what is free.
    fn network(self) -> String {
        match self {
            Way::Fixed => NETWORK.replace("rate = \"320 kbit/s\"", "rate = \"13.5 Mbit/s\""),
            Way::OneShot | Way::Unlimited => NETWORK.to_owned(),
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
                MANAGER,
            ]);
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
        if way == Way::OneShot {
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

    /// Sends TCP from some hosts beside all streams. Returns each host's rate, bit/s, and the streams' verdict.
    fn measure(&self, way: Way, senders: &[&str]) -> (Vec<f64>, String) {
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
        (rates, verdict)
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        let _ = self.command(&["lab", "down", &self.id]).output();
    }
}

/// The fairness of shares after Jain: 1 where all are equal.
fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares > 0.0 {
        sum * sum / (rates.len() as f64 * squares)
    } else {
        0.0
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    let asked = Asked::from_command_line(&[], &[]);
    let noise = NoiseRecorder::start(NoiseOptions::beside_a_benchmark());
    let target = asked.out();
    fs::create_dir_all(&target).unwrap();
    let rounds = if asked.quick { 1 } else { 5 };
    let mut rows = Vec::new();
    for senders in [&SENDERS[..1], &SENDERS[..]] {
        // Each way: the sums, the fairness, and the verdicts of the rounds.
        let mut found: Vec<Found> = vec![Default::default(); WAYS.len()];
        for round in 0..rounds {
            for (way, of_way) in WAYS.into_iter().zip(&mut found) {
                eprintln!(
                    "{} sender(s), {}, round {} of {rounds} …",
                    senders.len(),
                    way.name(),
                    round + 1
                );
                let (rates, verdict) = Hall::new(way).measure(way, senders);
                of_way.0.push(rates.iter().sum::<f64>() / FREE_BPS * 100.0);
                of_way.1.push(jain(&rates));
                of_way.2.push(verdict);
            }
        }
        let reach = if senders.len() == 1 { 95.0 } else { 92.0 };
        let name = format!("TCP beside 40 % in real time, {} sender(s)", senders.len());
        let row = |figure: &str, value: f64, unit: &str, reach: String, held, against| Row {
            figure: format!("{name}: {figure}"),
            value,
            unit: unit.to_owned(),
            reach: Some(reach),
            held: Some(held),
            why: None,
            samples: rounds,
            against,
        };
        let others = |of: &dyn Fn(&Found) -> f64| {
            let others = WAYS.iter().zip(&found).skip(1);
            let compared = others.map(|(way, found)| Compared {
                name: way.name().to_owned(),
                value: of(found),
            });
            compared.collect::<Vec<_>>()
        };
        let share = median(found[0].0.clone());
        let against = others(&|found| median(found.0.clone()));
        let target = format!("at least {reach} %");
        rows.push(row(
            "goodput of what is free",
            share,
            "%",
            target,
            share >= reach,
            against,
        ));
        if senders.len() > 1 {
            let fair = median(found[0].1.clone());
            let against = others(&|found| median(found.1.clone()));
            let target = "at least 0.98".to_owned();
            rows.push(row(
                "fairness (Jain)",
                fair,
                "",
                target,
                fair >= 0.98,
                against,
            ));
        }
        let broken = |found: &Found| {
            found
                .2
                .iter()
                .filter(|verdict| *verdict == "broken")
                .count() as f64
        };
        let own = broken(&found[0]);
        let against = others(&broken);
        rows.push(row(
            "runs with a broken promise",
            own,
            "",
            "0".to_owned(),
            own == 0.0,
            against,
        ));
        let kept = found[0]
            .2
            .iter()
            .filter(|verdict| *verdict == "kept")
            .count();
        eprintln!("verdicts with one-shot reservations: {kept} of {rounds} kept");
    }
    let noise = noise.ok().and_then(|noise| noise.stop().ok());
    let table = BenchTable::of(asked.command(), noise, rows);
    table.publish(&target, "manager", Place::Part);
}
