//! `rtwire export`: each switch's share of a plan, for a management station (YANG data) or for a person (a page).

mod page;
mod share;
mod yang;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rtwire_plan::Plan;

use crate::arguments::{NETWORK_HELP, key_and_value};
use crate::{input, output};
use share::{Given, Share};

/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;

/// Arguments of `rtwire export`.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("form").required(true).args(["yang", "page"]))]
pub(crate) struct ExportArguments {
    #[arg(value_name = "FILE", help = NETWORK_HELP)]
    plan: PathBuf,
    /// IEEE 802.1Q and 802.1CB YANG data as JSON (RFC 7951): classes, gates, credits, VLANs, static forwarding, stream
    /// filters with their identification
    #[arg(long)]
    yang: bool,
    /// A page that a person can type into the switch
    #[arg(long)]
    page: bool,
    /// Only this switch; without it all switches, with --yang as an object with one member for each switch
    #[arg(long, value_name = "NAME")]
    switch: Option<String>,
    /// Write one file for each switch into this folder, NAME.json or NAME.txt
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// The name of a port at its switch, as in s1>B=swp3; otherwise it is named after its neighbour. With its number,
    /// as in s1>B=swp3#3; otherwise ports are numbered in the order of the page
    #[arg(long = "port", value_name = "SWITCH>NEIGHBOUR=NAME", value_parser = key_and_value)]
    ports: Vec<(String, String)>,
    /// The address of a switch, as in s1=00-1B-21-00-00-01; otherwise a locally administered one
    #[arg(long = "address", value_name = "SWITCH=ADDRESS", value_parser = key_and_value)]
    addresses: Vec<(String, String)>,
    /// Override a value of the table `defaults`, as in `rtwire plan`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
}

/// Exports and prints.
pub(crate) fn run(arguments: &ExportArguments) -> ExitCode {
    match export(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, code)) => {
            eprintln!("rtwire export: {message}");
            ExitCode::from(code)
        }
    }
}

fn export(arguments: &ExportArguments) -> Result<(), (String, u8)> {
    let file = arguments.plan.display().to_string();
    let faulty = |message: String| (message, FAULTY);
    let plan = plan_for_switches(&arguments.plan, &arguments.set)?;
    let all: Vec<&str> = plan
        .network
        .switches
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let switches: Vec<&str> = match &arguments.switch {
        None => all,
        Some(name) if all.contains(&name.as_str()) => vec![name.as_str()],
        Some(name) => {
            return Err(faulty(format!(
                "{file}: there is no switch \"{name}\"; its switches are {}",
                all.join(", ")
            )));
        }
    };
    let given = Given::read(&plan, &arguments.ports, &arguments.addresses).map_err(faulty)?;
    let shares: Vec<Share<'_>> = switches
        .iter()
        .map(|name| Share::new(&plan, name, &given))
        .collect::<Result<_, _>>()
        .map_err(faulty)?;
    for share in &shares {
        for what in share.left_out() {
            eprintln!("rtwire export: switch {}: {what}", share.name);
        }
    }
    if let Some(folder) = &arguments.into {
        return write_files(folder, &shares, arguments.page).map_err(faulty);
    }
    output::print(&text(&shares, arguments.page, arguments.switch.is_some()));
    Ok(())
}

/// Reads a plan whose switches can be told what to do. The error is a message and an exit code.
pub(crate) fn plan_for_switches(
    path: &Path,
    set: &[(String, String)],
) -> Result<Plan, (String, u8)> {
    let plan = input::plan_without_redundancy(path, set, false)
        .map_err(|(code, message)| (message, code))?;
    plan.network
        .without_routers("nothing here tells a router its tables")
        .and_then(|()| plan.network.without_second_pass())
        .and_then(|()| {
            let why = "a switch is told one way to a host";
            plan.network.without_several_links(None, why)
        })
        .map_err(|message| (format!("{}: {message}", path.display()), FAULTY))?;
    Ok(plan)
}

/// Returns the YANG data of the switch `name`, and in words what of the plan is not in them.
///
/// # Errors
/// The message for the user.
pub(crate) fn switch_data(
    plan: &Plan,
    name: &str,
    ports: &[(String, String)],
    addresses: &[(String, String)],
) -> Result<(serde_json::Value, Vec<String>), String> {
    let given = Given::read(plan, ports, addresses)?;
    let share = Share::new(plan, name, &given)?;
    Ok((yang::data(&share), share.left_out()))
}

/// Returns all that goes to standard output.
fn text(shares: &[Share<'_>], as_page: bool, single: bool) -> String {
    if as_page {
        let pages: Vec<String> = shares.iter().map(page::page).collect();
        return pages.join("\n");
    }
    match shares {
        [one] if single => format!("{:#}\n", yang::data(one)),
        _ => {
            let all = shares
                .iter()
                .map(|share| (share.name.to_owned(), yang::data(share)));
            format!(
                "{:#}\n",
                serde_json::Value::from(all.collect::<serde_json::Map<_, _>>())
            )
        }
    }
}

/// Writes one file for each switch and prints their names.
fn write_files(folder: &Path, shares: &[Share<'_>], as_page: bool) -> Result<(), String> {
    fs::create_dir_all(folder)
        .map_err(|error| format!("cannot make the folder `{}`: {error}", folder.display()))?;
    for share in shares {
        let (end, content) = if as_page {
            ("txt", page::page(share))
        } else {
            ("json", format!("{:#}\n", yang::data(share)))
        };
        let path = folder.join(format!("{}.{end}", share.name));
        output::replace(&path, &content)?;
        output::line(&path.display().to_string());
    }
    Ok(())
}
