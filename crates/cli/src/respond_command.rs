//! `rtwire respond`: answers that leave from the driver.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rtwire_link::program::{
    Attach, ChannelCounters, ProgramConfig, ProgramError, ReceiveProgram, Responder, XdpMode,
};
use rtwire_link::responder::PacketResponder;
use rtwire_link::{LinkError, WakeUp};
use rtwire_sys::{interface, sched, signal};

use crate::{interrupted, output};

/// The time between checks that the interface still exists.
const LOOK: Duration = Duration::from_millis(100);

/// The arguments of `rtwire respond`.
#[derive(Args)]
pub(crate) struct RespondArguments {
    /// The interface to answer on
    interface: String,
    /// The RTDiP port to answer at, below 49152
    #[arg(long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// The channel key; questions with another key are dropped
    #[arg(long, default_value_t = 0)]
    key: u32,
    /// The answer's text; without it and `--file`, the question's own data
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    content: Option<String>,
    /// A file with the answer, at most 1476 bytes
    #[arg(long)]
    file: Option<PathBuf>,
    /// The place to answer from; `auto` takes the driver if possible, otherwise a packet socket, and reports its choice
    #[arg(long, value_enum, default_value_t = Path::Auto)]
    path: Path,
    /// The mode of XDP; `best` is native if the driver supports it
    #[arg(long, value_enum, default_value_t = Mode::Best)]
    mode: Mode,
    /// Answer on this core only (with `--path packet`; the kernel chooses the core of a driver)
    #[arg(long, value_name = "CORE")]
    cpu: Option<usize>,
    /// Print reports as JSON
    #[arg(long)]
    json: bool,
}

/// The default port of `respond` and `ping`.
pub(crate) const DEFAULT_PORT: u16 = 2007;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Path {
    /// The driver if possible
    Auto,
    /// The driver
    Xdp,
    /// A packet socket and this process
    Packet,
}

/// The mode of XDP that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Best,
    Native,
    Generic,
}

impl Mode {
    pub(crate) const fn attach(self) -> Attach {
        match self {
            Self::Best => Attach::Best,
            Self::Native => Attach::Only(XdpMode::Native),
            Self::Generic => Attach::Only(XdpMode::Generic),
        }
    }
}

enum Work {
    Xdp(ReceiveProgram, Responder),
    Packet(Box<PacketResponder>),
}

/// Runs `rtwire respond` until it is stopped.
pub(crate) fn run(arguments: &RespondArguments) -> ExitCode {
    match respond(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}

type Failure = (u8, String);

/// Returns the exit code and the message of an error.
pub(crate) fn failure(error: &ProgramError) -> Failure {
    let wrong_usage = matches!(
        error,
        ProgramError::AskingPort { .. } | ProgramError::TooLong { .. }
    );
    let hint = if error.is_in_use() {
        "\nhelp: `--path packet` answers without XDP"
    } else {
        ""
    };
    (if wrong_usage { 2 } else { 3 }, format!("{error}{hint}"))
}

fn respond(arguments: &RespondArguments) -> Result<(), Failure> {
    let content = match (&arguments.content, &arguments.file) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(path)) => Some(
            std::fs::read(path)
                .map_err(|error| (2, format!("cannot read `{}`: {error}", path.display())))?,
        ),
        (None, None) => None,
    };
    let system = |error: rtwire_sys::Error| (3, error.to_string());
    // Before anything is attached: a signal in between ends the process, and the program is removed with it.
    let stop = signal::install_stop_flag().map_err(system)?;
    let report = signal::install_report_flag().map_err(system)?;
    let mac = interface::by_name(&arguments.interface)
        .map_err(system)?
        .mac;
    if let Some(cpu) = arguments.cpu {
        if arguments.path != Path::Packet {
            let message = "--cpu is for `--path packet`: the kernel chooses the core that answers from the driver";
            return Err((2, message.to_owned()));
        }
        sched::set_cpu(cpu).map_err(system)?;
    }
    let (mut work, said) = open(arguments, content.as_deref()).map_err(|error| failure(&error))?;
    let mac = rtwire_wire::MacAddress(mac);
    eprintln!(
        "answering on {} ({mac}), port {}: {said}",
        arguments.interface, arguments.port
    );

    let ended = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        if report.swap(false, Ordering::Relaxed) {
            print(arguments, &work);
        }
        if let Err(message) = work.go_on(&arguments.interface) {
            break Err((3, message));
        }
    };
    print(arguments, &work);
    if ended.is_ok() {
        interrupted::say(&format!("{} answers", work.counters().accepted));
    }
    ended
}

fn open(
    arguments: &RespondArguments,
    content: Option<&[u8]>,
) -> Result<(Work, String), ProgramError> {
    let RespondArguments {
        interface,
        port,
        key,
        ..
    } = arguments;
    let packet = || -> Result<Work, ProgramError> {
        let responder = PacketResponder::open(interface, WakeUp::Block, *port, *key, content)?;
        Ok(Work::Packet(Box::new(responder)))
    };
    if arguments.path == Path::Packet {
        return Ok((packet()?, "packet socket, as asked".to_owned()));
    }
    let config = ProgramConfig {
        attach: arguments.mode.attach(),
        ..ProgramConfig::new(interface.as_str())
    };
    let from_driver = ReceiveProgram::with(&config).and_then(|program| {
        let responder = program.respond_channel(*port, *key, content)?;
        Ok((program, responder))
    });
    match from_driver {
        Ok((program, responder)) => {
            let mut said = format!("from the driver, XDP in {} mode", program.mode());
            if let Some(why) = program.why_generic() {
                said += &format!(" (native: {why})");
            }
            Ok((Work::Xdp(program, responder), said))
        }
        Err(error) if arguments.path == Path::Auto && (error.is_lacking() || error.is_in_use()) => {
            Ok((
                packet()?,
                format!("packet socket, since the driver cannot answer: {error}"),
            ))
        }
        Err(error) => Err(error),
    }
}

impl Work {
    /// Answers for a moment, or waits while the kernel answers.
    fn go_on(&mut self, interface: &str) -> Result<(), String> {
        match self {
            Self::Xdp(program, _) => {
                std::thread::sleep(LOOK);
                match program.is_attached() {
                    Ok(true) => Ok(()),
                    Ok(false)
                        if interface::by_name(interface)
                            .is_ok_and(|i| i.index == program.interface().index) =>
                    {
                        Err(format!(
                            "another program detached the XDP program from interface `{interface}`; start again to \
                             attach it"
                        ))
                    }
                    Ok(false) => Err(LinkError::InterfaceGone {
                        interface: interface.to_owned(),
                    }
                    .to_string()),
                    Err(errno) => Err(format!(
                        "cannot see whether the XDP program is still attached: {errno}"
                    )),
                }
            }
            Self::Packet(responder) => match responder.answer_one(LOOK) {
                Ok(_) => Ok(()),
                // An interface that is down may come up again; one that is gone will not.
                Err(LinkError::InterfaceDown { .. }) => {
                    std::thread::sleep(LOOK);
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            },
        }
    }

    fn counters(&self) -> ChannelCounters {
        match self {
            Self::Xdp(_, responder) => responder.counters(),
            Self::Packet(responder) => responder.counters(),
        }
    }
}

fn print(arguments: &RespondArguments, work: &Work) {
    let counters = work.counters();
    let (path, mode) = match work {
        Work::Xdp(program, _) => ("xdp", Some(program.mode().to_string())),
        Work::Packet(_) => ("packet", None),
    };
    if arguments.json {
        let json = serde_json::json!({
            "interface": arguments.interface, "port": arguments.port, "path": path, "mode": mode,
            "answered": counters.accepted, "wrong_key": counters.wrong_key,
            "no_question": counters.no_question, "unanswered": counters.unanswered,
            "no_room": counters.no_room,
        });
        output::line(&json.to_string());
        return;
    }
    output::line(&format!(
        "answered {}, wrong key {}, not from an asking port {}, unanswered {}",
        counters.accepted, counters.wrong_key, counters.no_question, counters.unanswered
    ));
    if counters.no_room > 0 {
        output::line(&format!(
            "no room for the answer in {} frames: the driver does not let them grow that far; send longer questions \
             (`rtwire ping --room`), or answer with `--path packet`",
            counters.no_room
        ));
    }
}
