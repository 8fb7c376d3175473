//! `rtwire confirm`: keeps the changes of `rtwire apply --confirm-within`. And the guardian's process, which puts them
//! back.

use std::process::ExitCode;

use clap::Args;
use rtwire_host::change::guardian::{self, GuardianError};
use rtwire_host::change::{self, ConfirmError, Record};

use crate::output;

/// Too late, or cut off.
const REFUSED: u8 = 1;
/// There is nothing to confirm.
const FAULTY: u8 = 2;

/// Arguments of `rtwire confirm` and of the guardian.
#[derive(Args)]
pub(crate) struct ConfirmArguments {
    /// The interface whose settings are to stay
    interface: String,
}

/// Confirms and prints.
pub(crate) fn run(arguments: &ConfirmArguments) -> ExitCode {
    let directory = change::default_directory();
    // It may have been renamed since.
    let name = Record::name_for(&directory, &arguments.interface);
    let interface = name.as_ref().unwrap_or(&arguments.interface);
    if let Err(error) = change::confirm(&directory, interface) {
        eprintln!("rtwire confirm: {error}");
        return ExitCode::from(match error {
            ConfirmError::Nothing(_) => FAULTY,
            _ => REFUSED,
        });
    }
    output::line(&format!(
        "the settings of `{interface}` stay; `rtwire revert {interface}` puts them back"
    ));
    ExitCode::SUCCESS
}

/// Runs the guardian in the process that `rtwire apply` starts.
pub(crate) fn guard(arguments: &ConfirmArguments) -> ExitCode {
    let directory = change::default_directory();
    match guardian::run(&directory, &arguments.interface, &mut std::io::stdout()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rtwire host-guardian: {error}");
            ExitCode::from(match error {
                GuardianError::NoRecord(_) => FAULTY,
                _ => REFUSED,
            })
        }
    }
}
