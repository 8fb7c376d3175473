//! What the host has, gathered.

use super::Present;
use crate::HostError;
use crate::doctor::{Facts, InterfaceFacts};

impl Present {
    /// From the facts of an interface.
    ///
    /// # Errors
    /// The facts are not of an interface.
    pub fn from_facts(facts: &Facts) -> Result<Self, HostError> {
        let Some(interface) = &facts.interface else {
            return Err(HostError::InterfaceName(String::new()));
        };
        let InterfaceFacts { link, .. } = interface;
        let ipv6 = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", link.name);
        let mut interrupts: Vec<u32> = interface.napis.iter().filter_map(|napi| napi.irq).collect();
        interrupts.sort_unstable();
        interrupts.dedup();
        Ok(Self {
            interface: link.name.clone(),
            index: link.index,
            tx_queues: link.tx_queues,
            mtu: link.mtu,
            kind: link.kind.clone(),
            speed_mbps: interface.speed_mbps,
            offloads: interface.offloads.clone(),
            parameters: interface.parameters.clone(),
            interrupts,
            kinds: facts.kinds.clone(),
            ipv6: facts.files.has(&ipv6),
        })
    }
}
