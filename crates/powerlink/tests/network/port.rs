//! The model of a port: it carries out a node's actions, by itself or not at all, and keeps a record of them.

use rtwire_wire::{Action, Arm, Cue, Outbox, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// An action that a node has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A frame of this POWERLINK message type was sent.
    Send(u8),
    Prepare(Slot),
    Arm(Arm),
    Disarm(Slot),
    /// A frame was due, and had left or not.
    Due(Slot, bool),
}

/// A node's outbox.
#[derive(Default)]
pub struct Port {
    /// True if the port sends prepared frames by itself.
    pub sends: bool,
    /// The actions that the node has asked for, if they are kept.
    pub record: Option<Vec<Asked>>,
    /// Frames of the node on their way to the medium.
    pub frames: Vec<(Vec<u8>, Option<u64>)>,
    /// Buffers that may be used again.
    pub spare: Vec<Vec<u8>>,
    prepared: BTreeMap<Slot, Vec<u8>>,
    arms: Vec<Arm>,
    /// Slots of a chain that have left since they were prepared, and those that the port has sent itself.
    left: BTreeSet<Slot>,
    own: BTreeSet<Slot>,
    /// Replies that have left on the frame that is being shown.
    replied: BTreeSet<Slot>,
    /// Frames that the port has sent by itself.
    pub count: u64,
}

impl Port {
    /// Takes a frame that may be a cue. Returns the frames that leave by themselves, each with its delay in ns.
    pub fn cue(&mut self, cue: Cue) -> Vec<(Vec<u8>, u64)> {
        self.replied.clear();
        let mut leaving = Vec::new();
        if !self.sends {
            return leaving;
        }
        for arm in self.arms.iter().filter(|arm| arm.cue == cue) {
            match arm.behind {
                None => drop(self.replied.insert(arm.slot)),
                Some(behind) if self.left.contains(&behind) && !self.left.contains(&arm.slot) => {
                    self.own.insert(arm.slot);
                }
                Some(_) => continue,
            }
            leaving.push((self.prepared[&arm.slot].clone(), arm.after_ns));
            self.count += 1;
        }
        // Not before: one cue moves a chain by one.
        self.left.extend(&self.own);
        leaving
    }

    /// The frame was shown.
    pub fn shown(&mut self) {
        self.replied.clear();
    }

    /// Returns true if any frame may leave by itself.
    pub fn is_armed(&self) -> bool {
        !self.arms.is_empty()
    }

    pub fn holds(&self, slot: Slot) -> Option<&[u8]> {
        self.prepared.get(&slot).map(Vec::as_slice)
    }

    fn note(&mut self, asked: Asked) {
        if let Some(record) = &mut self.record {
            record.push(asked);
        }
    }

    fn push(&mut self, frame: &[u8], launch_ns: Option<u64>) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.frames.push((buffer, launch_ns));
    }
}

impl Outbox for Port {
    fn send(&mut self, frame: &[u8], launch_ns: Option<u64>) {
        self.note(Asked::Send(frame[14]));
        self.push(frame, launch_ns);
    }

    fn act(&mut self, action: Action<'_>) {
        match action {
            Action::Prepare { slot, frame } => {
                self.note(Asked::Prepare(slot));
                let kept = self.prepared.entry(slot).or_default();
                kept.clear();
                kept.extend_from_slice(frame);
                self.left.remove(&slot);
                self.own.remove(&slot);
            }
            Action::Arm(arm) => {
                self.note(Asked::Arm(arm));
                assert!(self.prepared.contains_key(&arm.slot), "armed, but empty");
                let other = |there: &Arm| (there.slot, there.cue) != (arm.slot, arm.cue);
                self.arms.retain(other);
                self.arms.push(arm);
            }
            Action::Disarm { slot } => {
                self.note(Asked::Disarm(slot));
                let mut gone = BTreeSet::from([slot]);
                // A chain is armed in its order.
                self.arms.retain(|arm| {
                    let goes = gone.contains(&arm.slot)
                        || arm.behind.is_some_and(|behind| gone.contains(&behind));
                    if goes {
                        gone.insert(arm.slot);
                    }
                    !goes
                });
            }
            Action::Due {
                slot,
                frame,
                launch_ns,
            } => {
                let left = self.replied.contains(&slot) || self.own.contains(&slot);
                self.note(Asked::Due(slot, left));
                if !left {
                    self.left.insert(slot);
                    self.push(frame, launch_ns);
                }
            }
        }
    }

    fn has_left(&self, slot: Slot) -> bool {
        self.own.contains(&slot)
    }
}
