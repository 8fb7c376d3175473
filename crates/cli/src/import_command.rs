//! `rtwire import FORMAT FILES`: turns another planner's network into a network description.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use rtwire_plan::import::{ImportFault, Imported, saihu, tsnkit};

use crate::output;

/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;

/// Arguments of `rtwire import`.
#[derive(Args)]
pub(crate) struct ImportArguments {
    #[command(subcommand)]
    format: Format,
}

#[derive(Subcommand)]
enum Format {
    /// The tables of tsnkit: streams to be scheduled, and the topology
    Tsnkit {
        /// CSV: stream,src,dst,size,period,deadline,jitter
        streams: PathBuf,
        /// CSV: link,q_num,rate,t_proc,t_prop
        topology: PathBuf,
    },
    /// An output-port network of Saihu, which runs panco, DNC and xTFA on it
    Saihu {
        /// JSON: network, flows, servers
        network: PathBuf,
    },
}

/// Prints the description; parts that were not carried over are listed on standard error.
pub(crate) fn run(arguments: &ImportArguments) -> ExitCode {
    match imported(&arguments.format) {
        Ok(imported) => {
            for note in &imported.notes {
                eprintln!("rtwire import: changed or left out: {note}");
            }
            output::print(&imported.description);
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("rtwire import: {message}");
            ExitCode::from(FAULTY)
        }
    }
}

fn imported(format: &Format) -> Result<Imported, String> {
    let text = |file: &Path| {
        std::fs::read_to_string(file).map_err(|fault| format!("{}: {fault}", file.display()))
    };
    let told = |file: &Path, fault: ImportFault| format!("{}: {fault}", file.display());
    match format {
        Format::Saihu { network } => saihu(&text(network)?).map_err(|fault| told(network, fault)),
        Format::Tsnkit { streams, topology } => {
            tsnkit(&text(streams)?, &text(topology)?).map_err(|fault| match fault {
                ImportFault::Line {
                    file: "topology", ..
                } => told(topology, fault),
                fault => told(streams, fault),
            })
        }
    }
}
