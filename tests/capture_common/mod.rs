//! Captures by `dumpcap`, read by `tshark`: a referee that shares nothing with rtwire.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A capture that runs.
pub(crate) struct Capture {
    child: Child,
    path: PathBuf,
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A frame of a capture.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at_us: u64,
    pub(crate) bytes: u64,
    pub(crate) source: String,
    pub(crate) tos: u8,
    pub(crate) destination_port: u16,
}

impl Capture {
    /// Starts a capture of the first 128 octets of each frame of an interface into a file.
    pub(crate) fn start(namespace: &str, interface: &str, path: &Path) -> Capture {
        Self::cut(namespace, interface, path, "128")
    }

    /// Starts a capture of whole frames.
    pub(crate) fn whole(namespace: &str, interface: &str, path: &Path) -> Capture {
        Self::cut(namespace, interface, path, "0")
    }

    fn cut(namespace: &str, interface: &str, path: &Path, octets: &str) -> Capture {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "dumpcap", "-q", "-i", interface]);
        command.args(["-s", octets, "-w"]).arg(path);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // It says "File: ..." when it captures.
        for line in lines {
            if line.unwrap().starts_with("File:") {
                break;
            }
        }
        Capture {
            child,
            path: path.to_owned(),
        }
    }

    /// Ends it, with all its frames in the file.
    pub(crate) fn end(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        // The capture reads in blocks: the last ones come a little later.
        std::thread::sleep(Duration::from_millis(500));
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it, and returns the IPv4 frames.
    pub(crate) fn frames(mut self) -> Vec<Seen> {
        self.stop();
        let fields = [
            "frame.time_epoch",
            "frame.len",
            "ip.src",
            "ip.dsfield",
            "udp.dstport",
            "tcp.dstport",
        ];
        let read = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            Some(Seen {
                at_us: microseconds(fields[0])?,
                bytes: fields[1].parse().ok()?,
                source: fields[2].to_owned(),
                tos: u8::from_str_radix(fields[3].trim_start_matches("0x"), 16).ok()?,
                destination_port: fields[4].parse().or(fields[5].parse()).unwrap_or(0),
            })
        };
        fields_of(&self.path, "ip", &fields)
            .lines()
            .filter_map(read)
            .collect()
    }
}

/// Returns fields of a capture's frames that a display filter takes, as `tshark` reads them: a line for each frame, tabs between.
pub(crate) fn fields_of(path: &Path, filter: &str, fields: &[&str]) -> String {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path);
    command.args(["-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Returns a `frame.time_epoch` in microseconds.
pub(crate) fn microseconds(time: &str) -> Option<u64> {
    let (seconds, rest) = time.split_once('.')?;
    let micro: u64 = rest.get(..6)?.parse().ok()?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000 + micro)
}

/// Returns the largest burst of frames on the wire beyond a rate, bytes.
pub(crate) fn largest_burst(frames: &[Seen], rate_bytes_per_s: u64) -> u64 {
    let (mut level, mut largest, mut last_us) = (0_u64, 0, 0);
    for frame in frames {
        let passed_us = frame.at_us.saturating_sub(last_us);
        level = level.saturating_sub(passed_us.saturating_mul(rate_bytes_per_s) / 1_000_000);
        last_us = frame.at_us;
        level += frame.bytes.max(60) + 24;
        largest = largest.max(level);
    }
    largest
}
