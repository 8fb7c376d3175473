//! Counting what no listener takes, in the filter of a listener's own socket.
//!
//! A second socket that takes the rest looks at every frame, which costs each good one some 60 ns. A filter that counts
//! (`crates/bpf/programs/strays.bpf.c`) costs them nothing: it stands where a filter stands anyway.

use rtwire_sys::bpf::{BpfError, BpfObject, MappedArray};
use rtwire_sys::filter::Filter;
use std::sync::atomic::{AtomicU64, Ordering};

const PROGRAM: &str = "count_strays";

/// Places for unknown ports; as in `crates/bpf/programs/strays.h`.
const PORTS: usize = 1024;
/// Words of 64 bits, one bit for each port; as in `crates/bpf/programs/strays.h`.
const TAKEN: usize = 1024;
/// Instead of a port: the socket takes nothing; as in `crates/bpf/programs/strays.h`.
const NO_PORT: u64 = 65_536;

/// Words of `struct rtw_strays`.
mod word {
    pub(super) const MAC: usize = 0;
    pub(super) const PORT: usize = 1;
    pub(super) const TRUNCATED: usize = 2;
    pub(super) const WRONG_VERSION: usize = 3;
    pub(super) const CROWDED: usize = 4;
    pub(super) const COUNT: usize = 5;
}

/// Words of `struct rtw_stray_port`.
mod port_word {
    pub(super) const NAME: usize = 0;
    pub(super) const FRAMES: usize = 1;
    pub(super) const COUNT: usize = 2;
}

/// What belonged to no listener, since the counter was made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Strays {
    /// Shorter than their headers.
    pub truncated: u64,
    /// Of another version.
    pub wrong_version: u64,
    /// For ports that [`StrayCounter::take`] was not told of: port and frames, in no order.
    pub unknown_ports: Vec<(u16, u64)>,
    /// For unknown ports, of which there were too many to tell them apart.
    pub crowded: u64,
}

/// A filter program that counts what its process's listeners do not take. Carried by one socket at a time.
///
/// Needs CAP_BPF (or root) and Linux 5.11. Opening loads a program; all else costs no system call and may be called from
/// anywhere but the real-time loop.
#[derive(Debug)]
pub struct StrayCounter {
    filter: Filter,
    totals: MappedArray,
    taken: MappedArray,
    unknown: MappedArray,
}

impl StrayCounter {
    /// Loads the program for an interface of the hardware address `mac`.
    ///
    /// # Errors
    /// CAP_BPF is missing, or the kernel has no BPF.
    pub fn load(mac: [u8; 6]) -> Result<Self, BpfError> {
        let object = BpfObject::load("strays", rtwire_bpf::STRAYS.bytes, &[])?;
        let counter = Self {
            filter: object.socket_filter(PROGRAM)?,
            totals: object.map_array("strays", word::COUNT)?,
            taken: object.map_array("taken", 1)?,
            unknown: object.map_array("unknown", port_word::COUNT)?,
        };
        let mac = mac
            .iter()
            .fold(0, |number, &octet| number << 8 | u64::from(octet));
        counter.total(word::MAC).store(mac, Ordering::Relaxed);
        counter.carry(None);
        Ok(counter)
    }

    /// The program, to be put before the socket that carries it.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// From now on the socket that carries the program takes the frames of `port`; of none, if `None`.
    pub fn carry(&self, port: Option<u16>) {
        let port = port.map_or(NO_PORT, u64::from);
        self.total(word::PORT).store(port, Ordering::Release);
    }

    /// From now on frames for `port` are somebody's.
    pub fn take(&self, port: u16) {
        let (word, bit) = place(port);
        if let Some(word) = self.taken.word(word, 0) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// From now on they are nobody's again.
    pub fn give_back(&self, port: u16) {
        let (word, bit) = place(port);
        if let Some(word) = self.taken.word(word, 0) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> Strays {
        let total = |word| self.total(word).load(Ordering::Relaxed);
        Strays {
            truncated: total(word::TRUNCATED),
            wrong_version: total(word::WRONG_VERSION),
            crowded: total(word::CROWDED),
            unknown_ports: (0..PORTS)
                .filter_map(|slot| self.unknown_port(slot))
                .collect(),
        }
    }

    fn unknown_port(&self, slot: usize) -> Option<(u16, u64)> {
        let load = |word| Some(self.unknown.word(slot, word)?.load(Ordering::Relaxed));
        // One more than the port; 0 where the place is free.
        let port = load(port_word::NAME)?.checked_sub(1)?;
        Some((u16::try_from(port).ok()?, load(port_word::FRAMES)?))
    }

    fn total(&self, word: usize) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        // The array has one value of as many words: `load` has checked it.
        self.totals.word(0, word).unwrap_or(&NONE)
    }
}

fn place(port: u16) -> (usize, u64) {
    (usize::from(port) / 64 % TAKEN, 1 << (port % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Word offsets of a structure's fields, as the header declares them: all are of 64 bits, one on a line.
    fn fields(structure: &str) -> Vec<&'static str> {
        let header = include_str!("../../bpf/programs/strays.h");
        let body = header.split(structure).nth(1).unwrap();
        let body = &body[..body.find("};").unwrap()];
        body.lines()
            .filter_map(|line| line.trim().strip_prefix("__u64 "))
            .map(|line| &line[..line.find(';').unwrap()])
            .collect()
    }

    #[test]
    fn the_layout_is_that_of_the_header() {
        let mut words = vec![""; word::COUNT];
        words[word::MAC] = "mac";
        words[word::PORT] = "port";
        words[word::TRUNCATED] = "truncated";
        words[word::WRONG_VERSION] = "wrong_version";
        words[word::CROWDED] = "crowded";
        assert_eq!(fields("struct rtw_strays {"), words);
        let mut words = vec![""; port_word::COUNT];
        words[port_word::NAME] = "name";
        words[port_word::FRAMES] = "frames";
        assert_eq!(fields("struct rtw_stray_port {"), words);
        let header = include_str!("../../bpf/programs/strays.h");
        for (name, value) in [
            ("RTW_STRAY_PORTS", PORTS as u64),
            ("RTW_STRAY_TAKEN", TAKEN as u64),
            ("RTW_STRAY_NO_PORT", NO_PORT),
        ] {
            assert!(
                header.contains(&format!("#define {name} {value}\n")),
                "{name}"
            );
        }
    }
}
