//! Tests of frames for no channel and of faulty frames: dropped or passed on, and counted.

use super::test_bench::{Bench, DROP, build, tag};
use super::*;
use rtwire_testkit::require;
use rtwire_wire::rtdip::Semantics;

#[test]
fn what_is_not_the_channels_is_dropped_and_counted() {
    require!(root);
    let mut bench = Bench::new();
    let mut slot = bench.program.newest_channel(1001, 7).unwrap();
    let mut wrong = build(1001, 1);
    wrong.header.key = 8;
    assert_eq!(bench.run(&wrong.frame(&[0])), DROP);
    let mut wrong = build(1001, 1);
    wrong.header.semantics = Semantics::Queue;
    assert_eq!(bench.run(&wrong.frame(&[0])), DROP);
    // More than a slot holds, in a frame longer than usual.
    assert_eq!(bench.run(&build(1001, 1).frame(&[0; 1488])), DROP);
    let expected = ChannelCounters {
        wrong_key: 1,
        wrong_semantics: 1,
        accepted: 1,
        ..Default::default()
    };
    assert_eq!(slot.counters(), expected);
    assert_eq!(bench.run(&build(1001, 2).frame(&[0; 1489])), DROP);
    assert_eq!(
        slot.counters(),
        ChannelCounters {
            oversize: 1,
            ..expected
        }
    );
    assert_eq!(slot.read(&mut [0; 8]).unwrap().sequence, 1);
    // Another port, and this port after the channel is closed.
    bench.passes(&build(1002, 1).frame(&[0]));
    drop(slot);
    bench.passes(&build(1001, 3).frame(&[0]));
    assert_eq!(
        bench.program.counters(),
        ProgramCounters {
            other_port: 2,
            ..Default::default()
        }
    );
}

#[test]
fn faulty_frames_are_counted_and_go_on() {
    require!(root);
    let mut bench = Bench::new();
    let slot = bench.program.newest_channel(1001, 7).unwrap();
    let responder = bench.program.respond_channel(1002, 7, None).unwrap();
    for port in [1001, 1002] {
        for (vlan, at) in [(None, 14), (tag(), 18)] {
            let mut build = build(port, 1);
            build.vlan = vlan;
            build.header.time_ns = Some(1);
            let good = build.frame(&[1; 100]);
            let mut fault = |change: &dyn Fn(&mut Vec<u8>), expected: ProgramCounters| {
                let before = bench.program.counters();
                let mut frame = good.clone();
                change(&mut frame);
                bench.passes(&frame);
                let after = bench.program.counters();
                let found = ProgramCounters {
                    truncated: after.truncated - before.truncated,
                    wrong_version: after.wrong_version - before.wrong_version,
                    malformed: after.malformed - before.malformed,
                    wrong_length: after.wrong_length - before.wrong_length,
                    other_port: after.other_port - before.other_port,
                };
                assert_eq!(found, expected);
            };
            let none = ProgramCounters::default();
            fault(
                &|f| f[at] = 0x20,
                ProgramCounters {
                    wrong_version: 1,
                    ..none
                },
            );
            fault(
                &|f| f[at] = 0x02,
                ProgramCounters {
                    wrong_version: 1,
                    ..none
                },
            );
            fault(
                &|f| f[at] = 0x16,
                ProgramCounters {
                    malformed: 1,
                    ..none
                },
            );
            fault(
                &|f| f[at + 1] = 8,
                ProgramCounters {
                    malformed: 1,
                    ..none
                },
            );
            fault(
                &|f| f.truncate(at + 123),
                ProgramCounters {
                    wrong_length: 1,
                    ..none
                },
            );
            for length in [at, at + 1, at + 15, at + 16, at + 23] {
                fault(
                    &|f| f.truncate(length),
                    ProgramCounters {
                        truncated: 1,
                        ..none
                    },
                );
            }
            fault(
                &|f| f.truncate(at + 24),
                ProgramCounters {
                    wrong_length: 1,
                    ..none
                },
            );
            // Foreign frames: another type, another station, two tags, a truncated tag.
            fault(&|f| f[at - 1] ^= 1, none);
            fault(&|f| f[5] = 9, none);
            fault(
                &|f| {
                    f.splice(12..12, [0x81, 0, 0, 1, 0x81, 0, 0, 2])
                        .for_each(drop)
                },
                none,
            );
            fault(
                &|f| f.truncate(14),
                if at == 14 {
                    ProgramCounters {
                        truncated: 1,
                        ..none
                    }
                } else {
                    none
                },
            );
        }
    }
    assert_eq!(slot.counters(), ChannelCounters::default());
    assert_eq!(responder.counters(), ChannelCounters::default());
}
