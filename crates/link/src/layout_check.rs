//! For tests: checks that both sides of the shared memory use the same layout.

use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::{Btf, HasSize};
use std::path::Path;

/// A structure's name, its fields with the first word of each, and its length in words.
pub(crate) type Layout<'a> = (&'a str, &'a [(&'a str, usize)], usize);

/// Fails unless the object's BTF has each of these structures, of whole 64-bit words, with these fields at these
/// words.
pub(crate) fn check<'a>(object: &str, layouts: impl IntoIterator<Item = Layout<'a>>) {
    let btf = Btf::from_path(Path::new(object)).unwrap();
    for (name, fields, words) in layouts {
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
    }
}

/// Returns the numbers that a header defines with their names, in its order.
pub(crate) fn numbers(header: &str) -> Vec<(&str, u64)> {
    let values = header.lines().filter_map(|line| {
        let mut parts = line.strip_prefix("#define ")?.split_whitespace();
        let name = parts.next()?;
        Some((name, parts.next()?.parse::<u64>().ok()?))
    });
    values.collect()
}
