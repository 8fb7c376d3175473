//! Checks that both sides of the shared memory use the same layout.

use super::layout;
use rtwire_sys::bpf::queue;
use rtwire_testkit::layout as shared_layout;

#[test]
fn the_layouts_are_those_of_the_kernel_program() {
    shared_layout::check(rtwire_bpf::RECEIVE.built_at, layout::FIELDS);
}

#[test]
fn the_numbers_are_those_of_the_header() {
    let header = include_str!("../../../bpf/programs/receive.h");
    let found = shared_layout::numbers(header);
    let expected = [
        ("RTW_CHANNELS", layout::CHANNELS as u64),
        ("RTW_PORTS", layout::PORTS as u64),
        ("RTW_LEVELS", queue::LEVELS as u64),
        ("RTW_BUFFERS", layout::BUFFERS),
        ("RTW_DATA_BYTES", layout::DATA_OCTETS as u64),
        ("RTW_PLACE_BYTES", queue::PLACE_OCTETS as u64),
        ("RTW_REPLY_BYTES", layout::REPLY_OCTETS as u64),
        ("RTW_PATCHES", layout::PATCHES as u64),
        ("RTW_PATCH_BYTES", layout::PATCH_OCTETS as u64),
        ("RTW_PATCH_QUESTION", layout::PATCH_QUESTION as u64),
        ("RTW_FIRST_ASKING_PORT", layout::FIRST_ASKING_PORT.into()),
        ("RTW_FREE", layout::Action::Free as u64),
        ("RTW_PASS", layout::Action::Pass as u64),
        ("RTW_NEWEST", layout::Action::Newest as u64),
        ("RTW_RESPOND", layout::Action::Respond as u64),
        ("RTW_QUEUE", layout::Action::Queue as u64),
    ];
    assert_eq!(found, expected);
}
