//! An MTU below 1280 bytes: the kernel takes IPv6 from the interface, and forgets all that made it (RFC 8200, section 5).
//!
//! So the value before the change holds the IPv6 settings, addresses, routes and neighbours. They are put back as soon as
//! the MTU is large enough again.

use std::collections::BTreeMap;

use super::setting::{Ipv6, Value};
use super::{addresses, place};
use crate::HostError;
use crate::netlink::Netlink;

/// Reads the MTU and what makes IPv6.
pub(super) fn read(netlink: &mut Netlink, interface: &str) -> Result<Value, HostError> {
    let Some(link) = netlink.link(interface)? else {
        return Ok(Value::Absent);
    };
    let settings: BTreeMap<String, String> = place::settings(interface)
        .into_iter()
        .filter_map(|(path, value)| Some((without_name(&path)?, value)))
        .collect();
    let has_it = settings.keys().any(|path| path.starts_with("conf/"));
    let ipv6 = if has_it {
        let kept = addresses::keep(netlink, link.index)?.family(true);
        Some(Ipv6 { settings, kept })
    } else {
        None
    };
    Ok(Value::Frames {
        mtu: u64::from(link.mtu),
        ipv6,
    })
}

/// Returns the path of an IPv6 setting without the interface's name, which may change: `conf/hop_limit`.
fn without_name(path: &str) -> Option<String> {
    let (folder, rest) = path.strip_prefix("ipv6/")?.split_once('/')?;
    let (_, name) = rest.split_once('/')?;
    Some(format!("{folder}/{name}"))
}

/// Puts the MTU back, and then what makes IPv6.
pub(super) fn put(
    netlink: &mut Netlink,
    interface: &str,
    mtu: u64,
    ipv6: Option<&Ipv6>,
) -> Result<(), HostError> {
    netlink.set_mtu(interface, u32::try_from(mtu).unwrap_or(u32::MAX))?;
    let Some(ipv6) = ipv6 else {
        return Ok(());
    };
    let settings = ipv6.settings.iter().filter_map(|(path, value)| {
        let (folder, name) = path.split_once('/')?;
        Some((format!("ipv6/{folder}/{interface}/{name}"), value.clone()))
    });
    place::put(interface, &settings.collect());
    addresses::add(netlink, interface, &ipv6.kept)
}
