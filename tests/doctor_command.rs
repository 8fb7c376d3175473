//! `rtwire doctor` finds faults that are planted for real, and nothing on an interface without them. Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rtwire_testkit::{NetnsPair, Side, ip, require};
use serde_json::Value;

/// A program that one test starts is seen from all namespaces.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A pair whose end `a` is as a real-time interface should be.
struct Healthy {
    _alone: MutexGuard<'static, ()>,
    pair: NetnsPair,
    state: tempfile::TempDir,
}

impl Healthy {
    fn new() -> Self {
        let healthy = Self {
            _alone: ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner),
            pair: NetnsPair::new(),
            state: tempfile::tempdir().unwrap(),
        };
        for line in [
            "ip address flush dev rtwa",
            "ip link set rtwa arp off",
            "ethtool -K rtwa tso off gso off gro on tx-udp-segmentation off",
            "ethtool -L rtwa rx 1 tx 1 || true",
        ] {
            healthy.sh(line);
        }
        healthy
    }

    fn side(&self) -> &Side {
        &self.pair.a
    }

    /// Runs a line of shell in the namespace of `a`.
    fn sh(&self, line: &str) -> String {
        let output = in_namespace(self.side(), &["sh", "-ec", line])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn rtwire(&self, arguments: &[&str]) -> Output {
        let mut all = vec![env!("CARGO_BIN_EXE_rtwire")];
        all.extend_from_slice(arguments);
        in_namespace(self.side(), &all)
            .env("RTWIRE_STATE_DIRECTORY", self.state.path())
            .output()
            .unwrap()
    }

    /// What endangers a deadline at `interface`, leaving out what is the machine's and not the interface's.
    fn found(&self, interface: &str) -> Vec<String> {
        let report = report(&self.rtwire(&["doctor", interface, "--json"]));
        endangering(&report)
            .into_iter()
            .filter(|id| {
                [
                    "interface.",
                    "driver.",
                    "queues.",
                    "talkers.",
                    "interrupts.rps",
                    "interrupts.deferred",
                    "interrupts.polling_priority",
                ]
                .iter()
                .any(|area| id.starts_with(area))
            })
            .collect()
    }
}

fn in_namespace(side: &Side, command: &[&str]) -> Command {
    let mut all = Command::new("ip");
    all.args(["netns", "exec", &side.namespace])
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    all
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

fn endangering(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .filter(|one| one["level"] == "weak" || one["level"] == "fault")
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

/// A program that was started for a test; ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `sleep` under another name, in the namespace of `side`.
fn impostor(folder: &std::path::Path, side: &Side, name: &str) -> Running {
    let program = folder.join(name);
    fs::copy("/bin/sleep", &program).unwrap();
    let child = in_namespace(side, &[program.to_str().unwrap(), "60"])
        .spawn()
        .unwrap();
    let comm = format!("/proc/{}/comm", child.id());
    // `ip netns exec` becomes the program.
    for _ in 0..500 {
        if fs::read_to_string(&comm).is_ok_and(|text| text.trim() == &name[..name.len().min(15)]) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Running(child)
}

#[test]
fn nothing_is_found_on_an_interface_without_faults_and_each_planted_one_is() {
    require!(root, program "ip", program "ethtool", program "tc", program "nft", program "sysctl");
    let healthy = Healthy::new();
    assert_eq!(healthy.found("rtwa"), Vec::<String>::new());
    let planted = [
        (
            "interface.state",
            "ip link set rtwa down",
            "ip link set rtwa up",
        ),
        (
            "interface.master",
            "ip link add rtwbr type bridge; ip link set rtwa master rtwbr",
            "ip link del rtwbr",
        ),
        (
            "driver.merging",
            "ethtool -K rtwa rx-gro-list on",
            "ethtool -K rtwa rx-gro-list off",
        ),
        (
            "driver.splitting",
            "ethtool -K rtwa tso on",
            "ethtool -K rtwa tso off",
        ),
        (
            "queues.in_force",
            "tc qdisc add dev rtwa root tbf rate 1mbit burst 2k latency 10ms",
            "tc qdisc del dev rtwa root",
        ),
        (
            "queues.ingress",
            "tc qdisc add dev rtwa ingress",
            "tc qdisc del dev rtwa ingress",
        ),
        (
            "talkers.ipv6",
            "sysctl -qw net.ipv6.conf.rtwa.disable_ipv6=0",
            "sysctl -qw net.ipv6.conf.rtwa.disable_ipv6=1",
        ),
        (
            "talkers.addresses",
            "ip address add 10.77.0.1/24 dev rtwa",
            "ip address flush dev rtwa",
        ),
        (
            "talkers.default_route",
            "ip address add 10.77.0.1/24 dev rtwa; ip route add default via 10.77.0.2",
            "ip address flush dev rtwa",
        ),
        (
            "talkers.arp",
            "ip address add 10.77.0.1/24 dev rtwa; ip link set rtwa arp on",
            "ip address flush dev rtwa; ip link set rtwa arp off",
        ),
        (
            "talkers.firewall",
            "nft add table inet rtwtest",
            "nft delete table inet rtwtest",
        ),
        (
            "interface.mtu",
            "ip link set rtwa mtu 68",
            "ip link set rtwa mtu 1500",
        ),
        (
            "interface.partner_mtu",
            "ip -n OTHER link set rtwb mtu 600",
            "ip -n OTHER link set rtwb mtu 1500",
        ),
        (
            "interface.duplicate_address",
            "ip -n OTHER link set rtwb address 02:00:00:00:00:01",
            "ip -n OTHER link set rtwb address 02:00:00:00:00:02",
        ),
        (
            "interface.duplicate_address",
            "ip link add rtwdup address 02:00:00:00:00:01 type veth peer name rtwdup2",
            "ip link del rtwdup",
        ),
        (
            "interface.duplicate_address",
            "ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:01 dev rtwa nud permanent",
            "ip neigh del 10.77.0.9 dev rtwa",
        ),
        (
            "interface.promiscuous",
            "ip link set rtwa promisc on",
            "ip link set rtwa promisc off",
        ),
        (
            "interface.all_groups",
            "ip link set rtwa allmulticast on",
            "ip link set rtwa allmulticast off",
        ),
        (
            "interface.queue_length",
            "ip link set rtwa txqueuelen 5",
            "ip link set rtwa txqueuelen 1000",
        ),
        (
            "queues.unplanned",
            "tc qdisc add dev rtwa root handle 7: htb default 5",
            "tc qdisc del dev rtwa root",
        ),
        (
            "interrupts.rps",
            "echo 1 > /sys/class/net/rtwa/queues/rx-0/rps_cpus",
            "echo 0 > /sys/class/net/rtwa/queues/rx-0/rps_cpus",
        ),
        (
            "interrupts.deferred",
            "echo 20000 > /sys/class/net/rtwa/gro_flush_timeout",
            "echo 0 > /sys/class/net/rtwa/gro_flush_timeout",
        ),
        (
            "interrupts.polling_priority",
            "echo 1 > /sys/class/net/rtwa/threaded",
            "echo 0 > /sys/class/net/rtwa/threaded",
        ),
    ];
    let other = &healthy.pair.b.namespace;
    for (id, plant, remove) in planted {
        healthy.sh(&plant.replace("OTHER", other));
        let found = healthy.found("rtwa");
        assert!(
            found.iter().any(|one| one == id),
            "{plant}: {id} is not in {found:?}"
        );
        healthy.sh(&remove.replace("OTHER", other));
        assert_eq!(
            healthy.found("rtwa"),
            Vec::<String>::new(),
            "after {remove}"
        );
    }
}

#[test]
fn the_driver_is_asked_for_launch_times_past_the_queue() {
    require!(root, program "ip", program "ethtool");
    let healthy = Healthy::new();
    let report = report(&healthy.rtwire(&["doctor", "rtwa", "--json"]));
    let findings = report["findings"].as_array().unwrap();
    let one = |id: &str| findings.iter().find(|one| one["id"] == id).unwrap();
    let found = one("driver.launch_time");
    // Before Linux 6.3 the kernel does not tell; no veth keeps them on any.
    let expected = if one("driver.xdp")["level"] == "unknown" {
        "unknown"
    } else {
        "note"
    };
    assert_eq!(found["level"], expected, "{found}");
    let words = found["found"].as_str().unwrap();
    assert!(words.contains("AF_XDP"), "{found}");
    assert!(found["why"].as_str().unwrap().contains("6.15"), "{found}");
}

#[test]
fn a_missing_partner_other_queues_and_coalescing_are_found() {
    require!(root, program "ip", program "ethtool");
    let healthy = Healthy::new();
    ip(&healthy.pair.b.namespace, "link set rtwb down");
    assert_eq!(healthy.found("rtwa"), ["interface.state"]);
    ip(&healthy.pair.b.namespace, "link set rtwb up");
    healthy.sh("ip tuntap add rtwtap mode tap; ethtool -C rtwtap rx-frames 64");
    let found = healthy.found("rtwtap");
    assert!(found.contains(&"driver.coalescing".to_owned()), "{found:?}");
    healthy.sh(
        "ip link add name rtwq numtxqueues 2 numrxqueues 2 type veth peer name rtwp numtxqueues 2 numrxqueues 2; \
         ip link set rtwp up; ip link set rtwq up; ethtool -K rtwq gro on",
    );
    let found = healthy.found("rtwq");
    assert!(found.contains(&"driver.order".to_owned()), "{found:?}");
    let by_processor = |found: &[String]| found.iter().any(|id| id == "queues.xps");
    assert!(!by_processor(&found), "{found:?}");
    healthy.sh("echo 1 > /sys/class/net/rtwq/queues/tx-0/xps_cpus");
    let found = healthy.found("rtwq");
    assert!(by_processor(&found), "{found:?}");
}

#[test]
fn an_inherited_affinity_is_found() {
    require!(root, program "taskset");
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let healthy = Healthy::new();
    let found = |start: &[&str]| {
        let doctor = [env!("CARGO_BIN_EXE_rtwire"), "doctor", "--json"];
        let all: Vec<&str> = start.iter().copied().chain(doctor).collect();
        let output = in_namespace(healthy.side(), &all).output().unwrap();
        let found = endangering(&report(&output));
        found.iter().any(|id| id == "processors.affinity")
    };
    assert!(!found(&["taskset", "ffffffff"]));
    assert!(found(&["taskset", "1"]));
}

#[test]
fn other_programs_are_found() {
    require!(root, program "ip", program "chrt");
    let healthy = Healthy::new();
    let folder = tempfile::tempdir().unwrap();
    for name in ["NetworkManager", "avahi-daemon", "lldpd"] {
        let running = impostor(folder.path(), healthy.side(), name);
        let expected = format!("talkers.{}", name.to_lowercase());
        assert_eq!(healthy.found("rtwa"), [expected]);
        // The same program in another network is nobody's business.
        drop(running);
        let elsewhere = impostor(folder.path(), &healthy.pair.b, name);
        assert_eq!(healthy.found("rtwa"), Vec::<String>::new());
        drop(elsewhere);
    }
    // A group that a program joined, as mDNS does.
    healthy.sh("ip address add 10.77.0.1/24 dev rtwa");
    let socket = healthy.side().run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let group = Ipv4Addr::new(224, 0, 0, 251);
        socket
            .join_multicast_v4(&group, &Ipv4Addr::new(10, 77, 0, 1))
            .unwrap();
        socket
    });
    let found = healthy.rtwire(&["doctor", "rtwa"]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(text.contains("joined 224.0.0.251"), "{text}");
    drop(socket);
    assert!(
        !healthy
            .found("rtwa")
            .contains(&"talkers.multicast".to_owned())
    );
    // A real-time thread above ours.
    let rival = Running(
        Command::new("chrt")
            .args(["--fifo", "97", "sleep", "60"])
            .spawn()
            .unwrap(),
    );
    let pid = rival.0.id().to_string();
    let found = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let report = report(&healthy.rtwire(&["doctor", "--json"]));
        let findings = report["findings"].as_array().unwrap();
        findings.iter().any(|one| {
            one["id"] == "limits.rivals" && one["found"].as_str().unwrap().contains(&pid)
        })
    });
    assert!(found, "the thread of process {pid} is not named");
}

#[test]
fn missing_privileges_are_found_and_nothing_panics_without_them() {
    require!(root, program "setpriv", program "prlimit");
    let healthy = Healthy::new();
    let program = healthy.state.path().join("rtwire");
    // The build directory may be closed to others.
    fs::copy(env!("CARGO_BIN_EXE_rtwire"), &program).unwrap();
    healthy.sh(&format!(
        "chmod 755 {0} {0}/rtwire",
        healthy.state.path().display()
    ));
    let output = in_namespace(
        healthy.side(),
        &[
            "prlimit",
            "--memlock=65536",
            "--rtprio=0",
            "setpriv",
            "--reuid=65534",
            "--clear-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
            program.to_str().unwrap(),
            "doctor",
            "rtwa",
            "--json",
        ],
    )
    .env("RTWIRE_STATE_DIRECTORY", healthy.state.path())
    .output()
    .unwrap();
    let found = endangering(&report(&output));
    for id in [
        "limits.capabilities",
        "limits.locked_memory",
        "limits.real_time_priority",
    ] {
        assert!(found.contains(&id.to_owned()), "{id} is not in {found:?}");
    }
    assert_eq!(output.status.code(), Some(1));
}

/// What a person sees of an interface, to be compared byte by byte.
fn looks(healthy: &Healthy) -> String {
    healthy.sh(
        "ip -d link show dev rtwa; ip address show dev rtwa; ip route; tc qdisc show dev rtwa; ethtool -k rtwa; \
         sysctl net.ipv4.conf.rtwa net.ipv6.conf.rtwa 2>&1 || true",
    )
}

#[test]
fn what_is_fixed_stays_fixed_until_it_is_taken_back_to_the_byte() {
    require!(root, program "ip", program "ethtool", program "tc", program "sysctl");
    let healthy = Healthy::new();
    healthy.sh(
        "ip address add 10.77.0.1/24 dev rtwa; ip route add 10.9.0.0/16 via 10.77.0.2; ethtool -K rtwa gro off tso on rx-udp-gro-forwarding on; \
         ip link set rtwa arp on; sysctl -qw net.ipv6.conf.rtwa.disable_ipv6=0",
    );
    // Its own address is probed for a while; until then it is tentative.
    healthy.sh(
        "timeout 20 sh -c 'until ip -6 address show dev rtwa scope link | grep -q inet6 && \
         ! ip -6 address show dev rtwa | grep -q tentative; do sleep 0.1; done'",
    );
    let before = looks(&healthy);
    let output = healthy.rtwire(&["doctor", "rtwa", "--fix"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("read back"), "{said}");
    let left = healthy.found("rtwa");
    assert!(
        !left
            .iter()
            .any(|id| id.starts_with("driver.") || id == "talkers.ipv6"),
        "{left:?}"
    );
    assert_ne!(before, looks(&healthy));
    // A second time there is nothing to do, and nothing is forgotten.
    healthy.rtwire(&["doctor", "rtwa", "--fix"]);
    let output = healthy.rtwire(&["revert", "rtwa"]);
    assert!(output.status.success(), "{output:?}");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while looks(&healthy) != before && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(before, looks(&healthy));
    let again = healthy.rtwire(&["revert", "rtwa"]);
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn a_wrong_name_is_answered_with_those_there_are() {
    require!(root);
    let healthy = Healthy::new();
    let output = healthy.rtwire(&["doctor", "rtwx"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("rtwx") && said.contains("rtwa"), "{said}");
}
