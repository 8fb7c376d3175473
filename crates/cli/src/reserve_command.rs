//! `rtwire reserve`, `release`, `connections` and `explain`: one host's questions to the manager of its network.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rtwire_manager::{Answer, Ask, Carrier, Granted, Question, Reason, Refused, is_name};
use rtwire_managerd::{Asker, ManagerdError, read_key};
use rtwire_wire::{FRAME_OVERHEAD_OCTETS, wire_octets};

use crate::arguments::{nanoseconds, parse_duration, parse_rate, parse_size};
use crate::connection_text::{self, ConnectionReport, Report, Term};
use crate::manager_command::code_of;
use crate::output;

/// The manager refused.
const REFUSED: u8 = 1;
/// Wrong usage, or a faulty file.
const FAULTY: u8 = 2;
/// The manager did not answer: it may have decided.
const INCONCLUSIVE: u8 = 4;

/// The arguments by which a host reaches its manager.
#[derive(Args)]
struct ManagerAddress {
    /// The manager's address and UDP port; with managers that stand by, all of them with commas in between
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        value_delimiter = ',',
        required = true
    )]
    manager: Vec<SocketAddr>,
    /// The host that asks, as the plan names it
    #[arg(long, value_parser = host_name)]
    host: String,
    /// The key file of this host (mode 0600)
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The time within which the manager must answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    timeout: Duration,
    /// Print JSON (its schema: `rtwire schema connections`)
    #[arg(long)]
    json: bool,
}

fn host_name(text: &str) -> Result<String, String> {
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err("a host's name is 1 to 64 letters, digits, `-`, `_` and `.`".to_owned())
    }
}

/// The protocol that carries a connection.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum CarrierName {
    /// UDP and IPv4
    Udp,
    /// RTDiP directly on Ethernet
    Rtdip,
}

/// The limits of a connection's talker, from `--rate`, `--frame` and `--burst`.
pub(crate) struct Limits {
    /// The largest frame: header and payload without FCS, bytes.
    pub(crate) frame_bytes: u16,
    /// The rate of whole frames on the wire, bytes per millisecond; 0 where an interval decides.
    pub(crate) rate_bytes_per_ms: u32,
    /// The burst of whole frames on the wire, bytes.
    pub(crate) burst_bytes: u32,
}

impl Limits {
    /// Returns the limits of a rate in bit/s, and of a frame and a burst in bytes. Without a burst it is one frame, and what the
    /// rate brings in 1 ms.
    ///
    /// # Errors
    /// The option that is out of range, and the largest value that it may have.
    pub(crate) fn of(
        rate_bps: Option<u64>,
        frame_bytes: u64,
        burst_bytes: Option<u64>,
    ) -> Result<Limits, String> {
        let range = |what: &str, most: &str| format!("{what} is at most {most}");
        // A byte per millisecond is 8000 bit/s.
        let rate = rate_bps.unwrap_or(0).div_ceil(8_000);
        let frame_bytes = u16::try_from(frame_bytes).map_err(|_| range("a frame", "65535 B"))?;
        let wire = wire_octets(frame_bytes.into(), FRAME_OVERHEAD_OCTETS) as u64;
        let burst = burst_bytes.unwrap_or(wire + rate);
        Ok(Limits {
            frame_bytes,
            rate_bytes_per_ms: u32::try_from(rate).map_err(|_| range("a rate", "34 Tbit/s"))?,
            burst_bytes: u32::try_from(burst).map_err(|_| range("a burst", "4 GB"))?,
        })
    }
}

/// Arguments of `rtwire reserve`.
#[derive(Args)]
pub(crate) struct ReserveArguments {
    #[command(flatten)]
    address: ManagerAddress,
    /// The host that receives
    #[arg(long, value_name = "HOST", value_parser = host_name)]
    to: String,
    /// The rate on the wire: whole frames with headers, preamble and gap. Rounded up to 1 byte per millisecond
    #[arg(long, value_parser = parse_rate, required_unless_present = "interval")]
    rate: Option<u64>,
    /// One frame in each interval, at a launch offset that the manager chooses; rate and burst are at least what this needs
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    interval: Option<Duration>,
    /// The largest frame: header and payload without FCS
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    frame: u64,
    /// The burst on the wire; by default one frame, and what the rate brings in 1 ms
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    burst: Option<u64>,
    /// Priority code point, 7 most urgent
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=7))]
    priority: u8,
    /// The latest useful delay
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    deadline: Option<Duration>,
    /// The protocol that carries it
    #[arg(long, value_enum, default_value = "udp")]
    carrier: CarrierName,
    /// The VLAN id of its frames
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    /// The destination port; by default one that is free
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The source port; by default one that is free
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    source_port: Option<u16>,
    /// Ask only: show the answer, and reserve nothing
    #[arg(long)]
    only_ask: bool,
}

/// Arguments of `rtwire release`.
#[derive(Args)]
pub(crate) struct ReleaseArguments {
    /// The connection's number, from `rtwire reserve` or `rtwire connections`
    connection: u64,
    #[command(flatten)]
    address: ManagerAddress,
}

/// Arguments of `rtwire connections`.
#[derive(Args)]
pub(crate) struct ConnectionsArguments {
    #[command(flatten)]
    address: ManagerAddress,
}

/// Arguments of `rtwire explain`.
#[derive(Args)]
pub(crate) struct ExplainArguments {
    /// The connection's number
    connection: u64,
    #[command(flatten)]
    address: ManagerAddress,
}

/// The reason why there is no answer to print.
enum Fault {
    Usage(String),
    Manager(ManagerdError),
}

impl From<ManagerdError> for Fault {
    fn from(error: ManagerdError) -> Fault {
        Fault::Manager(error)
    }
}

fn ended(verb: &str, result: Result<u8, Fault>) -> ExitCode {
    let (code, message) = match result {
        Ok(code) => return ExitCode::from(code),
        Err(Fault::Usage(message)) => (FAULTY, message),
        Err(Fault::Manager(error @ ManagerdError::NoAnswer { .. })) => {
            (INCONCLUSIVE, error.to_string())
        }
        Err(Fault::Manager(error)) => (code_of(&error), error.to_string()),
    };
    eprintln!("rtwire {verb}: {message}");
    ExitCode::from(code)
}

impl ManagerAddress {
    fn asker(&self) -> Result<Asker, Fault> {
        let key = read_key(&self.key)?;
        Ok(Asker::new(&self.manager, &self.host, key)?)
    }

    /// Prints a report, or the text made from it.
    fn print(&self, report: &Report, text: &str) {
        if self.json {
            output::line(&connection_text::json(report));
        } else {
            output::print(text);
        }
    }

    /// Prints a refusal. Returns the exit code.
    fn refused(&self, verb: &str, no: &Refused) -> u8 {
        if self.json {
            let report = Report {
                refused: Some(no.into()),
                ..Report::default()
            };
            output::line(&connection_text::json(&report));
        } else {
            let later = match no.reason {
                Reason::Busy | Reason::TooOften => "; try again",
                _ => "",
            };
            eprintln!(
                "rtwire {verb}: refused ({}): {}{later}",
                no.reason.word(),
                no.text
            );
        }
        REFUSED
    }
}

fn unexpected(answer: &Answer) -> Fault {
    Fault::Usage(format!(
        "the manager answers something else than was asked: {answer:?}"
    ))
}

/// Reserves a connection.
pub(crate) fn reserve(arguments: &ReserveArguments) -> ExitCode {
    ended("reserve", reserved(arguments))
}

impl ReserveArguments {
    fn ask(&self) -> Result<Ask, Fault> {
        let limits = Limits::of(self.rate, self.frame, self.burst).map_err(Fault::Usage)?;
        Ok(Ask {
            listener: self.to.clone(),
            carrier: match self.carrier {
                CarrierName::Udp => Carrier::Udp,
                CarrierName::Rtdip => Carrier::Rtdip,
            },
            pcp: self.priority,
            vlan: self.vlan,
            frame_bytes: limits.frame_bytes,
            rate_bytes_per_ms: limits.rate_bytes_per_ms,
            burst_bytes: limits.burst_bytes,
            deadline_ns: self.deadline.map(nanoseconds),
            interval_ns: self.interval.map(nanoseconds),
            source_port: self.source_port.unwrap_or(0),
            port: self.port.unwrap_or(0),
        })
    }
}

fn reserved(arguments: &ReserveArguments) -> Result<u8, Fault> {
    let address = &arguments.address;
    let ask = arguments.ask()?;
    let mut asker = address.asker()?;
    let question = |request| Question::Reserve {
        request,
        only_ask: arguments.only_ask,
        ask: ask.clone(),
    };
    match asker.ask_until(&question, address.timeout)? {
        Answer::Granted(granted) => {
            let text = connection_text::granted(&granted);
            address.print(&Report::of([ConnectionReport::from(&granted)]), &text);
            Ok(0)
        }
        Answer::Refused(no) => Ok(address.refused("reserve", &no)),
        other => Err(unexpected(&other)),
    }
}

/// Releases a connection.
pub(crate) fn release(arguments: &ReleaseArguments) -> ExitCode {
    ended("release", released(arguments))
}

fn released(arguments: &ReleaseArguments) -> Result<u8, Fault> {
    let address = &arguments.address;
    let question = Question::Release {
        request: Asker::request()?,
        connection: arguments.connection,
    };
    match address.asker()?.ask(&question, address.timeout)? {
        Answer::Released { connection, epoch } => {
            let text = format!("connection {connection} is released; epoch {epoch}\n");
            let report = Report {
                released: Some(connection),
                epoch: Some(epoch),
                ..Report::default()
            };
            address.print(&report, &text);
            Ok(0)
        }
        Answer::Refused(no) => Ok(address.refused("release", &no)),
        other => Err(unexpected(&other)),
    }
}

/// Lists the connections that the host sends and hears.
pub(crate) fn connections(arguments: &ConnectionsArguments) -> ExitCode {
    ended("connections", listed(arguments))
}

fn listed(arguments: &ConnectionsArguments) -> Result<u8, Fault> {
    let address = &arguments.address;
    let mut asker = address.asker()?;
    let mut all: Vec<Granted> = Vec::new();
    loop {
        let question = Question::List {
            request: Asker::request()?,
            after: all.last().map_or(0, |last| last.connection),
        };
        match asker.ask(&question, address.timeout)? {
            Answer::Listing { connections, more } => {
                let is_empty = connections.is_empty();
                all.extend(connections);
                if !more || is_empty {
                    break;
                }
            }
            Answer::Refused(no) => return Ok(address.refused("connections", &no)),
            other => return Err(unexpected(&other)),
        }
    }
    let report = Report::of(all.iter().map(ConnectionReport::from));
    address.print(&report, &connection_text::list(&address.host, &all));
    Ok(0)
}

/// Explains the promise of a connection.
pub(crate) fn explain(arguments: &ExplainArguments) -> ExitCode {
    ended("explain", explained(arguments))
}

fn explained(arguments: &ExplainArguments) -> Result<u8, Fault> {
    let address = &arguments.address;
    let question = Question::Explain {
        request: Asker::request()?,
        connection: arguments.connection,
    };
    match address.asker()?.ask(&question, address.timeout)? {
        Answer::Explained { granted, hops } => {
            let report = Report {
                terms: hops.iter().map(Term::from).collect(),
                ..Report::of([ConnectionReport::from(&granted)])
            };
            address.print(&report, &connection_text::explained(&granted, &hops));
            Ok(0)
        }
        Answer::Refused(no) => Ok(address.refused("explain", &no)),
        other => Err(unexpected(&other)),
    }
}
