//! Does this host share the network's time? Asked of `ptp4l` over its management socket, and of the clocks themselves.
//!
//! ```text
//!   ptp4l ──(UNIX socket, rtwire_wire::ptp)──► Daemon: offset, ports, grandmaster, UTC offset
//!   kernel ─────────────────────────────────► SystemClock: TAI offset, distance to the interface's clock
//!                                                   │
//!                                           ClockState: synchronised, or why not
//! ```

mod ask;
mod common;
mod daemon;
mod judge;
mod record;
mod state;

pub use ask::{hardware_clock, state, system};
pub use common::CommonTime;
pub use daemon::{ClockError, daemon};
pub use judge::judge;
pub use record::keep;
pub use state::{
    ClockQuestion, ClockState, DEFAULT_SOCKET, Daemon, DaemonPort, SystemClock, json_schema,
};
