//! `rtwire sniff CAPTURE|INTERFACE`: the messages of OPC UA PubSub, field by field, from a file or live.

mod frame;
mod show;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use rtwire_measure::capture::{Packet, Reader};
use rtwire_sys::filter::{Filter, Instruction, Test};
use rtwire_sys::stamps::StampSource;
use rtwire_sys::{interface, signal};
use rtwire_wire::EtherType;
use rtwire_wire::uadp::{SIGNATURE_OCTETS, UDP_PORT};

use crate::arguments::parse_duration;
use crate::live_frames::{Live, Wanted};
use crate::{interrupted, output};
use frame::{Carried, Frame};
use show::Shown;

/// A message has a fault.
const BROKEN: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;
/// The host lacks something.
const LACKING: u8 = 3;
/// There is no message.
const INCONCLUSIVE: u8 = 4;

/// Arguments of `rtwire sniff`.
#[derive(Args)]
pub(crate) struct SniffArguments {
    /// A capture (pcap or pcapng, of any program), `-` for one on standard input, or an interface
    #[arg(value_name = "CAPTURE|INTERFACE")]
    source: String,
    /// The UDP port of messages, beside EtherType 0xb62c; may be repeated
    #[arg(long, value_name = "PORT", default_values_t = [UDP_PORT])]
    port: Vec<u16>,
    /// The time to listen on an interface; without it, until Ctrl-C or --count
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// End after this number of messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The length of a signature in bytes, where messages are signed; no field states it
    #[arg(long, value_name = "BYTES", default_value_t = SIGNATURE_OCTETS as u16)]
    signature: u16,
    /// One line for each message, and its faults
    #[arg(long, conflicts_with = "json")]
    brief: bool,
    /// Print one line of JSON for each message (its schema: `rtwire schema sniff`)
    #[arg(long)]
    json: bool,
}

type Failure = (u8, String);

/// Shows what is asked for, and counts it.
struct Sniffer<'a> {
    arguments: &'a SniffArguments,
    packets: u64,
    messages: u64,
    with_faults: u64,
    fragments: u64,
}

impl Sniffer<'_> {
    /// Shows the message of a packet, if it has one. Returns false when enough was shown.
    fn packet(&mut self, packet: &Packet<'_>, tag: Option<u16>) -> bool {
        self.packets += 1;
        let Some(mut frame) = Frame::new(packet.link_type, packet.data, &self.arguments.port)
        else {
            return true;
        };
        if let Some(tag) = tag {
            frame.tag = Some(tag);
        }
        match frame.carried {
            Carried::Message { .. } => {}
            Carried::Fragment => {
                self.fragments += 1;
                return true;
            }
        }
        let cut = (packet.original_octets as usize).saturating_sub(packet.data.len());
        let shown = Shown::new(packet, &frame, usize::from(self.arguments.signature), cut);
        self.messages += 1;
        self.with_faults += u64::from(!shown.faults.is_empty());
        output::print(&if self.arguments.json {
            shown.to_json()
        } else {
            shown.to_text(self.arguments.brief)
        });
        !output::is_lost()
            && self
                .arguments
                .count
                .is_none_or(|count| self.messages < count)
    }
}

/// Runs `rtwire sniff`.
pub(crate) fn run(arguments: &SniffArguments) -> ExitCode {
    match sniff(arguments) {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            eprintln!("rtwire sniff: {message}");
            ExitCode::from(code)
        }
    }
}

fn sniff(arguments: &SniffArguments) -> Result<u8, Failure> {
    let mut sniffer = Sniffer {
        arguments,
        packets: 0,
        messages: 0,
        with_faults: 0,
        fragments: 0,
    };
    let path = Path::new(&arguments.source);
    let mut cut = false;
    if arguments.source == "-" {
        read("standard input", io::stdin().lock(), &mut sniffer)?;
    } else if path.exists() {
        let file = File::open(path)
            .map_err(|error| (FAULTY, format!("cannot read `{}`: {error}", path.display())))?;
        read(&arguments.source, file, &mut sniffer)?;
    } else if interface::by_name(&arguments.source).is_ok() {
        let stop = signal::install_stop_flag().map_err(|error| (LACKING, error.to_string()))?;
        let mut live = Live::open(&arguments.source, &wanted()?)?;
        let begun = Instant::now();
        let over = || arguments.duration.is_some_and(|d| begun.elapsed() >= d);
        while !stop.load(Ordering::Relaxed) && !over() {
            if !live.take(&mut |packet, tag| sniffer.packet(packet, tag))? {
                break;
            }
        }
        for note in live.into_notes()? {
            eprintln!("{note}");
        }
        if stop.load(Ordering::Relaxed) {
            interrupted::say(&interrupted::time(begun.elapsed(), arguments.duration));
            cut = arguments.duration.is_some();
        }
    } else {
        return Err((
            FAULTY,
            format!(
                "`{}` is neither a file nor an interface here; look at `ls` and `ip link`",
                arguments.source
            ),
        ));
    }
    end(&sniffer, cut)
}

/// The frames to look into.
fn wanted() -> Result<Wanted, Failure> {
    Ok(Wanted {
        stamps: StampSource::Software,
        filter: filter().map_err(|error| (LACKING, error.to_string()))?,
        tags: true,
        // More than any Ethernet frame has, and a UDP datagram that the card has put together.
        frame_bytes: 66_000,
        batch: 64,
        waiting_bytes: 16 << 20,
    })
}

/// Passes UADP, UDP, and what is behind a VLAN tag.
fn filter() -> Result<Filter, rtwire_sys::Error> {
    let equal = |number: u32, yes, no| Instruction::Jump {
        test: Test::Equal(number),
        yes,
        no,
    };
    Filter::new(&[
        Instruction::LoadHalf(12),
        equal(EtherType::UADP.0.into(), 8, 0),
        equal(EtherType::VLAN.0.into(), 7, 0),
        equal(0x88a8, 6, 0),
        equal(EtherType::IPV4.0.into(), 1, 0),
        equal(0x86dd, 2, 5),
        // The protocol of IPv4, and the next header of IPv6.
        Instruction::LoadByte(23),
        equal(17, 2, 3),
        Instruction::LoadByte(20),
        equal(17, 0, 1),
        Instruction::Accept,
        Instruction::Reject,
    ])
}

/// Says what was left out, and returns the exit code.
fn end(sniffer: &Sniffer<'_>, cut: bool) -> Result<u8, Failure> {
    if sniffer.fragments > 0 {
        eprintln!(
            "{} fragments of UDP datagrams were left out: they are not put together here",
            sniffer.fragments
        );
    }
    if sniffer.messages == 0 {
        let ports: Vec<String> = sniffer.arguments.port.iter().map(u16::to_string).collect();
        return Err((
            INCONCLUSIVE,
            format!(
                "no message in {} packets: none of EtherType 0xb62c or UDP port {}; try `--port`",
                sniffer.packets,
                ports.join(", ")
            ),
        ));
    }
    let code = if sniffer.with_faults > 0 {
        eprintln!(
            "{} of {} messages have faults",
            sniffer.with_faults, sniffer.messages
        );
        BROKEN
    } else {
        0
    };
    Ok(interrupted::code(code, cut))
}

/// Shows the messages of a capture.
fn read(name: &str, input: impl Read, sniffer: &mut Sniffer<'_>) -> Result<(), Failure> {
    let faulty =
        |error: rtwire_measure::capture::CaptureError| (FAULTY, format!("{name}: {error}"));
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, input)).map_err(faulty)?;
    while let Some(packet) = reader.next_packet().map_err(faulty)? {
        if !sniffer.packet(&packet, None) {
            break;
        }
    }
    Ok(())
}

/// Returns the JSON Schema of a line of `rtwire sniff --json`.
pub(crate) fn json_schema() -> serde_json::Value {
    show::json_schema()
}
