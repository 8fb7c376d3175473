//! The process image of one cycle, as a control loop sees it.

use crate::kind::Key;
use core::ops::Range;
use rtwire_powerlink::ProcessImage;

/// One object in the process image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point(pub(crate) usize);

/// The process image of one cycle, as the control loop sees it.
#[derive(Debug)]
pub struct Io<'a> {
    pub(crate) image: &'a mut ProcessImage,
    pub(crate) points: &'a [(Key, Range<usize>)],
    /// The cycle's number since the station began.
    pub cycle: u64,
    /// When the loop was called, ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// How much should have come and did not, since the station began: at a managing node responses, at a controlled node
    /// SoC. Where it grows, inputs are old.
    pub missing: u64,
    /// How often the node itself stood still for more than half a cycle, since the station began.
    pub own_stalls: u64,
}

/// The octets of a point in a process image.
pub(crate) fn octets_of<'a>(
    image: &'a ProcessImage,
    (key, range): &(Key, Range<usize>),
) -> &'a [u8] {
    let from = if key.output {
        &image.outputs
    } else {
        &image.inputs
    };
    from.get(range.clone()).unwrap_or_default()
}

/// The value of up to 8 octets, little-endian, without sign; 0 of more.
pub(crate) fn number(octets: &[u8]) -> u64 {
    let mut wide = [0; 8];
    if let Some(place) = wide.get_mut(..octets.len()) {
        place.copy_from_slice(octets);
    }
    u64::from_le_bytes(wide)
}

impl Io<'_> {
    /// The value of a point, inputs and outputs alike; little-endian, without sign.
    #[must_use]
    pub fn get(&self, point: Point) -> u64 {
        number(self.octets(point))
    }

    /// Sets an output, to be sent in the next cycle; nothing happens with an input.
    pub fn set(&mut self, point: Point, value: u64) {
        let octets = self.octets_mut(point);
        if let Some(value) = value.to_le_bytes().get(..octets.len()) {
            octets.copy_from_slice(value);
        }
    }

    /// The octets of a point, inputs and outputs alike.
    #[must_use]
    pub fn octets(&self, point: Point) -> &[u8] {
        let place = self.points.get(point.0);
        place.map_or(&[], |place| octets_of(self.image, place))
    }

    /// The octets of an output, to be set; none of an input.
    pub fn octets_mut(&mut self, point: Point) -> &mut [u8] {
        let Some((_, range)) = self.points.get(point.0).filter(|(key, _)| key.output) else {
            return &mut [];
        };
        self.image
            .outputs
            .get_mut(range.clone())
            .unwrap_or_default()
    }

    /// The whole process image.
    #[must_use]
    pub fn image(&mut self) -> &mut ProcessImage {
        self.image
    }
}
