//! A real `ptp4l` in a namespace, for tests of what hangs on the network's time.

use std::fs;
use std::process::{Child, Command, Stdio};

use rtwire_testkit::Side;

/// A daemon; killed when dropped.
pub(crate) struct Ptp {
    child: Child,
    pub(crate) socket: String,
}

impl Ptp {
    /// Both ends are on one machine with one clock, so there is nothing to set: the servo may turn it by a billionth. With its
    /// usual constants for software stamps it looks at the clock for 16 s before it calls it followed.
    pub(crate) fn start(side: &Side, folder: &std::path::Path, name: &str, more: &str) -> Self {
        let socket = folder.join(format!("{name}.socket"));
        let socket = socket.to_str().unwrap().to_owned();
        let file = folder.join(format!("{name}.conf"));
        let text = format!(
            "[global]\ntime_stamping software\nnetwork_transport L2\nmax_frequency 1\nstep_threshold 0\n\
             first_step_threshold 0\nlogAnnounceInterval -2\nlogSyncInterval -3\nlogMinDelayReqInterval -3\n\
             announceReceiptTimeout 3\n\
             pi_proportional_const 0.7\npi_integral_const 0.3\nuds_address {socket}\n{more}\n"
        );
        fs::write(&file, text).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", &side.namespace, "ptp4l", "-f"])
            .arg(&file)
            .args(["-i", &side.interface])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, socket }
    }
}

impl Drop for Ptp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
