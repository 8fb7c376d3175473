//! A program that stays attached without a process.

use super::*;
use rtwire_sys::bpf::attached::program_at;
use rtwire_sys::carrier::carrier;
use rtwire_sys::interface::by_name;
use rtwire_testkit::{NetnsPair, have_bpf_names, require};
use std::time::{Duration, Instant};

#[test]
fn a_held_program_stays_without_a_process_and_is_joined() {
    require!(root, program "ip", program "mount");
    have_bpf_names();
    let pair = NetnsPair::new();
    let (index, changes) = pair.a.run(|| {
        let interface = by_name("rtwa").unwrap();
        (interface.index, carrier(&interface).unwrap().changes)
    });
    let there = || pair.a.run(|| program_at(index)).unwrap();
    let attach = || pair.a.run(|| ReceiveProgram::attach("rtwa")).unwrap();
    let program = attach();
    let name = pair.a.run(|| program.hold()).unwrap();
    // Again: nothing happens.
    assert_eq!(pair.a.run(|| program.hold()).unwrap(), name);
    drop(program);
    let held = there().expect("it stays");
    for _ in 0..3 {
        let joined = attach();
        assert!(joined.is_joined());
        joined.newest_channel(1001, 0).unwrap();
        drop(joined);
        assert_eq!(there(), Some(held));
    }
    let now = pair.a.run(|| carrier(&by_name("rtwa").unwrap()).unwrap());
    assert_eq!((now.on, now.changes), (true, changes));
    // A process that has it open keeps it beyond the release.
    let last = attach();
    assert!(pair.a.run(|| release("rtwa")).unwrap());
    assert!(!pair.a.run(|| release("rtwa")).unwrap());
    assert_eq!(there(), Some(held));
    drop(last);
    let start = Instant::now();
    while there().is_some() {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "it stays attached"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    // The name of an interface that is gone is taken over.
    let program = attach();
    pair.a.run(|| program.hold()).unwrap();
    program.detach().unwrap();
    let again = attach();
    assert!(!again.is_joined());
    assert_eq!(pair.a.run(|| again.hold()).unwrap(), name);
    assert!(pair.a.run(|| release("rtwa")).unwrap());
}
