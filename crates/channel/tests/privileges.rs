//! Least privilege: each path works with exactly the capabilities that docs/receive-program.md names, as another user than
//! root, and a process without any of them blocks nobody.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Injector, SOON, good_packet};
use rtwire_channel::{Endpoint, EndpointConfig, ListenerConfig, ReceivePath};
use rtwire_link::program::{Patch, PatchSource, Police, ReceiveProgram};
use rtwire_link::responder::PacketResponder;
use rtwire_link::{Sender, SenderConfig, TxPath, WakeUp};
use rtwire_testkit::{NetnsPair, require};
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const KEY: u32 = 5;
const DOCUMENT: &str = include_str!("../../../docs/receive-program.md");
const NOBODY: &str = "65534";

/// Returns the capabilities that the document's row about `what` names, as `setpriv` takes them.
fn documented(what: &str) -> Vec<String> {
    let row = DOCUMENT
        .lines()
        .find(|line| line.starts_with(&format!("| {what}")))
        .unwrap_or_else(|| panic!("no row about `{what}`"));
    row.split(|c: char| !c.is_ascii_uppercase() && c != '_')
        .filter_map(|word| word.strip_prefix("CAP_"))
        .map(str::to_lowercase)
        .collect()
}

/// Starts one of the functions below as another user with these capabilities only. A folder of locks is there for its
/// group, in a mount namespace of its own.
fn start(pair: &NetnsPair, child: &str, path: &str, capabilities: &[String]) -> Child {
    let list: String = capabilities
        .iter()
        .map(|name| format!(",+{name}"))
        .collect();
    let script = format!(
        "mkdir -p -m 700 /run/rtwire && mount -t tmpfs -o mode=2770,gid={NOBODY} rtwtest /run/rtwire && \
         exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --bounding-set=-all{list} \
         --inh-caps=-all{list} --ambient-caps=-all{list} \"$0\" --exact {child} --ignored --nocapture"
    );
    Command::new("ip")
        .args(["netns", "exec", &pair.b.namespace, "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env("RTWIRE_TEST_PATH", path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Sends frames until the child has ended; returns its success and what it told.
fn finish(pair: &NetnsPair, mut child: Child) -> (bool, String) {
    let mut injector = Injector::new(pair);
    let mut newest = good_packet();
    newest[0] |= 1;
    newest[3] += 1;
    while child.try_wait().unwrap().is_none() {
        injector.send(&good_packet());
        injector.send(&newest);
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

fn told_by(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = Endpoint::with(&EndpointConfig {
        path: path.parse::<ReceivePath>()?,
        ..EndpointConfig::new("rtwb")
    })?;
    let config = |port| ListenerConfig {
        key: KEY,
        arrivals: 64,
        queue_frames: 16,
        ..ListenerConfig::new(port)
    };
    let mut queue = endpoint.queue_listener(&config(1001))?;
    let mut newest = endpoint.newest_listener(&config(1002))?;
    queue.recv(SOON)?.ok_or("no frame")?;
    if !newest.wait(SOON)? {
        return Err("no value".into());
    }
    let patch = Patch {
        source: PatchSource::Sequence,
        octets: 4,
        place: 0,
    };
    let content: &[u8] = b"0123456789";
    if let Some(program) = endpoint.program() {
        let mut responder = program.respond_channel_with(1003, KEY, Some(content), &[patch])?;
        responder.replace(b"another")?;
        program.police(1004, &Police::new(1_000_000, 10_000))?;
        println!("TOLD {}", endpoint.path_in_use());
    } else {
        let place = ("rtwb", WakeUp::Block);
        PacketResponder::open_with(place, 1003, KEY, Some(content), &[patch])?;
        for path in [TxPath::Qdisc, TxPath::Direct, TxPath::Xdp] {
            let mut sender = Sender::frames(&SenderConfig {
                path,
                priority: 6,
                ..SenderConfig::new("rtwb")
            })?;
            sender.send(&[0xff; 64])?;
        }
        println!("TOLD packet");
    }
    Ok(())
}

/// Opens all that a path can do, and receives.
#[test]
#[ignore = "run by the next test"]
fn child_that_opens_a_path() {
    let path = std::env::var("RTWIRE_TEST_PATH").unwrap();
    if let Err(error) = told_by(&path) {
        println!("REFUSED {error}");
        std::process::exit(1);
    }
}

#[test]
fn each_path_needs_the_documented_capabilities_and_no_other() {
    require!(root, program "ip", program "setpriv");
    let pair = NetnsPair::new();
    for (path, row) in [
        ("packet", "packet sockets"),
        ("native", "the receive program, native or generic"),
        ("generic", "the receive program, native or generic"),
    ] {
        let named = documented(row);
        assert!(!named.is_empty());
        let open = |capabilities: &[String]| {
            finish(
                &pair,
                start(&pair, "child_that_opens_a_path", path, capabilities),
            )
        };
        let (opened, text) = open(&named);
        assert!(
            opened && text.contains(&format!("TOLD {path}")),
            "{path}: {text}"
        );
        // Each of them is needed, and named when it is missing.
        for missing in &named {
            let fewer: Vec<String> = named
                .iter()
                .filter(|name| *name != missing)
                .cloned()
                .collect();
            let (opened, text) = open(&fewer);
            let name = format!("CAP_{}", missing.to_uppercase());
            assert!(
                !opened && text.contains("REFUSED"),
                "{path} without {name}: {text}"
            );
            assert!(text.contains(&name), "{path} without {name}: {text}");
        }
    }
}

#[test]
fn a_program_of_another_process_is_shared_with_the_documented_capabilities() {
    require!(root, program "ip", program "setpriv");
    let pair = NetnsPair::new();
    let program = pair.b.run(|| ReceiveProgram::attach("rtwb")).unwrap();
    let named = documented("the same, shared");
    let (opened, text) = finish(
        &pair,
        start(&pair, "child_that_opens_a_path", "native", &named),
    );
    assert!(opened && text.contains("TOLD native"), "{text}");
    let fewer = documented("the receive program, native or generic");
    assert_eq!(named.len(), fewer.len() + 1);
    let (opened, text) = finish(
        &pair,
        start(&pair, "child_that_opens_a_path", "native", &fewer),
    );
    assert!(!opened && text.contains("CAP_SYS_ADMIN"), "{text}");
    drop(program);
}

/// Takes every name that a lock ever had, in the space of UNIX sockets that everybody may use.
#[test]
#[ignore = "run by the next test"]
fn child_that_takes_all_names() {
    let index = rtwire_sys::interface::by_name("rtwb").unwrap().index;
    let mut held = Vec::new();
    for what in ["channels", "1001", "1002", "1003", "1004", "1004/police"] {
        let name = format!("rtwire/88b5/{index}/{what}");
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        held.push(UnixDatagram::bind_addr(&address).unwrap());
    }
    let lock = rtwire_sys::port_lock::NameLock::take(&format!("rtwire/88b5/{index}/1001"));
    println!("\nTOLD {}", lock.unwrap_err());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_stranger_blocks_nothing() {
    require!(root, program "ip", program "setpriv");
    let pair = NetnsPair::new();
    // The folder as root makes it.
    let own = pair
        .b
        .run(|| rtwire_sys::port_lock::NameLock::take("rtwire/test/own"));
    own.unwrap();
    let mut stranger = Command::new("ip")
        .args(["netns", "exec", &pair.b.namespace, "setpriv"])
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "child_that_takes_all_names",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(stranger.stdout.take().unwrap()).lines();
    let told = lines
        .map(Result::unwrap)
        .find(|line| line.starts_with("TOLD"));
    let told = told.unwrap_or_default();
    let opened = ["native", "generic", "packet"].map(|path| {
        let mut child = Command::new("ip");
        child
            .args(["netns", "exec", &pair.b.namespace])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "child_that_opens_a_path",
                "--ignored",
                "--nocapture",
            ])
            .env("RTWIRE_TEST_PATH", path);
        let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        finish(&pair, child.unwrap())
    });
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(
        told.contains("/run/rtwire") && told.contains("install -d"),
        "{told}"
    );
    for (opened, text) in opened {
        assert!(opened, "{text}");
    }
}
