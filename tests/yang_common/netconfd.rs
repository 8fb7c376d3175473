//! A NETCONF server of another make, yuma123's `netconfd`, and a session with it by hand: none of the client's code.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rtwire_testkit::require_program;

use super::modules;

const NETCONF: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";

/// A running server.
pub(crate) struct Netconfd {
    child: Child,
    /// Its socket, its log, and what a test keeps there.
    pub(crate) folder: tempfile::TempDir,
}

impl Drop for Netconfd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Netconfd {
    /// Starts a server with all modules but those that are named.
    pub(crate) fn start(without: &[&str]) -> Option<Self> {
        if !(require_program("netconfd") && require_program("netconf-subsystem")) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("modules");
        fs::create_dir(&own).unwrap();
        let names = modules::write(&own).unwrap();
        let published = std::env::var_os("RTWIRE_YANG_MODULES").map(PathBuf::from);
        let modules = published.unwrap_or(own);
        let mut command = Command::new("netconfd");
        command
            .args([
                "--no-startup",
                "--superuser=root",
                "--target=candidate",
                "--log-level=info",
            ])
            .arg(format!(
                "--ncxserver-sockname={}",
                folder.path().join("ncx").display()
            ))
            .arg(format!("--log={}", folder.path().join("log").display()))
            .arg(format!(
                "--modpath={}:/usr/share/yuma/modules",
                modules.display()
            ))
            .args(["--module=iana-if-type", "--module=ietf-interfaces"])
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for name in names.iter().filter(|name| !without.contains(name)) {
            command.arg(format!("--module={name}"));
        }
        let mut server = Self {
            child: command.spawn().unwrap(),
            folder,
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !server.log().contains("Running netconfd server") {
            let ended = server.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < until,
                "netconfd does not run ({ended:?}):\n{}",
                server.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The command that leads to the server, as `sshd` starts it.
    pub(crate) fn via(&self) -> String {
        format!(
            "SSH_CONNECTION='127.0.0.1 50000 127.0.0.1 830' USER=root netconf-subsystem --ncxserver-sockname=830@{}",
            self.folder.path().join("ncx").display()
        )
    }

    /// The settings in force.
    pub(crate) fn running(&self) -> String {
        let mut session = Session::open(&self.via());
        session.ask("<get-config><source><running/></source></get-config>")
    }
}

/// A session in NETCONF 1.0, by hand.
pub(crate) struct Session {
    child: Child,
    number: u32,
}

impl Session {
    pub(crate) fn open(via: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", via])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut session = Self { child, number: 0 };
        session.write(&format!(
            "<hello xmlns=\"{NETCONF}\"><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability></capabilities></hello>"
        ));
        session.read();
        // It leaves a request alone that comes together with the hello.
        std::thread::sleep(Duration::from_millis(50));
        session
    }

    fn write(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.write_all(b"]]>]]>").unwrap();
        input.flush().unwrap();
    }

    fn read(&mut self) -> String {
        let mut found = Vec::new();
        let output = self.child.stdout.as_mut().unwrap();
        while !found.ends_with(b"]]>]]>") {
            let mut byte = [0];
            assert_eq!(
                output.read(&mut byte).unwrap(),
                1,
                "{}",
                String::from_utf8_lossy(&found)
            );
            found.push(byte[0]);
        }
        found.truncate(found.len() - 6);
        String::from_utf8(found).unwrap()
    }

    pub(crate) fn ask(&mut self, request: &str) -> String {
        self.number += 1;
        self.write(&format!(
            "<rpc message-id=\"{}\" xmlns=\"{NETCONF}\">{request}</rpc>",
            self.number
        ));
        self.read()
    }

    /// Changes the settings in force, as somebody else would.
    pub(crate) fn edit(&mut self, config: &str) {
        for request in [
            format!(
                "<edit-config><target><candidate/></target><config xmlns:nc=\"{NETCONF}\">{config}</config></edit-config>"
            ),
            "<commit/>".to_owned(),
        ] {
            let reply = self.ask(&request);
            assert!(reply.contains("<ok/>"), "{request}\n{reply}");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
