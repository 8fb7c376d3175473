//! `rtwire export`: each switch's share of a plan, for a management station (YANG data) or for a person (a page).

mod yang;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rtwire_plan::network::{Network, class_of};
use rtwire_plan::show::show_ns;
use rtwire_plan::{NodeKind, Plan, PortPlan};

use crate::arguments::{NETWORK_HELP, key_and_value};
use crate::columns::table;
use crate::{input, output};

/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;

/// Arguments of `rtwire export`.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("form").required(true).args(["yang", "page"]))]
pub(crate) struct ExportArguments {
    #[arg(value_name = "FILE", help = NETWORK_HELP)]
    plan: PathBuf,
    /// IEEE 802.1Q YANG data as JSON (RFC 7951): traffic classes, gate control lists, stream filters
    #[arg(long)]
    yang: bool,
    /// A page that a person can type into the switch
    #[arg(long)]
    page: bool,
    /// Only this switch; without it all switches, with --yang as an object with one member for each switch
    #[arg(long, value_name = "NAME")]
    switch: Option<String>,
    /// The name of a port at its switch, as in s1>B=swp3; otherwise it is named after its neighbour
    #[arg(long = "port", value_name = "SWITCH>NEIGHBOUR=NAME", value_parser = key_and_value)]
    ports: Vec<(String, String)>,
    /// Override a value of the table `defaults`, as in `rtwire plan`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
}

/// Exports and prints.
pub(crate) fn run(arguments: &ExportArguments) -> ExitCode {
    match export(arguments) {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err((message, code)) => {
            eprintln!("rtwire export: {message}");
            ExitCode::from(code)
        }
    }
}

fn export(arguments: &ExportArguments) -> Result<String, (String, u8)> {
    let file = arguments.plan.display().to_string();
    let plan = input::plan_without_redundancy(&arguments.plan, &arguments.set, false)
        .map_err(|(code, message)| (message, code))?;
    let network = &plan.network;
    let all: Vec<&str> = network
        .switches
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let switches: Vec<&str> = match &arguments.switch {
        None => all,
        Some(name) if all.contains(&name.as_str()) => vec![name.as_str()],
        Some(name) => {
            return Err((
                format!(
                    "{file}: there is no switch \"{name}\"; its switches are {}",
                    all.join(", ")
                ),
                FAULTY,
            ));
        }
    };
    for (port, _) in &arguments.ports {
        let known = plan
            .ports
            .iter()
            .any(|one| format!("{}>{}", one.node, one.port) == *port);
        if !known {
            return Err((
                format!("--port {port}: there is no such port; write SWITCH>NEIGHBOUR=NAME"),
                FAULTY,
            ));
        }
    }
    let shares = switches
        .iter()
        .map(|name| Share::new(network, &plan, name, &arguments.ports));
    if arguments.page {
        return Ok(shares
            .map(|share| page(&share))
            .collect::<Vec<_>>()
            .join("\n"));
    }
    let shown = if arguments.switch.is_some() {
        shares
            .map(|share| yang::data(&share))
            .next()
            .unwrap_or_default()
    } else {
        shares
            .map(|share| (share.name.to_owned(), yang::data(&share)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    Ok(format!("{shown:#}\n"))
}

/// The share of one switch.
struct Share<'a> {
    name: &'a str,
    queues: u8,
    ports: Vec<(String, &'a PortPlan)>,
    network: &'a Network,
}

impl<'a> Share<'a> {
    fn new(
        network: &'a Network,
        plan: &'a Plan,
        name: &'a str,
        names: &[(String, String)],
    ) -> Self {
        let ports = plan
            .ports
            .iter()
            .filter(|port| port.node_kind == NodeKind::Switch && port.node == name)
            .map(|port| {
                let place = format!("{}>{}", port.node, port.port);
                let given = names.iter().find(|(one, _)| *one == place);
                (
                    given.map_or_else(|| port.port.clone(), |(_, name)| name.clone()),
                    port,
                )
            })
            .collect();
        Self {
            name,
            queues: network.queues(name),
            ports,
            network,
        }
    }

    /// Returns the traffic class of each priority.
    fn classes(&self) -> [u8; 8] {
        std::array::from_fn(|pcp| class_of(u8::try_from(pcp).unwrap_or(0), self.queues))
    }

    /// Returns the streams that pass the switch, each once.
    fn streams(&self) -> impl Iterator<Item = &'a rtwire_plan::Stream> + use<'a, '_> {
        self.network.streams.iter().filter(|stream| {
            stream
                .routes
                .iter()
                .any(|route| route.iter().any(|node| node == self.name))
        })
    }
}

/// Returns a switch's share as a page.
fn page(share: &Share<'_>) -> String {
    let mut text = format!(
        "switch {}\n{}\n\n",
        share.name,
        "=".repeat(7 + share.name.len())
    );
    let _ = writeln!(
        text,
        "Priority (PCP) to traffic class, every port; the higher class goes first:\n"
    );
    let head = |first: &str, cells: &mut dyn Iterator<Item = String>| {
        let mut row = vec![first.to_owned()];
        row.extend(cells);
        row
    };
    let classes = share.classes();
    table(
        &mut text,
        1,
        &[
            head("PCP", &mut (0..8).map(|pcp: u8| pcp.to_string())),
            head("traffic class", &mut classes.iter().map(u8::to_string)),
        ],
    );
    let _ = writeln!(text, "\nStreams, none longer than:\n");
    let mut rows = vec![
        ["stream", "PCP", "VLAN", "frame"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for stream in share.streams() {
        rows.push(vec![
            stream.name.clone(),
            stream.pcp.to_string(),
            stream
                .vlan
                .map_or_else(|| "-".to_owned(), |vlan| vlan.to_string()),
            format!("{} B", stream.frame_bytes),
        ]);
    }
    table(&mut text, 1, &rows);
    for (name, port) in &share.ports {
        let _ = writeln!(text, "\nport {name} (to {})\n", port.port);
        let buffer = port
            .backlog_bytes
            .map_or_else(|| "unbounded".to_owned(), |bytes| format!("{bytes} B"));
        let _ = writeln!(text, "  buffer needed: {buffer}");
        let Some(gates) = &port.gates else {
            let _ = writeln!(text, "  gates: none, all open");
            continue;
        };
        let _ = writeln!(
            text,
            "  gates: cycle {} ns ({}), begins {} ns after a whole number of cycles since the epoch of PTP time",
            gates.cycle_ns,
            show_ns(gates.cycle_ns),
            gates.base_offset_ns
        );
        let _ = writeln!(text, "  one line an entry; o: open, -: closed\n");
        let mut rows = vec![head(
            "entry",
            &mut ["from ns", "for ns", "gates"]
                .into_iter()
                .map(str::to_owned)
                .chain((0..8).rev().map(|class: u8| format!("tc{class}"))),
        )];
        let mut from = 0;
        for (index, entry) in gates.entries.iter().enumerate() {
            let states = (0..8).rev().map(|class| {
                if entry.gates >> class & 1 == 1 {
                    "o".to_owned()
                } else {
                    "-".to_owned()
                }
            });
            let first = [
                from.to_string(),
                entry.duration_ns.to_string(),
                format!("{:#04x}", entry.gates),
            ];
            rows.push(head(
                &index.to_string(),
                &mut first.into_iter().chain(states),
            ));
            from += entry.duration_ns;
        }
        table(&mut text, 1, &rows);
    }
    text
}
