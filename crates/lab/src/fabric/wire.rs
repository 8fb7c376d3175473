//! Cables that end before their host, where the receive program is at its interface.
//!
//! ```text
//!  switch ═══ cable ═══ c3 ─► counted, handed on ─► w3 ─── veth pair ─── eth0, XDP │ host
//!                        └────── wires' namespace ───┘
//! ```
//!
//! XDP takes frames before clsact at the same interface could count them as arrived.

use rtwire_host::Namespace;
use rtwire_host::netlink::{Netlink, VethEnd};

use super::{FIRST_IFINDEX, Fabric, PortIndex, WIRE_IFINDEX, index32, open, port_mac};
use crate::LabError;

/// One end of a veth pair to be made.
pub(super) struct End<'a> {
    pub(super) name: String,
    pub(super) ifindex: u32,
    pub(super) mac: [u8; 6],
    pub(super) namespace: &'a Namespace,
}

impl<'a> End<'a> {
    fn in_file(&'a self, namespace: &'a std::fs::File) -> VethEnd<'a> {
        VethEnd {
            name: &self.name,
            ifindex: self.ifindex,
            mac: self.mac,
            namespace,
        }
    }
}

/// Makes a veth pair, from inside the first end's namespace, so that no name ever appears on the host itself.
pub(super) fn connect(near: &End<'_>, far: &End<'_>) -> Result<(), LabError> {
    let files = [open(near.namespace)?, open(far.namespace)?];
    let (first, second) = (near.in_file(&files[0]), far.in_file(&files[1]));
    near.namespace
        .run(|| Netlink::new().create_veth(first, second))??;
    Ok(())
}

impl Fabric {
    /// The two ends in the wires' namespace of a port whose host has the receive program: the cable's, and the wire's.
    pub(super) fn wire(&self, port: PortIndex) -> Option<[End<'_>; 2]> {
        let (node, _) = self.blueprint.port_ends(port)?;
        let namespace = self.wires.as_ref()?;
        let end = |letter: char, first: u32| End {
            name: format!("{letter}{port}"),
            ifindex: first + index32(port),
            mac: port_mac(port),
            namespace,
        };
        let ends = || [end('c', FIRST_IFINDEX), end('w', WIRE_IFINDEX)];
        self.blueprint.wired.contains(&node).then(ends)
    }
}
