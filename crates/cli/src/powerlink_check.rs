//! `rtwire powerlink check`: explains a configuration or a device description in words.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rtwire_powerlink::explain::{self, Explanation};
use rtwire_powerlink::{Cdc, Description};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The file is faulty.
const FAULTY: u8 = 2;

/// Arguments of `rtwire powerlink check`.
#[derive(Args)]
pub(crate) struct CheckArguments {
    /// The file: a concise device configuration (usually `mnobd.cdc`), or a device description (XDD, XDC)
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads, explains and prints.
pub(crate) fn run(arguments: &CheckArguments) -> ExitCode {
    let name = arguments.file.display();
    let explanation = match explained(arguments) {
        Ok(explanation) => explanation,
        Err(message) => {
            eprintln!("rtwire powerlink check: {name}: {message}");
            return ExitCode::from(FAULTY);
        }
    };
    let text = if arguments.json {
        match serde_json::to_string_pretty(&to_json(&explanation)) {
            Ok(text) => text + "\n",
            Err(error) => {
                eprintln!("rtwire powerlink check: {name}: {error}");
                return ExitCode::from(FAULTY);
            }
        }
    } else {
        to_text(&explanation)
    };
    crate::output::print(&text);
    for fault in &explanation.faults {
        eprintln!("rtwire powerlink check: {name}: {fault}");
    }
    if explanation.faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAULTY)
    }
}

fn explained(arguments: &CheckArguments) -> Result<Explanation, String> {
    let bytes = std::fs::read(&arguments.file).map_err(|error| error.to_string())?;
    // A description is XML: it begins with `<`, possibly after a byte order mark and spaces.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'<') {
        let text = std::str::from_utf8(text)
            .map_err(|error| format!("not UTF-8 text: {error}; save the description as UTF-8"))?;
        let description = Description::parse(text).map_err(|error| error.to_string())?;
        return Ok(explain::explain_description(&description));
    }
    if bytes.is_empty() {
        return Err("the file is empty".into());
    }
    let cdc = Cdc::parse(&bytes).map_err(|error| {
        format!("neither a device description (it does not begin with `<`) nor a concise device configuration: {error}")
    })?;
    Ok(explain::explain_cdc(&cdc))
}

fn to_text(explanation: &Explanation) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}, {} objects", explanation.kind, explanation.objects);
    for line in &explanation.summary {
        let _ = writeln!(out, "  {line}");
    }
    if !explanation.nodes.is_empty() {
        let _ = writeln!(
            out,
            "\nnode  sent  received  response within  objects  role"
        );
    }
    for node in &explanation.nodes {
        let _ = writeln!(
            out,
            "{:>4}  {:>2} B  {:>6} B  {:>12} µs  {:>7}  {}",
            node.node,
            node.payload_octets[0],
            node.payload_octets[1],
            node.response_timeout_us,
            node.configuration_entries,
            node.role.join(", ")
        );
    }
    if !explanation.pdos.is_empty() {
        let _ = writeln!(out, "\nprocess data");
    }
    for pdo in &explanation.pdos {
        let (what, to) = match (pdo.transmit, pdo.node) {
            (true, 0) => ("sent to", "all".to_owned()),
            (true, node) => ("sent to", format!("node {node}")),
            (false, 0) => ("received from", "the managing node".to_owned()),
            (false, node) => ("received from", format!("node {node}")),
        };
        let _ = writeln!(out, "  {what} {to}, {} bytes:", pdo.octets);
        for (index, subindex, offset, octets) in &pdo.mapped {
            let end = offset + octets;
            let _ = writeln!(out, "    {offset}..{end}  {index:04X}h/{subindex}");
        }
    }
    for remark in &explanation.remarks {
        let _ = writeln!(out, "\nnote: {remark}");
    }
    if !explanation.faults.is_empty() {
        let _ = writeln!(out, "\n{} faults, see below", explanation.faults.len());
    }
    out
}

/// The output of `rtwire powerlink check --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "rtwire powerlink check")]
struct Check<'a> {
    /// The kind of file, in words.
    kind: &'a str,
    /// The number of objects, or entries, in it.
    objects: usize,
    /// The length of a cycle, µs; null if the file does not tell.
    cycle_us: Option<u64>,
    /// The whole file in words.
    summary: &'a [String],
    /// Controlled nodes of a network.
    nodes: Vec<CheckedNode<'a>>,
    /// Process data.
    pdos: Vec<CheckedPdo>,
    /// Remarks: parts that may be intended but are worth a look.
    remarks: &'a [String],
    /// Faults: a node would not run with them, or not as it seems.
    faults: &'a [String],
}

/// A controlled node of a network.
#[derive(Serialize, JsonSchema)]
struct CheckedNode<'a> {
    /// Its number.
    node: u8,
    /// Its role in the network, in words.
    role: &'a [&'static str],
    /// The time that its response may take, µs.
    response_timeout_us: u64,
    /// The number of objects that are written to it.
    configuration_entries: usize,
    /// The process data sent to it, bytes.
    sent_bytes: usize,
    /// The process data that it sends, bytes.
    received_bytes: usize,
}

/// A PDO.
#[derive(Serialize, JsonSchema)]
struct CheckedPdo {
    /// True if it is a transmit PDO.
    transmit: bool,
    /// The other node; 0: the managing node, or all.
    node: u8,
    /// Its length, bytes.
    bytes: usize,
    /// The objects in it.
    mapped: Vec<CheckedObject>,
}

/// An object in a PDO.
#[derive(Serialize, JsonSchema)]
struct CheckedObject {
    /// Index.
    index: u16,
    /// Sub-index.
    subindex: u8,
    /// Its offset, bytes.
    offset_bytes: usize,
    /// Its length, bytes.
    bytes: usize,
}

/// Returns the JSON Schema of `check --json`, committed as `schema/powerlink-check.schema.json`.
pub(crate) fn json_schema() -> Value {
    schemars::schema_for!(Check<'_>).to_value()
}

fn to_json(explanation: &Explanation) -> Check<'_> {
    let nodes = explanation.nodes.iter().map(|node| CheckedNode {
        node: node.node,
        role: &node.role,
        response_timeout_us: node.response_timeout_us,
        configuration_entries: node.configuration_entries,
        sent_bytes: node.payload_octets[0],
        received_bytes: node.payload_octets[1],
    });
    let object =
        |&(index, subindex, offset_bytes, bytes): &(u16, u8, usize, usize)| CheckedObject {
            index,
            subindex,
            offset_bytes,
            bytes,
        };
    let pdos = explanation.pdos.iter().map(|pdo| CheckedPdo {
        transmit: pdo.transmit,
        node: pdo.node,
        bytes: pdo.octets,
        mapped: pdo.mapped.iter().map(object).collect(),
    });
    Check {
        kind: explanation.kind,
        objects: explanation.objects,
        cycle_us: explanation.cycle_us,
        summary: &explanation.summary,
        nodes: nodes.collect(),
        pdos: pdos.collect(),
        remarks: &explanation.remarks,
        faults: &explanation.faults,
    }
}
