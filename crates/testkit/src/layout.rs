//! Compares memory that a program shares with a kernel program: both sides must have the same fields at the same places.

use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::{Btf, HasSize};
use std::path::Path;

/// A structure's name, its fields with the word at which each begins, and its length in words.
pub type Layout<'a> = (&'a str, &'a [(&'a str, usize)], usize);

/// Compares structures of 64-bit words with the BTF of the object file `object`; panics at the first difference.
pub fn check<'a>(object: &str, layouts: impl IntoIterator<Item = Layout<'a>>) {
    let btf = Btf::from_path(Path::new(object)).expect("the object file has BTF");
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
                let member = member
                    .name
                    .and_then(|name| name.to_str())
                    .expect("a member has a name")
                    .to_owned();
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

/// Returns the numbers that a C header defines, by name, in its order.
pub fn numbers(header: &str) -> Vec<(&str, u64)> {
    let values = header.lines().filter_map(|line| {
        let mut parts = line.strip_prefix("#define ")?.split_whitespace();
        let name = parts.next()?;
        Some((name, parts.next()?.parse::<u64>().ok()?))
    });
    values.collect()
}
