//! `rtwire prove`: all hosts run their streams, switches say what they counted meanwhile, and there is one verdict.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rtwire_deploy::{Order, ask_all};
use rtwire_netconf::PortCounters;
use serde_json::{Map, Value, json};

use super::{FAULTY, Failure, LACKING, ProveArguments, connected, ended, read};
use crate::arguments::nanoseconds;
use crate::output;
use crate::switch_command::AtSwitch;

/// The counters of a switch's ports.
type Counted = BTreeMap<String, PortCounters>;

/// Runs the streams of all hosts, and judges what they saw.
pub(crate) fn prove(arguments: &ProveArguments) -> ExitCode {
    match proved(arguments) {
        Ok(code) => code,
        Err(failure) => ended("prove", Err(failure)),
    }
}

fn proved(arguments: &ProveArguments) -> Result<ExitCode, Failure> {
    let (text, plan) = read(&arguments.hosts.plan)?;
    let switches = arguments.switches.of(&plan);
    let switches = switches.map_err(|message| (FAULTY, message))?;
    let mut hosts = connected(&arguments.hosts, &plan)?;
    let folder = &arguments.evidence;
    // A switch that cannot be asked is named before anything runs.
    let mut before = Vec::new();
    for (name, switch) in &switches {
        let counted = switch.counters();
        before.push(counted.map_err(|why| (LACKING, format!("switch {name}: {why}")))?);
    }
    std::fs::create_dir_all(folder).map_err(|error| {
        let shown = folder.display();
        (FAULTY, format!("cannot write `{shown}`: {error}"))
    })?;
    let order = Order::Run {
        plan: text,
        duration_ms: nanoseconds(arguments.duration) / 1_000_000,
    };
    let asked = ask_all(&mut hosts, &order);
    let mut files = Vec::new();
    for ((name, host), (_, reply)) in hosts.iter().zip(&asked) {
        if reply.as_ref().is_ok_and(|reply| reply.attached) {
            let path = folder.join(format!("{name}.evidence"));
            let written = output::replace_with(&path, |file| file.write_all(&host.attached));
            written.map_err(|message| (FAULTY, message))?;
            files.push(path);
            continue;
        }
        let why = match reply {
            Ok(reply) => reply.text.clone(),
            Err(reason) => reason.clone(),
        };
        eprintln!("rtwire prove: {name} gave no evidence: {why}");
    }
    for ((name, switch), before) in switches.iter().zip(&before) {
        tell_counted(name, switch, before, folder)?;
    }
    if files.is_empty() {
        return Err((LACKING, "no host gave evidence".to_owned()));
    }
    // The judge names hosts and minutes that are missing.
    let own = std::env::current_exe().map_err(|error| (LACKING, error.to_string()))?;
    let mut judge = Command::new(own);
    judge.arg("judge").arg(&arguments.hosts.plan).args(&files);
    if let Some(report) = &arguments.report {
        judge.arg("--report").arg(report);
    }
    let judged = judge.status();
    let judged = judged.map_err(|error| (LACKING, format!("cannot judge: {error}")))?;
    let code = judged.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(LACKING)))
}

/// Asks a switch again, prints what it counted meanwhile, and keeps that in the folder.
fn tell_counted(
    name: &str,
    switch: &AtSwitch,
    before: &Counted,
    folder: &Path,
) -> Result<(), Failure> {
    let after = match switch.counters() {
        Ok(after) => after,
        Err(why) => {
            eprintln!("rtwire prove: switch {name} gave no counters behind the run: {why}");
            return Ok(());
        }
    };
    let (words, data) = compared(name, before, &after);
    output::print(&words);
    let path = folder.join(format!("{name}.ports.json"));
    let written = output::replace_with(&path, |file| writeln!(file, "{data:#}"));
    written.map_err(|message| (FAULTY, message))
}

/// Returns what a switch counted between two moments, in words and as data.
fn compared(name: &str, before: &Counted, after: &Counted) -> (String, Value) {
    let (mut text, mut ports) = (String::new(), Map::new());
    let mut quiet = 0;
    for (port, now) in after {
        let none = PortCounters::default();
        let counted = now.since(before.get(port).unwrap_or(&none));
        let shown = |counters: &PortCounters| -> Map<String, Value> {
            let all = counters.named().into_iter();
            all.map(|(name, count)| (name.to_owned(), json!(count)))
                .collect()
        };
        ports.insert(port.clone(), json!(counted.as_ref().map(shown)));
        let Some(counted) = counted else {
            text +=
                &format!("switch {name}, port {port}: its counters began anew during the run\n");
            continue;
        };
        let all = counted.named();
        if all.iter().all(|(_, count)| count.is_none()) {
            text += &format!("switch {name}, port {port}: it shows no counters\n");
            continue;
        }
        let some = all.iter().filter_map(|(name, count)| {
            let count = (*count).filter(|count| *count > 0)?;
            Some(format!("{name} {count}"))
        });
        let some: Vec<String> = some.collect();
        if some.is_empty() {
            quiet += 1;
        } else {
            text += &format!("switch {name}, port {port}: {}\n", some.join(", "));
        }
    }
    if quiet > 0 {
        let ports = if quiet == 1 { "port" } else { "ports" };
        text += &format!("switch {name}: no frame discarded and none faulty at {quiet} {ports}\n");
    }
    (text, json!({ "format": 1, "switch": name, "ports": ports }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(began: &str, out_discards: Option<u32>) -> PortCounters {
        PortCounters {
            began: Some(began.to_owned()),
            in_discards: out_discards.map(|_| 5),
            out_discards,
            ..PortCounters::default()
        }
    }

    #[test]
    fn each_port_has_what_it_counted_in_between() {
        let of = |ports: [PortCounters; 4]| -> Counted {
            let names = ["p1", "p2", "p3", "p4"].map(str::to_owned);
            names.into_iter().zip(ports).collect()
        };
        let before = of([
            port("a", Some(u32::MAX - 1)),
            port("a", Some(3)),
            port("a", Some(3)),
            port("a", None),
        ]);
        let after = of([
            port("a", Some(2)),
            port("b", Some(9)),
            port("a", Some(3)),
            port("a", None),
        ]);
        let (text, data) = compared("s1", &before, &after);
        assert_eq!(
            text,
            "switch s1, port p1: out-discards 4\n\
             switch s1, port p2: its counters began anew during the run\n\
             switch s1, port p4: it shows no counters\n\
             switch s1: no frame discarded and none faulty at 1 port\n"
        );
        assert_eq!(data["ports"]["p1"]["out-discards"], 4);
        assert_eq!(data["ports"]["p2"], Value::Null);
        assert_eq!(data["ports"]["p3"]["in-errors"], Value::Null);
    }
}
