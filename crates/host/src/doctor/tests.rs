//! The checks that look at the machine rather than at an interface, with `/proc` and `/sys` planted.

use std::fs;

use super::*;
use crate::files::Files;

/// A machine as it should be, in a directory.
struct Machine(tempfile::TempDir);

impl Machine {
    fn ideal() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for (path, text) in [
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000"),
            ("proc/cmdline", "root=/dev/sda1 isolcpus=3 -- threadirqs"),
            ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu tsc\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            (
                "proc/thread-self/status",
                "Name:\tx\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-2\n",
            ),
            (
                "proc/thread-self/limits",
                "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  unlimited  unlimited  bytes\n",
            ),
            ("sys/kernel/realtime", "1"),
            ("sys/kernel/tracing/current_tracer", "nop"),
            ("sys/kernel/tracing/events/enable", "0"),
            // A serial console to which only emergencies go, a watchdog that spares the isolated processor, no limits.
            ("proc/consoles", "ttyS0 -W- (EC p a) 4:64\n"),
            ("proc/sys/kernel/printk", "1 4 1 7"),
            ("proc/sys/kernel/nmi_watchdog", "0"),
            ("proc/sys/kernel/watchdog", "1"),
            ("proc/sys/kernel/soft_watchdog", "1"),
            ("proc/sys/kernel/watchdog_cpumask", "0-2"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never",
            ),
            ("proc/thread-self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/cpu.max", "max 100000"),
            ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-3"),
            ("proc/sys/net/core/netdev_max_backlog", "1000"),
            ("proc/sys/net/core/rmem_default", "212992"),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "tsc",
            ),
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/system/cpu/isolated", "3"),
            ("sys/devices/system/cpu/nohz_full", "3"),
            ("sys/devices/system/cpu/smt/active", "0"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2"),
        ] {
            machine.write(path, text);
        }
        for cpu in 0..4 {
            machine.write(
                &format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
                "performance",
            );
        }
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn facts(&self) -> Facts {
        let files = Files::below(self.0.path());
        Facts {
            processes: facts::processes(&files),
            kinds: facts::KINDS.into_iter().map(|kind| (kind, true)).collect(),
            interface: None,
            filter_tables: None,
            core: facts::core(&files),
            applied: false,
            files,
            umans: Vec::new(),
        }
    }

    fn examine(&self) -> Examination {
        examine(&self.facts())
    }
}

fn ids(examination: &Examination) -> Vec<&str> {
    let findings = examination.findings.iter();
    let bad = findings.filter(|finding| finding.endangers());
    bad.map(|finding| finding.id.as_str()).collect()
}

#[test]
fn nothing_is_found_on_a_machine_without_faults() {
    let examination = Machine::ideal().examine();
    assert_eq!(ids(&examination), Vec::<&str>::new(), "{examination:#?}");
    assert!(examination.ready);
}

#[test]
fn each_planted_fault_is_found_and_only_it() {
    let cpu = "sys/devices/system/cpu";
    let planted: [(&str, &[(&str, &str)]); 22] = [
        (
            "kernel.preemption",
            &[
                ("sys/kernel/realtime", "0"),
                ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC"),
            ],
        ),
        (
            "kernel.rt_throttling",
            &[("proc/sys/kernel/sched_rt_runtime_us", "950000")],
        ),
        (
            "kernel.clock_source",
            &[(
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "hpet",
            )],
        ),
        (
            "processors.governor",
            &[(
                "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
                "powersave",
            )],
        ),
        (
            "processors.idle_states",
            &[
                ("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C6"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "133"),
            ],
        ),
        (
            "limits.capabilities",
            // All but CAP_NET_RAW.
            &[("proc/thread-self/status", "CapEff:\t000001ffffffdfff\n")],
        ),
        (
            "limits.rivals",
            &[
                ("proc/77/comm", "hog"),
                (
                    "proc/77/task/77/stat",
                    "77 (a (b) hog) R 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 95 1 0 0",
                ),
            ],
        ),
        ("interrupts.balancer", &[("proc/78/comm", "irqbalance")]),
        (
            "limits.locked_memory",
            &[
                // All but CAP_IPC_LOCK.
                ("proc/thread-self/status", "CapEff:\t000001ffffffbfff\n"),
                (
                    "proc/thread-self/limits",
                    "Max locked memory  65536  65536  bytes\n",
                ),
            ],
        ),
        (
            "limits.real_time_priority",
            &[
                // All but CAP_SYS_NICE.
                ("proc/thread-self/status", "CapEff:\t000001ffff7fffff\n"),
                ("proc/thread-self/limits", "Max realtime priority  0  0  \n"),
            ],
        ),
        (
            "kernel.tracing",
            &[("sys/kernel/tracing/current_tracer", "function")],
        ),
        (
            "kernel.tracing",
            &[("sys/kernel/tracing/events/enable", "X")],
        ),
        (
            "kernel.serial_console",
            &[
                (
                    "proc/consoles",
                    "tty0 -WU (EC p ) 4:1\nttyS1 -W- (E p a) 4:65\n",
                ),
                ("proc/sys/kernel/printk", "7 4 1 7"),
            ],
        ),
        (
            "kernel.watchdog",
            &[
                ("proc/sys/kernel/watchdog", "1"),
                ("proc/sys/kernel/soft_watchdog", "1"),
                ("proc/sys/kernel/watchdog_cpumask", "0-3"),
            ],
        ),
        (
            "kernel.huge_pages",
            &[(
                "sys/kernel/mm/transparent_hugepage/enabled",
                "[always] madvise never",
            )],
        ),
        (
            "processors.quota",
            &[
                ("proc/thread-self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/b/cpu.max", "max 100000"),
                ("sys/fs/cgroup/a/cpu.max", "50000 100000"),
            ],
        ),
        (
            "processors.quota",
            &[
                (
                    "proc/thread-self/cgroup",
                    "3:cpuset:/\n2:cpu,cpuacct:/c\n0::/\n",
                ),
                ("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000"),
                ("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000"),
            ],
        ),
        (
            "processors.cpuset",
            &[
                ("proc/thread-self/cgroup", "0::/a\n"),
                ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-2"),
            ],
        ),
        (
            "processors.affinity",
            &[(
                "proc/thread-self/status",
                "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t1-2\n",
            )],
        ),
        (
            "limits.backlog",
            &[("proc/sys/net/core/netdev_max_backlog", "100")],
        ),
        (
            "limits.socket_buffers",
            &[("proc/sys/net/core/rmem_default", "4608")],
        ),
        (
            "clocks.rivals",
            &[("proc/79/comm", "ptp4l"), ("proc/80/comm", "chronyd")],
        ),
    ];
    for (id, files) in planted {
        let machine = Machine::ideal();
        for (path, text) in files {
            machine.write(path, text);
        }
        let examination = machine.examine();
        let found = ids(&examination);
        assert!(found.contains(&id), "{id} is not in {found:?}");
        let others: Vec<&str> = found
            .into_iter()
            .filter(|other| *other != id && *other != "limits.capabilities")
            .collect();
        assert!(others.is_empty(), "{id}: also found {others:?}");
        assert!(!examination.ready);
    }
    // A process that holds the machine awake takes the idle states' sting.
    let machine = Machine::ideal();
    machine.write(&format!("{cpu}/cpu0/cpuidle/state2/latency"), "133");
    machine.write("dev/cpu_dma_latency", "\0\0\0\0");
    assert_eq!(ids(&machine.examine()), Vec::<&str>::new());
}

#[test]
fn interrupts_on_isolated_processors_are_found_and_the_remedy_moves_them() {
    let machine = Machine::ideal();
    machine.write(
        "proc/interrupts",
        "  CPU0\n 41:  5  IR-PCI-MSI eth7-rx-0\n 42: 5 IR-PCI-MSI eth77\n",
    );
    machine.write("proc/irq/41/smp_affinity_list", "0-3");
    machine.write("proc/irq/41/effective_affinity_list", "3");
    let mut facts = machine.facts();
    let mut interface = InterfaceFacts::default();
    interface.link.name = "eth7".to_owned();
    interface.link.flags = 0x81;
    interface.link.mtu = 1500;
    interface.link.carrier = true;
    facts.interface = Some(interface);
    let examination = examine(&facts);
    assert_eq!(ids(&examination), ["interrupts.placement"]);
    let finding = examination.findings.iter().find(|one| one.endangers());
    let remedy = finding.and_then(|one| one.remedy.as_ref()).unwrap();
    assert_eq!(
        remedy.command,
        "echo 0,1,2 > /proc/irq/41/smp_affinity_list"
    );
}

#[test]
fn every_finding_that_endangers_says_what_to_do() {
    let machine = Machine::ideal();
    machine.write("sys/kernel/realtime", "0");
    machine.write("proc/sys/kernel/version", "#1 SMP");
    machine.write("proc/sys/kernel/sched_rt_runtime_us", "950000");
    machine.write("proc/78/comm", "irqbalance");
    for finding in machine.examine().findings {
        if finding.endangers() {
            let remedy = finding.remedy.as_ref();
            assert!(
                remedy.is_some_and(|remedy| !remedy.command.is_empty()),
                "{finding:?}"
            );
            assert!(!finding.why.is_empty() && !finding.found.is_empty());
        }
    }
}

#[test]
fn the_committed_schema_is_that_of_the_code() {
    let committed = include_str!("../../../../schema/doctor.schema.json");
    let committed: serde_json::Value = serde_json::from_str(committed).unwrap();
    assert_eq!(committed, json_schema(), "run `make generate`");
}

/// The page names every fact that the code can find, and no other.
#[test]
fn the_page_has_every_fact() {
    const PAGE: &str = include_str!("../../../../docs/host.md");
    const SOURCES: [&str; 18] = [
        include_str!("clock.rs"),
        include_str!("cpu.rs"),
        include_str!("driver.rs"),
        include_str!("groups.rs"),
        include_str!("interface.rs"),
        include_str!("interrupts.rs"),
        include_str!("kernel.rs"),
        include_str!("limits.rs"),
        include_str!("measurement.rs"),
        include_str!("mod.rs"),
        include_str!("module.rs"),
        include_str!("native.rs"),
        include_str!("neighbour.rs"),
        include_str!("noise.rs"),
        include_str!("queues.rs"),
        include_str!("stamps.rs"),
        include_str!("steering.rs"),
        include_str!("talkers.rs"),
    ];
    let facts = |text: &str, quote: char| -> std::collections::BTreeSet<String> {
        let parts = text.split(quote).filter(|part| is_fact(part));
        // What follows is a kind or a program, known only at run time.
        parts
            .map(|part| part.split(['{', '…']).next().unwrap().to_owned())
            .collect()
    };
    let known = SOURCES
        .iter()
        .flat_map(|source| facts(source, '"'))
        .collect();
    assert_eq!(facts(PAGE, '`'), known);
    // The scan itself sees something.
    assert!(known.len() > 40, "{known:?}");
}

fn is_fact(part: &str) -> bool {
    const AREAS: [&str; 10] = [
        "kernel",
        "processors",
        "limits",
        "interrupts",
        "interface",
        "driver",
        "queues",
        "talkers",
        "clocks",
        "measured",
    ];
    let Some((area, name)) = part.split_once('.') else {
        return false;
    };
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_{}…".contains(c);
    AREAS.contains(&area) && !name.is_empty() && name.chars().all(fits)
}

#[test]
fn filters_of_flows_are_told_where_a_card_has_several_queues() {
    use crate::netlink::{Offloads, Parameters};
    let filter = "rx-ntuple-filter".to_owned();
    let told = |queues: u64, active: &[&String], fixed: &[&String]| {
        let set = |names: &[&String]| names.iter().map(|&name| name.clone()).collect();
        let facts = Facts {
            interface: Some(InterfaceFacts {
                offloads: Offloads {
                    active: set(active),
                    fixed: set(fixed),
                },
                parameters: [(Parameters::Channels, [("combined", queues)].into())].into(),
                ..InterfaceFacts::default()
            }),
            ..Machine::ideal().facts()
        };
        steering::by_filter(&facts).pop()
    };
    assert_eq!(told(1, &[], &[]), None);
    let found = told(2, &[&filter], &[]).unwrap();
    assert_eq!(found.level, Level::Good);
    assert!(found.found.starts_with("2 receive queues"), "{found:?}");
    let found = told(2, &[], &[]).unwrap();
    assert!(found.level == Level::Note && found.remedy.is_some());
    let found = told(2, &[], &[&filter]).unwrap();
    assert!(found.found.ends_with("missing in this driver"), "{found:?}");
    assert_eq!(found.remedy, None);
}

#[test]
fn launch_times_are_there_where_the_driver_says_so() {
    let of = |socket| {
        let abilities = crate::netlink::XdpAbilities {
            socket,
            ..crate::netlink::XdpAbilities::default()
        };
        driver::launch_time_of(Some(abilities)).1
    };
    assert_eq!(driver::launch_time_of(None).1, Level::Unknown);
    for others in [0, 1, 2, 3, 8] {
        assert_eq!(of(others), Level::Note);
        assert_eq!(of(others | 4), Level::Good);
    }
}

#[test]
fn the_module_uman_is_told_with_its_version_and_its_device() {
    use crate::netlink::{LinkFacts, UmanLink, UmanMode, UmanQueue};
    let machine = Machine::ideal();
    let facts = |umans: Vec<UmanLink>| Facts {
        interface: Some(InterfaceFacts {
            link: LinkFacts {
                name: "eth0".to_owned(),
                index: 4,
                ..LinkFacts::default()
            },
            ..InterfaceFacts::default()
        }),
        umans,
        ..machine.facts()
    };
    let told = |umans: Vec<UmanLink>| {
        let found = module::uman(&facts(umans)).remove(0);
        let remedy = found.remedy.map(|remedy| remedy.command);
        (found.level, found.found, remedy.unwrap_or_default())
    };
    let device = |index, lower| UmanLink {
        name: "uman0".to_owned(),
        index,
        lower,
        mode: Some(UmanMode::Direct),
        ethertypes: vec![0x88ab],
        queue: UmanQueue::Own,
    };
    let (level, found, _) = told(Vec::new());
    assert_eq!(level, Level::Note);
    assert!(found.contains("not loaded"), "{found}");
    machine.write("sys/module/uman/parameters/abi", "9\n");
    let (level, found, _) = told(Vec::new());
    assert_eq!(level, Level::Weak);
    assert!(
        found.contains("version 9") && found.contains("version 1"),
        "{found}"
    );
    machine.write("sys/module/uman/parameters/abi", "1\n");
    let (level, found, remedy) = told(vec![device(9, 5)]);
    assert_eq!(level, Level::Note);
    assert!(found.contains("no device above `eth0`"), "{found}");
    assert!(
        remedy.contains("rtwire uman add uman0 --link eth0"),
        "{remedy}"
    );
    let (level, found, remedy) = told(vec![device(9, 4)]);
    assert_eq!((level, remedy.as_str()), (Level::Good, ""));
    assert!(
        found.ends_with("`uman0` is its device above `eth0`, mode direct"),
        "{found}"
    );
    assert!(
        told(vec![device(4, 2)])
            .1
            .contains("`eth0` is its device, mode")
    );
    machine.write("sys/class/net/uman0/flags", "0x1002\n");
    let (level, _, remedy) = told(vec![device(9, 4)]);
    assert_eq!(level, Level::Weak);
    assert!(remedy.contains("ip link set uman0 up"), "{remedy}");
}
