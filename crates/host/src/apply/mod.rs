//! A host's share of a plan, as settings.
//!
//! ```text
//!   Network, Plan ──► Share ──┐
//!                             ├─► Configuration: settings wanted, what is missing, notes   (pure)
//!   this host ────► Present ──┘          │
//!                                     prepare ──► Prepared: the report, shown first
//!                                                    │ carry_out
//!                                        checks, undo record, guardian, changes: all or nothing
//! ```
//!
//! The settings go through [`crate::change`]: difference, record, write, read back, put back.
//!
//! ```no_run
//! use rtwire_host::apply::{Choices, Keep, Share, prepare};
//! use rtwire_host::change::default_directory;
//!
//! # fn example(share: &Share) -> Result<(), rtwire_host::apply::ApplyRefusal> {
//! let prepared = prepare(share, "eth1", &Choices::default(), None)?;
//! for change in &prepared.report().changes {
//!     println!("would change {}", change.show());
//! }
//! let applied = prepared.carry_out(&default_directory(), "an agent", Keep::Always, &mut |_, _| {})?;
//! println!("{} setting(s) changed", applied.made);
//! # Ok(())
//! # }
//! ```

mod choices;
mod configuration;
mod configure;
mod credit;
mod gather;
mod isolation;
mod prepare;
mod present;
mod queues;
mod receive;
mod refusal;
mod report;
mod share;
#[cfg(test)]
mod tests;
mod time;

pub use choices::{Choices, Isolation, Mechanism};
pub use configuration::{Configuration, Lack};
pub use configure::{configure, vlan_name};
pub use gather::gather;
pub use isolation::namespace_name;
pub use prepare::{Applied, Keep, Prepared, prepare};
pub use present::Present;
pub use refusal::ApplyRefusal;
pub use report::{Report, json_schema};
pub use share::{Credit, Limit, Share, ShareError, SharedStream, share};
