//! Compares the shared memory's layout with that of the kernel program.

use super::layout;
use rtwire_testkit::layout as shared_layout;

#[test]
fn the_layouts_are_those_of_the_kernel_program() {
    shared_layout::check(rtwire_bpf::POWERLINK.built_at, layout::FIELDS);
}

#[test]
fn the_numbers_are_those_of_the_header() {
    let header = include_str!("../../../bpf/programs/powerlink.h");
    let found = shared_layout::numbers(header);
    let expected = [
        ("RTW_PL_FRAME_BYTES", layout::FRAME_OCTETS as u64),
        ("RTW_PL_RING", layout::RING as u64),
        ("RTW_PL_BUFFERS", layout::BUFFERS),
        ("RTW_PL_POLLS", layout::POLLS as u64),
        ("RTW_PL_CYCLES", layout::CYCLES as u64),
        ("RTW_PL_LONGEST_WAIT_NS", layout::LONGEST_WAIT_NS),
        ("RTW_PL_ANSWERED", layout::ANSWERED),
        ("RTW_PL_CHAINED", layout::CHAINED),
        ("RTW_PL_CONTROLLED", layout::CONTROLLED),
        ("RTW_PL_MANAGING", layout::MANAGING),
    ];
    assert_eq!(found, expected);
}
