//! Gathers the host's abilities, in the network namespace where the interface is.

use super::choices::Isolation;
use super::isolation::namespace_name;
use super::present::Present;
use super::refusal::ApplyRefusal;
use crate::change::{self, Kept, Subject, Value};
use crate::doctor::Facts;
use crate::netlink::Netlink;
use crate::{HostError, Namespace};

/// The place of an interface, which decides where the facts are gathered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// In the calling thread's network namespace.
    Here,
    /// In the namespace that an earlier run made for it.
    There(String),
}

/// Gathers the state of `interface`, here or in the namespace that an earlier run made for it.
///
/// # Errors
/// The interface does not exist or cannot be read, or `isolation` does not fit the namespace where it is.
pub fn gather(interface: &str, isolation: Isolation) -> Result<Present, ApplyRefusal> {
    let namespace = namespace_name(interface);
    let subject = Subject::Place {
        interface: interface.to_owned(),
        namespace: namespace.clone(),
    };
    // A name that no interface can have is refused below, with a better message.
    let found = change::read(&mut Netlink::new(), &subject).unwrap_or(Value::Absent);
    let own = Namespace::lasting(&namespace);
    let addresses = Subject::Addresses {
        interface: interface.to_owned(),
    };
    let facts = || -> Result<_, HostError> {
        let facts = Facts::gather(Some(interface))?;
        let kept = match change::read(&mut Netlink::new(), &addresses)? {
            Value::Addresses(kept) => kept,
            _ => Kept::default(),
        };
        Ok((facts, kept))
    };
    let place = place(interface, &found, isolation, own.is_some())?;
    let (facts, kept) = match (&place, own) {
        (Place::There(_), Some(inside)) => inside.run(facts)??,
        _ => facts()?,
    };
    Ok(Present {
        moved: place != Place::Here,
        four: kept.family(false),
        ..Present::from_facts(&facts)?
    })
}

/// Judges where the interface is. Pure.
fn place(
    interface: &str,
    found: &Value,
    isolation: Isolation,
    has_own: bool,
) -> Result<Place, ApplyRefusal> {
    let own = isolation == Isolation::Namespace;
    let interface = interface.to_owned();
    match found {
        Value::There(namespace) if own => Ok(Place::There(namespace.clone())),
        Value::There(namespace) => Err(ApplyRefusal::Moved {
            interface,
            namespace: namespace.clone(),
        }),
        Value::Here(_) if own && has_own => Err(ApplyRefusal::NamespaceTaken {
            namespace: namespace_name(&interface),
            interface,
        }),
        _ => Ok(Place::Here),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_interface_is_looked_for_where_an_earlier_run_put_it() {
        let here = Value::Here(BTreeMap::new());
        let there = Value::There("rtw-eth9".to_owned());
        let at = |found, isolation, has_own| place("eth9", found, isolation, has_own);
        for isolation in [Isolation::Addresses, Isolation::Namespace, Isolation::None] {
            assert_eq!(at(&here, isolation, false).unwrap(), Place::Here);
        }
        assert_eq!(
            at(&there, Isolation::Namespace, true).unwrap(),
            Place::There("rtw-eth9".to_owned())
        );
        let moved = at(&there, Isolation::Addresses, true).unwrap_err();
        assert!(moved.to_string().contains("rtwire revert eth9"), "{moved}");
        let taken = at(&here, Isolation::Namespace, true).unwrap_err();
        assert!(
            taken.to_string().contains("ip netns del rtw-eth9"),
            "{taken}"
        );
        // The namespace matters only if one is asked for.
        assert_eq!(at(&here, Isolation::Addresses, true).unwrap(), Place::Here);
    }
}
