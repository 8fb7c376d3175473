//! The boot of a recorded network: each node of ours takes the place of a recorded one, frame by frame.

#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod capture;
mod controlled;
mod managing;
