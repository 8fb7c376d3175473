//! Keys of OPC UA PubSub from a security key service of another make: open62541, over a secure channel between two network
//! namespaces. Stations of both hosts follow its changes of keys without a lost message, and faults end with their reason.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod pubsub_common;

use pubsub_common::*;
use rtwire_testkit::{NetnsPair, Side, require};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

const GROUP: &str = "profile = \"fixed\"\ninterval = \"5 ms\"\nreceive-timeout = \"5 s\"\n";
const PORT: &str = "4840";

/// Makes a certificate and its key: DER and PEM.
fn certificate(folder: &Folder, name: &str, uri: &str) {
    let request = format!("URI:{uri},IP:10.77.0.1");
    let usage =
        "keyUsage=digitalSignature,nonRepudiation,keyEncipherment,dataEncipherment,keyCertSign";
    let file = |ending: &str| folder.path(&format!("{name}.{ending}"));
    let run = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
    };
    let [key, pem, der, key_der] = ["key", "crt", "der", "key.der"].map(file);
    let [key, pem, der, key_der] = [&key, &pem, &der, &key_der].map(|path| path.to_str().unwrap());
    run(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-sha256",
        "-days",
        "2",
        "-subj",
        &format!("/CN={name}"),
        "-addext",
        &format!("subjectAltName={request}"),
        "-addext",
        usage,
        "-keyout",
        key,
        "-out",
        pem,
    ]);
    run(&["x509", "-in", pem, "-outform", "DER", "-out", der]);
    run(&["pkey", "-in", key, "-outform", "DER", "-out", key_der]);
}

/// A network of two hosts, with the files of a service on the first one.
struct Plant {
    pair: NetnsPair,
    folder: Folder,
}

impl Plant {
    fn new() -> Self {
        let (pair, folder) = (NetnsPair::new(), Folder::new());
        certificate(&folder, "service", "urn:rtwire:test:key-service");
        certificate(&folder, "station", "urn:rtwire:keys");
        certificate(&folder, "stranger", "urn:rtwire:test:key-service");
        let plant = Self { pair, folder };
        plant.private("password", "secret\n");
        for host in ["a", "b"] {
            plant
                .folder
                .write(&format!("{host}.service.toml"), &plant.service(host));
            let security = secured("sign-and-encrypt", &format!("{host}.keys"), "");
            let project = project(ETHERNET, &format!("{GROUP}{security}"), "");
            plant.folder.write(&format!("{host}.toml"), &project);
        }
        plant
    }

    fn private(&self, name: &str, text: &str) {
        let path = self.folder.write(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Returns the description of the service for a host.
    fn service(&self, host: &str) -> String {
        let program = key_client().display();
        format!(
            "endpoint = \"opc.tcp://10.77.0.1:{PORT}\"\nsecurity-group = \"axes\"\nkey-file = \"{host}.keys\"\n\
             server-certificate = \"service.der\"\ncertificate = \"station.der\"\nprivate-key = \"station.key\"\n\
             user = \"station\"\npassword-file = \"password\"\nkeys-to-come = 2\nprogram = \"{program}\"\n"
        )
    }

    /// Asks once with a changed description.
    fn once(&self, from: &str, to: &str) -> (Option<i32>, String) {
        let text = self.service("x");
        let changed = text.replacen(from, to, 1);
        assert!(from == to || changed != text, "{from}");
        let file = self.folder.write("x.service.toml", &changed);
        let output: Output = self
            .command(&self.pair.b, &file, &["--once"])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), errors)
    }

    fn command(&self, side: &Side, file: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &side.namespace, BINARY, "pubsub", "keys"]);
        command.arg(file).args(arguments);
        command
    }

    fn keys(&self, host: &str) -> KeysProcess {
        let side = if host == "a" {
            &self.pair.a
        } else {
            &self.pair.b
        };
        let file = self.folder.path(&format!("{host}.service.toml"));
        let mut command = self.command(side, &file, &[]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        KeysProcess { child, lines }
    }

    fn serve(&self, lifetime_ms: u32) -> Service {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.pair.a.namespace])
            .arg(peer());
        command.args(["keys", PORT, &lifetime_ms.to_string()]);
        command
            .args(["service.der", "service.key.der", "station.der"].map(|f| self.folder.path(f)));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut service = Service {
            child,
            input,
            lines,
        };
        service.until("running");
        service
    }
}

/// A running service, which ends with this value.
struct Service {
    child: Child,
    input: ChildStdin,
    lines: BufReader<std::process::ChildStdout>,
}

impl Service {
    /// Passes over the library's own log.
    fn until(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim() != wanted {
            line.clear();
            assert!(
                self.lines.read_line(&mut line).unwrap() > 0,
                "the service ended"
            );
        }
    }

    fn plant(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.until("ok");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `rtwire pubsub keys`, which ends with this value.
struct KeysProcess {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
}

impl KeysProcess {
    fn until(&mut self, wanted: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert!(
                self.lines.read_line(&mut line).unwrap() > 0,
                "it ended before `{wanted}`: {all}"
            );
            if line.contains(wanted) {
                return line;
            }
            all += &line;
        }
    }

    /// Waits until a key is current, and returns its token.
    fn current(&mut self) -> u32 {
        let line = self.until("is current");
        let rest = line.split("key ").last().unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for KeysProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn stations_follow_changes_of_keys_and_an_outage_without_a_lost_message() {
    require!(root, program "ip", program "openssl", program "cmake");
    let plant = Plant::new();
    let service = plant.serve(3_000);
    let (mut a, mut b) = (plant.keys("a"), plant.keys("b"));
    let (first, other) = (a.current(), b.current());
    assert!(other.abs_diff(first) <= 1, "{first}, {other}");
    let mode = fs::metadata(plant.folder.path("a.keys"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let file = |host: &str| plant.folder.path(&format!("{host}.toml"));
    let subscriber = start(&plant.pair.b, "subscribe", &file("b"), &["--json"]);
    let publisher = start(&plant.pair.a, "publish", &file("a"), &["--json"]);
    // Beyond the keys of the first answer, then an outage that the keys to come last through, and the way back.
    while a.current() < first + 4 {}
    drop(service);
    a.until("no keys");
    b.until("no keys");
    let service = plant.serve(3_000);
    a.until("answers again");
    b.until("answers again");
    let (_, published) = publisher.stop();
    assert_eq!(count(&published["groups"][0], "faults"), 0, "{published}");
    let (_, report) = subscriber.stop();
    assert!(count(reader(&report), "taken") > 1_000, "{report}");
    assert_eq!(count(reader(&report), "lost"), 0, "{report}");
    assert_eq!(count(&report["groups"][0], "refused"), 0, "{report}");
    drop(service);
}

#[test]
fn faults_end_with_their_reason_and_the_last_keys_stay() {
    require!(root, program "ip", program "openssl", program "cmake");
    let plant = Plant::new();
    // Nobody answers: no fault of the settings.
    let (code, text) = plant.once("", "");
    assert_eq!(code, Some(4), "{text}");
    let mut service = plant.serve(60_000);
    let (code, text) = plant.once("", "");
    assert_eq!(code, Some(0), "{text}");
    plant.private("wrong", "wrong");
    for (from, to, wanted) in [
        ("\"axes\"", "\"nobody\"", "no such security group"),
        ("\"password\"", "\"wrong\"", "the user"),
        (
            "\"service.der\"",
            "\"stranger.der\"",
            "not the one in `server-certificate`",
        ),
        ("\"station.der\"", "\"stranger.der\"", "certificate"),
        ("\"service.der\"", "\"password\"", "*.der"),
        ("endpoint = \"opc.tcp", "endpoint = \"http", "opc.tcp"),
        ("user = \"station\"\n", "", "user"),
        ("private-key", "private-kay", "private-kay"),
        ("user", "channel = \"none\"\nuser", "encryption"),
    ] {
        let (code, text) = plant.once(from, to);
        assert_eq!(code, Some(2), "{to}: {text}");
        assert!(text.contains(wanted), "{to}: {text}");
    }
    let missing = key_client().display().to_string();
    let (code, text) = plant.once(&missing, "/nowhere/client");
    assert_eq!(code, Some(3), "{text}");
    // A running process keeps its keys; one that starts says why.
    let mut running = plant.keys("a");
    running.current();
    let before = fs::read(plant.folder.path("a.keys")).unwrap();
    for (bad, good, wanted) in [
        ("length 51", "length 52", "key 1"),
        ("length 0", "length 52", "key 1"),
        ("lifetime 0", "lifetime 60000", "KeyLifetime"),
        ("policy None", "policy PubSub-Aes128-CTR", "security policy"),
    ] {
        service.plant(bad);
        let (code, text) = plant.once("", "");
        assert_eq!(code, Some(2), "{bad}: {text}");
        assert!(text.contains(wanted), "{bad}: {text}");
        service.plant(good);
    }
    assert_eq!(fs::read(plant.folder.path("a.keys")).unwrap(), before);
    // The same tokens with other keys.
    service.plant("secret 85");
    let (code, text) = plant.once("", "");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("another key"), "{text}");
}
