//! Processes, as the kernel lists them.

/// A signal that a program may catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, Ctrl-C.
    Interrupt = 2,
    /// SIGTERM.
    Terminate = 15,
}

/// True if a process has a handler for a signal by now. A process that has ended and was not waited for has none.
///
/// # Panics
/// There is no such process.
#[must_use]
pub fn catches(process: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    let status = status.expect("a process that was not waited for is listed");
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .expect("proc(5) has SigCgt");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("proc(5): a mask in hexadecimal");
    // Signal 1 is the lowest bit.
    caught >> (signal as u32 - 1) & 1 != 0
}
