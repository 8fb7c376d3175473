//! Makes the nodes' configurations from a project.

use crate::StationError;
use crate::io::number;
use crate::project::{Direction, MappedObject, NodeEntry, Project};
use rtwire_powerlink::cn::ControlledConfig;
use rtwire_powerlink::mn::ManagingConfig;
use rtwire_powerlink::od::{Access, DataType, Entry, Mappable, Object, ObjectKind};
use rtwire_powerlink::pdo::Mapped;
use rtwire_powerlink::{Cdc, Description, ObjectDictionary, pdo};
use rtwire_wire::MacAddress;
use std::path::Path;

/// Node assignment (1F81h): the node exists, is controlled, is started, and keeps its cycle.
const ASSIGNED: u64 = 0x8000_0007;
const MANDATORY: u64 = 0x8;
/// It takes part in PollResponse chaining.
const CHAINED: u64 = 0x4000;
/// SDO over UDP, among the features (1F82h).
const SDO_BY_UDP: u64 = 0x2;
/// The longest time for an answer before the cycle runs, ns (1F8Ah/2). DS 301's 0.1 ms is for nodes in hardware.
const ASYNC_SLOT_NS: u64 = 1_000_000;
/// PDO communication and mapping objects of channel `n` are `n` above these.
const MAPPING: u16 = 0x200;

fn entries_of(
    objects: &[MappedObject],
    direction: Direction,
) -> impl Iterator<Item = &MappedObject> {
    objects
        .iter()
        .filter(move |object| object.direction == direction)
}

fn octets(objects: &[MappedObject], direction: Direction) -> usize {
    let ends = entries_of(objects, direction).map(|o| o.mapped.offset_octets + o.mapped.octets);
    ends.max().unwrap_or(0)
}

/// The most PDOs of one direction.
pub(crate) const MOST_PDOS: usize = 256;
/// The most objects of a PDO.
pub(crate) const PDO_OBJECTS: usize = 254;
/// The most payload of a frame that a node has room for before it is told another length, bytes (1F98h/4 and 5).
const LEAST_PAYLOAD: usize = 36;

/// Returns the objects of each PDO that one frame needs.
pub(crate) fn pdos(
    objects: &[MappedObject],
    direction: Direction,
) -> impl Iterator<Item = Vec<Mapped>> {
    let all: Vec<Mapped> = entries_of(objects, direction).map(|o| o.mapped).collect();
    let parts: Vec<_> = all.chunks(PDO_OBJECTS).map(<[Mapped]>::to_vec).collect();
    parts.into_iter()
}

/// Writes the mapping of one PDO; without objects it is switched off.
fn map(cdc: &mut Cdc, parameters: u16, node: u8, objects: &[Mapped]) {
    cdc.push(parameters + MAPPING, 0, 0, 1);
    if objects.is_empty() {
        return;
    }
    cdc.push(parameters, 1, node.into(), 1);
    for (subindex, mapped) in (1..).zip(objects) {
        cdc.push(parameters + MAPPING, subindex, mapped.to_number(), 8);
    }
    cdc.push(parameters + MAPPING, 0, objects.len() as u64, 1);
}

/// Writes the mapping of a frame. The first PDO is `first`; further ones are `others` and on. Returns the next free one.
fn map_frame(
    cdc: &mut Cdc,
    (first, mut others): (u16, u16),
    node: u8,
    objects: &[MappedObject],
    direction: Direction,
) -> u16 {
    let mut parts = pdos(objects, direction);
    map(cdc, first, node, &parts.next().unwrap_or_default());
    for part in parts {
        map(cdc, others, node, &part);
        others += 1;
    }
    others
}

/// Writes the own PDOs of a controlled node, and their length where it has less `room` in bytes (1F98h/4 and 5).
fn map_own(
    cdc: &mut Cdc,
    objects: &[MappedObject],
    direction: Direction,
    room: impl Fn(u8) -> usize,
) {
    let (first, limit) = match direction {
        Direction::Receives => (pdo::RECEIVE, 4),
        Direction::Sends => (pdo::TRANSMIT, 5),
    };
    let octets = octets(objects, direction);
    if octets > room(limit) {
        cdc.push(0x1f98, limit, octets as u64, 2);
    }
    map_frame(cdc, (first, first + 1), 0, objects, direction);
}

/// Returns the configuration that the managing node writes to one of its nodes at start.
fn node_configuration(project: &Project, node: &NodeEntry) -> Cdc {
    let mut cdc = Cdc::default();
    cdc.push(0x1006, 0, project.cycle_ns / 1_000, 4);
    for direction in [Direction::Receives, Direction::Sends] {
        map_own(&mut cdc, &node.objects, direction, |_| LEAST_PAYLOAD);
    }
    cdc
}

/// The objects of a device description that identify the device (type, vendor, product), and the managing node's objects for
/// the expected values.
const IDENTITY: [(u16, u8, u16); 3] = [
    (0x1000, 0, 0x1f84),
    (0x1018, 1, 0x1f85),
    (0x1018, 2, 0x1f86),
];

/// Returns the managing node's own configuration.
fn network(project: &Project) -> Result<Cdc, StationError> {
    let mut cdc = Cdc::default();
    if project.cycle_ns > 0 {
        cdc.push(0x1006, 0, project.cycle_ns / 1_000, 4);
    }
    // Each node has one PDO of each direction; further ones for more objects are behind those of all nodes.
    let behind = project.nodes.len() as u16;
    let mut others = [pdo::TRANSMIT + behind, pdo::RECEIVE + behind];
    for (channel, node) in (0_u16..).zip(&project.nodes) {
        let number = node.number;
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(node.mandatory, MANDATORY) | flag(node.chained, CHAINED);
        cdc.push(0x1f92, number, node.response_timeout_ns, 4);
        let sent = octets(&node.objects, Direction::Receives).max(LEAST_PAYLOAD);
        let received = octets(&node.objects, Direction::Sends).max(LEAST_PAYLOAD);
        cdc.push(0x1f8b, number, sent as u64, 2);
        cdc.push(0x1f8d, number, received as u64, 2);
        let directions = [
            (pdo::TRANSMIT, Direction::Receives),
            (pdo::RECEIVE, Direction::Sends),
        ];
        for ((first, direction), next) in directions.into_iter().zip(&mut others) {
            let places = (first + channel, *next);
            *next = map_frame(&mut cdc, places, number, &node.objects, direction);
        }
        if node.configure {
            cdc.push_data(0x1f22, number, node_configuration(project, node).emit());
        }
        if let Some(path) = &node.description {
            let device = read_description(path)?.objects;
            for (index, subindex, expected) in IDENTITY {
                cdc.push(expected, number, device.number(index, subindex), 4);
            }
        }
        cdc.push(0x1f81, number, ASSIGNED | flags, 4);
    }
    Ok(cdc)
}

fn read_description(path: &Path) -> Result<Description, StationError> {
    let text = std::fs::read_to_string(path).map_err(|source| StationError::Read {
        path: path.to_owned(),
        source,
    })?;
    Description::parse(&text).map_err(|source| StationError::Configuration {
        path: path.to_owned(),
        source,
    })
}

/// Turns a dictionary into that of a described device: its own objects as they are, those of DS 301 with its values. Leaves out
/// features that the stack does not have.
fn describe(dictionary: &mut ObjectDictionary, device: &ObjectDictionary) {
    const FEATURES: u16 = 0x1f82;
    let able = dictionary.number(FEATURES, 0);
    for (index, object) in device.objects() {
        if index >= 0x2000 || dictionary.object(index).is_none() {
            dictionary.insert(index, object.clone());
            continue;
        }
        let mapping = matches!(index, 0x1600..=0x16ff | 0x1a00..=0x1aff);
        let counts = object.kind != ObjectKind::Variable && !mapping;
        for (&subindex, entry) in &object.entries {
            let is_count = counts && subindex == 0;
            if !entry.value.is_empty() && !is_count {
                dictionary.set_value(index, subindex, &entry.value);
            }
        }
    }
    let described = dictionary.number(FEATURES, 0);
    dictionary.set_number(FEATURES, 0, described & able);
}

fn read_cdc(project: &Project) -> Result<Cdc, StationError> {
    let Some(path) = &project.cdc else {
        return Ok(Cdc::default());
    };
    let bytes = std::fs::read(path).map_err(|source| StationError::Read {
        path: path.clone(),
        source,
    })?;
    Cdc::parse(&bytes).map_err(|source| StationError::Configuration {
        path: path.clone(),
        source,
    })
}

/// Returns the configuration of a project's managing node.
pub(crate) fn managing(
    project: &Project,
    address: MacAddress,
    net_time_offset_ns: i64,
) -> Result<ManagingConfig, StationError> {
    let mut cdc = Cdc::default();
    cdc.push(0x1f8a, 2, ASYNC_SLOT_NS, 4);
    let given = read_cdc(project)?;
    let of_cdc = given.entries.iter().rfind(|entry| entry.index == 0x1006);
    let cycle_ns = match project.cycle_ns {
        0 => of_cdc.map_or(0, |entry| number(&entry.data) * 1_000),
        cycle_ns => cycle_ns,
    };
    cdc.push(0x1f8a, 1, Project::wait_soc_preq_ns(cycle_ns), 4);
    cdc.entries.extend(given.entries);
    // What the project says is said last.
    cdc.entries.extend(network(project)?.entries);
    if let Some(wait_ns) = project.wait_soc_preq_ns {
        cdc.push(0x1f8a, 1, wait_ns, 4);
    }
    if let Some(slots) = project.async_slots {
        cdc.push(0x1f8a, 3, slots.into(), 1);
    }
    let mut config =
        ManagingConfig::from_cdc(address, &cdc).map_err(|source| StationError::Configuration {
            path: project.cdc.clone().unwrap_or_else(|| project.path.clone()),
            source,
        })?;
    config.net_time_offset_ns = Some(net_time_offset_ns);
    config.watchdog_cycles = project.watchdog_cycles(cycle_ns);
    address_of(project, &mut config.dictionary);
    Ok(config)
}

/// Returns the configuration of a project's controlled node.
pub(crate) fn controlled(
    project: &Project,
    address: MacAddress,
) -> Result<ControlledConfig, StationError> {
    let mut dictionary = ObjectDictionary::controlled_node();
    if let Some(path) = &project.description {
        describe(&mut dictionary, &read_description(path)?.objects);
    }
    for object in &project.objects {
        add_object(&mut dictionary, object);
    }
    let faulty = |path: &Path| {
        let path = path.to_owned();
        move |source| StationError::Configuration { path, source }
    };
    if let Some(path) = &project.cdc {
        read_cdc(project)?
            .apply(&mut dictionary)
            .map_err(faulty(path))?;
    }
    let mut cdc = Cdc::default();
    if project.cycle_ns > 0 {
        cdc.push(0x1006, 0, project.cycle_ns / 1_000, 4);
    }
    for direction in [Direction::Receives, Direction::Sends] {
        if entries_of(&project.objects, direction).next().is_some() {
            let room = |limit| dictionary.number(0x1f98, limit) as usize;
            map_own(&mut cdc, &project.objects, direction, room);
        }
    }
    cdc.apply(&mut dictionary).map_err(faulty(&project.path))?;
    address_of(project, &mut dictionary);
    Ok(ControlledConfig {
        node: project.node,
        address,
        dictionary,
        limits: project.limits(),
    })
}

/// Adds an object where it is missing, so that it can be mapped.
fn add_object(dictionary: &mut ObjectDictionary, object: &MappedObject) {
    let (index, subindex) = (object.mapped.index, object.mapped.subindex);
    let octets = object.mapped.octets as u8;
    let mut entry = Entry::new("", DataType::Unsigned(octets));
    entry.mappable = Mappable::Both;
    if let Ok(there) = dictionary.entry_mut(index, subindex) {
        there.mappable = Mappable::Both;
        return;
    }
    if subindex == 0 {
        dictionary.insert_variable(index, "", DataType::Unsigned(octets));
        if let Ok(there) = dictionary.entry_mut(index, 0) {
            there.mappable = Mappable::Both;
        }
        return;
    }
    let mut record = dictionary.object(index).cloned().unwrap_or_else(|| {
        let mut count = Entry::new("NumberOfEntries", DataType::Unsigned(1));
        count.access = Access::Constant;
        Object {
            name: String::new(),
            kind: ObjectKind::Record,
            entries: [(0, count)].into(),
            others: None,
        }
    });
    record.entries.insert(subindex, entry);
    if let Some(count) = record.entries.get_mut(&0) {
        if count.value.first().is_some_and(|last| *last < subindex) {
            count.value = vec![subindex];
        }
    }
    dictionary.insert(index, record);
}

/// Sets the station's IP address: that of `plk0`, at which its service data are reached.
fn address_of(project: &Project, dictionary: &mut ObjectDictionary) {
    if let Some((address, prefix)) = project.ethernet {
        let number = |octets| u64::from(u32::from_be_bytes(octets));
        dictionary.set_number(0x1e40, 2, number(address));
        let mask = number([255; 4]) & (u64::from(u32::MAX) << (32 - prefix));
        dictionary.set_number(0x1e40, 3, mask);
        // DS 301, 5.1.2: the router has the number 254.
        dictionary.set_number(0x1e40, 5, number(address) & mask | 254 & !mask);
    } else {
        let features = dictionary.number(0x1f82, 0);
        dictionary.set_number(0x1f82, 0, features & !SDO_BY_UDP);
    }
}
