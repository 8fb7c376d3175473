//! Counts frames that no listener takes, in the filter of a listener's own socket.
//!
//! A second socket for the rest looks at every frame, which costs each good frame some 60 ns. A filter that counts
//! (`crates/bpf/programs/strays.bpf.c`) costs good frames nothing, because each socket has a filter anyway.

use rtwire_sys::bpf::{BpfError, BpfObject, MappedArray};
use rtwire_sys::filter::Filter;
use std::sync::atomic::{AtomicU64, Ordering};

const PROGRAM: &str = "count_strays";

/// Number of places for unknown ports; as in `crates/bpf/programs/strays.h`.
const PORTS: usize = 1024;
/// Number of 64-bit words with one bit for each port; as in `crates/bpf/programs/strays.h`.
const TAKEN: usize = 1024;
/// Value in place of a port if the socket takes nothing; as in `crates/bpf/programs/strays.h`.
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

/// Frames without a listener since the counter was created.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Strays {
    /// Frames shorter than their headers.
    pub truncated: u64,
    /// Frames of another version.
    pub wrong_version: u64,
    /// Frames for ports that [`StrayCounter::take`] was not called for: port and number of frames, in no order.
    pub unknown_ports: Vec<(u16, u64)>,
    /// Frames for unknown ports that were too many to be told apart.
    pub crowded: u64,
}

/// A filter program that counts frames that its process's listeners do not take. One socket at a time carries it.
///
/// Needs CAP_BPF (or root) and Linux 5.11. Opening loads a program. Everything else makes no system call and may be
/// called anywhere but in the real-time loop.
#[derive(Debug)]
pub struct StrayCounter {
    filter: Filter,
    totals: MappedArray,
    taken: MappedArray,
    unknown: MappedArray,
}

impl StrayCounter {
    /// Loads the program for an interface with the hardware address `mac`.
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

    /// Returns the program as a filter for the socket that is to carry it.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Sets the port whose frames the carrying socket takes; `None` for none.
    pub fn carry(&self, port: Option<u16>) {
        let port = port.map_or(NO_PORT, u64::from);
        self.total(word::PORT).store(port, Ordering::Release);
    }

    /// Marks `port` as owned by a listener.
    pub fn take(&self, port: u16) {
        let (word, bit) = place(port);
        if let Some(word) = self.taken.word(word, 0) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Marks `port` as free again.
    pub fn give_back(&self, port: u16) {
        let (word, bit) = place(port);
        if let Some(word) = self.taken.word(word, 0) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Returns the counters so far.
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
        // The field holds the port plus one; 0 marks a free place.
        let port = load(port_word::NAME)?.checked_sub(1)?;
        Some((u16::try_from(port).ok()?, load(port_word::FRAMES)?))
    }

    fn total(&self, word: usize) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        // `load` has checked that the array has one value of this many words.
        self.totals.word(0, word).unwrap_or(&NONE)
    }
}

fn place(port: u16) -> (usize, u64) {
    (usize::from(port) / 64 % TAKEN, 1 << (port % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fields of a structure in the header's order; all have 64 bits, one on each line.
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
