//! Reads a network description.
//!
//! Reading takes three steps, and each of them notes every fault that it finds:
//!
//! 1. the TOML itself,
//! 2. the keys and the kinds of their values ([`keys`] is the one table of them),
//! 3. the values together.

mod build;
mod context;
mod cyclic;
mod fault;
mod gates;
pub(crate) mod keys;
mod links;
mod managed;
mod meters;
mod nodes;
mod ports;
mod preemption;
mod priorities;
mod routers;
mod shapers;
mod streams;
mod value;
mod walk;

pub use fault::{Fault, Faults};
pub(crate) use value::short;

use toml::de::DeTable;

use crate::foreign::{self, Foreign};
use crate::network::Network;
use fault::Findings;

/// The kind of file that the message asks for if it gets another one.
const WANTED: &str = "a network description (docs/network-description.md)";

/// The largest file in bytes. A longer one is refused unread.
const LARGEST_FILE_BYTES: usize = 16 * 1024 * 1024;

/// Reads a description from the bytes of its file, as [`read`] does from text.
///
/// # Errors
/// As [`read`]; one fault for bytes that are not UTF-8.
pub fn read_bytes(
    bytes: Vec<u8>,
    file_name: &str,
    overrides: &[(String, String)],
) -> Result<Network, Faults> {
    let text = foreign::text(bytes, file_name, WANTED)?;
    read(&text, file_name, overrides)
}

/// Reads a description.
///
/// `file_name` is used in messages only. `overrides` are pairs of a key of `[defaults]` and its value, as in `--set
/// shaping-interval=10ms`.
///
/// # Errors
/// [`Faults`]: every fault of the file at once.
///
/// ```
/// let text = r#"
///     [network]
///     name = "two hosts"
///     [[switch]]
///     name = "s1"
///     buffer = "86 x 1514 B"
///     [[host]]
///     name = "A"
///     [[host]]
///     name = "B"
///     [[link]]
///     ends = ["A", "s1"]
///     rate = "100 Mbit/s"
///     [[link]]
///     ends = ["s1", "B"]
///     rate = "100 Mbit/s"
///     [[stream]]
///     name = "A-to-B"
///     talker = "A"
///     listeners = ["B"]
///     payload = "64 B"
///     interval = "1 ms"
/// "#;
/// let network = rtwire_describe::read(text, "two.toml", &[]).unwrap();
/// assert_eq!(network.streams[0].wire_bytes, 14 + 24 + 64 + 24);
/// ```
pub fn read(
    source: &str,
    file_name: &str,
    overrides: &[(String, String)],
) -> Result<Network, Faults> {
    let mut findings = Findings::new(source, file_name);
    if source.len() > LARGEST_FILE_BYTES {
        findings.at(
            &(0..0),
            "the file is larger than 16 MiB: this is no network description",
            None,
        );
        return Err(findings.into_faults());
    }
    let (document, errors) = DeTable::parse_recoverable(source);
    let tables = keys::TABLES.iter().map(|table| table.name);
    if let Some((first, foreign)) =
        Foreign::in_place_of(source, document.get_ref(), tables, &errors)
    {
        findings.at(&first, foreign.message(), Some(foreign.help(WANTED)));
        return Err(findings.into_faults());
    }
    for error in &errors {
        let mut message = error.message().trim().replace('\n', ", ");
        message.insert_str(0, "not TOML: ");
        findings.at(&error.span().unwrap_or(0..0), message, None);
    }
    let syntax_lines = findings.lines();
    let syntax_faults = findings.count();
    let records = walk::walk(document.get_ref(), &mut findings);
    if syntax_faults > 0 {
        // What a broken line would have given is missing for no other reason.
        findings.drop_after(syntax_faults, |line, at_start, message| {
            at_start || syntax_lines.contains(&line) || message.starts_with("missing")
        });
        return Err(findings.into_faults());
    }
    let mut network = build::build(&records, source, overrides, &mut findings);
    if let (Some(network), false) = (&mut network, overrides.is_empty()) {
        // What others published, they published of the experiment as the file has it.
        for stream in &mut network.streams {
            stream.published_delay_ns = None;
        }
    }
    match network {
        Some(network) if findings.is_clean() => Ok(network),
        _ => {
            if findings.is_clean() {
                // Cannot happen: what is not built has been complained of. Fail safe all the same.
                findings.at(&(0..0), "the description is incomplete", None);
            }
            Err(findings.into_faults())
        }
    }
}
