//! Ways to ask and answer questions, and to write a newest value.

use rtwire_host::HostError;
use rtwire_host::napi::{NapiPriority, NapiThreads};
use rtwire_link::program::{FIRST_ASKING_PORT, ReceiveProgram, Responder};
use rtwire_link::responder::{PacketResponder, port_filter};
use rtwire_link::{Receiver, ReceiverConfig, Sender, SenderConfig, TxPath, WakeUp};
use rtwire_sys::bpf::{BpfObject, MappedArray};
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::sched::thread::Want;
use rtwire_sys::{memory, sched};
use rtwire_testkit::{NetnsPair, Side};
use rtwire_wire::rtdip::{Header, Semantics};
use rtwire_wire::{EtherType, MacAddress, Pcp, ethernet};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver as Inbox, Sender as Outbox};
use std::thread;
use std::time::{Duration, Instant};

const OCTETS: usize = 64;
const PORT: u16 = 2007;
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause before each question to a responder that has to be woken, so that it falls asleep. Otherwise it would find
/// the next question before it sleeps, and answer in a tenth of the time.
const TO_SLEEP_NS: u64 = 50_000;
/// Round trips before each measured stretch, for caches and predictors.
const WARM_UP: usize = 20;

/// Responder and transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Driver,
    Packet,
    Udp,
    Tcp,
    /// The driver's reply, made in a kernel thread on the other core, as a card's interrupt there would do.
    DriverThread,
    /// The same in a thread that polls all the time, where the kernel has it (Linux 6.19).
    DriverPolling,
    /// Responders on the other core that sleep until a question comes.
    PacketBlocking,
    UdpBlocking,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Driver,
        Self::Packet,
        Self::Udp,
        Self::Tcp,
        Self::DriverThread,
        Self::DriverPolling,
        Self::PacketBlocking,
        Self::UdpBlocking,
    ];

    /// Returns `true` if a responder on the other core answers and has to be woken, or is one of those beside them.
    pub(crate) const fn is_woken(self) -> bool {
        matches!(
            self,
            Self::DriverThread | Self::DriverPolling | Self::PacketBlocking | Self::UdpBlocking
        )
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver reply (sender's context)",
            Self::Packet => "packet responder, spinning",
            Self::Udp => "UDP, spinning",
            Self::Tcp => "TCP, spinning",
            Self::DriverThread => "driver reply (NAPI thread on the other core)",
            Self::DriverPolling => {
                "driver reply (NAPI thread on the other core, threaded busy polling)"
            }
            Self::PacketBlocking => "packet responder, blocking on the other core",
            Self::UdpBlocking => "UDP responder, blocking on the other core",
        }
    }
}

enum Client {
    Frames(Box<(Sender, Receiver)>, Vec<u8>),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

/// One way: a client here and a server on a thread on the other core. The driver needs no such thread.
pub(crate) struct Lane {
    pub(crate) kind: Kind,
    pub(crate) samples: Vec<u64>,
    pub(crate) lost: u64,
    /// The reason why the kernel has nothing to measure here.
    pub(crate) refused: Option<String>,
    client: Client,
    server: Option<(Outbox<usize>, Inbox<()>)>,
    _threads: Option<NapiThreads>,
    programs: Vec<ReceiveProgram>,
    _responder: Option<Responder>,
    pair: NetnsPair,
}

fn spin_until_ready<T>(mut attempt: impl FnMut() -> std::io::Result<T>) -> Option<T> {
    let start = Instant::now();
    for turn in 1_u64.. {
        match attempt() {
            Ok(value) => return Some(value),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if turn % 1024 == 0 && start.elapsed() > PATIENCE {
                    return None;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    None
}

fn read_all(stream: &mut TcpStream, data: &mut [u8]) -> Option<()> {
    let mut there = 0;
    while there < data.len() {
        there += spin_until_ready(|| stream.read(&mut data[there..]))?;
    }
    Some(())
}

/// Serves as many questions as each order says.
fn serve(mut one: impl FnMut() -> bool + Send + 'static) -> (Outbox<usize>, Inbox<()>) {
    let (orders, inbox) = mpsc::channel();
    let (outbox, done) = mpsc::channel();
    thread::spawn(move || {
        sched::set_cpu(1)
            .and_then(|_| sched::set_fifo(super::PRIORITY))
            .unwrap();
        memory::touch_stack();
        while let Ok(count) = inbox.recv() {
            for _ in 0..count {
                if !one() {
                    break;
                }
            }
            let _ = outbox.send(());
        }
    });
    (orders, done)
}

fn frames(own: &Side, to: &Side) -> Client {
    let asking = FIRST_ASKING_PORT + 1;
    let sender = direct(own);
    let config = ReceiverConfig {
        interface: own.interface.clone(),
        wake_up: WakeUp::Spin,
        queue_frames: 64,
        stamps: false,
        one_by_one: false,
    };
    let filter = port_filter(asking).unwrap();
    let receiver = Receiver::frames(&config, EtherType::RTDIP.0, &filter).unwrap();
    Client::Frames(
        Box::new((sender, receiver)),
        frame(own, to, (PORT, asking), Semantics::Queue, 0, OCTETS),
    )
}

fn direct(own: &Side) -> Sender {
    let config = SenderConfig {
        path: TxPath::Direct,
        ..SenderConfig::new(own.interface.as_str())
    };
    Sender::frames(&config).unwrap()
}

pub(crate) fn frame(
    own: &Side,
    to: &Side,
    ports: (u16, u16),
    semantics: Semantics,
    sequence: u32,
    octets: usize,
) -> Vec<u8> {
    built(own.mac, to.mac, ports, semantics, sequence, octets)
}

fn built(
    from: [u8; 6],
    to: [u8; 6],
    ports: (u16, u16),
    semantics: Semantics,
    sequence: u32,
    octets: usize,
) -> Vec<u8> {
    let ethernet = ethernet::Header {
        destination: MacAddress(to),
        source: MacAddress(from),
        vlan: None,
        ether_type: EtherType::RTDIP,
    };
    let header = Header {
        semantics,
        priority: Pcp::HIGHEST,
        destination_port: ports.0,
        source_port: ports.1,
        sequence,
        key: 0,
        time_ns: None,
    };
    let mut frame = vec![0; ethernet.octets() + header.octets() + octets];
    let at = ethernet.emit(&mut frame).unwrap();
    header.emit(&vec![0x42; octets], &mut frame[at..]).unwrap();
    frame
}

impl Lane {
    pub(crate) fn open(kind: Kind) -> Self {
        let pair = NetnsPair::new();
        let mut lane = Self {
            kind,
            samples: Vec::new(),
            lost: 0,
            refused: None,
            client: pair.a.run(|| frames(&pair.a, &pair.b)),
            server: None,
            _threads: None,
            programs: Vec::new(),
            _responder: None,
            pair,
        };
        let pair = &lane.pair;
        match kind {
            Kind::Driver | Kind::DriverThread | Kind::DriverPolling => {
                for side in [&pair.b, &pair.a] {
                    lane.programs.push(
                        side.run(|| ReceiveProgram::attach(&side.interface))
                            .unwrap(),
                    );
                }
                let program = &lane.programs[0];
                lane._responder = Some(
                    pair.b
                        .run(|| program.respond_channel(PORT, 0, None))
                        .unwrap(),
                );
                if kind == Kind::DriverThread {
                    let priority = NapiPriority {
                        want: Want::Fifo(super::PRIORITY),
                        cpus: vec![1],
                    };
                    let start = || NapiThreads::start(&pair.b.interface, &priority);
                    lane._threads = Some(pair.b.run(start).unwrap());
                }
            }
            Kind::Packet | Kind::PacketBlocking => {
                let wake_up = if kind == Kind::Packet {
                    WakeUp::Spin
                } else {
                    WakeUp::Block
                };
                let open = || PacketResponder::open(&pair.b.interface, wake_up, PORT, 0, None);
                let mut responder = pair.b.run(open).unwrap();
                lane.server = Some(serve(move || responder.answer_one(PATIENCE).unwrap()));
            }
            Kind::Udp | Kind::UdpBlocking => {
                let end = |side: &Side, other: &Side| {
                    let socket = side.run(|| UdpSocket::bind((side.address, PORT)).unwrap());
                    socket.connect((other.address, PORT)).unwrap();
                    socket.set_nonblocking(true).unwrap();
                    socket
                };
                let (a, b) = (end(&pair.a, &pair.b), end(&pair.b, &pair.a));
                lane.client = Client::Udp(a);
                b.set_nonblocking(kind == Kind::Udp).unwrap();
                b.set_read_timeout(Some(PATIENCE)).unwrap();
                lane.server = Some(serve(move || {
                    let mut data = [0; OCTETS];
                    let there = spin_until_ready(|| b.recv(&mut data)).is_some();
                    there && b.send(&data).is_ok()
                }));
            }
            Kind::Tcp => {
                let address = (pair.b.address, PORT);
                let listener = pair.b.run(|| TcpListener::bind(address).unwrap());
                let a = pair.a.run(|| TcpStream::connect(address).unwrap());
                let (mut b, _) = listener.accept().unwrap();
                for end in [&a, &b] {
                    end.set_nodelay(true).unwrap();
                    end.set_nonblocking(true).unwrap();
                }
                lane.client = Client::Tcp(a);
                lane.server = Some(serve(move || {
                    let mut data = [0; OCTETS];
                    read_all(&mut b, &mut data).is_some() && b.write_all(&data).is_ok()
                }));
            }
        }
        lane
    }

    /// Returns the mode of the driver's program.
    pub(crate) fn mode(&self) -> String {
        self.programs
            .first()
            .map_or(String::new(), |program| program.mode().to_string())
    }

    /// Asks once, where no server takes orders; returns `true` if an answer came.
    pub(crate) fn ask(&mut self) -> bool {
        self.client.ask().is_some()
    }

    /// Lets a thread poll while it is measured, and no longer: it would keep the other core from sleeping.
    fn polling(&self) -> Result<Option<NapiThreads>, HostError> {
        if self.kind != Kind::DriverPolling {
            return Ok(None);
        }
        let wanted = NapiPriority {
            want: Want::Other(0),
            cpus: vec![1],
        };
        let answering = &self.pair.b;
        let start = || NapiThreads::poll(&answering.interface, &wanted);
        answering.run(start).map(Some)
    }

    /// Asks `count` times and records the times.
    pub(crate) fn stretch(&mut self, count: usize) {
        let _polling = match self.polling() {
            Ok(threads) => threads,
            Err(error) => {
                self.refused = Some(error.to_string());
                return;
            }
        };
        if let Some((orders, _)) = &self.server {
            orders.send(WARM_UP + count).unwrap();
        }
        for turn in 0..WARM_UP + count {
            if self.kind.is_woken() {
                let asleep = now_ns(Clock::Monotonic) + TO_SLEEP_NS;
                while now_ns(Clock::Monotonic) < asleep {
                    std::hint::spin_loop();
                }
            }
            let start = now_ns(Clock::Monotonic);
            if self.client.ask().is_none() {
                self.lost += 1;
                break;
            }
            let end = now_ns(Clock::Monotonic);
            if turn >= WARM_UP {
                self.samples.push(end - start);
            }
        }
        if let Some((_, done)) = &self.server {
            done.recv().unwrap();
        }
    }
}

impl Client {
    fn ask(&mut self) -> Option<()> {
        match self {
            Self::Frames(ends, frame) => {
                let (sender, receiver) = &mut **ends;
                sender.send(frame).unwrap();
                let there = receiver.wait(Some(PATIENCE)).unwrap();
                std::hint::black_box(receiver.peek().map(|frame| frame.data.last().copied()));
                receiver.release();
                there.then_some(())
            }
            Self::Udp(socket) => {
                let mut data = [0x42; OCTETS];
                socket.send(&data).unwrap();
                spin_until_ready(|| socket.recv(&mut data)).map(drop)
            }
            Self::Tcp(stream) => {
                let mut data = [0x42; OCTETS];
                stream.write_all(&data).unwrap();
                read_all(stream, &mut data)
            }
        }
    }
}

/// Sends one newest value from `a` to `b` and waits until it can have arrived.
pub(crate) fn send_newest(pair: &NetnsPair, port: u16, octets: usize, sequence: u32) {
    let frame = frame(
        &pair.a,
        &pair.b,
        (port, 1),
        Semantics::Newest,
        sequence,
        octets,
    );
    pair.a.run(|| direct(&pair.a).send(&frame)).unwrap();
    thread::sleep(Duration::from_millis(2));
}

/// Places for the arrival notes of a measured channel.
const NOTES: usize = 1024;
/// Words of `struct rtw_slot` and of `struct rtw_note`; the word that holds the number of places.
const SLOT: (usize, usize, usize) = (784, 4, 4);

/// The program alone with one newest-value channel: measures the cost of writing a value, by test runs.
pub(crate) struct Updates {
    object: BpfObject,
    /// The arrival notes, where the channel keeps them.
    _notes: Option<MappedArray>,
    sequence: u32,
    out: Vec<u8>,
}

impl Updates {
    pub(crate) fn new(with_notes: bool) -> Self {
        let object = BpfObject::load("receive", rtwire_bpf::RECEIVE.bytes, &[]).unwrap();
        // The first words as in `crates/bpf/programs/receive.h`: EtherType and address; the port's channel; its
        // action.
        let set = |map: &str, words: usize, value: usize, word: usize, number: u64| {
            let array = object.map_array(map, words).unwrap();
            array
                .word(value, word)
                .unwrap()
                .store(number, Ordering::Relaxed);
        };
        set("control", 8, 0, 0, EtherType::RTDIP.0.into());
        set(
            "control",
            8,
            0,
            1,
            u64::from_ne_bytes([2, 0, 0, 0, 0, 1, 0, 0]),
        );
        set("ports", 2, PORT.into(), 0, 1);
        set("channels", 19, 0, 0, 2);
        let notes = with_notes.then(|| {
            let (words, note_words, places_at) = SLOT;
            let notes = MappedArray::create("rtw_notes", note_words, NOTES).unwrap();
            let maps = object.map_of_maps("notes").unwrap();
            maps.put(0, notes.descriptor()).unwrap();
            set("slots", words, 0, places_at, NOTES as u64);
            notes
        });
        Self {
            object,
            _notes: notes,
            sequence: 0,
            out: Vec::new(),
        }
    }

    /// Returns the medians in ns of runs on a newest value and on a frame that is passed on at once. The kernel
    /// cannot repeat a single run, since every value must be newer; so both include the cost of reading the clock.
    pub(crate) fn measure(&mut self, octets: usize, count: usize) -> (f64, f64) {
        let mut value = built(
            [2, 0, 0, 0, 0, 2],
            [2, 0, 0, 0, 0, 1],
            (PORT, 1),
            Semantics::Newest,
            0,
            octets,
        );
        let mut foreign = value.clone();
        foreign[13] ^= 1;
        let (mut updates, mut passes) = (Vec::new(), Vec::new());
        for _ in 0..count {
            self.sequence += 1;
            value[22..26].copy_from_slice(&self.sequence.to_be_bytes());
            for (frame, verdict, durations) in
                [(&value, 1, &mut updates), (&foreign, 2, &mut passes)]
            {
                let run = self
                    .object
                    .test_run_xdp("receive", frame, &mut self.out, 1)
                    .unwrap();
                assert_eq!(run.verdict, verdict);
                durations.push(f64::from(run.duration_ns));
            }
        }
        (super::median(updates), super::median(passes))
    }
}
