//! A flood of messages and its receiver in one of three contexts on the task's core.

use super::super::PRIORITY;
use super::CORE;
use super::carriers::{self, PORT, SendOne};
use rtwire_host::napi::{NapiDeferral, NapiPriority, NapiThreads};
use rtwire_link::program::{Attach, NewestSlot, ProgramConfig, ReceiveProgram, XdpMode};
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::sched::thread::Want;
use rtwire_sys::{netns, sched};
use rtwire_testkit::NetnsPair;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Time from one message to the next: 100 000 a second. If they come much faster, the kernel moves the soft
/// interrupt's work to a thread (ksoftirqd). Then it disturbs no task any more and loses nearly everything.
const SPACING_NS: u64 = 10_000;
/// The strongest time-sharing priority, below all real-time classes: this machine has other work to do as well.
pub(super) const LOW: Want = Want::Other(-20);

/// Context of the receive work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// The soft interrupt, on the task's core.
    SoftInterrupt,
    /// A kernel thread on the task's core.
    Thread(Want),
    /// The receiver's own calls; interrupts are deferred for 5 ms.
    Reader,
}

/// Transport of the messages, and their receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    Tcp,
    Udp,
    Packet,
    /// RTDiP with newest-value semantics, received by the receive program.
    Newest,
}

pub(super) const CARRIERS: [(Carrier, &str); 4] = [
    (Carrier::Tcp, "TCP"),
    (Carrier::Udp, "UDP"),
    (Carrier::Packet, "AF_PACKET"),
    (Carrier::Newest, "RTDiP newest"),
];

/// A flood and its receiver; messages are sent only between `start` and `stop`.
pub(super) struct Flood {
    pub(super) name: String,
    pub(super) context: Context,
    pub(super) carrier: Carrier,
    orders: mpsc::Sender<()>,
    done: mpsc::Receiver<u64>,
    stop: Arc<AtomicBool>,
    /// Messages received since the beginning.
    received: Arc<AtomicU64>,
    slot: Option<NewestSlot>,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    pub(super) seconds: f64,
    /// Execution times in ns, for each period.
    pub(super) samples: [Vec<u64>; 2],
    // Fields are dropped in this order: threads first, then the program, then the network.
    _threads: Option<NapiThreads>,
    _deferral: Option<NapiDeferral>,
    _program: Option<ReceiveProgram>,
    _pair: NetnsPair,
}

impl Flood {
    pub(super) fn open(carrier: Carrier, context: Context, name: &str) -> Self {
        let pair = NetnsPair::new();
        let b = pair.b.clone();
        let native = context != Context::SoftInterrupt;
        let program = (native || carrier == Carrier::Newest).then(|| {
            let attach = Attach::Only(if native {
                XdpMode::Native
            } else {
                XdpMode::Generic
            });
            let config = ProgramConfig {
                attach,
                ..ProgramConfig::new(b.interface.as_str())
            };
            b.run(|| ReceiveProgram::with(&config)).unwrap()
        });
        let slot = (carrier == Carrier::Newest).then(|| {
            let program = program.as_ref().unwrap();
            b.run(|| program.newest_channel(PORT, 0)).unwrap()
        });
        let (mut threads, mut deferral) = (None, None);
        match context {
            Context::SoftInterrupt => {
                let mask = format!("{:x}", 1 << CORE);
                let set =
                    |setting: &str| netns::write_interface_setting(&b.interface, setting, &mask);
                b.run(|| set("queues/rx-0/rps_cpus")).unwrap();
            }
            Context::Thread(want) => {
                let priority = NapiPriority {
                    want,
                    cpus: vec![CORE],
                };
                threads = Some(
                    b.run(|| NapiThreads::start(&b.interface, &priority))
                        .unwrap(),
                );
            }
            Context::Reader => {
                deferral = Some(
                    b.run(|| NapiDeferral::hold(&b.interface, 1000, 5_000_000))
                        .unwrap(),
                );
            }
        }
        let received = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(true));
        let sender = carriers::open(&pair, carrier, context, slot.clone(), &received, &stop);
        let (orders, inbox) = mpsc::channel();
        let (outbox, done) = mpsc::channel();
        send_when_told(sender, inbox, outbox, Arc::clone(&stop));
        let context_name = match context {
            Context::SoftInterrupt => "soft interrupt".to_owned(),
            Context::Thread(Want::Fifo(priority)) => format!("NAPI thread FIFO {priority}"),
            Context::Thread(Want::Other(_)) => "NAPI thread, low".to_owned(),
            Context::Reader => "polled by its reader".to_owned(),
        };
        Self {
            name: format!("{name}, {context_name}"),
            context,
            carrier,
            orders,
            done,
            stop,
            received,
            slot,
            sent: 0,
            arrived: 0,
            seconds: 0.0,
            samples: Default::default(),
            _threads: threads,
            _deferral: deferral,
            _program: program,
            _pair: pair,
        }
    }

    /// Returns the messages received so far, from the counter of the transport.
    fn count(&self) -> u64 {
        match &self.slot {
            Some(slot) => slot.counters().accepted,
            None => self.received.load(Ordering::Relaxed),
        }
    }

    pub(super) fn start(&mut self) {
        self.arrived = self.arrived.wrapping_sub(self.count());
        self.seconds -= seconds();
        self.stop.store(false, Ordering::Relaxed);
        self.orders.send(()).unwrap();
        // The flood begins before the task.
        thread::sleep(Duration::from_millis(10));
    }

    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.sent += self.done.recv().unwrap();
        self.seconds += seconds();
        // Waits for messages still on the way.
        let patience = match self.carrier {
            Carrier::Tcp => 500,
            _ => 10,
        };
        for _ in 0..patience {
            thread::sleep(Duration::from_millis(1));
            if self.arrived.wrapping_add(self.count()) >= self.sent {
                break;
            }
        }
        self.arrived = self.arrived.wrapping_add(self.count());
    }
}

fn seconds() -> f64 {
    now_ns(Clock::Monotonic) as f64 / 1e9
}

fn send_when_told(
    mut one: SendOne,
    inbox: mpsc::Receiver<()>,
    outbox: mpsc::Sender<u64>,
    stop: Arc<AtomicBool>,
) {
    thread::spawn(move || {
        sched::set_cpu(1)
            .and_then(|_| sched::set_fifo(PRIORITY))
            .unwrap();
        while inbox.recv().is_ok() {
            let mut sent = 0;
            let mut due = now_ns(Clock::Monotonic);
            while !stop.load(Ordering::Relaxed) {
                sent += one();
                // Never a burst to catch up: each message causes one interrupt.
                due = (due + SPACING_NS).max(now_ns(Clock::Monotonic));
                while now_ns(Clock::Monotonic) < due {
                    std::hint::spin_loop();
                }
            }
            let _ = outbox.send(sent);
        }
    });
}
