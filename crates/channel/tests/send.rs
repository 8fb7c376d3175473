//! Transmit paths and batches: values arrive in order and numbered without a gap on each path.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use rtwire_channel::{ChannelError, LinkError, Talker, TalkerConfig, TxPath};
use rtwire_testkit::{NetnsPair, ip, require};
use rtwire_wire::{MacAddress, Pcp, VlanTag};
use std::time::Duration;

const PATHS: [TxPath; 3] = [TxPath::Qdisc, TxPath::Direct, TxPath::Xdp];

fn config(pair: &NetnsPair, path: TxPath, batch: usize) -> TalkerConfig {
    TalkerConfig {
        path,
        batch,
        ..talker_config(&pair.a, &pair.b, Way::RtdipQdisc, 1001)
    }
}

fn open(pair: &NetnsPair, config: &TalkerConfig) -> Result<Talker, ChannelError> {
    pair.a.run(|| Talker::open(config))
}

#[test]
fn batches_come_whole_and_in_order_on_each_path() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in [Way::RtdipQdisc, Way::Native, Way::Generic] {
        let mut listening = listener_config(way, 1001);
        listening.queue_frames = 1024;
        let (_endpoint, mut listener) = listener(&pair, way, &listening);
        for path in PATHS {
            for batch in [1, 7, 32, 100] {
                let mut talker = open(&pair, &config(&pair, path, batch)).unwrap();
                let mut next = 0;
                for count in [1, 2, 31, 32, 33, 100, 0, 300] {
                    let values: Vec<Vec<u8>> = (0..count)
                        .map(|at: usize| vec![at as u8; (at * 13) % 1400])
                        .collect();
                    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                    assert_eq!(talker.send_batch(&values).unwrap(), 0);
                    assert_eq!(talker.send(b"single").unwrap(), next + count as u32);
                    for value in values.into_iter().chain([&b"single"[..]]) {
                        let received = listener.recv(SOON).unwrap().unwrap();
                        let at = format!("{way:?} {path:?} {batch} {count} {next}");
                        assert_eq!((received.sequence, received.data), (next, value), "{at}");
                        next += 1;
                    }
                }
                assert_eq!(talker.statistics().sent, u64::from(next));
                let long = vec![0; talker.maximum_data() + 1];
                let refused = talker.send_batch(&[b"short", &long]);
                assert!(matches!(refused, Err(ChannelError::TooLong { .. })));
                assert_eq!(talker.statistics().sent, u64::from(next), "none was sent");
            }
        }
    }
}

#[test]
fn batches_of_datagrams_come_too() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let (_endpoint, mut listener) = listener(&pair, Way::Udp, &listener_config(Way::Udp, 1001));
    let mut config = talker_config(&pair.a, &pair.b, Way::Udp, 1001);
    config.batch = 32;
    let mut talker = open(&pair, &config).unwrap();
    assert_eq!(talker.send_batch(&[&b"some octets"[..]; 70]).unwrap(), 0);
    for number in 0..70 {
        let received = listener.recv(SOON).unwrap().unwrap();
        assert_eq!(
            (received.sequence, received.data),
            (number, &b"some octets"[..])
        );
    }
}

#[test]
fn shared_memory_sends_tagged_and_longest_frames_and_is_used_again() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in FRAMES {
        let (_endpoint, mut listener) = listener(&pair, way, &listener_config(way, 1001));
        let mut config = config(&pair, TxPath::Xdp, 1);
        config.pcp = Pcp::new(5).unwrap();
        config.transport = rtwire_channel::Transport::Rtdip {
            destination: MacAddress(pair.b.mac),
            vlan: VlanTag::new(config.pcp, 3),
        };
        let mut talker = open(&pair, &config).unwrap();
        // Many times around the rings.
        for number in 0..2000_u32 {
            let octets = [1, 64, 1000, talker.maximum_data()][number as usize % 4];
            let data = vec![number as u8; octets];
            assert_eq!(talker.send(&data).unwrap(), number);
            let received = listener.recv(SOON).unwrap().unwrap();
            assert_eq!((received.sequence, received.data), (number, &data[..]));
            assert_eq!(received.priority.get(), 5);
        }
    }
}

#[test]
fn what_shared_memory_cannot_do_is_told() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let config = config(&pair, TxPath::Xdp, 1);
    let mut first = open(&pair, &config).unwrap();
    // The queue has one sender. A second one is refused until the first has gone.
    let refused = open(&pair, &config).unwrap_err().to_string();
    assert!(refused.contains("queue 0 of interface `rtwa`"), "{refused}");
    assert!(refused.contains("another program has it"), "{refused}");
    let stamped = TalkerConfig {
        stamping: Some(BOTH_STAMPS),
        ..config.clone()
    };
    let refused = open(&pair, &stamped).unwrap_err().to_string();
    assert!(refused.contains("no transmit stamps"), "{refused}");

    ip(&pair.a.namespace, "link set rtwa down");
    let down = first.send(b"x").unwrap_err();
    assert!(
        matches!(down, ChannelError::Link(LinkError::InterfaceDown { .. })),
        "{down}"
    );
    ip(&pair.a.namespace, "link set rtwa up");
    std::thread::sleep(Duration::from_millis(50));
    let (_endpoint, mut listener) = listener(
        &pair,
        Way::RtdipQdisc,
        &listener_config(Way::RtdipQdisc, 1001),
    );
    // Refused frames are not sent later and use up no number.
    assert_eq!(first.send(b"up again").unwrap(), 0);
    let received = listener.recv(SOON).unwrap().unwrap();
    assert_eq!((received.sequence, received.data), (0, &b"up again"[..]));
    drop(first);
    let mut second = open(&pair, &config).unwrap();
    second.send(b"second").unwrap();
    assert_eq!(listener.recv(SOON).unwrap().unwrap().data, b"second");
    ip(&pair.a.namespace, "link del rtwa");
    let gone = second.send(b"x").unwrap_err();
    assert!(gone.is_gone(), "{gone}");
}
