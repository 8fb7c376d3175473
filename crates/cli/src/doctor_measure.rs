//! `rtwire doctor --measure`: what this host really does, idle and loaded, each beside the host's own noise.
//!
//! ```text
//!   sender, SCHED_FIFO: sleeps to each instant ─► queue ─► cable ─► stamp ─► receiver, SCHED_FIFO
//!             └ wake-up ┘                 └───── transmit ─────┘└── receive ──┘
//! ```
//!
//! The cable is the machine's own, in a namespace that is gone afterwards. If an interface is named, the same is sent
//! there too. The timestamp is then taken where the driver receives the frame, and frames of other stations are the
//! received ones. The frames that are sent are addressed to the interface itself, so that no switch passes them on.

mod ends;
mod load;
mod samples;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use rtwire_host::doctor::{Facts, Measurement, Verification};
use rtwire_host::netlink::{Discipline, Netlink, Queue, Tree, VethEnd};
use rtwire_link::{LaunchMode, Sender, SenderConfig, TxPath};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_sys::clock;
use rtwire_sys::filter::{Filter, Instruction};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{interface, memory, netns};

use ends::{Frames, Received, Sent};
use load::Load;

/// The EtherType for local experiments.
const ETHER_TYPE: u16 = 0x88b5;
const EVERY_ETHER_TYPE: u16 = 3;
const PERIOD_NS: u64 = 1_000_000;
/// The priority of `rtwire run` for its most urgent streams.
const REAL_TIME: u8 = 80;
const PCP: u16 = 6;
const OWN_CABLE: &str = "own cable";
/// The ETF delta of `rtwire apply`, ns.
const ETF_DELTA_NS: u32 = 200_000;

/// The load during the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadArgument {
    /// Measure idle only
    None,
    /// Every processor computes and writes memory
    Processors,
    /// Long frames over a cable of the machine's own, at full speed
    Network,
    /// Both
    All,
}

/// The options of a measurement.
pub(crate) struct MeasureOptions {
    /// The duration of each part.
    pub(crate) duration: Duration,
    pub(crate) load: LoadArgument,
    /// Show the progress.
    pub(crate) progress: bool,
}

/// The results, and the reason if some are missing.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) verified: Vec<Verification>,
    pub(crate) fault: Option<String>,
}

impl Measured {
    fn verify(&mut self, one: Verification) {
        if !self.verified.contains(&one) {
            self.verified.push(one);
        }
    }

    /// Takes the result of one part. Returns whether to continue.
    fn take(&mut self, part: Result<(), String>) -> bool {
        if let Err(fault) = part {
            self.fault = Some(fault);
        }
        self.fault.is_none()
    }
}

/// Measures until all parts are done, one fails, or `stop` is set.
pub(crate) fn measure(options: &MeasureOptions, facts: &Facts, stop: &AtomicBool) -> Measured {
    let mut found = Measured::default();
    found.verify(locked_memory());
    let busy = |processors, network| Load::Busy {
        processors,
        network,
    };
    let loaded = match options.load {
        LoadArgument::None => None,
        LoadArgument::Processors => Some(busy(true, false)),
        LoadArgument::Network => Some(busy(false, true)),
        LoadArgument::All => Some(busy(true, true)),
    };
    let loads: Vec<Load> = std::iter::once(Load::Idle).chain(loaded).collect();
    let etf = facts.kinds.get("etf") == Some(&true);
    let whole = Whole {
        options,
        loads: &loads,
        stop,
    };
    let cable = netns::in_nameless(|| whole.own_cable(&mut found, etf));
    let cable = cable.map_err(|error| {
        format!(
            "--measure needs a network namespace of its own (CAP_SYS_ADMIN; run as root): {error}"
        )
    });
    if !found.take(cable.and_then(|part| part)) {
        return found;
    }
    if let Some(it) = &facts.interface {
        let part = whole.interface(&mut found, &it.link.name);
        found.take(part);
    }
    found
}

/// Asks for locked memory, and checks that it is locked.
fn locked_memory() -> Verification {
    const LOCKED: &str = "locked";
    let asked = memory::lock_all();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let held = line.is_some_and(|line| !line.trim().starts_with("0 "));
    let found = match asked {
        Ok(()) if held => LOCKED.to_owned(),
        Ok(()) => "accepted, but not locked".to_owned(),
        Err(error) => format!("not locked: {error}"),
    };
    Verification::new("memory", "this process", LOCKED, found)
}

/// The parts of a measurement that stay the same.
struct Whole<'a> {
    options: &'a MeasureOptions,
    loads: &'a [Load],
    stop: &'a AtomicBool,
}

/// The cable or interface that frames use, and their queue.
struct Lane<'a> {
    at: &'a str,
    out: &'a str,
    into: &'a str,
    /// The VLAN of the tag. A card accepts no foreign VLAN; priority alone has none.
    vlan: u16,
    to: [u8; 6],
    path: TxPath,
    priority: u32,
}

impl Whole<'_> {
    fn own_cable(&self, found: &mut Measured, etf: bool) -> Result<(), String> {
        const PEER: [u8; 6] = [2, 0, 0, 0, 0, 2];
        let mut netlink = Netlink::new();
        let index = cable(&mut netlink, PEER)?;
        let lane = |path| Lane {
            at: OWN_CABLE,
            out: "rtwm0",
            into: "rtwm1",
            vlan: 1,
            to: PEER,
            path,
            priority: PCP.into(),
        };
        let fifo = Discipline::Pfifo { frames: 1_000 };
        let times = Discipline::Etf {
            delta_ns: ETF_DELTA_NS,
            deadline: false,
            offload: false,
            skip_socket_check: false,
        };
        for &load in self.loads {
            queue(&mut netlink, index, &fifo, found)?;
            self.part(&lane(TxPath::Qdisc), load, found)?;
            if etf {
                queue(&mut netlink, index, &times, found)?;
                self.part(&lane(TxPath::Launch(LaunchMode::Strict)), load, found)?;
            }
        }
        Ok(())
    }

    fn interface(&self, found: &mut Measured, name: &str) -> Result<(), String> {
        let it = interface::by_name(name).map_err(|error| error.to_string())?;
        let lane = |path, priority| Lane {
            at: name,
            out: name,
            into: name,
            vlan: 0,
            to: it.mac,
            path,
            priority,
        };
        let launch = TxPath::Launch(LaunchMode::Strict);
        let keeps_times = (0..8).rev().find(|&priority| {
            let config = SenderConfig {
                path: launch,
                priority,
                ..SenderConfig::new(name)
            };
            Sender::frames(&config).is_ok()
        });
        for &load in self.loads {
            self.part(&lane(TxPath::Qdisc, PCP.into()), load, found)?;
            if let Some(priority) = keeps_times {
                self.part(&lane(launch, priority), load, found)?;
            }
        }
        Ok(())
    }

    /// Measures one part: one lane under one load.
    fn part(&self, lane: &Lane<'_>, load: Load, found: &mut Measured) -> Result<(), String> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let launch = lane.path != TxPath::Qdisc;
        if self.options.progress {
            let times = if launch { ", launch times" } else { "" };
            let (at, seconds) = (lane.at, self.options.duration.as_secs_f64());
            eprintln!("measuring: {at}{times}, {}, {seconds} s", load.words());
        }
        let words = |error: rtwire_sys::Error| error.to_string();
        let out = interface::by_name(lane.out).map_err(words)?;
        let into = interface::by_name(lane.into).map_err(words)?;
        let own = lane.out != lane.into;
        let accept = Filter::new(&[Instruction::Accept]).map_err(words)?;
        // Sockets of one EtherType receive a frame only after the kernel has removed its tag.
        let (receiver, ()) = PacketSocket::receiver(&into, EVERY_ETHER_TYPE, &accept, |socket| {
            const ROOM: usize = 4 << 20;
            socket.set_receive_room(ROOM)?;
            socket.enable_tags()?;
            socket.enable_rx_stamps()
        })
        .map_err(words)?;
        let patience = Some(Duration::from_millis(100));
        let refused = |errno: rtwire_sys::Errno| errno.to_string();
        receiver.set_receive_timeout(patience).map_err(refused)?;
        let config = SenderConfig {
            path: lane.path,
            priority: lane.priority,
            ..SenderConfig::new(lane.out)
        };
        let mut sender = Sender::frames(&config).map_err(|error| error.to_string())?;
        let frames = Frames {
            from: out.mac,
            to: lane.to,
            tag: PCP << 13 | lane.vlan,
            tai_offset_ns: clock::tai_offset_ns().map_err(words)?,
        };
        let count = u64::try_from(self.options.duration.as_nanos()).unwrap_or(u64::MAX);
        let count = (count / PERIOD_NS).max(1);
        // Other stations may send more than this one.
        let room = usize::try_from(count * if own { 1 } else { 20 }).unwrap_or(usize::MAX);
        let noise = NoiseRecorder::start(NoiseOptions {
            allow_fallback: true,
            ..NoiseOptions::default()
        })
        .ok();
        let over = AtomicBool::new(false);
        let delta_ns = sender.launch_queue().map(|queue| queue.delta_ns);
        let (sent, received) = load::under(load, || {
            thread::scope(|scope| {
                let over = &over;
                let receives =
                    scope.spawn(|| ends::receive(&receiver, frames, (room, REAL_TIME), own, over));
                let stop = self.stop;
                let sends = scope.spawn(move || {
                    let how = (count, REAL_TIME);
                    ends::send(&mut sender, frames, how, delta_ns, stop)
                });
                let sent = sends.join();
                // Frames still on their way.
                thread::sleep(Duration::from_millis(50));
                over.store(true, Ordering::Relaxed);
                let lost = |_| "a measuring thread ended early; please report this".to_owned();
                Ok((sent.map_err(lost)?, receives.join().map_err(lost)?))
            })
        })?;
        let noise = noise.and_then(|noise| noise.stop().ok());
        verify(found, lane, &sent, &received);
        let lost = Some(sent.frames.saturating_sub(received.frames) + sent.refused);
        let what = if launch { "launch" } else { "transmit" };
        let noise = noise.as_ref();
        let all = [
            (sent.wake_ups, "wake-up", None),
            (received.transmit, what, lost),
            (received.receive, "receive", None),
        ];
        for (samples, what, lost) in all {
            let place = (what, lane.at, load.words());
            found
                .measurements
                .extend(samples.measurement(place, lost, noise));
        }
        match sent.fault {
            Some(fault) => Err(format!("the measurement ended early: {fault}")),
            None => Ok(()),
        }
    }
}

/// Compares the settings asked of the kernel for threads and frames with those in force.
fn verify(found: &mut Measured, lane: &Lane<'_>, sent: &Sent, received: &Received) {
    let asked = ends::fifo(REAL_TIME);
    for (who, scheduling) in [
        ("the sender's thread", &sent.scheduling),
        ("the receiver's thread", &received.scheduling),
    ] {
        found.verify(Verification::new(
            who,
            lane.at,
            asked.clone(),
            scheduling.clone(),
        ));
    }
    // Frames that their queue dropped as too late show nothing about their priority.
    let dropped = lane.path != TxPath::Qdisc && received.frames == 0;
    if sent.fault.is_some() || sent.frames == 0 || dropped {
        return;
    }
    let where_ = if lane.out == lane.into {
        "priority in the frame at the driver"
    } else {
        "priority in the frame at the cable's other end"
    };
    let asked = format!("PCP {PCP}");
    let others: Vec<String> = (0..8_u16)
        .zip(received.pcp)
        .filter(|(pcp, count)| *count > 0 && *pcp != PCP)
        .map(|(pcp, count)| format!("PCP {pcp} in {count} frames"))
        .collect();
    let seen = if received.frames == 0 {
        "no frame came".to_owned()
    } else if received.untagged > 0 {
        format!("no tag in {} frames", received.untagged)
    } else if others.is_empty() {
        asked.clone()
    } else {
        others.join(", ")
    };
    found.verify(Verification::new(where_, lane.at, asked, seen).of_interface());
}

/// Makes the cable and returns the index of its near end.
fn cable(netlink: &mut Netlink, peer: [u8; 6]) -> Result<u32, String> {
    const NEAR: u32 = 100;
    let home = netns::own().map_err(|error| error.to_string())?;
    let end = |name, ifindex, mac| VethEnd {
        name,
        ifindex,
        mac,
        namespace: &home,
    };
    let near = end("rtwm0", NEAR, [2, 0, 0, 0, 0, 1]);
    let far = end("rtwm1", NEAR + 1, peer);
    let made = netlink.create_veth(near, far).and_then(|()| {
        netlink.set_up_without_arp("rtwm0")?;
        netlink.set_up_without_arp("rtwm1")
    });
    made.map_err(|error| error.to_string())?;
    Ok(NEAR)
}

/// Sets the queue of the cable's near end, and checks that it is in force.
fn queue(
    netlink: &mut Netlink,
    index: u32,
    discipline: &Discipline,
    found: &mut Measured,
) -> Result<(), String> {
    const ROOT: u32 = u32::MAX;
    let asked = Queue {
        handle: 0x1_0000,
        parent: ROOT,
        class: false,
        discipline: discipline.clone(),
        overhead_bytes: 0,
        raw: None,
    };
    let tree = Tree {
        queues: vec![asked],
        ..Tree::default()
    };
    netlink
        .set_tree(index, &tree)
        .map_err(|error| error.to_string())?;
    let there = netlink.tree(index).map_err(|error| error.to_string())?;
    let words = |tree: &Tree| {
        let kinds = tree.queues.iter().map(|queue| queue.discipline.kind());
        kinds.collect::<Vec<_>>().join(", ")
    };
    let (asked, mut there_in_words) = (words(&tree), words(&there));
    if there != tree && asked == there_in_words {
        there_in_words += " with other settings";
    }
    let queue = Verification::new("the queue", OWN_CABLE, asked, there_in_words);
    found.verify(queue.of_interface());
    Ok(())
}
