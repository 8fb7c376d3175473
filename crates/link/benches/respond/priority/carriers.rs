//! Transports of a flood's messages: both ends of each.

use super::super::lanes::frame;
use super::CORE;
use super::flood::{Carrier, Context, LOW};
use rtwire_link::program::NewestSlot;
use rtwire_link::responder::port_filter;
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp};
use rtwire_sys::sched;
use rtwire_sys::sched::thread as scheduling;
use rtwire_testkit::NetnsPair;
use rtwire_wire::EtherType;
use rtwire_wire::rtdip::Semantics;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const OCTETS: usize = 1024;
pub(super) const PORT: u16 = 2007;
const PATIENCE: Duration = Duration::from_millis(100);

/// The sending end of a flood. Each call sends one message and returns the number of messages sent.
pub(super) type SendOne = Box<dyn FnMut() -> u64 + Send>;

/// Opens both ends and returns the sending one. The receiving end works at once, on a thread of its own.
pub(super) fn open(
    pair: &NetnsPair,
    carrier: Carrier,
    context: Context,
    slot: Option<NewestSlot>,
    received: &Arc<AtomicU64>,
    stop: &Arc<AtomicBool>,
) -> SendOne {
    let (a, b) = (&pair.a, &pair.b);
    let config = ReceiverConfig {
        interface: b.interface.clone(),
        wake_up: WakeUp::Block,
        queue_frames: 256,
        stamps: false,
        one_by_one: true,
    };
    let direct = || {
        let config = SenderConfig {
            path: TxPath::Direct,
            ..SenderConfig::new(a.interface.as_str())
        };
        Several::open(|| a.run(|| Sender::frames(&config)).unwrap())
    };
    let local = SocketAddrV4::new(b.address, PORT);
    let datagrams = || {
        let socket = a.run(|| UdpSocket::bind((a.address, 0)).unwrap());
        socket.connect(local).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    match carrier {
        Carrier::Tcp => {
            let listener = b.run(|| TcpListener::bind(local).unwrap());
            let mut near = a.run(|| TcpStream::connect(local).unwrap());
            let (mut far, _) = listener.accept().unwrap();
            near.set_nodelay(true).unwrap();
            near.set_write_timeout(Some(PATIENCE)).unwrap();
            far.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut data = [0; OCTETS];
            let mut octets = 0;
            receive_always(received, move || {
                octets += far.read(&mut data).unwrap_or(0) as u64;
                let whole = octets / OCTETS as u64;
                octets %= OCTETS as u64;
                whole
            });
            let data = [0x42; OCTETS];
            let mut octets = 0;
            Box::new(move || {
                octets += near.write(&data).unwrap_or(0) as u64;
                let whole = octets / OCTETS as u64;
                octets %= OCTETS as u64;
                whole
            })
        }
        Carrier::Udp => {
            let mut receiver = b.run(|| Receiver::datagrams(&config, local)).unwrap();
            if context == Context::Reader {
                receiver.busy_poll(Duration::from_micros(50)).unwrap();
            }
            receive_always(received, move || take(&mut receiver));
            let mut sockets = Several::open(datagrams);
            let data = [0x42; OCTETS];
            Box::new(move || {
                let _ = sockets.next().send(&data);
                1
            })
        }
        Carrier::Packet => {
            let filter = port_filter(PORT).unwrap();
            let open = || Receiver::frames(&config, EtherType::RTDIP.0, &filter);
            let mut receiver = b.run(open).unwrap();
            receive_always(received, move || take(&mut receiver));
            let frame = frame(a, b, (PORT, 1), Semantics::Queue, 0, OCTETS);
            let mut senders = direct();
            Box::new(move || {
                let _ = senders.next().send(&frame);
                1
            })
        }
        Carrier::Newest => {
            let mut slot = slot.unwrap();
            let mut data = [0; OCTETS];
            let mut read = move || {
                black_box(slot.read(&mut data));
            };
            if context == Context::Reader {
                // Its own datagrams tell the socket which receive context to poll.
                let mut poller = b.run(|| Receiver::datagrams(&config, local)).unwrap();
                poller.busy_poll(Duration::from_micros(50)).unwrap();
                datagrams().send(&[0]).unwrap();
                assert!(poller.wait(Some(Duration::from_secs(1))).unwrap());
                poller.release();
                assert!(poller.napi_id().unwrap().is_some());
                let stop = Arc::clone(stop);
                receive_always(received, move || {
                    let _ = poller.look();
                    poller.release();
                    read();
                    if stop.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    0
                });
            } else {
                receive_always(received, move || {
                    read();
                    thread::sleep(Duration::from_millis(1));
                    0
                });
            }
            let mut frame = frame(a, b, (PORT, 1), Semantics::Newest, 0, OCTETS);
            let mut senders = direct();
            let mut sequence = 0_u32;
            Box::new(move || {
                sequence = sequence.wrapping_add(1);
                frame[22..26].copy_from_slice(&sequence.to_be_bytes());
                let _ = senders.next().send(&frame);
                1
            })
        }
    }
}

/// Runs `one`, which returns the number of messages it received, again and again until the flood's owner is gone. It
/// runs at low priority on the task's core.
fn receive_always(received: &Arc<AtomicU64>, mut one: impl FnMut() -> u64 + Send + 'static) {
    let received = Arc::downgrade(received);
    thread::spawn(move || {
        sched::set_cpu(CORE).unwrap();
        scheduling::set(0, LOW).unwrap();
        while let Some(received) = received.upgrade() {
            received.fetch_add(one(), Ordering::Relaxed);
        }
    });
}

/// Several sockets, used in turn. Frames that wait in a veth still fill their sender's send buffer. So a single
/// socket would have to wait for the receiver, which no network card causes.
struct Several<T> {
    all: Vec<T>,
    turn: usize,
}

impl<T> Several<T> {
    fn open(one: impl Fn() -> T) -> Self {
        Self {
            all: (0..8).map(|_| one()).collect(),
            turn: 0,
        }
    }

    fn next(&mut self) -> &mut T {
        self.turn = (self.turn + 1) % self.all.len();
        &mut self.all[self.turn]
    }
}

fn take(receiver: &mut Receiver) -> u64 {
    let there = receiver.wait(Some(PATIENCE)).unwrap_or(false);
    if there {
        black_box(receiver.peek().map(|frame| frame.data.len()));
        receiver.release();
    }
    u64::from(there)
}
