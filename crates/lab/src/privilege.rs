//! The privileges that a lab needs: checked first, and named if missing.

use std::fs;

use crate::LabError;

/// The capabilities that a lab uses, with their numbers in the kernel's interface.
const NEEDED: [(&str, u32); 6] = [
    ("CAP_NET_ADMIN", 12),
    ("CAP_NET_RAW", 13),
    ("CAP_IPC_LOCK", 14),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_SYS_NICE", 23),
    ("CAP_BPF", 39),
];

/// Checks that this process has every capability that a lab uses.
///
/// # Errors
/// [`LabError::Privilege`] with the names of the missing ones.
pub(crate) fn check() -> Result<(), LabError> {
    let status = fs::read_to_string("/proc/self/status")?;
    let effective = effective(&status).unwrap_or(0);
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(_, bit)| effective & (1 << bit) == 0)
        .map(|(name, _)| *name)
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(LabError::Privilege {
            missing: missing.join(", "),
        })
    }
}

fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read_from_the_status() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
        assert_eq!(effective(status), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("Name:\tx\n"), None);
    }
}
