//! How does one plan come to all hosts?
//!
//! A host's [`Door`] carries out the orders of whoever holds the host's key. A deployer asks all doors of a network:
//!
//! ```text
//! deployer                                       door of each host
//! Remote::connect  --hello, nonce-->
//!                  <--nonce, MAC--               it has the key
//! show, all hosts  --plan, MAC-->                what would change; nothing is changed
//! apply, all hosts --plan, MAC-->                applied and read back; put back by itself unless it is confirmed
//! confirm, all     --MAC-->                      kept
//! ```
//!
//! [`deploy`] confirms nothing before every host has applied and read back. So a host that refuses, dies or does not answer,
//! and a deployer that dies, leave every host as it was: each puts its settings back by itself.
//!
//! Limits: confirmations are messages of their own. One that is lost after another was taken leaves some hosts with the new
//! plan and others with the old one, until the deployment is repeated. No protocol can exclude that; it is reported by name.

mod deploy;
mod door;
mod error;
#[cfg(any(test, feature = "fuzzed-parsers"))]
pub mod fuzzed;
mod line;
mod order;
mod remote;

pub use deploy::{Asked, Host, Outcome, ask_all, deploy};
pub use door::{Door, DoorSettings, Told};
pub use error::DeployError;
pub use order::{Order, Reply};
pub use remote::Remote;
