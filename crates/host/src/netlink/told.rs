//! The kernel's description of a discipline: in the form that it accepts, and without what changes by itself.
//!
//! For some kinds the kernel's report is not the form in which it takes a discipline. Sent back as it came, such a report is
//! refused, or makes another discipline.

use super::attributes::{Writer, each, find, u32_at};

/// `struct tc_mqprio_qopt`, of which byte 17 is true where the hardware keeps the classes.
const MQPRIO_BYTES: usize = 82;
const MQPRIO_HARDWARE: usize = 17;
/// `struct tc_sfq_qopt_v1` without the counters at its end.
const SFQ_SETTINGS: usize = 48;

/// Returns a discipline's report as the kernel accepts it.
pub(super) fn told(kind: &str, raw: Vec<u8>) -> Vec<u8> {
    match kind {
        "htb" => htb(&raw),
        // Since Linux 6.4 the report has an attribute for each class, which only hardware takes back.
        "mqprio" if raw.get(MQPRIO_HARDWARE) == Some(&0) => {
            raw.get(..MQPRIO_BYTES).map_or(raw.clone(), <[u8]>::to_vec)
        }
        "fq_codel" => fq_codel(&raw),
        "sfq" => sfq(raw),
        _ => raw,
    }
}

/// Returns a discipline's report without counters and padding: equal for disciplines that `tc` shows as equal.
pub(super) fn settings(kind: &str, raw: &[u8]) -> Vec<u8> {
    match kind {
        "sfq" => raw.get(..SFQ_SETTINGS).unwrap_or(raw).to_vec(),
        _ => raw.to_vec(),
    }
}

/// HTB reports its whole version and expects half of it.
fn htb(raw: &[u8]) -> Vec<u8> {
    const INIT: u16 = 2;
    const DIRECT_QUEUE_LENGTH: u16 = 5;
    const VERSION: u32 = 3;
    let mut init = find(raw, INIT).unwrap_or_default().to_vec();
    if let Some(version) = init.get_mut(..4) {
        version.copy_from_slice(&VERSION.to_ne_bytes());
    }
    let told = Writer::default().bytes(INIT, &init);
    match find(raw, DIRECT_QUEUE_LENGTH) {
        Some(length) => told.bytes(DIRECT_QUEUE_LENGTH, length).finish(),
        None => told.finish(),
    }
}

/// SFQ has 128 flows and a limit of 127 frames where neither is told. A limit that is told cuts the number of flows down to
/// it, so a limit below that number was never told.
fn sfq(mut raw: Vec<u8>) -> Vec<u8> {
    const LIMIT: usize = 8;
    const FLOWS: usize = 16;
    if u32_at(&raw, FLOWS) > u32_at(&raw, LIMIT) {
        if let Some(limit) = raw.get_mut(LIMIT..LIMIT + 4) {
            limit.fill(0);
        }
    }
    raw
}

/// `fq_codel` keeps its times in units of 1024 ns and reports whole microseconds, rounded down. Sent back, 4999 would become
/// 4998.
fn fq_codel(raw: &[u8]) -> Vec<u8> {
    const TARGET: u16 = 1;
    const INTERVAL: u16 = 3;
    const CE_THRESHOLD: u16 = 7;
    let mut told = Writer::default();
    for (kind, value) in each(raw) {
        told = match (kind, u32_at(value, 0)) {
            (TARGET | INTERVAL | CE_THRESHOLD, Some(reported_us)) => {
                told.u32(kind, fq_codel_us(reported_us))
            }
            _ => told.bytes(kind, value),
        };
    }
    told.finish()
}

/// Returns the microseconds to send so that the kernel reports these.
fn fq_codel_us(reported_us: u32) -> u32 {
    // The least number of units that is reported so, and the least number of microseconds that makes as many units.
    let units = (u64::from(reported_us) * 1000).div_ceil(1024);
    u32::try_from((units * 1024).div_ceil(1000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `codel_time_to_us` and its inverse in `net/sched/sch_fq_codel.c`.
    fn kernel_reports(told_us: u32) -> u32 {
        let units = (u64::from(told_us) * 1000) >> 10;
        u32::try_from((units << 10) / 1000).unwrap()
    }

    #[test]
    fn only_hardware_is_told_the_attributes_of_classes() {
        let struct_only: Vec<u8> = (0..82).map(|at| u8::from(at < 17)).collect();
        let whole = |hardware| {
            let mut bytes = struct_only.clone();
            bytes[MQPRIO_HARDWARE] = hardware;
            bytes.resize(84, 0);
            [bytes, Writer::default().u32(5, 7).finish()].concat()
        };
        assert_eq!(told("mqprio", whole(0)), struct_only);
        assert_eq!(told("mqprio", whole(1)), whole(1));
    }

    #[test]
    fn flows_of_sfq_come_back_as_reported() {
        /// `sfq_init` and `sfq_change` in `net/sched/sch_sfq.c`, as far as limit and flows go.
        fn kernel_reports(limit: u32, flows: u32) -> (u32, u32) {
            let flows = if flows > 0 { flows.min(65_408) } else { 128 };
            match limit {
                0 => (127, flows),
                limit => (limit.min(127 * flows), flows.min(limit.min(127 * flows))),
            }
        }
        for (limit, flows) in [(0, 0), (0, 300), (50, 0), (5_000, 200), (127, 128), (1, 1)] {
            let (limit, flows) = kernel_reports(limit, flows);
            let mut raw = vec![0; 72];
            raw[8..12].copy_from_slice(&limit.to_ne_bytes());
            raw[16..20].copy_from_slice(&flows.to_ne_bytes());
            let told = told("sfq", raw);
            let told = (u32_at(&told, 8).unwrap(), u32_at(&told, 16).unwrap());
            assert_eq!(kernel_reports(told.0, told.1), (limit, flows));
        }
    }

    #[test]
    fn counters_are_no_settings() {
        let with = |counter: u8| [vec![9; SFQ_SETTINGS], vec![counter; 24]].concat();
        assert_eq!(settings("sfq", &with(0)), settings("sfq", &with(7)));
        assert_ne!(settings("other", &with(0)), settings("other", &with(7)));
    }

    proptest! {
        #[test]
        fn times_of_fq_codel_come_back_as_reported(asked_us in 0..10_000_000_u32) {
            let reported = kernel_reports(asked_us);
            prop_assert_eq!(kernel_reports(fq_codel_us(reported)), reported);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            for kind in ["htb", "mqprio", "fq_codel", "sfq", "other"] {
                let _ = settings(kind, &bytes);
                let _ = told(kind, bytes.clone());
            }
        }
    }
}
