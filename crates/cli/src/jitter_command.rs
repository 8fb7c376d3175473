//! `rtwire jitter CAPTURE|INTERFACE`: the jitter of a POWERLINK cycle, from a file or live.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use rtwire_measure::capture::{CaptureError, Reader};
use rtwire_measure::jitter::compare::{self, Comparison, Way};
use rtwire_measure::jitter::{ETHER_TYPE, Follower, JitterReport, Neighbourhood, Settings};
use rtwire_measure::report::Machine;
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::stamps::StampSource;
use rtwire_sys::{interface, signal};

use crate::arguments::{Stamps, nanoseconds, parse_duration, parse_rate};
use crate::live_frames::{Live, Wanted};
use crate::{interrupted, output};

/// A limit was not kept.
const BROKEN: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The host lacks something.
const LACKING: u8 = 3;
/// There is nothing to measure.
const INCONCLUSIVE: u8 = 4;

/// Arguments of `rtwire jitter`.
#[derive(Args)]
pub(crate) struct JitterArguments {
    /// A capture (pcap or pcapng, of any program), `-` for one on standard input, or an interface
    #[arg(value_name = "CAPTURE|INTERFACE")]
    source: String,
    /// The time to listen on an interface; without it, until Ctrl-C
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// The place that stamps the frames of an interface
    #[arg(long, value_enum, default_value = "software")]
    stamps: Stamps,
    /// The reference cycle for deviations; without it, the round number next to the median of the intervals
    #[arg(long, value_parser = parse_duration)]
    cycle: Option<Duration>,
    /// The rate of the link, to compute the time of frames on the wire
    #[arg(long, default_value = "100Mbit/s", value_parser = parse_rate)]
    rate: u64,
    /// Exit with 1 if a SoC deviates more than this from its cycle
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    limit_soc: Option<Duration>,
    /// Exit with 1 if a PRes takes longer than this, or is missing
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    limit_pres: Option<Duration>,
    /// Write the frames around the worst cases as a capture (pcapng, with comments)
    #[arg(long, value_name = "FILE")]
    worst_to: Option<PathBuf>,
    /// The number of worst cases of each kind
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    worst: u16,
    /// Packets to keep before and after each of them
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=10_000))]
    around: u16,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Compare with another capture, in the report: distributions and histograms of both, side by side
    #[arg(long, value_name = "CAPTURE", requires = "report")]
    beside: Option<PathBuf>,
    /// Print JSON (its schema: `rtwire schema jitter`)
    #[arg(long)]
    json: bool,
    /// Measure up to the place where a file is damaged or cut off
    #[arg(long)]
    partial: bool,
}

type Failure = (u8, String);

/// Runs `rtwire jitter`.
pub(crate) fn run(arguments: &JitterArguments) -> ExitCode {
    match jitter(arguments) {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            eprintln!("rtwire jitter: {message}");
            ExitCode::from(code)
        }
    }
}

fn jitter(arguments: &JitterArguments) -> Result<u8, Failure> {
    let settings = Settings {
        cycle_ns: arguments.cycle.map(nanoseconds),
        link_rate_bps: arguments.rate,
        worst: arguments.worst.into(),
        around: arguments.around.into(),
    };
    let mut follower = Follower::new(settings);
    let mut notes = Vec::new();
    let mut cut = false;
    let mut stamps = None;
    let path = Path::new(&arguments.source);
    if arguments.stamps == Stamps::Hardware && (arguments.source == "-" || path.exists()) {
        let message =
            "--stamps is for an interface: a capture has the stamps that it was written with";
        return Err((FAULTY, message.to_owned()));
    }
    let beside = beside(arguments, settings)?;
    let format = if arguments.source == "-" {
        let input = io::stdin().lock();
        read(
            arguments,
            "standard input",
            input,
            &mut follower,
            &mut notes,
        )?
    } else if path.exists() {
        let file = open(path)?;
        read(
            arguments,
            &arguments.source,
            file,
            &mut follower,
            &mut notes,
        )?
    } else if interface::by_name(&arguments.source).is_ok() {
        let stop = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
        let mut live = live(&arguments.source, arguments.stamps.into())?;
        let begun = Instant::now();
        listen(&mut live, &mut follower, arguments.duration, stop)?;
        stamps = Some(live.stamps());
        notes = live.into_notes()?;
        if stop.load(Ordering::Relaxed) {
            let done = interrupted::time(begun.elapsed(), arguments.duration);
            interrupted::say(&done);
            notes.push(interrupted::sentence(&done));
            cut = arguments.duration.is_some();
        }
        "live".to_owned()
    } else {
        return Err((
            FAULTY,
            format!(
                "`{}` is neither a file nor an interface here; look at `ls` and `ip link`",
                arguments.source
            ),
        ));
    };
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let machine = Machine::this(env!("CARGO_PKG_VERSION"));
    let (mut report, around) = follower.finish(&arguments.source, &format, &command, machine);
    report.notes.splice(0..0, notes);
    report.stamps = stamps;
    let kept = report.judge(
        arguments.limit_soc.map(nanoseconds),
        arguments.limit_pres.map(nanoseconds),
    );
    let written = show(arguments, &report, beside.as_ref(), &around)?;
    if report.soc.is_none() && report.latency_ns.is_none() {
        return Err((INCONCLUSIVE, nothing(&report)));
    }
    let code = interrupted::code(if kept { 0 } else { BROKEN }, cut);
    match written {
        Ok(()) => Ok(code),
        Err(message) => Err((output::unwritten(code), message)),
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| (FAULTY, format!("cannot read `{}`: {error}", path.display())))
}

/// Measures the capture to compare with, if there is one.
fn beside(
    arguments: &JitterArguments,
    settings: Settings,
) -> Result<Option<JitterReport>, Failure> {
    let Some(path) = &arguments.beside else {
        return Ok(None);
    };
    let name = path.display().to_string();
    let mut follower = Follower::new(settings);
    let mut notes = Vec::new();
    let format = read(arguments, &name, open(path)?, &mut follower, &mut notes)?;
    let machine = Machine::this(env!("CARGO_PKG_VERSION"));
    let (mut report, _) = follower.finish(&name, &format, "", machine);
    report.notes.splice(0..0, notes);
    if report.soc.is_none() && report.latency_ns.is_none() {
        return Err((INCONCLUSIVE, format!("{name}: {}", nothing(&report))));
    }
    Ok(Some(report))
}

/// Describes a capture in which nothing can be measured.
fn nothing(report: &JitterReport) -> String {
    let frames = &report.frames;
    format!(
        "nothing to measure: {} packets, {} of POWERLINK (EtherType 0x88ab), {} SoC, {} PReq",
        frames.packets,
        frames.packets - frames.not_powerlink,
        frames.soc,
        frames.preq
    )
}

/// Reads a capture and returns the name of its format.
fn read(
    arguments: &JitterArguments,
    name: &str,
    input: impl Read,
    follower: &mut Follower,
    notes: &mut Vec<String>,
) -> Result<String, Failure> {
    let faulty = |error: &CaptureError| (FAULTY, format!("{name}: {error}"));
    let mut reader =
        Reader::new(BufReader::with_capacity(1 << 20, input)).map_err(|error| faulty(&error))?;
    let format = reader.format().to_string();
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => follower.packet(&packet),
            Ok(None) => return Ok(format),
            Err(error) if arguments.partial => {
                notes.push(format!(
                    "Only the part before the fault was measured: {error}."
                ));
                return Ok(format);
            }
            Err(error) => {
                let (code, message) = faulty(&error);
                return Err((
                    code,
                    format!("{message}\nhelp: `--partial` measures the part before"),
                ));
            }
        }
    }
}

/// Opens an interface for the frames of POWERLINK.
pub(crate) fn live(name: &str, stamps: StampSource) -> Result<Live, Failure> {
    let filter = Filter::new(&[
        Instruction::LoadHalf(12),
        Instruction::Jump {
            test: Test::Equal(ETHER_TYPE.into()),
            yes: 0,
            no: 1,
        },
        Instruction::Accept,
        Instruction::Reject,
    ])
    .map_err(|error| (LACKING, error.to_string()))?;
    let wanted = Wanted {
        filter,
        stamps,
        tags: false,
        frame_bytes: 1536,
        batch: 256,
        waiting_bytes: 64 << 20,
    };
    Live::open(name, &wanted)
}

/// Listens for a time, or until stopped; shows its progress on a terminal.
pub(crate) fn listen(
    live: &mut Live,
    follower: &mut Follower,
    duration: Option<Duration>,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let shown = io::stderr().is_terminal() && duration.is_none_or(|d| d.as_secs() > 1);
    let mut next_show = Duration::ZERO;
    loop {
        let elapsed = begun.elapsed();
        if stop.load(Ordering::Relaxed) || duration.is_some_and(|duration| elapsed >= duration) {
            break;
        }
        if shown && elapsed >= next_show {
            next_show = elapsed + Duration::from_millis(500);
            eprint!(
                "\r{} s, {} SoC (Ctrl-C ends and reports)",
                elapsed.as_secs(),
                follower.socs()
            );
        }
        let taken = live.take(&mut |packet, _| {
            follower.packet(packet);
            true
        })?;
        if !taken {
            break;
        }
    }
    if shown {
        eprint!("\r\x1b[K");
    }
    Ok(())
}

fn show(
    arguments: &JitterArguments,
    report: &JitterReport,
    beside: Option<&JitterReport>,
    around: &Neighbourhood,
) -> Result<Result<(), String>, Failure> {
    let text = if arguments.json {
        serde_json::to_string_pretty(report)
            .map(|text| text + "\n")
            .map_err(|fault| (LACKING, fault.to_string()))?
    } else {
        report.print_text()
    };
    // The tables first: a file that cannot be written must not cost the measurement.
    output::print(&text);
    Ok(write_files(arguments, report, beside, around))
}

/// Writes the files that were asked for.
fn write_files(
    arguments: &JitterArguments,
    report: &JitterReport,
    beside: Option<&JitterReport>,
    around: &Neighbourhood,
) -> Result<(), String> {
    if let Some(path) = &arguments.report {
        let page = match beside {
            Some(beside) => compared(report, beside),
            None => report.to_html(),
        };
        output::replace(path, &page)?;
    }
    if let Some(path) = &arguments.worst_to {
        output::replace_with(path, |file| around.write(BufWriter::new(file)))?;
    }
    Ok(())
}

/// Returns both captures on one page.
fn compared(report: &JitterReport, beside: &JitterReport) -> String {
    let title = format!("{} beside {}", report.source, beside.source);
    let comparison = Comparison {
        title: "Both captures".to_owned(),
        ways: [report, beside].map(|report| Way {
            name: report.source.as_str(),
            report: Some(report),
        }),
    };
    compare::to_html(&title, &[comparison], &report.command, &report.machine)
}
