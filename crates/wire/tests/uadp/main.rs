//! UADP messages: recorded ones and what another decoder read in them, golden octets, laws, arbitrary bytes.

#![allow(clippy::unwrap_used)]

mod capture;
mod damage;
mod fixed;
mod golden;
mod laws;
mod messages;
mod values;
