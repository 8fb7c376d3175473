//! The process image of one cycle, as a control loop sees it.

use crate::kind::Key;
use core::ops::Range;
use rtwire_powerlink::{ProcessImage, Validity};

/// One object in the process image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point(pub(crate) usize);

/// The process image of one cycle, as the control loop sees it.
#[derive(Debug)]
pub struct Io<'a> {
    pub(crate) image: &'a mut ProcessImage,
    pub(crate) points: &'a [(Key, Range<usize>)],
    /// The cycle whose inputs were seen for the outputs: this one, unless another thread has set them.
    pub(crate) turn: u64,
    /// The cycle's number since the station began.
    pub cycle: u64,
    /// The time at which the loop was called, ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// The frames that are missing since the station began: responses at a managing node, SoC at a controlled node. Where the
    /// number grows, inputs are old: [`Io::validity`] tells which.
    pub missing: u64,
    /// The stalls of this node since the station began: times that it was stopped for more than half a cycle.
    pub own_stalls: u64,
}

/// Returns the bytes of a point in a process image.
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

/// Returns the validity of a point in a process image.
pub(crate) fn validity_of(image: &ProcessImage, (key, range): &(Key, Range<usize>)) -> Validity {
    let channel = image.receive_at(range.start);
    let input = channel.filter(|_| !key.output && !range.is_empty());
    input.map_or_else(Validity::default, |channel| image.validity(channel))
}

/// Returns the unsigned little-endian value of up to 8 bytes; 0 of more.
pub(crate) fn number(octets: &[u8]) -> u64 {
    let mut wide = [0; 8];
    if let Some(place) = wide.get_mut(..octets.len()) {
        place.copy_from_slice(octets);
    }
    u64::from_le_bytes(wide)
}

impl Io<'_> {
    /// Returns the unsigned little-endian value of a point, input or output.
    #[must_use]
    pub fn get(&self, point: Point) -> u64 {
        number(self.octets(point))
    }

    /// Returns the validity of an input: whether its value came with the last cycle, its age, and its sender's state. Never live for
    /// an output, or for an object that is mapped no more. No allocation, no system call.
    #[must_use]
    pub fn validity(&self, point: Point) -> Validity {
        let place = self.points.get(point.0);
        place.map_or_else(Validity::default, |place| validity_of(self.image, place))
    }

    /// Returns the value of an input if it is live, as of [`Io::validity`].
    #[must_use]
    pub fn live(&self, point: Point) -> Option<u64> {
        self.validity(point).live.then(|| self.get(point))
    }

    /// Sets an output, which is sent in the next cycle. Does nothing with an input.
    pub fn set(&mut self, point: Point, value: u64) {
        let octets = self.octets_mut(point);
        if let Some(value) = value.to_le_bytes().get(..octets.len()) {
            octets.copy_from_slice(value);
        }
    }

    /// Returns the bytes of a point, input or output.
    #[must_use]
    pub fn octets(&self, point: Point) -> &[u8] {
        let place = self.points.get(point.0);
        place.map_or(&[], |place| octets_of(self.image, place))
    }

    /// Returns the bytes of an output, to be set; no bytes of an input.
    pub fn octets_mut(&mut self, point: Point) -> &mut [u8] {
        let Some((_, range)) = self.points.get(point.0).filter(|(key, _)| key.output) else {
            return &mut [];
        };
        self.image
            .outputs
            .get_mut(range.clone())
            .unwrap_or_default()
    }

    /// Returns the whole process image.
    #[must_use]
    pub fn image(&mut self) -> &mut ProcessImage {
        self.image
    }
}
