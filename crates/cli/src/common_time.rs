//! Gates and launch times mean something only where all hosts have one time: asked for before, and watched meanwhile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rtwire_host::apply::Share;
use rtwire_host::clock::{self, ClockQuestion, ClockState};
use rtwire_host::netlink::Netlink;
use rtwire_session::run::NetworkTime;

/// What a command is told of the network's time.
#[derive(Args)]
pub(crate) struct TimeArguments {
    /// Go on without a common time where the plan needs one; every result says so
    #[arg(long)]
    no_sync: bool,
    /// The management socket of ptp4l, where the plan needs a common time
    #[arg(long, value_name = "PATH", default_value = clock::DEFAULT_SOCKET)]
    ptp_socket: PathBuf,
    /// The PTP domain
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    ptp_domain: u8,
    /// How far the clock may be from its master, in ns; by default what the description allows (`clock-error`), else 1000
    #[arg(long, value_name = "NS")]
    clock_limit: Option<u64>,
    /// This host is the grandmaster
    #[arg(long)]
    gives_time: bool,
}

/// The network's time, for one host's share of a plan that needs it.
pub(crate) struct CommonTime {
    question: ClockQuestion,
    /// Go on without.
    pub(crate) waived: bool,
}

impl TimeArguments {
    /// `None` where nothing of the share hangs on a common time.
    pub(crate) fn for_share(&self, share: &Share, interface: &str) -> Option<CommonTime> {
        if !share.needs_common_time() {
            return None;
        }
        let planned = Some(share.clock_error_ns).filter(|ns| *ns > 0);
        let default = ClockQuestion::default();
        Some(CommonTime {
            question: ClockQuestion {
                socket: self.ptp_socket.clone(),
                domain: self.ptp_domain,
                limit_ns: self.clock_limit.or(planned).unwrap_or(default.limit_ns),
                gives_time: self.gives_time,
                phc: Netlink::new()
                    .time_stamping(interface)
                    .ok()
                    .and_then(|found| found.phc),
                ..default
            },
            waived: self.no_sync,
        })
    }
}

impl CommonTime {
    /// Why this host has not the network's time now; `None` if it has.
    pub(crate) fn missing(&self) -> Option<String> {
        let ClockState {
            synchronised,
            reasons,
            ..
        } = clock::state(&self.question);
        (!synchronised).then(|| reasons.join("; "))
    }

    /// Looks every second, from now until `work` is done, and once more then.
    pub(crate) fn watched<T: Send>(&self, work: impl FnOnce() -> T) -> (T, NetworkTime) {
        let over = AtomicBool::new(false);
        let mut time = NetworkTime {
            waived: self.waived,
            ..NetworkTime::default()
        };
        let result = thread::scope(|scope| {
            let (over, time) = (&over, &mut time);
            scope.spawn(move || {
                const EVERY: Duration = Duration::from_secs(1);
                loop {
                    let last = over.load(Ordering::Relaxed);
                    time.look(self.missing());
                    let start = Instant::now();
                    while start.elapsed() < EVERY && !over.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(20));
                    }
                    if last {
                        break;
                    }
                }
            });
            let result = work();
            over.store(true, Ordering::Relaxed);
            result
        });
        (result, time)
    }
}
