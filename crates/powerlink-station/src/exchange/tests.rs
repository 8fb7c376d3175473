//! Both ends of an exchange, on one thread and on two.

use super::*;
use crate::io::octets_of;
use crate::kind::Key;
use rtwire_powerlink::ProcessImage;
use rtwire_testkit::{CountingAllocator, allocations};
use std::thread;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const KEY: Key = Key {
    node: 1,
    index: 0x6000,
    subindex: 1,
    output: false,
};

/// An image of inputs and as many outputs, each a point.
struct Plant {
    image: ProcessImage,
    points: Vec<(Key, Range<usize>)>,
}

impl Plant {
    fn new(octets: &[usize]) -> Self {
        let mut image = ProcessImage::default();
        let mut points = Vec::new();
        for output in [false, true] {
            let mut end = 0;
            for &octets in octets {
                points.push((Key { output, ..KEY }, end..end + octets));
                end += octets;
            }
            let values = if output {
                &mut image.outputs
            } else {
                &mut image.inputs
            };
            values.resize(end, 0);
        }
        Self { image, points }
    }

    fn ends(&self) -> (LoopEnd, Program) {
        let points = self.points.iter();
        ends(points.map(|place| (place.0.output, octets_of(&self.image, place))))
    }

    fn io(&mut self, cycle: u64) -> Io<'_> {
        Io {
            image: &mut self.image,
            points: &self.points,
            turn: cycle,
            cycle,
            now_ns: cycle * 1000,
            missing: 3,
            own_stalls: 0,
        }
    }
}

#[test]
fn each_side_sees_what_the_other_has() {
    let sizes = [1, 2, 4, 8, 9, 16];
    let mut plant = Plant::new(&sizes);
    let (mut end, mut program) = plant.ends();
    let count = sizes.len();
    for cycle in 1..=3_u8 {
        plant.image.inputs.fill(cycle);
        end.cycle(&mut plant.io(cycle.into()));
        assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
        let image = &mut program.image;
        assert_eq!(
            (image.cycle, image.missed, image.missing),
            (cycle.into(), 0, 3)
        );
        assert_eq!(image.now_ns, u64::from(cycle) * 1000);
        for (at, size) in sizes.iter().enumerate() {
            assert_eq!(image.octets(Point(at)), vec![cycle; *size]);
            // An input is not set, nor is what has another length.
            image.set_octets(Point(at), &vec![0x77; *size]);
            image.set_octets(Point(count + at), &vec![0x77; *size + 1]);
            image.set_octets(Point(count + at), &vec![0x40 + cycle; *size]);
        }
        assert_eq!(
            image.get(Point(2)),
            u64::from_le_bytes([cycle, cycle, cycle, cycle, 0, 0, 0, 0])
        );
        assert_eq!(image.get(Point(4)), 0, "no number has 9 octets");
        image.set(Point(count), 0x0142);
        assert_eq!(image.get(Point(count)), 0x42);
        program.publish();
        end.cycle(&mut plant.io(u64::from(cycle) + 10));
        assert_eq!(plant.image.outputs[0], 0x42);
        assert_eq!(plant.image.outputs[1..], vec![0x40 + cycle; 39]);
        assert_eq!(plant.image.inputs, vec![cycle; 40]);
        assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
        program.image.cycle = cycle.into();
    }
    // An image that is laid out anew has lost them: they are set again.
    plant.image.outputs.fill(0);
    end.cycle(&mut plant.io(20));
    assert_eq!(plant.image.outputs[0], 0x42);
}

#[test]
fn who_is_late_sees_the_newest_and_how_many_passed() {
    let mut plant = Plant::new(&[1]);
    let (mut end, mut program) = plant.ends();
    assert_eq!(program.wait(Duration::from_millis(5)), Woken::TimedOut);
    for cycle in 1..=5_u8 {
        plant.image.inputs[0] = cycle;
        end.cycle(&mut plant.io(cycle.into()));
    }
    assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
    assert_eq!((program.image.get(Point(0)), program.image.missed), (5, 4));
    assert_eq!(program.wait(Duration::ZERO), Woken::TimedOut);
    // The last one is seen, although the loop is over.
    end.cycle(&mut plant.io(6));
    drop(end);
    assert_eq!(program.wait(Duration::MAX), Woken::Cycle);
    assert_eq!(program.wait(Duration::MAX), Woken::Ended);
}

#[test]
fn the_loop_learns_which_cycle_the_program_had_seen_for_its_outputs() {
    let mut plant = Plant::new(&[1]);
    let (mut end, mut program) = plant.ends();
    let mut turn = |cycle| {
        let mut io = plant.io(cycle);
        end.cycle(&mut io);
        io.turn
    };
    assert_eq!(turn(1), 0);
    assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
    assert_eq!(turn(2), 0, "it has seen cycle 1, and handed nothing over");
    program.publish();
    assert_eq!(turn(3), 1, "also where it has set nothing");
    // It goes on after cycles have passed: what it sets then is as old as what it had seen.
    program.image.set(Point(1), 7);
    assert_eq!(turn(20), 1);
    assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
    assert_eq!(turn(21), 1);
    assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
    assert_eq!(turn(22), 20);
    assert_eq!(program.wait(Duration::ZERO), Woken::Cycle);
    assert_eq!(program.wait(Duration::ZERO), Woken::TimedOut);
    assert_eq!(turn(23), 22);
}

#[test]
fn the_turn_of_a_program_that_never_waits_begins_where_the_last_one_ended() {
    let mut plant = Plant::new(&[1]);
    let (mut end, mut program) = plant.ends();
    let mut turn = |cycle| {
        let mut io = plant.io(cycle);
        end.cycle(&mut io);
        io.turn
    };
    turn(5);
    program.publish();
    assert_eq!(turn(6), 0);
    program.publish();
    assert_eq!(turn(9), 5);
    program.publish();
    assert_eq!(turn(10), 6);
}

#[test]
fn a_program_that_waits_beside_a_loop_sees_whole_cycles_and_is_woken() {
    const CYCLES: u64 = 50_000;
    let mut plant = Plant::new(&[8; 40]);
    let (mut end, mut program) = plant.ends();
    let (points, outputs) = (0..40, 40..80);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut echoed = 0;
            for cycle in 1..=CYCLES {
                for value in plant.image.inputs.chunks_mut(8) {
                    value.copy_from_slice(&cycle.to_le_bytes());
                }
                let before = allocations();
                end.cycle(&mut plant.io(cycle));
                assert_eq!(allocations(), before, "the loop allocates");
                let first = plant.io(cycle).get(Point(40));
                assert!(first >= echoed && first < cycle, "{first} of {cycle}");
                echoed = first;
                for point in 40..80 {
                    assert_eq!(plant.io(cycle).get(Point(point)), first, "torn");
                }
                if cycle % 64 == 0 {
                    // The program comes to wait.
                    thread::sleep(Duration::from_micros(100));
                }
            }
        });
        let (mut seen, mut missed) = (0, 0);
        while program.wait(Duration::from_secs(60)) == Woken::Cycle {
            let image = &mut program.image;
            for point in points.clone() {
                assert_eq!(image.get(Point(point)), image.cycle, "torn");
            }
            for point in outputs.clone() {
                image.set(Point(point), image.cycle);
            }
            seen += 1;
            missed += image.missed;
        }
        assert_eq!(seen + missed, CYCLES);
        assert!(seen > CYCLES / 64 / 2, "{seen} seen");
    });
}
