//! How far from its launch time does a frame leave? Frames of ETF (path `launch`) beside those of a sender that sleeps to the
//! instant (`clock_nanosleep`) and sends then; idle and under load; stamped by the kernel where they arrive.
//!
//! Needs a kernel with sch_etf, which few machines have: `make bench-host` runs it in the kernel lab, in virtual time, where it
//! repeats, and in real time. Prints its rows as JSON, each behind `@@ row `. `--frames N`, `--label TEXT` (goes into each row).
#![allow(clippy::unwrap_used)]

#[path = "launch/guest.rs"]
mod guest;

fn main() {
    guest::main(&std::env::args().collect::<Vec<_>>());
}
