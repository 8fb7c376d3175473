//! Whether both sides of the shared memory mean the same by it.

use super::layout;
use crate::layout_check;

#[test]
fn the_layouts_are_those_of_the_kernel_program() {
    layout_check::check(rtwire_bpf::POWERLINK.built_at, layout::FIELDS);
}

#[test]
fn the_numbers_are_those_of_the_header() {
    let header = include_str!("../../../bpf/programs/powerlink.h");
    let found = layout_check::numbers(header);
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
