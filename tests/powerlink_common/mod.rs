//! A POWERLINK cell of a managing node and three controlled nodes in namespaces, for tests. Nothing here has a time limit that
//! a machine that stands still could break: a wait ends when what is waited for is there, or after minutes.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test uses a part of it"
)]

pub mod seen;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_powerlink::Cdc;
use rtwire_testkit::{Side, Star};
use serde_json::Value;

/// How long a network may take for what it does in seconds.
pub const PATIENCE: Duration = Duration::from_secs(240);

pub fn rtwire(side: &Side, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command
        .args([
            "netns",
            "exec",
            &side.namespace,
            env!("CARGO_BIN_EXE_rtwire"),
            "powerlink",
        ])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn asked(side: &Side, arguments: &[&str]) -> (i32, String) {
    let output = rtwire(side, arguments).output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        said(&output)
    );
    (output.status.code().unwrap_or(-1), text)
}

/// Ended by its own id when dropped. (`ip netns exec` becomes the command: its id is the command's.)
pub struct Running(pub Child);

impl Running {
    pub fn start(side: &Side, arguments: &[&str]) -> Self {
        let mut command = rtwire(side, arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Started so that its states go to a file, one in a line.
    pub fn telling(side: &Side, arguments: &[&str], file: &Path) -> Self {
        let mut command = rtwire(side, arguments);
        command.args(["--json", "--every", "100ms"]);
        command
            .stdout(File::create(file).unwrap())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Has a signal sent to it.
    pub fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if let Ok(Some(_)) = self.0.try_wait() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/powerlink-cell");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The real-time threads of two cells would take the processors from each other's nodes.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

const FILES: [&str; 4] = ["mn.toml", "cn1.toml", "cn2.toml", "cn3.toml"];

/// The example's cell, on interfaces of a star, slow enough for a machine that is shared and stalls.
pub struct Cell {
    pub star: Star,
    pub folder: tempfile::TempDir,
    pub running: Vec<Option<Running>>,
    _alone: MutexGuard<'static, ()>,
}

impl Cell {
    pub fn files(path: &str) -> Self {
        let alone = alone();
        let star = Star::new(4);
        let folder = tempfile::tempdir().unwrap();
        for name in FILES {
            let mut text = example(name)
                .replace("rtwcell", "rtws")
                .replace("\"10 ms\"", "\"20 ms\"")
                .replace("\"3 ms\"", "\"5 ms\"");
            if name == "mn.toml" {
                text = text.replace("\"auto\"", &format!("\"{path}\""));
            } else {
                text = text.replace("priority", &format!("path = \"{path}\"\npriority"));
            }
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self {
            star,
            folder,
            running: Vec::new(),
            _alone: alone,
        }
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub fn start(path: &str) -> Self {
        let mut cell = Self::files(path);
        for station in [1, 2, 3, 0] {
            let running = cell.station(station);
            cell.running.push(Some(running));
        }
        cell
    }

    /// The cell with all its stations running, the managing node telling its states to a file.
    pub fn telling(path: &str) -> (Self, PathBuf) {
        let mut cell = Self::files(path);
        let states = cell.begin();
        cell.wait(path, operational);
        (cell, states)
    }

    /// The cell with all its stations running, node 2 telling its states to a file.
    pub fn node_2_telling(path: &str) -> (Self, PathBuf) {
        let mut cell = Self::files(path);
        let states = cell.begin_controlled();
        let manager = cell.station(0);
        cell.running.push(Some(manager));
        cell.wait(path, operational);
        (cell, states)
    }

    /// Starts the controlled nodes, of which node 2 tells its states to a file.
    pub fn begin_controlled(&mut self) -> PathBuf {
        let states = self.folder.path().join("cn2.json");
        for station in [1, 2, 3] {
            let running = if station == 2 {
                let arguments = ["cn", &self.file("cn2.toml")];
                Running::telling(&self.star.stations[2], &arguments, &states)
            } else {
                self.station(station)
            };
            self.running.push(Some(running));
        }
        states
    }

    /// Starts the controlled nodes, then the managing node, which tells its states to a file.
    pub fn begin(&mut self) -> PathBuf {
        for station in [1, 2, 3] {
            let running = self.station(station);
            self.running.push(Some(running));
        }
        let states = self.folder.path().join("mn.json");
        let running = Running::telling(self.mn(), &["mn", &self.file("mn.toml")], &states);
        self.running.push(Some(running));
        states
    }

    /// Changes a station's file before it starts.
    pub fn change(&self, file: &str, how: impl FnOnce(String) -> String) {
        let path = self.folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, how(text)).unwrap();
    }

    /// Changes the files of all stations.
    pub fn change_all(&self, how: impl Fn(String) -> String) {
        for name in FILES {
            self.change(name, &how);
        }
    }

    /// Has a station take this configuration.
    pub fn configure(&self, file: &str, cdc: &Cdc) {
        let name = file.replace(".toml", ".cdc");
        std::fs::write(self.folder.path().join(&name), cdc.emit()).unwrap();
        self.change(file, |text| {
            text.replace("[station]", &format!("[station]\ncdc = \"{name}\""))
        });
    }

    pub fn station(&self, station: usize) -> Running {
        let side = &self.star.stations[station];
        if station == 0 {
            Running::start(side, &["mn", &self.file("mn.toml")])
        } else {
            Running::start(side, &["cn", &self.file(&format!("cn{station}.toml"))])
        }
    }

    pub fn mn(&self) -> &Side {
        &self.star.stations[0]
    }

    /// The nodes, as the managing node tells them; empty where it tells none.
    pub fn nodes(&self) -> Vec<Value> {
        let (code, text) = asked(self.mn(), &["scan", "rtws", "--json"]);
        match serde_json::from_str::<Value>(&text) {
            Ok(nodes) if code == 0 => nodes.as_array().cloned().unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Their states.
    pub fn states(&self) -> Vec<String> {
        self.nodes()
            .iter()
            .map(|node| node["state"].as_str().unwrap_or("").to_owned())
            .collect()
    }

    pub fn wait(&self, what: &str, wanted: impl Fn(&[String]) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let states = self.states();
            if states.len() == 3 && wanted(&states) {
                return;
            }
            assert!(Instant::now() < end, "{what}: {states:?}");
            thread::sleep(Duration::from_millis(200));
        }
    }
}

pub fn operational(states: &[String]) -> bool {
    states.iter().all(|state| state == "Operational")
}

/// Waits until something holds; fails after minutes.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The last whole state in a file of states.
pub fn last_state(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let last = whole.lines().next_back().unwrap_or("null");
    serde_json::from_str(last).unwrap_or(Value::Null)
}

/// Whether a file of states tells of something.
pub fn told(states: &Path, part: &str) -> bool {
    std::fs::read_to_string(states).unwrap().contains(part)
}

/// A number of a state; 0 where there is none yet.
pub fn number(state: &Value, key: &str) -> u64 {
    state[key].as_u64().unwrap_or(0)
}

/// A device description: who makes it, and an object that takes anything.
pub fn description(vendor: u32) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<ISO15745ProfileContainer xmlns="http://www.ethernet-powerlink.org">
<ISO15745Profile><ProfileHeader/><ProfileBody><ApplicationLayers><ObjectList>
<Object index="1000" name="NMT_DeviceType_U32" objectType="7" dataType="0007" accessType="const" defaultValue="0x000F0191"/>
<Object index="1018" name="NMT_IdentityObject_REC" objectType="9">
<SubObject subIndex="00" name="NumberOfEntries" objectType="7" dataType="0005" accessType="const" defaultValue="4"/>
<SubObject subIndex="01" name="VendorId_U32" objectType="7" dataType="0007" accessType="const" defaultValue="{vendor}"/>
<SubObject subIndex="02" name="ProductCode_U32" objectType="7" dataType="0007" accessType="const" defaultValue="7"/>
<SubObject subIndex="03" name="RevisionNo_U32" objectType="7" dataType="0007" accessType="const" defaultValue="1"/>
<SubObject subIndex="04" name="SerialNo_U32" objectType="7" dataType="0007" accessType="const" defaultValue="1"/>
</Object>
<Object index="2100" name="Recipe_DOM" objectType="7" dataType="000F" accessType="rw"/>
</ObjectList></ApplicationLayers></ProfileBody></ISO15745Profile>
</ISO15745ProfileContainer>
"#
    )
}
