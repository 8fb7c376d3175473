//! The project file: one station, and for a managing node its network.

mod nodes;

use crate::StationError;
use crate::configure;
use crate::driver::StationPath;
pub use nodes::place;
use nodes::{objects, read_nodes};
use rtwire_describe::foreign;
use rtwire_describe::project_file::{Findings, Keys, nearest, parse, short};
use rtwire_powerlink::cn::{ControlledConfig, Limits};
use rtwire_powerlink::mn::ManagingConfig;
use rtwire_powerlink::pdo::Mapped;
use rtwire_powerlink::{ControlledNode, ManagingNode};
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::node;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The kind of file that is expected, for messages.
const WANTED: &str = "a POWERLINK project (docs/powerlink-stations.md)";
/// Longer files are refused unread.
const LARGEST_FILE_BYTES: usize = 1 << 20;

/// One station, as its file describes it. `docs/powerlink-stations.md` explains every key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The file. Paths in it are relative to its folder.
    pub path: PathBuf,
    /// The node number: 240 manages, 1 to 239 are controlled.
    pub node: u8,
    /// The interface's name.
    pub interface: String,
    /// The length of a cycle, ns; 0: that of the `cdc`, or at a controlled node the one that it observes.
    pub cycle_ns: u64,
    /// The path of the isochronous phase.
    pub station_path: StationPath,
    /// The SCHED_FIFO priority; `None`: time sharing.
    pub priority: Option<u8>,
    /// The core to run on.
    pub cpu: Option<usize>,
    /// The time before a SoC's instant from which the loop spins, ns.
    pub spin_ns: u64,
    /// The way in which a managing node's SoC leave at their instants.
    pub soc: SocSending,
    /// The socket priority (SO_PRIORITY) of SoC with launch times: it leads to the queue that keeps them.
    pub soc_priority: u32,
    /// The time by which a SoC is handed over before that queue wakes for it, ns.
    pub soc_margin_ns: u64,
    /// The time for which the loop polls for the next frame before it sleeps, ns.
    pub linger_ns: u64,
    /// The cycles for which a program that stands still counts as running, 0: for ever; `None`: as [`Project::watchdog_cycles`] says.
    pub watchdog: Option<u32>,
    /// A controlled node's silence after each reset, ns.
    pub silence_ns: u64,
    /// The longest time from the arrival of a PReq at a controlled node to its PRes, ns; `None`: until its cycle is over.
    pub answer_within_ns: Option<u64>,
    /// The pause of a managing node between SoC and the first PReq, ns; `None`: that of the `cdc`, else as
    /// [`Project::wait_soc_preq_ns`] says.
    pub wait_soc_preq_ns: Option<u64>,
    /// The most asynchronous slots of a managing node's cycle; `None`: that of the `cdc`, else one.
    pub async_slots: Option<u8>,
    /// The file in which a controlled node stores its parameters (1010h, 1011h); `None`: it stores none.
    pub parameters: Option<PathBuf>,
    /// A configurator's configuration (CDC), applied first.
    pub cdc: Option<PathBuf>,
    /// A controlled node's device description (XDD, XDC): its objects and identity.
    pub description: Option<PathBuf>,
    /// The address and prefix of `plk0`; `None`: no such device.
    pub ethernet: Option<([u8; 4], u8)>,
    /// The device's name.
    pub ethernet_device: String,
    /// A controlled node's objects in its PDOs.
    pub objects: Vec<MappedObject>,
    /// A managing node's network.
    pub nodes: Vec<NodeEntry>,
}

/// The way in which SoC leave at their instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SocSending {
    /// By launch time where the interface has a queue that keeps it, else by the loop.
    #[default]
    Auto,
    /// The loop waits for the instant, spins shortly before it, and sends.
    Spin,
    /// By launch time (ETF); an error otherwise.
    Launch,
}

/// The direction of an object's value, seen from the controlled node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// With the PReq to the node.
    Receives,
    /// With the PRes from the node.
    Sends,
}

/// An object in a PDO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedObject {
    /// The direction.
    pub direction: Direction,
    /// The object's index, sub-index and length.
    pub mapped: Mapped,
}

/// A controlled node as the managing node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// The node number, 1 to 239.
    pub number: u8,
    /// The name.
    pub name: String,
    /// True where the network does not start without it.
    pub mandatory: bool,
    /// The longest time that its PRes may take, ns.
    pub response_timeout_ns: u64,
    /// True where its mapping and cycle are written to it at start.
    pub configure: bool,
    /// True where it answers the managing node's PRes at its time (PollResponse chaining) instead of being polled.
    pub chained: bool,
    /// The device description (XDD, XDC) that the device must match.
    pub description: Option<PathBuf>,
    /// Its objects in PDOs.
    pub objects: Vec<MappedObject>,
}

impl Project {
    /// Reads a project file.
    ///
    /// # Errors
    /// The file cannot be read, or is faulty: the error has all faults with their places.
    pub fn read(path: &Path) -> Result<Self, StationError> {
        let bytes = std::fs::read(path).map_err(|source| StationError::Read {
            path: path.to_owned(),
            source,
        })?;
        let name = path.display().to_string();
        let text = foreign::text(bytes, &name, WANTED).map_err(StationError::Project)?;
        Self::parse(&text, path)
    }

    /// Reads a project from text. Messages show `path`, and relative paths begin at its folder.
    ///
    /// # Errors
    /// The text is faulty: the error has all faults with their places.
    pub fn parse(text: &str, path: &Path) -> Result<Self, StationError> {
        let mut findings = Findings::new(text);
        let name = path.display().to_string();
        if text.len() > LARGEST_FILE_BYTES {
            findings.at(
                &(0..0),
                "the file is larger than 1 MiB: this is no project file".to_owned(),
                None,
            );
            return Err(StationError::Project(findings.into_faults(&name)));
        }
        let document = parse(text, &TABLES, WANTED, &mut findings);
        let project = if findings.is_clean() {
            read_document(document.get_ref(), path, &mut findings)
        } else {
            None
        };
        match project {
            Some(project) if findings.is_clean() => Ok(project),
            _ => Err(StationError::Project(findings.into_faults(&name))),
        }
    }
}

impl Project {
    /// Makes the node that the project describes, and drops it: a station would not begin with an error of this. Reads the
    /// files that the project names.
    ///
    /// # Errors
    /// A named file cannot be read or is faulty, or no node can be made of the configuration.
    pub fn check(&self) -> Result<(), StationError> {
        let address = MacAddress([2, 0, 0, 0, 0, self.node]);
        let faulty = |source| StationError::Configuration {
            path: self.path.clone(),
            source,
        };
        if self.node == node::MN {
            let config = self.managing_config(address)?;
            ManagingNode::new(config).map(drop).map_err(faulty)
        } else {
            let config = self.controlled_config(address)?;
            ControlledNode::new(config).map(drop).map_err(faulty)
        }
    }

    /// Returns the configuration of the managing node that the project describes, for an interface with this address. Reads the
    /// files that the project names. Its SoC have no time.
    ///
    /// # Errors
    /// A named file cannot be read or is faulty.
    pub fn managing_config(&self, address: MacAddress) -> Result<ManagingConfig, StationError> {
        let config = configure::managing(self, address, 0)?;
        Ok(ManagingConfig {
            net_time_offset_ns: None,
            ..config
        })
    }

    /// Returns the configuration of the controlled node that the project describes, as [`managing_config`](Self::managing_config).
    ///
    /// # Errors
    /// A named file cannot be read or is faulty.
    pub fn controlled_config(&self, address: MacAddress) -> Result<ControlledConfig, StationError> {
        configure::controlled(self, address)
    }
}

/// The least time that a watchdog lasts by default, ns: ordinary machines stand still for some milliseconds now and then.
const WATCHDOG_NS: u64 = 20_000_000;
/// The least number of its cycles by default.
const WATCHDOG_CYCLES: u32 = 5;
/// The longest pause between SoC and the first PReq by default, ns.
const PAUSE_NS: u64 = 150_000;
/// The longest pause that object 1F8Ah/1 holds, twice, ns.
const LONGEST_PAUSE_NS: u64 = 8_000_000_000;
/// The pause by default, as a part of the cycle.
const PAUSE_PART: u64 = 50;
/// The shortest cycle with a pause by default, ns: in shorter ones nodes are fast, and time is scarce.
const PAUSE_FROM_NS: u64 = 2_000_000;

impl Project {
    /// Returns the watchdog's cycles for a cycle of this length in ns; 0: not known. By default there are 5, or as many as last 20 ms.
    #[must_use]
    pub fn watchdog_cycles(&self, cycle_ns: u64) -> u32 {
        self.limits().watchdog_of(cycle_ns)
    }

    /// Returns the limits of a controlled node.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            silence_ns: self.silence_ns,
            watchdog_cycles: self.watchdog.unwrap_or(WATCHDOG_CYCLES),
            watchdog_least_ns: self.watchdog.map_or(WATCHDOG_NS, |_| 0),
            answer_within_ns: self.answer_within_ns,
        }
    }

    /// Returns the pause between SoC and the first PReq by default, ns, for a cycle of this length in ns. It is a fiftieth of it, at
    /// most 150 µs, and none in cycles below 2 ms.
    #[must_use]
    pub const fn wait_soc_preq_ns(cycle_ns: u64) -> u64 {
        let part_ns = cycle_ns / PAUSE_PART;
        match cycle_ns {
            0..PAUSE_FROM_NS => 0,
            _ if part_ns < PAUSE_NS => part_ns,
            _ => PAUSE_NS,
        }
    }
}

const TABLES: [&str; 2] = ["station", "node"];

fn read_document(
    document: &DeTable<'_>,
    path: &Path,
    findings: &mut Findings<'_>,
) -> Option<Project> {
    for (name, _) in document {
        let text = name.get_ref().as_ref();
        if !TABLES.contains(&text) {
            let help = nearest(text, &TABLES).map(|near| format!("did you mean `{near}`?"));
            let help = help.or_else(|| Some("tables are [station] and [[node]]".to_owned()));
            findings.at(
                &name.span(),
                format!("unknown table `{}`", short(text)),
                help,
            );
        }
    }
    let nodes = read_nodes(document, path, findings);
    let Some(station) = document.get("station") else {
        findings.at(&(0..0), "missing table `[station]`".to_owned(), None);
        return None;
    };
    let DeValue::Table(table) = station.get_ref() else {
        findings.at(
            &station.span(),
            "`station` is given once, as a table `[station]`".to_owned(),
            None,
        );
        return None;
    };
    let mut keys = Keys::new(table, "[station]", station.span(), findings);
    let node = keys.number("node", 1..241);
    if !table.contains_key("node") {
        keys.missing("node");
    }
    let interface = keys.text("interface").map(|(text, _)| text.to_owned());
    if !table.contains_key("interface") {
        keys.missing("interface");
    }
    let cdc = keys.text("cdc").map(|(file, _)| relative(path, file));
    let description = keys
        .text("description")
        .map(|(file, _)| relative(path, file));
    let cycle_ns = keys.time("cycle", 10_000);
    // A controlled node observes its cycle, or is told it by its managing node.
    if !table.contains_key("cycle") && cdc.is_none() && node == Some(240) {
        keys.missing("cycle");
    }
    let station_path = keys.choice("path", &StationPath::ALL.map(StationPath::name));
    let station_path = StationPath::ALL
        .into_iter()
        .find(|path| station_path == Some(path.name()))
        .unwrap_or_default();
    let priority = keys.number("priority", 0..100).unwrap_or(50);
    let cpu = keys.number("cpu", 0..1024).map(|cpu| cpu as usize);
    let spin_ns = keys.time("spin", 0).unwrap_or(50_000);
    let linger_ns = keys.time("linger", 0).unwrap_or(0);
    let watchdog = keys.number("watchdog", 2..100_001);
    let silence_ns = keys.time("silence-after-reset", 0);
    let answer_within_ns = keys.time("answer-within", 1_000);
    let wait_soc_preq_ns = keys.time("wait-soc-preq", 0);
    if let (Some(wait_ns), Some(value)) = (wait_soc_preq_ns, table.get("wait-soc-preq")) {
        let most_ns = cycle_ns.unwrap_or(LONGEST_PAUSE_NS).min(LONGEST_PAUSE_NS) / 2;
        if wait_ns > most_ns {
            let message =
                format!("`wait-soc-preq` is too long: at most half a cycle, {most_ns} ns");
            keys.findings.at(&value.span(), message, None);
        }
    }
    let async_slots = keys.number("async-slots", 1..65);
    let parameters = keys
        .text("parameters")
        .map(|(file, _)| relative(path, file));
    let soc = match keys.choice("soc", &["auto", "spin", "launch"]) {
        Some("spin") => SocSending::Spin,
        Some("launch") => SocSending::Launch,
        _ => SocSending::Auto,
    };
    let soc_priority = keys.number("soc-priority", 0..16).unwrap_or(7);
    let soc_margin_ns = keys.time("soc-margin", 0).unwrap_or(100_000);
    let ethernet = keys.text("ethernet").and_then(|(text, span)| {
        let parsed = address(text);
        if parsed.is_none() {
            let message = format!("`{}` is no IPv4 address with its prefix", short(text));
            let help = Some("for instance \"192.168.100.240/24\"".to_owned());
            keys.findings.at(&span, message, help);
        }
        parsed
    });
    let device = keys.text("ethernet-device");
    if let Some((name, span)) = &device {
        if name.is_empty() || name.len() > 15 || name.contains(['/', ' ']) {
            keys.findings.at(
                span,
                "a device's name has 1 to 15 characters, without `/` and spaces".to_owned(),
                None,
            );
        }
    }
    let objects = objects(&mut keys);
    let given = ["sends", "receives", "description"]
        .iter()
        .find_map(|key| table.get(*key));
    if node == Some(240) {
        if let Some(value) = given {
            keys.findings.at(
                &value.span(),
                "a managing node has its objects and descriptions in the `[[node]]` that they belong to".to_owned(),
                None,
            );
        }
        for key in ["silence-after-reset", "answer-within", "parameters"] {
            if let Some(value) = table.get(key) {
                let message = format!("only a controlled node (node = 1 to 239) has `{key}`");
                keys.findings.at(&value.span(), message, None);
            }
        }
        if nodes.is_empty() && cdc.is_none() {
            keys.findings.at(
                &station.span(),
                "a managing node needs a network: `[[node]]` for each controlled node, or `cdc`"
                    .to_owned(),
                None,
            );
        }
    } else if node.is_some() {
        for key in [
            "soc",
            "soc-priority",
            "soc-margin",
            "wait-soc-preq",
            "async-slots",
        ] {
            if let Some(value) = table.get(key) {
                let message =
                    format!("only a managing node (node = 240) sends SoC and SoA: no `{key}`");
                keys.findings.at(&value.span(), message, None);
            }
        }
        if let Some(list) = document.get("node") {
            keys.findings.at(
                &list.span(),
                "only a managing node (node = 240) has `[[node]]`".to_owned(),
                None,
            );
        }
    }
    keys.finish();
    Some(Project {
        path: path.to_owned(),
        node: node? as u8,
        interface: interface?,
        cycle_ns: cycle_ns.unwrap_or(0),
        station_path,
        priority: (priority > 0).then_some(priority as u8),
        cpu,
        spin_ns,
        soc,
        soc_priority: soc_priority as u32,
        soc_margin_ns,
        linger_ns,
        watchdog: watchdog.map(|cycles| cycles as u32),
        silence_ns: silence_ns.unwrap_or(Limits::default().silence_ns),
        answer_within_ns,
        wait_soc_preq_ns,
        async_slots: async_slots.map(|slots| slots as u8),
        parameters,
        cdc,
        description,
        ethernet,
        ethernet_device: device.map_or("plk0", |(name, _)| name).to_owned(),
        objects,
        nodes,
    })
}

fn relative(path: &Path, file: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(file)
}

fn address(text: &str) -> Option<([u8; 4], u8)> {
    let (address, prefix) = text.split_once('/')?;
    let address: std::net::Ipv4Addr = address.trim().parse().ok()?;
    let prefix = prefix
        .trim()
        .parse()
        .ok()
        .filter(|prefix| (1..=30).contains(prefix))?;
    Some((address.octets(), prefix))
}
