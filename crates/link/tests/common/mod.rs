//! RTDiP frames of tests that send them without a talker.

use rtwire_testkit::Side;
use rtwire_wire::rtdip::{Header, Semantics};
use rtwire_wire::{EtherType, MacAddress, Pcp, VlanTag, ethernet};

/// Returns a frame between two sides with ten bytes of payload.
pub(crate) fn frame(
    (from, to): (&Side, &Side),
    vlan: Option<VlanTag>,
    semantics: Semantics,
    port: u16,
    sequence: u32,
) -> Vec<u8> {
    let ethernet = ethernet::Header {
        destination: MacAddress(to.mac),
        source: MacAddress(from.mac),
        vlan,
        ether_type: EtherType::RTDIP,
    };
    let header = Header {
        semantics,
        priority: Pcp::LOWEST,
        destination_port: port,
        source_port: 7,
        sequence,
        key: 0,
        time_ns: None,
    };
    let mut frame = vec![0; 64];
    let at = ethernet.emit(&mut frame).unwrap();
    header.emit(b"0123456789", &mut frame[at..]).unwrap();
    frame
}
