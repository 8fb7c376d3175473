//! Managing and controlled nodes together, in virtual time.

#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod boot;
mod clients;
mod contract;
mod cross;
mod errors;
mod faults;
mod harness;
mod large;
mod launch;
mod parameters;
mod pdos;
mod peers;
mod port;
mod safety;
mod service;
mod slots;
mod strangers;
mod validity;
