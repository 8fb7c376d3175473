//! Single values of a configuration file: identifiers, intervals, masks, addresses.

use super::groups::nanoseconds;
use super::{ETHERNET, UDP};
use crate::project::Transport;
use rtwire_pubsub::security::SecurityMode;
use rtwire_pubsub::{Profile, Publisher};
use rtwire_wire::uadp::{self, Value, Variant};
use rtwire_wire::{MacAddress, Pcp, VlanTag};
use std::net::SocketAddrV4;

pub(super) fn name(told: &str, else_: impl Fn() -> String) -> String {
    match told {
        "" => else_(),
        told => told.to_owned(),
    }
}

pub(super) fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn id(number: u64, what: &str) -> Result<u16, String> {
    match u16::try_from(number) {
        Ok(id) if id > 0 => Ok(id),
        _ => Err(format!("{what} is {number}; 1 to 65535 is possible")),
    }
}

pub(super) fn interval(ms: f64) -> Result<u64, String> {
    nanoseconds(ms)
        .filter(|ns| *ns >= 10_000)
        .ok_or_else(|| format!("PublishingInterval is {ms} ms; at least 0.01 ms is possible"))
}

pub(super) fn security(mode: u64) -> Result<SecurityMode, String> {
    match mode {
        0 | 1 => Ok(SecurityMode::None),
        2 => Ok(SecurityMode::Sign),
        3 => Ok(SecurityMode::SignAndEncrypt),
        other => Err(format!("SecurityMode is {other}; 1 to 3 are known")),
    }
}

pub(super) fn publisher(id: Option<Variant<'_>>) -> Result<Publisher, String> {
    match id {
        Some(Variant::Scalar(Value::Byte(id))) => Ok(Publisher::Byte(id)),
        Some(Variant::Scalar(Value::UInt16(id))) => Ok(Publisher::UInt16(id)),
        Some(Variant::Scalar(Value::UInt32(id))) => Ok(Publisher::UInt32(id)),
        Some(Variant::Scalar(Value::UInt64(id))) => Ok(Publisher::UInt64(id)),
        Some(Variant::Scalar(Value::String(Some(id)))) => Ok(Publisher::String(id.to_owned())),
        _ => Err("its PublisherId is none of Byte, UInt16, UInt32, UInt64, String".to_owned()),
    }
}

/// Returns the header layout of masks.
pub(super) fn profile(
    network: u64,
    mut data_sets: impl Iterator<Item = Option<u64>>,
) -> Result<Profile, String> {
    let (profile, layout) = match network {
        _ if network == u64::from(uadp::Profile::PeriodicFixed.network_mask().0) => {
            (Profile::Fixed, uadp::Profile::PeriodicFixed)
        }
        _ if network == u64::from(uadp::Profile::Dynamic.network_mask().0) => {
            (Profile::Dynamic, uadp::Profile::Dynamic)
        }
        _ => {
            return Err(format!(
                "NetworkMessageContentMask {network:#x} is none of 0x3f ({}) and 0x41 ({})",
                uadp::Profile::PeriodicFixed.name(),
                uadp::Profile::Dynamic.name()
            ));
        }
    };
    let wanted = u64::from(layout.data_set_mask().0);
    match data_sets.find(|mask| *mask != Some(wanted)) {
        None => Ok(profile),
        Some(None) => Err("the messages of a writer are not UADP".to_owned()),
        Some(Some(mask)) => Err(format!(
            "DataSetMessageContentMask {mask:#x} is not {wanted:#x}, which {} has",
            layout.name()
        )),
    }
}

/// Returns the destination of a URL (OPC 10000-14, 7.3.2 and 7.3.3).
pub(super) fn destination(profile: &str, url: &str) -> Result<Transport, String> {
    let rest = |scheme| {
        url.strip_prefix(scheme)
            .map(|rest: &str| rest.trim_end_matches('/'))
    };
    match profile {
        UDP => {
            let text =
                rest("opc.udp://").ok_or_else(|| format!("`{url}` is no opc.udp:// address"))?;
            let with_port = match text.contains(':') {
                true => text.to_owned(),
                false => format!("{text}:{}", uadp::UDP_PORT),
            };
            let address: SocketAddrV4 = with_port
                .parse()
                .map_err(|_| format!("`{url}` has no IPv4 address"))?;
            Ok(Transport::Udp { address })
        }
        ETHERNET => {
            let wrong = || {
                format!(
                    "`{url}` is none of the form opc.eth://MAC[:VLAN[.PCP]], as opc.eth://01-00-5E-7F-00-01:8.3"
                )
            };
            let text = rest("opc.eth://").ok_or_else(wrong)?;
            let (mac, tag) = match text.split_once(':') {
                // An address with colons has no tag behind it.
                Some((mac, tag)) if mac.contains('-') => (mac, Some(tag)),
                _ => (text, None),
            };
            let address: MacAddress = mac.parse().map_err(|_| wrong())?;
            let vlan = match tag {
                None => None,
                Some(tag) => {
                    let (vid, pcp) = tag.split_once('.').unwrap_or((tag, "0"));
                    let pcp = pcp.parse().ok().and_then(Pcp::new).ok_or_else(wrong)?;
                    let vid = vid.parse().map_err(|_| wrong())?;
                    Some(VlanTag::new(pcp, vid).ok_or_else(wrong)?)
                }
            };
            Ok(Transport::Ethernet { address, vlan })
        }
        other => Err(format!(
            "its transport profile `{other}` is neither UADP over Ethernet nor UADP over UDP"
        )),
    }
}
