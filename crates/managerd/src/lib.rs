//! Where does the manager of a network run, and how does a host ask it?
//!
//! The state machines of `rtwire-manager` on a real host: a store that lasts, key files, the UDP service, and the
//! client's question.
//!
//! ```text
//! keys/HOST.key --> Service <--UDP--> Asker <-- a program
//!                     | group of changes, synced, before their answers
//!                     v
//!                   Store (state/manager.redb, or etcd), state/plan.json: the newest epoch
//! ```
//!
//! ```no_run
//! use std::{path::Path, time::Duration};
//! use rtwire_manager::Question;
//! use rtwire_managerd::{Asker, read_key};
//!
//! let key = read_key(Path::new("keys/press.key"))?;
//! let mut asker = Asker::new(&["10.0.0.1:4433".parse()?], "press", key)?;
//! let question = Question::List { request: Asker::request()?, after: 0 };
//! println!("{:?}", asker.ask(&question, Duration::from_secs(2))?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: one manager at a time changes a store; with etcd, others stand by. A store in a file survives a crash of the
//! process at any moment; the loss of power is left to the disk's own promise about synced data. A lost disk is covered by
//! etcd only.

mod addresses;
mod ask;
mod epochs;
mod error;
mod etcd;
mod file_store;
mod keys;
mod service;
mod status;
mod store;
mod times;

pub use addresses::Addresses;
pub use ask::Asker;
pub use error::ManagerdError;
pub use etcd::{EtcdAddress, EtcdStore};
pub use file_store::FileStore;
pub use keys::{key_path, make_key, random, read_key};
pub use service::{Service, ServiceSettings, Told, plan_path};
pub use status::{LinkStatus, ManagerStatus, status_schema, write_status};
pub use store::Store;
pub use times::{NewestTimes, Times};
