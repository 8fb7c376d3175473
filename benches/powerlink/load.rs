//! Load on the machine: hackbench, whose threads wake each other as fast as they can.

use std::process::{Child, Command, Stdio};

/// Groups of 40 threads each, as in the measurement of the other stack.
const GROUPS: &str = "4";

/// Load until it is dropped.
pub(crate) struct Load {
    hackbench: Child,
}

impl Load {
    /// Starts the load. All threads belong to one process, so that they end with it.
    pub(crate) fn start() -> Self {
        let hackbench = Command::new("hackbench")
            .args(["--threads", "-g", GROUPS, "-l", "1000000000"])
            .stdout(Stdio::null())
            .spawn()
            .expect("hackbench is there: `scripts/setup bench` installs it");
        Self { hackbench }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.hackbench.kill();
        let _ = self.hackbench.wait();
    }
}
