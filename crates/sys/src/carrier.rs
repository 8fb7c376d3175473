//! The link of an interface: whether it is there, and how often it went and came.

use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::netlink::{self, Question, attributes};
use std::time::{Duration, Instant};

/// The time between two looks at a link that is awaited.
const LOOK: Duration = Duration::from_millis(10);

/// The state of a link at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Carrier {
    /// True if the driver reports a link, and the kernel sends through it.
    pub on: bool,
    /// The number of times that the link went or came since the interface was made.
    pub changes: u32,
}

/// Returns the state of an interface's link. Needs no privilege.
///
/// # Errors
/// The interface is gone, or the kernel refuses the request.
pub fn carrier(interface: &Interface) -> Result<Carrier> {
    const RTM_GETLINK: u16 = 18;
    const RTM_NEWLINK: u16 = 16;
    let object = format!("link of interface `{}`", interface.name);
    // struct ifinfomsg: family, padding, type, index, flags, mask.
    let mut body = [0_u8; 16];
    body[4..8].copy_from_slice(&interface.index.to_ne_bytes());
    let question = Question {
        call: "RTM_GETLINK",
        protocol: libc::NETLINK_ROUTE,
        kind: RTM_GETLINK,
        dump: false,
        body: &body,
    };
    let mut found = None;
    netlink::ask(&question, &object, |kind, body| {
        if kind == RTM_NEWLINK {
            found = found.or(decode(body));
        }
    })?;
    found.ok_or_else(|| {
        let errno = crate::error::Errno(libc::EPROTO);
        Error::new("RTM_GETLINK", object, errno, None)
    })
}

/// Waits until the link is there, at most for `patience`. Returns its last state.
///
/// # Errors
/// As [`carrier`].
pub fn wait_for_carrier(interface: &Interface, patience: Duration) -> Result<Carrier> {
    let start = Instant::now();
    loop {
        let now = carrier(interface)?;
        if now.on || start.elapsed() >= patience {
            return Ok(now);
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns the state that one answer tells; `None` if it tells none.
pub(crate) fn decode(body: &[u8]) -> Option<Carrier> {
    const OPERSTATE: u16 = 16;
    const CARRIER: u16 = 33;
    const CARRIER_CHANGES: u16 = 35;
    const UP: u8 = 6;
    const UNKNOWN: u8 = 0;
    let all = body.get(16..)?;
    let of = |wanted| attributes(all).find_map(|(kind, value)| (kind == wanted).then_some(value));
    let state = *of(OPERSTATE)?.first()?;
    let carrier = *of(CARRIER)?.first()?;
    let changes = of(CARRIER_CHANGES)?.try_into().ok()?;
    Some(Carrier {
        on: carrier == 1 && (state == UP || state == UNKNOWN),
        changes: u32::from_ne_bytes(changes),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::interface;
    use crate::netlink::push_attribute;
    use crate::netlink::tests::some_octets;

    fn answer(state: u8, carrier: u8, changes: u32) -> Vec<u8> {
        let mut body = vec![0; 16];
        push_attribute(&mut body, 3, b"eth0\0");
        push_attribute(&mut body, 16, &[state]);
        push_attribute(&mut body, 33, &[carrier]);
        push_attribute(&mut body, 35, &changes.to_ne_bytes());
        body
    }

    #[test]
    fn a_link_is_there_when_the_driver_and_the_kernel_say_so() {
        // The operational states of RFC 2863: 0 unknown, 2 down, 5 dormant, 6 up.
        for (state, carrier, on) in [
            (6, 1, true),
            (0, 1, true),
            (2, 1, false),
            (5, 1, false),
            (6, 0, false),
        ] {
            let changes = 7;
            assert_eq!(
                decode(&answer(state, carrier, changes)),
                Some(Carrier { on, changes })
            );
        }
        let whole = answer(6, 1, 2);
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), None, "{length}");
        }
        for length in 0..300 {
            let _ = decode(&some_octets(length, length as u64));
        }
    }

    #[test]
    fn the_loopback_is_asked_and_one_that_is_gone_is_an_error() {
        let lo = interface::by_name("lo").unwrap();
        let now = wait_for_carrier(&lo, Duration::ZERO).unwrap();
        assert!(now.on || !lo.up);
        let index = 0x7fff_fff0;
        let error = carrier(&Interface { index, ..lo }).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InterfaceMissing, "{error}");
    }
}
