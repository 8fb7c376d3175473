//! Load beside the senders: a busy thread on each core, and hackbench where it is installed.

use std::process::{Child, Command, Stdio};

use rtwire_benches::busy::Busy;

/// Load until it is dropped.
pub(crate) struct Load {
    _busy: Busy,
    hackbench: Option<Child>,
}

impl Load {
    pub(crate) fn start() -> Self {
        // Threads of one process, so that all end with it.
        let hackbench = Command::new("hackbench")
            .args(["--threads", "-g", "1", "-l", "1000000000"])
            .stdout(Stdio::null())
            .spawn();
        Self {
            _busy: Busy::start(),
            hackbench: hackbench.ok(),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(hackbench) = &mut self.hackbench {
            let _ = hackbench.kill();
            let _ = hackbench.wait();
        }
    }
}
