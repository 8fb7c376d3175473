//! `rtwire ping`: questions to a responder, and the account of each.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use rtwire_link::program::{FIRST_ASKING_PORT, MAXIMUM_REPLY_OCTETS, ReceiveProgram};
use rtwire_link::responder::port_filter;
use rtwire_link::{
    Cycle, CycleConfig, LinkError, Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp,
};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::{interface, memory, sched, signal};
use rtwire_wire::rtdip::{Header, Semantics};
use rtwire_wire::{EtherType, MINIMUM_FRAME_OCTETS, MacAddress, Pcp, ethernet};

use crate::arguments::{nanoseconds, parse_duration_or_none};
use crate::ping_account::{Account, Counts, WINDOW};
use crate::ping_report::{self, PingReport};
use crate::ping_stalls::{self, Explainer, Found, Late};
use crate::respond_command::DEFAULT_PORT;
use crate::{interrupted, output};

/// The arguments of `rtwire ping`.
#[derive(Args)]
pub(crate) struct PingArguments {
    /// The interface to ask from
    interface: String,
    /// The responder's address, as in 02:00:00:00:00:0a
    mac: MacAddress,
    /// The responder's RTDiP port
    #[arg(long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// The channel key
    #[arg(long, default_value_t = 0)]
    key: u32,
    /// The number of questions; without it, until stopped
    #[arg(long)]
    count: Option<u64>,
    /// The time from one question to the next; `0s` sends each as soon as the one before is answered or given up
    #[arg(long, default_value = "1ms", value_parser = parse_duration_or_none)]
    interval: Duration,
    /// Count round trips longer than this, for example `74.4us`, and compare them with stalls of this machine: of the core
    /// that asks, recorded meanwhile
    #[arg(long, value_parser = parse_duration_or_none)]
    deadline: Option<Duration>,
    /// Record no stalls: a recording thread wakes 10 000 times a second on each core
    #[arg(long, conflicts_with = "also_cpu")]
    no_noise: bool,
    /// Further cores of this machine that each frame passes, for example of the interface's interrupts, or of a responder
    /// here: their stalls count too
    #[arg(
        long,
        value_name = "CORE",
        value_delimiter = ',',
        requires = "deadline"
    )]
    also_cpu: Vec<u32>,
    /// The time after which a question is given up
    #[arg(long, default_value = "1s", value_parser = parse_duration_or_none)]
    timeout: Duration,
    /// The bytes of user data in a question
    #[arg(long, default_value_t = 64, value_name = "OCTETS")]
    size: usize,
    /// Pad questions so that an answer of this number of bytes fits the same frame; some drivers let no frame grow
    #[arg(long, default_value_t = 0, value_name = "OCTETS")]
    room: usize,
    /// Spin for the answer instead of sleeping
    #[arg(long)]
    spin: bool,
    /// Run as SCHED_FIFO of this priority, 1 to 99
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    realtime: Option<u8>,
    /// Run on this core only
    #[arg(long)]
    cpu: Option<usize>,
    /// Print reports as JSON
    #[arg(long)]
    json: bool,
}

/// A number was lost or late, or a round trip over the deadline is not explained.
const BROKEN: u8 = 1;
/// Stalls of this machine explain what was over the deadline, or they cannot be told.
const INCONCLUSIVE: u8 = 4;

type Failure = (u8, String);

/// Runs `rtwire ping`. Returns exit code 1 if a number was lost or late, or a round trip took longer than the deadline.
/// Returns 4 if stalls explain all of those, if their record was full, or if the run was interrupted.
pub(crate) fn run(arguments: &PingArguments) -> ExitCode {
    match ping(arguments) {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}

struct Pinger<'a> {
    arguments: &'a PingArguments,
    sender: Sender,
    receiver: Receiver,
    frame: Vec<u8>,
    /// The header of a question; number and time differ.
    header: Header,
    account: Account,
    /// Compares late answers with the machine's stalls.
    stalls: Option<Explainer>,
    /// Questions that the interface's own queue dropped: they count as lost.
    queue_full: u64,
    /// Cycles skipped because their time had passed: no question has their number.
    skipped: u64,
    stop: &'static AtomicBool,
    report: &'static AtomicBool,
    /// Lets a veth receive answers from its peer's driver.
    _program: Option<ReceiveProgram>,
}

fn ping(arguments: &PingArguments) -> Result<u8, Failure> {
    for (name, octets) in [("--size", arguments.size), ("--room", arguments.room)] {
        if octets > MAXIMUM_REPLY_OCTETS {
            return Err((
                2,
                format!("{name} {octets}: at most {MAXIMUM_REPLY_OCTETS} bytes fit a frame"),
            ));
        }
    }
    let window = arguments.interval.saturating_mul(WINDOW as u32);
    if !arguments.interval.is_zero() && window <= arguments.timeout {
        return Err((
            2,
            format!(
                "--timeout is too long for this --interval: at most {WINDOW} questions can wait at a time"
            ),
        ));
    }
    let mut pinger = open(arguments)?;
    if let Some(cpu) = arguments.cpu {
        sched::set_cpu(cpu).map_err(|error| (3, error.to_string()))?;
    }
    if let Some(priority) = arguments.realtime {
        memory::lock_all()
            .and_then(|()| sched::set_fifo(priority))
            .map_err(|error| (3, error.to_string()))?;
        memory::touch_stack();
    }
    let ended = pinger.go();
    if let Some(stalls) = &mut pinger.stalls {
        stalls.finish();
    }
    pinger.print();
    ended.map_err(|error| (3, error.to_string()))?;
    let counts = pinger.account.counts();
    let found = pinger.stalls.as_ref().map(Explainer::found);
    let own = judged(&counts, found.as_ref());
    if !pinger.was_interrupted() {
        return Ok(own);
    }
    let done = match arguments.count {
        Some(count) => format!("{} of {count} questions", counts.sent),
        None => format!("{} questions", counts.sent),
    };
    interrupted::say(&done);
    Ok(interrupted::code(own, arguments.count.is_some()))
}

/// Returns the exit code of an account. Says why it is inconclusive, where it is.
fn judged(counts: &Counts, found: Option<&Found>) -> u8 {
    if counts.lost + counts.late > 0 {
        return BROKEN;
    }
    if counts.over_deadline == 0 {
        return 0;
    }
    let Some(found) = found else {
        return BROKEN;
    };
    let full = found.full();
    if !full.is_empty() {
        eprintln!("{}", ping_report::full(&full));
        return INCONCLUSIVE;
    }
    if found.unexplained() > 0 {
        return BROKEN;
    }
    eprintln!(
        "inconclusive: every round trip over the deadline lies in a recorded stall of a core that it passed"
    );
    INCONCLUSIVE
}

fn open(arguments: &PingArguments) -> Result<Pinger<'_>, Failure> {
    let system = |error: rtwire_sys::Error| (3, error.to_string());
    let link = |error: LinkError| (3, error.to_string());
    let stop = signal::install_stop_flag().map_err(system)?;
    let report = signal::install_report_flag().map_err(system)?;
    let own_port = FIRST_ASKING_PORT + (std::process::id() % 16_384) as u16;
    let program = prepare_veth(&arguments.interface).map_err(system)?;
    let receiver = Receiver::frames(
        &ReceiverConfig {
            interface: arguments.interface.clone(),
            // Both read arrivals from a ring without a call; the second waits by a high-resolution timer.
            wake_up: if arguments.spin {
                WakeUp::Spin
            } else {
                WakeUp::SpinThenBlock(Duration::ZERO)
            },
            queue_frames: 1024,
            stamps: false,
            one_by_one: false,
        },
        EtherType::RTDIP.0,
        &port_filter(own_port).map_err(system)?,
    )
    .map_err(link)?;
    let sender = Sender::frames(&SenderConfig {
        path: TxPath::Direct,
        ..SenderConfig::new(arguments.interface.as_str())
    })
    .map_err(link)?;
    let header = Header {
        semantics: Semantics::Queue,
        priority: Pcp::HIGHEST,
        destination_port: arguments.port,
        source_port: own_port,
        sequence: 0,
        key: arguments.key,
        time_ns: Some(0),
    };
    let ethernet = ethernet::Header {
        destination: arguments.mac,
        source: MacAddress(sender.interface().mac),
        vlan: None,
        ether_type: EtherType::RTDIP,
    };
    let mut frame = vec![
        0;
        (ethernet.octets() + header.octets() + arguments.size.max(arguments.room))
            .max(MINIMUM_FRAME_OCTETS)
    ];
    let room = ethernet
        .emit(&mut frame)
        .map_err(|error| (2, error.to_string()))?;
    header
        .emit(&vec![0x52; arguments.size], &mut frame[room..])
        .map_err(|error| (2, error.to_string()))?;
    let timeout_ns = nanoseconds(arguments.timeout);
    Ok(Pinger {
        arguments,
        sender,
        receiver,
        frame,
        header,
        account: Account::new(timeout_ns, arguments.deadline.map(nanoseconds)),
        stalls: explainer(arguments),
        queue_full: 0,
        skipped: 0,
        stop,
        report,
        _program: program,
    })
}

/// Records stalls if there is a deadline. Without the privilege, late answers stay unexplained, which is reported once.
fn explainer(arguments: &PingArguments) -> Option<Explainer> {
    let deadline = arguments.deadline.filter(|_| !arguments.no_noise)?;
    let deadline_ns = nanoseconds(deadline);
    let also = arguments.also_cpu.clone();
    // A question of a pinned process passes no other core of it.
    let cores = match arguments.cpu.map(u32::try_from) {
        Some(Ok(cpu)) => [&[cpu], also.as_slice()].concat(),
        _ => allowed_cores(&also)?,
    };
    match Explainer::start(ping_stalls::options(deadline_ns, cores), deadline_ns, also) {
        Ok(explainer) => Some(explainer),
        Err(error) => {
            eprintln!("note: this machine's stalls are not recorded: {error}");
            None
        }
    }
}

/// Returns the cores that this process may run on, and these.
fn allowed_cores(also: &[u32]) -> Option<Vec<u32>> {
    let allowed = sched::affinity().ok()?;
    let allowed = allowed
        .into_iter()
        .filter_map(|core| u32::try_from(core).ok());
    let mut cores: Vec<u32> = allowed.chain(also.iter().copied()).collect();
    cores.sort_unstable();
    cores.dedup();
    Some(cores)
}

/// Attaches an XDP program to a veth: only then does it receive frames that its peer's driver sends (`XDP_TX`).
fn prepare_veth(name: &str) -> rtwire_sys::Result<Option<ReceiveProgram>> {
    if interface::driver(name)?.as_deref() != Some("veth") {
        return Ok(None);
    }
    match ReceiveProgram::attach(name) {
        Ok(program) => Ok(Some(program)),
        // A foreign program serves as well.
        Err(error) if error.is_in_use() => Ok(None),
        Err(error) => {
            eprintln!(
                "note: a responder in native XDP mode at the other end of this veth cannot reach us: {error}"
            );
            Ok(None)
        }
    }
}

/// Returns the core that this thread runs on.
fn this_core() -> u32 {
    // The kernel has far fewer cores than that.
    sched::cpu() as u32
}

fn now_ns() -> u64 {
    clock::now_ns(Clock::Monotonic)
}

impl Pinger<'_> {
    fn go(&mut self) -> Result<(), LinkError> {
        let interval_ns = nanoseconds(self.arguments.interval);
        let mut cycle = (interval_ns > 0).then(|| {
            Cycle::new(CycleConfig {
                clock: Clock::Monotonic,
                period_ns: interval_ns,
                epoch_ns: now_ns(),
                spin_ns: 0,
            })
        });
        while !self.is_over() {
            if let Some(cycle) = &mut cycle {
                self.receive_until(cycle.next_instant_ns(), false)?;
                if self.is_over() {
                    break;
                }
                self.skipped += cycle.wait()?.skipped;
            }
            self.ask()?;
            if cycle.is_none() {
                self.receive_until(now_ns() + nanoseconds(self.arguments.timeout), true)?;
            }
        }
        // Answers on their way may still arrive.
        self.receive_until(now_ns() + nanoseconds(self.arguments.timeout), true)?;
        self.account.expire(u64::MAX);
        Ok(())
    }

    fn is_over(&self) -> bool {
        let all = self
            .arguments
            .count
            .is_some_and(|count| self.account.next() >= count);
        all || self.stop.load(Ordering::Relaxed) || output::is_lost()
    }

    /// Returns true if Ctrl-C or SIGTERM ended it before its count.
    fn was_interrupted(&self) -> bool {
        let all = (self.arguments.count).is_some_and(|count| self.account.next() >= count);
        !all && self.stop.load(Ordering::Relaxed)
    }

    fn ask(&mut self) -> Result<(), LinkError> {
        self.header.sequence = self.account.next() as u32;
        self.header.time_ns = Some(clock::now_ns(Clock::Tai));
        let header = &mut self.frame[ethernet::HEADER_OCTETS..];
        header[8..12].copy_from_slice(&self.header.sequence.to_be_bytes());
        header[16..24].copy_from_slice(&self.header.time_ns.unwrap_or(0).to_be_bytes());
        self.account.sent(now_ns(), this_core());
        let sent = self.sender.send(&self.frame);
        self.account.handed_over(now_ns());
        match sent {
            Ok(_) => Ok(()),
            Err(LinkError::QueueFull) => {
                self.queue_full += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Receives answers until a moment, or (`all`) until no answer is expected any more.
    fn receive_until(&mut self, end_ns: u64, all: bool) -> Result<(), LinkError> {
        const SLICE: Duration = Duration::from_millis(100);
        loop {
            if self.report.swap(false, Ordering::Relaxed) {
                self.print();
            }
            let now = now_ns();
            self.account.expire(now);
            let done = all && self.account.counts().waiting == 0;
            if now >= end_ns || done || (!all && self.stop.load(Ordering::Relaxed)) {
                return Ok(());
            }
            let left = Duration::from_nanos(end_ns - now).min(SLICE);
            if self.receiver.wait(Some(left))? {
                self.take();
            }
        }
    }

    /// Notes the oldest answer that has arrived.
    fn take(&mut self) {
        let now = now_ns();
        if let Some(frame) = self.receiver.peek() {
            let answer = ethernet::Frame::new(frame.data)
                .ok()
                .filter(|frame| {
                    frame.source() == self.arguments.mac || self.arguments.mac.is_group()
                })
                .and_then(|frame| Header::parse(frame.payload()).ok());
            if let Some((header, _)) = answer {
                if header.source_port == self.arguments.port && header.key == self.arguments.key {
                    let late = self.account.answered(header.sequence, now);
                    if let (Some(late), Some(stalls)) = (late, &self.stalls) {
                        let to_tai = clock::now_ns(Clock::Tai).wrapping_sub(now_ns());
                        stalls.note(Late {
                            number: late.number,
                            sent_ns: late.sent_ns.wrapping_add(to_tai),
                            answered_ns: now.wrapping_add(to_tai),
                            cores: [late.core, this_core()],
                            call: late.call,
                        });
                    }
                }
            }
        }
        self.receiver.release();
    }

    fn print(&self) {
        let found = self.stalls.as_ref().map(Explainer::found);
        let report = PingReport {
            interface: &self.arguments.interface,
            responder: self.arguments.mac.to_string(),
            port: self.arguments.port,
            octets: self.arguments.size,
            counts: self.account.counts(),
            queue_full: self.queue_full,
            cycles_skipped: self.skipped,
            deadline_ns: self.arguments.deadline.map(nanoseconds),
            found: found.as_ref(),
            round_trips: self.account.round_trips(),
            interrupted: self.was_interrupted(),
        };
        if self.arguments.json {
            output::line(&report.json().to_string());
        } else {
            output::print(&report.text());
        }
    }
}
