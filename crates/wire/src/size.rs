//! What a frame costs on the wire.

use crate::{ethernet, rtdip};

/// What every frame costs beyond header and payload: preamble and delimiter 8, frame check sequence 4, gap 12.
pub const FRAME_OVERHEAD_OCTETS: usize = 24;
/// The shortest frame, header and payload without the frame check sequence; 4 more with a VLAN tag.
pub const MINIMUM_FRAME_OCTETS: usize = 60;
/// The longest frame, header and payload without the frame check sequence; 4 more with a VLAN tag.
pub const MAXIMUM_FRAME_OCTETS: usize = 1514;
/// What a VLAN tag adds.
pub const VLAN_TAG_OCTETS: usize = 4;

/// Octets that a frame of `frame_octets` (header and payload, without check sequence) takes on the wire: padded to the
/// least length, and `overhead_octets` more ([`FRAME_OVERHEAD_OCTETS`] for real Ethernet).
#[must_use]
pub const fn wire_octets(frame_octets: usize, overhead_octets: usize) -> usize {
    let frame = if frame_octets < MINIMUM_FRAME_OCTETS {
        MINIMUM_FRAME_OCTETS
    } else {
        frame_octets
    };
    frame + overhead_octets
}

/// Octets of an RTDiP frame with `data_octets` of user data and a time stamp, padded to the least length, without
/// check sequence.
#[must_use]
pub const fn rtdip_frame_octets(data_octets: usize, tagged: bool) -> usize {
    let rest = ethernet::HEADER_OCTETS + rtdip::HEADER_OCTETS + rtdip::TIME_OCTETS;
    padded(rest + data_octets, tagged)
}

/// Octets of a frame with RTDiP in UDP over IPv4 without options, with a time stamp, padded, without check sequence.
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
