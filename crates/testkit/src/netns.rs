//! Two network namespaces with a link between them.

use rtwire_sys::{interface, netns};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) const PREFIX: &str = "rtwtest-";
static COUNT: AtomicU32 = AtomicU32::new(0);

/// One end of a [`NetnsPair`].
#[derive(Clone, Debug)]
pub struct Side {
    /// The namespace's name.
    pub namespace: String,
    /// The interface's name within it.
    pub interface: String,
    /// The interface's MAC address.
    pub mac: [u8; 6],
    /// The interface's IPv4 address.
    pub address: Ipv4Addr,
}

impl Side {
    /// Runs `work` on a thread of its own in this namespace. Returns the result of `work`, and continues a panic in
    /// it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let namespace = &self.namespace;
            let handle = scope.spawn(move || {
                netns::enter(namespace).expect("the namespace is there and we are root");
                work()
            });
            match handle.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Returns the number of frames that the interface has sent, as the kernel counts them.
    ///
    /// # Panics
    ///
    /// Panics if the kernel has no such interface.
    #[must_use]
    pub fn frames_sent(&self) -> u64 {
        let path = format!("/sys/class/net/{}/statistics/tx_packets", self.interface);
        let output = Command::new("ip")
            .args(["netns", "exec", &self.namespace, "cat", &path])
            .output()
            .expect("`ip` is there: the namespace was made with it");
        let text = String::from_utf8_lossy(&output.stdout);
        let count = text.trim().parse();
        count.unwrap_or_else(|_| panic!("no count of {}: {output:?}", self.interface))
    }
}

/// Two namespaces, `a` and `b`, joined by a veth pair that is up, with IPv4 addresses and fixed neighbours, without
/// IPv6.
///
/// Offloads keep the kernel's defaults. The pair is removed when dropped; the next test removes the leftovers of a
/// killed one.
#[derive(Debug)]
pub struct NetnsPair {
    /// One end.
    pub a: Side,
    /// The other.
    pub b: Side,
}

impl NetnsPair {
    /// Creates a pair. Needs root and the program `ip`: call [`require!`](crate::require) before.
    #[must_use]
    pub fn new() -> Self {
        remove_leftovers();
        let run = std::process::id();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("{PREFIX}{run}-{number}-{end}");
        let (a, b) = (name("a"), name("b"));
        for namespace in [&a, &b] {
            netns::create(namespace).expect("a namespace can be made by root");
            // Before the interface comes: no IPv6 address, no stray frames.
            write_in(
                namespace,
                "/proc/sys/net/ipv6/conf/default/disable_ipv6",
                "1",
            );
        }
        ip(
            &a,
            &format!("link add rtwa type veth peer name rtwb netns {b}"),
        );
        let side = |namespace: &str, interface: &str, last: u8| Side {
            namespace: namespace.to_owned(),
            interface: interface.to_owned(),
            mac: [2, 0, 0, 0, 0, last],
            address: Ipv4Addr::new(10, 77, 0, last),
        };
        let pair = Self {
            a: side(&a, "rtwa", 1),
            b: side(&b, "rtwb", 2),
        };
        for (own, other) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
            let Side {
                namespace,
                interface,
                address,
                ..
            } = own;
            let (mac, peer_mac) = (mac_text(own.mac), mac_text(other.mac));
            let peer = other.address;
            ip_all(
                namespace,
                &format!(
                    "link set {interface} address {mac}\naddr add {address}/24 dev {interface}\nlink set lo up\n\
                     link set {interface} up\nneigh add {peer} lladdr {peer_mac} dev {interface} nud permanent\n"
                ),
            );
        }
        for side in [&pair.a, &pair.b] {
            wait_for_carrier(side);
            let there = side.run(|| interface::by_name(&side.interface));
            assert_eq!(there.map(|i| (i.mac, i.up)), Ok((side.mac, true)));
        }
        pair
    }
}

/// Returns two ends that are there already: interface `ra` in namespace `vm-a`, `rb` in `vm-b`. The kernel lab has put two
/// cards there (`card_pair` in `tests/vm/suites/cards.sh`).
#[must_use]
pub fn cards() -> [Side; 2] {
    [("vm-a", "ra", 1), ("vm-b", "rb", 2)].map(|(namespace, interface, last)| {
        let mut side = Side {
            namespace: namespace.to_owned(),
            interface: interface.to_owned(),
            mac: [0; 6],
            address: Ipv4Addr::new(10, 7, 0, last),
        };
        let there = side.run(|| interface::by_name(interface));
        side.mac = there.expect("the kernel lab has made the pair").mac;
        side
    })
}

/// Mounts the kernel's file system for BPF where it is not: containers may lack it. Needs root.
pub fn have_bpf_names() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if !mounts.contains(" /sys/fs/bpf bpf ") {
        let arguments = ["-t", "bpf", "bpf", "/sys/fs/bpf"];
        let done = Command::new("mount").args(arguments).status();
        assert!(
            done.is_ok_and(|status| status.success()),
            "no file system of type bpf"
        );
    }
}

impl Default for NetnsPair {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for NetnsPair {
    fn drop(&mut self) {
        // The interface first, while its namespace surely exists: its peer vanishes with it at once.
        let _ = run("ip", &self.a.namespace, "link del rtwa");
        let _ = netns::delete(&self.a.namespace);
        let _ = netns::delete(&self.b.namespace);
    }
}

/// Runs `ip` with `arguments` (separated by spaces) in a namespace, and fails the test if it fails.
pub fn ip(namespace: &str, arguments: &str) {
    if let Err(message) = run("ip", namespace, arguments) {
        panic!("ip -n {namespace} {arguments}: {message}");
    }
}

/// Runs `ip` once for all of these lines: in the kernel lab each call takes long. Fails the test at the first line that fails.
fn ip_all(namespace: &str, lines: &str) {
    let mut child = Command::new("ip")
        .args(["-n", namespace, "-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program `ip` is there");
    let mut input = child.stdin.take().expect("it has a pipe");
    // A broken pipe is a failed `ip`: its status says so.
    let _ = input.write_all(lines.as_bytes());
    drop(input);
    let status = child.wait().expect("a child ends");
    assert!(status.success(), "ip -n {namespace} -batch: {lines}");
}

/// Runs `tc` in the same way.
pub fn tc(namespace: &str, arguments: &str) {
    if let Err(message) = try_tc(namespace, arguments) {
        panic!("tc -n {namespace} {arguments}: {message}");
    }
}

/// Runs `tc` in the same way, without failing the test.
///
/// # Errors
/// `tc`'s output, if it fails.
pub fn try_tc(namespace: &str, arguments: &str) -> Result<(), String> {
    run("tc", namespace, arguments)
}

fn run(program: &str, namespace: &str, arguments: &str) -> Result<(), String> {
    let output = Command::new(program)
        .args(["-n", namespace])
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// Waits until the kernel reports the carrier. Before that, it silently drops sent frames; on a busy machine it may
/// take a while.
fn wait_for_carrier(side: &Side) {
    for _ in 0..1000 {
        let output = Command::new("ip")
            .args(["-n", &side.namespace, "-o", "link", "show", &side.interface])
            .output();
        let text = output.map_or_else(|error| error.to_string().into_bytes(), |o| o.stdout);
        if String::from_utf8_lossy(&text).contains("state UP") {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("the cable of {} was not noticed", side.namespace);
}

pub(crate) fn write_in(namespace: &str, path: &str, value: &str) {
    thread::scope(|scope| {
        scope.spawn(|| {
            netns::enter(namespace).expect("the namespace was just made");
            // A kernel without IPv6 has no such file, and needs none.
            let _ = std::fs::write(path, value);
        });
    });
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Removes the namespaces of test processes that have ended.
pub(crate) fn remove_leftovers() {
    for name in netns::list(PREFIX).unwrap_or_default() {
        let process = name[PREFIX.len()..].split('-').next().unwrap_or("");
        if !std::path::Path::new("/proc").join(process).exists() {
            let _ = netns::delete(&name);
        }
    }
}
