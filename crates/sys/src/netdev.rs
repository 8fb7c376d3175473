//! A driver's abilities for XDP and AF_XDP, as the kernel's `netdev` family reports them (Linux 6.3).
//!
//! This module only reads; it needs no privilege.

use crate::error::Result;
use crate::interface::Interface;
use crate::netlink::{self, Question, attributes, push_attribute};

/// The bit of `xsk-features` for a driver that keeps launch times of AF_XDP (`tx-launch-time-fifo`, Linux 6.15).
pub const LAUNCH_TIME: u64 = 1 << 2;

/// The bit of `xdp-rx-metadata-features` for a driver that tells an XDP program the VLAN tag of a frame which it keeps
/// outside of it (Linux 6.8).
pub const RECEIVE_TAGS: u64 = 1 << 2;

/// The attribute of an interface's answer with its abilities for AF_XDP senders.
const XSK_FEATURES: u16 = 6;
/// The attribute with what the driver tells an XDP program about a frame.
const RECEIVE_METADATA: u16 = 5;

/// Returns the abilities of the interface's driver for AF_XDP senders: bits such as [`LAUNCH_TIME`].
///
/// `None` if the kernel does not report them.
///
/// # Errors
/// The kernel refuses the request.
pub fn xsk_features(interface: &Interface) -> Result<Option<u64>> {
    features(interface, XSK_FEATURES)
}

/// Returns what the interface's driver tells an XDP program about a frame: bits such as [`RECEIVE_TAGS`].
///
/// `None` if the kernel does not report them.
///
/// # Errors
/// The kernel refuses the request.
pub fn receive_metadata(interface: &Interface) -> Result<Option<u64>> {
    features(interface, RECEIVE_METADATA)
}

fn features(interface: &Interface, attribute: u16) -> Result<Option<u64>> {
    const DEV_GET: u8 = 1;
    const IFINDEX: u16 = 1;
    let object = format!("XDP abilities of interface `{}`", interface.name);
    let Some(family) = family(&object)? else {
        return Ok(None);
    };
    // struct genlmsghdr: command, version, two reserved bytes.
    let mut body = vec![DEV_GET, 1, 0, 0];
    push_attribute(&mut body, IFINDEX, &interface.index.to_ne_bytes());
    let question = Question {
        call: "NETDEV_CMD_DEV_GET",
        protocol: libc::NETLINK_GENERIC,
        kind: family,
        dump: false,
        body: &body,
    };
    let mut features = None;
    netlink::ask(&question, &object, |kind, body| {
        if kind == family {
            features = features.or(decode(body, interface.index, attribute));
        }
    })?;
    Ok(features)
}

/// Returns the kernel's number of the family `netdev`; `None` if it has no such family.
fn family(object: &str) -> Result<Option<u16>> {
    const CTRL_CMD_GETFAMILY: u8 = 3;
    const CTRL_ATTR_FAMILY_ID: u16 = 1;
    const CTRL_ATTR_FAMILY_NAME: u16 = 2;
    let mut body = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    push_attribute(&mut body, CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let question = Question {
        call: "CTRL_CMD_GETFAMILY",
        protocol: libc::NETLINK_GENERIC,
        kind: libc::GENL_ID_CTRL as u16,
        dump: false,
        body: &body,
    };
    let mut found = None;
    let asked = netlink::ask(&question, object, |_, body| {
        let of = |wanted| {
            let all = attributes(body.get(4..).unwrap_or(&[]));
            all.into_iter()
                .find_map(|(kind, value)| (kind == wanted).then_some(value))
        };
        found = of(CTRL_ATTR_FAMILY_ID)
            .and_then(|value| Some(u16::from_ne_bytes(value.get(..2)?.try_into().ok()?)));
    });
    match asked {
        Ok(()) => Ok(found),
        Err(error) if error.errno().0 == libc::ENOENT => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the number of 64 bits in an attribute of one answer; `None` if the answer is about another interface, or has
/// none.
pub(crate) fn decode(body: &[u8], interface: u32, attribute: u16) -> Option<u64> {
    const IFINDEX: u16 = 1;
    let body = body.get(4..)?;
    let of = |wanted| attributes(body).find_map(|(kind, value)| (kind == wanted).then_some(value));
    if of(IFINDEX)? != interface.to_ne_bytes() {
        return None;
    }
    Some(u64::from_ne_bytes(of(attribute)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface;
    use crate::netlink::tests::some_octets;

    fn answer(interface: u32, features: &[u8]) -> Vec<u8> {
        let mut body = vec![1, 1, 0, 0];
        push_attribute(&mut body, 1, &interface.to_ne_bytes());
        push_attribute(&mut body, 3, &127_u64.to_ne_bytes());
        push_attribute(&mut body, 5, &0_u64.to_ne_bytes());
        push_attribute(&mut body, 6, features);
        body
    }

    #[test]
    fn the_bits_are_those_of_the_interface_asked_for() {
        for bits in [0, 1, LAUNCH_TIME, LAUNCH_TIME | 3, u64::MAX] {
            let octets = answer(7, &bits.to_ne_bytes());
            assert_eq!(decode(&octets, 7, XSK_FEATURES), Some(bits));
            assert_eq!(decode(&octets, 8, XSK_FEATURES), None);
        }
    }

    #[test]
    fn no_octets_give_bits_that_are_not_there() {
        let whole = answer(7, &LAUNCH_TIME.to_ne_bytes());
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length], 7, XSK_FEATURES), None, "{length}");
        }
        // A number of another size is not read as one of eight bytes.
        assert_eq!(
            decode(&answer(7, &4_u32.to_ne_bytes()), 7, XSK_FEATURES),
            None
        );
        for length in 0..300 {
            let _ = decode(&some_octets(length, length as u64), 7, XSK_FEATURES);
        }
    }

    #[test]
    fn the_loopback_keeps_no_launch_times() {
        let lo = interface::by_name("lo").unwrap();
        let features = xsk_features(&lo).unwrap();
        assert_eq!(features.unwrap_or(0) & LAUNCH_TIME, 0);
        let gone = interface::Interface {
            index: 0x7fff_fff0,
            ..lo
        };
        if features.is_some() {
            let error = xsk_features(&gone).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InterfaceMissing, "{error}");
        }
    }
}
