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

impl Io<'_> {
    /// The value of a point, inputs and outputs alike; little-endian, without sign.
    #[must_use]
    pub fn get(&self, point: Point) -> u64 {
        let Some((key, range)) = self.points.get(point.0) else {
            return 0;
        };
        let from = if key.output {
            &self.image.outputs
        } else {
            &self.image.inputs
        };
        let mut wide = [0; 8];
        if let Some(octets) = from.get(range.clone()).filter(|octets| octets.len() <= 8) {
            wide[..octets.len()].copy_from_slice(octets);
        }
        u64::from_le_bytes(wide)
    }

    /// Sets an output, to be sent in the next cycle; nothing happens with an input.
    pub fn set(&mut self, point: Point, value: u64) {
        let Some((key, range)) = self.points.get(point.0) else {
            return;
        };
        if let Some(octets) = self.image.outputs.get_mut(range.clone()) {
            if key.output && octets.len() <= 8 {
                let length = octets.len();
                octets.copy_from_slice(&value.to_le_bytes()[..length]);
            }
        }
    }

    /// The whole process image.
    #[must_use]
    pub fn image(&mut self) -> &mut ProcessImage {
        self.image
    }
}
