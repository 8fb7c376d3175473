//! The recorded frames with their times, and the differences between two frames.

use rtwire_wire::powerlink::{Field, Value, View};
use std::path::PathBuf;

/// The frames with their times, ns since the first.
pub fn frames() -> Vec<(u64, Vec<u8>)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/captures/powerlink/boot-three-nodes.pcap");
    let bytes = std::fs::read(path).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut frames = Vec::new();
    let mut at = 24;
    let begin = u64::from(number(24)) * 1_000_000_000 + u64::from(number(28));
    while at < bytes.len() {
        let ns = u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4));
        let octets = number(at + 8) as usize;
        frames.push((ns - begin, bytes[at + 16..at + 16 + octets].to_vec()));
        at += 16 + octets;
    }
    frames
}

/// The names of the fields that are not the same in both frames.
pub fn differences(ours: &[u8], theirs: &[u8]) -> Vec<String> {
    let fields = |frame: &'static [u8]| {
        let mut fields: Vec<Field<'static>> = Vec::new();
        View::new(frame).fields(&mut |field| fields.push(field));
        fields
    };
    // Tests are short: the frames may stay.
    let (ours, theirs): (&'static [u8], &'static [u8]) =
        (ours.to_vec().leak(), theirs.to_vec().leak());
    let show = |value: Value<'_>| match value {
        Value::Number(number) => format!("{number:#x}"),
        Value::Octets(octets) => format!("{octets:02x?}"),
    };
    let theirs_fields = fields(theirs);
    let mut found = Vec::new();
    for field in fields(ours) {
        let other = theirs_fields
            .iter()
            .find(|f| (f.name, f.at) == (field.name, field.at));
        match other {
            Some(other) if other.value == field.value => {}
            Some(other) => found.push(format!(
                "{}: {} for {}",
                field.name,
                show(field.value),
                show(other.value)
            )),
            None => found.push(format!("{}: {} for nothing", field.name, show(field.value))),
        }
    }
    for field in &theirs_fields {
        if !fields(ours)
            .iter()
            .any(|f| (f.name, f.at) == (field.name, field.at))
        {
            found.push(format!("{}: nothing for {}", field.name, show(field.value)));
        }
    }
    if found.is_empty() && ours.len() != theirs.len() {
        found.push(format!("octets: {} for {}", ours.len(), theirs.len()));
    }
    found
}
