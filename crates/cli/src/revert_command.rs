//! `rtwire revert`: puts back the changes of `rtwire apply` and `rtwire doctor --fix`.

use std::process::ExitCode;

use clap::Args;
use rtwire_host::change::{self, Change, Progress, Record, RecordError, Whereabouts};
use rtwire_host::netlink::Netlink;

use crate::output;

/// Some settings could not be put back.
const LEFT: u8 = 1;
/// There is nothing to put back, or the record cannot be read.
const FAULTY: u8 = 2;

/// Arguments of `rtwire revert`.
#[derive(Args)]
pub(crate) struct RevertArguments {
    /// The interface whose settings are put back; `host` for settings without an interface. Without it, all of this
    /// network namespace
    interface: Option<String>,
    /// Remove the record even if some settings cannot be put back; each is named, with the command that would do it
    #[arg(long)]
    force: bool,
}

/// Puts back and prints.
pub(crate) fn run(arguments: &RevertArguments) -> ExitCode {
    let directory = change::default_directory();
    let interfaces: Vec<String> = match &arguments.interface {
        // It may have been renamed since.
        Some(interface) => {
            vec![Record::name_for(&directory, interface).unwrap_or_else(|| interface.clone())]
        }
        None => Record::interfaces(&directory),
    };
    if interfaces.is_empty() {
        output::line("nothing to put back");
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    for interface in interfaces {
        match Record::open(&directory, &interface) {
            Ok(Some(record)) => {
                if let Err(worse) = one(record, arguments.force) {
                    code = worse;
                }
            }
            // Cut off before its first line was whole, or another program has just put it back.
            Ok(None) if arguments.interface.is_none() => {
                output::line(&format!("{interface}: nothing to put back"));
            }
            Ok(None) => {
                eprintln!(
                    "rtwire revert: there is no record for `{interface}`: nothing was changed, or all was put back"
                );
                code = ExitCode::from(FAULTY);
            }
            Err(RecordError::Unreadable(path)) if arguments.force => {
                code = ExitCode::from(LEFT);
                match std::fs::remove_file(&path) {
                    Ok(()) => eprintln!(
                        "rtwire revert: {}: nobody can read what was to be put back; the record was removed",
                        path.display()
                    ),
                    Err(error) => {
                        eprintln!("rtwire revert: cannot remove {}: {error}", path.display());
                    }
                }
            }
            Err(error @ RecordError::Busy(_)) => {
                eprintln!("rtwire revert: {error}");
                code = ExitCode::from(LEFT);
            }
            Err(error) => {
                eprintln!("rtwire revert: {error}");
                code = ExitCode::from(FAULTY);
            }
        }
    }
    code
}

fn one(record: Record, force: bool) -> Result<(), ExitCode> {
    let title = record.header.title.clone();
    if !record.header.is_of_this_boot() {
        output::line(&format!(
            "`{title}`: the machine was restarted since, which undid these settings; the record was removed"
        ));
        return record.remove().map_err(|error| {
            eprintln!("rtwire revert: {error}");
            ExitCode::from(LEFT)
        });
    }
    let mut netlink = Netlink::new();
    let old = &record.header.interface;
    // What the kernel does not tell now, it does not tell below either, and that is reported there.
    match Whereabouts::of(&mut netlink, &record).unwrap_or(Whereabouts::Same) {
        Whereabouts::Same => {}
        Whereabouts::Renamed(new) => output::line(&format!(
            "`{old}` is named `{new}` now: its settings are put back there"
        )),
        Whereabouts::Gone => output::line(&format!(
            "`{old}` is gone, and its settings with it; an interface that took its name since is left as it is"
        )),
    }
    let mut show = |change: &Change, progress| {
        if progress == Progress::Undone {
            output::line(&format!("put back  {}", change.show()));
        }
    };
    let done = if force {
        change::revert_by_force(&mut netlink, record, &mut show)
    } else {
        change::revert(&mut netlink, record, &mut show).map(|undone| (undone, Vec::new()))
    };
    match done {
        Ok((undone, left)) => {
            output::line(&format!(
                "`{title}`: {undone} setting(s) put back and read back"
            ));
            for one in &left {
                eprintln!(
                    "rtwire revert: given up: {}\n  by hand: {}",
                    one.why,
                    one.command.replace('\n', "\n           ")
                );
            }
            if left.is_empty() {
                Ok(())
            } else {
                Err(ExitCode::from(LEFT))
            }
        }
        Err(error) => {
            eprintln!("rtwire revert: {error}");
            Err(ExitCode::from(LEFT))
        }
    }
}
