//! The wire of a host: its cable ends in front of it, and a plain veth pair leads on.
//!
//! ```text
//!  switch ═══ cable ═══ c3 ═ coupled ═ w3 ─── veth pair ─── eth0, XDP │ host
//!                        └──── wires' namespace ────┘
//! ```
//!
//! No program at `eth0`, of the lab or of its user, can bypass the counters or the emulated link.
//! Without the wire, XDP would take frames before clsact at the same interface counts them as arrived. Frames sent by
//! XDP (`XDP_TX`, AF_XDP), or past the queue by a packet socket, would pass no link.
//!
//! The port's queue and counters are at `c3`. A bridge couples it to `w3`, because XDP in generic mode ignores frames
//! that a program redirects.

use rtwire_host::Namespace;
use rtwire_host::netlink::{BridgePort, Forwarding, Netlink, VethEnd};

use super::{
    COUPLING_IFINDEX, FIRST_IFINDEX, Fabric, PortIndex, WIRE_IFINDEX, index32, open, port_mac,
};
use crate::LabError;

/// One end of a veth pair.
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

/// Makes a veth pair from inside the first end's namespace, so no name ever appears on the host itself.
pub(super) fn connect(near: &End<'_>, far: &End<'_>) -> Result<(), LabError> {
    let files = [open(near.namespace)?, open(far.namespace)?];
    let (first, second) = (near.in_file(&files[0]), far.in_file(&files[1]));
    near.namespace
        .run(|| Netlink::new().create_veth(first, second))??;
    Ok(())
}

/// The parts between a cable and a host, in the wires' namespace.
pub(super) struct Wire<'a> {
    /// The end of the cable; it has the port's queue and index.
    pub(super) cable: End<'a>,
    /// The start of the plain pair to the host.
    pub(super) inner: End<'a>,
    coupling: (String, u32),
}

impl Fabric {
    /// Returns the wire of a host's port; `None` for a port without one.
    pub(super) fn wire(&self, port: PortIndex) -> Option<Wire<'_>> {
        let (node, _) = self.blueprint.port_ends(port)?;
        let namespace = &self.wires;
        let end = |letter: char, first: u32| End {
            name: format!("{letter}{port}"),
            ifindex: first + index32(port),
            mac: port_mac(port),
            namespace,
        };
        let wire = || Wire {
            cable: end('c', FIRST_IFINDEX),
            inner: end('w', WIRE_IFINDEX),
            coupling: (format!("b{port}"), COUPLING_IFINDEX + index32(port)),
        };
        self.blueprint.is_host(node).then(wire)
    }

    /// Couples both ends while everything is still down.
    pub(super) fn prepare_wire(&self, wire: &Wire<'_>) -> Result<(), LabError> {
        let (name, bridge) = &wire.coupling;
        wire.inner.namespace.run(|| -> Result<(), LabError> {
            let mut netlink = Netlink::new();
            netlink.create_bridge(name, *bridge, Forwarding::Everything)?;
            netlink.offloads_off(name)?;
            netlink.offloads_off(&wire.inner.name)?;
            for end in [&wire.cable, &wire.inner] {
                netlink.add_bridge_port(BridgePort {
                    ifindex: end.ifindex,
                    bridge: *bridge,
                    forwarding: Forwarding::Everything,
                })?;
            }
            Ok(())
        })?
    }

    /// Brings the lab's side up. The host's own end is left to the host.
    pub(super) fn bring_wire_up(&self, wire: &Wire<'_>) -> Result<(), LabError> {
        let names = [&wire.coupling.0, &wire.inner.name, &wire.cable.name];
        wire.inner.namespace.run(|| -> Result<(), LabError> {
            let mut netlink = Netlink::new();
            for name in names {
                netlink.set_up_without_arp(name)?;
            }
            Ok(())
        })?
    }

    /// Lets every host answer from the driver for the network's lifetime. Do not call this during a run: a veth with a
    /// program copies frames, so a talker would no longer notice a full queue.
    pub(crate) fn take_replies(&self) -> Result<(), LabError> {
        for wire in (0..2 * self.blueprint.cables.len()).filter_map(|port| self.wire(port)) {
            let inner = &wire.inner;
            inner
                .namespace
                .run(|| self.program.leave_xdp("take_replies", inner.ifindex))??;
        }
        Ok(())
    }
}
