//! `rtwire channel`: a connection for a program, from the agent of this host. No privilege is needed.

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use rtwire_agent::{AgentClient, Channel, ClientError, DEFAULT_SOCKET, Reply, ReserveWish};
use rtwire_manager::{Ask, Carrier, Granted};
use rtwire_sys::clock::{self, Clock, Sleep};
use rtwire_sys::{Errno, signal};

use crate::agent_command::{client_code, is_silence};
use crate::arguments::{nanoseconds, parse_duration, parse_rate, parse_size};
use crate::channel_packets::Packets;
use crate::reserve_command::{CarrierName, Limits};
use crate::{connection_text, output};

/// Wrong usage.
const FAULTY: u8 = 2;
/// The agent, or something else of the host, is missing.
const LACKING: u8 = 3;
/// The manager did not answer.
const INCONCLUSIVE: u8 = 4;
/// The time between two looks at the agent and the program.
const LOOK: Duration = Duration::from_millis(20);

/// Arguments of `rtwire channel`.
#[derive(Args)]
pub(crate) struct ChannelArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Reserve a connection, and send a program's output or the lines of standard input on it
    ///
    /// With a command, its standard output is the connection's socket: each write is one datagram. The connection is released
    /// when the command ends.
    Send(SendArguments),
    /// Receive what a connection to this host brings
    ///
    /// With a command, its standard input is the connection's socket: each read is one datagram. Otherwise each datagram is
    /// printed as a line.
    Hear(HearArguments),
}

#[derive(Args)]
struct AgentAddress {
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    agent: PathBuf,
}

#[derive(Args)]
struct SendArguments {
    #[command(flatten)]
    agent: AgentAddress,
    /// The host that receives
    #[arg(long, value_name = "HOST")]
    to: String,
    /// The rate on the wire: whole frames with headers, preamble and gap. Rounded up to 1 byte per millisecond
    #[arg(long, value_parser = parse_rate, required_unless_present = "interval")]
    rate: Option<u64>,
    /// Send one frame in each interval, at the launch offset that the manager chooses
    ///
    /// Each line waits for its launch. A command has to keep the launches by itself.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    interval: Option<Duration>,
    /// The largest frame: header, tag and payload without FCS. A line may have 42 bytes less; with RTDiP 38, or 42 with a tag
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
    ///
    /// Each line is one packet. With `rtdip` and a command, each write begins with the header of RTDiP.
    #[arg(long, value_enum, default_value = "udp")]
    carrier: CarrierName,
    /// The VLAN id of its frames, with `--carrier rtdip`
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    /// The destination port; by default one that is free
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The command whose standard output is sent
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Args)]
struct HearArguments {
    /// The connection's number
    connection: u64,
    #[command(flatten)]
    agent: AgentAddress,
    /// The command that takes the datagrams as its standard input
    #[arg(last = true)]
    command: Vec<String>,
}

enum Fault {
    Usage(String),
    Agent(ClientError),
    System(String),
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Fault {
        Fault::Agent(error)
    }
}

/// Runs `rtwire channel`.
pub(crate) fn run(arguments: &ChannelArguments) -> ExitCode {
    let (verb, done) = match &arguments.action {
        Action::Send(arguments) => ("send", send(arguments)),
        Action::Hear(arguments) => ("hear", hear(arguments)),
    };
    let (code, message) = match done {
        Ok(code) => return ExitCode::from(code),
        Err(Fault::Usage(message)) => (FAULTY, message),
        Err(Fault::Agent(error)) if is_silence(&error) => (INCONCLUSIVE, error.to_string()),
        Err(Fault::Agent(error)) => (client_code(&error), error.to_string()),
        Err(Fault::System(message)) => (LACKING, message),
    };
    eprintln!("rtwire channel {verb}: {message}");
    ExitCode::from(code)
}

impl SendArguments {
    fn wish(&self) -> Result<ReserveWish, Fault> {
        let limits = Limits::of(self.rate, self.frame, self.burst).map_err(Fault::Usage)?;
        Ok(ReserveWish {
            to: self.to.clone(),
            priority: self.priority,
            frame_bytes: limits.frame_bytes,
            rate_bytes_per_ms: limits.rate_bytes_per_ms,
            burst_bytes: limits.burst_bytes,
            deadline_ns: self.deadline.map(nanoseconds),
            port: self.port.unwrap_or(0),
            source_port: 0,
            carrier: match self.carrier {
                CarrierName::Udp => rtwire_agent::Carrier::Udp,
                CarrierName::Rtdip => rtwire_agent::Carrier::Rtdip,
            },
            vlan: self.vlan,
            interval_ns: self.interval.map(nanoseconds),
        })
    }
}

fn system(what: &str) -> impl FnOnce(std::io::Error) -> Fault {
    let what = what.to_owned();
    move |error| Fault::System(format!("cannot {what}: {error}"))
}

fn send(arguments: &SendArguments) -> Result<u8, Fault> {
    let wish = arguments.wish()?;
    let stop = signal::install_stop_flag().map_err(|error| Fault::Usage(error.to_string()))?;
    let mut agent = AgentClient::connect(&arguments.agent.agent)?;
    let (channel, socket) = agent.reserve(wish)?;
    eprint!("{}", connection_text::granted(&granted_of(&channel)));
    if !arguments.command.is_empty() {
        let output = Stdio::from(OwnedFd::from(socket));
        let child = command(&arguments.command, |command| command.stdout(output))?;
        return attended(&mut agent, &channel, child);
    }
    let mut packets = Packets::of(&channel);
    let mut count = 0_u64;
    let mut launch_tai_ns = 0;
    for line in std::io::stdin().lock().lines() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let line = line.map_err(system("read standard input"))?;
        let most = packets.room();
        if line.len() > most {
            return Err(Fault::Usage(format!(
                "line {} has {} bytes, more than the {most} that a frame of {} B has room for: state a larger `--frame`",
                count + 1,
                line.len(),
                channel.frame_bytes
            )));
        }
        let earliest_tai_ns = clock::now_ns(Clock::Tai).max(launch_tai_ns + 1);
        if let Some(next_tai_ns) = channel.next_launch_tai_ns(earliest_tai_ns) {
            launch_tai_ns = next_tai_ns;
            if !reached(launch_tai_ns, stop)? {
                break;
            }
        }
        let refused =
            |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
        // An earlier datagram found no listener: that is told by the next call, which sends nothing.
        let datagram = packets.datagram(line.as_bytes());
        let sent = match socket.send(datagram) {
            Err(error) if refused(&error) => socket.send(datagram),
            other => other,
        };
        match sent {
            Err(error) if !refused(&error) && !is_dropped(&error) => {
                return Err(system("send")(error));
            }
            _ => count += 1,
        }
    }
    agent_counts(&mut agent, &channel)?;
    agent.release(channel.connection)?;
    Ok(0)
}

/// Sleeps until a launch. Returns false if the program is to end before.
fn reached(launch_tai_ns: u64, stop: &AtomicBool) -> Result<bool, Fault> {
    while !stop.load(Ordering::Relaxed) {
        let slept = clock::sleep_until(Clock::Tai, launch_tai_ns);
        // Another signal than that to end, such as SIGCONT, only shortens the sleep.
        match slept.map_err(|error| system("wait for the launch")(error.into()))? {
            Sleep::Reached => return Ok(true),
            Sleep::Interrupted => {}
        }
    }
    Ok(false)
}

/// True if the connection's queue was full. Only a socket of RTDiP is told so; for one of UDP the same happens without a word.
fn is_dropped(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::QUEUE_FULL.0)
}

/// Returns a channel as the manager has granted it.
fn granted_of(channel: &Channel) -> Granted {
    Granted {
        connection: channel.connection,
        epoch: channel.epoch,
        talker: channel.talker.clone(),
        ask: Ask {
            listener: channel.listener.clone(),
            carrier: match channel.carrier {
                rtwire_agent::Carrier::Udp => Carrier::Udp,
                rtwire_agent::Carrier::Rtdip => Carrier::Rtdip,
            },
            pcp: channel.priority,
            vlan: channel.vlan,
            frame_bytes: channel.frame_bytes,
            rate_bytes_per_ms: channel.rate_bytes_per_ms,
            burst_bytes: channel.burst_bytes,
            deadline_ns: channel.deadline_ns,
            interval_ns: channel.interval_ns,
            source_port: channel.source_port,
            port: channel.port,
        },
        promise_ns: channel.promise_ns,
        launch_offset_ns: channel.launch_offset_ns,
        number: channel.number,
        key: channel.key,
    }
}

fn hear(arguments: &HearArguments) -> Result<u8, Fault> {
    let stop = signal::install_stop_flag().map_err(|error| Fault::Usage(error.to_string()))?;
    let mut agent = AgentClient::connect(&arguments.agent.agent)?;
    let (channel, socket) = agent.listen(arguments.connection)?;
    eprintln!(
        "connection {} from \"{}\": port {}",
        channel.connection, channel.talker, channel.port
    );
    if !arguments.command.is_empty() {
        let input = Stdio::from(OwnedFd::from(socket));
        let child = command(&arguments.command, |command| command.stdin(input))?;
        return attended(&mut agent, &channel, child);
    }
    socket
        .set_read_timeout(Some(LOOK))
        .map_err(system("wait for datagrams"))?;
    let mut buffer = [0; 65_536];
    let packets = Packets::of(&channel);
    while !stop.load(Ordering::Relaxed) && !agent.has_ended() {
        match socket.recv(&mut buffer) {
            Ok(count) => match packets.line(&buffer[..count]) {
                Ok(line) => output::line(&String::from_utf8_lossy(line)),
                Err(error) => eprintln!("connection {}: {error}", channel.connection),
            },
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(system("receive")(error)),
        }
        if output::is_lost() {
            break;
        }
    }
    if agent.has_ended() {
        return Err(ended());
    }
    agent_counts(&mut agent, &channel)?;
    Ok(0)
}

fn ended() -> Fault {
    Fault::Agent(ClientError::Gone {
        error: std::io::ErrorKind::UnexpectedEof.into(),
    })
}

fn command(
    words: &[String],
    with: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<Child, Fault> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| Fault::Usage("there is no command".to_owned()))?;
    let mut command = Command::new(program);
    with(command.args(arguments))
        .spawn()
        .map_err(|error| Fault::Usage(format!("cannot run `{program}`: {error}")))
}

/// Waits for a program, and ends it when the agent has gone or a signal came. Returns its exit code.
fn attended(agent: &mut AgentClient, channel: &Channel, mut child: Child) -> Result<u8, Fault> {
    let stop = signal::stop_flag();
    loop {
        if let Some(status) = child.try_wait().map_err(system("wait for the command"))? {
            agent_counts(agent, channel)?;
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(code.unwrap_or(LACKING));
        }
        let gone = agent.has_ended();
        if gone || stop.load(Ordering::Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return if gone { Err(ended()) } else { Ok(INCONCLUSIVE) };
        }
        std::thread::sleep(LOOK);
    }
}

/// Says what the channel has carried.
fn agent_counts(agent: &mut AgentClient, channel: &Channel) -> Result<(), Fault> {
    let Reply::Counts {
        frames,
        foreign,
        too_much,
        ..
    } = agent.counts(channel.connection)?
    else {
        return Ok(());
    };
    let mut text = format!("connection {}: {frames} frames", channel.connection);
    if foreign > 0 {
        let _ = write!(
            text,
            ", {foreign} that were not the connection's were dropped"
        );
    }
    if too_much > 0 {
        let _ = write!(text, ", {too_much} beyond the contract were dropped");
    }
    eprintln!("{text}");
    Ok(())
}
