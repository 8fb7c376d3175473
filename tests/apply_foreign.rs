//! `rtwire apply` and `revert` on hosts that somebody used before: MTUs of all sizes with and without IPv6, links on the
//! interface, neighbours and routes of every kind, foreign queues, a rename in between. The kernel's own listing of the
//! whole namespace judges. What this kernel lacks is in the kernel lab (`tests/vm/suites/host.sh`). Needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "apply_common/mod.rs"]
mod apply_common;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use apply_common::listing::{comes_back_to, in_the_lab, settled, whole};
use apply_common::{Bench, code, said, same};
use rtwire_testkit::require;

/// Best effort sends frames of this size, and the first stream is UDP if `udp`.
fn plan(bench: &Bench, best_effort_bytes: u32, udp: bool) {
    let text = fs::read_to_string(bench.plan()).unwrap();
    let text = text.replace(
        "frame = \"1514 B\"",
        &format!("frame = \"{best_effort_bytes} B\""),
    );
    let text = if udp {
        text.replace("priority = 7\n", "priority = 7\ntransport = \"udp\"\n")
    } else {
        text
    };
    fs::write(bench.plan(), text).unwrap();
}

/// A macvlan on the interface with addresses and settings of its own, neighbours and proxies, routes of every kind.
const USED: &str = "ip link add link rtwa name rtwm type macvlan; sysctl -qw net.ipv6.conf.rtwm.disable_ipv6=0; ip link set rtwm up; \
    ip address add 10.79.0.1/24 dev rtwm; ip -6 address add fd79::1/64 dev rtwm nodad; \
    sysctl -qw net.ipv6.conf.rtwm.hop_limit=33 net.ipv6.conf.rtwa.hop_limit=44 net.ipv6.neigh.rtwa.delay_first_probe_time=3 \
    net.ipv4.conf.rtwa.accept_local=1; \
    ip neigh add 10.77.0.50 lladdr 02:00:00:00:00:50 dev rtwa nud permanent; \
    ip -6 neigh add fd77::50 lladdr 02:00:00:00:00:51 dev rtwa nud permanent; \
    ip neigh add proxy 10.77.0.60 dev rtwa; ip -6 neigh add proxy fd77::60 dev rtwa; \
    ip route add 10.20.0.0/16 nexthop via 10.77.0.2 dev rtwa weight 2 nexthop via 10.77.0.3 dev rtwa; \
    ip route add 10.21.0.0/16 dev rtwa scope link; ip route add 10.22.0.0/16 via 10.21.0.9 dev rtwa; \
    ip route add 10.23.0.0/16 via 10.77.0.2 table 100; ip route add local 10.24.0.0/24 dev rtwa; \
    ip route add 10.25.0.0/16 dev rtwm src 10.77.0.1 metric 5; ip route add 10.25.0.0/16 dev rtwm metric 9; \
    ip -6 route add fd20::/64 via fd77::2 dev rtwa; ip -6 route add fd21::/64 dev rtwa metric 77; \
    ip -6 route add fd23::/64 via fd77::2 dev rtwa table 100; ip -6 route add fd22::/64 dev rtwm";

#[test]
fn frames_below_1280_bytes_take_ipv6_and_revert_brings_all_of_it_back() {
    require!(root, program "ip", program "tc", program "ethtool", program "sysctl");
    for udp in [false, true] {
        let bench = Bench::new();
        bench.set(USED);
        plan(&bench, 614, udp);
        let before = settled(&bench);
        code(&bench.apply(&[]), 0);
        let links = bench.sh("ip link show rtwa; ip link show rtwm");
        assert_eq!(links.matches("mtu 600").count(), 2, "{links}");
        assert_eq!(bench.sh("ip -6 address show dev rtwa"), "", "udp: {udp}");
        code(&bench.apply(&["--check"]), 0);
        code(&bench.rtwire(&["revert", "rtwa"]), 0);
        comes_back_to(&bench, &before, &format!("udp: {udp}"));
    }
}

#[test]
fn what_somebody_set_comes_back_where_the_mtu_stays() {
    require!(root, program "ip", program "tc", program "ethtool", program "sysctl");
    for udp in [false, true] {
        let bench = Bench::new();
        bench.set(USED);
        plan(&bench, 1514, udp);
        let before = settled(&bench);
        code(&bench.apply(&[]), 0);
        assert_ne!(whole(&bench), before);
        code(&bench.apply(&["--check"]), 0);
        code(&bench.rtwire(&["revert", "rtwa"]), 0);
        comes_back_to(&bench, &before, &format!("udp: {udp}"));
    }
}

#[test]
fn a_small_mtu_that_the_plan_raises_does_not_bring_ipv6_up() {
    require!(root, program "ip", program "tc", program "ethtool", program "sysctl");
    let bench = Bench::new();
    bench.sh("ip link set rtwa mtu 600; sysctl -qw net.ipv6.conf.default.disable_ipv6=0");
    let text = fs::read_to_string(bench.plan()).unwrap();
    fs::write(
        bench.plan(),
        text.replace("payload = \"200 B\"", "payload = \"1400 B\""),
    )
    .unwrap();
    let before = settled(&bench);
    code(&bench.apply(&[]), 0);
    assert!(
        bench.sh("ip link show rtwa").contains("mtu 1428"),
        "{}",
        bench.sh("ip link show rtwa")
    );
    assert_eq!(
        bench.sh("sysctl -n net.ipv6.conf.rtwa.disable_ipv6").trim(),
        "1"
    );
    assert_eq!(bench.sh("ip -6 address show dev rtwa"), "");
    code(&bench.apply(&["--check"]), 0);
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
    comes_back_to(&bench, &before, "");
}

#[test]
fn a_renamed_interface_is_found_by_either_name() {
    require!(root, program "ip", program "tc", program "ethtool", program "sysctl");
    for (asked, frame) in [(Some("rtwa"), 1514), (Some("rtwnew"), 1514), (None, 614)] {
        let bench = Bench::new();
        bench.set(USED);
        plan(&bench, frame, false);
        let before = settled(&bench);
        code(&bench.apply(&[]), 0);
        bench.sh("ip link set rtwa name rtwnew");
        // Nothing is begun upon settings that are recorded under the old name.
        let text = bench.plan();
        let again = bench.rtwire(&[
            "apply",
            text.to_str().unwrap(),
            "--host",
            "A",
            "--interface",
            "rtwnew",
            "--isolation",
            "none",
            "--queues",
            "none",
            "--receive-priority",
            "33",
            "--fallback",
        ]);
        if again.status.code() != Some(0) {
            assert!(!said(&again).contains("changed  "), "{}", said(&again));
        }
        let mut revert = vec!["revert"];
        revert.extend(asked);
        let output = bench.rtwire(&revert);
        code(&output, 0);
        assert!(
            said(&output).contains("`rtwa` is named `rtwnew` now: its settings are put back there"),
            "{}",
            said(&output)
        );
        assert!(
            said(&output).contains("rtwnew: addresses and routes"),
            "{}",
            said(&output)
        );
        assert!(bench.records().is_empty());
        // The kernel gives labels of its own to the addresses of an interface that is renamed.
        let labels = bench.sh("ip -4 -o address show dev rtwnew");
        assert!(!labels.contains("rtwa"), "{labels}");
        let unlabelled = |text: &str| text.replace("rtwa:2", "rtwa").replace("rtwa:3", "rtwa");
        bench.sh("ip link set rtwnew name rtwa");
        let wanted = unlabelled(&before);
        let end = Instant::now() + Duration::from_secs(10);
        while unlabelled(&whole(&bench)) != wanted && Instant::now() < end {
            thread::sleep(Duration::from_millis(150));
        }
        same(
            &unlabelled(&settled(&bench)),
            &wanted,
            &format!("{asked:?}"),
        );
    }
}

#[test]
fn what_others_added_meanwhile_stays() {
    require!(root, program "ip", program "tc", program "ethtool", program "sysctl");
    for udp in [false, true] {
        let bench = Bench::new();
        bench.set(USED);
        plan(&bench, 1514, udp);
        let before = settled(&bench);
        code(&bench.apply(&[]), 0);
        bench.sh(
            "ip address add 10.88.0.1/24 dev rtwa; ip route add 10.98.0.0/16 via 10.88.0.2; \
             ip route add 10.99.0.0/16 dev rtwa table 77; \
             ip neigh add 10.88.0.7 lladdr 02:00:00:00:00:07 dev rtwa nud permanent",
        );
        code(&bench.rtwire(&["revert", "rtwa"]), 0);
        // Each of these fails where what it removes is not there.
        bench.sh(
            "ip neigh del 10.88.0.7 dev rtwa; ip route del 10.99.0.0/16 dev rtwa table 77; \
             ip route del 10.98.0.0/16 via 10.88.0.2; ip address del 10.88.0.1/24 dev rtwa",
        );
        comes_back_to(&bench, &before, &format!("udp: {udp}"));
    }
}

#[test]
fn an_interface_that_took_the_name_is_left_as_it_is() {
    require!(root, program "ip", program "tc", program "ethtool");
    let bench = Bench::new();
    code(&bench.apply(&[]), 0);
    bench.sh("ip link del rtwa; ip link add rtwa type veth peer name rtwc; ip link set rtwc up; ip link set rtwa up");
    let before = settled(&bench);
    let output = bench.rtwire(&["revert", "rtwa"]);
    code(&output, 0);
    assert!(
        said(&output).contains("`rtwa` is gone"),
        "{}",
        said(&output)
    );
    comes_back_to(&bench, &before, "another interface");
    assert!(bench.records().is_empty());
}

#[test]
fn what_cannot_be_put_back_is_given_up_by_force_and_named() {
    require!(root, program "ip", program "tc", program "ethtool");
    let bench = Bench::new();
    code(&bench.apply(&[]), 0);
    // A setting that the kernel refuses from now on: an address that another program took.
    let record = bench.records().remove(0);
    let text = fs::read_to_string(&record).unwrap();
    let spoiled = text.replace(
        "\"from\":{\"flag\":true}",
        "\"from\":{\"text\":\"nonsense\"}",
    );
    assert_ne!(text, spoiled, "{text}");
    fs::write(&record, spoiled).unwrap();
    let refused = bench.rtwire(&["revert", "rtwa"]);
    code(&refused, 1);
    assert!(
        said(&refused).contains("rtwire revert --force"),
        "{}",
        said(&refused)
    );
    assert!(record.exists());
    let forced = bench.rtwire(&["revert", "rtwa", "--force"]);
    code(&forced, 1);
    let words = said(&forced);
    assert!(
        words.contains("given up: rtwa: ARP") && words.contains("by hand:"),
        "{words}"
    );
    assert!(!record.exists());
    code(&bench.apply(&["--dry-run"]), 0);
    // A record that nobody can read does not block either.
    fs::write(&record, "of another program\n").unwrap();
    code(&bench.apply(&[]), 1);
    let forced = bench.rtwire(&["revert", "--force"]);
    code(&forced, 1);
    assert!(
        said(&forced).contains("the record was removed"),
        "{}",
        said(&forced)
    );
    assert!(!record.exists());
}

#[test]
fn a_check_names_each_drift_and_changes_nothing() {
    require!(root, program "ip", program "tc", program "ethtool", program "sysctl");
    let bench = Bench::new();
    let untouched = bench.apply(&["--check"]);
    code(&untouched, 1);
    assert!(
        said(&untouched).contains("differs  rtwa: queues"),
        "{}",
        said(&untouched)
    );
    code(&bench.apply(&[]), 0);
    let good = bench.apply(&["--check"]);
    code(&good, 0);
    assert!(said(&good).contains("all is as planned"), "{}", said(&good));
    for (drift, back, words) in [
        (
            "ip link set rtwa arp on",
            "ip link set rtwa arp off",
            "rtwa: ARP: on",
        ),
        (
            "ip address add 10.1.1.1/24 dev rtwa",
            "ip address del 10.1.1.1/24 dev rtwa",
            "10.1.1.1/24",
        ),
        (
            "tc class change dev rtwa parent 1:1 classid 1:13 htb rate 8bit ceil 20mbit prio 0",
            "",
            "rtwa: queues",
        ),
        (
            "sysctl -qw net.ipv6.conf.rtwa.disable_ipv6=0",
            "sysctl -qw net.ipv6.conf.rtwa.disable_ipv6=1",
            "disable_ipv6: 0",
        ),
        ("ip link set rtwa mtu 1400", "ip link set rtwa mtu 1500", ""),
    ] {
        bench.sh(drift);
        let before = whole(&bench);
        let found = bench.apply(&["--check"]);
        if words.is_empty() {
            // A smaller MTU keeps the plan's limit.
            code(&found, 0);
        } else {
            code(&found, 1);
            let differing = said(&found);
            let lines: Vec<&str> = differing
                .lines()
                .filter(|line| line.starts_with("differs"))
                .collect();
            assert!(
                lines.len() == 1 && lines[0].contains(words),
                "{drift}: {differing}"
            );
        }
        same(&whole(&bench), &before, "a check changes nothing");
        if back.is_empty() {
            break;
        }
        bench.sh(back);
    }
    code(&bench.rtwire(&["revert", "rtwa"]), 0);
}

/// SplitMix64: small, and the same everywhere.
struct Rng(u64);

impl Rng {
    fn pick(&mut self, of: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(of).unwrap()).unwrap()
    }
}

/// Root queues of somebody else that every kernel has.
const QUEUES: &[&str] = &[
    "",
    "tc qdisc add dev rtwa root handle 7: pfifo_fast",
    "tc qdisc add dev rtwa root handle 7: pfifo limit 77",
    "tc qdisc add dev rtwa root bfifo limit 9000",
    "tc qdisc add dev rtwa root tbf rate 20mbit burst 4k latency 5ms",
    "tc qdisc add dev rtwa root handle 7: htb default 5; tc class add dev rtwa parent 7: classid 7:5 htb rate 3mbit; \
     tc qdisc add dev rtwa parent 7:5 tbf rate 2mbit burst 5k latency 9ms",
];

/// Root queues that the kernels of the lab have, too. Those of several queues are in `tests/vm/suites/host.sh`.
const QUEUES_OF_THE_LAB: &[&str] = &[
    "tc qdisc add dev rtwa root fq_codel limit 700 target 3ms",
    "tc qdisc add dev rtwa root handle 7: fq limit 900 flow_limit 33",
    "tc qdisc add dev rtwa root sfq perturb 9 limit 99",
    "tc qdisc add dev rtwa root handle 7: prio bands 3; tc qdisc add dev rtwa parent 7:2 sfq",
    "tc qdisc add dev rtwa root handle 7: htb default 5; tc class add dev rtwa parent 7: classid 7:5 htb rate 3mbit; \
     tc qdisc add dev rtwa parent 7:5 fq_codel limit 55",
    "tc qdisc add dev rtwa root netem delay 1ms",
    "tc qdisc add dev rtwa root etf clockid CLOCK_TAI delta 300000",
    "tc qdisc add dev rtwa root cbs idleslope 20000 sendslope -980000 hicredit 30 locredit -1470",
];

/// Root queues that this kernel has.
fn queues() -> Vec<&'static str> {
    let more = if in_the_lab() { QUEUES_OF_THE_LAB } else { &[] };
    [QUEUES, more].concat()
}

/// A VLAN on the interface with an address, a map and a route.
const VLAN: &str = "ip link add link rtwa name rtwv type vlan id 88 egress-qos-map 3:5; ip link set rtwv up; \
    ip address add 10.88.0.1/24 dev rtwv; ip route add 10.89.0.0/16 dev rtwv metric 4";

/// Returns a start state: commands, in an order that works.
fn start_state(rng: &mut Rng) -> String {
    let mut pick = |of| rng.pick(of);
    let mut lines: Vec<&str> = Vec::new();
    if pick(3) > 0 {
        lines.push(USED);
    }
    let queues = queues();
    lines.push(queues[pick(queues.len())]);
    if in_the_lab() && pick(2) == 0 {
        lines.push(VLAN);
    }
    lines.push(
        [
            "",
            "sysctl -qw net.ipv6.conf.rtwa.disable_ipv6=1",
            "sysctl -qw net.ipv6.conf.rtwa.addr_gen_mode=1 net.ipv6.conf.rtwa.forwarding=1",
            "ip link set rtwa arp off",
            "ip address add 10.80.0.5/24 dev rtwa valid_lft 4000 preferred_lft 3000",
        ][pick(5)],
    );
    lines.push(
        [
            "",
            "ip link set rtwa mtu 600",
            "sysctl -qw net.ipv6.conf.default.disable_ipv6=0; ip link set rtwa mtu 1279",
            "ip link set rtwa mtu 1280",
            "ip link set rtwa mtu 9000",
            "ip link set rtwa mtu 9000; ip link add link rtwa name rtwn type macvlan; ip link set rtwn mtu 4000 up; \
             ip link add link rtwa name rtwo type macvlan; ip link set rtwo mtu 1300 up",
        ][pick(6)],
    );
    lines.retain(|line| !line.is_empty());
    lines.join("; ")
}

/// Random start states of `make test`; `make test-full` tries many more.
const CASES: u64 = 30;
/// Cases side by side: each waits for the kernel's own timers much of its time.
const SIDE_BY_SIDE: u32 = 4;

/// Makes each foreign queue and each kind of link once, and applies a plan: returns how long that took. The kernel loads a module when it is
/// first used, and tells others who ask for it meanwhile that it has none.
fn first_of_all() -> Duration {
    let bench = Bench::unsettled();
    bench.set(USED);
    if in_the_lab() {
        bench.set(VLAN);
    }
    for queue in queues().into_iter().filter(|queue| !queue.is_empty()) {
        bench.set(queue);
        bench.set("tc qdisc del dev rtwa root");
    }
    let begin = Instant::now();
    code(&bench.apply(&["--fallback"]), 0);
    let took = begin.elapsed();
    code(&bench.rtwire(&["revert"]), 0);
    took
}

/// Random start states, plans and kills; `RTWIRE_FOREIGN_CASES` of them.
#[test]
fn any_start_state_comes_back() {
    require!(root, program "ip", program "tc", program "ethtool");
    let number = |name, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (cases, seed) = (
        number("RTWIRE_FOREIGN_CASES", CASES),
        number("RTWIRE_SYSTEM_SEED", 1),
    );
    let applying = first_of_all();
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                let _guard = EndsOthers(&next);
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    if case >= cases {
                        break;
                    }
                    comes_back(seed + case, applying);
                }
            });
        }
    });
    // The kernel lab shows lines that begin with a mark; the harness has begun one with the test's name.
    let mark = if in_the_lab() { "\n@@ note " } else { "" };
    println!(
        "{mark}{cases} start states came back: seeds {seed} to {}",
        seed + cases.saturating_sub(1)
    );
}

/// Where one case fails, others begin no more: the failure is told at once.
struct EndsOthers<'a>(&'a AtomicU64);

impl Drop for EndsOthers<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(u64::MAX / 2, Ordering::Relaxed);
        }
    }
}

/// Held by a case whose interface moves into a namespace of its own: that has the interface's name, here the same for all cases, and the
/// names of namespaces are the whole host's.
static NAMED_NAMESPACE: Mutex<()> = Mutex::new(());

/// One start state: a plan is applied, or killed amid that, and reverted. Applying takes `applying` where nothing runs beside it.
fn comes_back(seed: u64, applying: Duration) {
    let rng = &mut Rng(seed);
    let state = start_state(rng);
    let frame = [1514, 614, 1000, 1293, 1294, 128][rng.pick(6)];
    let udp = rng.pick(2) == 0;
    let isolation = ["addresses", "namespace", "none"][rng.pick(3)];
    // Longer than applying takes alone: others run beside it.
    let killed_after = applying * u32::try_from(rng.pick(1000)).unwrap() / 400;
    let killed = rng.pick(2) == 0;
    let context = format!(
        "seed {seed}: {state}\nframe {frame}, udp {udp}, {isolation}, killed {killed} {killed_after:?}"
    );
    let bench = Bench::unsettled();
    bench.set(&state);
    plan(&bench, frame, udp);
    let before = settled(&bench);
    let options = ["--isolation", isolation, "--fallback"];
    let alone = (isolation == "namespace").then(|| {
        NAMED_NAMESPACE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    });
    if killed {
        let mut child = bench.apply_command(&options).spawn().unwrap();
        thread::sleep(killed_after);
        let _ = child.kill();
        let _ = child.wait();
    } else {
        let applied = bench.apply(&options);
        assert_eq!(
            applied.status.code(),
            Some(0),
            "{context}\n{}",
            said(&applied)
        );
        let checked = bench.apply(&[&options[..], &["--check"]].concat());
        assert_eq!(
            checked.status.code(),
            Some(0),
            "{context}\n{}",
            said(&checked)
        );
    }
    let reverted = bench.rtwire(&["revert"]);
    assert_eq!(
        reverted.status.code(),
        Some(0),
        "{context}\n{}",
        said(&reverted)
    );
    drop(alone);
    assert!(bench.records().is_empty(), "{context}");
    comes_back_to(&bench, &before, &context);
}
