//! POWERLINK frames: golden octets from a recorded network, laws, arbitrary bytes, and a second opinion from tshark.

#![allow(clippy::unwrap_used)]

mod capture;
mod dissector;
mod golden;
mod laws;
