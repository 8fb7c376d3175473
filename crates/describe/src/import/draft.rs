//! A network that is being imported, and the description made from it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::ratio::Ratio;

use super::Imported;
use super::fault::ImportFault;

/// The least and the largest frame: header and payload without FCS, bytes.
const LEAST: u64 = 60;
const LARGEST: u64 = 1514;
/// The least and the largest frame with a VLAN tag, bytes.
const LEAST_TAGGED: u64 = 64;
const LARGEST_TAGGED: u64 = 1518;
/// Preamble, FCS and gap in bytes, for sizes that are counted on the wire.
const OVERHEAD: u64 = 24;
/// The largest frame on the wire, tagged.
pub(super) const LARGEST_ON_WIRE: u64 = LARGEST_TAGGED + OVERHEAD;

pub(super) struct Switch {
    pub(super) name: String,
    pub(super) latency_ns: u64,
    /// The least latency, if it is not the same for all frames.
    pub(super) latency_min_ns: u64,
    pub(super) queues: u8,
}

pub(super) struct Link {
    pub(super) ends: [String; 2],
    /// The link's rate, bit/s.
    pub(super) rate: Ratio,
    pub(super) cable_ns: u64,
}

/// The limit that a stream's talker keeps.
pub(super) enum Contract {
    /// One frame in each interval, launched in time.
    Launched {
        interval_ns: u64,
        jitter_ns: Option<u64>,
    },
    /// Rate in bit/s and burst in bits, both on the wire.
    Bucket { rate: Ratio, burst_bits: u64 },
}

pub(super) struct Stream {
    pub(super) name: String,
    pub(super) talker: String,
    pub(super) listeners: Vec<String>,
    /// The frame's size on the wire, bytes.
    pub(super) bytes: u64,
    /// The smallest frame on the wire in bytes, if sizes vary.
    pub(super) smallest_bytes: Option<u64>,
    pub(super) contract: Contract,
    pub(super) deadline_ns: Option<u64>,
    /// The nodes from talker to listener, if the format names them.
    pub(super) route: Option<Vec<String>>,
}

#[derive(Default)]
pub(super) struct Draft {
    pub(super) name: String,
    /// The origin of the network, in a sentence.
    pub(super) origin: String,
    /// True for gates at all nodes, exact clocks, and no share kept for other traffic.
    pub(super) scheduled: bool,
    pub(super) switches: Vec<Switch>,
    pub(super) hosts: Vec<String>,
    pub(super) links: Vec<Link>,
    pub(super) streams: Vec<Stream>,
    pub(super) notes: Vec<String>,
}

impl Draft {
    /// Returns the description. A size that no frame can have becomes the next larger possible one; a burst is at
    /// least a frame.
    ///
    /// # Errors
    /// [`ImportFault::Description`] if the result is not a network that can be planned.
    pub(super) fn finish(mut self) -> Result<Imported, ImportFault> {
        let largest = self.streams.iter().map(|stream| stream.bytes).max();
        let overhead = if largest.unwrap_or(0) > LARGEST_TAGGED {
            OVERHEAD
        } else {
            0
        };
        let mut grown = BTreeSet::new();
        let mut text = format!("# {}\n", self.origin);
        let mut streams = String::new();
        for stream in &mut self.streams {
            let frame = stream.bytes.saturating_sub(overhead).max(LEAST);
            let tagged = frame > LARGEST;
            let frame = if tagged {
                frame.max(LEAST_TAGGED)
            } else {
                frame
            };
            if frame + overhead != stream.bytes {
                grown.insert((stream.bytes, frame + overhead));
            }
            if let Contract::Bucket { burst_bits, .. } = &mut stream.contract {
                let least = (frame + overhead) * 8;
                if *burst_bits < least {
                    self.notes.push(format!(
                        "the burst of {} is a frame, {least} bit, in place of {burst_bits} bit",
                        stream.name
                    ));
                    *burst_bits = least;
                }
            }
            write_stream(&mut streams, stream, frame, overhead, tagged);
        }
        for (from, to) in grown {
            self.notes.push(format!(
                "frames of {from} B are {to} B: no Ethernet frame is smaller"
            ));
        }
        for note in &self.notes {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# Not carried over as it was: {note}.");
        }
        let _ = write!(
            text,
            "\n[network]\nname = \"{}\"\n\n[defaults]\nframe-overhead = \"{overhead} B\"\ntick-error = \"0 us\"\n",
            self.name
        );
        if self.scheduled {
            text.push_str(
                "clock-error = \"0 ns\"\n\n[schedule]\nbest-effort-share = 0\nisolation = \"frames\"\n\n\
                 [[gate-profile]]\nname = \"imported\"\nlongest-cycle = \"1 s\"\nguard-band = \"built-in\"\n",
            );
        }
        let gates = if self.scheduled {
            "gates = \"imported\"\n"
        } else {
            ""
        };
        for switch in &self.switches {
            let _ = write!(
                text,
                "\n[[switch]]\nname = \"{}\"\nlatency = {{ min = \"{} ns\", max = \"{} ns\" }}\nqueues = {}\nbuffer = \"1024 MiB\"\n{gates}",
                switch.name, switch.latency_min_ns, switch.latency_ns, switch.queues
            );
        }
        for host in &self.hosts {
            let _ = write!(text, "\n[[host]]\nname = \"{host}\"\n{gates}");
        }
        for link in &self.links {
            let [from, to] = &link.ends;
            let _ = write!(
                text,
                "\n[[link]]\nends = [\"{from}\", \"{to}\"]\nrate = \"{} bit/s\"\ncable-delay = \"{} ns\"\n",
                link.rate, link.cable_ns
            );
        }
        text.push_str(&streams);
        crate::description::read(&text, "imported", &[]).map_err(ImportFault::Description)?;
        Ok(Imported {
            description: text,
            notes: self.notes,
        })
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

fn write_stream(text: &mut String, stream: &Stream, frame: u64, overhead: u64, tagged: bool) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n[[stream]]\nname = \"{}\"\ntalker = \"{}\"\nlisteners = [{}]\nframe = \"{frame} B\"\n",
        stream.name,
        stream.talker,
        quoted(&stream.listeners)
    );
    if tagged {
        text.push_str("vlan = 0\n");
    }
    let least = if tagged { LEAST_TAGGED } else { LEAST };
    if let Some(bytes) = stream.smallest_bytes {
        let smallest = bytes.saturating_sub(overhead).max(least);
        if smallest < frame {
            let _ = writeln!(text, "smallest-frame = \"{smallest} B\"");
        }
    }
    match stream.contract {
        Contract::Launched {
            interval_ns,
            jitter_ns,
        } => {
            let _ = write!(
                text,
                "interval = \"{interval_ns} ns\"\npriority = 7\nschedule = \"time-triggered\"\n"
            );
            if let Some(ns) = jitter_ns {
                let _ = writeln!(text, "jitter = \"{ns} ns\"");
            }
        }
        Contract::Bucket { rate, burst_bits } => {
            // The description counts the bytes of frames, and makes that so much more on the wire.
            let wire = i128::from(frame + overhead);
            let (num, den) = (rate.num(), rate.den());
            let share = num
                .checked_mul(i128::from(frame))
                .zip(den.checked_mul(wire))
                .and_then(|(num, den)| Ratio::new(num, den).ok());
            let _ = writeln!(
                text,
                "rate = \"{} bit/s\"\nburst = \"{burst_bits} bit\"",
                share.unwrap_or(rate)
            );
        }
    }
    if let Some(ns) = stream.deadline_ns {
        let _ = writeln!(text, "deadline = \"{ns} ns\"");
    }
    if let Some(route) = &stream.route {
        let _ = writeln!(text, "route = [{}]", quoted(route));
    }
}
