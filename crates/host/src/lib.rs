//! Is this computer ready? The host's own settings: namespaces, links, neighbours, queues.
//!
//! ```text
//!   Namespace ── run(|| …) ──► a thread inside that network namespace
//!                                   │
//!                                Netlink ──► links, bridges, addresses, neighbours (links)
//!                                        └─► rate, classes, limits            (queues)
//! ```
//!
//! Everything speaks netlink through typed bindings generated from the kernel's own descriptions, so a
//! refusal comes back with the kernel's sentence and nothing is parsed from command output.
//!
//! Limits: this version sets up what the lab needs (bridge, veth, HTB, static tables); readiness checks,
//! read-back and roll-back of a real host are not here yet.
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

mod error;
mod namespace;
pub mod napi;
pub mod netlink;
pub mod programs;

pub use error::HostError;
pub use namespace::Namespace;
