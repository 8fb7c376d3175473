//! Frames of random bytes, and good ones with random faults: a million, or the number in `RTWIRE_TEST_FRAMES`.

use super::test_bench::{Bench, DROP, OWN, PASS, TX, build};
use super::*;
use rtwire_testkit::require;
use rtwire_wire::rtdip::{Header, Semantics};
use rtwire_wire::{MacAddress, VlanTag, ethernet};

/// A small random number generator: the same frames each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Returns the expected verdict on a frame, by this crate's own frame parser.
fn expected(frame: &[u8]) -> u32 {
    let Ok(frame) = ethernet::Frame::new(frame) else {
        return PASS;
    };
    let for_us = frame.destination() == OWN || frame.destination().is_group();
    if frame.ether_type() != EtherType::RTDIP || !for_us {
        return PASS;
    }
    let Ok((header, _)) = Header::parse(frame.payload()) else {
        return PASS;
    };
    match header.destination_port {
        1001 | 1004 => DROP,
        1002 if header.key != 7 => DROP,
        1002 if header.source_port < FIRST_ASKING_PORT || frame.source().is_group() => DROP,
        1002 => TX,
        _ => PASS,
    }
}

fn random_frame(random: &mut Random, seeds: &[Vec<u8>], frame: &mut Vec<u8>) {
    frame.clear();
    if random.below(8) == 0 {
        // Any bytes; some begin as frames for this host.
        let most = if random.below(16) == 0 { 1600 } else { 80 };
        let length = 14 + random.below(most);
        frame.extend((0..length).map(|_| random.next() as u8));
        if random.below(2) == 0 {
            frame[..6].copy_from_slice(&OWN.0);
            frame[12..14].copy_from_slice(&EtherType::RTDIP.0.to_be_bytes());
        }
        return;
    }
    frame.extend_from_slice(&seeds[random.below(seeds.len())]);
    for _ in 0..random.below(4) {
        let at = random.below(frame.len().min(46));
        match random.below(4) {
            0 => frame[at] = random.next() as u8,
            1 => frame[at] ^= 1 << random.below(8),
            2 => frame.truncate((at + random.below(64)).max(14)),
            _ => frame.resize((frame.len() + random.below(40)).min(1600), 0x55),
        }
    }
}

#[test]
fn no_frame_is_misread_and_foreign_ones_stay_as_they_are() {
    require!(root);
    let count = std::env::var("RTWIRE_TEST_FRAMES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000_000_u64);
    let mut bench = Bench::new();
    let mut slot = bench.program.newest_channel(1001, 7).unwrap();
    let config = QueueConfig {
        frames: 2,
        wake_up: crate::WakeUp::Spin,
        ..QueueConfig::default()
    };
    let mut queue = bench
        .program
        .queue_without_interface(1004, 7, &config)
        .unwrap();
    let mut queued = 0;
    let responder = bench
        .program
        .respond_channel(1002, 7, Some(&[0x5a; 333]))
        .unwrap();
    let mut seeds = Vec::new();
    for port in [1001, 1002, 1003, 1004] {
        for (length, tagged) in [
            (0, false),
            (5, true),
            (64, false),
            (700, true),
            (1476, false),
        ] {
            for time_ns in [None, Some(77)] {
                let mut build = build(port, 5);
                build.vlan = VlanTag::new(build.header.priority, 3).filter(|_| tagged);
                build.header.time_ns = time_ns;
                if port == 1004 {
                    build.header.semantics = Semantics::Queue;
                }
                seeds.push(build.frame(&vec![0x11; length]));
            }
        }
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut frame = Vec::new();
    let mut verdicts = [0_u64; 4];
    for number in 0..count {
        random_frame(&mut random, &seeds, &mut frame);
        let verdict = bench.run(&frame);
        assert_eq!(verdict, expected(&frame), "frame {number}: {frame:02x?}");
        if verdict == PASS {
            assert_eq!(bench.left(), frame, "frame {number} went on changed");
        }
        if verdict == TX {
            let left = bench.left();
            let answer = ethernet::Frame::new(left).unwrap();
            let (header, data) = Header::parse(answer.payload()).unwrap();
            assert_eq!(
                (answer.source(), data),
                (OWN, &[0x5a; 333][..]),
                "frame {number}"
            );
            assert_eq!(
                answer.destination(),
                MacAddress([frame[6], frame[7], frame[8], frame[9], frame[10], frame[11]])
            );
            assert!(header.destination_port >= FIRST_ASKING_PORT);
        }
        if queue.look() {
            let whole = ethernet::Frame::new(&frame).unwrap();
            let (header, data) = Header::parse(whole.payload()).unwrap();
            let found = queue.peek().unwrap();
            assert_eq!(found.data, data, "frame {number}");
            assert_eq!(
                (found.sequence, found.priority, found.source),
                (header.sequence, header.priority.get(), whole.source())
            );
            assert_eq!(header.destination_port, 1004);
            queue.release();
            assert!(!queue.look());
            queued += 1;
        }
        verdicts[verdict as usize] += 1;
    }
    // Every kind must have been among them, or the test proves nothing.
    assert!(
        verdicts[1..].iter().all(|&of| of > count / 20),
        "{verdicts:?}"
    );
    let counters = bench.program.counters();
    for of in [
        counters.truncated,
        counters.wrong_version,
        counters.malformed,
        counters.wrong_length,
        counters.other_port,
    ] {
        assert!(of > 0, "{counters:?}");
    }
    assert!(queued > count / 20 && queue.counters().accepted == queued);
    assert_eq!((queue.full(), queue.counters().broken), (0, 0));
    assert_eq!(responder.counters().unanswered, 0);
    assert_eq!(responder.counters().accepted, verdicts[TX as usize]);
    let newest = slot.read(&mut [0; 2048]).unwrap();
    assert!(newest.length <= 1488);
}
