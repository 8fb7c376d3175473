//! Common parts of the channel tests.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use rtwire_channel::{
    Endpoint, EndpointConfig, ListenerConfig, ListenerTransport, NewestListener, Order,
    QueueListener, ReceivePath, Talker, TalkerConfig, Transport, TxPath, TxStamping, WakeUp,
};
use rtwire_link::{Sender, SenderConfig};
use rtwire_testkit::{NetnsPair, Side};
use rtwire_wire::rtdip::{Header, Semantics};
use rtwire_wire::{EtherType, MacAddress, Pcp, ethernet};
use std::time::Duration;

/// Transport and receive path of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    RtdipQdisc,
    RtdipDirect,
    /// Received by the receive program in the driver.
    Native,
    /// Received by the receive program behind the driver.
    Generic,
    Udp,
}

impl Way {
    pub fn path(self) -> ReceivePath {
        match self {
            Self::Native => ReceivePath::Native,
            Self::Generic => ReceivePath::Generic,
            _ => ReceivePath::Packet,
        }
    }

    /// Returns `true` if its talkers bypass the queueing discipline.
    pub fn is_direct(self) -> bool {
        self == Self::RtdipDirect || self.in_program()
    }

    pub fn in_program(self) -> bool {
        self.path() != ReceivePath::Packet
    }
}

pub const WAYS: [Way; 5] = [
    Way::RtdipQdisc,
    Way::RtdipDirect,
    Way::Native,
    Way::Generic,
    Way::Udp,
];
/// The transports with Ethernet frames, each with another receive path.
pub const FRAMES: [Way; 3] = [Way::RtdipQdisc, Way::Native, Way::Generic];

/// All ways to wait. The last fetches frames one by one, in order of arrival.
pub const WAITS: [(WakeUp, Order); 4] = [
    (WakeUp::Block, Order::MostUrgentFirst),
    (WakeUp::Spin, Order::MostUrgentFirst),
    (
        WakeUp::SpinThenBlock(Duration::from_micros(50)),
        Order::MostUrgentFirst,
    ),
    (WakeUp::Block, Order::Arrival),
];

pub const SOON: Option<Duration> = Some(Duration::from_secs(2));
pub const NOW: Option<Duration> = Some(Duration::ZERO);

pub fn talker_config(from: &Side, to: &Side, way: Way, port: u16) -> TalkerConfig {
    let transport = match way {
        Way::Udp => Transport::udp(to.address, port),
        _ => Transport::rtdip(MacAddress(to.mac)),
    };
    TalkerConfig {
        path: if way.is_direct() {
            TxPath::Direct
        } else {
            TxPath::Qdisc
        },
        source_port: 7,
        ..TalkerConfig::new(from.interface.as_str(), transport, port)
    }
}

pub fn listener_config(way: Way, port: u16) -> ListenerConfig {
    ListenerConfig {
        transport: match way {
            Way::Udp => ListenerTransport::udp(port),
            _ => ListenerTransport::Rtdip,
        },
        ..ListenerConfig::new(port)
    }
}

/// Opens a talker in `a`.
pub fn talker(pair: &NetnsPair, config: &TalkerConfig) -> Talker {
    pair.a.run(|| Talker::open(config)).unwrap()
}

/// Opens an endpoint in `b`.
pub fn endpoint(pair: &NetnsPair, way: Way) -> Endpoint {
    let config = EndpointConfig {
        path: way.path(),
        ..EndpointConfig::new(pair.b.interface.as_str())
    };
    pair.b.run(|| Endpoint::with(&config)).unwrap()
}

/// Opens an endpoint in `b` and one of its listeners.
pub fn listener(pair: &NetnsPair, way: Way, config: &ListenerConfig) -> (Endpoint, QueueListener) {
    let endpoint = endpoint(pair, way);
    let listener = pair.b.run(|| endpoint.queue_listener(config)).unwrap();
    (endpoint, listener)
}

/// Opens an endpoint in `b` and a listener for the newest value.
pub fn newest_listener(
    pair: &NetnsPair,
    way: Way,
    config: &ListenerConfig,
) -> (Endpoint, NewestListener) {
    let endpoint = endpoint(pair, way);
    let listener = pair.b.run(|| endpoint.newest_listener(config)).unwrap();
    (endpoint, listener)
}

pub const BOTH_STAMPS: TxStamping = TxStamping {
    queue: true,
    driver: true,
    card: false,
};

/// Sends arbitrary bytes behind an Ethernet header for `b`.
pub struct Injector {
    sender: Sender,
    pair_b: MacAddress,
}

impl Injector {
    pub fn new(pair: &NetnsPair) -> Self {
        let config = SenderConfig::new(pair.a.interface.as_str());
        Self {
            sender: pair.a.run(|| Sender::frames(&config)).unwrap(),
            pair_b: MacAddress(pair.b.mac),
        }
    }

    pub fn send_to(&mut self, destination: MacAddress, packet: &[u8]) {
        let header = ethernet::Header {
            destination,
            source: MacAddress([2, 0, 0, 0, 0, 1]),
            vlan: None,
            ether_type: EtherType::RTDIP,
        };
        let mut frame = vec![0; 14];
        header.emit(&mut frame).unwrap();
        frame.extend(packet);
        self.sender.send(&frame).unwrap();
    }

    pub fn send(&mut self, packet: &[u8]) {
        self.send_to(self.pair_b, packet);
    }
}

pub fn good_packet() -> Vec<u8> {
    let header = Header {
        semantics: Semantics::Queue,
        priority: Pcp::LOWEST,
        destination_port: 1001,
        source_port: 7,
        sequence: 0,
        key: 5,
        time_ns: Some(1),
    };
    let mut packet = vec![0; 34];
    header.emit(b"0123456789", &mut packet).unwrap();
    packet
}
