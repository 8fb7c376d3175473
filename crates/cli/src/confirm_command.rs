//! `rtwire confirm`: what `rtwire apply --confirm-within` changed is to stay. And the guardian that acts if nobody says so.

use std::io::Write as _;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use rtwire_host::change::{self, Record, RecordError, State};
use rtwire_host::netlink::Netlink;

use crate::revert_command::overdue;

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

/// Confirm and print.
pub(crate) fn run(arguments: &ConfirmArguments) -> ExitCode {
    let interface = &arguments.interface;
    let fail = |message: String, code| {
        eprintln!("rtwire confirm: {message}");
        ExitCode::from(code)
    };
    let mut record = match Record::open(&change::default_directory(), interface) {
        Ok(Some(record)) => record,
        Ok(None) => {
            return fail(
                format!(
                    "there is nothing to confirm for `{interface}`: nothing was changed, or it was put back already"
                ),
                FAULTY,
            );
        }
        Err(error) => return fail(error.to_string(), REFUSED),
    };
    match record.state {
        State::Confirmed => {}
        State::Unfinished => {
            return fail(
                format!(
                    "`{}` was cut off: put back what it did with rtwire revert {interface}",
                    record.header.title
                ),
                REFUSED,
            );
        }
        State::Applied if overdue(&record.header) => {
            return match change::revert(&mut Netlink::new(), record, &mut |_, _| {}) {
                Ok(_) => fail("too late: everything has been put back".to_owned(), REFUSED),
                Err(error) => fail(format!("too late: {error}"), REFUSED),
            };
        }
        State::Applied => {
            if let Err(error) = record.confirm() {
                return fail(error.to_string(), REFUSED);
            }
        }
    }
    let _ = writeln!(
        std::io::stdout(),
        "the settings of `{interface}` stay; `rtwire revert {interface}` puts them back"
    );
    ExitCode::SUCCESS
}

/// Waits until the time to confirm is over, and puts everything back unless it was confirmed. Ends as soon as there is
/// nothing to guard any more. It needs nothing from who started it, so it outlives a crash.
pub(crate) fn guard(arguments: &ConfirmArguments) -> ExitCode {
    const LOOK_EVERY: Duration = Duration::from_millis(200);
    // A session of its own: a terminal that is closed does not end it.
    change::own_session();
    let directory = change::default_directory();
    let mine = |record: &(change::Header, State, usize)| record.0.interface == arguments.interface;
    let Some((own, _, _)) = Record::list(&directory).into_iter().find(mine) else {
        return ExitCode::from(FAULTY);
    };
    let _ = writeln!(std::io::stdout(), "ready");
    let _ = std::io::stdout().flush();
    loop {
        match Record::list(&directory).into_iter().find(mine) {
            Some((header, State::Unfinished | State::Applied, _)) if header == own => {}
            // Confirmed, put back, or another's by now.
            _ => return ExitCode::SUCCESS,
        }
        if overdue(&own) {
            match Record::open(&directory, &arguments.interface) {
                Ok(Some(record)) if record.state != State::Confirmed && record.header == own => {
                    let undone = change::revert(&mut Netlink::new(), record, &mut |_, _| {});
                    return if undone.is_ok() {
                        ExitCode::SUCCESS
                    } else {
                        ExitCode::from(REFUSED)
                    };
                }
                // Somebody is at it: look again.
                Err(RecordError::Busy(_)) => {}
                _ => return ExitCode::SUCCESS,
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}
