//! `rtwire powerlink scan`: finds the nodes of a network.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use rtwire_link::run::{PacketPort, PortConfig, RunConfig, Runner};
use rtwire_sys::clock::{self, Clock};
use rtwire_wire::powerlink::{
    Asnd, Message, NmtState, Packet, RequestedService, Soa, VERSION, multicast, node,
};
use rtwire_wire::{EtherType, MacAddress, Node, Outbox};

use super::control;
use super::listen::{LISTEN_NS, groups, shows_managing_node};
use super::{Failure, LACKING, REFUSED};
use crate::output::print;

/// The time that each number has to answer, ns.
const ANSWER_NS: u64 = 2_500_000;

/// Arguments of `rtwire powerlink scan`.
#[derive(Args)]
pub(super) struct ScanArguments {
    /// The interface
    interface: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, serde::Serialize)]
struct Found {
    node: u8,
    address: String,
    state: String,
    device_type: u32,
    vendor: u32,
    product: u32,
    revision: u32,
    serial_number: u32,
}

/// Asks each number once, as a managing node of the smallest kind.
struct Scanner {
    address: MacAddress,
    next: u8,
    at_ns: u64,
    foreign: bool,
    done: bool,
    found: BTreeMap<u8, Found>,
}

impl Node for Scanner {
    fn start(&mut self, now_ns: u64, _outbox: &mut dyn Outbox) {
        self.at_ns = now_ns + LISTEN_NS;
    }

    fn frame(&mut self, _now_ns: u64, frame: &[u8], _outbox: &mut dyn Outbox) {
        let Ok(packet) = Packet::parse(frame) else {
            return;
        };
        self.foreign |= shows_managing_node(&packet.message, self.next > 1);
        if let Message::Asnd(Asnd::Ident(ident)) = packet.message {
            let found = Found {
                node: packet.source,
                address: packet.source_address.to_string(),
                state: ident.state.to_string(),
                device_type: ident.device_type,
                vendor: ident.vendor_id,
                product: ident.product_code,
                revision: ident.revision_number,
                serial_number: ident.serial_number,
            };
            self.found.insert(packet.source, found);
        }
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        if self.foreign || self.next > node::LAST_CN {
            self.done = true;
            return;
        }
        let request = Packet {
            destination_address: multicast::SOA,
            source_address: self.address,
            destination: node::BROADCAST,
            source: node::MN,
            message: Message::Soa(Soa {
                state: NmtState::PRE_OPERATIONAL_1,
                service: RequestedService::IDENT_REQUEST,
                target: self.next,
                version: VERSION,
                ..Soa::default()
            }),
        };
        let mut octets = [0; 60];
        if request.emit(&mut octets).is_ok() {
            outbox.send(&octets, None);
        }
        self.next += 1;
        self.at_ns = now_ns + ANSWER_NS;
    }

    fn wake_at_ns(&self) -> Option<u64> {
        Some(self.at_ns)
    }
}

pub(super) fn run(arguments: &ScanArguments) -> Result<(), Failure> {
    if let Some(answer) = control::ask(&arguments.interface, &serde_json::json!({"ask": "status"}))?
    {
        if answer["node"] != node::MN {
            return Err((
                REFUSED,
                format!(
                    "controlled node {} runs on `{}`: only its managing node knows the other nodes; `rtwire powerlink \
                     monitor {}` listens",
                    answer["node"], arguments.interface, arguments.interface
                ),
            ));
        }
        return by_managing_node(arguments, &answer);
    }
    let lacking = |error: rtwire_link::LinkError| (LACKING, error.to_string());
    let config = PortConfig {
        groups: groups(),
        ..PortConfig::new(&arguments.interface, EtherType::POWERLINK.0)
    };
    let port = PacketPort::open(&config).map_err(lacking)?;
    let mut scanner = Scanner {
        address: MacAddress(port.interface().mac),
        next: 1,
        at_ns: 0,
        foreign: false,
        done: false,
        found: BTreeMap::new(),
    };
    let (stop, begun) = (AtomicBool::new(false), clock::now_ns(Clock::Monotonic));
    let limit = Duration::from_secs(10).as_nanos() as u64;
    Runner::new(port, &RunConfig::default())
        .run(&mut scanner, &stop, |scanner, _, now_ns| {
            if scanner.done || now_ns > begun + limit {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        })
        .map_err(lacking)?;
    if scanner.foreign {
        return Err((
            REFUSED,
            format!(
                "a managing node is active on `{}`: asking would disturb its cycle; `rtwire powerlink monitor {}` shows its nodes",
                arguments.interface, arguments.interface
            ),
        ));
    }
    let found: Vec<Found> = scanner.found.into_values().collect();
    if arguments.json {
        let text = serde_json::to_string_pretty(&found).map_err(|e| (LACKING, e.to_string()))?;
        print(&(text + "\n"));
        return Ok(());
    }
    let head = [
        "node",
        "address",
        "state",
        "device type",
        "vendor",
        "product",
        "revision",
        "serial",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in &found {
        rows.push(vec![
            one.node.to_string(),
            one.address.clone(),
            one.state.clone(),
            format!("{:08X}h", one.device_type),
            format!("{:08X}h", one.vendor),
            format!("{:08X}h", one.product),
            format!("{:08X}h", one.revision),
            format!("{:08X}h", one.serial_number),
        ]);
    }
    let mut text = String::new();
    if found.is_empty() {
        text.push_str("no controlled node answers\n");
    } else {
        crate::columns::table(&mut text, 3, &rows);
    }
    print(&text);
    Ok(())
}

fn by_managing_node(arguments: &ScanArguments, status: &serde_json::Value) -> Result<(), Failure> {
    let nodes = &status["nodes"];
    if arguments.json {
        let text = serde_json::to_string_pretty(nodes).map_err(|e| (LACKING, e.to_string()))?;
        print(&(text + "\n"));
        return Ok(());
    }
    let mut text = String::from("as the managing node that runs here sees them\n");
    let head = ["node", "name", "state"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in nodes.as_array().into_iter().flatten() {
        rows.push(vec![
            one["node"].to_string(),
            one["name"].as_str().unwrap_or_default().to_owned(),
            one["state"].as_str().unwrap_or_default().to_owned(),
        ]);
    }
    crate::columns::table(&mut text, 3, &rows);
    print(&text);
    Ok(())
}
