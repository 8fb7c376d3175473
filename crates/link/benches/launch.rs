//! Launch errors: the distance of frames from their launch time. Compares frames of ETF (path `launch`) with those of
//! a sender that sleeps until the instant (`clock_nanosleep`) and sends then. Both are measured idle and under load;
//! the kernel stamps the frames where they arrive.
//!
//! Needs a kernel with sch_etf, which few machines have. `make bench-host` runs it in the kernel lab: in virtual
//! time, where it is repeatable, and in real time. Prints its rows as JSON, each behind `@@ row `. Options: `--frames
//! N`; `--label TEXT` (appears in each row).
#![allow(clippy::unwrap_used)]

#[path = "launch/guest.rs"]
mod guest;

fn main() {
    guest::main(&std::env::args().collect::<Vec<_>>());
}
