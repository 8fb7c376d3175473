//! The ports in use at each host.

use std::collections::HashMap;

use crate::connection::Carrier;

/// Bits of a word.
const BITS: usize = 64;

/// Ports in use, by carrier and host. A host costs one bit for each port up to its highest one in use.
#[derive(Debug, Default)]
pub(crate) struct Ports(HashMap<(Carrier, usize), Vec<u64>>);

impl Ports {
    pub(crate) fn insert(&mut self, carrier: Carrier, host: usize, port: u16) {
        let (word, bit) = (usize::from(port) / BITS, usize::from(port) % BITS);
        let words = self.0.entry((carrier, host)).or_default();
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << bit;
    }

    pub(crate) fn remove(&mut self, carrier: Carrier, host: usize, port: u16) {
        let (word, bit) = (usize::from(port) / BITS, usize::from(port) % BITS);
        if let Some(word) = self
            .0
            .get_mut(&(carrier, host))
            .and_then(|words| words.get_mut(word))
        {
            *word &= !(1 << bit);
        }
    }

    pub(crate) fn contains(&self, carrier: Carrier, host: usize, port: u16) -> bool {
        let (word, bit) = (usize::from(port) / BITS, usize::from(port) % BITS);
        let words = self.0.get(&(carrier, host));
        words
            .and_then(|words| words.get(word))
            .is_some_and(|word| word >> bit & 1 == 1)
    }

    /// Returns the lowest free port from one to another. Its time grows by one step for each 64 ports in use.
    pub(crate) fn first_free(
        &self,
        carrier: Carrier,
        host: usize,
        (first, last): (u16, u16),
    ) -> Option<u16> {
        let words = self.0.get(&(carrier, host)).map_or(&[][..], Vec::as_slice);
        let from = usize::from(first);
        for at in from / BITS..=usize::from(last) / BITS {
            let mut free = !words.get(at).copied().unwrap_or(0);
            if at == from / BITS {
                free &= u64::MAX << (from % BITS);
            }
            if free != 0 {
                let port = u16::try_from(at * BITS + free.trailing_zeros() as usize).ok()?;
                return (port <= last).then_some(port);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        /// A set of ports is the other model.
        #[test]
        fn the_lowest_free_port_is_that_of_trying_all(
            steps in prop::collection::vec((any::<bool>(), 0_u16..300), 0..200),
            first in 0_u16..310,
            last in 0_u16..310,
        ) {
            let (mut ports, mut model) = (Ports::default(), HashSet::new());
            for (adds, port) in steps {
                if adds {
                    ports.insert(Carrier::Udp, 7, port);
                    model.insert(port);
                } else {
                    ports.remove(Carrier::Udp, 7, port);
                    model.remove(&port);
                }
            }
            for port in 0..320 {
                prop_assert_eq!(ports.contains(Carrier::Udp, 7, port), model.contains(&port));
                prop_assert!(!ports.contains(Carrier::Rtdip, 7, port));
            }
            let tried = (first..=last).find(|port| !model.contains(port));
            prop_assert_eq!(ports.first_free(Carrier::Udp, 7, (first, last)), tried);
        }
    }

    #[test]
    fn the_last_port_is_one_too() {
        let mut ports = Ports::default();
        assert_eq!(
            ports.first_free(Carrier::Udp, 0, (u16::MAX, u16::MAX)),
            Some(u16::MAX)
        );
        ports.insert(Carrier::Udp, 0, u16::MAX);
        assert_eq!(
            ports.first_free(Carrier::Udp, 0, (u16::MAX, u16::MAX)),
            None
        );
    }
}
