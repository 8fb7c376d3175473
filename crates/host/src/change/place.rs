//! An interface moved into a network namespace of its own and back, with the settings that the kernel forgets.
//!
//! A move takes the interface down and removes its addresses, routes and queues. Its settings below `/proc/sys/net`
//! become the defaults of the new namespace. Addresses, queues and state are settings of their own and are put back as
//! such; the rest is kept here.

use std::collections::BTreeMap;
use std::fs;

use rtwire_sys::netns;

use super::setting::Value;
use crate::files::Files;
use crate::netlink::Netlink;
use crate::{HostError, Namespace};

/// The folders of an interface's settings.
const FOLDERS: [&str; 4] = ["ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh"];

/// Reads the settings of an interface below `/proc/sys/net`, by path from there. Skips those that cannot be read.
pub(super) fn settings(interface: &str) -> BTreeMap<String, String> {
    let files = Files::default();
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        for name in files.list(&format!("/proc/sys/net/{folder}/{interface}")) {
            let path = format!("{folder}/{interface}/{name}");
            if let Some(text) = files.read(&format!("/proc/sys/net/{path}")) {
                found.insert(path, text);
            }
        }
    }
    found
}

/// Runs `work` in a namespace by name. Returns `None` if there is no such namespace, or only a name without one.
pub(super) fn inside<T: Send>(
    namespace: &str,
    work: impl FnOnce(&mut Netlink) -> Result<T, HostError> + Send,
) -> Result<Option<T>, HostError> {
    match Namespace::lasting(namespace).filter(Namespace::is_made) {
        Some(namespace) => namespace.run(|| work(&mut Netlink::new()))?.map(Some),
        None => Ok(None),
    }
}

/// Returns the place of an interface: here with its settings, in the namespace, or neither.
pub(super) fn read(
    netlink: &mut Netlink,
    interface: &str,
    namespace: &str,
) -> Result<Value, HostError> {
    if netlink.link(interface)?.is_some() {
        return Ok(Value::Here(settings(interface)));
    }
    let there = inside(namespace, |netlink| netlink.link(interface))?;
    Ok(match there.flatten() {
        Some(_) => Value::There(namespace.to_owned()),
        None => Value::Absent,
    })
}

/// Moves an interface from here into a namespace.
pub(super) fn send(
    netlink: &mut Netlink,
    interface: &str,
    namespace: &str,
) -> Result<(), HostError> {
    let there = netns::open(&netns::lasting(namespace)).map_err(|source| HostError::Namespace {
        what: format!("open network namespace `{namespace}`"),
        source,
    })?;
    netlink.move_link(interface, &there)
}

/// Moves an interface back from a namespace, if it is there, and puts its settings back.
pub(super) fn fetch(
    netlink: &mut Netlink,
    interface: &str,
    namespace: &str,
    kept: &BTreeMap<String, String>,
) -> Result<(), HostError> {
    let home = netns::own().map_err(|source| HostError::Namespace {
        what: "open this thread's network namespace".to_owned(),
        source,
    })?;
    if netlink.link(interface)?.is_none() {
        inside(namespace, |netlink| netlink.move_link(interface, &home))?;
    }
    put(interface, kept);
    Ok(())
}

/// Puts settings of an interface back, by path below `/proc/sys/net`. Some cannot be written; reading back shows whether
/// all are as before.
pub(super) fn put(interface: &str, kept: &BTreeMap<String, String>) {
    let now = settings(interface);
    for (path, value) in kept {
        // A record comes from a file, and a file can be forged.
        let ours = FOLDERS
            .iter()
            .any(|folder| path.starts_with(&format!("{folder}/{interface}/")));
        if ours && !path.contains("..") && now.get(path) != Some(value) {
            let _ = fs::write(format!("/proc/sys/net/{path}"), value);
        }
    }
}

/// Removes a namespace that rtwire made, if it holds only links of the kernel's own.
pub(super) fn remove(namespace: &str) -> Result<(), HostError> {
    const LOOPBACK: u32 = 8;
    /// Tunnels that the kernel makes in every namespace.
    const AUTOMATIC: [&str; 9] = [
        "ipip", "gre", "gretap", "erspan", "vti", "vti6", "sit", "ip6tnl", "ip6gre",
    ];
    let left = inside(namespace, |netlink| {
        let links = netlink.links()?.into_iter();
        let left = links.filter(|link| {
            let automatic = link
                .kind
                .as_deref()
                .is_some_and(|kind| AUTOMATIC.contains(&kind));
            link.flags & LOOPBACK == 0 && !automatic
        });
        Ok(left.map(|link| link.name).collect::<Vec<_>>())
    })?;
    let left = left.unwrap_or_default();
    if !left.is_empty() {
        return Err(HostError::NotInForce {
            what: format!(
                "the removal of network namespace `{namespace}`: {} is still in it and would be lost",
                left.join(", ")
            ),
        });
    }
    netns::delete_lasting(namespace).map_err(|source| HostError::Namespace {
        what: format!("delete network namespace `{namespace}`"),
        source,
    })
}
