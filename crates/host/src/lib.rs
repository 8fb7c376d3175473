//! Is this computer ready? The host's own settings: examined, changed, read back, put back.
//!
//! ```text
//!   doctor ──► findings, each with what would change it
//!                  │
//!   change ──► difference ──► undo record, write, read back … or everything back
//!                  │
//!   Netlink ──► links, addresses, queues, driver settings;  Files ──► /proc, /sys
//!                  │
//!   Namespace ── run(|| …) ──► a thread inside that network namespace
//! ```
//!
//! Everything speaks netlink through typed bindings generated from the kernel's own descriptions, so a
//! refusal comes back with the kernel's sentence and nothing is parsed from command output.
//!
//! Limits: a setting that another program changes while ours are in force is put back to what it was before ours.
//!
//! ```no_run
//! use rtwire_host::{Namespace, netlink::Netlink};
//!
//! # fn main() -> Result<(), rtwire_host::HostError> {
//! let namespace = Namespace::create("rtw-example")?;
//! namespace.run(|| Netlink::new().set_up("lo"))??;
//! namespace.delete()?;
//! # Ok(())
//! # }
//! ```

pub mod apply;
pub mod change;
pub mod clock;
pub mod doctor;
mod error;
pub mod files;
mod namespace;
pub mod napi;
pub mod netlink;
pub mod programs;

pub use error::HostError;
pub use namespace::Namespace;
