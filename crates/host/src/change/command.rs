//! Settings in words, and as the commands that a person would type.

use super::addresses::Kept;
use super::queues;
use super::setting::{Change, Subject, Value, Wanted};
use crate::napi::ReceiveThread;

impl Subject {
    /// Returns the subject in words.
    #[must_use]
    pub fn show(&self) -> String {
        match self {
            Self::Setting { path } => path.clone(),
            Self::Up { interface } => format!("{interface}: up"),
            Self::Arp { interface } => format!("{interface}: ARP"),
            Self::Mtu { interface } => format!("{interface}: MTU"),
            Self::MtuAndIpv6 { interface } => format!("{interface}: MTU and IPv6"),
            Self::Segments { interface } => format!("{interface}: frames handed over as one"),
            Self::Offload { interface, feature } => format!("{interface}: offload {feature}"),
            Self::Parameter {
                interface, name, ..
            } => format!("{interface}: {name}"),
            Self::Addresses { interface } => format!("{interface}: addresses and routes"),
            Self::Vlan { interface, name } => format!("{interface}: VLAN link {name}"),
            Self::Queues { interface } => format!("{interface}: queues"),
            Self::Receive { interface } => format!("{interface}: receive work"),
            Self::Namespace { name } => format!("network namespace {name}"),
            Self::Place { interface, .. } => format!("{interface}: network namespace"),
            Self::Inside { namespace, inside } => format!("{namespace}: {}", inside.show()),
            Self::Thread { tid, name } => format!("thread {tid} ({name}): scheduling"),
        }
    }
}

impl Value {
    /// Returns the value in words.
    #[must_use]
    pub fn show(&self) -> String {
        match self {
            Self::Absent => "not there".to_owned(),
            Self::Threads(threads) if threads.is_empty() => "soft interrupt".to_owned(),
            Self::Threads(threads) => {
                let threads: Vec<String> = threads.iter().map(thread).collect();
                format!("threads of {}", threads.join("; "))
            }
            Self::Here(_) => "this one".to_owned(),
            Self::There(namespace) => namespace.clone(),
            Self::Flag(true) => "on".to_owned(),
            Self::Flag(false) => "off".to_owned(),
            Self::Number(number) => number.to_string(),
            Self::Frames { mtu, ipv6: None } => format!("{mtu} without IPv6"),
            Self::Frames {
                mtu,
                ipv6: Some(ipv6),
            } if ipv6.kept.shown().is_empty() => format!("{mtu} with IPv6"),
            Self::Frames {
                mtu,
                ipv6: Some(ipv6),
            } => format!("{mtu} with IPv6, {}", ipv6.kept.shown().join(", ")),
            Self::Text(text) => text.clone(),
            Self::Addresses(kept) if kept.shown().is_empty() => "none".to_owned(),
            Self::Addresses(kept) => kept.shown().join(", "),
            Self::Vlan { id, egress } => format!("id {id}, priorities {}", pairs(egress)),
            Self::Queues(tree) if tree.queues.is_empty() => "the kernel's own".to_owned(),
            Self::Queues(tree) => queues::show(tree),
            Self::Fifo(priority) => format!("SCHED_FIFO {priority}"),
            Self::Nice(nice) => format!("time sharing, nice {nice}"),
        }
    }
}

fn thread(one: &ReceiveThread) -> String {
    let how = match one.fifo {
        0 => format!("time sharing, nice {}", one.nice),
        priority => format!("SCHED_FIFO {priority}"),
    };
    if one.cpus.is_empty() {
        return how;
    }
    let cpus: Vec<String> = one.cpus.iter().map(usize::to_string).collect();
    format!("{how} on {}", cpus.join(","))
}

/// Returns the lines that assign receive work to threads. The threads' numbers are known only when the lines run.
fn receive(interface: &str, threads: &[ReceiveThread]) -> String {
    let path = format!("/sys/class/net/{interface}/threaded");
    let Some(one) = threads.first() else {
        return format!("echo 0 > {path}");
    };
    let mut text = format!("echo 1 > {path}\nfor thread in $(pgrep '^napi/{interface}-'); do");
    if !one.cpus.is_empty() {
        let cpus: Vec<String> = one.cpus.iter().map(usize::to_string).collect();
        text += &format!(" taskset -pc {} $thread;", cpus.join(","));
    }
    text += &match one.fifo {
        0 => format!(
            " chrt --other --pid 0 $thread; renice -n {} -p $thread;",
            one.nice
        ),
        priority => format!(" chrt --fifo --pid {priority} $thread;"),
    };
    text + " done"
}

/// Returns the same lines for a namespace.
fn within(namespace: &str, lines: &str) -> String {
    let plain = |line: &str| !line.contains(['>', ';', '$', '#']);
    if lines.lines().all(plain) {
        let lines = lines
            .lines()
            .map(|line| format!("ip netns exec {namespace} {line}"));
        return lines.collect::<Vec<_>>().join("\n");
    }
    let quoted = lines.replace('\'', "'\\''");
    format!("ip netns exec {namespace} sh -ec '{quoted}'")
}

fn pairs(egress: &std::collections::BTreeMap<u32, u8>) -> String {
    let pairs: Vec<String> = egress
        .iter()
        .map(|(from, to)| format!("{from}:{to}"))
        .collect();
    pairs.join(" ")
}

/// Returns a command for each address, and a line in words for each route and neighbour.
fn kept(interface: &str, kept: &Kept) -> Vec<String> {
    let addresses = kept.addresses.iter();
    let addresses = addresses.map(|item| format!("ip address add {} dev {interface}", item.shown));
    let others = kept.routes.iter().chain(&kept.neighbours);
    let others = others.map(|item| format!("# {} (dev {interface})", item.shown));
    addresses.chain(others).collect()
}

const fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl Wanted {
    /// Returns the command with the same effect, on several lines where it takes several.
    #[must_use]
    pub fn command(&self) -> String {
        match (&self.subject, &self.to) {
            (Subject::Setting { path }, Value::Text(text)) => match path.strip_prefix("/proc/sys/")
            {
                // sysctl(8) writes a dot within a name (a VLAN link's) as a slash.
                Some(key) if !key.contains('.') => {
                    format!("sysctl -w {}={text}", key.replace('/', "."))
                }
                _ => format!("echo {text} > {path}"),
            },
            (Subject::Up { interface }, Value::Flag(up)) => {
                format!(
                    "ip link set {interface} {}",
                    if *up { "up" } else { "down" }
                )
            }
            (Subject::Arp { interface }, Value::Flag(arp)) => {
                format!("ip link set {interface} arp {}", on_off(*arp))
            }
            (Subject::Segments { interface }, Value::Number(count)) => {
                format!("ip link set {interface} gso_max_segs {count}")
            }
            (
                Subject::Mtu { interface } | Subject::MtuAndIpv6 { interface },
                Value::Number(mtu) | Value::Frames { mtu, ipv6: None },
            ) => {
                format!("ip link set {interface} mtu {mtu}")
            }
            (
                Subject::MtuAndIpv6 { interface },
                Value::Frames {
                    mtu,
                    ipv6: Some(ipv6),
                },
            ) => {
                let mut lines = vec![format!("ip link set {interface} mtu {mtu}")];
                lines.extend(ipv6.settings.iter().filter_map(|(path, value)| {
                    let (folder, name) = path.split_once('/')?;
                    Some(format!(
                        "echo {value} > /proc/sys/net/ipv6/{folder}/{interface}/{name}"
                    ))
                }));
                lines.extend(kept(interface, &ipv6.kept));
                lines.join("\n")
            }
            (Subject::Offload { interface, feature }, Value::Flag(on)) => {
                format!("ethtool -K {interface} {feature} {}", on_off(*on))
            }
            (
                Subject::Parameter {
                    interface,
                    group,
                    name,
                },
                Value::Number(value),
            ) => {
                let value = if group.is_switch(name) {
                    on_off(*value != 0).to_owned()
                } else {
                    value.to_string()
                };
                format!("ethtool {} {interface} {name} {value}", group.option())
            }
            (Subject::Addresses { interface }, Value::Addresses(wanted)) => {
                let lines = kept(interface, wanted);
                if wanted.addresses.is_empty() {
                    let flush = format!("ip address flush dev {interface}");
                    [vec![flush], lines].concat().join("\n")
                } else {
                    lines.join("\n")
                }
            }
            (Subject::Vlan { interface, name }, Value::Vlan { id, egress }) => format!(
                "ip link add link {interface} name {name} type vlan id {id} egress-qos-map {}",
                pairs(egress)
            ),
            (Subject::Vlan { name, .. }, _) => format!("ip link del {name}"),
            (Subject::Queues { interface }, Value::Queues(tree)) => {
                queues::commands(interface, tree)
            }
            (Subject::Receive { interface }, Value::Threads(threads)) => {
                receive(interface, threads)
            }
            (Subject::Namespace { name }, Value::Flag(true)) => format!(
                "ip netns add {name}\nip netns exec {name} sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
            ),
            (Subject::Namespace { name }, _) => format!("ip netns del {name}"),
            (Subject::Place { interface, .. }, Value::There(namespace)) => {
                format!("ip link set {interface} netns {namespace}")
            }
            (
                Subject::Place {
                    interface,
                    namespace,
                },
                Value::Here(_),
            ) => format!("ip netns exec {namespace} ip link set {interface} netns 1"),
            (Subject::Inside { namespace, inside }, to) => {
                let wanted = Self {
                    subject: (**inside).clone(),
                    to: to.clone(),
                };
                within(namespace, &wanted.command())
            }
            (Subject::Thread { tid, .. }, Value::Fifo(priority)) => {
                format!("chrt --fifo --pid {priority} {tid}")
            }
            (Subject::Thread { tid, .. }, Value::Nice(nice)) => {
                format!("chrt --other --pid 0 {tid}; renice -n {nice} -p {tid}")
            }
            (subject, to) => format!("# {}: {}", subject.show(), to.show()),
        }
    }
}

impl Change {
    /// Returns the command with the same effect.
    #[must_use]
    pub fn command(&self) -> String {
        Wanted {
            subject: self.subject.clone(),
            to: self.to.clone(),
        }
        .command()
    }

    /// Returns the change in words: `eth1: ARP: on → off`.
    #[must_use]
    pub fn show(&self) -> String {
        format!(
            "{}: {} → {}",
            self.subject.show(),
            self.from.show(),
            self.to.show()
        )
    }
}
