//! Reading and writing one setting of the calling thread's network namespace.

use std::fs;
use std::io;

use rtwire_sys::sched::Policy;
use rtwire_sys::sched::thread::{self, Want};

use super::setting::{Subject, Value};
use super::{addresses, frames, place};
use crate::netlink::Netlink;
use crate::{HostError, Namespace, napi};

/// The only paths that a [`Subject::Setting`] may write: a record comes from a file, and a file can be forged.
const SETTINGS: [&str; 4] = [
    "/proc/sys/",
    "/proc/irq/",
    "/sys/class/net/",
    "/sys/devices/system/",
];

fn checked(path: &str) -> Result<&str, HostError> {
    let known = SETTINGS.iter().any(|start| path.starts_with(start));
    if known && !path.split('/').any(|part| part == "..") {
        return Ok(path);
    }
    Err(HostError::Setting {
        path: path.to_owned(),
        value: String::new(),
        source: io::Error::new(
            io::ErrorKind::InvalidInput,
            "rtwire does not change this setting",
        ),
    })
}

/// Reads a setting's present value.
///
/// # Errors
/// The kernel refuses to tell. A missing setting is [`Value::Absent`], not an error.
pub fn read(netlink: &mut Netlink, subject: &Subject) -> Result<Value, HostError> {
    Ok(match subject {
        Subject::Setting { path } => match fs::read_to_string(checked(path)?) {
            Ok(text) => Value::Text(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Value::Absent,
            Err(source) => {
                return Err(HostError::Setting {
                    path: path.clone(),
                    value: String::new(),
                    source,
                });
            }
        },
        Subject::Up { interface } => match netlink.link(interface)? {
            Some(link) => Value::Flag(link.up()),
            None => Value::Absent,
        },
        Subject::Arp { interface } => match netlink.link(interface)? {
            Some(link) => Value::Flag(link.arp()),
            None => Value::Absent,
        },
        Subject::Mtu { interface } => match netlink.link(interface)? {
            Some(link) => Value::Number(u64::from(link.mtu)),
            None => Value::Absent,
        },
        Subject::MtuAndIpv6 { interface } => frames::read(netlink, interface)?,
        Subject::Segments { interface } => match netlink.link(interface)? {
            Some(link) => Value::Number(netlink.segments(link.index)?.into()),
            None => Value::Absent,
        },
        Subject::Offload { interface, feature } => {
            if netlink.link(interface)?.is_none() {
                return Ok(Value::Absent);
            }
            Value::Flag(netlink.offloads(interface)?.active.contains(feature))
        }
        Subject::Parameter {
            interface,
            group,
            name,
        } => {
            if netlink.link(interface)?.is_none() {
                return Ok(Value::Absent);
            }
            match netlink.parameters(*group, interface)?.get(name.as_str()) {
                Some(value) => Value::Number(*value),
                None => Value::Absent,
            }
        }
        Subject::Addresses { interface } => match netlink.link(interface)? {
            Some(link) => Value::Addresses(addresses::keep(netlink, link.index)?),
            None => Value::Absent,
        },
        Subject::Vlan { name, .. } => match netlink.vlan(name)? {
            Some((id, egress)) => Value::Vlan { id, egress },
            None => Value::Absent,
        },
        Subject::Queues { interface } => match netlink.link(interface)? {
            Some(link) => Value::Queues(netlink.tree(link.index)?),
            None => Value::Absent,
        },
        Subject::Receive { interface } => match netlink.link(interface)? {
            Some(_) => Value::Threads(napi::receive_threads(interface)?),
            None => Value::Absent,
        },
        Subject::Namespace { name } => match Namespace::lasting(name) {
            Some(_) => Value::Flag(true),
            None => Value::Absent,
        },
        Subject::Place {
            interface,
            namespace,
        } => place::read(netlink, interface, namespace)?,
        Subject::Inside { namespace, inside } => {
            let there = place::inside(namespace, |netlink| read(netlink, inside))?;
            there.unwrap_or(Value::Absent)
        }
        Subject::Thread { tid, name } => {
            // The number may belong to another thread by now.
            let now = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
            if now.trim() != name {
                return Ok(Value::Absent);
            }
            match (thread::scheduling(*tid), thread::nice(*tid)) {
                (Ok(now), Ok(nice)) => match now.policy {
                    Policy::Fifo => Value::Fifo(now.priority),
                    Policy::Other => Value::Nice(nice),
                    // rtwire changes neither.
                    Policy::RoundRobin | Policy::Unknown(_) => Value::Absent,
                },
                _ => Value::Absent,
            }
        }
    })
}

/// Writes a setting.
///
/// # Errors
/// The kernel refuses, in its own words.
pub fn write(netlink: &mut Netlink, subject: &Subject, to: &Value) -> Result<(), HostError> {
    match (subject, to) {
        (Subject::Setting { path }, Value::Text(text)) => {
            fs::write(checked(path)?, text).map_err(|source| HostError::Setting {
                path: path.clone(),
                value: text.clone(),
                source,
            })
        }
        (Subject::Up { interface }, Value::Flag(up)) => netlink.set_flag(interface, 1, *up),
        // The flag IFF_NOARP means *no* address resolution.
        (Subject::Arp { interface }, Value::Flag(arp)) => netlink.set_flag(interface, 0x80, !*arp),
        (Subject::MtuAndIpv6 { interface }, Value::Frames { mtu, ipv6 }) => {
            frames::put(netlink, interface, *mtu, ipv6.as_ref())
        }
        (Subject::Mtu { interface } | Subject::MtuAndIpv6 { interface }, Value::Number(mtu)) => {
            netlink.set_mtu(interface, u32::try_from(*mtu).unwrap_or(u32::MAX))
        }
        (Subject::Segments { interface }, Value::Number(count)) => match netlink.link(interface)? {
            Some(link) => {
                let count = u32::try_from(*count).unwrap_or(u32::MAX);
                netlink.set_segments(link.index, count)
            }
            None => Ok(()),
        },
        (Subject::Offload { interface, feature }, Value::Flag(on)) => {
            netlink.set_offload(interface, feature, *on)
        }
        (
            Subject::Parameter {
                interface,
                group,
                name,
            },
            Value::Number(value),
        ) => netlink.set_parameter(*group, interface, name, *value),
        (Subject::Addresses { interface }, Value::Addresses(kept)) => {
            addresses::restore(netlink, interface, kept)
        }
        (Subject::Vlan { interface, name }, Value::Vlan { id, egress }) => {
            netlink.create_vlan(interface, name, *id, egress)
        }
        (Subject::Vlan { name, .. }, Value::Absent) => netlink.delete_link(name),
        (Subject::Queues { interface }, Value::Queues(tree)) => match netlink.link(interface)? {
            Some(link) => netlink.set_tree(link.index, tree),
            None => Ok(()),
        },
        (Subject::Receive { interface }, Value::Threads(threads)) => {
            napi::set_receive_threads(interface, threads)
        }
        (Subject::Namespace { name }, Value::Flag(true)) => {
            Namespace::create_lasting(name).map(drop)
        }
        (Subject::Namespace { name }, Value::Absent) => place::remove(name),
        (
            Subject::Place {
                interface,
                namespace,
            },
            Value::There(_),
        ) => place::send(netlink, interface, namespace),
        (
            Subject::Place {
                interface,
                namespace,
            },
            Value::Here(settings),
        ) => place::fetch(netlink, interface, namespace, settings),
        (Subject::Inside { namespace, inside }, to) => {
            place::inside(namespace, |netlink| write(netlink, inside, to)).map(drop)
        }
        (Subject::Thread { tid, .. }, Value::Fifo(priority)) => {
            thread::set(*tid, Want::Fifo(*priority))?;
            Ok(())
        }
        (Subject::Thread { tid, .. }, Value::Nice(nice)) => {
            thread::set(*tid, Want::Other(*nice))?;
            Ok(())
        }
        // It did not exist before, or it is gone by now: nothing to put back.
        (_, Value::Absent) => Ok(()),
        (subject, to) => Err(HostError::Value {
            what: subject.show(),
            value: to.show(),
        }),
    }
}
