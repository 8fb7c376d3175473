//! `rtwire attach` and `rtwire detach`: the receive program stays at an interface, whoever starts and stops.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use rtwire_link::program::{self, ProgramConfig, ProgramError, ReceiveProgram};
use rtwire_sys::carrier::carrier;
use rtwire_sys::interface;

use crate::output;
use crate::respond_command::Mode;

/// The arguments of `rtwire attach`.
#[derive(Args)]
pub(crate) struct AttachArguments {
    /// The interface that receives
    interface: String,
    /// The mode of XDP; `best` is native if the driver supports it
    #[arg(long, value_enum, default_value_t = Mode::Best)]
    mode: Mode,
}

/// The arguments of `rtwire detach`.
#[derive(Args)]
pub(crate) struct DetachArguments {
    /// The interface that `rtwire attach` was called for
    interface: String,
}

/// Something is missing on the host, or another program is there.
const LACKING: u8 = 3;

/// Runs `rtwire attach`: ends as soon as the program is attached and the link is back.
pub(crate) fn attach(arguments: &AttachArguments) -> ExitCode {
    done(attached(arguments))
}

/// Runs `rtwire detach`.
pub(crate) fn detach(arguments: &DetachArguments) -> ExitCode {
    let name = &arguments.interface;
    done(program::release(name).map(|held| {
        if held {
            format!(
                "{name}: the receive program is detached as soon as no listener and no responder has it open"
            )
        } else {
            format!("{name}: `rtwire attach` holds no program there")
        }
    }))
}

fn done(result: Result<String, ProgramError>) -> ExitCode {
    match result {
        Ok(said) => {
            output::line(&said);
            ExitCode::SUCCESS
        }
        Err(error) => {
            let hint = if error.is_in_use() {
                "\nhelp: if it is a receive program of another version of rtwire, end its listeners and `rtwire detach`"
            } else {
                ""
            };
            eprintln!("error: {error}{hint}");
            ExitCode::from(LACKING)
        }
    }
}

fn attached(arguments: &AttachArguments) -> Result<String, ProgramError> {
    let name = arguments.interface.as_str();
    let interface = interface::by_name(name)?;
    let before = carrier(&interface)?;
    let start = Instant::now();
    let program = ReceiveProgram::with(&ProgramConfig {
        attach: arguments.mode.attach(),
        ..ProgramConfig::new(name)
    })?;
    let held = program.hold()?;
    let after = carrier(&interface)?;
    let driver = interface::driver(name)?.unwrap_or_else(|| "unknown driver".to_owned());
    let mut said = format!(
        "{name} ({driver}): the receive program is attached in {} mode",
        program.mode()
    );
    if program.is_joined() {
        said += ", and was before";
    }
    if let Some(why) = program.why_generic() {
        said += &format!(" (native: {why})");
    }
    let changes = after.changes.wrapping_sub(before.changes);
    if changes > 0 {
        said += &format!(
            "; the driver took the link down for that ({changes} changes), and {} after {:.1} s",
            if after.on {
                "it was back"
            } else {
                "it is not back"
            },
            start.elapsed().as_secs_f64()
        );
    }
    Ok(format!("{said}\nheld by {}", held.display()))
}
