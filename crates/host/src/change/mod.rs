//! One setting of this host: what it is, what it should be, how it is put back.
//!
//! ```text
//!   Wanted (subject, value) … ──► difference (pure) ◄── present values
//!                                     │
//!                                  Change … ──► transaction: record, write, read back ──► applied
//!                                     ▲                    │ any failure, or no confirmation (guardian)
//!                                     └──── undo record ◄──┘
//! ```
//!
//! Every kind of setting has the same four verbs: read, write, show, and the command a person would type. All else
//! (difference, roll-back, undo record, dry run) is written once, over those.
//!
//! | file | about |
//! |---|---|
//! | `setting` | subjects, values, changes: data, and the difference |
//! | `command` | settings in words, and as command lines |
//! | `operate`, `place`, `addresses`, `frames`, `queues` | reading and writing one setting |
//! | `foresee` | the changes that the present state asks for |
//! | `transaction` | all changes or none, and all of them back |
//! | `record`, `leftover` | the undo record on the disk, and those that nobody finished |
//! | `confirm`, `guardian` | changes that stay only if somebody says so in time |

mod addresses;
mod command;
mod confirm;
mod foresee;
mod frames;
pub mod guardian;
mod leftover;
mod operate;
mod place;
mod queues;
mod record;
mod setting;
mod transaction;

pub use addresses::Kept;
pub use confirm::{ConfirmError, confirm};
pub use foresee::{foreseen, pending};
pub use leftover::Leftover;
pub use operate::{read, write};
pub use record::{Header, Record, RecordError, State, default_directory};
pub use setting::{Change, Ipv6, Subject, Value, Wanted, difference};
pub use transaction::{ApplyError, GivenUp, Progress, Whereabouts, apply, revert, revert_by_force};
