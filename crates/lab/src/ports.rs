//! The records that the emulated ports share with the kernel program (`crates/bpf/programs/switch_port.h`), in the
//! same order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtwire_sys::bpf::MappedArray;

/// Number of buckets of the lateness histogram.
pub(crate) const LATENESS_BUCKETS: usize = 64;
/// Width of a bucket, ns.
pub(crate) const LATENESS_STEP_NS: u64 = 8_000;
/// Number of words of a `struct rtw_port`.
pub(crate) const PORT_WORDS: usize = Field::Lateness as usize + LATENESS_BUCKETS;
/// Number of words of a `struct rtw_pool`.
pub(crate) const POOL_WORDS: usize = 6;
/// Number of frames in a port whose lateness is followed (ring entries of a port).
pub(crate) const FOLLOWED_FRAMES: u32 = 2048;

/// The fields of `struct rtw_port`, by word.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
#[allow(dead_code, reason = "the program's own fields keep their places")]
pub(crate) enum Field {
    LimitBytes,
    LimitFrames,
    Pool,
    Queues,
    OverheadBytes,
    ByteTime,
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
    BusyUntilNs,
    LatenessMaxNs,
    EarlinessMaxNs,
    LatenessFrames,
    Lateness,
}

/// The names of the fields in the header. The last one is the first word of an array.
#[cfg(test)]
pub(crate) const FIELD_NAMES: [&str; 22] = [
    "limit_bytes",
    "limit_frames",
    "pool",
    "queues",
    "overhead_bytes",
    "byte_time",
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
    "busy_until_ns",
    "lateness_max_ns",
    "earliness_max_ns",
    "lateness_frames",
    "lateness",
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

    /// Returns the lateness histogram: the number of frames in each step of [`LATENESS_STEP_NS`].
    pub(crate) fn lateness(&self, port: usize) -> Vec<u64> {
        (0..LATENESS_BUCKETS)
            .map(|bucket| {
                self.ports
                    .word(port, Field::Lateness as usize + bucket)
                    .map_or(0, |word| word.load(Ordering::Relaxed))
            })
            .collect()
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
            Field::LatenessMaxNs,
            Field::EarlinessMaxNs,
            Field::LatenessFrames,
        ] {
            self.set(port, field, 0);
        }
        for bucket in 0..LATENESS_BUCKETS {
            if let Some(word) = self.ports.word(port, Field::Lateness as usize + bucket) {
                word.store(0, Ordering::Relaxed);
            }
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
        assert_eq!(FIELD_NAMES.len(), Field::Lateness as usize + 1);
        let _ = BtfType::type_id(&port);
    }

    #[test]
    fn the_numbers_are_those_of_the_header() {
        let header = include_str!("../../bpf/programs/switch_port.h");
        for (name, value) in [
            ("RTW_LATENESS_BUCKETS", LATENESS_BUCKETS as u64),
            ("RTW_LATENESS_STEP_NS", LATENESS_STEP_NS),
            ("RTW_FOLLOWED_FRAMES", FOLLOWED_FRAMES.into()),
        ] {
            assert!(
                header.contains(&format!("#define {name} {value}\n")),
                "{name}"
            );
        }
    }
}
