//! What the tests of channels share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use rtwire_channel::{
    Endpoint, ListenerConfig, ListenerTransport, Order, QueueListener, Talker, TalkerConfig,
    Transport, TxPath, TxStamping, WakeUp,
};
use rtwire_testkit::{NetnsPair, Side};
use rtwire_wire::MacAddress;
use std::time::Duration;

/// How values travel in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    RtdipQdisc,
    RtdipDirect,
    Udp,
}

pub const WAYS: [Way; 3] = [Way::RtdipQdisc, Way::RtdipDirect, Way::Udp];

/// All ways to wait. The last takes frames one by one, as they have come.
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
        path: if way == Way::RtdipDirect {
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

/// A talker in `a`, made there.
pub fn talker(pair: &NetnsPair, config: &TalkerConfig) -> Talker {
    pair.a.run(|| Talker::open(config)).unwrap()
}

/// An endpoint in `b` and a listener of it.
pub fn listener(pair: &NetnsPair, config: &ListenerConfig) -> (Endpoint, QueueListener) {
    pair.b.run(|| {
        let endpoint = Endpoint::open(&pair.b.interface).unwrap();
        let listener = endpoint.queue_listener(config).unwrap();
        (endpoint, listener)
    })
}

pub const BOTH_STAMPS: TxStamping = TxStamping {
    queue: true,
    driver: true,
};
