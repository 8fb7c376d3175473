//! The records that the emulated ports share with the kernel program (`crates/bpf/programs/switch_port.h`), in the
//! same order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtwire_sys::bpf::MappedArray;

/// Number of words of a `struct rtw_port`.
pub(crate) const PORT_WORDS: usize = Field::LeftFrames as usize + 1;
/// Number of words of a `struct rtw_pool`.
pub(crate) const POOL_WORDS: usize = 6;
/// The fields of `struct rtw_port`, by word.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
#[allow(dead_code, reason = "the program's own fields keep their places")]
pub(crate) enum Field {
    LimitBytes,
    LimitFrames,
    Pool,
    ClassOf,
    OverheadBytes,
    ForwardsOnly,
    QueuedBytes,
    QueuedFrames,
    MaxFrames,
    MaxBytes,
    WindowBytes,
    AcceptedFrames,
    AcceptedBytes,
    WireBytes,
    DroppedFrames,
    LeftFrames,
}

/// The names of the fields in the header.
#[cfg(test)]
pub(crate) const FIELD_NAMES: [&str; 16] = [
    "limit_bytes",
    "limit_frames",
    "pool",
    "class_of",
    "overhead_bytes",
    "forwards_only",
    "queued_bytes",
    "queued_frames",
    "max_frames",
    "max_bytes",
    "window_bytes",
    "accepted_frames",
    "accepted_bytes",
    "wire_bytes",
    "dropped_frames",
    "left_frames",
];

/// Typed access to the mapped records.
#[derive(Clone)]
pub(crate) struct PortRecords {
    ports: Arc<MappedArray>,
    pools: Arc<MappedArray>,
}

impl PortRecords {
    pub(crate) fn new(ports: MappedArray, pools: MappedArray) -> Self {
        Self {
            ports: Arc::new(ports),
            pools: Arc::new(pools),
        }
    }

    /// Returns a field of a port; 0 if the port does not exist.
    pub(crate) fn get(&self, port: usize, field: Field) -> u64 {
        self.ports
            .word(port, field as usize)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, port: usize, field: Field, value: u64) {
        if let Some(word) = self.ports.word(port, field as usize) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Returns the highest backlog since the last call, and starts a new window at the current one.
    pub(crate) fn take_window(&self, port: usize) -> u64 {
        let now = self.get(port, Field::QueuedBytes);
        self.ports
            .word(port, Field::WindowBytes as usize)
            .map_or(0, |word| word.swap(now, Ordering::Relaxed))
            .max(now)
    }

    /// Resets the counters, but neither the settings nor the current backlog.
    pub(crate) fn reset(&self, port: usize) {
        for field in [
            Field::MaxBytes,
            Field::MaxFrames,
            Field::WindowBytes,
            Field::AcceptedBytes,
            Field::WireBytes,
            Field::DroppedFrames,
        ] {
            self.set(port, field, 0);
        }
    }

    /// Sets the size of a shared pool, in bytes and in frames (0: no limit).
    pub(crate) fn set_pool(&self, pool: usize, limit_bytes: u64, limit_frames: u64) {
        for (word, limit) in [(0, limit_bytes), (3, limit_frames)] {
            if let Some(word) = self.pools.word(pool, word) {
                word.store(limit, Ordering::Relaxed);
            }
        }
    }

    /// Returns the highest use of a shared pool, bytes.
    #[cfg(test)]
    pub(crate) fn pool_max(&self, pool: usize) -> u64 {
        self.pools
            .word(pool, 2)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use libbpf_rs::btf::types::{MemberAttr, Struct};
    use libbpf_rs::btf::{Btf, BtfType};

    use super::*;

    #[test]
    fn the_layout_is_that_of_the_kernel_program() {
        let object = Path::new(rtwire_bpf::SWITCH.built_at);
        let btf = Btf::from_path(object).unwrap();
        let port: Struct<'_> = btf.type_by_name("rtw_port").unwrap();
        let members: Vec<(String, u32)> = port
            .iter()
            .map(|member| {
                let MemberAttr::Normal { offset } = member.attr else {
                    panic!("a bit field among the members");
                };
                (member.name.unwrap().to_str().unwrap().to_owned(), offset)
            })
            .collect();
        let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, FIELD_NAMES);
        for (word, (name, offset_bits)) in (0_u32..).zip(&members) {
            assert_eq!(*offset_bits, word * 64, "field {name}");
        }
        assert_eq!(FIELD_NAMES.len(), PORT_WORDS);
        let _ = BtfType::type_id(&port);
    }
}
