//! `rtwire powerlink …`: what there is to do with a POWERLINK network.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::powerlink_check;

/// Arguments of `rtwire powerlink`.
#[derive(Args)]
pub(crate) struct PowerlinkArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explain a configuration (CDC) or a device description (XDD, XDC) in words, and say what is wrong with it
    Check(powerlink_check::CheckArguments),
}

/// Do it.
pub(crate) fn run(arguments: &PowerlinkArguments) -> ExitCode {
    match &arguments.command {
        Command::Check(arguments) => powerlink_check::run(arguments),
    }
}
