//! The room that a frame takes on the wire.

use crate::{ethernet, rtdip};

/// Octets that a frame takes beyond header and payload: preamble and delimiter 8, frame check sequence 4, gap 12.
pub const FRAME_OVERHEAD_OCTETS: usize = 24;
/// Octets of the shortest frame: header and payload without the frame check sequence; 4 more with a VLAN tag.
pub const MINIMUM_FRAME_OCTETS: usize = 60;
/// Octets of the longest frame: header and payload without the frame check sequence; 4 more with a VLAN tag.
pub const MAXIMUM_FRAME_OCTETS: usize = 1514;
/// Octets of a VLAN tag.
pub const VLAN_TAG_OCTETS: usize = 4;

/// Returns the octets on the wire of a frame of `frame_octets` (header and payload, without check sequence).
///
/// The frame is padded to the least length. `overhead_octets` are added: [`FRAME_OVERHEAD_OCTETS`] for real Ethernet.
#[must_use]
pub const fn wire_octets(frame_octets: usize, overhead_octets: usize) -> usize {
    let frame = if frame_octets < MINIMUM_FRAME_OCTETS {
        MINIMUM_FRAME_OCTETS
    } else {
        frame_octets
    };
    frame + overhead_octets
}

/// Returns the octets of an RTDiP frame with a timestamp and `data_octets` of user data, padded, without check
/// sequence.
#[must_use]
pub const fn rtdip_frame_octets(data_octets: usize, tagged: bool) -> usize {
    let rest = ethernet::HEADER_OCTETS + rtdip::HEADER_OCTETS + rtdip::TIME_OCTETS;
    padded(rest + data_octets, tagged)
}

/// Returns the octets of an RTDiP frame in UDP over IPv4 without options. It has a timestamp, is padded, and has no
/// check sequence.
#[must_use]
pub const fn udp_frame_octets(data_octets: usize, tagged: bool) -> usize {
    let rest = ethernet::HEADER_OCTETS + 20 + 8 + rtdip::HEADER_OCTETS + rtdip::TIME_OCTETS;
    padded(rest + data_octets, tagged)
}

const fn padded(untagged: usize, tagged: bool) -> usize {
    let tag = if tagged { VLAN_TAG_OCTETS } else { 0 };
    if untagged < MINIMUM_FRAME_OCTETS {
        MINIMUM_FRAME_OCTETS + tag
    } else {
        untagged + tag
    }
}
