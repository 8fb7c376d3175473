//! Whether both sides of the shared memory mean the same by it.

use super::layout;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType, HasSize};
use rtwire_sys::bpf::queue;
use std::path::Path;

#[test]
fn the_layouts_are_those_of_the_kernel_program() {
    let btf = Btf::from_path(Path::new(concat!(env!("OUT_DIR"), "/receive.bpf.o"))).unwrap();
    for (name, fields, words) in layout::FIELDS {
        let found: Struct<'_> = btf
            .type_by_name(name)
            .unwrap_or_else(|| panic!("no struct {name}"));
        let members: Vec<(String, usize)> = found
            .iter()
            .map(|member| {
                let MemberAttr::Normal { offset } = member.attr else {
                    panic!("a bit field among the members of {name}");
                };
                assert_eq!(offset % 64, 0, "{name}: {member:?}");
                let member = member.name.unwrap().to_str().unwrap().to_owned();
                (member, offset as usize / 64)
            })
            .collect();
        let expected: Vec<(String, usize)> = fields
            .iter()
            .map(|&(field, word)| (field.to_owned(), word))
            .collect();
        assert_eq!(members, expected, "{name}");
        assert_eq!(found.size(), words * 8, "{name}");
        let _ = BtfType::type_id(&found);
    }
}

#[test]
fn the_numbers_are_those_of_the_header() {
    let header = include_str!("../../../../bpf/receive.h");
    let values = header.lines().filter_map(|line| {
        let mut parts = line.strip_prefix("#define ")?.split_whitespace();
        let name = parts.next()?;
        Some((name, parts.next()?.parse::<u64>().ok()?))
    });
    let found: Vec<(&str, u64)> = values.collect();
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
