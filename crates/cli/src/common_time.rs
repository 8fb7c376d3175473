//! The arguments of commands whose gates and launch times need the network's time, and the watch over it.

use std::path::PathBuf;

use clap::Args;
use rtwire_host::apply::Share;
use rtwire_host::clock::{self, ClockQuestion, CommonTime};
use rtwire_session::run::{ClockSource, NetworkTime};

/// A command's arguments about the network's time.
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
    /// The largest allowed offset of the clock from its master, in ns; by default that of the description
    /// (`clock-error`), otherwise 1000
    #[arg(long, value_name = "NS")]
    clock_limit: Option<u64>,
    /// This host is the grandmaster
    #[arg(long)]
    gives_time: bool,
}

impl TimeArguments {
    /// Returns the time that `interface` needs; `None` if the share needs no common time.
    pub(crate) fn for_share(&self, share: &Share, interface: &str) -> Option<CommonTime> {
        share.needs_common_time().then(|| CommonTime {
            question: self.question(share, interface),
            waived: self.no_sync,
        })
    }

    fn question(&self, share: &Share, interface: &str) -> ClockQuestion {
        ClockQuestion {
            socket: self.ptp_socket.clone(),
            domain: self.ptp_domain,
            limit_ns: self.clock_limit.unwrap_or(share.clock_limit_ns()),
            gives_time: self.gives_time,
            phc: clock::hardware_clock(interface),
            ..ClockQuestion::default()
        }
    }

    /// Returns the reason to believe that this host's clock is the network's: a ptp4l that says so now, else none.
    pub(crate) fn source(&self, share: &Share, interface: &str) -> ClockSource {
        let question = self.question(share, interface);
        match clock::state(&question).synchronised {
            true => ClockSource::Ptp(question),
            false => ClockSource::Unknown,
        }
    }
}

/// Runs `work` while watching the network's time. Returns its result with the looks.
pub(crate) fn watched<T>(common: &CommonTime, work: impl FnOnce() -> T) -> (T, NetworkTime) {
    let mut time = NetworkTime {
        waived: common.waived,
        ..NetworkTime::default()
    };
    let result = common.watch(&mut |missing| time.look(missing), work);
    (result, time)
}
