//! An interface of eight queues, the `rtwire` command, and what `tc` says is in force.

use std::path::Path;
use std::process::Command;

use rtwire_testkit::{NetnsPair, ip};
use serde_json::Value;

use super::describe::{Drawn, Kind};

/// An interface, and the files of one case.
pub(crate) struct Bench {
    pair: NetnsPair,
    folder: tempfile::TempDir,
    host: String,
    /// Whether rtwire is to move the interface into a namespace of its own.
    moved: bool,
}

/// The namespace that rtwire makes for `ra`.
const OWN: &str = "rtw-ra";

impl Drop for Bench {
    fn drop(&mut self) {
        // What the explained lines made, no record takes back.
        let _ = Command::new("ip").args(["netns", "del", OWN]).output();
    }
}

/// What `tc` shows.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    pub(crate) classes: u32,
    pub(crate) map: Vec<u32>,
    /// Which gates are open, for how long, ns.
    pub(crate) gates: Vec<(u64, u64)>,
    pub(crate) cycle_ns: u64,
    pub(crate) base_ns: u64,
    /// How many classes have ETF.
    pub(crate) etf: usize,
    /// Which classes have CBS, and their idle slopes, kbit/s; the least urgent first.
    pub(crate) credits: Vec<(u32, u64)>,
    /// What TBF lets through.
    pub(crate) best_effort_bps: Option<u64>,
}

impl Bench {
    pub(crate) fn new(drawn: &Drawn) -> Self {
        let pair = NetnsPair::new();
        ip(&pair.a.namespace, "link del rtwa");
        ip(
            &pair.a.namespace,
            &format!(
                "link add ra numtxqueues 8 numrxqueues 8 type veth peer name rb netns {} numtxqueues 8 numrxqueues 8",
                pair.b.namespace
            ),
        );
        ip(&pair.b.namespace, "link set rb up");
        ip(&pair.a.namespace, "link set ra up");
        let bench = Self {
            pair,
            folder: tempfile::tempdir().unwrap(),
            host: drawn.host.clone(),
            moved: drawn.namespace,
        };
        std::fs::write(bench.plan(), &drawn.text).unwrap();
        bench
    }

    fn plan(&self) -> std::path::PathBuf {
        self.folder.path().join("plan.toml")
    }

    fn run(&self, command: &[&str]) -> Result<String, String> {
        // Not `ip netns exec`: it has a view of the file system of its own, with which the name of a namespace would go.
        let output = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{}", self.pair.a.namespace))
            .args(command)
            .env("RTWIRE_STATE_DIRECTORY", self.folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        let error = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{command:?} ended with {}: {said}{error}",
            output.status
        ))
    }

    /// `rtwire apply` with further arguments.
    pub(crate) fn apply(&self, kind: Kind, more: &[&str]) -> Result<String, String> {
        let plan = self.plan();
        let plan: &Path = &plan;
        let mut all = vec!["rtwire", "apply", plan.to_str().unwrap()];
        all.extend(["--host", &self.host, "--interface", "ra", "--no-sync"]);
        all.extend(["--queues", kind.name()]);
        if self.moved {
            all.extend(["--isolation", "namespace"]);
        }
        all.extend(more);
        self.run(&all)
    }

    /// What would change.
    pub(crate) fn differs(&self, kind: Kind) -> Result<Vec<String>, String> {
        let said = self.apply(kind, &["--dry-run"])?;
        let lines = said
            .lines()
            .filter_map(|line| line.strip_prefix("would change  "));
        Ok(lines.map(str::to_owned).collect())
    }

    pub(crate) fn revert(&self) -> Result<(), String> {
        self.run(&["rtwire", "revert", "ra"]).map(|_| ())
    }

    /// Runs lines as a person would type them; the first that fails ends it.
    pub(crate) fn shell(&self, lines: &[String]) -> Result<(), String> {
        // One process a line is what takes time here: the shell's own ones suffice.
        self.run(&["bash", "-ec", &lines.join("\n")]).map(|_| ())
    }

    /// A command where the interface is once it is set up.
    pub(crate) fn where_it_is(&self, command: &str) -> String {
        if self.moved {
            return format!("ip netns exec {OWN} {command}");
        }
        command.to_owned()
    }

    /// What `tc` shows of the interface.
    pub(crate) fn in_force(&self) -> Result<InForce, String> {
        let show = self.where_it_is("tc -j qdisc show dev ra");
        let text = self.run(&show.split(' ').collect::<Vec<_>>())?;
        let all: Value =
            serde_json::from_str(&text).map_err(|error| format!("{error} in {text}"))?;
        let mut found = InForce::default();
        for one in all.as_array().into_iter().flatten() {
            let options = &one["options"];
            match one["kind"].as_str() {
                Some("mqprio" | "taprio") if one["root"] == true => {
                    found.classes = number(&options["tc"]) as u32;
                    let map = options["map"].as_array().into_iter().flatten();
                    found.map = map.map(|class| number(class) as u32).collect();
                    found.cycle_ns = number(&options["cycle_time"]);
                    found.base_ns = number(&options["base_time"]);
                    let entries = options["schedule"].as_array().into_iter().flatten();
                    found.gates = entries
                        .map(|entry| (number(&entry["gatemask"]), number(&entry["interval"])))
                        .collect();
                }
                Some("etf") => found.etf += 1,
                Some("cbs") => {
                    let place = one["parent"].as_str().unwrap_or_default();
                    let place = place.split(':').nth(1).unwrap_or_default();
                    let class = u32::from_str_radix(place, 16).unwrap_or(0) - 1;
                    found.credits.push((class, number(&options["idleslope"])));
                }
                Some("tbf") => found.best_effort_bps = Some(number(&options["rate"]) * 8),
                _ => {}
            }
        }
        found.credits.sort_unstable();
        Ok(found)
    }
}

/// A number, also where it is written as a text in hexadecimal.
fn number(value: &Value) -> u64 {
    let hexadecimal = || u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok();
    value.as_u64().or_else(hexadecimal).unwrap_or(0)
}
