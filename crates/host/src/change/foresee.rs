//! The changes from the present state, also in a namespace that does not exist yet.

use super::addresses::Kept;
use super::setting::{Change, Subject, Value, Wanted, difference};
use super::{operate, place};
use crate::HostError;
use crate::netlink::{Netlink, Tree};

/// Returns the changes from the present state to `wanted`, in its order. Reads each present value once, by
/// [`foreseen`]. `refuse` sees each value first, and may stop with an error of its own.
///
/// # Errors
/// The first error of `refuse`, or of reading a setting.
pub fn pending<E: From<HostError>>(
    netlink: &mut Netlink,
    wanted: &[Wanted],
    refuse: &dyn Fn(&Subject, &Value) -> Result<(), E>,
) -> Result<Vec<Change>, E> {
    let mut present = Vec::new();
    for one in wanted {
        let value = foreseen(netlink, &one.subject)?;
        refuse(&one.subject, &value)?;
        present.push((&one.subject, value));
    }
    Ok(difference(wanted, &|subject| {
        let found = present.iter().find(|(one, _)| *one == subject);
        found.map_or(Value::Absent, |(_, value)| value.clone())
    }))
}

/// Returns a setting's value once the interface has moved into a namespace. Before the move, the driver's settings stay
/// and the others are those of a new interface.
///
/// # Errors
/// As [`read`](operate::read).
pub fn foreseen(netlink: &mut Netlink, subject: &Subject) -> Result<Value, HostError> {
    let Subject::Inside { namespace, inside } = subject else {
        return operate::read(netlink, subject);
    };
    let now = operate::read(netlink, subject)?;
    let moved = place::inside(namespace, |netlink| match subject.interface() {
        Some(interface) => netlink.link(interface),
        None => Ok(None),
    })?;
    if moved.flatten().is_some() {
        return Ok(now);
    }
    match &**inside {
        Subject::Offload { .. }
        | Subject::Parameter { .. }
        | Subject::Mtu { .. }
        | Subject::Segments { .. }
        | Subject::MtuAndIpv6 { .. }
        | Subject::Arp { .. }
        | Subject::Receive { .. } => operate::read(netlink, inside),
        Subject::Queues { .. } => Ok(Value::Queues(Tree::default())),
        Subject::Addresses { .. } => Ok(Value::Addresses(Kept::default())),
        Subject::Up { .. } => Ok(Value::Flag(false)),
        _ => Ok(Value::Absent),
    }
}
