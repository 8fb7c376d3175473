//! `rtwire uman`: makes, changes and shows the devices of the kernel module `uman`, whose options `ip` does not know.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use rtwire_host::HostError;
use rtwire_host::netlink::{Netlink, UmanLink, UmanMode, UmanOptions, UmanQueue};
use serde_json::{Value, json};

use crate::output;

/// The kernel refused.
const REFUSED: u8 = 1;
/// A name that is none, or names no device.
const FAULTY: u8 = 2;
/// The module or a privilege is missing.
const LACKING: u8 = 3;

/// Arguments of `rtwire uman`.
#[derive(Args)]
pub(crate) struct UmanArguments {
    #[command(subcommand)]
    verb: UmanVerb,
}

#[derive(Subcommand)]
enum UmanVerb {
    /// Put a device above an Ethernet device; `ip link set NAME up` brings it up
    Add {
        /// The name of the new device
        name: String,
        /// The Ethernet device below it
        #[arg(long)]
        link: String,
        #[command(flatten)]
        options: Options,
    },
    /// Change options of a device, also while it is in use
    Set {
        /// The device
        name: String,
        #[command(flatten)]
        options: Options,
    },
    /// Show the devices of this network namespace with their options
    Show {
        /// The device; all, if none is named
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a device
    Delete {
        /// The device
        name: String,
    },
}

#[derive(Args)]
struct Options {
    /// The way of frames to the device below
    #[arg(long)]
    mode: Option<Mode>,
    /// The EtherTypes that the device takes from the one below, at most 8 [default: 0x88ab,0x88b5]
    #[arg(long, value_delimiter = ',', value_parser = ethertype)]
    ethertypes: Option<Vec<u16>>,
    /// The transmit queue of the modes direct and netpoll: a number, or `own` for the sending processor's [default: own]
    #[arg(long, value_parser = queue)]
    queue: Option<UmanQueue>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// Through the queueing discipline (where a new device begins)
    Qdisc,
    /// Past it, into the driver's queue
    Direct,
    /// By the driver's polling interface; not on PREEMPT_RT
    Netpoll,
}

fn ethertype(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u16::from_str_radix(digits, 16)
        .ok()
        .filter(|one| *one >= 0x600)
        .ok_or_else(|| {
            "an EtherType is a hexadecimal number from 0x600 to 0xffff, such as 0x88ab".to_owned()
        })
}

fn queue(text: &str) -> Result<UmanQueue, String> {
    match text {
        "own" => Ok(UmanQueue::Own),
        number => number
            .parse()
            .ok()
            .filter(|one| *one < u16::MAX)
            .map(UmanQueue::Fixed)
            .ok_or_else(|| "a queue is a number from 0, or `own`".to_owned()),
    }
}

impl Options {
    fn to_kernel(&self) -> UmanOptions {
        UmanOptions {
            mode: self.mode.map(|mode| match mode {
                Mode::Qdisc => UmanMode::Qdisc,
                Mode::Direct => UmanMode::Direct,
                Mode::Netpoll => UmanMode::Netpoll,
            }),
            ethertypes: self.ethertypes.clone(),
            queue: self.queue,
        }
    }
}

/// Does what was asked for.
pub(crate) fn run(arguments: &UmanArguments) -> ExitCode {
    let mut netlink = Netlink::new();
    let done = match &arguments.verb {
        UmanVerb::Add {
            name,
            link,
            options,
        } => netlink.create_uman(link, name, &options.to_kernel()),
        UmanVerb::Set { name, options } => netlink.set_uman(name, &options.to_kernel()),
        UmanVerb::Show { name, json } => show(&mut netlink, name.as_deref(), *json),
        UmanVerb::Delete { name } => netlink
            .uman(name)
            .and_then(|found| netlink.delete_link(&found.name)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rtwire uman: {error}");
            ExitCode::from(code(&error))
        }
    }
}

fn code(error: &HostError) -> u8 {
    match error {
        HostError::NoUman { .. } | HostError::NoInterface { .. } | HostError::InterfaceName(_) => {
            FAULTY
        }
        HostError::Netlink { reason, .. } if reason.contains("Unknown device type") => LACKING,
        error if error.is_permission() => LACKING,
        _ => REFUSED,
    }
}

fn show(netlink: &mut Netlink, name: Option<&str>, as_json: bool) -> Result<(), HostError> {
    let found = match name {
        Some(name) => vec![netlink.uman(name)?],
        None => netlink.umans()?,
    };
    let mut shown = Vec::new();
    for link in found {
        let lower = netlink
            .links()?
            .into_iter()
            .find(|one| one.index == link.lower)
            .map(|one| one.name);
        shown.push((link, lower));
    }
    if as_json {
        let all: Vec<Value> = shown
            .iter()
            .map(|(link, lower)| object(link, lower.as_deref()))
            .collect();
        output::line(&format!("{:#}", Value::from(all)));
        return Ok(());
    }
    if shown.is_empty() {
        output::line("no uman devices in this network namespace");
    }
    for (link, lower) in &shown {
        output::line(&line(link, lower.as_deref()));
    }
    Ok(())
}

fn mode(link: &UmanLink) -> &'static str {
    link.mode.map_or("unknown", UmanMode::name)
}

fn object(link: &UmanLink, lower: Option<&str>) -> Value {
    let types: Vec<String> = link
        .ethertypes
        .iter()
        .map(|one| format!("0x{one:04x}"))
        .collect();
    json!({
        "name": link.name,
        "lower": lower,
        "lower_index": link.lower,
        "mode": mode(link),
        "ethertypes": types,
        "queue": match link.queue {
            UmanQueue::Own => Value::Null,
            UmanQueue::Fixed(queue) => queue.into(),
        },
    })
}

fn line(link: &UmanLink, lower: Option<&str>) -> String {
    let mut text = format!(
        "{} above {}: mode {}, queue {}, EtherTypes",
        link.name,
        lower.map_or_else(
            || format!("interface {} of another namespace", link.lower),
            str::to_owned
        ),
        mode(link),
        match link.queue {
            UmanQueue::Own => "own".to_owned(),
            UmanQueue::Fixed(queue) => queue.to_string(),
        },
    );
    for one in &link.ethertypes {
        let _ = write!(text, " 0x{one:04x}");
    }
    if link.ethertypes.is_empty() {
        text.push_str(" none");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethertypes_and_queues_are_checked() {
        assert_eq!(ethertype("0x88ab"), Ok(0x88ab));
        assert_eq!(ethertype("88b5"), Ok(0x88b5));
        assert!(ethertype("0x5ff").is_err() && ethertype("POWERLINK").is_err());
        assert_eq!(queue("own"), Ok(UmanQueue::Own));
        assert_eq!(queue("3"), Ok(UmanQueue::Fixed(3)));
        assert!(queue("-1").is_err() && queue("65535").is_err());
    }
}
