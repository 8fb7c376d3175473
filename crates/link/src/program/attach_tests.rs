//! Tests of ports, channels and the interface: taken, lost, removed.

use super::test_bench::Bench;
use super::*;
use rtwire_testkit::require;

#[test]
fn a_port_and_a_channel_are_had_once() {
    require!(root);
    let bench = Bench::new();
    let program = &bench.program;
    let slot = program.newest_channel(1001, 0).unwrap();
    for taken in [
        program.newest_channel(1001, 0).map(drop),
        program.respond_channel(1001, 0, None).map(drop),
        program.police(1001, &Police::new(1000, 10_000)).map(drop),
    ] {
        assert!(
            matches!(taken, Err(ProgramError::PortInUse { port: 1001, .. })),
            "{taken:?}"
        );
    }
    let clone = slot.clone();
    drop(slot);
    assert!(program.newest_channel(1001, 0).is_err(), "a reader is left");
    drop(clone);
    let mut all: Vec<_> = (0..64)
        .map(|port| program.newest_channel(1001 + port, 0).unwrap())
        .collect();
    assert!(matches!(
        program.newest_channel(2000, 0),
        Err(ProgramError::NoChannel { .. })
    ));
    all.pop();
    program.newest_channel(2000, 0).unwrap();
}

#[test]
fn a_program_that_is_detached_or_loses_its_interface_says_so() {
    require!(root, program "ip");
    let pair = rtwire_testkit::NetnsPair::new();
    let attach = || {
        pair.a
            .run(|| ReceiveProgram::attach(&pair.a.interface))
            .unwrap()
    };
    let program = attach();
    assert_eq!(
        (program.mode(), program.why_generic()),
        (XdpMode::Native, None)
    );
    assert_eq!(program.is_attached(), Ok(true));
    program.detach().unwrap();
    assert_eq!(program.is_attached(), Ok(false));
    // The interface is free for another program, which is shared. It stays attached while any channel of it is open.
    let second = attach();
    assert!(!second.is_joined());
    let slot = second.newest_channel(1001, 0).unwrap();
    drop(second);
    let third = attach();
    assert!(third.is_joined());
    drop(third);
    drop(slot);
    let third = attach();
    assert!(!third.is_joined());
    for change in ["down", "up"] {
        rtwire_testkit::ip(
            &pair.a.namespace,
            &format!("link set {} {change}", pair.a.interface),
        );
        assert_eq!(third.is_attached(), Ok(true), "{change}");
    }
    rtwire_testkit::ip(&pair.a.namespace, &format!("link del {}", pair.a.interface));
    assert_eq!(third.is_attached(), Ok(false));
}

#[test]
fn frames_too_long_for_native_mode_get_the_generic_one() {
    require!(root, program "ip");
    let pair = rtwire_testkit::NetnsPair::new();
    for side in [&pair.a, &pair.b] {
        rtwire_testkit::ip(
            &side.namespace,
            &format!("link set {} mtu 9000", side.interface),
        );
    }
    let program = pair
        .a
        .run(|| ReceiveProgram::attach(&pair.a.interface))
        .unwrap();
    assert_eq!(program.mode(), XdpMode::Generic);
    assert!(
        program.why_generic().unwrap().contains("an MTU of 9000"),
        "{:?}",
        program.why_generic()
    );
}
