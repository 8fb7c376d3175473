//! Is this computer ready? The host's own settings: examined, changed, read back, put back.
//!
//! ```text
//!   doctor ──► findings, each with its remedy        apply ──► a plan's share, prepared and carried out
//!                  │                                    │
//!   change ──► difference ──► undo record, write, read back … or everything back
//!                  │
//!   Netlink ──► links, addresses, queues, driver settings;  Files ──► /proc, /sys
//!                  │
//!   Namespace ── run(|| …) ──► a thread inside that network namespace
//! ```
//!
//! Everything speaks netlink through typed bindings generated from the kernel's own descriptions. So a refusal has the
//! kernel's own sentence, and no command output is parsed.
//!
//! Limits: if another program changes a setting while ours is in force, putting back restores the value before ours.
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
