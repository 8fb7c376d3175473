//! A managing and a controlled node of the smallest kind: the isochronous phase and nothing else. Their state machines know
//! nothing of paths, so that what is tested is the path and the contract.
#![allow(dead_code, reason = "not every user needs everything")]

use rtwire_powerlink_station::powerlink::prepared;
use rtwire_wire::{Action, Arm, MacAddress, Node, Outbox};

pub(crate) const ETHER_TYPE: u16 = 0x88ab;
pub(crate) const SOC: u8 = 1;
pub(crate) const PREQ: u8 = 3;
pub(crate) const PRES: u8 = 4;
pub(crate) const SOA: u8 = 5;

pub(crate) fn groups() -> Vec<MacAddress> {
    (1..=4)
        .map(|last| MacAddress([1, 0x11, 0x1e, 0, 0, last]))
        .collect()
}

fn frame(to: MacAddress, message: u8, destination: u8, source: u8, value: u32) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 9, source]);
    frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    frame[14..17].copy_from_slice(&[message, destination, source]);
    frame[17] = 0xfd;
    frame[24..28].copy_from_slice(&value.to_le_bytes());
    frame
}

fn group(message: u8) -> MacAddress {
    let last = match message {
        SOC => 1,
        PRES => 2,
        SOA => 3,
        _ => 4,
    };
    MacAddress([1, 0x11, 0x1e, 0, 0, last])
}

pub(crate) fn value(frame: &[u8]) -> u32 {
    u32::from_le_bytes(frame[24..28].try_into().unwrap())
}

/// Polls its nodes one after the other: the next one when the one before has answered or its time is up.
pub(crate) struct Managing {
    pub(crate) cycle_ns: u64,
    pub(crate) timeout_ns: u64,
    /// Node numbers and addresses.
    pub(crate) nodes: Vec<(u8, MacAddress)>,
    pub(crate) cycles: u64,
    pub(crate) skipped: u64,
    /// Lost responses of each node, by position.
    pub(crate) lost: Vec<u64>,
    /// The newest value of each node.
    pub(crate) values: Vec<u32>,
    /// Times in ns from SoC to the last response.
    pub(crate) phases: Vec<u64>,
    /// Number of late responses.
    pub(crate) late_responses: u64,
    soc_ns: u64,
    next_soc_ns: u64,
    waiting: Option<(usize, u64)>,
}

impl Managing {
    pub(crate) fn new(cycle_ns: u64, timeout_ns: u64, nodes: Vec<(u8, MacAddress)>) -> Self {
        let count = nodes.len();
        Self {
            cycle_ns,
            timeout_ns,
            nodes,
            cycles: 0,
            skipped: 0,
            lost: vec![0; count],
            values: vec![0; count],
            phases: Vec::with_capacity(1 << 20),
            late_responses: 0,
            soc_ns: 0,
            next_soc_ns: 0,
            waiting: None,
        }
    }

    /// Prepares the requests of the cycle that begins.
    fn prepare(&self, outbox: &mut dyn Outbox) {
        let slot = |place| prepared::request(self.cycles, place).unwrap();
        for (place, &(node, mac)) in self.nodes.iter().enumerate() {
            let frame = &frame(mac, PREQ, node, 240, self.cycles as u32);
            outbox.act(Action::Prepare {
                slot: slot(place),
                frame,
            });
            if let Some(before) = place.checked_sub(1) {
                outbox.act(Action::Arm(Arm {
                    slot: slot(place),
                    cue: prepared::pres(self.nodes[before].0),
                    after_ns: 0,
                    behind: Some(slot(before)),
                }));
            }
        }
    }

    fn poll(&mut self, position: usize, now_ns: u64, outbox: &mut dyn Outbox) {
        match self.nodes.get(position) {
            Some(&(node, mac)) => {
                outbox.act(Action::Due {
                    slot: prepared::request(self.cycles, position).unwrap(),
                    frame: &frame(mac, PREQ, node, 240, self.cycles as u32),
                    launch_ns: None,
                });
                self.waiting = Some((position, now_ns + self.timeout_ns));
            }
            None => {
                self.waiting = None;
                self.phases.push(now_ns - self.soc_ns);
                outbox.act(Action::Disarm {
                    slot: prepared::request(self.cycles, 0).unwrap(),
                });
                outbox.send(&frame(group(SOA), SOA, 255, 240, 0), None);
            }
        }
    }
}

impl Node for Managing {
    fn start(&mut self, now_ns: u64, _outbox: &mut dyn Outbox) {
        self.next_soc_ns = now_ns + self.cycle_ns;
    }

    fn frame(&mut self, now_ns: u64, octets: &[u8], outbox: &mut dyn Outbox) {
        if octets[14] != PRES {
            return;
        }
        match self.waiting {
            Some((position, _)) if self.nodes[position].0 == octets[16] => {
                self.values[position] = value(octets);
                self.poll(position + 1, now_ns, outbox);
            }
            _ => self.late_responses += 1,
        }
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        if let Some((position, deadline_ns)) = self.waiting {
            if now_ns >= deadline_ns {
                self.lost[position] += 1;
                self.poll(position + 1, now_ns, outbox);
            }
            return;
        }
        if now_ns >= self.next_soc_ns {
            self.cycles += 1;
            self.soc_ns = now_ns;
            self.prepare(outbox);
            outbox.send(&frame(group(SOC), SOC, 255, 240, 0), None);
            self.poll(0, now_ns, outbox);
            self.next_soc_ns += self.cycle_ns;
            while self.next_soc_ns <= now_ns {
                self.next_soc_ns += self.cycle_ns;
                self.skipped += 1;
            }
        }
    }

    fn wake_at_ns(&self) -> Option<u64> {
        Some(match self.waiting {
            Some((_, deadline_ns)) => deadline_ns,
            None => self.next_soc_ns,
        })
    }
}

/// Answers the polls of one node or several with a growing number.
pub(crate) struct Controlled {
    pub(crate) nodes: Vec<u8>,
    pub(crate) polls: u64,
    pub(crate) socs: u64,
    pub(crate) soas: u64,
    /// The newest value received with a poll.
    pub(crate) value: u32,
    /// Sends nothing at all while this is `true`.
    pub(crate) silent: bool,
    armed: bool,
    /// The message types that it was shown, for tests of order.
    pub(crate) history: Vec<u8>,
}

impl Controlled {
    pub(crate) fn new(nodes: &[u8]) -> Self {
        Self {
            nodes: nodes.to_vec(),
            polls: 0,
            socs: 0,
            soas: 0,
            value: 0,
            silent: false,
            armed: false,
            history: Vec::with_capacity(1 << 20),
        }
    }
}

impl Node for Controlled {
    fn start(&mut self, _now_ns: u64, _outbox: &mut dyn Outbox) {}

    fn frame(&mut self, _now_ns: u64, octets: &[u8], outbox: &mut dyn Outbox) {
        if self.history.len() < self.history.capacity() {
            self.history.push(octets[14]);
        }
        match octets[14] {
            SOC => self.socs += 1,
            SOA => self.soas += 1,
            PREQ if self.nodes.contains(&octets[15]) => {
                self.polls += 1;
                self.value = value(octets);
                if !self.silent {
                    let number = self.polls as u32;
                    let slot = prepared::RESPONSE;
                    let frame = &frame(group(PRES), PRES, 255, octets[15], number);
                    outbox.act(Action::Due {
                        slot,
                        frame,
                        launch_ns: None,
                    });
                    outbox.act(Action::Prepare { slot, frame });
                    outbox.act(Action::Arm(Arm {
                        slot,
                        cue: prepared::PREQ,
                        after_ns: 0,
                        behind: None,
                    }));
                    self.armed = true;
                }
            }
            _ => {}
        }
    }

    fn moment(&mut self, _now_ns: u64, _outbox: &mut dyn Outbox) {}

    fn settle(&mut self, outbox: &mut dyn Outbox) {
        if self.silent && std::mem::take(&mut self.armed) {
            outbox.act(Action::Disarm {
                slot: prepared::RESPONSE,
            });
        }
    }

    fn wake_at_ns(&self) -> Option<u64> {
        None
    }
}
