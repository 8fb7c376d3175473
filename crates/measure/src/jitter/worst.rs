//! The worst cases, each with the packets around it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;

use super::model::{WorstCase, WorstKind};
use crate::capture::{Recorded, Writer};

/// A packet that a worst case may need later.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) number: u64,
    pub(super) time_ns: u64,
    pub(super) link_type: u16,
    pub(super) original_octets: u32,
    pub(super) data: Vec<u8>,
}

/// One worst case while the capture is read.
#[derive(Debug)]
struct Case {
    case: WorstCase,
    around: Vec<Rc<Stored>>,
    /// Number of packets that must still follow.
    to_come: usize,
}

/// Keeps the worst cases of each kind.
#[derive(Debug)]
pub(super) struct Keeper {
    /// Number of cases to keep of each kind.
    most: usize,
    /// Number of packets to keep before a case, and as many after it.
    around: usize,
    recent: VecDeque<Rc<Stored>>,
    cases: Vec<Case>,
}

impl Keeper {
    pub(super) fn new(most: usize, around: usize) -> Self {
        Self {
            most,
            around,
            recent: VecDeque::with_capacity(around + 1),
            cases: Vec::new(),
        }
    }

    /// Adds the next packet. A case given to [`Keeper::offer`] afterwards belongs to it.
    pub(super) fn packet(&mut self, packet: Stored) {
        let packet = Rc::new(packet);
        for case in self.cases.iter_mut().filter(|case| case.to_come > 0) {
            case.around.push(Rc::clone(&packet));
            case.to_come -= 1;
        }
        if self.recent.len() > self.around {
            self.recent.pop_front();
        }
        self.recent.push_back(packet);
    }

    /// Keeps the case if it is among the worst of its kind.
    pub(super) fn offer(&mut self, case: WorstCase) {
        let alike = |other: &Case| other.case.kind == case.kind;
        if self.cases.iter().filter(|other| alike(other)).count() >= self.most {
            let mildest = self
                .cases
                .iter()
                .enumerate()
                .filter(|(_, other)| alike(other))
                .min_by_key(|(_, other)| other.case.value_ns);
            match mildest {
                Some((at, other)) if other.case.value_ns < case.value_ns => {
                    self.cases.remove(at);
                }
                _ => return,
            }
        }
        self.cases.push(Case {
            case,
            around: self.recent.iter().map(Rc::clone).collect(),
            to_come: self.around,
        });
    }

    /// Returns all kept cases. `keep` may change a case (its words, its value) or refuse it.
    pub(super) fn finish(
        self,
        mut keep: impl FnMut(WorstCase) -> Option<WorstCase>,
    ) -> (Vec<WorstCase>, Neighbourhood) {
        let mut kept: Vec<(WorstCase, Vec<Rc<Stored>>)> = self
            .cases
            .into_iter()
            .filter_map(|case| Some((keep(case.case)?, case.around)))
            .collect();
        kept.sort_by(|(a, _), (b, _)| {
            (a.kind, b.value_ns, a.number).cmp(&(b.kind, a.value_ns, b.number))
        });
        // `keep` may turn two kinds into one, so the limit is applied again.
        let mut counts: BTreeMap<WorstKind, usize> = BTreeMap::new();
        kept.retain(|(case, _)| {
            let count = counts.entry(case.kind).or_default();
            *count += 1;
            *count <= self.most
        });
        let mut neighbourhood = Neighbourhood::default();
        for (case, around) in &kept {
            for packet in around {
                neighbourhood
                    .packets
                    .entry(packet.number)
                    .or_insert_with(|| (Rc::clone(packet), String::new()));
            }
            if let Some((_, comment)) = neighbourhood.packets.get_mut(&case.number) {
                if !comment.is_empty() {
                    comment.push_str("; ");
                }
                comment.push_str(&case.words);
            }
        }
        (
            kept.into_iter().map(|(case, _)| case).collect(),
            neighbourhood,
        )
    }
}

/// The packets around all worst cases, each once, in the order of the capture.
#[derive(Debug, Default)]
pub struct Neighbourhood {
    packets: BTreeMap<u64, (Rc<Stored>, String)>,
}

impl Neighbourhood {
    /// Returns the number of packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns true if there are no packets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Writes the packets as a capture (pcapng). The packet of a worst case has it as its comment. A packet after a
    /// gap has its number in the original capture as its comment. Only packets of the first one's link type are
    /// written.
    ///
    /// # Errors
    /// The error of the output if it cannot be written.
    pub fn write(&self, output: impl io::Write) -> io::Result<()> {
        let link_type = self
            .packets
            .values()
            .next()
            .map_or(crate::capture::LINK_ETHERNET, |(packet, _)| {
                packet.link_type
            });
        let mut writer = Writer::new(output, link_type)?;
        let mut last = 0;
        for (packet, case) in self.packets.values() {
            if packet.link_type != link_type {
                continue;
            }
            let mut comment = case.clone();
            if packet.number != last + 1 {
                let left_out = format!("packet {} of the whole capture", packet.number);
                comment = if comment.is_empty() {
                    left_out
                } else {
                    format!("{comment}; {left_out}")
                };
            }
            last = packet.number;
            writer.packet(&Recorded {
                time_ns: packet.time_ns,
                data: &packet.data,
                original_octets: packet.original_octets,
                comment: &comment,
            })?;
        }
        writer.finish()
    }
}
