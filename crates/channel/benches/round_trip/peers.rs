//! The three transports of a round trip: an RTDiP queue channel, UDP and TCP, each opened for one way to wait.

use rtwire_channel::{
    Endpoint, EndpointConfig, ListenerConfig, Order, QueueListener, ReceivePath, Talker,
    TalkerConfig, Transport, TxPath, WakeUp,
};
use rtwire_testkit::{NetnsPair, Side};
use rtwire_wire::{MacAddress, Pcp};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Time after which a value counts as lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// Protocol that carries the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RTDiP with one priority, as the others have: values come in order of arrival.
    Rtdip,
    /// RTDiP with several priorities: waiting values are sorted.
    RtdipSorted,
    Udp,
    Tcp,
}

impl Protocol {
    pub(crate) const ALL: [Self; 4] = [Self::Rtdip, Self::RtdipSorted, Self::Udp, Self::Tcp];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rtdip => "RTDiP queue",
            Self::RtdipSorted => "RTDiP queue, sorted",
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        }
    }
}

/// Way to wait at both ends, and their cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Spin,
    BlockOneCore,
    BlockTwoCores,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Spin, Self::BlockOneCore, Self::BlockTwoCores];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spinning",
            Self::BlockOneCore => "blocking on one core",
            Self::BlockTwoCores => "blocking across cores",
        }
    }

    pub(crate) const fn server_cpu(self) -> usize {
        match self {
            Self::BlockOneCore => 0,
            Self::Spin | Self::BlockTwoCores => 1,
        }
    }
}

/// One end of a connection.
pub(crate) trait Peer: Send {
    fn send(&mut self, data: &[u8]);
    /// Receives a value of `data`'s length; returns `false` if none came in time. Writes it to `data` where it cannot
    /// be read in place.
    fn receive(&mut self, data: &mut [u8]) -> bool;
}

struct Rtdip {
    talker: Talker,
    listener: QueueListener,
    _endpoint: Endpoint,
}

impl Peer for Rtdip {
    fn send(&mut self, data: &[u8]) {
        self.talker.send(data).unwrap();
    }

    fn receive(&mut self, data: &mut [u8]) -> bool {
        match self.listener.recv(Some(PATIENCE)).unwrap() {
            Some(received) => {
                // A listener hands out its values without a copy, so the value is read in place.
                assert_eq!(received.data.len(), data.len());
                std::hint::black_box((received.data.first(), received.data.last()));
                true
            }
            None => false,
        }
    }
}

struct Udp {
    socket: UdpSocket,
    spin: bool,
}

impl Peer for Udp {
    fn send(&mut self, data: &[u8]) {
        self.socket.send(data).unwrap();
    }

    fn receive(&mut self, data: &mut [u8]) -> bool {
        let mut start = None;
        for turn in 0_u64.. {
            match self.socket.recv(data) {
                Ok(octets) => {
                    assert_eq!(octets, data.len());
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.spin || is_late(turn, &mut start) {
                        return false;
                    }
                }
                Err(error) => panic!("UDP: {error}"),
            }
        }
        false
    }
}

struct Tcp {
    stream: TcpStream,
    spin: bool,
}

impl Peer for Tcp {
    fn send(&mut self, data: &[u8]) {
        // At most one value is in flight, so it always fits.
        self.stream.write_all(data).unwrap();
    }

    fn receive(&mut self, data: &mut [u8]) -> bool {
        let mut there = 0;
        let mut start = None;
        for turn in 0_u64.. {
            match self.stream.read(&mut data[there..]) {
                Ok(0) => panic!("TCP: the peer has closed"),
                Ok(octets) => {
                    there += octets;
                    if there == data.len() {
                        return true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.spin || is_late(turn, &mut start) {
                        return false;
                    }
                }
                Err(error) => panic!("TCP: {error}"),
            }
        }
        false
    }
}

/// Returns `true` when [`PATIENCE`] is over; reads the clock only now and then.
fn is_late(turn: u64, start: &mut Option<Instant>) -> bool {
    turn % 1024 == 1023 && start.get_or_insert_with(Instant::now).elapsed() > PATIENCE
}

/// Opens a client in `a` and a server in `b`.
pub(crate) fn open(
    pair: &NetnsPair,
    protocol: Protocol,
    mode: Mode,
) -> (Box<dyn Peer>, Box<dyn Peer>) {
    let port = 2000;
    match protocol {
        Protocol::Rtdip | Protocol::RtdipSorted => {
            let order = if protocol == Protocol::Rtdip {
                Order::Arrival
            } else {
                Order::MostUrgentFirst
            };
            let wake_up = match mode {
                Mode::Spin => WakeUp::Spin,
                Mode::BlockOneCore | Mode::BlockTwoCores => WakeUp::Block,
            };
            let (ways, wait) = ((ReceivePath::Packet, TxPath::Direct), (wake_up, order));
            (
                rtdip(&pair.a, &pair.b, ways, wait, (port, port + 1)),
                rtdip(&pair.b, &pair.a, ways, wait, (port + 1, port)),
            )
        }
        Protocol::Udp => {
            let spin = mode == Mode::Spin;
            let end = |own: &Side| own.run(|| UdpSocket::bind((own.address, port)).unwrap());
            let (a, b) = (end(&pair.a), end(&pair.b));
            a.connect((pair.b.address, port)).unwrap();
            b.connect((pair.a.address, port)).unwrap();
            let peer = |socket: UdpSocket| {
                socket.set_nonblocking(spin).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(Udp { socket, spin })
            };
            (peer(a), peer(b))
        }
        Protocol::Tcp => {
            let spin = mode == Mode::Spin;
            let address = (pair.b.address, port);
            let listener = pair.b.run(|| TcpListener::bind(address).unwrap());
            let a = pair.a.run(|| TcpStream::connect(address).unwrap());
            let (b, _) = listener.accept().unwrap();
            let peer = |stream: TcpStream| {
                stream.set_nodelay(true).unwrap();
                stream.set_nonblocking(spin).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(Tcp { stream, spin })
            };
            (peer(a), peer(b))
        }
    }
}

/// Opens one end of an RTDiP queue with the given receive and transmit paths, which receives at port `at` and sends
/// to `to`.
pub(crate) fn rtdip(
    own: &Side,
    other: &Side,
    (receive, send): (ReceivePath, TxPath),
    (wake_up, order): (WakeUp, Order),
    (to, at): (u16, u16),
) -> Box<dyn Peer> {
    own.run(|| {
        let mut config = ListenerConfig::new(at);
        (config.wake_up, config.order) = (wake_up, order);
        // No timestamps, as with the others.
        config.stamps = false;
        let endpoint = EndpointConfig {
            path: receive,
            ..EndpointConfig::new(own.interface.as_str())
        };
        let endpoint = Endpoint::with(&endpoint).unwrap();
        let listener = endpoint.queue_listener(&config).unwrap();
        let transport = Transport::rtdip(MacAddress(other.mac));
        let mut config = TalkerConfig::new(own.interface.as_str(), transport, to);
        config.path = send;
        // No time of sending, as with the others.
        config.sender_time = false;
        config.pcp = Pcp::new(6).unwrap();
        Box::new(Rtdip {
            talker: Talker::open(&config).unwrap(),
            listener,
            _endpoint: endpoint,
        })
    })
}
