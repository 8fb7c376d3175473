//! When does each frame of a time-triggered stream leave each port?
//!
//! ```text
//! profile    what gates can do, what the description asks for
//! gates      the outcome: lists of gate states, launch offsets, windows
//! ```

pub mod gates;
pub mod profile;
