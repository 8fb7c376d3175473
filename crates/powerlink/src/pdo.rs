//! Process data: places of the objects in PReq and PRes, checked against their sizes (DS 301, 6.4).
//!
//! A node's process image has a received part and a transmitted part. Each PDO has a range of its part. The objects
//! in this range have the same places as in the frame, so a frame is copied as a whole.

use crate::validity::Origin;
use crate::{AbortCode, Error, ObjectDictionary};

/// Index of the first communication parameters of received PDOs; the mapping is 200h above.
pub const RECEIVE: u16 = 0x1400;
/// Index of the first communication parameters of transmitted PDOs; the mapping is 200h above.
pub const TRANSMIT: u16 = 0x1800;

/// One mapped object of a PDO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Index.
    pub index: u16,
    /// Sub-index.
    pub subindex: u8,
    /// Offset in the payload, in bytes.
    pub offset_octets: usize,
    /// Length in bytes.
    pub octets: usize,
}

impl Mapped {
    /// Parses a mapping entry: index, sub-index, reserved octet, offset and length in bits.
    ///
    /// # Errors
    /// Offset or length is not a whole number of bytes, or the length is 0.
    pub const fn from_number(number: u64) -> Result<Self, AbortCode> {
        let (offset, bits) = (number >> 32 & 0xffff, number >> 48);
        if offset % 8 != 0 || bits % 8 != 0 || bits == 0 {
            return Err(AbortCode::INCOMPATIBLE);
        }
        Ok(Self {
            index: number as u16,
            subindex: (number >> 16) as u8,
            offset_octets: (offset / 8) as usize,
            octets: (bits / 8) as usize,
        })
    }

    /// Returns the offset behind it in the payload, in bytes.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.offset_octets + self.octets
    }

    /// Returns the mapping entry.
    #[must_use]
    pub const fn to_number(self) -> u64 {
        self.index as u64
            | (self.subindex as u64) << 16
            | ((self.offset_octets as u64 * 8) & 0xffff) << 32
            | (self.octets as u64 * 8) << 48
    }
}

/// The process data of one frame: one PDO, or several of the same node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The node of the PDO. At a managing node it is the controlled node. At a controlled node it is the node whose
    /// PRes is read, or 0 for the PReq and for the own PRes.
    pub node: u8,
    /// Version of the mapping.
    pub version: u8,
    /// Length of the payload, in bytes.
    pub octets: usize,
    /// Offset of its range in the process image, in bytes.
    pub at: usize,
    /// Its objects in the order of the PDOs and their mapping.
    pub mapped: Vec<Mapped>,
}

impl Channel {
    /// Returns its range of the process image.
    #[must_use]
    pub fn range(&self) -> core::ops::Range<usize> {
        self.at..self.at + self.octets
    }
}

/// Extent of a mapping's check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The objects must exist, be mappable, and have the mapped length.
    Objects,
    /// Only the places are checked: a managing node may be configured without its application's objects.
    Places,
}

/// Checks the mapping of one PDO with its first `count` entries. The error is the abort code for the network when the
/// mapping is activated.
///
/// # Errors
/// A mapped object is missing, is not mappable, has another length, or does not fit in `limit` bytes.
pub fn check(
    dictionary: &ObjectDictionary,
    mapping: u16,
    count: u8,
    limit: usize,
    check: Check,
) -> Result<Vec<Mapped>, AbortCode> {
    let transmit = mapping >= TRANSMIT;
    let mut all = Vec::new();
    for subindex in 1..=count {
        let mapped = Mapped::from_number(dictionary.number(mapping, subindex))?;
        if mapped.offset_octets + mapped.octets > limit {
            return Err(AbortCode::PDO_LENGTH);
        }
        // Indices below 20h are data types: they reserve room.
        if check == Check::Objects && mapped.index >= 0x20 {
            let entry = dictionary.entry(mapped.index, mapped.subindex)?;
            if !entry.mappable.allows(transmit) {
                return Err(AbortCode::NOT_MAPPABLE);
            }
            if entry
                .data_type
                .octets()
                .is_some_and(|octets| octets != mapped.octets)
            {
                return Err(AbortCode::INCOMPATIBLE);
            }
        }
        all.push(mapped);
    }
    Ok(all)
}

/// Returns what is mapped in one direction, each frame with its range of the process image. Several PDOs of one node are one
/// [`Channel`]: they share its frame. So more than 254 objects find room in it.
///
/// # Errors
/// The first invalid mapping. Also: two PDOs of one frame differ in their version, or write the same bytes of it.
pub fn channels(
    dictionary: &ObjectDictionary,
    first: u16,
    limit: impl Fn(u8) -> usize,
    how: Check,
) -> Result<Vec<Channel>, Error> {
    let mut channels: Vec<Channel> = Vec::new();
    for parameters in first..first + 0x100 {
        let mapping = parameters + 0x200;
        let count = dictionary.number(mapping, 0) as u8;
        if count == 0 {
            continue;
        }
        let refused = |code| Error::Object {
            index: mapping,
            subindex: 0,
            code,
        };
        let node = dictionary.number(parameters, 1) as u8;
        let version = dictionary.number(parameters, 2) as u8;
        let mapped = check(dictionary, mapping, count, limit(node), how).map_err(refused)?;
        let octets = mapped.iter().map(Mapped::end).max().unwrap_or_default();
        match channels.iter_mut().find(|channel| channel.node == node) {
            Some(same) => {
                let collides = first == TRANSMIT && overlap(&same.mapped, &mapped);
                if same.version != version || collides {
                    return Err(refused(AbortCode::INCOMPATIBLE));
                }
                same.octets = same.octets.max(octets);
                same.mapped.extend(mapped);
            }
            None => channels.push(Channel {
                node,
                version,
                octets,
                at: 0,
                mapped,
            }),
        }
    }
    let mut at = 0;
    for channel in &mut channels {
        channel.at = at;
        at += channel.octets;
    }
    Ok(channels)
}

/// Returns true where objects of both lists lie in the same bytes.
fn overlap(before: &[Mapped], behind: &[Mapped]) -> bool {
    let end = before.iter().map(Mapped::end).max().unwrap_or_default();
    let mut taken = vec![false; end];
    for mapped in before {
        if let Some(place) = taken.get_mut(mapped.offset_octets..mapped.end()) {
            place.fill(true);
        }
    }
    let is_taken = |mapped: &Mapped| {
        let from = mapped.offset_octets.min(end);
        let place = taken.get(from..mapped.end().min(end));
        place.is_some_and(|place| place.contains(&true))
    };
    behind.iter().any(is_taken)
}

/// Process data of a node: received and transmitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessImage {
    /// Received data of all PDOs, one after the other.
    pub inputs: Vec<u8>,
    /// Data to transmit of all PDOs, one after the other.
    pub outputs: Vec<u8>,
    /// Received PDOs.
    pub receive: Vec<Channel>,
    /// Transmitted PDOs.
    pub transmit: Vec<Channel>,
    /// Origins of the received data, one for each received PDO.
    pub(crate) origins: Vec<Origin>,
    /// The cycle that runs.
    pub(crate) cycle: u64,
}

impl ProcessImage {
    /// Creates the image of these PDOs; all values are zero.
    #[must_use]
    pub fn new(receive: Vec<Channel>, transmit: Vec<Channel>) -> Self {
        let octets = |channels: &[Channel]| channels.last().map_or(0, |last| last.range().end);
        Self {
            inputs: vec![0; octets(&receive)],
            outputs: vec![0; octets(&transmit)],
            origins: vec![Origin::default(); receive.len()],
            receive,
            transmit,
            cycle: 0,
        }
    }

    /// Returns the position in `receive` of the PDO from `node`.
    #[must_use]
    pub fn receive_of(&self, node: u8) -> Option<usize> {
        self.receive.iter().position(|channel| channel.node == node)
    }

    /// Returns the position in `transmit` of the PDO to `node`.
    #[must_use]
    pub fn transmit_to(&self, node: u8) -> Option<usize> {
        self.transmit
            .iter()
            .position(|channel| channel.node == node)
    }

    /// Copies a payload if its mapping has the same main version and it is long enough; returns `true` if it did.
    pub fn take(&mut self, at: usize, version: u8, payload: &[u8]) -> bool {
        let Some(channel) = self.receive.get(at) else {
            return false;
        };
        // Version 0 on either side disables the check (DS 301, 6.4.2).
        let versions = channel.version == 0 || version == 0 || channel.version >> 4 == version >> 4;
        let place = self.inputs.get_mut(channel.range());
        match (place, payload.get(..channel.octets)) {
            (Some(place), Some(payload)) if versions => {
                place.copy_from_slice(payload);
                self.came(at);
                true
            }
            _ => false,
        }
    }

    /// Returns the payload of a transmitted PDO.
    #[must_use]
    pub fn payload(&self, channel: usize) -> &[u8] {
        let range = self.transmit.get(channel).map(Channel::range);
        range
            .and_then(|range| self.outputs.get(range))
            .unwrap_or_default()
    }

    /// Returns the place of an object: `true` if it is among the outputs, and its range there in bytes.
    #[must_use]
    pub fn place(&self, index: u16, subindex: u8) -> Option<(bool, core::ops::Range<usize>)> {
        let find = |channels: &[Channel]| {
            channels.iter().find_map(|channel| {
                let same = |m: &&Mapped| (m.index, m.subindex) == (index, subindex);
                let mapped = channel.mapped.iter().find(same)?;
                let begin = channel.at + mapped.offset_octets;
                Some(begin..begin + mapped.octets)
            })
        };
        let received = find(&self.receive).map(|range| (false, range));
        received.or_else(|| find(&self.transmit).map(|range| (true, range)))
    }
}
